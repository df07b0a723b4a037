//! The WAL by itself: appended groups come back in order, up to where they are durable, and never
//! any others.
//!
//! The reference is a list of the appended groups. WALs are small and in memory; damage is done to
//! their bytes.

mod findings;
mod open;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tamarack_env::sim::{Crash, Failure, Fault};
use tamarack_env::{Access, Env, MemoryEnv, Random, SimEnv};
use tamarack_testing::{STEP, read_file, write_file};

use crate::error::{Error, Result};
use crate::format::entry::{EntryKind, Sequence};
use crate::format::group::Group;
use crate::format::meta::{EditNumber, TreeId};
use crate::format::names::FileName;
use crate::step;
use crate::wal::{Position, Recovered, RecoverySettings, Tail, Wal, WalSettings, recover};

pub(crate) const DATABASE: u64 = 0xDA7A;
pub(crate) const DIR: &str = "/log";
const EDIT: EditNumber = EditNumber(9);

/// One entry as it came back.
type Item = (u64, EntryKind, Vec<u8>, Vec<u8>);

fn empty_dir() -> Arc<dyn Env> {
    let env = MemoryEnv::new(1);
    env.create_dir(Path::new(DIR), STEP).unwrap();
    env
}

fn settings(env: &Arc<dyn Env>) -> WalSettings {
    WalSettings { env: env.clone(), dir: DIR.into(), database: DATABASE, allocate_bytes: 1024 }
}

fn recovery(env: &Arc<dyn Env>) -> RecoverySettings {
    RecoverySettings {
        env: env.clone(),
        dir: DIR.into(),
        database: DATABASE,
        flushed_through: Sequence(0),
        last_edit: EDIT,
        durable: Position(0),
        tail: Tail::MayBeTorn,
    }
}

fn read_back(settings: &RecoverySettings) -> Result<(Vec<Item>, Recovered)> {
    let mut items = Vec::new();
    let recovered = recover(settings, &mut |tree, entry| {
        assert_eq!(tree, TreeId::DEFAULT);
        items.push((entry.sequence.0, entry.kind, entry.key.to_vec(), entry.value.to_vec()));
        Ok(())
    })?;
    Ok((items, recovered))
}

/// An empty WAL in [`DIR`].
pub(crate) fn empty_wal(env: &Arc<dyn Env>) -> Wal {
    let (_, nothing) = read_back(&recovery(env)).unwrap();
    Wal::start(settings(env), &nothing, EDIT).unwrap()
}

/// A WAL being written, and what was written to it.
struct Writer {
    wal: Wal,
    written: Vec<Item>,
    group: Group,
}

/// A simulator, the same as an environment, and a WAL that is being written there.
fn simulated() -> (SimEnv, Arc<dyn Env>, Writer) {
    let sim = SimEnv::new(7);
    sim.create_dir(Path::new(DIR), STEP).unwrap();
    sim.sync_dir(Path::new("/"), STEP).unwrap();
    let env: Arc<dyn Env> = Arc::new(sim.clone());
    let writer = Writer::new(&env);
    (sim, env, writer)
}

impl Writer {
    fn new(env: &Arc<dyn Env>) -> Self {
        Self { wal: empty_wal(env), written: Vec::new(), group: Group::new() }
    }

    fn reopen(env: &Arc<dyn Env>) -> Self {
        let (written, recovered) = read_back(&recovery(env)).unwrap();
        Self { wal: Wal::start(settings(env), &recovered, EDIT).unwrap(), written, group: Group::new() }
    }

    fn next(&self) -> u64 {
        self.written.last().map_or(1, |item| item.0 + 1)
    }

    /// Appends one group of puts with these values.
    fn append(&mut self, values: &[&str]) -> Result<Position> {
        let first = self.next();
        self.group.clear(usize::MAX);
        let items: Vec<Item> = values
            .iter()
            .enumerate()
            .map(|(index, value)| {
                let sequence = first + index as u64;
                (sequence, EntryKind::Put, format!("key {sequence}").into_bytes(), value.as_bytes().to_vec())
            })
            .collect();
        for (_, kind, key, value) in &items {
            self.group.push_entry(TreeId::DEFAULT, *kind, key, value);
        }
        let end = self.wal.append(&mut self.group, Sequence(first))?;
        self.written.extend(items);
        Ok(end)
    }

