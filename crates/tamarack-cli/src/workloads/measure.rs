//! Measurement of one workload on one database: clients that run operations on threads of their
//! own, and what they measure.
//!
//! A client reads the clock once per operation, at its end. The latency of an operation is the time
//! since the end of the one before, so that latency and throughput include the generation of key
//! and value, some tens of nanoseconds.
//!
//! The prediction for reads is the mean of predictions for the tree before, after, and a few times
//! a second during the workload. The prediction for writes is computed afterwards, for the flushed
//! bytes.
//!
//! After a workload that writes, the tree settles: memtables are flushed and due compactions
//! complete. That time is reported and is not part of the throughput; the next workload
//! finds a tree at rest.

use std::panic::resume_unwind;
use std::time::Duration;

use tamarack::{Db, LookupCounts, ReadStats, Result, RunStats, Stats};
use tamarack_env::histogram::Histogram;
use tamarack_env::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tamarack_env::sync::thread;
use tamarack_env::{Env, Event, Random};

use super::data::{Data, Key, scatter};
use super::zipfian::Zipfian;
use super::{Choice, Does, Mix, Operation, Order, Workload, predict};

/// When a workload that is not a load ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Limit {
    /// So long.
    Time(Duration),
    /// After this many operations of all clients together.
    Operations(u64),
}

/// A database to be measured, and how.
pub(crate) struct Measurement<'a> {
    /// The database.
    pub(crate) db: &'a Db,
    /// Its clock.
    pub(crate) env: &'a dyn Env,
    /// What is in it, or will be.
    pub(crate) data: &'a Data,
    /// Number of client threads, at least 1.
    pub(crate) clients: u64,
    /// How long.
    pub(crate) limit: Limit,
    /// Where random numbers begin.
    pub(crate) seed: u64,
    /// Block size, for predictions.
    pub(crate) block_bytes: u64,
    /// Number of entries ever stored in the database.
    pub(crate) stored: &'a AtomicU64,
}

/// What came of a workload.
pub(crate) struct Measured {
    /// Its name.
    pub(crate) name: &'static str,
    /// What its clients did.
    pub(crate) clients: Rate,
    /// What one did that wrote beside them.
    pub(crate) writer: Option<Rate>,
    /// Data blocks that an operation searched, cached or not; `None` if the workload has other
    /// operations than lookups, or a run without a filter.
    pub(crate) blocks_needed: Option<f64>,
    /// The prediction of that, or of `blocks_read` for scans without a cache.
    pub(crate) blocks_predicted: Option<f64>,
    /// False positives per operation; `None` without lookups.
    pub(crate) false_positives: Option<f64>,
    /// Blocks read from storage per operation; `None` without reads.
    pub(crate) blocks_read: Option<f64>,
    /// Time in which compactions settled the tree, if the workload wrote.
    pub(crate) settling: Option<Duration>,
    /// Raw bytes written into levels for each raw byte that was flushed, until the tree had
    /// settled.
    pub(crate) write_amplification: Option<f64>,
    /// What the models say to that.
    pub(crate) write_amplification_predicted: Option<f64>,
    /// Space amplification after the tree has settled: bytes of SSTables per byte of live entries
    /// on storage; `None` without entries.
    pub(crate) space_amplification: Option<f64>,
    /// Time of write throttling and write stalls in seconds, summed
    /// over writers.
    pub(crate) stall_seconds: f64,
    /// Statistics of the database afterwards.
    pub(crate) stats: Stats,
}

