//! [`OptionSet`]: the options that a database is opened with, as words; and the named sets, under
//! all of which histories must give the same answers.
//!
//! ```text
//! memory=1048576 memtable=60 threads=2 durability=interval:20 filter=none policy=tiering:T=4
//! ```
//!
//! An option without a word is not set, so that the engine derives it. A number is what the option
//! takes; flags are 0 or 1. The words `filter` and `policy` come last: a policy extends to the end
//! of the line.
//!
//! Each extreme that an option's documentation names is in at least one of the sets, with one
//! exception: the least rate of compactions, with which histories on real clocks would never end.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tamarack::{AdvancedOptions, Compression, Durability, Event, Options};
use tamarack_env::Env;

use crate::operation::Level;

/// The named sets. A history begins with one of them; it may go on with others.
pub(crate) const OPTION_SETS: [(&str, &str); 47] = [
    ("default", ""),
    (
        "smallest",
        "memory=1048576 memtable=1 immutable=1 block=64 table=1 cache=0 index=0 manifest=0 reserve=0 files=1 \
         threads=1 space=101 filter=none policy=leveling:T=2",
    ),
    (
        "largest",
        "memory=1073741824 memtable=140737488355328 immutable=64 block=16777216 table=1099511627776 \
         cache=536870912 index=536870912 manifest=1099511627776 files=1000000 threads=8 space=0 \
         durability=interval:3600000 filter=bloom:bits=64 policy=tiering:T=100",
    ),
    // Policies, with memtables of some entries.
    ("leveling", "memory=1048576 memtable=200 block=128 table=400 threads=2 policy=leveling:T=10"),
    ("leveling-2", "memory=1048576 memtable=60 block=64 table=100 policy=leveling:T=2"),
    ("leveling-one-entry", "memory=1048576 memtable=1 block=100 threads=1 policy=leveling:T=3"),
    ("tiering", "memory=1048576 memtable=200 block=128 table=400 threads=2 policy=tiering:T=4"),
    ("tiering-2", "memory=1048576 memtable=30 block=64 table=1500 threads=3 policy=tiering:T=2"),
    ("tiering-one-entry", "memory=1048576 memtable=1 block=200 table=1 threads=2 policy=tiering:T=8"),
    ("lazy-leveling", "memory=1048576 memtable=100 block=128 table=300 threads=2 policy=lazy-leveling:T=5"),
    ("lazy-leveling-2", "memory=1048576 memtable=10 block=64 threads=1 policy=lazy-leveling:T=2"),
    ("dostoevsky", "memory=1048576 memtable=60 block=128 table=400 threads=2 policy=dostoevsky:T=5,K=4,Z=1"),
    ("dostoevsky-static", "memory=1048576 memtable=20 block=100 table=50 threads=3 policy=dostoevsky:T=4,K=2,Z=3"),
    ("garnering", "memory=1048576 memtable=60 block=128 table=400 threads=2 policy=garnering:T=2,c=0.8"),
    ("garnering-first", "memory=1048576 memtable=20 block=64 threads=1 policy=garnering:T=3,c=0.4,first=4"),
    ("garnering-steep", "memory=1048576 memtable=10 block=200 table=100 policy=garnering:T=2,c=0.1"),
    ("moose", "memory=1048576 memtable=60 block=128 table=400 threads=2 policy=moose:last=0.8,k=1"),
    ("moose-wide", "memory=1048576 memtable=10 block=64 table=100 threads=2 policy=moose:last=0.5,k=100"),
    ("qlsm-bush", "memory=1048576 memtable=20 block=128 table=400 threads=2 policy=qlsm-bush:T=2,X=2"),
    ("custom", "memory=1048576 block=128 table=300 policy=custom:buffer 40; level 90 in 2 runs; level 400 in 3 runs"),
    ("custom-one-level", "memory=1048576 block=64 table=64 policy=custom:buffer 10; level 1000 in 1 run"),
    // Filters.
    ("no-filter", "memory=1048576 memtable=60 block=128 filter=none policy=tiering:T=4"),
    ("bloom-least", "memory=1048576 memtable=60 block=128 filter=bloom:bits=0.01 policy=tiering:T=4"),
    ("bloom-general", "memory=1048576 memtable=30 block=64 filter=bloom:bits=5,allocation=monkey-general,v=3"),
    ("blocked-most", "memory=1048576 memtable=60 block=128 filter=blocked:bits=64 policy=lazy-leveling:T=3"),
    ("blocked-observed", "memory=1048576 memtable=60 block=128 filter=blocked:bits=5,allocation=observed"),
    ("elastic", "memory=1048576 memtable=60 block=128 table=300 filter=elastic:bits=8 policy=tiering:T=3"),
    ("elastic-few-files", "memory=1048576 memtable=10 block=64 table=1 files=2 filter=elastic:bits=3"),
    ("chucky", "memory=1048576 memtable=60 block=128 table=300 filter=chucky:bits=12 policy=tiering:T=3"),
    ("chucky-leveling", "memory=1048576 memtable=30 block=64 threads=2 filter=chucky:bits=18 policy=leveling:T=3"),
    (
        "chucky-small",
        "memory=1048576 memtable=10 block=64 table=1 files=2 filter=chucky:bits=10 policy=lazy-leveling:T=2",
    ),
    ("no-digests", "memory=1048576 memtable=60 block=128 digests=0 filter=bloom:bits=10,allocation=monkey"),
    // Durability.
    ("sync", "memory=1048576 memtable=200 block=128 durability=sync policy=leveling:T=4"),
    ("interval", "memory=1048576 memtable=60 block=128 durability=interval:10 policy=tiering:T=3"),
    ("interval-none", "memory=1048576 memtable=200 block=128 durability=interval:0"),
    // Space.
    ("space-least", "memory=1048576 memtable=30 block=128 threads=2 space=101 policy=tiering:T=5"),
    ("space-bound", "memory=1048576 memtable=60 block=64 table=200 threads=2 space=150 policy=lazy-leveling:T=4"),
    ("space-unbound", "memory=1048576 memtable=60 block=128 space=0 policy=moose:last=0.6,k=0.5"),
    ("no-reserve", "memory=1048576 memtable=100 block=128 table=200 reserve=0 policy=tiering:T=3"),
    // Reading and writing files.
    ("direct", "memory=1048576 memtable=60 block=128 table=300 direct=1 cache=10000 policy=tiering:T=3"),
    ("direct-no-cache", "memory=1048576 memtable=60 block=64 direct=1 cache=0 index=0 policy=leveling:T=3"),
    ("one-file", "memory=1048576 memtable=10 block=64 table=1 files=1 threads=3 policy=tiering:T=4"),
    ("uncompressed", "memory=1048576 memtable=200 block=4096 compression=0 policy=leveling:T=3"),
    ("manifest-anew", "memory=1048576 memtable=20 block=128 manifest=0 strict=1 policy=dostoevsky:T=4,K=3,Z=2"),
    ("limited-rate", "memory=1048576 memtable=200 block=128 rate=50000000 listener=1 policy=leveling:T=4"),
    // Memory and threads.
    ("many-memtables", "memory=1048576 memtable=10 immutable=16 block=128 threads=1 policy=tiering:T=10"),
    (
        "many-threads",
        "memory=4194304 memtable=30 immutable=1 block=64 table=30 threads=8 listener=1 policy=tiering:T=2",
    ),
];

