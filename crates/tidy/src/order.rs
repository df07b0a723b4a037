//! Layers point one way: of crates, and of modules within a crate.
//!
//! The lists below are the one place that knows the order, high to low. A module imports only what
//! stands below it, so no list of modules can hold a cycle; below the lists' grain (files within a
//! directory) cycles are looked for directly.
//!
//! What counts as an import: every path in code outside `#[cfg(test)]` that leads to a module of
//! the same crate, in a `use` or inside an expression. Tests may look upward. `pub use` passes a
//! name on and is not an import.

use std::collections::{BTreeMap, BTreeSet};

use crate::rust;
use crate::tree::{self, TextFile};
use crate::verdict::assert_none;

/// One crate and the order of its modules.
struct Layer {
    /// The directory below `crates/`.
    directory: &'static str,
    /// Crates of this repository that it may depend on.
    may_use: &'static [&'static str],
    /// Its top-level modules, high to low; `lib` and `main` stand for the crate's root.
    modules: &'static [&'static str],
}

/// All crates, high to low.
const LAYERS: &[Layer] = &[
    Layer {
        directory: "tidy",
        may_use: &["tamarack-testing"],
        modules: &[
            "lib",
            "ratchet",
            "digests",
            "documents",
            "glossary",
            "hidden",
            "homonyms",
            "order",
            "packages",
            "locks",
            "steps",
            "text",
            "finding",
            "rust",
            "tree",
            "verdict",
        ],
    },
    Layer {
        directory: "tamarack-cli",
        may_use: &[
            "tamarack",
            "tamarack-format",
            "tamarack-filter",
            "tamarack-model",
            "tamarack-testing",
            "tamarack-env",
        ],
        modules: &[
            "main",
            "commands",
            "subcommand",
            "database",
            "files",
            "records",
            "show",
            "workloads",
            "size",
            "text",
            "outcome",
        ],
    },
    Layer {
        directory: "tamarack",
        may_use: &["tamarack-format", "tamarack-filter", "tamarack-model", "tamarack-testing", "tamarack-env"],
        modules: &[
            "lib",
            "fuzz",
            "internals",
            "calibrate",
            "db",
            "checkpoint",
            "open",
            "repair",
            "options",
            "collect",
            "ingest",
            "transaction",
            "engine",
            "controller",
            "redesign",
            "compaction",
            "write",
            "read",
            "tree",
            "database",
            "cuckoo",
            "wal",
            "journal",
            "directory",
            "calibration",
            "random_reads",
            "table",
            "cache",
            "memtable",
            "merge",
            "locks",
            "range_tombstones",
            "format",
            "step",
            "events",
            "stats",
            "memory",
            "admission",
            "operator",
            "compaction_filter",
            "entry",
            "error",
            "measure",
            "mistake",
        ],
    },
    Layer {
        directory: "tamarack-format",
        // The environment for its tests only.
        may_use: &["tamarack-model", "tamarack-testing", "tamarack-env"],
        modules: &[
            "lib",
            "fuzz",
            "checksum_repair",
            "claims",
            "shape",
            "group",
            "current",
            "calibration",
            "record",
            "edit",
            "key_range",
            "table",
            "meta",
            "properties",
            "fences",
            "block",
            "stored",
            "checksum",
            "version",
            "names",
            "entry",
            "fields",
            "coding",
            "prefixes",
        ],
    },
    Layer {
        directory: "tamarack-filter",
        may_use: &["tamarack-model", "tamarack-testing"],
        modules: &[
            "lib", "fuzz", "chucky", "builder", "bytes", "filter", "set", "elastic", "blocked", "bloom", "lines",
            "word", "digest",
        ],
    },
    Layer {
        directory: "tamarack-model",
        // For its tests only.
        may_use: &["tamarack-testing"],
        modules: &[
            "lib",
            "navigator",
            "prediction",
            "design",
            "simulate",
            "agenda",
            "pace",
            "bound",
            "cost",
            "filter_plan",
            "allocate",
            "access_frequency",
            "filter",
            "growth",
            "policy",
            "planner",
            "occupancy",
            "shape",
            "tables",
            "workload",
            "device",
            "units",
        ],
    },
    Layer {
        directory: "tamarack-testing",
        may_use: &["tamarack-env"],
        modules: &["lib", "directory", "hooked", "openmetrics", "files", "zipf", "random", "seeds", "stored"],
    },
    Layer {
        directory: "tamarack-env",
        may_use: &[],
        modules: &[
            "lib",
            "sim",
            "memory",
            "os",
            "workers",
            "clock",
            "env",
            "aligned",
            "buffer",
            "pages",
            "prefetch",
            "histogram",
            "random",
            "sync",
        ],
    },
];

/// A crate's modules: dotted name (`tree::manifest`; empty for the root) to file.
type Modules<'a> = BTreeMap<String, &'a TextFile>;