/// What some clients did, together.
pub(crate) struct Rate {
    /// Time from the start of the first client to the end of the last one.
    pub(crate) seconds: f64,
    /// Bytes of keys and values, written and read.
    pub(crate) bytes: u64,
    /// Lookups.
    pub(crate) lookups: u64,
    /// Those that found something.
    pub(crate) found: u64,
    /// Number and latency of all operations.
    pub(crate) latency: Histogram,
    /// The same per kind of operation, if there are several.
    pub(crate) kinds: Vec<(&'static str, Histogram)>,
}

impl Measurement<'_> {
    /// Runs the workload. `progress` is called a few times a second with the finished fraction.
    ///
    /// # Errors
    /// The database's.
    pub(crate) fn run(&self, workload: &Workload, progress: &mut dyn FnMut(f64)) -> Result<Measured> {
        let before = self.db.stats();
        let mut predictions = Predictions::default();
        let mut predict =
            |stats: &Stats| predictions.add(predict::blocks(workload, stats, self.data, self.block_bytes));
        predict(&before);
        let mut look = |share| {
            progress(share);
            if workload.writes() && workload.reads() {
                predict(&self.db.stats());
            }
        };
        let (clients, writer) = self.clients(workload, &mut look)?;
        let after = self.db.stats();
        predict(&after);
        let settling = workload.writes().then(|| self.settle()).transpose()?;
        let settled = self.db.stats();
        let (operations, lookups) = (clients.latency.samples(), after.lookups - before.lookups);
        Ok(Measured {
            name: workload.name,
            blocks_needed: blocks_needed(workload, &after, lookups, operations),
            blocks_predicted: predictions.mean(),
            blocks_read: blocks_read(workload, &before, &after, operations),
            false_positives: (lookups.lookups > 0).then(|| lookups.filter_false_positives as f64 / operations as f64),
            write_amplification: amplification(&before, &settled),
            write_amplification_predicted: predict::write_amplification(workload, &before, &settled, self.data),
            space_amplification: predict::space_amplification(&settled, self.live_raw_bytes()),
            stall_seconds: stalled(&settled) - stalled(&before),
            stats: settled,
            clients,
            writer,
            settling,
        })
    }

    /// Raw bytes of the entries that are there, without old versions.
    fn live_raw_bytes(&self) -> u64 {
        let added = self.stored.load(Ordering::Relaxed) - self.data.entries;
        (self.data.all_entries() + added) * (self.data.entry_bytes() + predict::RAW_BYTES_PER_ENTRY)
    }

    /// Waits until the tree has settled; returns the time.
    fn settle(&self) -> Result<Duration> {
        let began = self.env.now();
        self.db.flush()?;
        self.db.wait_for_compactions()?;
        self.db.rebuild_filters()?;
        let took = self.env.now().saturating_sub(began);
        // Obsolete SSTables are removed in the background, right after; space is counted
        // without them.
        let patience = self.env.now() + REMOVAL;
        while self.db.stats().space.pending_delete_bytes > 0 && self.env.now() < patience {
            self.env.sleep_until(self.env.now() + REMOVAL / 100);
        }
        Ok(took)
    }

    /// Runs all clients, and the concurrent writer if there is one.
    fn clients(&self, workload: &Workload, progress: &mut dyn FnMut(f64)) -> Result<(Rate, Option<Rate>)> {
        let zipfian = Zipfian::new(self.data.entries);
        let run = WorkloadRun {
            measurement: self,
            zipfian: &zipfian,
            began: self.env.now(),
            operations: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            progress: Event::new(),
        };
        thread::scope(|scope| {
            let run = &run;
            let client = |number| scope.spawn(move || run.client(number, workload));
            let clients: Vec<_> = (0..self.clients).map(client).collect();
            let writer = workload.beside_writer().then(|| scope.spawn(move || run.writer()));
            while !run.wait(|| clients.iter().all(thread::ScopedJoinHandle::is_finished)) {
                progress(run.share_done(workload));
            }
            run.stop.store(true, Ordering::Relaxed);
            let writer = writer.map(join).transpose();
            let clients = clients.into_iter().map(join).collect::<Result<Vec<Tally>>>()?;
            let writer = writer?.map(|tally| Rate::of(&["update"], vec![tally], run.began));
            Ok((Rate::of(&workload.kinds(), clients, run.began), writer))
        })
    }
}

/// What was predicted at several moments; nothing if it could not be said at one of them.
#[derive(Default)]
struct Predictions {
    sum: f64,
    count: u64,
    unknown: bool,
}

