//! Nine threads on one database, each of which checks all its reads.
//!
//! # The oracle
//!
//! A writer's writes are a pure function of the seed, the writer, and the number of the write: its
//! [`History`]. Writers do not share keys. So the keys of a writer, in any consistent view, must be
//! **exactly** the result of its first `n` writes, for some `n`. Readers find `n` from the values,
//! which carry the number of their write, and replay the history up to there:
//!
//! ```text
//!   history   1: put a    2: batch {put b, delete a, put c}    3: delete b    4: put a    …
//!   a view    { b: 2, c: 2 }          is right, n = 2
//!             { c: 2 }                is right, n = 3
//!             { a: 1, b: 2, c: 2 }    is half a batch
//!             { a: 4, b: 2, c: 2 }    has the fourth write without the third
//! ```
//!
//! Some writes are ingested as sorted runs, which must behave like batches.
//!
//! This one comparison shows that batches are atomic, that writes become visible in order and stay
//! visible, and that neither flushes nor compactions lose or bring back a version. Besides:
//!
//! * a writer knows its `n` exactly, so it reads its own writes, by lookups and by scans;
//! * for each reader `n` never goes back;
//! * a snapshot reads the same as long as it lives, forwards, backwards, from both ends and key by
//!   key, whatever is flushed and compacted meanwhile;
//! * a writer records now and then how far it has seen its neighbour: a reader that sees the record
//!   sees that much of the neighbour;
//! * a checkpoint is a consistent view, no older than what was acknowledged before the call, and
//!   independent of what both databases do next;
//! * changes of policy, pauses and compactions in the middle of it change nothing of this;
//! * closed and opened again, everything is there, and [`Db::verify`] finds nothing wrong.
//!
//! # Duration
//!
//! In rounds, each with a new database of other sizes. In CI two or more on each environment, for
//! about five seconds; `TAMARACK_SECONDS=300` goes on that long on each. `TAMARACK_SEED` chooses
//! other histories. Threads are real, so a seed does not fix their order: the binary `schedules`
//! explores orders that can be repeated, of far less code.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tamarack::{AdvancedOptions, Batch, Db, Durability, Options, Result, Snapshot};
use tamarack_env::sync::atomic::{AtomicU64, Ordering};
use tamarack_env::sync::thread;
use tamarack_env::{Env, MemoryEnv, OsEnv, Random, TempDir};

/// With two snapshot readers, one lookup reader, one thread for checkpoints and one for everything
/// else: nine.
const WRITERS: u64 = 4;

/// Keys of a writer: few, so that each has many versions and is deleted and written again often.
const KEYS: u64 = 24;

/// Writes of a writer per round.
const WRITES: u64 = 1500;

/// One write in so many is ingested as a sorted run, if it only puts. Writers do that at the same
/// time, and overtake each other.
const INGESTED_EVERY: u64 = 12;

/// Number of snapshots that a reader keeps.
const SNAPSHOTS_OPEN: usize = 6;

/// Number of checkpoints that are checked repeatedly.
const CHECKPOINTS_OPEN: usize = 3;

/// Keys and their values.
type View = BTreeMap<Vec<u8>, Vec<u8>>;

#[test]
fn in_memory() -> Result<()> {
    rounds(&|round| (MemoryEnv::new(round), "/db".into()))
}

#[test]
fn on_real_files() -> Result<()> {
    let env = OsEnv::new();
    let dir = TempDir::new().unwrap();
    rounds(&|round| (env.clone(), dir.path().join(format!("db{round}"))))
}

/// Rounds on databases that `place` gives, until the time is over.
fn rounds(place: &dyn Fn(u64) -> (Arc<dyn Env>, PathBuf)) -> Result<()> {
    let number = |name, default| std::env::var(name).map_or(default, |text| text.parse().expect(name));
    let (seed, seconds) = (number("TAMARACK_SEED", 0x7a3a), number("TAMARACK_SECONDS", 5));
    let clock = OsEnv::new();
    let end = clock.now() + Duration::from_secs(seconds);
    let mut round = 0;
    while round < 2 || clock.now() < end {
        println!("round {round}: TAMARACK_SEED={}", seed + round);
        let (env, dir) = place(round);
        Round::new(env, dir, seed + round)?.run()?;
        round += 1;
    }
    Ok(())
}

