//! The commit queue, with a WAL and memtables but without background work.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use tamarack::internals::Admission;
use tamarack::internals::Budget;
use tamarack::internals::Merging;
use tamarack::internals::Query;
use tamarack::internals::Source;
use tamarack::internals::TableFiles;
use tamarack::internals::TableStorage;
use tamarack::internals::Tree;
use tamarack::internals::Version;
use tamarack::internals::{CommitQueue, CommitSettings, IntervalSync, Write};
use tamarack::internals::{Database, Sequences};
use tamarack::internals::{Recovered, RecoverySettings, Tail, Wal, WalSettings, recover};
use tamarack::step;
use tamarack::{Batch, Durability, Error, Result};
use tamarack_env::sync::{Mutex, Rank, thread};
use tamarack_env::{Env, Worker};
use tamarack_format::entry::{EntryKind, Sequence};
use tamarack_format::meta::{EditNumber, TreeId};
use tamarack_format::record::Position;

use crate::explore;
use crate::watched::{WatchedEnv, watched_env};

const DIR: &str = "/db";
const DATABASE: u64 = 7;

/// Three writers of all durabilities share groups as they come; an observer looks on.
#[test]
fn groups() {
    explore(1500, || {
        let queue = TestQueue::new(settings());
        mixed_writers(&queue);
        assert_eq!(queue.tree.database.sequences.visible(), Sequence(6), "six entries in all");
        queue.check_wal(6);
    });
}

/// As above, in groups of one or two members at most, so that joining waits for the group before.
#[test]
fn full_groups() {
    explore(1500, || {
        let queue = TestQueue::new(CommitSettings { group_bytes: 24, ..settings() });
        mixed_writers(&queue);
        queue.check_wal(6);
    });
}

/// As above, with a new memtable for almost every group.
#[test]
fn memtables_rotate_between_groups() {
    explore(1500, || {
        let queue = TestQueue::new(CommitSettings { memtable_bytes: 24, ..settings() });
        let rotator = {
            let queue = queue.clone();
            thread::spawn(move || queue.commits.rotate_memtable().unwrap())
        };
        mixed_writers(&queue);
        rotator.join().unwrap();
        let state = queue.tree.pin_scan();
        assert!(!state.immutable.is_empty());
        let lasts: Vec<_> = state.immutable.iter().map(|immutable| immutable.last).collect();
        assert!(lasts.is_sorted_by(|young, old| young > old), "{lasts:?}");
        for immutable in state.immutable.iter() {
            assert!(entries(&immutable.memtable).iter().all(|sequence| *sequence <= immutable.last.0));
        }
        queue.check_wal(6);
    });
}

/// Every memtable that becomes immutable is noticed once it is complete, and no group wakes the
/// flusher that completes none: a flusher that looks as soon as it is woken finds each of them.
#[test]
fn the_flusher_is_woken_for_each_complete_memtable() {
    explore(1500, || {
        let queue = TestQueue::new(CommitSettings { memtable_bytes: 24, ..settings() });
        let wakes = Mutex::new(Rank::Test, Vec::new());
        let flusher = Arc::new(TestFlusher { tree: OnceLock::new(), wakes });
        assert!(flusher.tree.set(Arc::downgrade(&queue.tree)).is_ok());
        queue.tree.database.set_flusher(flusher.clone());
        mixed_writers(&queue);
        let lasts: Vec<_> = queue.tree.pin().immutable.iter().map(|immutable| immutable.last).collect();
        let wakes = std::mem::take(&mut *flusher.wakes.lock());
        for last in &lasts {
            assert!(wakes.iter().any(|complete| complete.contains(last)), "{last:?} was missed: {wakes:?}");
        }
        // One for each rotation, and one for each memtable's last group.
        assert!(wakes.len() <= 2 * lasts.len(), "{} wakes for {lasts:?}", wakes.len());
    });
}

/// Notes which immutable memtables are complete whenever it is woken.
struct TestFlusher {
    tree: OnceLock<Weak<Tree>>,
    wakes: Mutex<Vec<Vec<Sequence>>>,
}

impl Worker for TestFlusher {
    fn wake(&self) {
        let tree = self.tree.get().and_then(Weak::upgrade).expect("the test has it");
        let immutable = tree.pin().immutable.clone();
        let visible = tree.database.sequences.visible();
        self.wakes
            .lock()
            .push(immutable.iter().map(|memtable| memtable.last).filter(|last| *last <= visible).collect());
    }

    fn stop(&self) {}
}