/// Every crate depends only on crates below it, for its tests too.
#[test]
fn crates_depend_downward() {
    let mut complaints = Vec::new();
    for file in tree::text_files().iter().filter(|f| f.path.starts_with("crates/") && f.path.ends_with("/Cargo.toml")) {
        let directory = file.path.split('/').nth(1).expect("a directory below crates/");
        let Some(layer) = LAYERS.iter().find(|layer| layer.directory == directory) else {
            complaints.push(format!("{}: add the crate to LAYERS in crates/tidy/src/order.rs", file.path));
            continue;
        };
        for dependency in own_dependencies(&file.text) {
            // On itself: that is how its tests turn its features on.
            if dependency != directory && !layer.may_use.contains(&dependency.as_str()) {
                complaints
                    .push(format!("{}: {directory} must not depend on {dependency}, which is not below it", file.path));
            }
        }
    }
    assert_none("crates depend only on crates below them", &complaints);
}

/// Every module is in its crate's list, imports only what stands below it there, and takes part in
/// no cycle.
#[test]
fn modules_import_downward() {
    let files = tree::rust_files();
    let mut complaints = Vec::new();
    for layer in LAYERS {
        let modules = modules_of(layer, &files);
        complaints.extend(list_errors(layer, &modules));
        let mut imports: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        for (name, file) in &modules {
            let code = rust::without_tests(&rust::code_only(&file.text));
            for (line, path) in rust::paths(&code) {
                let Some(target) = resolve(name, &path, &modules).filter(|target| target != name) else { continue };
                if let Some(complaint) = judge(layer, name, &target) {
                    complaints.push(format!("{}:{line}: {complaint}", file.path));
                }
                imports.entry(name).or_default().insert(target);
            }
        }
        complaints.extend(cycle(&imports).map(|cycle| {
            format!(
                "crates/{}: {} is a cycle; move what they share into a module below them",
                layer.directory,
                cycle.join(" -> ")
            )
        }));
    }
    assert_none("modules import only what stands below them (the lists are in crates/tidy/src/order.rs)", &complaints);
}

/// Every file below `src/` belongs to the crate.
#[test]
fn no_dead_files() {
    let files = tree::rust_files();
    let mut complaints = Vec::new();
    for layer in LAYERS {
        let alive: BTreeSet<&str> = modules_of(layer, &files).values().map(|f| f.path.as_str()).collect();
        let tests = test_modules_of(layer, &files);
        let source = format!("crates/{}/src/", layer.directory);
        for file in files.iter().filter(|f| f.path.starts_with(&source) && !f.path[source.len()..].starts_with("bin/"))
        {
            if !alive.contains(file.path.as_str()) && !tests.iter().any(|t| file.path.starts_with(t.as_str())) {
                complaints.push(format!("{}: no module declares it; write `mod` for it or remove it", file.path));
            }
        }
    }
    assert_none("every file below src/ is compiled", &complaints);
}

/// Why `from` must not import `to`, if so.
fn judge(layer: &Layer, from: &str, to: &str) -> Option<String> {
    let (from, to) = (top_level(layer, from), top_level(layer, to));
    let place = |name: &str| layer.modules.iter().position(|listed| *listed == name);
    match (place(&from), place(&to)) {
        (Some(a), Some(b)) if a > b => {
            Some(format!("`{from}` stands below `{to}` and must not import it; move what it needs down, or pass it in"))
        }
        _ => None,
    }
}

/// Top-level modules that the list lacks, and names in the list that are no modules.
fn list_errors(layer: &Layer, modules: &Modules<'_>) -> Vec<String> {
    let names: BTreeSet<String> = modules.keys().map(|name| top_level(layer, name)).collect();
    let missing = names.iter().filter(|name| !layer.modules.contains(&name.as_str()));
    let place = "add it to LAYERS in crates/tidy/src/order.rs at its height";
    let missing =
        missing.map(|name| format!("crates/{}: module `{name}` is not in the list; {place}", layer.directory));
    let gone = layer.modules.iter().filter(|listed| !names.contains(**listed));
    let gone =
        gone.map(|name| format!("crates/{}: there is no module `{name}`; remove it from the list", layer.directory));
    missing.chain(gone).collect()
}

fn top_level(layer: &Layer, name: &str) -> String {
    match name.split("::").next() {
        None | Some("") => layer.modules[0].to_owned(),
        Some(first) => first.to_owned(),
    }
}

/// The modules that ship, found from the crate's root by their `mod` declarations.
fn modules_of<'a>(layer: &Layer, files: &'a [TextFile]) -> Modules<'a> {
    let mut modules = Modules::new();
    for root in ["lib.rs", "main.rs"] {
        let path = format!("crates/{}/src/{root}", layer.directory);
        if let Some(file) = files.iter().find(|f| f.path == path) {
            modules.insert(String::new(), file);
            descend("", file, layer, files, &mut modules);
        }
    }
    modules
}

fn descend<'a>(name: &str, file: &'a TextFile, layer: &Layer, files: &'a [TextFile], modules: &mut Modules<'a>) {
    for (child, tests_only) in rust::declared_modules(&rust::code_only(&file.text)) {
        if tests_only && layer.directory != "tidy" {
            continue;
        }
        let dotted = if name.is_empty() { child } else { format!("{name}::{child}") };
        if let Some(found) = module_file(layer, &dotted, files) {
            modules.insert(dotted.clone(), found);
            descend(&dotted, found, layer, files, modules);
        }
    }
}

