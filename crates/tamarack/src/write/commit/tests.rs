//! The commit queue by itself, with a WAL and memtables and no files beyond these: when memtables
//! rotate, when writers stall, what is counted, what is synced. `tests/schedules` explores the
//! orders of its threads; here most tests have one thread, on the simulator.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tamarack_env::sim::{Failure, Fault};
use tamarack_env::sync::atomic::{AtomicBool, Ordering};
use tamarack_env::sync::{Mutex, Rank, thread};
use tamarack_env::{Env, MemoryEnv, Progress, SimEnv, Work, Worker};

use crate::admission::Admission;
use crate::database::{Activity, Database};
use crate::entry::{EntryKind, Query, Sequence};
use crate::error::{Error, Result};
use crate::events::{Event, Events};
use crate::format::edit::{Change, Edit};
use crate::format::key_range::KeyRange;
use crate::format::meta::{EditNumber, TreeId};
use crate::memory::Budget;
use crate::merge::Source as _;
use crate::operator::Merging;
use crate::stats::Counters;
use crate::step;
use crate::table::TableStorage;
use crate::tree::state::Tree;
use crate::tree::table_file::TableFiles;
use crate::tree::version::Version;
use crate::wal::Wal;
use crate::wal::tests::{DATABASE, DIR, empty_wal};
use crate::write::{Batch, BeginTicket, CommitQueue, CommitSettings, Durability, IntervalSync, ReadSet, Write};

/// A commit queue and what it writes to.
struct Stage {
    tree: Arc<Tree>,
    wal: Arc<Wal>,
    counters: Arc<Counters>,
    commits: CommitQueue,
    /// What was told to a listener.
    heard: Arc<Mutex<Vec<String>>>,
}

impl Stage {
    fn new(env: Arc<dyn Env>, settings: CommitSettings) -> Arc<Self> {
        env.create_dir(Path::new(DIR), step::DATABASE_CREATE).unwrap();
        let wal = Arc::new(empty_wal(&env));
        let files = TableFiles::new(TableStorage::buffered(env.clone(), 0), Path::new(DIR));
        let version = Arc::new(Version::new(DATABASE, files));
        let lock = env.lock(&Path::new(DIR).join("LOCK")).unwrap();
        let heard = Arc::new(Mutex::new(Rank::Test, Vec::new()));
        let listener = heard.clone();
        let events =
            Arc::new(Events::new(Some(Arc::new(move |event: &Event| listener.lock().push(format!("{event:?}"))))));
        let database = Arc::new(Database::new(Sequence::ZERO, version.edit_number(), events, lock));
        let merging = Merging::new(Path::new("/db").into(), None, None);
        let tree = Tree::new(TreeId::DEFAULT, database.clone(), Arc::default(), Vec::new(), version, merging);
        let tree = Arc::new(tree);
        let interval = Arc::new(IntervalSync::new(env.clone(), wal.clone(), database));
        let counters: Arc<Counters> = Arc::default();
        let commits =
            CommitQueue::new(settings, env, wal.clone(), tree.clone(), counters.clone(), interval, Sequence::ZERO);
        Arc::new(Self { tree, wal, counters, commits, heard })
    }

    fn put(&self, key: &str) -> Result<()> {
        self.put_with(key, Durability::Buffered)
    }

    fn put_with(&self, key: &str, durability: Durability) -> Result<()> {
        self.commits.commit(Write::One { kind: EntryKind::Put, key: key.as_bytes(), value: b"" }, durability)
    }

    /// Whether a reader that comes now finds the key.
    fn sees(&self, key: &str) -> bool {
        let state = self.tree.pin();
        let query = Query::new(key.as_bytes(), self.tree.database.sequences.visible());
        let mut memtables = std::iter::once(&state.active).chain(state.immutable.iter().map(|one| &one.memtable));
        memtables.any(|memtable| memtable.get(query, &mut |_| ControlFlow::Break(())).is_break())
    }

    /// The last sequences of immutable memtables, young to old.
    fn immutable(&self) -> Vec<u64> {
        self.tree.pin().immutable.iter().map(|immutable| immutable.last.0).collect()
    }

    /// What was told since the last call.
    fn heard(&self) -> Vec<String> {
        self.tree.database.events.deliver_all();
        std::mem::take(&mut *self.heard.lock())
    }
}

