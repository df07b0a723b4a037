//! Filter allocation by observed lookups (`allocation=observed`), in real trees that grow while
//! they are read: against uniform bits, and against the best allocation for zero-result lookups.
//!
//! Compared are false positives per lookup, of the same lookups on trees with the same runs. `--
//! --nocapture` shows them.

use tamarack::{AdvancedOptions, Compression, Db, Options, Result};
use tamarack_env::{MemoryEnv, Random};

/// Raw bytes of an entry: 8 of the key, 8 of the value, 8.
const ENTRY_BYTES: u64 = 24;

/// The entries of a memtable.
const BUFFER: u64 = 1000;

/// The number of memtables that a tree grows to.
const BUFFERS: u64 = 31;

/// Lookups per memtable.
const LOOKUPS: u64 = 1500;

/// Lookups whose false positives are counted at the end.
const COUNTED: u64 = 20_000;

/// The keys of lookups, and the order of keys.
#[derive(Clone, Copy, Debug, PartialEq)]
enum LookupKind {
    /// Absent keys.
    Absent,
    /// Existing keys, uniformly.
    Present,
    /// Keys of the oldest tenth.
    Old,
    /// Keys of the youngest tenth.
    Young,
    /// Absent keys; keys are put in order, so that each run has a range of its own.
    AbsentInOrder,
}

impl LookupKind {
    const ALL: [Self; 5] = [Self::Absent, Self::Present, Self::Old, Self::Young, Self::AbsentInOrder];

    /// The key of an entry: even numbers.
    fn key(self, entry: u64) -> u64 {
        if self == Self::AbsentInOrder {
            // A flush overlaps the previous one a little, so that there is something to compact.
            return 2 * (entry + if entry.is_multiple_of(50) { 2 * BUFFER } else { 0 }) * 1_000_003;
        }
        (entry.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1) ^ 1
    }

    fn next(self, random: &Random, entries: u64) -> u64 {
        match self {
            Self::Absent => random.next() | 1,
            Self::AbsentInOrder => random.below(2 * entries * 1_000_003) | 1,
            Self::Present => self.key(random.below(entries)),
            Self::Old => self.key(random.below(entries / 10)),
            Self::Young => self.key(entries - 1 - random.below(entries / 10)),
        }
    }

    fn is_there(self) -> bool {
        !matches!(self, Self::Absent | Self::AbsentInOrder)
    }

    fn look(self, db: &Db, random: &Random, entries: u64, lookups: u64) -> Result<()> {
        for _ in 0..lookups {
            assert_eq!(db.contains_key(self.next(random, entries).to_be_bytes())?, self.is_there());
        }
        Ok(())
    }

    /// False positives per lookup, in a tree that has grown while it was read.
    fn false_positives(self, policy: &str, filter: &str) -> Result<f64> {
        let advanced = AdvancedOptions::new().env(MemoryEnv::new(1)).filter(filter).policy(policy);
        let advanced = advanced.memtable_bytes(BUFFER * ENTRY_BYTES).cache_bytes(0);
        let db = Options::new().compression(Compression::None).advanced(advanced).open("/db")?;
        let random = Random::new(5);
        for buffer in 0..BUFFERS {
            for entry in buffer * BUFFER..(buffer + 1) * BUFFER {
                db.put(self.key(entry).to_be_bytes(), entry.to_be_bytes())?;
            }
            db.flush()?;
            db.wait_for_compactions()?;
            db.rebuild_filters()?;
            self.look(&db, &random, (buffer + 1) * BUFFER, LOOKUPS)?;
        }
        let before = db.stats().lookups.filter_false_positives;
        self.look(&db, &Random::new(7), BUFFERS * BUFFER, COUNTED)?;
        let entries = (BUFFERS * BUFFER) as f64;
        let stats = db.stats();
        let bits: u64 = stats.levels.iter().map(|level| level.total().filter_bits).sum();
        // Filters of single tables are rounded to whole cache lines.
        assert!(bits as f64 <= entries * 5.0 + 512.0 * 16.0, "{self:?}, {policy}, {filter}: {bits} bits");
        Ok((stats.lookups.filter_false_positives - before) as f64 / COUNTED as f64)
    }
}

/// Where existing keys are found more often in some runs than in others, there are fewer false
/// positives than with bits allocated for absent keys; where all keys are absent, as many. Never
/// more than with uniform bits, except where runs have keys of their own, which makes uniform bits
/// the best: there a tenth more, since each run's share of the lookups shrinks as a tree grows.
#[test]
fn observed_lookups_decide() -> Result<()> {
    for policy in ["leveling:T=2", "tiering:T=4"] {
        for kind in LookupKind::ALL {
            let of = |allocation| kind.false_positives(policy, &format!("bloom:bits=5,allocation={allocation}"));
            let [uniform, monkey, observed] = [of("uniform")?, of("monkey")?, of("observed")?];
            let what = format!(
                "{policy:<13} {kind:?}: {uniform:.4} with equal bits, {monkey:.4} monkey, {observed:.4} observed"
            );
            println!("{what}");
            // Plus four standard deviations of the count.
            let most = |other: f64, factor: f64| factor * other + 4.0 * (other / COUNTED as f64).sqrt();
            assert!(observed <= most(uniform, if kind == LookupKind::AbsentInOrder { 1.1 } else { 1.0 }), "{what}");
            match kind {
                LookupKind::Absent => assert!((monkey - observed).abs() <= most(monkey, 1.05) - monkey, "{what}"),
                LookupKind::AbsentInOrder => assert!(observed <= most(monkey, 1.0), "{what}"),
                LookupKind::Present | LookupKind::Old | LookupKind::Young => {
                    assert!(observed <= 0.8 * monkey, "{what}")
                }
            }
        }
    }
    Ok(())
}
