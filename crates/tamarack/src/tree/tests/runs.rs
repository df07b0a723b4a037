//! Runs over real tables in memory, against a sorted list.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use tamarack_env::MemoryEnv;

use super::model::{TREE, no_files};
use crate::cache::BlockCache;
use crate::entry::{Query, Sequence};
use crate::error::{Error, Result};
use crate::format::edit::{Change, Edit, KeyRange, RunId, SliceSpec};
use crate::format::entry::OwnedEntry;
use crate::format::meta::{EditNumber, TableId};
use crate::format::prefixes::common_prefix;
use crate::format::stored::Compression;
use crate::memory::{Account, Budget};
use crate::merge::sorted::{Random, RandomVersions as _, SortedSource};
use crate::merge::{MergedSource, Source};
use crate::stats::LookupTally;
use crate::step;
use crate::table::{
    FilterKind, FilterSettings, ReadPolicy, ScanVolume, TableAccess, TableBuilder, TableSettings, TableStorage,
};
use crate::tree::run::{Run, RunCursor, RunVolume};
use crate::tree::table_file::TableFiles;
use crate::tree::version::Version;

/// A run of three tables or so with random keys and versions, some ranges cut out; and what it
/// holds.
fn random_run(seed: u64) -> (Arc<Run>, Vec<OwnedEntry>) {
    let versions = Random::new(seed).versions(200);
    random_run_of(seed, versions, Budget::unlimited())
}

/// As [`random_run`], of these versions, in a database with that budget of memory.
fn random_run_of(seed: u64, versions: Vec<OwnedEntry>, budget: Budget) -> (Arc<Run>, Vec<OwnedEntry>) {
    let mut random = Random::new(seed);
    let env = MemoryEnv::new(seed);
    env.create_dir(Path::new("/db"), step::DATABASE_CREATE).expect("memory takes it");
    let access = TableAccess { direct: false, open_files_max: 100 };
    let cache = Arc::new(BlockCache::new(budget.cache_bytes_max.min(1 << 20)));
    let storage = TableStorage::new(env.clone(), cache, Account::new(budget), 0, access);
    let files = TableFiles::new(storage, Path::new("/db"));
    let mut versions = SortedSource::new(versions).versions().to_vec();
    versions.extend(versions.is_empty().then(|| OwnedEntry::put("k", 1, "v")));
    let mut changes = vec![
        Change::IdsUsed { tables: 100, runs: 2, compactions: 1 },
        Change::RunAdded { tree: TREE, run: RunId(1), level: 1, index: 0 },
    ];
    let (mut slices, mut rest, mut id) = (Vec::new(), &versions[..], 0);
    while let Some(first) = rest.first() {
        let at = (1 + random.below(90) as usize).min(rest.len());
        // A table ends between keys.
        let count =
            rest.iter().enumerate().skip(at).find(|(n, v)| v.key != rest[n - 1].key).map_or(rest.len(), |(n, _)| n);
        id += 1;
        let settings = TableSettings {
            database: 7,
            id: TableId(id),
            created_after: EditNumber(1),
            block_bytes: 256,
            compression: Compression::None,
            digests: false,
            filter: Some(FilterSettings { kind: FilterKind::Blocked, bits_per_entry: 4.0 }),
        };
        let mut builder = TableBuilder::create(&*env, Path::new("/db"), settings).expect("memory takes it");
        assert!(first.key <= rest[count - 1].key);
        rest[..count].iter().for_each(|version| builder.add(version.entry()).expect("memory takes it"));
        changes.push(Change::TableAdded { tree: TREE, meta: Arc::new(builder.finish().expect("memory takes it")) });
        slices.push(SliceSpec { table: TableId(id), range: KeyRange::ALL });
        rest = &rest[count..];
    }
    changes.push(Change::SlicesAdded { tree: TREE, run: RunId(1), slices });
    let last = versions.iter().map(|version| version.sequence).max().unwrap_or(Sequence::ZERO);
    changes.push(Change::FlushedThrough { tree: TREE, sequence: last });
    let whole = Version::new(7, files).apply(&Edit { number: EditNumber(2), changes });
    let mut changes = Vec::new();
    for _ in 0..random.below(4) {
        let (a, b) = (random.key(), random.key());
        let range = KeyRange::new(Some((&a).min(&b)), Some((&a).max(&b)));
        let left: Vec<_> = versions.iter().filter(|version| !range.contains(&version.key)).cloned().collect();
        // A run that is cut to nothing would have to end.
        if !range.is_empty() && !left.is_empty() {
            changes.push(Change::RunCut { tree: TREE, run: RunId(1), range });
            versions = left;
        }
    }
    let cut = whole.expect("it fits").version.apply(&Edit { number: EditNumber(3), changes });
    let version = cut.expect("it fits").version;
    let tree = version.tree(TREE).expect("it exists").clone();
    (tree.runs().next().expect("it exists").clone(), versions)
}