fn flush(tree: &Tree) {
    let version = tree.pin_scan().version.clone();
    let flushed = Change::FlushedThrough { tree: TreeId::DEFAULT, sequence: tree.database.sequences.visible() };
    let edit = Edit { number: EditNumber(version.edit_number().0 + 1), changes: vec![flushed] };
    tree.install(Arc::new(version.apply(&edit).expect("it fits").version));
    tree.database.progress.notify();
}

/// Flushes what has waited for a second.
struct Flusher {
    tree: Arc<Tree>,
    env: SimEnv,
    due: Mutex<Option<Duration>>,
}

impl Flusher {
    fn start(sim: &SimEnv, stage: &Stage) -> Arc<dyn Worker> {
        let due = Mutex::new(Rank::Test, None);
        sim.start("flusher", Arc::new(Self { tree: stage.tree.clone(), env: sim.clone(), due })).unwrap()
    }
}

impl Work for Flusher {
    fn step(&self) -> Progress {
        let in_a_second = self.env.now() + Duration::from_secs(1);
        let is_waiting = !self.tree.pin().immutable.is_empty();
        let due = if is_waiting { *self.due.lock().get_or_insert(in_a_second) } else { in_a_second };
        if due > self.env.now() {
            return Progress::IdleUntil(due);
        }
        *self.due.lock() = None;
        flush(&self.tree);
        Progress::IdleUntil(in_a_second)
    }
}

fn settings() -> CommitSettings {
    CommitSettings {
        memtable_bytes: 1 << 20,
        immutable_memtables_max: 100,
        memtables_memory_max: u64::MAX,
        budget: Budget::unlimited(),
        write_bytes_max: 1 << 16,
        group_bytes: 1 << 16,
        throttle: Arc::default(),
        large_reads: Arc::new(Admission::new(Rank::LargeReads, 1 << 16)),
        reserve: None,
    }
}

/// A stage on a simulator.
fn simulated(settings: CommitSettings) -> (SimEnv, Arc<Stage>) {
    let sim = SimEnv::new(1);
    (sim.clone(), Stage::new(Arc::new(sim), settings))
}

/// Raw bytes of a put of a key of one byte.
fn put_bytes() -> u64 {
    Write::One { kind: EntryKind::Put, key: b"a", value: b"" }.raw_bytes()
}

/// Each write is a group here; entries and raw bytes are counted, of refused writes none.
#[test]
fn writes_are_counted() {
    let (_, stage) = simulated(settings());
    stage.put("a").unwrap();
    let mut batch = Batch::new();
    batch.put("b", "").put("c", "").delete("d");
    stage.commits.commit(Write::Many(&batch), Durability::Buffered).unwrap();
    let raw_bytes = put_bytes() + Write::Many(&batch).raw_bytes();
    let large = vec![0; 1 << 17];
    let too_large = Write::One { kind: EntryKind::Put, key: b"e", value: &large };
    assert!(matches!(stage.commits.check(&too_large), Err(Error::InvalidArgument { .. })));
    assert!(matches!(stage.commits.commit(too_large, Durability::Buffered), Err(Error::InvalidArgument { .. })));
    let counters = &stage.counters;
    assert_eq!((counters.commit_groups.get(), counters.entries_written.get()), (2, 4));
    assert_eq!((counters.raw_bytes_written.get(), stage.commits.filled_bytes()), (raw_bytes, raw_bytes));
    assert_eq!(stage.tree.database.sequences.visible(), Sequence(4));
    assert!(["a", "b", "c"].iter().all(|key| stage.sees(key)));
}

/// A memtable is full to the byte: the next write rotates it. An empty one is never rotated, and a
/// changed capacity counts from the next write on. Each rotation begins a WAL segment.
#[test]
fn memtables_rotate_when_they_are_full() {
    let (_, stage) = simulated(CommitSettings { memtable_bytes: 2 * put_bytes(), ..settings() });
    stage.commits.rotate_memtable().unwrap();
    assert_eq!(stage.immutable(), [0; 0]);
    for _ in 0..5 {
        stage.put("a").unwrap();
    }
    assert_eq!((stage.immutable(), stage.commits.filled_bytes()), (vec![4, 2], put_bytes()));
    stage.commits.set_memtable_bytes(3 * put_bytes());
    stage.put("a").unwrap();
    stage.put("a").unwrap();
    assert_eq!((stage.immutable(), stage.commits.filled_bytes()), (vec![4, 2], 3 * put_bytes()));
    stage.commits.rotate_memtable().unwrap();
    stage.commits.rotate_memtable().unwrap();
    assert_eq!((stage.immutable(), stage.commits.filled_bytes()), (vec![7, 4, 2], 0));
    let segments: Vec<u64> = stage.wal.segments().iter().map(|segment| segment.first_sequence.0).collect();
    assert_eq!(segments, [1, 3, 5, 8]);
    // One write larger than a memtable goes into an empty one.
    stage.commits.set_memtable_bytes(1);
    stage.put("a").unwrap();
    assert_eq!(stage.immutable(), [7, 4, 2]);
}