    fn rotate(&self) {
        self.wal.rotate(Sequence(self.next()), EDIT).unwrap();
    }
}

fn segment(number: u64) -> PathBuf {
    FileName::Wal(number).path(Path::new(DIR))
}

#[test]
fn appended_groups_come_back_across_segments_and_reopenings() {
    for seed in 0..50 {
        let random = Random::new(seed);
        let env = empty_dir();
        let mut writer = Writer::new(&env);
        for _ in 0..random.below(60) {
            match random.below(10) {
                0 => writer.rotate(),
                1 => {
                    let before = std::mem::take(&mut writer.written);
                    drop(writer);
                    writer = Writer::reopen(&env);
                    assert_eq!(writer.written, before, "seed {seed}");
                }
                2 => writer.wal.sync_to(writer.wal.end()).unwrap(),
                _ => {
                    let value = "v".repeat(random.below(200) as usize);
                    let values = vec![value.as_str(); 1 + random.below(4) as usize];
                    writer.append(&values).unwrap();
                }
            }
        }
        let end = writer.wal.close().unwrap();
        let written = std::mem::take(&mut writer.written);
        let closed = RecoverySettings { durable: end, tail: Tail::Strict, ..recovery(&env) };
        let (items, recovered) = read_back(&closed).unwrap();
        assert_eq!((items, recovered.end), (written, end), "seed {seed}");
    }
}

#[test]
fn entries_that_are_in_tables_are_not_replayed_and_their_segments_go() {
    let env = empty_dir();
    let mut writer = Writer::new(&env);
    writer.append(&["a", "b"]).unwrap();
    writer.rotate();
    writer.append(&["c"]).unwrap();
    writer.rotate();
    writer.wal.release(Sequence(1)).unwrap();
    assert_eq!(writer.wal.segments().len(), 3, "the second entry is not flushed");
    writer.wal.release(Sequence(2)).unwrap();
    assert_eq!(writer.wal.segments().len(), 2);
    writer.wal.release(Sequence(3)).unwrap();
    assert_eq!(writer.wal.segments().len(), 1, "the last segment stays");
    writer.append(&["d", "e"]).unwrap();
    drop(writer);
    let flushed = RecoverySettings { flushed_through: Sequence(4), ..recovery(&env) };
    let (items, recovered) = read_back(&flushed).unwrap();
    assert_eq!(items.iter().map(|item| item.0).collect::<Vec<_>>(), [5]);
    assert_eq!(recovered.last_sequence, Sequence(5));
}

fn one_entry_each_in_two_segments() -> Arc<dyn Env> {
    let env = empty_dir();
    let mut writer = Writer::new(&env);
    writer.append(&["a"]).unwrap();
    writer.rotate();
    writer.append(&["b"]).unwrap();
    env
}

#[test]
fn a_segment_that_a_crash_brought_back_is_removed_unread() {
    let env = one_entry_each_in_two_segments();
    write_file(&*env, &segment(1), b"whatever a crash left of it");
    let flushed = RecoverySettings { flushed_through: Sequence(1), ..recovery(&env) };
    let (items, _) = read_back(&flushed).unwrap();
    assert_eq!(items.len(), 1);
    assert_eq!(env.list(Path::new(DIR)).unwrap(), [FileName::Wal(2).name().as_str()]);
}

#[test]
fn a_segment_that_is_needed_and_missing_is_an_error() {
    let env = one_entry_each_in_two_segments();
    env.remove(&segment(1), STEP).unwrap();
    let error = read_back(&recovery(&env)).unwrap_err();
    assert!(matches!(&error, Error::Corruption { path, .. } if *path == segment(2)), "{error}");
}

#[test]
fn a_segment_made_after_an_edit_the_manifest_has_not_is_an_error() {
    let env = empty_dir();
    drop(Writer::new(&env));
    let older = RecoverySettings { last_edit: EditNumber(8), ..recovery(&env) };
    let error = read_back(&older).unwrap_err().to_string();
    assert!(error.contains("lost edits"), "{error}");
}

