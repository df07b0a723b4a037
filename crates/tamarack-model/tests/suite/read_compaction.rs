//! Compactions because runs are read: when it pays, and how far down.

use tamarack_model::device::Device;
use tamarack_model::navigator::read_compaction::{GAIN_MIN, ReadCompaction, ReadTree, Reads, read_compaction};
use tamarack_model::occupancy::{Occupancy, Run, RunId};
use tamarack_model::policy::Policy;
use tamarack_model::simulate::{Pace, Tree};
use tamarack_model::workload::Workload;
use tamarack_model::{Bytes, Shape};
use tamarack_testing::Random;

const ENTRY_BYTES: u64 = 100;
const BUFFER: Bytes = Bytes(1_000_000);

fn shape() -> Shape {
    "buffer 1000000\nlevel 4000000 in 4 runs\nlevel 16000000 in 4 runs\nlevel 64000000 in 4 runs"
        .parse()
        .expect("a shape")
}

fn tiering() -> Policy {
    "tiering:T=4".parse().expect("a policy")
}

/// Runs of a level, so many bytes, and the false positive rate.
type Given = (usize, u64, f64);

/// The choice for a tree of these runs, young to old.
fn chosen(runs: &[Given], reads: &Reads) -> Option<ReadCompaction> {
    let shape = shape();
    let mut levels = vec![Vec::new(); shape.last()];
    for (id, (level, bytes, _)) in (1..).zip(runs) {
        levels[level - 1].push(Run { id: RunId(id), bytes: Bytes(*bytes), entries: None });
    }
    let fprs: Vec<f64> = runs.iter().map(|run| run.2).collect();
    let (policy, occupancy) = (tiering(), Occupancy::new(levels));
    let tree = ReadTree { policy: &policy, shape: &shape, occupancy: &occupancy, fprs: &fprs, bound: None };
    read_compaction(&tree, reads, &|| true)
}

/// Levels 1 to 3 have two runs each.
fn runs() -> Vec<Given> {
    [1, 1, 2, 2, 3, 3].map(|level: usize| (level, BUFFER.0 << (2 * (level - 1)), 0.01 * level as f64)).to_vec()
}