impl Predictions {
    fn add(&mut self, prediction: Option<f64>) {
        self.sum += prediction.unwrap_or_default();
        self.count += 1;
        self.unknown |= prediction.is_none();
    }

    fn mean(&self) -> Option<f64> {
        (!self.unknown).then(|| self.sum / self.count as f64)
    }
}

/// The result of a client that has ended, or its panic.
fn join(client: thread::ScopedJoinHandle<'_, Result<Tally>>) -> Result<Tally> {
    client.join().unwrap_or_else(|panic| resume_unwind(panic))
}

/// Longest time to wait for the removal of obsolete files.
const REMOVAL: Duration = Duration::from_secs(2);

/// How often progress is told.
const LOOK: Duration = Duration::from_millis(200);

/// Operations between two updates of the progress.
const OPERATIONS_PER_NEWS: u64 = 64;

/// A workload that is going on.
struct WorkloadRun<'a> {
    measurement: &'a Measurement<'a>,
    zipfian: &'a Zipfian,
    began: Duration,
    /// So far, of all clients.
    operations: AtomicU64,
    /// Clients that have ended.
    ended: AtomicU64,
    /// The writer, and all clients after an error, end.
    stop: AtomicBool,
    /// A client has ended.
    progress: Event,
}

/// What one client did.
struct Tally {
    /// Of each operation of the mix, in its order; of a load, only one.
    times: Vec<Histogram>,
    bytes: u64,
    lookups: u64,
    found: u64,
    ended: Duration,
}

impl WorkloadRun<'_> {
    /// Waits a little; true if all clients have ended, or `are_gone`, which is true even after a
    /// panic.
    fn wait(&self, are_gone: impl Fn() -> bool) -> bool {
        let (env, clients) = (self.measurement.env, self.measurement.clients);
        let mut ready = || self.ended.load(Ordering::Acquire) == clients || are_gone();
        env.wait(&self.progress, Some(env.now() + LOOK), &mut ready)
    }

    /// The finished fraction of the workload.
    fn share_done(&self, workload: &Workload) -> f64 {
        let Measurement { env, data, limit, .. } = self.measurement;
        let operations = self.operations.load(Ordering::Relaxed) as f64;
        match *limit {
            _ if workload.is_load() => operations / data.entries as f64,
            Limit::Operations(all) => operations / all as f64,
            Limit::Time(all) => env.now().saturating_sub(self.began).as_secs_f64() / all.as_secs_f64(),
        }
    }

    /// What client `number` does.
    fn client(&self, number: u64, workload: &Workload) -> Result<Tally> {
        let tally = match workload.does {
            Does::Load(order) => self.load(number, order),
            Does::Mix(mix) => self.mix(number, &mix),
        };
        if tally.is_err() {
            self.stop.store(true, Ordering::Relaxed);
        }
        self.ended.fetch_add(1, Ordering::Release);
        self.progress.notify();
        tally
    }

    /// Stores every entry whose number is this client's, modulo the number of clients.
    fn load(&self, number: u64, order: Order) -> Result<Tally> {
        let Measurement { data, clients, .. } = self.measurement;
        let client = Client::new(self, number);
        let mut mine = (number..data.entries).step_by(usize::try_from(*clients).expect("few clients"));
        self.repeat(1, self.share(number, data.entries), None, |tally| {
            let entry = mine.next().expect("as many as it was given");
            let key = if order == Order::Ascending { data.key_at(entry) } else { data.key(entry) };
            client.put(&key, tally).map(|()| 0)
        })
    }

    /// Runs operations of the mix.
    fn mix(&self, number: u64, mix: &Mix) -> Result<Tally> {
        let client = Client::new(self, number);
        let (operations, deadline) = match self.measurement.limit {
            Limit::Time(time) => (u64::MAX, Some(self.began + time)),
            Limit::Operations(all) => (self.share(number, all), None),
        };
        let whole = mix.whole();
        self.repeat(mix.operations.len(), operations, deadline, |tally| {
            let index = drawn(mix, client.random.below(whole));
            client.operate(mix.operations[index].1, mix.choice, tally).map(|()| index)
        })
    }

    /// Overwrites until it is stopped.
    fn writer(&self) -> Result<Tally> {
        let client = Client::new(self, self.measurement.clients);
        self.repeat(1, u64::MAX, None, |tally| client.operate(Operation::Update, Choice::Uniform, tally).map(|()| 0))
    }

    /// How many of `all` operations are client `number`'s.
    fn share(&self, number: u64, all: u64) -> u64 {
        let clients = self.measurement.clients;
        all / clients + u64::from(number < all % clients)
    }

    /// Does `operate` so often, or until that time, or until it is told to stop; it says which of
    /// so many kinds of operations it did.
    fn repeat(
        &self,
        kinds: usize,
        operations: u64,
        deadline: Option<Duration>,
        mut operate: impl FnMut(&mut Tally) -> Result<usize>,
    ) -> Result<Tally> {
        let env = self.measurement.env;
        let times = (0..kinds).map(|_| Histogram::default()).collect();
        let mut tally = Tally { times, bytes: 0, lookups: 0, found: 0, ended: env.now() };
        let mut done = 0;
        while done < operations && deadline.is_none_or(|deadline| tally.ended < deadline) {
            let kind = operate(&mut tally)?;
            let now = env.now();
            tally.times[kind].note(now.saturating_sub(tally.ended));
            tally.ended = now;
            done += 1;
            if done.is_multiple_of(OPERATIONS_PER_NEWS) {
                self.operations.fetch_add(OPERATIONS_PER_NEWS, Ordering::Relaxed);
                if self.stop.load(Ordering::Relaxed) {
                    break;
                }
            }
        }
        Ok(tally)
    }
}