/// A WAL of two segments: three records, then two; and everything before the last record known
/// durable by the mark of the last.
fn two_segments() -> (Arc<dyn Env>, Vec<Item>, [Vec<u8>; 2]) {
    let env = empty_dir();
    let mut writer = Writer::new(&env);
    writer.append(&["one"]).unwrap();
    writer.append(&["two", "three"]).unwrap();
    writer.append(&["four"]).unwrap();
    writer.rotate();
    writer.append(&["five"]).unwrap();
    writer.wal.sync_to(writer.wal.end()).unwrap();
    writer.append(&["six"]).unwrap();
    let written = writer.written.clone();
    drop(writer);
    let bytes = [read_file(&*env, &segment(1)), read_file(&*env, &segment(2))];
    (env, written, bytes)
}

/// What damage may lead to: everything, or everything but the last record, which nothing marks as
/// durable; or an error that names a segment.
fn judge(env: &Arc<dyn Env>, written: &[Item], what: &str) {
    match read_back(&recovery(env)) {
        Ok((items, recovered)) if items == written[..written.len() - 1] => {
            assert!(!recovered.dropped.is_empty(), "{what}: dropped in silence");
        }
        Ok((items, _)) => assert_eq!(items, written, "{what}"),
        Err(Error::Corruption { path, .. } | Error::Unsupported { path, .. }) => {
            assert!(path == segment(1) || path == segment(2), "{what}: {path:?}");
        }
        Err(error) => panic!("{what}: {error}"),
    }
}

#[test]
fn every_flipped_bit_is_harmless_or_noticed() {
    let (env, written, bytes) = two_segments();
    for (index, original) in bytes.iter().enumerate() {
        for bit in 0..original.len() * 8 {
            let mut damaged = original.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            write_file(&*env, &segment(1), &bytes[0]);
            write_file(&*env, &segment(2), &bytes[1]);
            write_file(&*env, &segment(index as u64 + 1), &damaged);
            judge(&env, &written, &format!("bit {bit} of segment {}", index + 1));
            // Recovery may have removed the second.
            if env.open(&segment(2), Access::Read).is_err() {
                env.create(&segment(2), STEP).unwrap();
            }
        }
    }
}

#[test]
fn every_truncation_is_harmless_or_noticed() {
    let (env, written, bytes) = two_segments();
    for (index, original) in bytes.iter().enumerate() {
        for length in 0..original.len() {
            write_file(&*env, &segment(1), &bytes[0]);
            write_file(&*env, &segment(2), &bytes[1]);
            write_file(&*env, &segment(index as u64 + 1), &original[..length]);
            let what = format!("segment {} of {} bytes cut to {length}", index + 1, original.len());
            match read_back(&recovery(&env)) {
                Ok((items, _)) if items == written => {}
                // The cut took the only record with a mark, and so every sign of what was durable.
                // The rest is a prefix, as after a crash.
                Ok((items, _)) => {
                    assert!(index == 1 && items.len() >= 4 && written.starts_with(&items), "{what}: {items:?}")
                }
                Err(Error::Corruption { path, .. }) => {
                    assert!(path == segment(1) || path == segment(2), "{what}: {path:?}")
                }
                Err(error) => panic!("{what}: {error}"),
            }
            if env.open(&segment(2), Access::Read).is_err() {
                env.create(&segment(2), STEP).unwrap();
            }
        }
    }
}

/// Entries that are flushed count as durable: the marks of later records say so, and recovery
/// misses them if the edit that flushed them is lost.
#[test]
fn marks_cover_what_is_in_tables() {
    let (sim, _, mut writer) = simulated();
    writer.append(&["a"]).unwrap();
    writer.rotate();
    writer.wal.release(Sequence(1)).unwrap();
    writer.append(&["b"]).unwrap();
    writer.wal.sync_to(writer.wal.end()).unwrap();
    let image: Arc<dyn Env> = Arc::new(sim.image(Crash::LoseAll));
    let flushed = RecoverySettings { flushed_through: Sequence(1), ..recovery(&image) };
    let env: Arc<dyn Env> = Arc::new(sim.image(Crash::LoseAll));
    assert_eq!(read_back(&flushed).unwrap().0, writer.written[1..]);
    let error = read_back(&recovery(&env)).unwrap_err().to_string();
    assert!(error.contains("it was durable up to position"), "{error}");
}

