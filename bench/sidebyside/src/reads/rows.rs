//! What is asked of a store, as rows of the report, and the work of one slice of a row: made before the clock runs, and the same for every engine.

use super::data::{Data, Random, Zipfian, scatter};

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
}

/// One kind of operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    Get,
    Scan {
        limit: usize,
        reverse: bool,
    },
    /// Gets, and so many puts per hundred operations: of stored entries, or of new ones.
    Mixed {
        puts_percent: u64,
        new: bool,
    },
}

/// One row.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub name: &'static str,
    pub operation: Operation,
    pub keys: Keys,
    pub threads: usize,
    /// Operations of one slice, all threads together.
    pub operations: usize,
    /// Puts per second that another thread makes meanwhile.
    pub beside_puts_per_s: u64,
    /// How many times as fast as RocksDB this is to be.
    pub goal: f64,
}

impl Row {
    /// Operations and keys, with one thread.
    pub const fn new(name: &'static str, operation: Operation, keys: Keys, operations: usize) -> Self {
        Self { name, operation, keys, threads: 1, operations, beside_puts_per_s: 0, goal: 1.5 }
    }

    pub const fn goal(self, goal: f64) -> Self {
        Self { goal, ..self }
    }

    pub const fn threads(self, threads: usize) -> Self {
        Self { threads, ..self }
    }

    pub const fn beside(self, puts_per_s: u64) -> Self {
        Self { beside_puts_per_s: puts_per_s, ..self }
    }
}

/// What one thread does in one slice.
pub struct Work {
    pub operation: Operation,
    pub key_bytes: usize,
    /// One after another.
    pub keys: Vec<u8>,
    pub numbers: Vec<u64>,
    /// Which operations put; empty if none does.
    pub puts: Vec<bool>,
}

/// Makes the work of slices.
pub struct Maker {
    data: Data,
    zipfian: Option<Zipfian>,
    /// Entries that are stored when the next slice begins.
    stored: u64,
}

impl Maker {
    pub fn new(data: Data, rows: &[Row]) -> Self {
        let skewed = rows.iter().any(|row| matches!(row.keys, Keys::Zipfian | Keys::Latest));
        Self { data, zipfian: skewed.then(|| Zipfian::new(data.entries)), stored: data.entries }
    }

    /// The work of one slice of `row`, for each thread. Threads share no key if keys are uniform.
    pub fn slice(&mut self, row: &Row, seed: u64) -> Vec<Work> {
        (0..row.threads)
            .map(|thread| {
                let random = Random::new(seed * 64 + thread as u64);
                self.work(row, random, thread as u64)
            })
            .collect()
    }

    fn work(&mut self, row: &Row, mut random: Random, thread: u64) -> Work {
        let (threads, count) = (row.threads as u64, row.operations / row.threads);
        let key_bytes = self.data.key_bytes();
        let keys = Vec::with_capacity(count * key_bytes);
        let mut work =
            Work { operation: row.operation, key_bytes, keys, numbers: Vec::with_capacity(count), puts: Vec::new() };
        for _ in 0..count {
            let mut number = match row.keys {
                Keys::Uniform => random.below(self.data.entries / threads) * threads + thread,
                Keys::Absent => self.data.entries + random.below(self.data.entries / threads) * threads + thread,
                Keys::Zipfian => scatter(self.rank(&mut random), self.data.entries),
                Keys::Latest => self.stored - 1 - self.rank(&mut random),
            };
            if let Operation::Mixed { puts_percent, new } = row.operation {
                let put = random.below(100) < puts_percent;
                if put && new {
                    number = self.stored;
                    self.stored += 1;
                }
                work.puts.push(put);
            }
            self.data.push_key(number, &mut work.keys);
            work.numbers.push(number);
        }
        work
    }

    fn rank(&self, random: &mut Random) -> u64 {
        self.zipfian.as_ref().expect("it is made if a row needs it").rank(random)
    }
}

impl Work {
    /// Keys and numbers, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], u64)> {
        self.keys.chunks_exact(self.key_bytes).zip(self.numbers.iter().copied())
    }
}