/// Returns the named sets.
pub(crate) fn option_sets() -> &'static [OptionSet] {
    static SETS: OnceLock<Vec<OptionSet>> = OnceLock::new();
    SETS.get_or_init(|| {
        let set = |(name, words)| OptionSet::parse(words).unwrap_or_else(|| panic!("the options {name}: {words}"));
        OPTION_SETS.map(set).to_vec()
    })
}

macro_rules! option_set {
    ($($field:ident,)*) => {
        /// The options of one opening. What is `None` is not set.
        #[derive(Clone, PartialEq, Default, Debug)]
        pub(crate) struct OptionSet {
            $(pub(crate) $field: Option<u64>,)*
            pub(crate) durability: Option<Level>,
            pub(crate) filter: Option<String>,
            pub(crate) policy: Option<String>,
        }

        impl OptionSet {
            fn numbers(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($field), self.$field)),*].into_iter().filter_map(|(name, value)| Some((name, value?)))
            }

            fn number(&mut self, name: &str) -> Option<&mut Option<u64>> {
                match name {
                    $(stringify!($field) => Some(&mut self.$field),)*
                    _ => None,
                }
            }

            /// Returns the sets with one option less, or with a smaller memtable, which fewer
            /// writes fill.
            pub(crate) fn simpler(&self) -> Vec<Self> {
                let mut found = Vec::new();
                $(found.extend(self.$field.map(|_| Self { $field: None, ..self.clone() }));)*
                found.extend(self.durability.map(|_| Self { durability: None, ..self.clone() }));
                found.extend(self.filter.as_ref().map(|_| Self { filter: None, ..self.clone() }));
                found.extend(self.policy.as_ref().map(|_| Self { policy: None, ..self.clone() }));
                let memtable = self.memtable.unwrap_or(1);
                let smaller = [1, memtable / 2].into_iter().filter(|bytes| (1..memtable).contains(bytes));
                found.extend(smaller.map(|bytes| Self { memtable: Some(bytes), ..self.clone() }));
                found
            }
        }
    };
}

// `space` is in hundredths, 0 for no bound; `rate` and the others in bytes, or how many.
option_set! {
    memory, memtable, immutable, block, table, cache, index, manifest, reserve, rate, files, threads, space,
    direct, digests, strict, compression, listener,
}

