//! Writers at full speed, simulated: what must hold for any machine, policy and size, and beside
//! trees at other paces.

use tamarack_model::design::Design;
use tamarack_model::device::Device;
use tamarack_model::policy;
use tamarack_model::prediction::{Length, Lookups, Prediction, Question, Writes, predict};
use tamarack_model::simulate::{FullSpeed, Pace, Threads, Tree};
use tamarack_model::{Bytes, planner};
use tamarack_testing::{Random, seeds};

const POLICIES: [&str; 9] = [
    "leveling:T=3",
    "leveling:T=10",
    "leveling:T=5,first=4",
    "tiering:T=4",
    "tiering:T=10",
    "lazy-leveling:T=5",
    "dostoevsky:T=5,K=2,Z=2",
    "garnering:T=2,c=0.8",
    "qlsm-bush:T=2,X=2",
];

const BUFFER: Bytes = Bytes(1 << 20);

/// A machine as there may be one, and threads.
fn speed(random: &mut Random) -> FullSpeed {
    let names = Device::NAMES;
    let device = Device::named(names[random.below(names.len() as u64) as usize]).expect("a device");
    let mut of = |most| 1 + random.below(most) as usize;
    let threads = Threads { writers: of(3), workers: of(6), cores: of(8) };
    let speed = FullSpeed::of(&device, (16 + random.below(2_000)) as f64, threads);
    FullSpeed { late_max: random.below(20), ..speed }
}

/// Any policy on any machine: memtables stay within their number, writers never put more than they
/// offer, nothing is lost, and at rest the tree fits its shape.

#[test]
fn what_holds_for_any_machine() {
    for seed in seeds(24) {
        let mut random = Random::new(seed);
        let words = POLICIES[random.below(POLICIES.len() as u64) as usize];
        let policy = policy::parse(words).expect("a policy");
        let speed = speed(&mut random);
        let memtables = 50 + random.below(300);
        let mut tree = Tree::new(&policy, BUFFER);
        let context = format!("seed {seed}, {words}, {memtables} memtables, {speed:?}");
        let mut looks = 0;
        for _ in 0..memtables {
            let (mut before, time) = (0.0, tree.time_at_full_speed());
            tree.write_at_full_speed(&speed, BUFFER, &mut |tree, full, in_memtables| {
                looks += 1;
                assert!(full >= before && full <= 1.0, "{context}: {full} after {before}");
                before = full;
                let most = speed.buffers as f64 + 1.0 + 0.25;
                assert!(in_memtables.ratio(BUFFER) <= most, "{context}: {in_memtables} in memtables");
                assert!(tree.immutable_memtables() as u64 <= speed.buffers + 1, "{context}");
                for (plan, part, output) in tree.handing_over() {
                    assert!((0.0..=1.0).contains(&part) && output > Bytes::ZERO, "{context}: {plan} {part} {output}");
                }
            });
            let passed = tree.time_at_full_speed() - time;
            // What the memtable before has left over is at most what a step puts, a quarter.
            assert!(passed * speed.offered >= 0.75, "{context}: a memtable in {passed}");
        }
        assert!(looks >= 8 * memtables, "{context}: {looks} looks");
        tree.settle();
        assert_eq!(tree.occupancy().bytes(), BUFFER * memtables, "{context}: nothing is lost");
        while tree.rest() {
            tree.settle();
        }
        let fits = |level| planner::fits(tree.shape(), tree.occupancy(), &[], level);
        assert!((1..=tree.shape().last()).all(fits), "{context}: {}{}", tree.occupancy(), tree.shape());
    }
}

fn predicted(words: &str, pace: Pace) -> Prediction {
    let policy = policy::parse(words).expect("a policy");
    let design = Design {
        entries: 300_000,
        entry_bytes: 1_000,
        buffer: BUFFER,
        policy: &policy,
        filter: "none".parse().expect("a filter"),
        block_bytes: 4_096,
    };
    let writes = Writes::Puts { inserts: 0.0, theta: 0.0 };
    predict(
        &design,
        &Question {
            writes,
            scans: &[1],
            digits: 256.0,
            length: Length::Turnovers(2.0),
            pace,
            lookups: Lookups::Countless,
        },
    )
}

/// Writers that are slow beside the device leave the tree of settled compactions, and put as fast
/// as they can. At full speed there are more runs than settled, and the more the later compactions
/// may be; no more is written, and what writers put is what compactions leave them.
#[test]
fn slow_and_fast_writers() {
    let device = Device { put_seconds: 1e-6, ..Device::ssd() };
    let threads = Threads { writers: 1, workers: 2, cores: 4 };
    let fast = FullSpeed::of(&device, 1_000.0, threads);
    assert!(fast.offered > 1.0, "{fast:?}");
    for words in ["leveling:T=5", "leveling:T=5,first=4", "tiering:T=4", "lazy-leveling:T=4"] {
        let settled = predicted(words, Pace::Settled);
        let slow = FullSpeed::of(&Device { put_seconds: 1e-3, ..device }, 1_000.0, threads);
        let found = predicted(words, Pace::AtFullSpeed(slow));
        let near =
            |name: &str, a: f64, b: f64, most: f64| assert!((a / b - 1.0).abs() < most, "{words} {name}: {a} {b}");
        near("runs", found.runs.mean(), settled.runs.mean(), 0.07);
        near("written", found.write_amplification, settled.write_amplification, 0.05);
        near("rate", found.put_bytes_per_second, 1e6, 0.02);
        let of = |late_max| predicted(words, Pace::AtFullSpeed(FullSpeed { late_max, ..fast }));
        let [punctual, late, later] = [0, 8, 16].map(of);
        let runs = [&settled, &punctual, &late, &later].map(|found| found.runs.mean());
        println!(
            "{words}: {runs:.2?} runs, {:.2} and {:.2} written, {:.0} a second of {:.0}",
            settled.write_amplification, later.write_amplification, later.put_bytes_per_second, fast.bytes_per_second
        );
        assert!(runs[1] < runs[2] && runs[2] < runs[3] && runs[0] < runs[2], "{words}: {runs:?}");
        assert!(later.write_amplification < 1.05 * settled.write_amplification, "{words}");
        // Workers copy what they write, and what is obsolete.
        let copied = later.put_bytes_per_second * (later.write_amplification + fast.burden);
        assert!(copied < 1.05 * fast.bytes_per_second && copied > 0.6 * fast.bytes_per_second, "{words}: {copied}");
    }
}