/// A write is as durable as requested when it returns; an empty batch makes earlier ones so.
#[test]
fn durability_is_what_was_requested() {
    let (sim, stage) = simulated(settings());
    let syncs = || sim.step_counts().get(&step::WAL_SYNC).copied().unwrap_or(0);
    let empty = Batch::new();
    let commit_nothing = |durability| stage.commits.commit(Write::Many(&empty), durability).unwrap();
    stage.put("a").unwrap();
    commit_nothing(Durability::Buffered);
    assert_eq!((syncs(), stage.wal.durable() < stage.wal.end()), (0, true));
    stage.put_with("b", Durability::Sync).unwrap();
    assert_eq!((syncs(), stage.wal.durable()), (1, stage.wal.end()));
    stage.put("c").unwrap();
    commit_nothing(Durability::Sync);
    assert_eq!((syncs(), stage.wal.durable()), (2, stage.wal.end()));
    let later = Durability::Interval(Duration::from_secs(1));
    stage.put("d").unwrap();
    stage.commits.finish().unwrap();
    assert_eq!(syncs(), 2, "nobody asked");
    commit_nothing(later);
    stage.commits.finish().unwrap();
    assert_eq!((syncs(), stage.wal.durable()), (3, stage.wal.end()));
    stage.put_with("e", later).unwrap();
    assert_eq!(syncs(), 3);
    stage.commits.finish().unwrap();
    assert_eq!((syncs(), stage.wal.durable()), (4, stage.wal.end()));
}

/// Throttled writes are counted with the time that they took, and the first one is told of.
#[test]
fn throttled_writes_are_delayed() {
    let throttled = settings();
    throttled.throttle.set_rate(Some(put_bytes() as f64)); // one such write in a second
    let (sim, stage) = simulated(throttled);
    let began = sim.now();
    for _ in 0..3 {
        stage.put("a").unwrap();
    }
    let passed = (sim.now() - began).as_secs_f64();
    let counters = &stage.counters;
    assert!((1.9..=3.1).contains(&passed), "{passed} s");
    assert!((2..=3).contains(&counters.write_delays.get()), "{}", counters.write_delays.get());
    assert!((counters.write_delay_seconds.get() - passed).abs() < 0.01);
    let heard = stage.heard();
    assert!(matches!(&heard[..], [event] if event.starts_with("WriteThrottlingBegan")), "{heard:?}");
    assert_eq!(counters.write_stalls.get(), 0);
}