/// Which of the mix's operations a number below its whole means.
fn drawn(mix: &Mix, mut number: u64) -> usize {
    let mut shares = mix.operations.iter().map(|(share, _)| *share);
    let found = shares.position(|share| {
        let is_here = number < share;
        number = number.saturating_sub(share);
        is_here
    });
    found.expect("the shares of a mix are the whole together")
}

/// One thread that does operations.
struct Client<'a> {
    measurement: &'a Measurement<'a>,
    zipfian: &'a Zipfian,
    random: Random,
}

impl<'a> Client<'a> {
    fn new(run: &'a WorkloadRun<'_>, number: u64) -> Self {
        let WorkloadRun { measurement, zipfian, .. } = run;
        Self { measurement, zipfian, random: Random::for_purpose(measurement.seed, number + 1) }
    }

    fn operate(&self, operation: Operation, choice: Choice, tally: &mut Tally) -> Result<()> {
        let data = self.measurement.data;
        match operation {
            Operation::Get => self.get(&self.key(choice), tally),
            Operation::GetMissing => self.get(&data.missing_key(&self.random), tally),
            Operation::Update => self.put(&self.key(choice), tally),
            Operation::ReadModifyWrite => {
                let key = self.key(choice);
                self.get(&key, tally)?;
                self.put(&key, tally)
            }
            Operation::Insert => self.insert(tally),
            Operation::Seek { nexts } => self.scan(&self.key(choice), nexts + 1, tally),
            Operation::Scan { entries_max } => self.scan(&self.key(choice), 1 + self.random.below(entries_max), tally),
        }
    }

