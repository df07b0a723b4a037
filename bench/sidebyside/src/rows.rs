//! The workloads as rows of the report, and the work of one slice of a row: made before the clock
//! runs, and the same for every engine.

use common::zipfian::{Zipfian, scatter};

use crate::data::{Data, Random};

/// Which keys are asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Keys {
    /// Every entry as often.
    Uniform,
    /// Zipfian 0.99; which entries are frequent depends neither on age nor on key.
    Zipfian,
    /// Zipfian 0.99 by age: the youngest is the most frequent.
    Latest,
    /// None that is stored, but between those that are.
    Absent,
    /// One of two as [`Keys::Uniform`], the others as [`Keys::Absent`].
    HalfAbsent,
}

/// One operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    Get,
    Scan {
        limit: u16,
        reverse: bool,
    },
    /// A scan whose limit is drawn from 1 to this.
    ScanUpTo(u16),
    /// Overwrites an entry.
    Put,
    /// Puts a new entry.
    Insert,
    /// Gets an entry and puts it.
    ReadModifyWrite,
}

/// One row.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub name: &'static str,
    /// So many of a hundred operations each.
    pub mix: &'static [(u64, Operation)],
    pub keys: Keys,
    pub threads: usize,
    /// Another thread puts so many per second meanwhile.
    pub beside_puts_per_s: u64,
    /// How many times as long as others its slices are.
    pub longer: u32,
    /// The same slice gives another row: with the time until nothing is merged.
    pub settled_name: Option<&'static str>,
}

/// What one thread does in one slice.
pub struct Work {
    pub key_bytes: usize,
    /// One after another.
    pub keys: Vec<u8>,
    pub numbers: Vec<u64>,
    /// One for each, or one for all.
    pub operations: Vec<Operation>,
}

/// Makes the work of slices.
pub struct Maker {
    data: Data,
    zipfian: Zipfian,
    /// Entries that are stored when the next slice begins.
    stored: u64,
}

impl Row {
    /// A row for one thread.
    pub const fn new(name: &'static str, keys: Keys, mix: &'static [(u64, Operation)]) -> Self {
        Self { name, mix, keys, threads: 1, beside_puts_per_s: 0, longer: 1, settled_name: None }
    }

    pub fn writes(&self) -> bool {
        let writing = [Operation::Put, Operation::Insert, Operation::ReadModifyWrite];
        self.beside_puts_per_s > 0 || self.mix.iter().any(|(_, operation)| writing.contains(operation))
    }

    pub fn scans(&self) -> bool {
        self.mix.iter().any(|(_, operation)| matches!(operation, Operation::Scan { .. } | Operation::ScanUpTo(_)))
    }

    /// True if answers do not depend on how threads interleave: a scan meets what another thread
    /// has just put.
    pub fn is_comparable(&self) -> bool {
        self.threads == 1 || !self.scans() || !self.writes()
    }
}

impl Maker {
    pub fn new(data: Data) -> Self {
        Self { data, zipfian: Zipfian::new(data.entries), stored: data.entries }
    }

    /// The work of one slice of `row`: `operations` for each thread. Threads share no key if keys
    /// are uniform.
    pub fn slice(&self, row: &Row, seed: u64, operations: usize) -> Vec<Work> {
        let threads = row.threads as u64;
        (0..threads).map(|thread| self.work(row, seed * 64 + thread, operations / row.threads, thread)).collect()
    }

    /// Entries to put after a slice in which each thread did `done` operations, so that every slice
    /// leaves as many stored.
    pub fn missing(&mut self, works: &[Work], done: &[usize]) -> Vec<u64> {
        let inserts = |operations: &[Operation]| operations.iter().filter(|o| **o == Operation::Insert).count() as u64;
        let threads = works.len() as u64;
        let most = works.iter().map(|work| inserts(&work.operations)).max().unwrap_or(0);
        let (first, mut missing) = (self.stored, Vec::new());
        for ((work, done), thread) in works.iter().zip(done).zip(0..) {
            let inserted = inserts(&work.operations[..(*done).min(work.operations.len())]);
            missing.extend((inserted..most).map(|n| first + n * threads + thread));
        }
        self.stored += most * threads;
        missing
    }