fn reads(parts: [f64; 4], operations: f64) -> Reads {
    Reads {
        workload: Workload::of_parts(parts[0], parts[1], parts[2], parts[3], 9.0).expect("a workload"),
        operations,
        hits: 0.0,
        lookup_hits: 0.0,
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
    let through = |operations| chosen(&runs(), &reads([0.0, 0.0, 1.0, 0.0], operations)).map(|found| found.through);
    let found: Vec<Option<usize>> = [1e2, 1e4, 1e6, 1e8].map(through).to_vec();
    assert_eq!((found[0], found[3]), (None, Some(3)), "{found:?}");
    assert!(found.is_sorted() && (found.contains(&Some(1)) || found.contains(&Some(2))), "{found:?}");
}

/// By hand: two runs without filters, each lookup of an absent key reads a block of each.
#[test]
fn gain_and_cost_by_hand() {
    let runs = [(1, BUFFER.0, 1.0); 2];
    let reads = Reads { filter: "none".parse().expect("filters"), ..reads([1.0, 0.0, 0.0, 0.0], 1e6) };
    let found = chosen(&runs, &reads).expect("it pays");
    let device = reads.device;
    let block = device.block_seconds(4096.0) + device.decode_seconds + device.index_seconds + device.entry_seconds;
    assert!((found.gain_seconds / (1e6 * block) - 1.0).abs() < 1e-9, "{found:?}");
    let bytes = 2e6;
    let cost = bytes / ENTRY_BYTES as f64 * device.compaction_seconds
        + bytes / device.read_bytes_per_second
        + bytes / device.write_bytes_per_second;
    assert!((found.compaction_time / cost - 1.0).abs() < 1e-9, "{found:?}");
    assert_eq!((found.through, found.runs, found.bytes, found.operations), (1, 2, Bytes(2_000_000), 1e6));
}

/// By hand: two of three runs of level 1 are saved until it is full without the compaction, which
/// is after one memtable; then the level below has a run more than with it until there, too, three
/// others have come.
#[test]
fn writers_end_the_gain() {
    let runs = [(1, BUFFER.0, 1.0); 3];
    let found = |updates, operations| {
        chosen(&runs, &Reads { hits: 1.0, ..reads([0.0, 0.0, 1.0 - updates, updates], operations) })
    };
    assert_eq!(found(0.0, 1e9).expect("it pays").operations, 1e9);
    let Device { index_seconds, entry_seconds, .. } = Device::nvme();
    let updates = 0.001;
    let fills_one = BUFFER.as_f64() / (updates * ENTRY_BYTES as f64);
    for memtables in [0.5, 1.0] {
        let found = found(updates, memtables * fills_one).expect("it pays");
        let by_hand = (1.0 - updates) * (index_seconds + entry_seconds) * 2.0 * memtables * fills_one;
        assert!((found.gain_seconds / by_hand - 1.0).abs() < 1e-6, "{found:?}, {by_hand} by hand");
    }
    assert_eq!(found(1.0, 1e9), None, "nothing is read");
}

/// A simulation ends when it is told to, and nothing is chosen then.
#[test]
fn simulations_end_when_told() {
    let (policy, shape) = (tiering(), shape());
    let levels =
        (0..3).map(|level| vec![Run { id: RunId(level), bytes: Bytes(BUFFER.0 << (2 * level)), entries: None }]);
    let occupancy = Occupancy::new(levels.collect());
    let tree = ReadTree { policy: &policy, shape: &shape, occupancy: &occupancy, fprs: &[1.0; 3], bound: None };
    // So many operations that each simulation is as long as it may be.
    let reads = reads([0.0, 0.0, 0.9, 0.1], 1e9);
    let asked = std::cell::Cell::new(0);
    let found = |most: u64| {
        asked.set(0);
        read_compaction(&tree, &reads, &|| {
            asked.set(asked.get() + 1);
            asked.get() < most
        })
    };
    assert!(found(u64::MAX).is_some());
    let all = asked.get();
    assert!(all > 1000, "it is asked for each memtable: {all} times");
    for most in [1, 20, all] {
        assert_eq!((found(most), asked.get()), (None, most), "nothing is done after that");
    }
}

/// Under steady writes a leveled tree gains nothing, whenever it is asked, and levels of many runs
/// gain much.
#[test]
fn leveled_trees_with_writers_gain_nothing() {
    let mean_gain = |specification: &str| {
        let policy: Policy = specification.parse().expect("a policy");
        let mut tree = Tree::new(&policy, BUFFER);
        (0..200).for_each(|_| tree.fill(BUFFER, Pace::Settled));
        let free = Device {
            compaction_seconds: 0.0,
            read_bytes_per_second: 1e30,
            write_bytes_per_second: 1e30,
            ..Device::nvme()
        };
        let reads = Reads { hits: 1.0, device: free, ..reads([0.0, 0.0, 0.5, 0.5], 200.0 * BUFFER.as_f64() / 50.0) };
        let seek = 0.5 * (free.index_seconds + free.entry_seconds) * BUFFER.as_f64() / 50.0;
        let gains: Vec<f64> = (0..100)
            .map(|_| {
                (0..3).for_each(|_| tree.fill(BUFFER, Pace::Settled));
                let fprs = vec![1.0; tree.occupancy().runs().count()];
                let (shape, occupancy) = (tree.shape(), tree.occupancy());
                let tree = ReadTree { policy: &policy, shape, occupancy, fprs: &fprs, bound: None };
                read_compaction(&tree, &reads, &|| true).map_or(0.0, |found| found.gain_seconds / seek)
            })
            .collect();
        gains.iter().sum::<f64>() / gains.len() as f64
    };
    // Saved runs, summed over memtables.
    let [leveling, tiering] = ["leveling:T=10", "tiering:T=4"].map(mean_gain);
    println!("{leveling:.1} saved runs in memtables with leveling, {tiering:.1} with tiering");
    assert!(leveling < 5.0 && tiering > 50.0, "{leveling} with leveling, {tiering} with tiering");
}

/// Whatever the tree: what is chosen saves more than it takes, takes whole levels, and leaves no
/// level full but the last.
#[test]
fn choices_are_sound() {
    let mut pay = 0;
    for seed in 0..2000 {
        let mut random = Random::new(seed);
        let mut below = |bound: u64| random.below(bound);
        let shape = shape();
        let mut runs = Vec::new();
        for level in 1..=shape.last() {
            for _ in 0..below(5) {
                let bytes = 1 + below(shape.level(level).capacity.0 / 3);
                runs.push((level, bytes, below(101) as f64 / 100.0));
            }
        }
        let mut part = || below(10) as f64;
        let parts = [part(), part(), 1.0 + part(), part()];
        let operations = 10f64.powi(below(9) as i32);
        let Some(found) = chosen(&runs, &reads(parts, operations)) else { continue };
        pay += 1;
        let taken: Vec<&Given> = runs.iter().filter(|run| run.0 <= found.through).collect();
        let bytes: Bytes = taken.iter().map(|run| Bytes(run.1)).sum();
        assert_eq!((found.runs, found.bytes), (taken.len(), bytes), "seed {seed}");
        assert!(found.gain_seconds > GAIN_MIN * found.compaction_time && found.runs > 1, "seed {seed}: {found:?}");
        assert!(found.through == shape.last() || bytes < shape.full_from(found.through), "seed {seed}: {found:?}");
        assert!(found.operations <= operations, "seed {seed}: {found:?}");
    }
    assert!(pay > 300, "{pay} pay");
}