/// A database, and what its threads tell each other.
struct Round {
    seed: u64,
    db: Db,
    env: Arc<dyn Env>,
    dir: PathBuf,
    /// How many writes of each writer have been acknowledged.
    acknowledged: [AtomicU64; WRITERS as usize],
}

impl Round {
    fn new(env: Arc<dyn Env>, dir: PathBuf, seed: u64) -> Result<Self> {
        let db = options(&env, &Random::for_purpose(seed, 1)).open(&dir)?;
        Ok(Self { seed, db, env, dir, acknowledged: Default::default() })
    }

    fn run(self) -> Result<()> {
        thread::scope(|scope| {
            let threads: Vec<thread::ScopedJoinHandle<'_, Result<()>>> = vec![
                scope.spawn(|| self.write(0)),
                scope.spawn(|| self.write(1)),
                scope.spawn(|| self.write(2)),
                scope.spawn(|| self.write(3)),
                scope.spawn(|| self.read_snapshots(10)),
                scope.spawn(|| self.read_snapshots(11)),
                scope.spawn(|| self.look_up(12)),
                scope.spawn(|| self.keep_house(13)),
                scope.spawn(|| self.take_checkpoints(14)),
            ];
            threads.into_iter().try_for_each(|thread| thread.join().expect("the thread's own message says more"))
        })?;
        self.reopen()
    }

    /// Writes a whole history, and reads it back as it goes.
    fn write(&self, writer: u64) -> Result<()> {
        let random = Random::for_purpose(self.seed, 100 + writer);
        let mut replica = Replica::new(self.seed, writer);
        for number in 1..=WRITES {
            let write = replica.next();
            assert_eq!(write.number, number);
            self.commit(&write)?;
            // Nobody else may be told before this thread could read it.
            self.acknowledged[writer as usize].store(number, Ordering::SeqCst);
            for key in write.changes.keys() {
                let value = self.db.get(key)?;
                assert_eq!(value.as_deref(), replica.state.get(key).map(Vec::as_slice), "{}", replica.name(key));
                assert_eq!(self.db.contains_key(key)?, value.is_some(), "{}", replica.name(key));
            }
            if random.below(40) == 0 {
                self.scan_own(&replica, &random)?;
            }
            if random.below(20) == 0 {
                self.note_neighbour(writer)?;
            }
        }
        Ok(())
    }

    fn commit(&self, write: &Write) -> Result<()> {
        if write.number.is_multiple_of(INGESTED_EVERY) && write.changes.values().all(Option::is_some) {
            let mut ingest = self.db.ingest()?;
            for (key, value) in &write.changes {
                ingest.put(key, value.as_ref().expect("all are puts"))?;
            }
            return ingest.finish().map(drop);
        }
        if let (1, Durability::Buffered) = (write.changes.len(), write.durability) {
            let (key, value) = write.changes.first_key_value().expect("there is one");
            return match value {
                Some(value) => self.db.put(key, value),
                None => self.db.delete(key),
            };
        }
        let mut batch = Batch::new();
        for (key, value) in &write.changes {
            match value {
                Some(value) => batch.put(key, value),
                None => batch.delete(key),
            };
        }
        self.db.write_with(&batch, write.durability)
    }

    /// A writer's scans see exactly what it wrote: whole, or between two keys; forwards, backwards,
    /// or from both ends.
    fn scan_own(&self, replica: &Replica, random: &Random) -> Result<()> {
        let prefix = writer_prefix(replica.history.writer);
        assert_eq!(collect(self.db.prefix(&prefix), random)?, replica.state, "writer {}", replica.history.writer);
        let bounds = [(); 2].map(|()| key_of(replica.history.writer, random.below(KEYS)));
        let range = bounds.iter().min().expect("two")..bounds.iter().max().expect("two");
        let expected: View = replica.state.range(range.start.clone()..range.end.clone()).map(owned).collect();
        assert_eq!(collect(self.db.scan(range), random)?, expected, "writer {}", replica.history.writer);
        Ok(())
    }

    /// Reads how far the neighbour has come, then writes that down. Whoever sees the note must see
    /// the neighbour that far.
    fn note_neighbour(&self, writer: u64) -> Result<()> {
        let neighbour = (writer + 1) % WRITERS;
        let seen = collect(self.db.prefix(writer_prefix(neighbour)), &Random::new(writer))?;
        let seen = seen.values().map(|value| number_in(value)).max().unwrap_or(0);
        self.db.put(note_key(writer), value_of(seen, 0))
    }

    /// Takes snapshots, checks each in full, keeps some, and checks those repeatedly.
    fn read_snapshots(&self, thread: u64) -> Result<()> {
        let random = Random::for_purpose(self.seed, thread);
        let mut reader = Reader::new(self.seed);
        let mut snapshots: VecDeque<(Snapshot, View)> = VecDeque::new();
        while !self.writers_are_done() {
            let snapshot = self.db.snapshot();
            let view = collect(snapshot.scan(..), &random)?;
            reader.check(&view);
            if snapshots.len() == SNAPSHOTS_OPEN {
                snapshots.remove(random.below(SNAPSHOTS_OPEN as u64) as usize);
            }
            snapshots.push_back((snapshot, view));
            let (snapshot, view) = &snapshots[random.below(snapshots.len() as u64) as usize];
            unchanged(&snapshot.clone(), view, &random)?;
            if random.below(4) == 0 {
                // Without a snapshot of the caller's own: the iterator holds one.
                reader.check(&collect(self.db.scan(..), &random)?);
            }
        }
        for (snapshot, view) in &snapshots {
            unchanged(snapshot, view, &random)?;
        }
        reader.check_end(&collect(self.db.scan(..), &random)?);
        Ok(())
    }

    /// Looks keys up one by one: the number found is never older than one seen before, nor than
    /// what was acknowledged.
    fn look_up(&self, thread: u64) -> Result<()> {
        let random = Random::for_purpose(self.seed, thread);
        let mut reader = Reader::new(self.seed);
        while !self.writers_are_done() {
            for _ in 0..200 {
                let (writer, key) = (random.below(WRITERS), random.below(KEYS));
                // The numbers of the youngest writes that this lookup must see, and may see.
                let least = self.acknowledged[writer as usize].load(Ordering::SeqCst);
                let key = key_of(writer, key);
                let value = self.db.get(&key)?;
                let most = self.acknowledged[writer as usize].load(Ordering::SeqCst) + 1;
                let replica = &mut reader.replicas[writer as usize];
                replica.advance(least);
                replica.find(&key, value.as_deref(), most);
            }
            // And all of them at once, which must be no older than any of them.
            reader.check(&collect(self.db.scan(..), &random)?);
        }
        Ok(())
    }

    /// Everything else that a program may call meanwhile.
    fn keep_house(&self, thread: u64) -> Result<()> {
        let random = Random::for_purpose(self.seed, thread);
        while !self.writers_are_done() {
            match random.below(13) {
                0 => self.db.flush()?,
                1..=3 => self.db.sync()?,
                4 => {
                    let stats = self.db.clone().stats();
                    assert_eq!(stats.flush_failures, 0, "{stats:?}");
                }
                5 => assert_eq!(self.db.verify(&mut |_, _| {})?.problems.len(), 0),
                7 => self.db.compact()?,
                8 => self.db.compact_range(key_of(random.below(2), random.below(KEYS))..writer_prefix(3))?,
                9 | 10 => self.db.set_policy(POLICIES[random.below(POLICIES.len() as u64) as usize])?,
                11 => {
                    let pause = self.db.pause_compactions();
                    self.env.sleep_until(self.env.now() + Duration::from_millis(20));
                    drop(pause);
                }
                // An empty batch asks for the durability of what was written before.
                6 => self.db.write_with(&Batch::new(), Durability::Interval(Duration::from_millis(1)))?,
                _ => drop(self.db.prefix(writer_prefix(0)).next()),
            }
            // Not all the time: writers shall also fill memtables.
            self.env.wait(&tamarack_env::Event::new(), Some(self.env.now() + Duration::from_millis(5)), &mut || false);
        }
        Ok(())
    }

    /// Takes checkpoints, opens each, checks it in full, and goes on with some of them.
    fn take_checkpoints(&self, thread: u64) -> Result<()> {
        let random = Random::for_purpose(self.seed, thread);
        let mut reader = Reader::new(self.seed);
        let mut databases: VecDeque<(Db, View)> = VecDeque::new();
        for number in 0.. {
            if self.writers_are_done() {
                assert!(number > 2, "only {number} checkpoints were taken");
                println!("{number} checkpoints");
                break;
            }
            for (replica, acknowledged) in reader.replicas.iter_mut().zip(&self.acknowledged) {
                replica.advance(acknowledged.load(Ordering::SeqCst));
            }
            let dir = self.dir.with_extension(format!("checkpoint{number}"));
            self.db.checkpoint(&dir)?;
            let db = options(&self.env, &random).create_if_missing(false).open(dir)?;
            assert_eq!((db.recovery().dropped.len(), db.recovery().entries_replayed), (0, 0));
            let mut view = collect(db.scan(..), &random)?;
            reader.check(&view);
            db.write(Batch::new().put("of the checkpoint", "alone").delete(key_of(0, 0)))?;
            view.remove(&key_of(0, 0));
            view.insert(b"of the checkpoint".to_vec(), b"alone".to_vec());
            if random.below(2) == 0 {
                db.compact()?;
            }
            if databases.len() == CHECKPOINTS_OPEN {
                databases.remove(random.below(databases.len() as u64) as usize);
            }
            databases.push_back((db, view));
            for (db, view) in &databases {
                assert_eq!(collect(db.scan(..), &random)?, *view);
            }
        }
        databases.iter().try_for_each(|(db, view)| {
            assert_eq!(collect(db.scan(..), &random)?, *view);
            assert_eq!(db.verify(&mut |_, _| {})?.problems.len(), 0);
            Ok(())
        })
    }

    fn writers_are_done(&self) -> bool {
        self.acknowledged.iter().all(|acknowledged| acknowledged.load(Ordering::SeqCst) == WRITES)
    }

    /// Everything is there, is there again after opening with other sizes, and is sound.
    fn reopen(self) -> Result<()> {
        let Self { seed, db, env, dir, .. } = self;
        let random = Random::for_purpose(seed, 2);
        let stats = db.stats();
        assert_eq!(stats.snapshots, 0, "all snapshots were dropped");
        assert!(stats.flushes > 10, "{stats:?}");
        println!(
            "{} flushes, {} compactions, {} stalls, {} groups of {} entries",
            stats.flushes, stats.compactions, stats.write_stalls, stats.commit_groups, stats.entries_written
        );
        assert!(db.get("of the checkpoint")?.is_none());
        let expect_all = |db: &Db| -> Result<()> {
            Reader::new(seed).check_end(&collect(db.scan(..), &random)?);
            assert_eq!(db.verify(&mut |_, _| {})?.problems.len(), 0);
            Ok(())
        };
        expect_all(&db)?;
        if random.below(2) == 0 {
            db.close()?
        } else {
            drop(db)
        }
        let db = options(&env, &random).open(dir)?;
        assert_eq!(db.recovery().dropped, []);
        expect_all(&db)?;
        db.flush()?;
        expect_all(&db)?;
        db.close()
    }
}

