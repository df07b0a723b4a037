//! Documents can be found, and their links lead somewhere.

use std::path::Path;

use crate::tree::{self, TextFile};
use crate::verdict::assert_none;

/// Where a reader begins; everything in `docs/` is linked from one of these.
const ENTRANCES: &[&str] = &["README.md", "ARCHITECTURE.md"];

/// Every document in `docs/` is linked from an entrance.
#[test]
fn every_document_is_linked() {
    let files = tree::text_files();
    let linked: Vec<String> =
        files.iter().filter(|f| ENTRANCES.contains(&f.path.as_str())).flat_map(|f| link_targets(&f.text)).collect();
    let complaints: Vec<String> = files
        .iter()
        .filter(|f| is_document(f) && !linked.contains(&f.path))
        .map(|f| format!("{}: link it from one of {ENTRANCES:?}", f.path))
        .collect();
    assert_none("every document is linked from where readers begin", &complaints);
}

/// Every relative link in a document leads to a file or directory of the repository.
#[test]
fn links_lead_somewhere() {
    let mut complaints = Vec::new();
    for file in tree::text_files().iter().filter(|f| f.path.ends_with(".md")) {
        let directory = Path::new(&file.path).parent().unwrap_or(Path::new(""));
        for target in link_targets(&file.text) {
            let path = target.split('#').next().unwrap_or_default();
            if !path.is_empty() && !tree::root().join(directory).join(path).exists() {
                complaints.push(format!("{}: `{target}` is not there; correct the link", file.path));
            }
        }
    }
    assert_none("links between documents lead somewhere", &complaints);
}

fn is_document(file: &TextFile) -> bool {
    file.path.strip_prefix("docs/").is_some_and(|name| !name.contains('/') && name.ends_with(".md"))
}

/// The targets of inline links, web addresses left out.
fn link_targets(markdown: &str) -> Vec<String> {
    markdown
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split_once(')'))
        .map(|(target, _)| target.to_owned())
        .filter(|target| !target.contains("://") && !target.contains(char::is_whitespace))
        .collect()
}