fn module_file<'a>(layer: &Layer, dotted: &str, files: &'a [TextFile]) -> Option<&'a TextFile> {
    let stem = format!("crates/{}/src/{}", layer.directory, dotted.replace("::", "/"));
    files.iter().find(|f| f.path == format!("{stem}.rs") || f.path == format!("{stem}/mod.rs"))
}

/// The path beginnings of modules that are declared under `#[cfg(test)]`.
fn test_modules_of(layer: &Layer, files: &[TextFile]) -> Vec<String> {
    let mut found = Vec::new();
    for (name, file) in modules_of(layer, files) {
        for (child, tests_only) in rust::declared_modules(&rust::code_only(&file.text)) {
            if tests_only {
                let parent = if name.is_empty() { String::new() } else { name.replace("::", "/") + "/" };
                found.push(format!("crates/{}/src/{parent}{child}", layer.directory));
            }
        }
    }
    found
}

/// The module that `path`, named in module `from`, leads to; `None` if it leads out of the crate.
fn resolve(from: &str, path: &[String], modules: &Modules<'_>) -> Option<String> {
    let here: Vec<&str> = from.split("::").filter(|part| !part.is_empty()).collect();
    let mut parts = path.iter().map(String::as_str).peekable();
    let mut base: Vec<&str> = match *parts.peek()? {
        "crate" => {
            parts.next();
            Vec::new()
        }
        "self" => {
            parts.next();
            here
        }
        "super" => {
            let mut base = here;
            while parts.next_if(|part| *part == "super").is_some() {
                base.pop();
            }
            base
        }
        // A path that begins with a plain name stays in this crate only if that is a child module.
        first => {
            let child = if from.is_empty() { first.to_owned() } else { format!("{from}::{first}") };
            modules.contains_key(&child).then_some(here)?
        }
    };
    for part in parts {
        base.push(part);
        if !modules.contains_key(&base.join("::")) {
            base.pop();
            return Some(follow_reexport(&base.join("::"), part, modules));
        }
    }
    Some(base.join("::"))
}

/// Where `name` really stands, if `module` only passes it on.
fn follow_reexport(module: &str, name: &str, modules: &Modules<'_>) -> String {
    let reexports = modules.get(module).map_or_else(Vec::new, |file| rust::reexports(&rust::code_only(&file.text)));
    let path = reexports.into_iter().find(|path| path.last().is_some_and(|last| last == name));
    path.and_then(|path| resolve(module, &path, modules)).unwrap_or_else(|| module.to_owned())
}

/// Some cycle among the imports, if there is one, first module repeated at the end.
fn cycle(imports: &BTreeMap<&str, BTreeSet<String>>) -> Option<Vec<String>> {
    let mut finished = BTreeSet::new();
    imports.keys().find_map(|start| cycle_from(start, imports, &mut Vec::new(), &mut finished))
}

fn cycle_from(
    at: &str,
    imports: &BTreeMap<&str, BTreeSet<String>>,
    trail: &mut Vec<String>,
    finished: &mut BTreeSet<String>,
) -> Option<Vec<String>> {
    if let Some(start) = trail.iter().position(|seen| seen == at) {
        return Some(trail[start..].iter().cloned().chain([at.to_owned()]).collect());
    }
    if finished.contains(at) {
        return None;
    }
    trail.push(at.to_owned());
    for next in imports.get(at).into_iter().flatten() {
        if let Some(found) = cycle_from(next, imports, trail, finished) {
            return Some(found);
        }
    }
    trail.pop();
    finished.insert(at.to_owned());
    None
}

/// The crates of this repository that a manifest names as dependencies of any kind.
fn own_dependencies(manifest: &str) -> Vec<String> {
    let mut in_dependencies = false;
    let mut found = Vec::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            in_dependencies = line.contains("dependencies");
        } else if in_dependencies {
            let name: String = line.chars().take_while(|c| c.is_alphanumeric() || "-_".contains(*c)).collect();
            if name == "tamarack" || name.starts_with("tamarack-") {
                found.push(name);
            }
        }
    }
    found
}

/// A wrong order and a cycle are noticed: the rules above can fail.
#[test]
fn notices_what_it_forbids() {
    let layer = Layer { directory: "x", may_use: &[], modules: &["lib", "high", "low"] };
    assert!(
        judge(&layer, "low::inner", "high").is_some_and(|complaint| complaint.contains("`low` stands below `high`"))
    );
    assert!(judge(&layer, "high", "low::inner").is_none());

    let set = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<BTreeSet<_>>();
    let imports = BTreeMap::from([("a", set(&["b"])), ("b", set(&["c"])), ("c", set(&["b"]))]);
    assert_eq!(cycle(&imports), Some(vec!["b".to_owned(), "c".to_owned(), "b".to_owned()]));
    assert_eq!(
        own_dependencies("[dev-dependencies]\ntamarack-env.workspace = true\nother = \"1\"\n"),
        ["tamarack-env"]
    );
}