/// Trees of several levels, with few and with many runs.
const POLICIES: [&str; 9] = [
    "leveling:T=2",
    "leveling:T=10",
    "tiering:T=3",
    "lazy-leveling:T=4",
    "dostoevsky:T=5,K=2,Z=2",
    "custom:buffer 2KiB; level 4KiB in 2 runs; level 30KiB in 7 runs",
    "garnering:T=2,c=0.5",
    "moose:last=0.8,k=1",
    "qlsm-bush:T=2,X=2",
];

/// Small memtables and blocks, of other sizes in each round, and other shapes.
fn options(env: &Arc<dyn Env>, random: &Random) -> Options {
    let advanced = AdvancedOptions::new()
        .policy(POLICIES[random.below(POLICIES.len() as u64) as usize])
        .filter(["blocked:bits=10", "chucky:bits=12"][random.below(2) as usize])
        .env(env.clone())
        .memtable_bytes(4096 << random.below(3))
        .block_bytes(128 << random.below(4))
        .table_bytes(2048 << random.below(4))
        .immutable_memtables_max(1 + random.below(3) as usize)
        .cache_bytes([0, 16 << 10, 1 << 20][random.below(3) as usize])
        .direct_io(random.below(2) == 1);
    Options::new().threads(1 + random.below(4) as usize).advanced(advanced)
}

