//! False positives of real trees against the exact model, which sums the rates of the existing
//! runs; and block reads, which are exactly these plus the searches of runs without filters.
//!
//! Both kinds of filters, uniform and allocated bits, 1 to 16 bits per entry; leveling, tiering,
//! lazy leveling, the shapes of Autumn, MOOSE and QLSM-Bush, and random shapes, half-way and at the
//! end. The number of lookups is chosen for about 500 false positives, within bounds. Each count
//! must be within a tenth of the model plus four standard deviations, and the sums over all trees
//! of a kind, allocation and number of bits within a tenth: these sums are 1,600 and more, so that
//! a tenth is four of their standard deviations.
//!
//! `-- --nocapture` shows the sums.

use tamarack::{AdvancedOptions, Compression, Db, Options, Result, RunStats};
use tamarack_env::{MemoryEnv, Random};
use tamarack_model::FilterKind;
use tamarack_model::cost::lookup;

/// Raw bytes of an entry: 8 of the key, 8 of the value, 8.
const ENTRY_BYTES: u64 = 24;

/// The entries of a memtable.
const BUFFER: u64 = 500;

/// The numbers of memtables after which a tree is measured.
const MOMENTS: [u64; 2] = [11, 22];

/// The bounds on the lookups of one count.
const LOOKUPS: (f64, f64) = (3000.0, 250_000.0);

/// Two sums.
#[derive(Clone, Copy, Default)]
struct Sums {
    expected: f64,
    measured: f64,
}

impl Sums {
    fn off(self) -> f64 {
        self.measured / self.expected - 1.0
    }
}

/// Policies, and random shapes of two or three levels.
fn policies() -> Vec<String> {
    let named = [
        "leveling:T=2",
        "leveling:T=4",
        "tiering:T=4",
        "lazy-leveling:T=3",
        "garnering:T=2,c=0.8",
        "moose:last=0.8,k=1",
        "qlsm-bush:T=2,X=2",
    ];
    let drawn = (0..3).map(|seed| {
        let random = Random::for_purpose(seed, 0x5ea9);
        let mut bytes = BUFFER * ENTRY_BYTES;
        let mut specification = format!("custom:buffer {bytes}");
        for _ in 0..2 + random.below(2) {
            let ratio = 2 + random.below(4);
            bytes *= ratio;
            let runs = 1 + random.below(ratio);
            specification += &format!("; level {bytes} in {runs} run{}", if runs == 1 { "" } else { "s" });
        }
        specification
    });
    named.into_iter().map(str::to_owned).chain(drawn).collect()
}

/// Even keys of the whole range. The smallest and the largest key are in every memtable, so that
/// each run covers all keys.
fn fill(db: &Db, entries: u64) -> Result<()> {
    for entry in entries..entries + BUFFER - 2 {
        let key = (entry.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1) ^ 1;
        db.put(key.to_be_bytes(), entry.to_be_bytes())?;
    }
    db.put(0_u64.to_be_bytes(), entries.to_be_bytes())?;
    db.put(u64::MAX.to_be_bytes(), entries.to_be_bytes())?;
    db.flush()?;
    db.wait_for_compactions()?;
    db.rebuild_filters()
}

fn runs(db: &Db) -> Vec<RunStats> {
    db.stats().levels.iter().flat_map(|level| level.runs.clone()).collect()
}

/// Looks up absent keys, and compares.
fn look(what: &str, db: &Db, random: &Random) -> Result<Sums> {
    let runs = runs(db);
    assert!(runs.iter().all(|run| run.tables == 1), "{what}: between two tables there would be keys of neither");
    let unfiltered = runs.iter().filter(|run| run.filter_bits == 0).count() as u64;
    let rates: Vec<f64> = runs.iter().filter(|run| run.filter_bits > 0).map(|run| run.filter_fpr).collect();
    let rate = lookup::zero_result(&rates);
    let lookups = (500.0 / rate).clamp(LOOKUPS.0, LOOKUPS.1) as u64;
    let before = db.stats().lookups;
    for _ in 0..lookups {
        let key = random.next() | 1;
        assert!(!db.contains_key(key.to_be_bytes())?, "{key} was never put");
    }
    let counts = db.stats().lookups - before;
    let searches = lookups * unfiltered;
    assert_eq!(counts.data_blocks_read, counts.filter_false_positives + searches, "{what}: {runs:?}");
    assert_eq!(counts.filter_probes, lookups * rates.len() as u64, "{what}: every filter was probed");
    let sums = Sums { expected: rate * lookups as f64, measured: counts.filter_false_positives as f64 };
    let most = 0.1 * sums.expected + 4.0 * sums.expected.sqrt();
    assert!(
        (sums.measured - sums.expected).abs() <= most,
        "{what}: {} false positives of {lookups} lookups, {} expected: {runs:?}",
        sums.measured,
        sums.expected
    );
    Ok(sums)
}

#[test]
fn false_positives_are_those_of_the_model() -> Result<()> {
    let random = Random::new(11);
    for kind in [FilterKind::Bloom, FilterKind::Blocked] {
        for allocation in ["uniform", "monkey"] {
            for bits in [1, 2, 5, 8, 10, 16] {
                let mut all = Sums::default();
                for policy in policies() {
                    let filter = format!("{}:bits={bits},allocation={allocation}", kind.name());
                    let advanced = AdvancedOptions::new().env(MemoryEnv::new(1)).filter(&filter).policy(&policy);
                    let advanced = advanced.memtable_bytes(BUFFER * ENTRY_BYTES).cache_bytes(0);
                    let db = Options::new().compression(Compression::None).advanced(advanced).open("/db")?;
                    for buffer in 1..=MOMENTS[1] {
                        fill(&db, buffer * BUFFER)?;
                        if MOMENTS.contains(&buffer) {
                            let sums = look(&format!("{policy}, {filter}, {buffer} buffers"), &db, &random)?;
                            all.expected += sums.expected;
                            all.measured += sums.measured;
                        }
                    }
                }
                println!(
                    "{:<7} {bits:>2} bits, {allocation}: {} false positives, {:.0} expected: {:+.1} %",
                    kind.name(),
                    all.measured,
                    all.expected,
                    100.0 * all.off()
                );
                assert!(all.expected >= 1600.0, "a tenth of {} is not four standard deviations", all.expected);
                assert!(
                    all.off().abs() <= 0.1,
                    "{}, {bits} bits, {allocation}: {} of the model",
                    kind.name(),
                    all.off()
                );
            }
        }
    }
    Ok(())
}
