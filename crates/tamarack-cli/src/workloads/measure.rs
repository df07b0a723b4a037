//! One workload on one database: clients that do operations, each on a thread of its own, and what they measure.
//!
//! A client looks at the clock once for each operation, when it has ended. The time from the end of the operation before is what it took, so drawing a key and a
//! value is part of it, some tens of nanoseconds, and of the rate as well.
//!
//! After a workload that writes, the tree settles: buffers are flushed, and merges that the shape calls for come to their end. That is timed by itself and is not in the rate;
//! the next workload finds a tree at rest.

use std::panic::resume_unwind;
use std::time::Duration;

use tamarack::{Db, LookupCounts, ReadStats, Result, Stats};
use tamarack_env::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tamarack_env::sync::thread;
use tamarack_env::{Env, Event, Random};

use super::data::{Data, KEY_BYTES, scatter};
use super::times::Times;
use super::zipfian::Zipfian;
use super::{Choice, Does, Mix, Operation, Order, Workload, predict};

/// How long a workload goes on that is no load.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Limit {
    /// So long.
    Time(Duration),
    /// So many operations, of all clients together.
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
    /// How many threads do operations, at least 1.
    pub(crate) clients: u64,
    /// How long.
    pub(crate) limit: Limit,
    /// Where random numbers begin.
    pub(crate) seed: u64,
    /// The size of a block, for predictions.
    pub(crate) block_bytes: u64,
    /// How many entries were ever stored in it.
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
    /// Data blocks that each operation had to look into, wherever they were; `None` if it did other things than lookups, or no filter told.
    pub(crate) blocks_needed: Option<f64>,
    /// What the models say to that, or to `blocks_read` of scans without a cache.
    pub(crate) blocks_predicted: Option<f64>,
    /// Blocks that each operation read from storage; `None` if it reads nothing.
    pub(crate) blocks_read: Option<f64>,
    /// How long the tree took to settle, if the workload wrote.
    pub(crate) settling: Option<Duration>,
    /// Raw bytes written into levels for each raw byte that was flushed, until the tree had settled.
    pub(crate) write_amplification: Option<f64>,
}

/// What some clients did, together.
pub(crate) struct Rate {
    /// Operations.
    pub(crate) operations: u64,
    /// Time from the first one's begin to the last one's end.
    pub(crate) seconds: f64,
    /// Bytes of keys and values that were written, or read.
    pub(crate) bytes: u64,
    /// Lookups.
    pub(crate) lookups: u64,
    /// Those that found something.
    pub(crate) found: u64,
    /// Within how many nanoseconds half of the operations ended, 99 of 100, and 999 of 1000.
    pub(crate) within_ns: [u64; 3],
}

impl Measurement<'_> {
    /// Runs it. `progress` is told a few times a second which part is done, from 0 to 1.
    ///
    /// # Errors
    /// The database's.
    pub(crate) fn run(&self, workload: &Workload, progress: &mut dyn FnMut(f64)) -> Result<Measured> {
        let before = self.db.stats();
        let predicted = predict::blocks(workload, &before, self.data, self.block_bytes);
        let (clients, writer) = self.clients(workload, progress)?;
        let after = self.db.stats();
        let settling = workload.writes().then(|| self.settle()).transpose()?;
        let operations = clients.operations;
        Ok(Measured {
            name: workload.name,
            blocks_needed: blocks_needed(workload, after.lookups - before.lookups, operations),
            blocks_predicted: predicted,
            blocks_read: blocks_read(workload, &before, &after, operations),
            write_amplification: settling.and_then(|_| amplification(&before, &self.db.stats())),
            clients,
            writer,
            settling,
        })
    }

    /// Lets the tree come to rest; returns how long that took.
    fn settle(&self) -> Result<Duration> {
        let began = self.env.now();
        self.db.flush()?;
        self.db.wait_for_merges()?;
        Ok(self.env.now().saturating_sub(began))
    }

    /// Runs all clients, and the writer beside them if there is one.
    fn clients(&self, workload: &Workload, progress: &mut dyn FnMut(f64)) -> Result<(Rate, Option<Rate>)> {
        let zipfian = Zipfian::new(self.data.entries);
        let run = Run {
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
            Ok((Rate::of(clients, run.began), writer?.map(|tally| Rate::of(vec![tally], run.began))))
        })
    }
}

/// What a client did, when it has ended; or its panic.
fn join(client: thread::ScopedJoinHandle<'_, Result<Tally>>) -> Result<Tally> {
    client.join().unwrap_or_else(|panic| resume_unwind(panic))
}

/// How often progress is told.
const LOOK: Duration = Duration::from_millis(200);

/// A client tells others after so many operations how far it is.
const OPERATIONS_PER_NEWS: u64 = 64;

/// A workload that is going on.
struct Run<'a> {
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
    times: Times,
    bytes: u64,
    lookups: u64,
    found: u64,
    ended: Duration,
}