/// One write of a history.
struct Write {
    /// From 1.
    number: u64,
    /// Keys, and their new values or none.
    changes: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    durability: Durability,
}

/// What a writer writes.
struct History {
    seed: u64,
    writer: u64,
}

impl History {
    /// The write with that number.
    fn write(&self, number: u64) -> Write {
        let random = Random::for_purpose(Random::for_purpose(self.seed, 1000 + self.writer).next(), number);
        let changes = match random.below(4) {
            0 => 2 + random.below(8),
            _ => 1,
        };
        let change = |_| {
            let key = key_of(self.writer, random.below(KEYS));
            (key, (random.below(4) > 0).then(|| value_of(number, random.below(60) as usize)))
        };
        let durability = match random.below(32) {
            0 => Durability::Sync,
            1..4 => Durability::Interval(Duration::from_millis(random.below(20))),
            _ => Durability::Buffered,
        };
        Write { number, changes: (0..changes).map(change).collect(), durability }
    }
}

/// A writer's keys after some number of its writes.
struct Replica {
    history: History,
    /// How many.
    applied: u64,
    state: View,
}

impl Replica {
    fn new(seed: u64, writer: u64) -> Self {
        Self { history: History { seed, writer }, applied: 0, state: View::new() }
    }

    /// Applies the next write, and returns it.
    fn next(&mut self) -> Write {
        self.applied += 1;
        let write = self.history.write(self.applied);
        for (key, value) in &write.changes {
            match value {
                Some(value) => self.state.insert(key.clone(), value.clone()),
                None => self.state.remove(key),
            };
        }
        write
    }