/// A transaction's read of one key; of none, if there is none.
struct Reads(Option<&'static str>);

impl ReadSet for Reads {
    fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    fn contains(&self, key: &[u8]) -> bool {
        self.0.is_some_and(|read| read.as_bytes() == key)
    }

    fn overlaps(&self, range: &KeyRange) -> bool {
        self.0.is_some_and(|read| range.contains(read.as_bytes()))
    }

    fn describe(&self, key: &[u8]) -> String {
        format!("{key:?}")
    }
}

impl Stage {
    /// Commits a put of "b" by a transaction that began there.
    fn commit_transaction(&self, begun: &BeginTicket, reads: Option<&'static str>) -> Result<()> {
        let mut batch = Batch::new();
        batch.put("b", "");
        self.commits.commit_transaction(&batch, Durability::Buffered, begun, &Reads(reads))
    }
}

/// Attempts that are refused delay nobody, neither themselves nor others.
#[test]
fn refused_transactions_take_nothing_of_the_rate_of_writes() {
    let throttled = settings();
    throttled.throttle.set_rate(Some(put_bytes() as f64)); // one such write in a second
    let (sim, stage) = simulated(throttled);
    let begun = stage.commits.begin_transaction();
    stage.put("a").unwrap();
    let (began, delays) = (sim.now(), stage.counters.write_delays.get());
    for _ in 0..10 {
        let refused = stage.commit_transaction(&begun, Some("a"));
        assert!(matches!(refused, Err(Error::Conflict { .. })), "{refused:?}");
    }
    assert_eq!((sim.now(), stage.counters.write_delays.get()), (began, delays));
    stage.put("a").unwrap();
    assert!((sim.now() - began).as_secs_f64() < 2.1, "{:?} after the first write", sim.now() - began);
    stage.commits.end_transaction(&begun);
}

/// An installed run makes the transactions too old that have read something before it. One that
/// could not be installed has changed nothing, and makes none too old.
#[test]
fn runs_that_were_not_installed_make_no_transaction_too_old() {
    let (sim, stage) = simulated(settings());
    let _flusher = Flusher::start(&sim, &stage);
    let begun = stage.commits.begin_transaction();
    let failed = stage.commits.install_run(
        &mut (),
        1,
        |(), _| Ok(()),
        |(), _| Err::<(), _>(Error::InvalidArgument("no".to_owned())),
    );
    assert!(failed.is_err());
    let failed =
        stage.commits.install_run(&mut (), 1, |(), _| Err(Error::InvalidArgument("no".to_owned())), |(), _| Ok(()));
    assert!(failed.is_err());
    stage.commit_transaction(&begun, Some("a")).unwrap();
    stage.commits.install_run(&mut (), 1, |(), _| Ok(()), |(), _| Ok(())).unwrap();
    let refused = stage.commit_transaction(&begun, Some("a"));
    assert!(matches!(&refused, Err(Error::Conflict { what }) if what.contains("ingested")), "{refused:?}");
    stage.commit_transaction(&begun, None).unwrap();
    stage.commits.end_transaction(&begun);
}

/// The first transaction waits for writes in progress. If these wait for a run, the transaction
/// sees the run, and is not too old.
#[test]
fn a_transaction_that_begins_behind_a_run_is_not_too_old() {
    let stage = Stage::new(MemoryEnv::new(1), settings());
    let (installs, begins) = (AtomicBool::new(false), AtomicBool::new(false));
    let until = |is_done: &dyn Fn() -> bool| {
        while !is_done() {
            thread::yield_now();
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            until(&|| installs.load(Ordering::SeqCst));
            stage.put("a").unwrap();
        });
        let transaction = scope.spawn(|| {
            // The put has joined a group, whose leader waits.
            until(&|| installs.load(Ordering::SeqCst) && stage.commits.queue.lock().led);
            let begun = stage.commits.begin_transaction();
            assert!(stage.sees("a"));
            let outcome = stage.commit_transaction(&begun, Some("a"));
            stage.commits.end_transaction(&begun);
            outcome
        });
        scope.spawn(|| {
            until(&|| stage.commits.queue.lock().window.is_active());
            begins.store(true, Ordering::SeqCst);
        });
        let install = |(): &mut (), _| {
            installs.store(true, Ordering::SeqCst);
            until(&|| begins.load(Ordering::SeqCst));
            Ok(())
        };
        stage.commits.install_run(&mut (), 1, |(), _| Ok(()), install).unwrap();
        transaction.join().unwrap().unwrap();
    });
}

/// A write stall begins when the immutable memtables are too many and the active one is full, or
/// when memtables would take too much memory; not a byte earlier. It ends with a flush.
#[test]
fn writers_stall_until_a_flush_has_ended() {
    let by_count = CommitSettings { memtable_bytes: 2 * put_bytes(), immutable_memtables_max: 1, ..settings() };
    let (sim, stage) = simulated(by_count);
    sim.advance(Duration::from_secs(10));
    let _flusher = Flusher::start(&sim, &stage);
    let stalls = |stage: &Stage| (stage.counters.write_stalls.get(), stage.counters.write_stall_seconds.get());
    for _ in 0..4 {
        stage.put("a").unwrap();
    }
    assert_eq!((stage.immutable(), stalls(&stage).0), (vec![2], 0), "there is space in the active one");
    stage.put("a").unwrap();
    assert_eq!((stage.immutable(), stalls(&stage).0), (vec![4], 1));
    let seconds = stalls(&stage).1;
    assert!((0.1..=1.1).contains(&seconds), "{seconds} s");
    let heard: Vec<String> = stage.heard().into_iter().filter(|event| event.starts_with("WriteStall")).collect();
    assert_eq!(heard, ["WriteStallBegan", "WriteStallEnded"]);
    stage.commits.rotate_memtable().unwrap();
    assert_eq!(stalls(&stage).0, 2, "a rotation waits as a write does");
}

