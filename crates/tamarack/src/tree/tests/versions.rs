//! Versions against the model: what edits do, what they leave alone, and which are refused.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tamarack_env::Random;

use super::model::{Model, TREE, key, meta, no_files, range};
use crate::entry::Sequence;
use crate::format::edit::{Change, CompactionId, Edit, KeyRange, RunId, SliceSpec};
use crate::format::meta::{EditNumber, TableId, TreeId};
use crate::tree::version::Version;

/// Shows that random histories of edits do to a version what they do to the model, that older
/// versions do not change, that edits survive being written as bytes, and that a version can be
/// made again from its one edit.
#[test]
fn random_histories_agree_with_the_model() {
    for seed in 0..60 {
        let trouble = catch_unwind(AssertUnwindSafe(|| history(seed)));
        assert!(trouble.is_ok(), "seed {seed}");
    }
}

fn history(seed: u64) {
    let random = Random::new(seed);
    let (mut model, mut version) = (Model::new(), Version::new(7, no_files()));
    for _ in 0..80 {
        let edit = model.edit(&version, &random);
        assert_eq!(Edit::decode(&edit.encode()), Ok(edit.clone()), "bytes and back");
        let before = version.state_edit();
        let applied = version.apply(&edit).unwrap_or_else(|why| panic!("{why} in {edit:#?}"));
        assert_eq!(version.state_edit(), before, "an older version changed");
        version = applied.version;
        assert_eq!(version.check(), Ok(()), "after {edit:#?}");
        model.assert_equals(&version);
        assert!(applied.released.iter().all(|gone| version.tables().all(|table| table.id() != gone.id())));
        let again = Version::from_base(&version.state_edit(), no_files()).expect("a version describes itself");
        assert_eq!(again.check(), Ok(()));
        assert_eq!(again.state_edit(), version.state_edit());
    }
}

/// Shows that edits which do not fit, being random ones of another history, are refused or leave a
/// version that is right in itself; and that nothing panics.
#[test]
fn edits_of_other_histories_are_refused_or_fit() {
    let mut refused = 0;
    for seed in 0..40 {
        let random = Random::new(seed);
        let (mut model, mut version) = (Model::new(), Version::new(7, no_files()));
        let (mut other, mut other_version) = (Model::new(), Version::new(7, no_files()));
        for _ in 0..30 {
            let edit = model.edit(&version, &random);
            version = version.apply(&edit).expect("it fits").version;
            let edit = other.edit(&other_version, &random);
            other_version = other_version.apply(&edit).expect("it fits").version;
            let stranger = Edit { number: EditNumber(version.edit_number().0 + 1), ..edit };
            match version.apply(&stranger) {
                Ok(applied) => assert_eq!(applied.version.check(), Ok(()), "after {stranger:#?}"),
                Err(_) => refused += 1,
            }
        }
    }
    assert!(refused > 100, "{refused} were refused");
}

/// A small tree: run 2 (tables 3, 4) above run 1 (tables 1, 2), level 1; the tables have keys [0,
/// 20) and [20, 40).
fn small_tree() -> Version {
    let version = Version::new(7, no_files());
    let changes = [(1, (1, 10)), (2, (11, 20))].into_iter().flat_map(|(run, sequences)| {
        let tables = [TableId(2 * run - 1), TableId(2 * run)];
        let add = move |id, from, to| Change::TableAdded { tree: TREE, meta: Arc::new(meta(id, from, to, sequences)) };
        [
            add(tables[0], 0, 20),
            add(tables[1], 20, 40),
            Change::RunAdded { tree: TREE, run: RunId(run), level: 1, index: 0 },
            Change::SlicesAdded {
                tree: TREE,
                run: RunId(run),
                slices: tables.map(|table| SliceSpec { table, range: KeyRange::ALL }).to_vec(),
            },
            Change::FlushedThrough { tree: TREE, sequence: Sequence(sequences.1) },
        ]
    });
    apply(&version, [Change::IdsUsed { tables: 9, runs: 9, compactions: 9 }].into_iter().chain(changes))
        .expect("it fits")
}

fn apply(version: &Version, changes: impl IntoIterator<Item = Change>) -> Result<Version, String> {
    let number = EditNumber(version.edit_number().0 + 1);
    let edit = Edit { number, changes: changes.into_iter().collect() };
    version.apply(&edit).map(|applied| applied.version).map_err(|broken| broken.0)
}

fn begin(inputs: &[u64]) -> [Change; 2] {
    [
        Change::RunAdded { tree: TREE, run: RunId(3), level: 2, index: 0 },
        Change::CompactionBegun {
            tree: TREE,
            compaction: CompactionId(1),
            inputs: inputs.iter().map(|run| RunId(*run)).collect(),
            output: RunId(3),
        },
    ]
}

fn advance(from: usize, to: usize, outputs: &[(u64, KeyRange)]) -> Change {
    let outputs = outputs.iter().map(|(table, range)| SliceSpec { table: TableId(*table), range: range.clone() });
    Change::CompactionAdvanced {
        tree: TREE,
        compaction: CompactionId(1),
        range: range(from, to),
        outputs: outputs.collect(),
    }
}

