//! A key is hashed once per operation, at the interface's edge.
//!
//! A lookup's digest is made with its `Query`, by whoever takes the key from a user; below, queries
//! are handed down. Besides, tables compute digests of their own keys, to build filters and to
//! check them, memtables of the entries inserted, flushes to find what is cached of their keys,
//! compactions of the keys that a compaction filter drops or changes, and what measures hashing
//! hashes. Nothing else in the engine has a reason to hash a key.

use crate::rust;
use crate::tree;
use crate::verdict::assert_none;

const ENGINE: &str = "crates/tamarack/src/";

/// What makes a digest, and the files that may.
const MAKERS: &[(&str, &[&str])] = &[
    ("Query::new(", &["db.rs", "read/snapshot.rs", "fuzz.rs"]),
    (
        "Digest::of(",
        &[
            "cache/mod.rs",
            "calibrate/processor.rs",
            "compaction/key_lists.rs",
            "entry.rs",
            "measure/on.rs",
            "memtable/filter.rs",
            "merge/filter_pass.rs",
            "table/filter.rs",
            "table/verify.rs",
        ],
    ),
];

/// Digests are made at the edge, in tables of their own keys, by compactions of the keys for which
/// a filter over the whole tree changes, by inserts into memtables, and by flushes while entries
/// are cached; each of the listed files does so.
#[test]
fn keys_are_hashed_once() {
    let mut complaints = Vec::new();
    for (maker, allowed) in MAKERS {
        let mut unused = allowed.to_vec();
        for file in tree::rust_files().iter().filter(|file| file.path.starts_with(ENGINE)) {
            let name = &file.path[ENGINE.len()..];
            let code = rust::without_tests(&rust::code_only(&file.text));
            for (at, _) in code.match_indices(maker).filter(|_| !file.is_test()) {
                unused.retain(|path| *path != name);
                if !allowed.contains(&name) {
                    let line = rust::line_of(&code, at);
                    complaints
                        .push(format!("{}:{line}: take the `Query` of the caller instead of `{maker}…)`", file.path));
                }
            }
        }
        let unused = unused
            .iter()
            .map(|path| format!("{ENGINE}{path}: `{maker}…)` is not there; correct the list of this rule"));
        complaints.extend(unused);
    }
    assert_none("a key is hashed once", &complaints);
}
