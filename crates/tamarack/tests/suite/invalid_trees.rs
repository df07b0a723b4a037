//! A manifest whose edits are valid one by one, but that puts runs where the planner cannot have
//! put them, is refused as corrupt: opening must not fail an assertion on what it reads.

use std::path::Path;
use std::sync::Arc;

use tamarack::internals::Manifest;
use tamarack::internals::TableFiles;
use tamarack::internals::TableStorage;
use tamarack::internals::Tail;
use tamarack::internals::Version;
use tamarack::{AdvancedOptions, Db, Error, Options, Result};
use tamarack_env::{Env, MemoryEnv};
use tamarack_format::edit::{Change, CompactionId, KeyRange, RunId};
use tamarack_format::meta::TreeId;

const TREE: TreeId = TreeId::DEFAULT;

fn open(env: &Arc<dyn Env>) -> Result<Db> {
    let policy = "custom:buffer 1000; level 8000 in 8 runs; level 80000 in 1 run";
    Options::new().advanced(AdvancedOptions::new().env(env.clone()).policy(policy)).open("/db")
}

/// Opens a database with three runs in level 1 and with `changes` added to its manifest. Returns
/// the reason for which opening refuses it.
fn refusal(changes: impl FnOnce(&Manifest, &Version, [RunId; 3]) -> Vec<Change>) -> Option<String> {
    let env: Arc<dyn Env> = MemoryEnv::new(1);
    let db = open(&env).expect("a new database");
    for round in 0..3_u8 {
        db.put("key", [round; 1000]).expect("memory does not fail");
        db.flush().expect("memory does not fail");
    }
    db.close().expect("memory does not fail");
    let dir = Path::new("/db");
    let tables = TableFiles::new(TableStorage::buffered(env.clone(), 0), dir);
    let manifest =
        Manifest::recover(&env, dir, Tail::Strict, tables).expect("it is whole").expect("it is there").manifest;
    let version = manifest.version();
    let runs: Vec<RunId> = version.tree(TREE).expect("the tree").runs().map(|run| run.id()).collect();
    let runs: [RunId; 3] = runs.try_into().expect("three runs");
    let changes = changes(&manifest, &version, runs);
    manifest.commit([Change::WalReopened].into_iter().chain(changes).collect()).expect("each edit is in order");
    drop(manifest);
    match open(&env) {
        Ok(_) => None,
        Err(Error::Corruption { what, .. }) => Some(what),
        Err(other) => panic!("{other:?}"),
    }
}

#[test]
fn runs_below_the_shape_are_refused() {
    assert_eq!(refusal(|_, _, _| vec![]), None, "without a change it opens");
    let moved = |at: usize| {
        move |_: &Manifest, _: &Version, runs: [RunId; 3]| {
            let mut levels = vec![vec![]; at];
            levels[0] = runs[..2].to_vec();
            levels[at - 1] = runs[2..].to_vec();
            vec![Change::Relabelled { tree: TREE, levels }]
        }
    };
    for level in [3, 9] {
        let expected = format!("the manifest: a run is in level {level}, but the shape has 2 levels");
        assert_eq!(refusal(moved(level)), Some(expected));
    }
}

fn begun(manifest: &Manifest, level: u32, index: u32, inputs: &[RunId]) -> (CompactionId, [Change; 2]) {
    let (compaction, output) = (manifest.new_compaction_id(), manifest.new_run_id());
    let added = Change::RunAdded { tree: TREE, run: output, level, index };
    (compaction, [added, Change::CompactionBegun { tree: TREE, compaction, inputs: inputs.to_vec(), output }])
}

#[test]
fn compactions_over_several_levels_are_refused() {
    let compaction = |level, index| {
        move |manifest: &Manifest, _: &Version, runs: [RunId; 3]| begun(manifest, level, index, &runs).1.to_vec()
    };
    assert_eq!(refusal(compaction(1, 3)), None, "a compaction within one level is resumed");
    assert!(refusal(compaction(2, 0)).is_some_and(|why| why.contains("several levels")));
}

#[test]
fn compactions_without_an_end_are_refused() {
    let why = refusal(|manifest, _, runs| {
        let (compaction, changes) = begun(manifest, 1, 3, &runs);
        let advanced = Change::CompactionAdvanced { tree: TREE, compaction, range: KeyRange::ALL, outputs: vec![] };
        changes.into_iter().chain([advanced]).collect()
    });
    assert!(why.is_some_and(|why| why.contains("has not ended")));
}
