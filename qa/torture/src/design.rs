//! [`Design`]: a random set of options, from a seed.
//!
//! Everything that decides the form of the tree and of its files varies: policy, filter, sizes of
//! memtable, block and table, compression, threads, limits. Sizes are small, so that a few
//! thousand writes make levels, tables and WAL segments enough.

use std::fmt;
use std::sync::Arc;

use tamarack::{AdvancedOptions, Compression, Options};
use tamarack_env::Env;
use tamarack_testing::Random;

/// Policies, each with small and large parameters.
pub(crate) const POLICIES: &[&str] = &[
    "leveling:T=10",
    "leveling:T=2",
    "tiering:T=4",
    "tiering:T=10",
    "lazy-leveling:T=5",
    "dostoevsky:T=5,K=4,Z=1",
    "dostoevsky:T=4,K=2,Z=2",
    "garnering:T=2,c=0.8",
    "garnering:T=2,c=0.8,first=4",
    "moose",
    "smoose",
    "qlsm-bush",
];

/// Filters of every kind and allocation.
pub(crate) const FILTERS: &[&str] = &[
    "none",
    "bloom:bits=10",
    "bloom:bits=2",
    "blocked:bits=10",
    "blocked:bits=10,allocation=monkey",
    "bloom:bits=5,allocation=monkey",
    "bloom:bits=5,allocation=monkey-general,v=3",
    "bloom:bits=5,allocation=observed",
    "elastic:bits=10",
];

/// The largest write that every design accepts, in raw bytes.
pub(crate) const WRITE_BYTES_MAX: u64 = 4 << 17;

/// A set of options.
#[derive(Clone, Debug)]
pub(crate) struct Design {
    policy: &'static str,
    filter: &'static str,
    memory_bytes: u64,
    memtable_bytes: u64,
    immutable_memtables_max: usize,
    block_bytes: usize,
    table_bytes: Option<u64>,
    manifest_bytes: u64,
    cache_bytes: Option<u64>,
    open_files_max: Option<usize>,
    space_amplification_max: Option<f64>,
    threads: usize,
    is_compressed: bool,
    is_direct: bool,
    has_digests: bool,
    env: Option<Arc<dyn Env>>,
}

impl Design {
    /// Draws a design.
    pub(crate) fn random(random: &mut Random) -> Self {
        Self {
            policy: *random.pick(POLICIES),
            filter: *random.pick(FILTERS),
            memory_bytes: *random.pick(&[4 << 20, 8 << 20, 64 << 20]),
            memtable_bytes: *random.pick(&[16 << 10, 64 << 10, 256 << 10, 1 << 20]),
            immutable_memtables_max: 1 + random.below(4) as usize,
            block_bytes: *random.pick(&[256, 1024, 4096, 16 << 10]),
            table_bytes: *random.pick(&[None, Some(16 << 10), Some(64 << 10), Some(512 << 10)]),
            manifest_bytes: *random.pick(&[0, 4096, 1 << 20]),
            cache_bytes: *random.pick(&[None, None, Some(0), Some(64 << 10)]),
            open_files_max: *random.pick(&[None, None, Some(1), Some(8)]),
            space_amplification_max: *random.pick(&[None, None, None, Some(1.2), Some(f64::INFINITY)]),
            threads: 1 + random.below(3) as usize,
            is_compressed: random.one_in(2),
            is_direct: random.one_in(4),
            has_digests: !random.one_in(4),
            env: None,
        }
    }

    /// The same with another policy.
    pub(crate) fn with_policy(mut self, policy: &'static str) -> Self {
        self.policy = policy;
        self
    }

    /// The same with a memtable of so many bytes.
    pub(crate) fn with_memtable(mut self, bytes: u64) -> Self {
        self.memtable_bytes = bytes;
        self
    }

    /// The same with tables of default size.
    pub(crate) fn with_default_tables(mut self) -> Self {
        self.table_bytes = None;
        self
    }

    /// The same in another environment than the operating system.
    pub(crate) fn with_env(mut self, env: Arc<dyn Env>) -> Self {
        self.env = Some(env);
        self
    }

    /// The options that it stands for.
    pub(crate) fn options(&self) -> Options {
        let mut advanced = AdvancedOptions::new()
            .policy(self.policy)
            .filter(self.filter)
            .memtable_bytes(self.memtable_bytes)
            .immutable_memtables_max(self.immutable_memtables_max)
            .block_bytes(self.block_bytes)
            .manifest_bytes(self.manifest_bytes)
            .filter_digests(self.has_digests)
            .direct_io(self.is_direct);
        if let Some(bytes) = self.table_bytes {
            advanced = advanced.table_bytes(bytes);
        }
        if let Some(bytes) = self.cache_bytes {
            advanced = advanced.cache_bytes(bytes);
        }
        if let Some(count) = self.open_files_max {
            advanced = advanced.open_files_max(count);
        }
        if let Some(env) = &self.env {
            advanced = advanced.env(env.clone());
        }
        let compression = if self.is_compressed { Compression::Lz4 } else { Compression::None };
        let mut options = Options::new()
            .memory_bytes(self.memory_bytes)
            .threads(self.threads)
            .compression(compression)
            .advanced(advanced);
        if let Some(factor) = self.space_amplification_max {
            options = options.space_amplification_max(factor);
        }
        options
    }
}

impl fmt::Display for Design {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

#[test]
fn every_specification_is_valid() {
    let dir = tamarack_testing::TestDir::new("torture-designs");
    let mut random = Random::new(1);
    for number in 0..50 {
        let mut design = Design::random(&mut random);
        design.policy = POLICIES[number % POLICIES.len()];
        design.filter = FILTERS[number % FILTERS.len()];
        let db = design.options().open(dir.join("db")).unwrap_or_else(|error| panic!("{design}: {error}"));
        db.put("key", vec![b'v'; WRITE_BYTES_MAX as usize - 100]).unwrap_or_else(|error| panic!("{design}: {error}"));
        db.close().expect("it closes");
    }
}