    /// Applies all writes up to that number.
    fn advance(&mut self, number: u64) {
        while self.applied < number {
            self.next();
        }
    }

    /// Goes on to a number of writes that leaves exactly `view`.
    fn follow(&mut self, view: &View) {
        let before = self.applied;
        let youngest = view.values().map(|value| number_in(value)).max().unwrap_or(0);
        self.advance(youngest);
        let differences = differences(&self.state, view);
        // A write leaves no trace if its entries are deleted again, but not for this many in a row.
        let most = (self.applied + 100).min(WRITES);
        while self.state != *view {
            assert!(
                self.applied < most,
                "writer {}: no number of writes from {before} on leaves what was seen; compared with {youngest} writes: {differences:#?}",
                self.history.writer,
            );
            self.next();
        }
    }

    /// Goes on to a number of writes, `most` at most, after which `key` has that value.
    fn find(&mut self, key: &[u8], value: Option<&[u8]>, most: u64) {
        let before = self.applied;
        while self.state.get(key).map(Vec::as_slice) != value {
            assert!(
                self.applied < most.min(WRITES),
                "{}: none of {before} to {most} writes leave {value:?}",
                self.name(key)
            );
            self.next();
        }
    }

    /// For messages.
    fn name(&self, key: &[u8]) -> String {
        format!("{} after {} writes", key.escape_ascii(), self.applied)
    }
}

/// What one thread has seen of all writers.
struct Reader {
    replicas: Vec<Replica>,
}

impl Reader {
    fn new(seed: u64) -> Self {
        Self { replicas: (0..WRITERS).map(|writer| Replica::new(seed, writer)).collect() }
    }