/// The memory of memtables counts with twice the bytes of the write, to the byte.
#[test]
fn writers_stall_before_memtables_take_too_much_memory() {
    let memory = |stage: &Stage| stage.tree.pin().memtables_memory_bytes();
    let after_one = |memory_max: u64| {
        let (_, stage) = simulated(CommitSettings { memtables_memory_max: memory_max, ..settings() });
        stage.put("a").unwrap();
        stage.commits.rotate_memtable().unwrap();
        stage
    };
    let needed = memory(&after_one(u64::MAX)) + 2 * put_bytes();
    let no_space = |stage: &Stage| {
        let error = Error::io("flush", Path::new(DIR), std::io::Error::other("it fails"));
        stage.tree.database.health.report_retry(Activity::Flush, error, Duration::ZERO);
        stage.put("b")
    };
    assert!(no_space(&after_one(needed)).is_ok());
    let stage = after_one(needed - 1);
    assert!(matches!(no_space(&stage), Err(Error::Io { .. })), "flushes fail, and writers are told");
    assert_eq!(stage.counters.write_stalls.get(), 1);
    assert!(!stage.sees("b"));
}

/// Once writing has ended, nothing is written, rotated or installed.
#[test]
fn nothing_is_written_after_the_end() {
    let (_, stage) = simulated(settings());
    stage.put("a").unwrap();
    stage.tree.database.health.report_stop(Error::Closed);
    let stopped = |outcome: Result<()>| matches!(outcome, Err(Error::Stopped { .. }));
    assert!(stopped(stage.put("b")) && stopped(stage.commits.sync()) && stopped(stage.commits.rotate_memtable()));
    assert!(stopped(stage.commits.install_run(&mut (), 1, |(), _| Ok(()), |(), _| Ok(())).map(drop)));
    assert_eq!((stage.immutable(), stage.tree.database.sequences.visible()), (vec![], Sequence(1)));
}

/// An installed run takes as many sequence numbers as it has entries, between the writes before,
/// which are flushed first, and those after, which get a WAL segment of their own.
#[test]
fn a_run_is_installed_between_writes() {
    let (sim, stage) = simulated(settings());
    let _flusher = Flusher::start(&sim, &stage);
    let mut told = Vec::new();
    let install = |told: &mut Vec<(u64, usize)>, entries: u64| {
        let tell = |told: &mut Vec<(u64, usize)>, sequence: Sequence| told.push((sequence.0, stage.immutable().len()));
        let end = |told: &mut Vec<(u64, usize)>, sequence| {
            tell(told, sequence);
            sim.advance(Duration::from_secs(3));
            Ok(())
        };
        let installed = stage.commits.install_run(told, entries, end, |told, sequence| {
            tell(told, sequence);
            Ok(sequence)
        });
        installed.unwrap()
    };
    let (sequence, _) = install(&mut told, 5);
    assert_eq!((sequence, stage.tree.database.sequences.visible()), (Sequence(5), Sequence(5)));
    assert_eq!(told, [(5, 0), (5, 0)], "an empty memtable is not rotated");
    stage.put("a").unwrap();
    assert_eq!(stage.commits.filled_bytes(), put_bytes());
    told.clear();
    let (sequence, stopped_for) = install(&mut told, 2);
    assert_eq!((sequence, stage.tree.database.sequences.visible()), (Sequence(8), Sequence(8)));
    assert_eq!(told[1], (8, 0), "flushed before the run is installed");
    assert!((3.0..5.0).contains(&stopped_for.as_secs_f64()), "{stopped_for:?}");
    stage.put("b").unwrap();
    assert_eq!(stage.tree.database.sequences.visible(), Sequence(9));
    let last = stage.wal.segments().last().map(|segment| segment.first_sequence);
    assert_eq!(last, Some(Sequence(9)));
}