#[test]
fn strict_recovery_refuses_a_torn_end_and_changes_nothing() {
    let (env, _, [_, second]) = two_segments();
    let mut torn = second.clone();
    let end = torn.iter().rposition(|&byte| byte != 0).unwrap();
    torn[end] ^= 1;
    write_file(&*env, &segment(2), &torn);
    let strict = RecoverySettings { tail: Tail::Strict, ..recovery(&env) };
    assert!(matches!(read_back(&strict), Err(Error::Corruption { .. })));
    assert_eq!(read_file(&*env, &segment(2)), torn);
    let (items, recovered) = read_back(&recovery(&env)).unwrap();
    assert_eq!(items.len(), 5);
    assert!(recovered.dropped[0].bytes > 0);
}

/// What a crash tore off must not come back once newer records stand where it stood: the first
/// record of a torn pair is lost, a record of the same size takes its place, and the second, which
/// was whole, would follow it seamlessly.
#[test]
fn a_dropped_record_never_comes_back() {
    let (sim, env, mut writer) = simulated();
    writer.append(&["kept"]).unwrap();
    writer.wal.sync_to(writer.wal.end()).unwrap();
    let start = writer.wal.end().0;
    writer.append(&["lost"]).unwrap();
    writer.append(&["ghost"]).unwrap();
    drop(writer);
    sim.overwrite(segment(1), start + 20, &[0xFF]).unwrap();

    let mut writer = Writer::reopen(&env);
    assert_eq!(writer.written.len(), 1);
    writer.append(&["anew"]).unwrap();
    drop(writer);
    for crash in [Crash::KeepAll, Crash::LoseAll] {
        let image: Arc<dyn Env> = Arc::new(sim.image(crash));
        let (items, _) = read_back(&recovery(&image)).unwrap();
        assert!(items.iter().all(|item| item.3 != b"ghost"), "{items:?}");
    }
}

#[test]
fn a_failed_append_leaves_no_trace_and_a_failed_sync_ends_the_wal() {
    let (sim, _, mut writer) = simulated();
    writer.append(&["a"]).unwrap();
    sim.inject(Fault::new(Failure::StorageFull).step(step::WAL_APPEND));
    assert!(matches!(writer.append(&["full"]), Err(Error::Io { .. })));
    writer.append(&["b"]).unwrap();
    writer.wal.sync_to(writer.wal.end()).unwrap();
    sim.inject(Fault::new(Failure::Io).step(step::WAL_SYNC));
    writer.append(&["c"]).unwrap();
    assert!(matches!(writer.wal.sync_to(writer.wal.end()), Err(Error::Stopped { .. })));
    assert!(matches!(writer.append(&["d"]), Err(Error::Stopped { .. })));
    assert!(matches!(writer.wal.sync_to(writer.wal.end()), Err(Error::Stopped { .. })));
    drop(writer);
    let image: Arc<dyn Env> = Arc::new(sim.image(Crash::LoseAll));
    let (items, _) = read_back(&recovery(&image)).unwrap();
    assert_eq!(items.iter().map(|item| &item.3[..]).collect::<Vec<_>>(), [&b"a"[..], b"b"]);
}

/// An append that failed may have written all of its record. No crash brings back what the caller
/// was told is not written.
#[test]
fn a_failed_append_never_comes_back() {
    let (sim, _, mut writer) = simulated();
    writer.append(&["a"]).unwrap();
    writer.wal.sync_to(writer.wal.end()).unwrap();
    sim.inject(Fault::new(Failure::ErrorAfterEffect).step(step::WAL_APPEND));
    assert!(matches!(writer.append(&["ghost"]), Err(Error::Io { .. })));
    for crash in [Crash::KeepAll, Crash::LoseAll] {
        let image: Arc<dyn Env> = Arc::new(sim.image(crash));
        assert_eq!(read_back(&recovery(&image)).unwrap().0, writer.written);
    }
}

/// A failed sync may leave pages in the cache that count as clean: reads show them, but no later
/// sync writes them. What a recovery showed must survive all the same.
#[test]
fn what_recovery_read_from_the_cache_becomes_durable() {
    let (sim, env, mut writer) = simulated();
    writer.append(&["a"]).unwrap();
    sim.inject(Fault::new(Failure::SyncDropsPages).step(step::WAL_SYNC));
    writer.wal.sync_to(writer.wal.end()).unwrap_err();
    drop(writer);
    let shown = Writer::reopen(&env).written;
    assert_eq!(shown.len(), 1, "the page cache has it");
    let image: Arc<dyn Env> = Arc::new(sim.image(Crash::LoseAll));
    assert_eq!(read_back(&recovery(&image)).unwrap().0, shown);
}