impl OptionSet {
    /// Parses a set as it is printed.
    pub(crate) fn parse(words: &str) -> Option<Self> {
        let mut set = Self::default();
        let mut rest = words;
        while !rest.is_empty() {
            let (name, value) = rest.split_once('=')?;
            if name == "policy" {
                set.policy = Some(value.to_owned());
                break;
            }
            let (value, after) = value.split_once(' ').unwrap_or((value, ""));
            rest = after.trim_start();
            match name {
                "durability" => set.durability = Some(level(value)?),
                "filter" => set.filter = Some(value.to_owned()),
                _ => *set.number(name)? = Some(value.parse().ok()?),
            }
        }
        Some(set)
    }

    /// The place of this set in [`OPTION_SETS`]; `None` if it is not named.
    pub(crate) fn place(&self) -> Option<usize> {
        option_sets().iter().position(|named| named == self)
    }

    /// The durability of writes that name none.
    pub(crate) fn durability(&self) -> Level {
        self.durability.unwrap_or(Level::Buffered)
    }

    /// Returns the options for an opening in `env`. A strict recovery is for what was closed.
    pub(crate) fn options(&self, env: Arc<dyn Env>, was_closed: bool) -> Options {
        let mut advanced = AdvancedOptions::new().env(env);
        let mut options = Options::new();
        macro_rules! given {
            ($($target:ident.$name:ident = $value:expr;)*) => {
                $(if let Some(value) = $value {
                    $target = $target.$name(value);
                })*
            };
        }
        let count = |number: Option<u64>| number.map(|number| number as usize);
        let flag = |number: Option<u64>| number.map(|number| number != 0);
        given! {
            advanced.memtable_bytes = self.memtable;
            advanced.immutable_memtables_max = count(self.immutable);
            advanced.block_bytes = count(self.block);
            advanced.table_bytes = self.table;
            advanced.cache_bytes = self.cache;
            advanced.index_bytes = self.index;
            advanced.manifest_bytes = self.manifest;
            advanced.reserve_bytes = self.reserve;
            advanced.compaction_bytes_per_second = self.rate;
            advanced.open_files_max = count(self.files);
            advanced.direct_io = flag(self.direct);
            advanced.filter_digests = flag(self.digests);
            advanced.strict_recovery = flag(self.strict).filter(|_| was_closed);
            advanced.filter = self.filter.as_deref();
            advanced.policy = self.policy.as_deref();
            options.memory_bytes = self.memory;
            options.threads = count(self.threads);
            options.durability = self.durability.map(durability);
            options.space_amplification_max = self.space_bound();
            options.compression = self.compression.map(compression);
        }
        if self.listener == Some(1) {
            // What a listener would do with an event: look at all of it.
            options = options.listener(Arc::new(|event: &Event| drop(format!("{event:?}"))));
        }
        options.advanced(advanced)
    }

    /// The bound on space amplification that is asked for.
    pub(crate) fn space_bound(&self) -> Option<f64> {
        self.space.map(|hundredths| if hundredths == 0 { f64::INFINITY } else { hundredths as f64 / 100.0 })
    }
}

/// As the engine takes it.
pub(crate) fn durability(level: Level) -> Durability {
    match level {
        Level::Usual | Level::Buffered => Durability::Buffered,
        Level::Sync => Durability::Sync,
        Level::Interval(ms) => Durability::Interval(Duration::from_millis(ms)),
    }
}

/// 0 is none, 1 is LZ4, where that is compiled in.
fn compression(number: u64) -> Compression {
    if number == 1 && Compression::Lz4.is_available() { Compression::Lz4 } else { Compression::None }
}

fn level(word: &str) -> Option<Level> {
    Some(match word.split_once(':') {
        None if word == "buffered" => Level::Buffered,
        None if word == "sync" => Level::Sync,
        Some(("interval", ms)) => Level::Interval(ms.parse().ok()?),
        _ => return None,
    })
}

impl fmt::Display for OptionSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words: Vec<_> = self.numbers().map(|(name, value)| format!("{name}={value}")).collect();
        words.extend(self.durability.map(|level| format!("durability={}", level.to_string().replace(' ', ":"))));
        words.extend(self.filter.iter().map(|filter| format!("filter={filter}")));
        words.extend(self.policy.iter().map(|policy| format!("policy={policy}")));
        f.write_str(&words.join(" "))
    }
}

#[test]
fn option_sets_differ_and_read_back_what_they_print() {
    for (place, set) in option_sets().iter().enumerate() {
        assert_eq!(set.place(), Some(place), "{} has the options of another set", OPTION_SETS[place].0);
        assert_eq!(OptionSet::parse(&set.to_string()).as_ref(), Some(set));
    }
}