/// If it is unknown whether a run was installed, or ended, a writer that waits for the lead writes
/// nothing: its record would get sequence numbers of the run, and recovery would skip it.
#[test]
fn nothing_is_written_after_a_run_of_unknown_fate() {
    for fails_at_end in [false, true] {
        let stage = Stage::new(MemoryEnv::new(1), settings());
        let fail = |writer: &mut Option<_>| {
            let is_done = Arc::new(AtomicBool::new(false));
            let (beside, done) = (stage.clone(), is_done.clone());
            *writer = Some(thread::spawn(move || {
                let written = beside.put_with("a", Durability::Sync);
                done.store(true, Ordering::Release);
                written
            }));
            let watcher = stage.clone();
            let until_it_waits = thread::spawn(move || {
                while !(watcher.commits.queue.lock().led || is_done.load(Ordering::Acquire)) {
                    thread::yield_now();
                }
            });
            until_it_waits.join().unwrap();
            let error = Error::io("manifest: sync", Path::new(DIR), std::io::Error::other("it failed"));
            Err(Error::Stopped { cause: Arc::new(error) })
        };
        let mut writer = None;
        let end = |writer: &mut _, _| if fails_at_end { fail(writer) } else { Ok(()) };
        let installed = stage.commits.install_run(&mut writer, 5, end, |writer, _| fail(writer));
        assert!(matches!(installed, Err(Error::Stopped { .. })));
        let written = writer.expect("it was begun").join().unwrap();
        assert!(matches!(written, Err(Error::Stopped { .. })), "{written:?}");
        assert!(!stage.sees("a"));
        assert_eq!((stage.counters.commit_groups.get(), stage.tree.database.sequences.visible()), (0, Sequence::ZERO));
    }
}

/// If the WAL cannot begin the segment after an installed run, the next write does; if it can go on
/// no more, writing ends, and a listener is told.
#[test]
fn a_segment_that_cannot_be_begun() {
    let (sim, stage) = simulated(settings());
    sim.inject(Fault::new(Failure::StorageFull).step(step::WAL_CREATE));
    stage.commits.install_run(&mut (), 5, |(), _| Ok(()), |(), _| Ok(())).unwrap();
    assert!(stage.wal.needs_segment());
    stage.put("a").unwrap();
    let firsts: Vec<u64> = stage.wal.segments().iter().map(|segment| segment.first_sequence.0).collect();
    assert_eq!((stage.wal.needs_segment(), firsts.last()), (false, Some(&6)), "{firsts:?}");
    sim.inject(Fault::new(Failure::Io).step(step::WAL_SYNC_DIRECTORY));
    assert!(matches!(stage.commits.rotate_memtable(), Err(Error::Stopped { .. })));
    assert!(matches!(stage.tree.database.health.check_running(), Err(Error::Stopped { .. })));
    let heard = stage.heard();
    assert!(heard.iter().any(|event| event.starts_with("WritingStopped")), "{heard:?}");
}

/// Counts how often it is woken.
struct Wakes(Mutex<usize>);

impl Worker for Wakes {
    fn wake(&self) {
        *self.0.lock() += 1;
    }

    fn stop(&self) {}
}

/// The flusher is woken by a rotation, and not by the writes before and after it.
#[test]
fn a_rotation_wakes_the_flusher() {
    let (_, stage) = simulated(settings());
    let wakes = Arc::new(Wakes(Mutex::new(Rank::Test, 0)));
    stage.tree.database.set_flusher(wakes.clone());
    for expected in [0, 0, 1, 1, 1, 2, 2] {
        if expected > *wakes.0.lock() {
            stage.commits.rotate_memtable().unwrap();
        } else {
            stage.put("a").unwrap();
        }
        assert_eq!(*wakes.0.lock(), expected);
    }
}