/// One of the seeks, for a choice below 4, or a step.
fn go(source: &mut dyn Source, choice: u64, key: &[u8], sequence: Sequence) -> Result<()> {
    match choice {
        0 => source.seek_first(),
        1 => source.seek_last(),
        2 => source.seek(key, sequence),
        3 => source.seek_before(key, sequence),
        4..8 => source.prev(),
        _ => source.next(),
    }
}

/// Shows that a cursor over a run, whatever mixture of steps and seeks in both directions, stands
/// where one over the sorted list stands; with and without the cache.
#[test]
fn a_cursor_walks_like_one_over_a_sorted_list() {
    for seed in 1..60 {
        let (run, versions) = random_run(seed);
        for read in [ReadPolicy::Cached, ReadPolicy::Sequential] {
            let (mut cursor, mut twin) = (run.cursor(read, &Arc::default()), SortedSource::new(versions.clone()));
            assert_eq!(cursor.entry(), None);
            let mut random = Random::new(seed);
            for _ in 0..300 {
                let choice = if cursor.entry().is_some() { random.below(12) } else { random.below(4) };
                let (key, sequence) = (random.key(), Sequence(random.below(50)));
                let step = |source: &mut dyn Source| go(source, choice, &key, sequence);
                let left = twin.entry().map(|entry| (entry.key.to_vec(), entry.value.to_vec()));
                step(&mut cursor).expect("nothing fails");
                step(&mut twin).expect("nothing fails");
                assert_eq!(cursor.entry(), twin.entry(), "seed {seed}, step {choice}, key {key:?}");
                if let (Some((left, _)), Some(entry), Some(shared)) = (&left, twin.entry(), cursor.shared()) {
                    assert!(choice >= 4, "seed {seed}: after a seek nothing is known");
                    assert_eq!(shared, common_prefix(left, entry.key), "seed {seed}, from {left:?} to {entry:?}");
                }
                if let (Some((_, value)), 4..8) = (&left, choice) {
                    assert_eq!(cursor.left(), value, "seed {seed}");
                }
            }
        }
    }
}

/// Takes random steps and seeks, each followed by `settle`, and compares with those of `twin`.
/// Where `settle` fails, both begin anew. Returns how often it failed.
fn walk(
    seed: u64,
    random: &mut Random,
    merged: &mut MergedSource<RunCursor>,
    mut twin: SortedSource,
    mut settle: impl FnMut(&mut MergedSource<RunCursor>, &mut Random) -> Result<()>,
) -> u64 {
    let mut failed = 0;
    for _ in 0..300 {
        let choice = if twin.entry().is_some() { random.below(12) } else { random.below(4) };
        let (key, sequence) = (random.key(), Sequence(random.below(300)));
        let step = |source: &mut dyn Source| go(source, choice, &key, sequence);
        let left = twin.entry().map(|entry| entry.value.to_vec());
        step(merged).expect("nothing fails");
        step(&mut twin).expect("nothing fails");
        if settle(merged, random).is_err() {
            failed += 1;
            assert_eq!(merged.entry(), None, "seed {seed}");
            twin = SortedSource::new(twin.versions().to_vec());
            continue;
        }
        assert_eq!(merged.entry(), twin.entry(), "seed {seed}, step {choice}, key {key:?}");
        if let (Some(value), 4..8) = (&left, choice) {
            assert_eq!(merged.left(), value, "seed {seed}");
        }
    }
    failed
}

/// Lets those that wait at a place continue, or `fails`.
fn go_on(cursors: &mut [RunCursor], place: (&[u8], Sequence), fails: bool) -> Result<()> {
    if fails {
        cursors.iter_mut().for_each(RunCursor::leave);
        return Err(Error::InvalidArgument("as told".to_owned()));
    }
    cursors.iter_mut().filter(|cursor| cursor.waits_at() == Some(place)).try_for_each(RunCursor::go_on)
}