    /// What one of several threads does, one operation after the other, without end.
    pub fn draws<'a>(&'a self, row: &'a Row, seed: u64, thread: u64) -> Draws<'a> {
        Draws { maker: self, row, random: Random::new(seed), thread, inserted: 0, only: None }
    }

    /// Says that so many entries were inserted, by one thread.
    pub fn inserted(&mut self, entries: u64) {
        self.stored += entries;
    }

    fn work(&self, row: &Row, seed: u64, count: usize, thread: u64) -> Work {
        let key_bytes = self.data.key_bytes();
        let (mut keys, mut numbers) = (Vec::with_capacity(count * key_bytes), Vec::with_capacity(count));
        let mut operations = Vec::new();
        for (operation, number) in self.draws(row, seed, thread).take(count) {
            if row.mix.len() > 1 || operations.is_empty() {
                operations.push(operation);
            }
            self.data.push_key(number, &mut keys);
            numbers.push(number);
        }
        Work { key_bytes, keys, numbers, operations }
    }
}

/// What a thread does in a row: see [`Maker::draws`].
pub struct Draws<'a> {
    maker: &'a Maker,
    row: &'a Row,
    random: Random,
    thread: u64,
    /// Entries that it has inserted.
    inserted: u64,
    /// The operation of a row that has one.
    only: Option<Operation>,
}

impl Draws<'_> {
    /// Entries that it has inserted so far.
    pub fn inserted(&self) -> u64 {
        self.inserted
    }

    fn number(&mut self) -> u64 {
        let (threads, thread, entries) = (self.row.threads as u64, self.thread, self.maker.data.entries);
        let (stored, inserted, random) = (self.maker.stored, self.inserted, &mut self.random);
        let one = |random: &mut Random| random.below(entries / threads) * threads + thread;
        match self.row.keys {
            Keys::Uniform => one(random),
            Keys::Absent => entries + one(random),
            Keys::HalfAbsent => random.below(2) * entries + one(random),
            Keys::Zipfian => scatter(self.maker.zipfian.rank(|| random.unit()), entries),
            // Of new entries a thread knows its own.
            Keys::Latest => match self.maker.zipfian.rank(|| random.unit()) {
                rank if rank < inserted => stored + (inserted - 1 - rank) * threads + thread,
                rank => stored - 1 - (rank - inserted),
            },
        }
    }
}

impl Iterator for Draws<'_> {
    type Item = (Operation, u64);

    fn next(&mut self) -> Option<Self::Item> {
        let mut number = self.number();
        if let Some(only) = self.only {
            return Some((only, number));
        }
        let mut operation = draw(self.row.mix, &mut self.random);
        if operation == Operation::Insert {
            number = self.maker.stored + self.inserted * self.row.threads as u64 + self.thread;
            self.inserted += 1;
        }
        if let Operation::ScanUpTo(most) = operation {
            operation = Operation::Scan { limit: 1 + self.random.below(most.into()) as u16, reverse: false };
        }
        if self.row.mix.len() == 1 {
            self.only = Some(operation);
        }
        Some((operation, number))
    }
}

fn draw(mix: &[(u64, Operation)], random: &mut Random) -> Operation {
    let mut place = random.below(100);
    for (share, operation) in mix {
        match place.checked_sub(*share) {
            Some(rest) => place = rest,
            None => return *operation,
        }
    }
    unreachable!("shares of {mix:?} are a hundred together")
}

impl Work {
    /// Operations, keys and numbers, in order.
    pub fn iter(&self) -> impl Iterator<Item = (Operation, &[u8], u64)> {
        let operations = self.operations.iter().cycle().copied();
        operations.zip(self.keys.chunks_exact(self.key_bytes)).zip(&self.numbers).map(|((o, key), n)| (o, key, *n))
    }
}