/// While one group is written, writers join the next, up to its size; more wait for the one after
/// it. The leader is kept waiting until all have come, so that the groups are the same each time:
/// one of a writer, and as many of two as there are pairs. Waiting members sleep.
#[test]
fn writers_join_while_a_group_is_written() {
    for pairs in [1, 2, 3].into_iter().cycle().take(12) {
        let env = MemoryEnv::new(1);
        let stage = Stage::new(env, CommitSettings { group_bytes: 2 * put_bytes() as usize, ..settings() });
        let spawn = |key: String| {
            let stage = stage.clone();
            thread::spawn(move || {
                stage.put(&key).unwrap();
                assert!(stage.sees(&key), "{key} is not visible");
            })
        };
        let until = |is_done: &dyn Fn() -> bool| {
            while !is_done() {
                thread::yield_now();
            }
        };
        let (is_taken, is_released) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let holder = {
            let (stage, is_taken, is_released) = (stage.clone(), is_taken.clone(), is_released.clone());
            thread::spawn(move || {
                let _lead = stage.commits.lead.lock();
                is_taken.store(true, Ordering::Release);
                while !is_released.load(Ordering::Acquire) {
                    thread::yield_now();
                }
            })
        };
        until(&|| is_taken.load(Ordering::Acquire));
        let mut writers = vec![spawn("0".into())];
        until(&|| stage.commits.queue.lock().led);
        writers.extend((1..=2 * pairs).map(|number| spawn(number.to_string())));
        until(&|| stage.commits.queue.lock().forming.members == 2);
        let group = stage.commits.queue.lock().forming.group.clone();
        // All writers of the forming group sleep; those that it has no space for do too.
        until(&|| group.sleepers.load(Ordering::SeqCst) == 2 * pairs);
        assert_eq!(stage.tree.database.sequences.visible(), Sequence::ZERO);
        is_released.store(true, Ordering::Release);
        holder.join().unwrap();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        until(&|| group.sleepers.load(Ordering::SeqCst) == 0);
        let counters = &stage.counters;
        let (groups, entries) = (counters.commit_groups.get(), counters.entries_written.get());
        assert_eq!(entries, 1 + 2 * u64::from(pairs));
        assert!((2..=1 + 2 * u64::from(pairs)).contains(&groups), "{groups} groups of {pairs} pairs");
        assert!(pairs > 1 || groups == 2, "{groups} groups");
        assert_eq!(stage.tree.database.sequences.visible(), Sequence(entries));
        let queue = stage.commits.queue.lock();
        assert!(!queue.led && queue.forming.members == 0 && queue.spare.is_some());
    }
}

/// A sync that several ask for is one: a leader whose group wants a sync waits a little for writers
/// who were there a moment ago.
#[test]
fn a_leader_waits_for_other_writers_before_a_sync() {
    let (sim, stage) = simulated(settings());
    sim.set_cost(Duration::from_millis(32), Duration::ZERO);
    let turns = |writers: u32, durability: Durability| {
        stage.commits.queue.lock().writers = writers;
        let before = sim.now();
        stage.put_with("a", durability).unwrap();
        sim.now() - before
    };
    let alone = turns(1, Durability::Sync);
    let sync_time = stage.commits.queue.lock().sync_time;
    assert!((Duration::from_millis(1)..=alone).contains(&sync_time), "{sync_time:?} of {alone:?}");
    assert_eq!(stage.commits.queue.lock().writers, 1, "the members of the last group");
    assert_eq!(turns(2, Durability::Buffered), turns(1, Durability::Buffered), "without a sync nobody waits");
    assert_eq!(stage.commits.queue.lock().sync_time, sync_time, "of the last sync");
}

/// Threads write beside one another, in groups that are small or large: each sees what it wrote
/// when its write returns, and all sequence numbers are used once.
#[test]
fn threads_share_groups() {
    for group_bytes in [1, 1 << 16] {
        let env = MemoryEnv::new(1);
        let stage = Stage::new(env, CommitSettings { group_bytes, memtable_bytes: 200, ..settings() });
        let threads = [0, 1, 2, 3].map(|number| {
            let stage = stage.clone();
            thread::spawn(move || {
                for round in 0..100 {
                    let key = format!("{number} {round}");
                    let durability = if number % 2 == 0 { Durability::Sync } else { Durability::Buffered };
                    let before = stage.wal.end();
                    stage.put_with(&key, durability).unwrap();
                    assert!(stage.sees(&key), "{key}");
                    assert!(durability == Durability::Buffered || stage.wal.durable() > before, "{key}");
                }
            })
        });
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(stage.tree.database.sequences.visible(), Sequence(400));
        assert_eq!(stage.counters.entries_written.get(), 400);
        assert!(stage.immutable().is_sorted_by(|young, old| young > old), "{:?}", stage.immutable());
        let mut sequences = Vec::new();
        let state = stage.tree.pin_scan();
        for memtable in std::iter::once(&state.active).chain(state.immutable.iter().map(|one| &one.memtable)) {
            let mut cursor = memtable.cursor();
            cursor.seek_first().unwrap();
            while let Some(entry) = cursor.entry() {
                sequences.push(entry.sequence.0);
                cursor.next().unwrap();
            }
        }
        sequences.sort_unstable();
        assert!(sequences.into_iter().eq(1..=400));
    }
}