    /// The key of an existing entry.
    fn key(&self, choice: Choice) -> Key<'_> {
        let Measurement { data, stored, .. } = self.measurement;
        let number = match choice {
            Choice::Uniform => self.random.below(data.entries),
            Choice::Zipfian => scatter(self.zipfian.rank(&self.random), data.entries),
            Choice::Latest => stored.load(Ordering::Acquire) - 1 - self.zipfian.rank(&self.random),
        };
        data.key(number)
    }

    fn get(&self, key: &[u8], tally: &mut Tally) -> Result<()> {
        tally.lookups += 1;
        if let Some(value) = self.measurement.db.get(key)? {
            tally.found += 1;
            tally.bytes += (key.len() + value.len()) as u64;
        }
        Ok(())
    }

    fn put(&self, key: &[u8], tally: &mut Tally) -> Result<()> {
        let value = self.measurement.data.value(&self.random);
        tally.bytes += (key.len() + value.len()) as u64;
        self.measurement.db.put(key, value)
    }

    /// Stores the next entry. A concurrent client may draw its number before it is stored, and not
    /// find it.
    fn insert(&self, tally: &mut Tally) -> Result<()> {
        let Measurement { data, stored, .. } = self.measurement;
        let number = stored.fetch_add(1, Ordering::AcqRel);
        self.put(&data.key(number), tally)
    }

    fn scan(&self, from: &[u8], entries: u64, tally: &mut Tally) -> Result<()> {
        let mut scan = self.measurement.db.scan(from..).limit(entries as usize);
        while let Some((key, value)) = scan.next_lent()? {
            tally.bytes += (key.len() + value.len()) as u64;
        }
        Ok(())
    }
}

impl Rate {
    /// Of clients whose operations are of these kinds.
    fn of(kinds: &[&'static str], tallies: Vec<Tally>, began: Duration) -> Self {
        let ended = tallies.iter().map(|tally| tally.ended).max().unwrap_or(began);
        let mut times: Vec<_> = kinds.iter().map(|_| Histogram::default()).collect();
        for tally in &tallies {
            times.iter_mut().zip(&tally.times).for_each(|(times, others)| times.add(others));
        }
        let mut all = Histogram::default();
        times.iter().for_each(|times| all.add(times));
        let sum = |number: fn(&Tally) -> u64| tallies.iter().map(number).sum();
        Self {
            seconds: ended.saturating_sub(began).as_secs_f64(),
            bytes: sum(|tally| tally.bytes),
            lookups: sum(|tally| tally.lookups),
            found: sum(|tally| tally.found),
            latency: all,
            kinds: if times.len() > 1 { kinds.iter().copied().zip(times).collect() } else { Vec::new() },
        }
    }

    /// Operations in a second.
    pub(crate) fn operations_per_second(&self) -> f64 {
        self.latency.samples() as f64 / self.seconds.max(f64::MIN_POSITIVE)
    }

    /// Bytes in a second.
    pub(crate) fn bytes_per_second(&self) -> f64 {
        self.bytes as f64 / self.seconds.max(f64::MIN_POSITIVE)
    }
}

fn blocks_needed(workload: &Workload, stats: &Stats, lookups: LookupCounts, operations: u64) -> Option<f64> {
    // Nobody counts how often a run without a filter is searched.
    let lacks_filter = |run: &RunStats| run.entries > 0 && run.filter_bits == 0;
    if stats.levels.iter().flat_map(|level| &level.runs).any(lacks_filter) {
        return None;
    }
    let searched = lookups.filter_probes - lookups.filter_negatives;
    let is_known = lookups.filter_probes > 0 && !workload.scans();
    is_known.then(|| searched as f64 / operations as f64)
}

/// Data blocks of lookups and scans.
fn blocks_read(workload: &Workload, before: &Stats, after: &Stats, operations: u64) -> Option<f64> {
    let scans = |reads: &ReadStats| reads.scans.blocks - reads.scans.index_blocks;
    let blocks =
        after.lookups.data_blocks_read - before.lookups.data_blocks_read + scans(&after.reads) - scans(&before.reads);
    (workload.reads() && operations > 0).then(|| blocks as f64 / operations as f64)
}

fn stalled(stats: &Stats) -> f64 {
    stats.write_delay_seconds + stats.write_stall_seconds
}

fn amplification(before: &Stats, after: &Stats) -> Option<f64> {
    let flushed = after.flushed_raw_bytes - before.flushed_raw_bytes;
    let written = after.written_raw_bytes() - before.written_raw_bytes();
    (flushed > 0).then(|| written as f64 / flushed as f64)
}