/// Shows a handover in the middle of a table: every input is cut, a table that is cut in two keeps
/// both ends, and a table that nothing names any more is released with the edit that takes its last
/// slice.
#[test]
fn a_handover_cuts_every_input_and_releases_what_nothing_names() {
    let version = apply(&small_tree(), begin(&[2, 1])).expect("it fits");
    let add = Change::TableAdded { tree: TREE, meta: Arc::new(meta(TableId(5), 5, 25, (1, 20))) };
    let version = apply(&version, [add, advance(5, 25, &[(5, KeyRange::ALL)])]).expect("it fits");
    let specs = |version: &Version, run| {
        let tree = version.tree(TREE).expect("it exists").clone();
        let (run, ..) = tree.run(RunId(run)).expect("it exists");
        run.slices().iter().map(|slice| (slice.table().id().0, slice.spec().range)).collect::<Vec<_>>()
    };
    let (low, high) = (KeyRange::new(None, Some(&key(5))), KeyRange::new(Some(&key(25)), None));
    assert_eq!(specs(&version, 1), [(1, low.clone()), (2, high.clone())]);
    assert_eq!(specs(&version, 2), [(3, low), (4, high)]);
    assert_eq!(specs(&version, 3), [(5, KeyRange::ALL)]);
    let number = EditNumber(version.edit_number().0 + 1);
    let rest = vec![
        advance(0, 5, &[]),
        advance(25, super::model::KEYS, &[]),
        Change::CompactionEnded { tree: TREE, compaction: CompactionId(1) },
    ];
    let applied = version.apply(&Edit { number, changes: rest }).expect("it fits");
    assert_eq!(applied.released.iter().map(|table| table.id().0).collect::<Vec<_>>().len(), 4);
    let tree = applied.version.tree(TREE).expect("it exists").clone();
    assert_eq!(tree.runs().map(|run| run.id()).collect::<Vec<_>>(), [RunId(3)]);
    assert!(tree.compactions().is_empty());
}

