//! Replays the kept inputs of the fuzz targets, so that what a fuzzer once found stays mended
//! without a fuzzer.
//!
//! `TAMARACK_REWRITE=1 cargo test -p tamarack-filter --test suite corpus` writes the seed inputs
//! anew; those that a fuzzer added stay.

#![expect(
    clippy::disallowed_methods,
    reason = "the environment serves the engine; this test reads files of the repository"
)]

use std::fs;
use std::path::Path;

use tamarack_filter::{Digest, DigestSet, Filter, FilterKind, Size, fuzz};

/// There are inputs, and none of them makes a target panic.
#[test]
fn kept_inputs_do_no_harm() {
    replay("filter", &filters(), fuzz::filter);
    replay("digests", &sets(), fuzz::digests);
}

fn replay(target: &str, seeds: &[(String, Vec<u8>)], run: fn(&[u8])) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    if tamarack_testing::rewrites() {
        fs::create_dir_all(&directory).expect("a directory");
        for (name, bytes) in seeds {
            fs::write(directory.join(name), bytes).expect("can be written");
        }
    }
    let mut files = 0;
    for file in fs::read_dir(&directory).expect("inputs") {
        let path = file.expect("a file").path();
        println!("{}", path.display());
        run(&fs::read(&path).expect("its bytes"));
        files += 1;
    }
    assert!(files >= seeds.len(), "{}: {files} inputs", directory.display());
}

/// Sets of few and of more digests, whole and cut short.
fn sets() -> Vec<(String, Vec<u8>)> {
    let sets = [0_u64, 1, 5, 64, 100].into_iter().flat_map(|count| {
        let bytes = DigestSet::new((0..count).map(|key| Digest::of(&key.to_le_bytes())).collect()).encode(7);
        let cut = bytes[..bytes.len() - 1].to_vec();
        [(format!("seed-{count}"), bytes), (format!("seed-{count}-cut"), cut)]
    });
    sets.collect()
}

/// Small filters of every kind, whole and cut short.
fn filters() -> Vec<(String, Vec<u8>)> {
    let mut seeds = Vec::new();
    for kind in FilterKind::ALL {
        for (count, bits) in [(0_u64, 512), (5, 512), (100, 1024)] {
            let set: Vec<Digest> = (0..count).map(|key| Digest::of(&key.to_le_bytes())).collect();
            let bytes = Filter::build(kind, Size::Total(bits), &set).expect("bits").encode();
            seeds.push((format!("seed-{}-{count}-cut", kind.name()), bytes[..bytes.len() - 9].to_vec()));
            seeds.push((format!("seed-{}-{count}", kind.name()), bytes));
        }
    }
    seeds
}