/// Shows that lazy cursors over slices with keys in different ranges, such as those of a
/// compaction's inputs and output, have the same position as one over the sorted list, after any
/// mixture of steps and seeks, also when reading behind a cut has failed.
#[test]
fn cursors_that_wait_at_cuts_walk_like_one_over_a_sorted_list() {
    let mut waited = 0;
    for seed in 1..120 {
        let (run, versions) = random_run(seed);
        let mut random = Random::new(seed);
        let [a, b, c, d] = [random.key(), random.key(), random.key(), random.key()];
        let range = KeyRange::new(Some((&a).min(&b)), Some((&a).max(&b)));
        let middle = KeyRange::new(Some((&c).min(&d)), Some((&c).max(&d)));
        let below = |range: &KeyRange| KeyRange { from: None, to: range.from.clone() };
        let above = |range: &KeyRange| KeyRange { from: range.to.clone(), to: None };
        let parts = [run.within(&below(&range)), run.within(&range), run.within(&above(&range))];
        let parts = parts
            .iter()
            .flat_map(|part| [part.within(&below(&middle)), part.within(&middle), part.within(&above(&middle))]);
        let volume = Arc::default();
        let parts = parts.map(|part| Arc::new(part).scan_cursor(&volume, &RunVolume::default()));
        let (mut merged, twin) = (MergedSource::new(parts.collect()).unwrap(), SortedSource::new(versions));
        walk(seed, &mut random, &mut merged, twin, |merged, random| {
            let fails = random.below(20) == 0;
            merged.settle(|cursors, place| {
                waited += 1;
                // Of some it is known before what they need.
                for cursor in cursors.iter_mut().filter(|cursor| cursor.waits_at() == Some(place)).step_by(2) {
                    cursor.prepare_to_go_on()?;
                }
                go_on(cursors, place, fails)
            })
        });
    }
    assert!(waited > 1000, "they waited {waited} times");
}

/// Shows that cursors of several runs that release their blocks while memory is short walk, merged,
/// like one over a sorted list; also when a block has failed to be read once more.
#[test]
fn cursors_that_release_blocks_walk_like_one_over_a_sorted_list() {
    let (mut waited, mut failed) = (0, 0);
    for seed in 1..120 {
        let mut random = Random::new(seed);
        let all = random.versions(300);
        let budget = Budget::new(1000, 0);
        let runs: Vec<_> = (0..4)
            .map(|part| all.iter().filter(|version| version.sequence.0 % 4 == part).cloned().collect::<Vec<_>>())
            .filter(|versions| !versions.is_empty())
            .map(|versions| random_run_of(random.next(), versions, budget))
            .collect();
        let versions: Vec<_> = runs.iter().flat_map(|(_, versions)| versions.clone()).collect();
        let volume = Arc::new(ScanVolume::default().releasing(Some(0)));
        let read = *random.pick(&[ReadPolicy::Cached, ReadPolicy::Sequential]);
        let cursors = runs.iter().map(|(run, _)| match read {
            ReadPolicy::Cached => run.scan_cursor(&volume, &RunVolume::default()),
            ReadPolicy::Sequential => run.cursor(read, &volume),
        });
        let (mut merged, twin) = (MergedSource::new(cursors.collect()).unwrap(), SortedSource::new(versions));
        failed += walk(seed, &mut random, &mut merged, twin, |merged, random| {
            if merged.some_wait() {
                merged.unmoved_mut().for_each(RunCursor::forget_left);
            }
            let fails = random.below(50) == 0;
            merged.settle(|cursors, place| {
                waited += u64::from(place.1 < Sequence::MAX);
                go_on(cursors, place, fails)
            })
        });
    }
    assert!(waited > 10_000 && failed > 100, "they waited {waited} times, {failed} reads failed");
}

/// Shows that a lookup visits exactly the versions of its key that the query may see, youngest
/// first.
#[test]
fn a_lookup_visits_the_versions_of_its_key() {
    for seed in 1..60 {
        let (run, versions) = random_run(seed);
        let mut random = Random::new(seed);
        for _ in 0..100 {
            let (key, sequence) = (random.key(), Sequence(random.below(200)));
            let mut visited = Vec::new();
            if let Some(table) = run.table_of(&key) {
                let (table, query) = (table.open().expect("nothing fails"), Query::new(&key, sequence));
                let ended = table.get(query, &LookupTally::default(), &mut |entry, _| {
                    visited.push(entry.sequence);
                    ControlFlow::Continue(())
                });
                assert_eq!(ended.expect("nothing fails"), ControlFlow::Continue(()));
            }
            let expected = versions.iter().filter(|version| version.key == key && version.sequence <= sequence);
            assert!(visited.iter().eq(expected.map(|version| &version.sequence)), "seed {seed}, key {key:?}");
        }
    }
}

/// Shows that a run without slices is an empty source.
#[test]
fn an_empty_run_has_no_entries() {
    let version = Version::new(7, no_files());
    assert!(version.tree(TREE).expect("it exists").runs().next().is_none());
    let mut cursor = Arc::new(Run::new(RunId(1))).cursor(ReadPolicy::Cached, &Arc::default());
    let nothing: &mut dyn Source = &mut cursor;
    nothing.seek_first().expect("nothing fails");
    assert_eq!(nothing.entry(), None);
    nothing.seek_last().expect("nothing fails");
    assert_eq!(nothing.entry(), None);
    nothing.seek_before(b"k", Sequence::MAX).expect("nothing fails");
    assert_eq!(nothing.entry(), None);
}