/// Shows one refusal for each rule that an edit can break, with a word of the reason.
#[test]
fn edits_that_break_a_rule_are_refused() {
    let version = small_tree();
    let merging = apply(&version, begin(&[2, 1])).expect("it fits");
    let advanced = apply(&merging, [advance(0, 20, &[])]).expect("it fits");
    let closed = apply(&version, [Change::WalEnd { position: 9 }]).expect("it fits");
    let table = |id, sequences| Change::TableAdded { tree: TREE, meta: Arc::new(meta(TableId(id), 0, 20, sequences)) };
    let run = |run, level, index| Change::RunAdded { tree: TREE, run: RunId(run), level, index };
    let slices = |run, table, range: KeyRange| Change::SlicesAdded {
        tree: TREE,
        run: RunId(run),
        slices: vec![SliceSpec { table: TableId(table), range }],
    };
    let cut = |run, range| Change::RunCut { tree: TREE, run: RunId(run), range };
    let flushed = || Change::FlushedThrough { tree: TREE, sequence: Sequence(22) };
    let other = TreeId(9);
    let later = meta(TableId(5), 0, 1, (1, 1));
    let later = Change::TableAdded {
        tree: TREE,
        meta: Arc::new(crate::format::meta::TableMeta { created_after: EditNumber(99), ..later }),
    };
    let cases: Vec<(&str, &Version, Vec<Change>)> = vec![
        ("not at the start", &version, vec![Change::Database { id: 1 }]),
        ("taken back", &version, vec![Change::IdsUsed { tables: 8, runs: 9, compactions: 9 }]),
        ("exists already", &version, vec![Change::TreeCreated { tree: TREE }]),
        ("does not exist", &version, vec![Change::TreeNamed { tree: other, name: "other".into() }]),
        ("does not exist", &version, vec![Change::TreeDropped { tree: other }]),
        ("is not empty", &version, vec![Change::TreeDropped { tree: TREE }]),
        (
            "has the name",
            &version,
            vec![Change::TreeCreated { tree: other }, Change::TreeNamed { tree: other, name: "".into() }],
        ),
        ("does not exist", &version, vec![Change::RunRemoved { tree: other, run: RunId(1) }]),
        ("not a new table", &version, vec![table(1, (21, 22))]),
        ("not a new table", &version, vec![table(9, (21, 22))]),
        ("no slice names", &version, vec![table(5, (21, 22))]),
        ("past what is flushed", &version, vec![table(5, (21, 22)), run(3, 1, 0), slices(3, 5, KeyRange::ALL)]),
        ("from the future", &version, vec![later]),
        ("wrong way round", &version, vec![table(5, (22, 21))]),
        ("not a new run", &version, vec![run(1, 1, 0)]),
        ("not a new run", &version, vec![run(9, 1, 0)]),
        ("cannot be in level", &version, vec![run(3, 0, 0)]),
        ("cannot be in level", &version, vec![run(3, 65, 0)]),
        ("cannot be number", &version, vec![run(3, 1, 3)]),
        ("in no compaction", &version, vec![run(3, 1, 0)]),
        ("in no compaction", &version, vec![cut(1, KeyRange::ALL)]),
        ("empty range", &version, vec![cut(1, KeyRange::new(Some(b"b"), Some(b"b")))]),
        ("not there", &version, vec![slices(1, 7, KeyRange::ALL)]),
        ("no key of its table", &version, vec![slices(1, 1, range(20, 30))]),
        ("overlap", &version, vec![slices(1, 1, KeyRange::ALL)]),
        ("not younger", &version, vec![table(5, (1, 2)), run(3, 1, 0), slices(3, 5, KeyRange::ALL)]),
        ("not younger", &version, vec![flushed(), table(5, (21, 22)), run(3, 1, 2), slices(3, 5, KeyRange::ALL)]),
        ("not younger", &version, vec![flushed(), table(5, (21, 22)), run(3, 2, 0), slices(3, 5, KeyRange::ALL)]),
        ("not neighbours", &version, begin(&[1, 2]).to_vec()),
        ("not neighbours", &version, begin(&[2]).to_vec()),
        ("not neighbours", &version, begin(&[]).to_vec()),
        ("not a new compaction", &merging, begin(&[2, 1])[1..].to_vec()),
        ("outside of", &merging, vec![cut(1, range(0, 5))]),
        ("outside of", &merging, vec![Change::RunRemoved { tree: TREE, run: RunId(2) }]),
        ("outside of", &merging, vec![slices(3, 1, KeyRange::ALL)]),
        ("not within", &merging, vec![table(5, (1, 20)), advance(0, 19, &[(5, KeyRange::ALL)])]),
        ("handed over before", &advanced, vec![advance(19, 20, &[])]),
        ("not in progress", &version, vec![advance(0, 20, &[])]),
        ("still has slices", &advanced, vec![Change::CompactionEnded { tree: TREE, compaction: CompactionId(1) }]),
        (
            "changes the runs",
            &version,
            vec![Change::Relabelled { tree: TREE, levels: vec![vec![RunId(1)], vec![RunId(2)]] }],
        ),
        ("changes the runs", &version, vec![Change::Relabelled { tree: TREE, levels: vec![vec![RunId(2)]] }]),
        ("flushed through", &version, vec![Change::FlushedThrough { tree: TREE, sequence: Sequence(19) }]),
        ("does not reopen the WAL", &closed, vec![Change::WalDurable { position: 10 }]),
    ];
    for (reason, version, changes) in cases {
        let why = apply(version, changes.clone()).err().unwrap_or_else(|| panic!("{changes:#?} was not refused"));
        assert!(why.contains(reason), "refused because \"{why}\", not because \"{reason}\"");
    }
    assert!(version.apply(&Edit { number: EditNumber(9), changes: vec![] }).is_err(), "a gap in the numbers");
    assert!(Version::from_base(&Edit { number: EditNumber(1), changes: vec![] }, no_files()).is_err());
    assert!(apply(&closed, [Change::WalReopened]).is_ok());
}

/// Shows that an edit to a large tree touches little: of 20,000 slices, all but a few hundred are
/// the same ones in the old and in the new version.
#[test]
fn versions_share_what_an_edit_does_not_touch() {
    let count = 20_000u64;
    let name = |number: u64| number.to_be_bytes().to_vec();
    let mut changes = vec![Change::IdsUsed { tables: count + 9, runs: 9, compactions: 9 }];
    changes.extend((0..count).map(|number| {
        let mut meta = meta(TableId(number + 1), 0, 1, (1, 1));
        (meta.properties.smallest_key, meta.properties.largest_key) = (name(number), name(number));
        Change::TableAdded { tree: TREE, meta: Arc::new(meta) }
    }));
    changes.push(Change::RunAdded { tree: TREE, run: RunId(1), level: 1, index: 0 });
    let slices = (1..=count).map(|id| SliceSpec { table: TableId(id), range: KeyRange::ALL }).collect();
    changes.push(Change::SlicesAdded { tree: TREE, run: RunId(1), slices });
    changes.push(Change::FlushedThrough { tree: TREE, sequence: Sequence(1) });
    let version = apply(&Version::new(7, no_files()), changes).expect("it fits");
    let middle = KeyRange::new(Some(&name(500)), Some(&name(510)));
    let after = apply(&version, [Change::RunCut { tree: TREE, run: RunId(1), range: middle }]).expect("it fits");
    let slices = |version: &Version| {
        let tree = version.tree(TREE).expect("it exists").clone();
        let run = tree.runs().next().expect("it exists").clone();
        run.slices().iter().map(std::ptr::from_ref).collect::<std::collections::BTreeSet<_>>()
    };
    let (old, new) = (slices(&version), slices(&after));
    assert_eq!(new.len() as u64, count - 10);
    assert!(new.difference(&old).count() < 300, "{} slices were copied", new.difference(&old).count());
}