    /// `view` is what some number of writes of each writer leave, no fewer than this thread has
    /// seen before, or than the notes in it tell.
    fn check(&mut self, view: &View) {
        for replica in &mut self.replicas {
            let writer = replica.history.writer;
            let noted_by = (writer + WRITERS - 1) % WRITERS;
            replica.advance(view.get(&note_key(noted_by)).map_or(0, |note| number_in(note)));
            let prefix = writer_prefix(writer);
            replica.follow(&view.iter().filter(|(key, _)| key.starts_with(&prefix)).map(owned).collect());
        }
    }

    /// `view` is what all writes leave.
    fn check_end(&mut self, view: &View) {
        self.check(view);
        let written: Vec<_> = self
            .replicas
            .iter_mut()
            .map(|replica| {
                replica.advance(WRITES);
                replica.state.clone()
            })
            .collect();
        let notes = view.keys().filter(|key| key.starts_with(b"note ")).count();
        assert_eq!(view.len() - notes, written.iter().map(View::len).sum::<usize>());
        assert!(written.iter().flatten().all(|(key, value)| view.get(key) == Some(value)));
    }
}

/// A snapshot reads as it did before, in every way.
fn unchanged(snapshot: &Snapshot, view: &View, random: &Random) -> Result<()> {
    let again = collect(snapshot.scan(..), random)?;
    assert!(again == *view, "a snapshot changed: {:#?}", differences(view, &again));
    for _ in 0..4 {
        let key = key_of(random.below(WRITERS), random.below(KEYS));
        let value = snapshot.get(&key)?;
        assert_eq!(value.as_deref(), view.get(&key).map(Vec::as_slice), "{}", key.escape_ascii());
        assert_eq!(snapshot.contains_key(&key)?, value.is_some(), "{}", key.escape_ascii());
    }
    Ok(())
}

/// All that a scan gives: forwards, backwards, or from both ends at random. Keys come in order,
/// each once.
fn collect(mut scan: tamarack::Scan, random: &Random) -> Result<View> {
    let way = random.below(3);
    let (mut front, mut back) = (Vec::new(), Vec::new());
    loop {
        let forward = way == 0 || (way == 1 && random.below(2) == 0);
        let (item, end) = if forward { (scan.next(), &mut front) } else { (scan.next_back(), &mut back) };
        let Some(item) = item else { break };
        end.push(item?);
    }
    front.extend(back.into_iter().rev());
    assert!(front.is_sorted_by(|a, b| a.0 < b.0), "keys out of order");
    Ok(front.into_iter().collect())
}

/// The keys that differ, with the number of the write that each side has.
fn differences(expected: &View, found: &View) -> Vec<String> {
    let number = |view: &View, key: &Vec<u8>| view.get(key).map(|value| number_in(value));
    let keys = expected.keys().chain(found.keys().filter(|key| !expected.contains_key(*key)));
    keys.filter(|key| expected.get(*key) != found.get(*key))
        .map(|key| {
            format!("{}: expected {:?}, found {:?}", key.escape_ascii(), number(expected, key), number(found, key))
        })
        .collect()
}

fn owned((key, value): (&Vec<u8>, &Vec<u8>)) -> (Vec<u8>, Vec<u8>) {
    (key.clone(), value.clone())
}

fn writer_prefix(writer: u64) -> Vec<u8> {
    format!("writer {writer}/").into_bytes()
}

fn key_of(writer: u64, key: u64) -> Vec<u8> {
    format!("writer {writer}/key {key:02}").into_bytes()
}

fn note_key(writer: u64) -> Vec<u8> {
    format!("note {writer}").into_bytes()
}

/// A value that carries the number of its write, and some more bytes.
fn value_of(number: u64, more_bytes: usize) -> Vec<u8> {
    let mut value = number.to_be_bytes().to_vec();
    value.resize(8 + more_bytes, b'.');
    value
}

fn number_in(value: &[u8]) -> u64 {
    u64::from_be_bytes(value[..8].try_into().expect("eight bytes"))
}