/// A segment whose making failed half way, and could not be removed either, does not part the
/// segments around it.
#[test]
fn a_segment_that_was_never_finished_is_passed_over() {
    let env = empty_dir();
    let mut writer = Writer::new(&env);
    writer.append(&["a"]).unwrap();
    env.create(&segment(2), STEP).unwrap();
    assert!(writer.wal.rotate(Sequence(2), EDIT).is_err(), "the name is taken");
    writer.rotate();
    writer.append(&["b"]).unwrap();
    let written = writer.written.clone();
    drop(writer);
    let (items, recovered) = read_back(&recovery(&env)).unwrap();
    assert_eq!((items, recovered.dropped), (written, vec![]));
}

/// A header may be written in full although the write of it failed. If the segment cannot be
/// removed either, it would part what is appended to the segments around it.
#[test]
fn a_segment_whose_header_seemed_to_fail_parts_nothing() {
    let (sim, env, mut writer) = simulated();
    writer.append(&["a"]).unwrap();
    sim.inject(Fault::new(Failure::ErrorAfterEffect).step(step::WAL_HEADER));
    sim.inject(Fault::new(Failure::Io).step(step::WAL_REMOVE));
    let error = writer.wal.rotate(Sequence(2), EDIT).unwrap_err();
    if let Error::Io { .. } = error {
        writer.append(&["b"]).unwrap();
        writer.rotate();
        writer.append(&["c"]).unwrap();
    }
    let (items, recovered) = read_back(&recovery(&env)).unwrap();
    assert_eq!((items, recovered.dropped), (writer.written, vec![]), "after {error}");
}

/// While a WAL is being closed, commits in progress may append to segments and begin new ones.
/// Everything before the end that closing returns is durable all the same.
#[test]
fn groups_appended_while_the_wal_is_being_closed_are_durable() {
    let (sim, _, mut writer) = simulated();
    writer.append(&["a"]).unwrap();
    let wal = Arc::new(writer.wal);
    let (late, mut group, mut comes_late) = (Arc::downgrade(&wal), Group::new(), true);
    sim.set_hook(move |moment| {
        if moment.call.step == Some(step::WAL_SYNC) && std::mem::take(&mut comes_late) {
            let wal = late.upgrade().expect("it is being closed");
            for sequence in [2, 3] {
                group.clear(usize::MAX);
                group.push_entry(TreeId::DEFAULT, EntryKind::Put, b"late", b"b");
                wal.append(&mut group, Sequence(sequence)).unwrap();
                wal.rotate(Sequence(sequence + 1), EDIT).unwrap();
            }
        }
    });
    let end = wal.close().unwrap();
    let image: Arc<dyn Env> = Arc::new(sim.image(Crash::LoseAll));
    let (items, _) = read_back(&RecoverySettings { durable: end, ..recovery(&image) }).unwrap();
    assert_eq!(items.len(), 3);
}

/// Stored bytes: a segment with a put, a delete and a batch. A difference is a change of the
/// format; see `docs/FORMAT.md`. `TAMARACK_REWRITE=1` stores the new bytes.
#[test]
fn golden_bytes_of_a_segment() {
    let env = empty_dir();
    let mut writer = Writer::new(&env);
    writer.append(&["maple"]).unwrap();
    writer.group.clear(usize::MAX);
    for kind in 1..=6 {
        let kind = EntryKind::from_number(kind).unwrap();
        let value: &[u8] = if kind.has_value() { b"value" } else { b"" };
        writer.group.push_entry(TreeId::DEFAULT, kind, b"key", value);
    }
    let first = Sequence(writer.next());
    writer.wal.append(&mut writer.group, first).unwrap();
    writer.wal.close().unwrap();
    drop(writer);
    let bytes = read_file(&*env, &segment(1));

    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v2").join(FileName::Wal(1).name());
    tamarack_testing::assert_stored(&path, bytes);
    let (items, _) = read_back(&recovery(&env)).unwrap();
    assert_eq!(items.len(), 7);
    assert_eq!(items[2], (3, EntryKind::Delete, b"key".to_vec(), Vec::new()));
}