/// An append fails: all members of that group are told and see nothing of it; the WAL has no gap,
/// and trying again helps.
#[test]
fn a_failed_append() {
    explore(1500, || {
        let queue = TestQueue::new(settings());
        queue.env.hook().fail(step::WAL_APPEND, 2);
        let writers = ["a", "b", "c"].map(|key| {
            let queue = queue.clone();
            thread::spawn(move || {
                let durability = if key == "a" { Durability::Sync } else { Durability::Buffered };
                if let Err(error) = queue.put(key, durability) {
                    assert!(matches!(error, Error::Io { .. }), "{error}");
                    assert!(!queue.sees(key), "what failed is visible");
                    queue.put(key, durability).unwrap();
                }
                assert!(queue.sees(key));
            })
        });
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        queue.check_wal(3);
    });
}

/// A sync fails: all members of that group are told and nobody ever sees what they wrote; nothing
/// is written any more.
#[test]
fn a_failed_sync() {
    explore(1500, || {
        let queue = TestQueue::new(settings());
        queue.env.hook().fail(step::WAL_SYNC, 1);
        let writers = ["a", "b", "c"].map(|key| {
            let queue = queue.clone();
            thread::spawn(move || {
                let durability = if key == "c" { Durability::Buffered } else { Durability::Sync };
                let outcome = queue.put(key, durability);
                match &outcome {
                    Ok(()) => assert!(durability == Durability::Buffered, "the first sync was the only one"),
                    Err(error) => assert!(matches!(error, Error::Stopped { .. }), "{error}"),
                }
                assert_eq!(queue.sees(key), outcome.is_ok(), "{key}: {outcome:?}");
                outcome.is_ok()
            })
        });
        let seen = writers.map(|writer| writer.join().unwrap()).into_iter().filter(|&written| written).count();
        assert!(matches!(queue.put("d", Durability::Buffered), Err(Error::Stopped { .. })));
        assert_eq!(queue.tree.database.sequences.visible(), Sequence(seen as u64));
    });
}

fn settings() -> CommitSettings {
    let (memtable_bytes, immutable_memtables_max, write_bytes_max, group_bytes) = (1 << 20, 100, 1 << 16, 1 << 16);
    CommitSettings {
        memtable_bytes,
        immutable_memtables_max,
        memtables_memory_max: u64::MAX,
        budget: Budget::unlimited(),
        write_bytes_max,
        group_bytes,
        throttle: Arc::default(),
        large_reads: Arc::new(Admission::new(Rank::LargeReads, 1 << 16)),
        reserve: None,
    }
}

/// Whoever asks what must stay readable, while others write and take snapshots in several lists, is
/// told every snapshot that is older than the youngest sequence it is told.
#[test]
fn snapshots_are_registered_in_one_step() {
    explore(3000, || {
        let visible = Arc::new(Sequences::new(Sequence(1)));
        let taking = [0, 5].map(|slot| {
            let taking = visible.clone();
            thread::spawn(move || [(); 2].map(|()| taking.acquire(slot).sequence))
        });
        let asking = visible.clone();
        let asking = thread::spawn(move || asking.readable());
        visible.advance(Sequence(2));
        visible.advance(Sequence(3));
        let taken: Vec<_> = taking.into_iter().flat_map(|taking| taking.join().unwrap()).collect();
        let readable = asking.join().unwrap();
        let present = *readable.last().expect("the present is always readable");
        for snapshot in taken {
            assert!(snapshot >= present || readable.contains(&snapshot), "{snapshot:?} is not among {readable:?}");
        }
    });
}