impl Run<'_> {
    /// Waits a little; true if all clients have ended, or `are_gone`, which is true even after a panic.
    fn wait(&self, are_gone: impl Fn() -> bool) -> bool {
        let (env, clients) = (self.measurement.env, self.measurement.clients);
        let mut ready = || self.ended.load(Ordering::Acquire) == clients || are_gone();
        env.wait(&self.progress, Some(env.now() + LOOK), &mut ready)
    }

    /// Which part of the workload is done.
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
        self.repeat(self.share(number, data.entries), None, |tally| {
            let entry = mine.next().expect("as many as it was given");
            let key = if order == Order::Ascending { data.key_at(entry) } else { data.key(entry) };
            client.put(&key, tally)
        })
    }

    /// Does operations as the mix has them.
    fn mix(&self, number: u64, mix: &Mix) -> Result<Tally> {
        let client = Client::new(self, number);
        let (operations, deadline) = match self.measurement.limit {
            Limit::Time(time) => (u64::MAX, Some(self.began + time)),
            Limit::Operations(all) => (self.share(number, all), None),
        };
        self.repeat(operations, deadline, |tally| {
            let operation = drawn(mix, client.random.below(100));
            client.operate(operation, mix.choice, tally)
        })
    }

    /// Overwrites until it is stopped.
    fn writer(&self) -> Result<Tally> {
        let client = Client::new(self, self.measurement.clients);
        self.repeat(u64::MAX, None, |tally| client.operate(Operation::Update, Choice::Uniform, tally))
    }

    /// How many of `all` operations are client `number`'s.
    fn share(&self, number: u64, all: u64) -> u64 {
        let clients = self.measurement.clients;
        all / clients + u64::from(number < all % clients)
    }

    /// Does `operate` so often, or until that time, or until it is told to stop.
    fn repeat(
        &self,
        operations: u64,
        deadline: Option<Duration>,
        mut operate: impl FnMut(&mut Tally) -> Result<()>,
    ) -> Result<Tally> {
        let env = self.measurement.env;
        let mut tally = Tally { times: Times::new(), bytes: 0, lookups: 0, found: 0, ended: env.now() };
        while tally.times.operations() < operations && deadline.is_none_or(|deadline| tally.ended < deadline) {
            operate(&mut tally)?;
            let now = env.now();
            tally.times.note(now.saturating_sub(tally.ended));
            tally.ended = now;
            if tally.times.operations().is_multiple_of(OPERATIONS_PER_NEWS) {
                self.operations.fetch_add(OPERATIONS_PER_NEWS, Ordering::Relaxed);
                if self.stop.load(Ordering::Relaxed) {
                    break;
                }
            }
        }
        Ok(tally)
    }
}

/// The operation of a mix that a number below 100 means.
fn drawn(mix: &Mix, mut number: u64) -> Operation {
    for (share, operation) in mix.operations {
        if number < *share {
            return *operation;
        }
        number -= share;
    }
    unreachable!("the shares of a mix are a hundred together")
}

/// One thread that does operations.
struct Client<'a> {
    measurement: &'a Measurement<'a>,
    zipfian: &'a Zipfian,
    random: Random,
}

impl<'a> Client<'a> {
    fn new(run: &'a Run<'_>, number: u64) -> Self {
        let Run { measurement, zipfian, .. } = run;
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

    /// The key of an entry that is there.
    fn key(&self, choice: Choice) -> [u8; KEY_BYTES] {
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

    /// Stores the next entry. Of clients at the same time, one may see the number of another's before it is there, and look for it in vain.
    fn insert(&self, tally: &mut Tally) -> Result<()> {
        let Measurement { data, stored, .. } = self.measurement;
        let number = stored.fetch_add(1, Ordering::AcqRel);
        self.put(&data.key(number), tally)
    }

    fn scan(&self, from: &[u8], entries: u64, tally: &mut Tally) -> Result<()> {
        let mut scan = self.measurement.db.scan(from..);
        for _ in 0..entries {
            let Some((key, value)) = scan.next_lent()? else { break };
            tally.bytes += (key.len() + value.len()) as u64;
        }
        Ok(())
    }
}

impl Rate {
    fn of(tallies: Vec<Tally>, began: Duration) -> Self {
        let ended = tallies.iter().map(|tally| tally.ended).max().unwrap_or(began);
        let mut times = Times::new();
        tallies.iter().for_each(|tally| times.add(&tally.times));
        let sum = |number: fn(&Tally) -> u64| tallies.iter().map(number).sum();
        Self {
            operations: times.operations(),
            seconds: ended.saturating_sub(began).as_secs_f64(),
            bytes: sum(|tally| tally.bytes),
            lookups: sum(|tally| tally.lookups),
            found: sum(|tally| tally.found),
            within_ns: [500, 990, 999].map(|of_thousand| times.within_ns(of_thousand)),
        }
    }

    /// Operations in a second.
    pub(crate) fn operations_per_second(&self) -> f64 {
        self.operations as f64 / self.seconds.max(f64::MIN_POSITIVE)
    }

    /// Bytes in a second.
    pub(crate) fn bytes_per_second(&self) -> f64 {
        self.bytes as f64 / self.seconds.max(f64::MIN_POSITIVE)
    }
}

fn blocks_needed(workload: &Workload, lookups: LookupCounts, operations: u64) -> Option<f64> {
    let searched = lookups.filter_probes - lookups.filter_negatives;
    let is_known = lookups.filter_probes > 0 && !workload.scans();
    is_known.then(|| searched as f64 / operations as f64)
}

/// Data blocks of lookups, and all blocks of scans.
fn blocks_read(workload: &Workload, before: &Stats, after: &Stats, operations: u64) -> Option<f64> {
    let scans = |reads: &ReadStats| reads.scans.blocks;
    let blocks =
        after.lookups.data_blocks_read - before.lookups.data_blocks_read + scans(&after.reads) - scans(&before.reads);
    (workload.reads() && operations > 0).then(|| blocks as f64 / operations as f64)
}

fn amplification(before: &Stats, after: &Stats) -> Option<f64> {
    let flushed = after.flushed_raw_bytes - before.flushed_raw_bytes;
    let written = after.written_raw_bytes() - before.written_raw_bytes();
    (flushed > 0).then(|| written as f64 / flushed as f64)
}
