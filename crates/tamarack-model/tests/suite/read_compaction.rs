//! Compactions because runs are read: when it pays, and how far down.

use tamarack_model::device::Device;
use tamarack_model::navigator::read_compaction::{ReadRun, Reads, read_compaction};
use tamarack_model::workload::Workload;
use tamarack_model::{Bytes, Shape};
use tamarack_testing::Random;

const ENTRY_BYTES: u64 = 100;

fn shape() -> Shape {
    "buffer 1000000\nlevel 4000000 in 4 runs\nlevel 16000000 in 4 runs\nlevel 64000000 in 4 runs"
        .parse()
        .expect("a shape")
}

/// Levels 1 to 3 have two runs each.
fn runs() -> Vec<ReadRun> {
    let run = |level: usize| ReadRun { level, bytes: Bytes(1_000_000 << (2 * (level - 1))), fpr: 0.01 * level as f64 };
    [1, 1, 2, 2, 3, 3].map(run).to_vec()
}

fn reads(parts: [f64; 4], operations: f64) -> Reads {
    Reads {
        workload: Workload::of_parts(parts[0], parts[1], parts[2], parts[3], 9.0).expect("a workload"),
        operations,
        hits: 0.0,
        filter: "blocked:bits=10".parse().expect("filters"),
        entry_bytes: ENTRY_BYTES,
        block_bytes: 4096,
        device: Device::nvme(),
    }
}

/// Scans pay for one run once there are enough of them; fewer pay for that of small levels, and
/// very few for none.
#[test]
fn more_reads_compact_further_down() {
    let through = |operations| {
        read_compaction(&shape(), &runs(), &reads([0.0, 0.0, 1.0, 0.0], operations)).map(|found| found.through)
    };
    let found: Vec<Option<usize>> = [1e2, 1e4, 1e6, 1e8].map(through).to_vec();
    assert_eq!((found[0], found[3]), (None, Some(3)), "{found:?}");
    assert!(found.is_sorted() && (found.contains(&Some(1)) || found.contains(&Some(2))), "{found:?}");
}

/// By hand: two runs without filters, each lookup of an absent key reads a block of each.
#[test]
fn gain_and_cost_by_hand() {
    let runs = [1, 1].map(|level| ReadRun { level, bytes: Bytes(1_000_000), fpr: 1.0 });
    let reads = Reads { filter: "none".parse().expect("filters"), ..reads([1.0, 0.0, 0.0, 0.0], 1e6) };
    let found = read_compaction(&shape(), &runs, &reads).expect("it pays");
    let device = reads.device;
    let block = device.block_seconds(4096.0) + device.index_seconds + device.entry_seconds;
    assert!((found.gain_seconds / (1e6 * block) - 1.0).abs() < 1e-9, "{found:?}");
    let bytes = 2e6;
    let cost = bytes / ENTRY_BYTES as f64 * device.compaction_seconds
        + bytes / device.read_bytes_per_second
        + bytes / device.write_bytes_per_second;
    assert!((found.compaction_time / cost - 1.0).abs() < 1e-9, "{found:?}");
    assert_eq!((found.through, found.runs, found.bytes, found.operations), (1, 2, Bytes(2_000_000), 1e6));
}

/// Writers bound how long it lasts: with half updates, so many operations are counted as fit
/// the levels, however many are expected.
#[test]
fn writers_end_the_gain() {
    let found = |updates| read_compaction(&shape(), &runs(), &reads([0.0, 0.0, 1.0 - updates, updates], 1e9));
    let (read_only, mixed) = (found(0.0).expect("it pays"), found(0.5).expect("it pays"));
    assert_eq!(read_only.operations, 1e9);
    let space: u64 = (1..=mixed.through).map(|level| shape().full_from(level).0).sum();
    let left = (space - mixed.bytes.0) as f64;
    assert!((mixed.operations - left / (0.5 * ENTRY_BYTES as f64)).abs() < 1.0, "{mixed:?}");
    assert_eq!(found(1.0), None, "nothing is read");
}

/// Whatever the tree: what is chosen saves more than it takes, takes whole levels, and leaves no
/// level full but the last.
#[test]
fn choices_are_sound() {
    let mut chosen = 0;
    for seed in 0..2000 {
        let mut random = Random::new(seed);
        let mut below = |bound: u64| random.below(bound);
        let shape = shape();
        let mut runs = Vec::new();
        for level in 1..=shape.last() {
            for _ in 0..below(5) {
                let bytes = Bytes(1 + below(shape.level(level).capacity.0 / 3));
                runs.push(ReadRun { level, bytes, fpr: below(101) as f64 / 100.0 });
            }
        }
        let mut part = || below(10) as f64;
        let parts = [part(), part(), 1.0 + part(), part()];
        let operations = 10f64.powi(below(9) as i32);
        let Some(found) = read_compaction(&shape, &runs, &reads(parts, operations)) else { continue };
        chosen += 1;
        let taken: Vec<&ReadRun> = runs.iter().filter(|run| run.level <= found.through).collect();
        let bytes: Bytes = taken.iter().map(|run| run.bytes).sum();
        assert_eq!((found.runs, found.bytes), (taken.len(), bytes), "seed {seed}");
        assert!(found.gain_seconds > found.compaction_time && found.runs > 1, "seed {seed}: {found:?}");
        assert!(found.through == shape.last() || bytes < shape.full_from(found.through), "seed {seed}: {found:?}");
        assert!(found.operations <= operations, "seed {seed}: {found:?}");
    }
    assert!(chosen > 300, "{chosen} were chosen");
}