/// A plain put, a synced put, and a batch; a fourth thread observes.
fn mixed_writers(queue: &Arc<TestQueue>) {
    let (first, second, third, observer) = (queue.clone(), queue.clone(), queue.clone(), queue.clone());
    let threads = [
        thread::spawn(move || {
            for key in ["a1", "a2"] {
                first.put(key, Durability::Buffered).unwrap();
                assert!(first.sees(key));
            }
        }),
        thread::spawn(move || {
            for key in ["b1", "b2"] {
                second.put(key, Durability::Sync).unwrap();
                assert!(second.sees(key));
                assert!(second.env.hook().is_durable("wal", key), "{key} was acknowledged before it was durable");
            }
        }),
        thread::spawn(move || {
            let mut batch = Batch::new();
            batch.put("c1", "c1").put("c2", "c2");
            third.commits.commit(Write::Many(&batch), Durability::Interval(Duration::from_millis(1))).unwrap();
            assert!(third.sees("c1") && third.sees("c2"));
        }),
        thread::spawn(move || {
            observer.observe();
            observer.observe();
        }),
    ];
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// A commit queue and what it writes to.
struct TestQueue {
    env: Arc<WatchedEnv>,
    tree: Arc<Tree>,
    commits: CommitQueue,
}

impl TestQueue {
    fn new(settings: CommitSettings) -> Arc<Self> {
        let watched = watched_env();
        let env: Arc<dyn Env> = watched.clone();
        env.create_dir(Path::new(DIR), step::DATABASE_CREATE).unwrap();
        let wal = Arc::new(new_wal(&env));
        let files = TableFiles::new(TableStorage::buffered(env.clone(), 0), Path::new(DIR));
        let version = Arc::new(Version::new(DATABASE, files));
        let lock = env.lock(&Path::new(DIR).join("LOCK")).unwrap();
        let database = Arc::new(Database::new(Sequence::ZERO, version.edit_number(), Arc::default(), lock));
        let merging = Merging::new(Path::new("/db").into(), None, None);
        let tree = Tree::new(TreeId::DEFAULT, database.clone(), Arc::default(), Vec::new(), version, merging);
        let tree = Arc::new(tree);
        let interval = Arc::new(IntervalSync::new(env.clone(), wal.clone(), database));
        let commits = CommitQueue::new(settings, env, wal, tree.clone(), Arc::default(), interval, Sequence::ZERO);
        Arc::new(Self { env: watched, tree, commits })
    }

    fn put(&self, key: &str, durability: Durability) -> Result<()> {
        let (key, value) = (key.as_bytes(), key.as_bytes());
        self.commits.commit(Write::One { kind: EntryKind::Put, key, value }, durability)
    }

    /// Whether a reader that comes now finds the key.
    fn sees(&self, key: &str) -> bool {
        let state = self.tree.pin();
        let query = Query::new(key.as_bytes(), self.tree.database.sequences.visible());
        let buffers = std::iter::once(&state.active).chain(state.immutable.iter().map(|immutable| &immutable.memtable));
        buffers.into_iter().any(|buffer| buffer.get(query, &mut |_| ControlFlow::Break(())).is_break())
    }

    /// Whatever is visible is there without gaps, and the two halves of the batch together.
    fn observe(&self) {
        let visible = self.tree.database.sequences.visible();
        let state = self.tree.pin();
        let buffers = std::iter::once(&state.active).chain(state.immutable.iter().map(|immutable| &immutable.memtable));
        let mut found: Vec<_> = buffers.flat_map(entries).filter(|found| *found <= visible.0).collect();
        found.sort_unstable();
        assert_eq!(found, (1..=visible.0).collect::<Vec<_>>(), "visible before it was there");
        let half = |key: &[u8]| {
            let query = Query::new(key, visible);
            let mut buffers =
                std::iter::once(&state.active).chain(state.immutable.iter().map(|immutable| &immutable.memtable));
            buffers.any(|buffer| buffer.get(query, &mut |_| ControlFlow::Break(())).is_break())
        };
        assert_eq!(half(b"c1"), half(b"c2"), "half a batch is visible");
    }

    /// The WAL holds that many entries, numbered from 1, and the same as the memtables.
    fn check_wal(&self, count: u64) {
        let env: Arc<dyn Env> = self.env.clone();
        let mut logged = Vec::new();
        let state = self.tree.pin_scan();
        let recovered = recover_wal(&env, &mut |sequence, key| {
            logged.push(sequence.0);
            let query = Query::new(key, sequence);
            let buffers =
                std::iter::once(&state.active).chain(state.immutable.iter().map(|immutable| &immutable.memtable));
            let holders = buffers.filter(|buffer| {
                buffer
                    .get(query, &mut |entry| match entry.sequence == sequence {
                        true => ControlFlow::Break(()),
                        false => ControlFlow::Continue(()),
                    })
                    .is_break()
            });
            assert_eq!(holders.count(), 1, "{} at {sequence:?}", key.escape_ascii());
        });
        assert_eq!(logged, (1..=count).collect::<Vec<_>>());
        assert_eq!(recovered.dropped, []);
    }
}

/// The sequences in a memtable.
fn entries(buffer: &Arc<tamarack::internals::Memtable>) -> Vec<u64> {
    let mut cursor = buffer.cursor();
    cursor.seek_first().unwrap();
    let mut sequences = Vec::new();
    while let Some(entry) = cursor.entry() {
        sequences.push(entry.sequence.0);
        cursor.next().unwrap();
    }
    sequences
}

/// An empty WAL in [`DIR`].
pub(crate) fn new_wal(env: &Arc<dyn Env>) -> Wal {
    let nothing = recover_wal(env, &mut |_, _| ());
    let settings = WalSettings { env: env.clone(), dir: DIR.into(), database: DATABASE, allocate_bytes: 1024 };
    Wal::start(settings, &nothing, EditNumber(1)).unwrap()
}

/// Reads a WAL back.
pub(crate) fn recover_wal(env: &Arc<dyn Env>, replay: &mut dyn FnMut(Sequence, &[u8])) -> Recovered {
    let settings = RecoverySettings {
        env: env.clone(),
        dir: DIR.into(),
        database: DATABASE,
        flushed_through: Sequence::ZERO,
        last_edit: EditNumber(1),
        durable: Position(0),
        tail: Tail::MayBeTorn,
    };
    let recovered = recover(&settings, &mut |_, entry| {
        replay(entry.sequence, entry.key);
        Ok(())
    });
    recovered.unwrap()
}
