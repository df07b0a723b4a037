//! The workloads: scripted ones, each with what it is for, and generated ones.

use std::time::Duration;

use tamarack::Durability::{self, Buffered, Interval, Sync};
use tamarack::step;
use tamarack_env::Random;
use tamarack_env::sim::Failure;

use crate::session::{Designer, Settings};
use crate::workload::{Action, Author, Workload};

/// How many generated workloads a round has.
const GENERATED: u64 = 30;

/// All workloads of a round; another round has the same stories with other contents, and other
/// generated ones.
pub(crate) fn all(round: u64) -> Vec<Workload> {
    let seed = |number: u64| Random::for_purpose(round, number).next() >> 32;
    let scripted = SCRIPTED
        .iter()
        .enumerate()
        .map(|(number, (name, write))| written(name, seed(number as u64), Settings::default(), *write));
    scripted.chain((0..GENERATED).map(|number| generated(seed(1000 + number)))).collect()
}

/// The workload that a failure named.
pub(crate) fn named(name: &str, seed: u64) -> Option<Workload> {
    if name == GENERATED_NAME {
        return Some(generated(seed));
    }
    if let Some(name) = name.strip_suffix(AT_RANDOM) {
        return named(name, seed).map(redesigned);
    }
    if let Some((name, write)) = NAVIGATED.iter().find(|(known, _)| *known == name) {
        return Some(written(name, seed, navigator(), *write));
    }
    let (name, write) = SCRIPTED.iter().find(|(known, _)| *known == name)?;
    Some(written(name, seed, Settings::default(), *write))
}

/// The same workloads with designs that change at random: before each action a little time passes,
/// in which the controller makes a change, and a few steps of background work are done.
pub(crate) fn at_random(round: u64) -> Vec<Workload> {
    all(round).into_iter().map(redesigned).collect()
}

/// How long a controller waits that changes designs at random.
const TICK: Duration = Duration::from_micros(300);

const AT_RANDOM: &str = " with designs at random";

fn redesigned(workload: Workload) -> Workload {
    let automatic = |settings: Settings| Settings { designer: Designer::AtRandom, ..settings };
    let Workload { name, seed, settings, actions } = workload;
    let random = Random::for_purpose(seed, 0x4E5);
    let actions = actions.into_iter().flat_map(|action| {
        let action = match action {
            Action::Policy(_) => Action::Policy("auto"),
            Action::Reopen(settings) => Action::Reopen(automatic(settings)),
            Action::Die(settings) => Action::Die(automatic(settings)),
            Action::PowerCut(seed, settings) => Action::PowerCut(seed, automatic(settings)),
            other => other,
        };
        [Action::Tick(TICK, 1 + random.below(4) as usize), action]
    });
    Workload { name: name + AT_RANDOM, seed, settings: automatic(settings), actions: actions.collect() }
}

/// Workloads that make the navigator change the design.
pub(crate) fn navigated() -> Vec<Workload> {
    let scripts = NAVIGATED.iter().zip(0..);
    scripts.map(|((name, write), seed)| written(name, seed, navigator(), *write)).collect()
}

fn navigator() -> Settings {
    // With tables for each run, and memory for one change in several memtables.
    Settings { designer: Designer::Navigator, memtable_bytes: 512, table_bytes: 1 << 20, ..Settings::default() }
}

/// Each begins with a tree of many runs: of too few, the navigator leaves the design alone, and has
/// the runs compacted into one.
const NAVIGATED: &[(&str, Script)] = &[
    ("scans come", |a| {
        many_runs(a).scan(30_000).pass_ms(2_000).write(4, Buffered).pass_ms(3_000).power_cut(navigator());
        a.write(4, Sync).flush();
    }),
    ("lookups of absent keys come, and scans", |a| {
        many_runs(a).look_up_absent(40_000).pass_ms(2_000).write(4, Buffered).scan(60_000).pass_ms(2_000);
        a.scan(60_000).pass_ms(2_000).die(navigator()).write(4, Sync).flush();
    }),
];

fn many_runs(author: &mut Author) -> &mut Author {
    author.keys = 90;
    author.uniform = true;
    // The first look of the controller, which counts from here on.
    author.policy("auto:tiering:T=20").pass_ms(1);
    for _ in 0..20 {
        author.write(6, Buffered).flush();
    }
    author.pass_ms(1)
}

fn written(name: &str, seed: u64, settings: Settings, write: Script) -> Workload {
    let mut author = Author::new(name, seed, settings);
    write(&mut author);
    author.finish()
}

type Script = fn(&mut Author);

const TEN_MS: Durability = Interval(Duration::from_millis(10));
const DEFAULT: fn() -> Settings = Settings::default;

const SCRIPTED: &[(&str, Script)] = &[
    // The WAL alone: the memtable is never full.
    ("synced writes", |a| {
        a.write(8, Sync);
    }),
    ("buffered writes", |a| {
        a.write(4, Buffered).sync().write(3, Buffered);
    }),
    ("interval writes", |a| {
        a.write(3, TEN_MS).pass_ms(4).write(2, TEN_MS).pass_ms(7).write(2, TEN_MS).pass_ms(11).write(1, Buffered);
    }),
    ("levels mixed", |a| {
        for _ in 0..4 {
            a.write(2, Buffered).write(1, TEN_MS).write(1, Sync).pass_ms(3);
        }
        a.write(2, Buffered).pass_ms(20);
    }),
    // Rotation and flush.
    ("flush", |a| {
        a.write(3, Buffered).flush().write(3, Sync).flush();
    }),
    ("rotation while flushes lag", |a| {
        a.uniform = true;
        a.write(14, Buffered).write(1, Sync).write(6, Buffered).background(2).write(1, Sync);
    }),
    ("many flushes roll the manifest", |a| {
        for _ in 0..9 {
            a.write(2, Buffered).flush();
        }
    }),
    ("everything is deleted", |a| {
        a.delete_all(Buffered).flush().write(2, Buffered).flush().delete_all(Sync).flush().write(2, Buffered);
    }),
    ("runs are merged", |a| {
        a.write(3, Buffered).flush().write(3, Buffered).flush().write(3, Buffered).compact().write(2, Sync);
        a.delete_all(Buffered).compact().write(2, Buffered).compact();
    }),
    ("compactions are cut short", |a| {
        for _ in 0..3 {
            a.value_bytes_max = 200;
            a.write(3, Buffered).flush().write(3, Sync).compact().power_cut(DEFAULT()).background(2).die(DEFAULT());
        }
    }),
    ("large batches", |a| {
        a.value_bytes_max = 900;
        a.batch(5, Sync).batch(5, Buffered).batch(8, Buffered).flush().batch(7, Buffered).batch(2, Sync);
    }),
    // Close and reopen.
    ("close and reopen", |a| {
        for _ in 0..4 {
            a.write(3, Buffered).reopen(DEFAULT());
        }
        a.reopen(DEFAULT()).write(2, Buffered);
    }),
    ("reopen with other options", |a| {
        a.write(8, Buffered).reopen(Settings { memtable_bytes: 4096, durability: Sync, ..DEFAULT() });
        a.write(8, Buffered).reopen(Settings {
            memtable_bytes: 64,
            table_bytes: 1,
            immutable_memtables_max: 1,
            ..DEFAULT()
        });
        a.write(4, Buffered).reopen(Settings { manifest_bytes: 1 << 20, cache_bytes: 1 << 16, ..DEFAULT() });
        a.write(4, Buffered);
    }),
    // The process dies, the machine does not, then it does.
    ("processes die", |a| {
        for _ in 0..4 {
            a.write(4, Buffered).die(DEFAULT()).write(1, Sync).write(2, Buffered);
        }
    }),
    ("processes die while flushing", |a| {
        for steps in 1..6 {
            a.write(6, Buffered).background(steps).die(DEFAULT()).background(steps);
        }
    }),
    // Recovery from a crashed recovery; records of equal size, so that old ones could pass for new
    // ones.
    ("power fails again and again", |a| {
        a.uniform = true;
        a.value_bytes_max = 24;
        for _ in 0..6 {
            a.batch(1, Sync).batch(1, Buffered).batch(1, Buffered).batch(1, Buffered).power_cut(DEFAULT());
        }
    }),
    ("power fails around rotations", |a| {
        a.uniform = true;
        a.value_bytes_max = 40;
        for _ in 0..5 {
            a.write(7, Buffered).background(1).power_cut(DEFAULT()).batch(1, Buffered);
        }
    }),
    ("sectors tear in large values", |a| {
        a.value_bytes_max = 3000;
        a.uniform = true;
        a.batch(1, Buffered).batch(2, Buffered).batch(1, Sync).batch(1, Buffered).flush().batch(2, Buffered);
    }),
    // Calls fail, and what the database said about that stays true.
    ("an append fails after all", |a| {
        a.write(2, Sync).fail(step::WAL_APPEND, Failure::ErrorAfterEffect).write(1, Buffered);
        a.write(1, Buffered).write(1, Sync).write(2, Buffered).die(DEFAULT()).write(2, Buffered);
    }),
    ("an append fails half way", |a| {
        a.uniform = true;
        a.write(2, Buffered).fail(step::WAL_APPEND, Failure::PartialWrite).batch(3, Buffered);
        a.write(2, Buffered).fail(step::WAL_APPEND, Failure::PartialWrite).batch(3, Sync).batch(3, Sync);
    }),
    ("an edit fails after all", |a| {
        a.write(3, Buffered).fail(step::MANIFEST_APPEND, Failure::ErrorAfterEffect).flush();
        a.write(2, Buffered).pass_ms(600).flush().write(2, Sync).pass_ms(600);
        a.fail(step::MANIFEST_APPEND, Failure::PartialWrite).write(3, Buffered).flush().pass_ms(600);
    }),
    ("a sync of the WAL fails and drops pages", |a| {
        a.write(2, Sync).write(3, Buffered).fail(step::WAL_SYNC, Failure::SyncDropsPages).sync().die(DEFAULT());
        a.write(2, Sync).power_cut(DEFAULT()).write(2, Buffered);
    }),
    ("a sync of the manifest fails and drops pages", |a| {
        a.write(5, Sync).fail(step::MANIFEST_SYNC, Failure::SyncDropsPages).flush().die(DEFAULT());
        a.write(2, Sync).flush().power_cut(DEFAULT()).write(2, Buffered);
    }),
    ("a flush fails once", |a| {
        a.write(3, Buffered).fail(step::TABLE_WRITE, Failure::Io).write(6, Buffered).pass_ms(600).flush();
    }),
    // Requested compactions, in several parts on two workers.
    ("flushes take the active run along", |a| {
        a.begin_with("leveling:T=4").keys = 30;
        for _ in 0..5 {
            a.write(5, Buffered).flush();
        }
    }),
    ("compactions in parts", |a| {
        a.begin_with("custom:buffer 200; level 600 in 3 runs; level 3000 in 1 run").keys = 60;
        for _ in 0..6 {
            a.write(7, Buffered).flush();
        }
        a.settle().write(3, Sync).background(9);
    }),
    ("a first level of several runs rests", |a| {
        a.begin_with("custom:buffer 100; level 800 in 5 runs; level 9000 in 1 run").keys = 60;
        a.settings().table_bytes = 200;
        for _ in 0..5 {
            a.write(5, Buffered).flush().write(3, Buffered).flush().settle().pass_ms(2000).write(1, Buffered);
        }
    }),
    ("slices are moved", |a| {
        a.begin_with("custom:buffer 100; level 400 in 2 runs; level 1600 in 2 runs; level 9000 in 1 run").keys = 90;
        *a.settings() = Settings { table_bytes: 1, late_memtables_max: 0, ..*a.settings() };
        for _ in 0..10 {
            a.write(4, Buffered).flush();
        }
        a.settle().compact_range().write(3, Buffered).settle();
    }),
    ("slices are moved beside parts that are copied", |a| {
        a.begin_with("custom:buffer 200; level 400 in 2 runs; level 4000 in 1 run").keys = 90;
        *a.settings() = Settings { table_bytes: 1, threads: 3, late_memtables_max: 0, ..*a.settings() };
        for _ in 0..10 {
            a.write(7, Buffered).flush().background(2);
        }
        a.power_cut(Settings { table_bytes: 1, late_memtables_max: 0, ..DEFAULT() }).settle();
    }),
    ("a tree grows and shrinks", |a| {
        a.begin_with("tiering:T=2").keys = 40;
        for _ in 0..6 {
            a.write(5, Buffered).flush();
        }
        a.settle().delete_all(Buffered).compact().write(6, Buffered).flush().settle();
    }),
    ("policies change", |a| {
        a.begin_with("tiering:T=4").keys = 40;
        for words in ["leveling:T=3", "lazy-leveling:T=3", "custom:buffer 90; level 400 in 4 runs", "tiering:T=2"] {
            a.write(9, Buffered).background(3).policy(words).write(3, Buffered).flush().settle();
        }
    }),
    ("policies change while compactions are paused", |a| {
        a.begin_with("custom:buffer 60; level 180 in 3 runs; level 2000 in 2 runs").keys = 40;
        for words in ["leveling:T=2", "tiering:T=5", "leveling:T=6", "dostoevsky:T=3,K=2,Z=2"] {
            a.write(8, Buffered).background(4).policy(words).background(2).die(DEFAULT()).write(4, Buffered);
            a.power_cut(DEFAULT()).background(3);
        }
    }),
    ("runs are ingested", |a| {
        a.begin_with("leveling:T=3").keys = 40;
        a.ingest(9).write(5, Buffered).ingest(20).write(2, Sync).ingest(4).ingest(30).write(3, Buffered).settle();
        a.delete_all(Buffered).ingest(10).write(2, Buffered).compact().ingest(5).reopen(DEFAULT()).write(2, Buffered);
    }),
    ("ingests are cut short", |a| {
        a.begin_with("tiering:T=4").keys = 40;
        for _ in 0..4 {
            a.write(4, Buffered).ingest(12).write(2, Buffered).power_cut(DEFAULT()).background(3);
            a.ingest(6).die(DEFAULT()).write(3, Buffered).ingest(3).power_cut(DEFAULT()).write(1, Buffered);
        }
    }),
    ("ingests fail", |a| {
        a.keys = 40;
        for (step, failure) in [
            (step::TABLE_WRITE, Failure::Io),
            (step::TABLE_SYNC, Failure::SyncDropsPages),
            (step::MANIFEST_APPEND, Failure::ErrorAfterEffect),
            (step::MANIFEST_SYNC, Failure::SyncDropsPages),
        ] {
            a.write(3, Buffered).ingest(5).fail(step, failure).ingest(9).write(2, Buffered).pass_ms(600).ingest(5);
            a.die(DEFAULT()).write(2, Sync).power_cut(DEFAULT());
        }
    }),
    ("ranges are merged", |a| {
        ranges(a, "tiering:T=6");
    }),
    ("ranges of several levels are merged", |a| {
        ranges(a, "custom:buffer 100; level 400 in 4 runs; level 1600 in 2 runs; level 9000 in 2 runs");
    }),
    // Checkpoints.
    ("checkpoints", |a| {
        a.checkpoint().write(4, Buffered).checkpoint().write(3, Buffered).flush().write(1, Sync).checkpoint();
        a.compact().write(2, Buffered).power_cut(DEFAULT()).checkpoint();
    }),
    ("checkpoints during compactions", |a| {
        a.begin_with("custom:buffer 100; level 400 in 2 runs; level 9000 in 2 runs").keys = 40;
        for _ in 0..4 {
            a.write(8, Buffered).background(3).checkpoint().background(2);
        }
        a.delete_all(Buffered).compact();
    }),
    ("checkpoints are copied", |a| {
        a.settings().manifest_bytes = 1 << 20;
        for _ in 0..3 {
            a.write(9, Buffered).flush().fail(step::CHECKPOINT_LINK, Failure::CrossesDevices);
            a.fail(step::CHECKPOINT_LINK, Failure::CrossesDevices).checkpoint();
        }
        a.fail(step::CHECKPOINT_LINK, Failure::CrossesDevices)
            .fail(step::CHECKPOINT_COPY_SYNC, Failure::SyncDropsPages);
        a.checkpoint().write(2, Sync);
    }),
    ("checkpoints fail in the end", |a| {
        // Its own manifest is not to be rolled: the calls that fail are those of checkpoints.
        a.settings().manifest_bytes = 1 << 20;
        for failure in [Failure::ErrorAfterEffect, Failure::Io, Failure::ErrorAfterEffect] {
            a.write(4, Buffered).fail(step::CURRENT_SYNC_DIRECTORY, failure.clone()).checkpoint();
            a.write(1, Sync).fail(step::CURRENT_RENAME, failure).checkpoint().checkpoint();
        }
        a.fail(step::MANIFEST_SYNC_BASE, Failure::SyncDropsPages).checkpoint();
        a.fail(step::CURRENT_SYNC_DIRECTORY, Failure::Io).fail(step::CHECKPOINT_SYNC_REMOVED, Failure::Io).checkpoint();
        a.write(2, Buffered);
    }),
    ("runs are ingested beside unsynced records of the WAL", |a| {
        a.settings().table_bytes = 1 << 20;
        a.settings().memtable_bytes = 4096;
        for _ in 0..6 {
            a.write(5, Buffered).ingest(3);
        }
    }),
    ("ratios differ from level to level", |a| {
        a.begin_with("garnering:T=2,c=0.5").keys = 60;
        for words in [
            "moose:last=0.8,k=1",
            "qlsm-bush:T=2,X=2",
            "leveling:T=3",
            "moose:last=0.6,k=2",
            "garnering:T=2,c=0.8,first=3",
        ] {
            for _ in 0..3 {
                a.write(5, Buffered).flush();
            }
            a.background(3).policy(words).write(3, Buffered).power_cut(DEFAULT()).background(2);
        }
        a.settle();
    }),
    ("many slices are moved", |a| {
        a.begin_with("custom:buffer 100; level 400 in 2 runs; level 1600 in 2 runs; level 9000 in 1 run").keys = 120;
        *a.settings() = Settings { table_bytes: 1, late_memtables_max: 0, ..*a.settings() };
        for _ in 0..22 {
            a.write(4, Buffered).flush();
        }
        a.settle();
    }),
    ("policies change at once", |a| {
        a.begin_with("tiering:T=5").keys = 30;
        for words in ["leveling:T=3", "moose:last=0.8,k=1", "garnering:T=2,c=0.5"] {
            a.write(5, Buffered).flush().write(4, Buffered).background(2).policy(words).reshape();
        }
        a.policy("qlsm-bush:T=2,X=2").write(3, Buffered).power_cut(DEFAULT()).reshape();
    }),
    ("many slices are moved into one run", |a| {
        a.begin_with("custom:buffer 100; level 500 in 3 runs; level 9000 in 1 run").keys = 200;
        *a.settings() = Settings { table_bytes: 1, late_memtables_max: 0, ..*a.settings() };
        for _ in 0..18 {
            a.write(4, Buffered).flush();
        }
        a.settle();
    }),
    // Range deletes: in the WAL alone, flushed and applied, and while compactions go on.
    ("ranges are deleted", |a| {
        a.keys = 30;
        for _ in 0..6 {
            a.write(4, Buffered).flush().delete_range(0, Sync).write(2, Buffered).delete_range(2, Buffered);
            a.flush().write(2, Buffered).background(2).delete_range(1, TEN_MS).pass_ms(11);
        }
        a.delete_range(0, Buffered).die(DEFAULT()).delete_range(3, Buffered).power_cut(DEFAULT()).flush();
    }),
    ("ranges are deleted while runs are merged", |a| {
        a.begin_with("custom:buffer 100; level 400 in 2 runs; level 9000 in 2 runs").keys = 40;
        a.settings().table_bytes = 1;
        for _ in 0..8 {
            a.write(6, Buffered).background(3).delete_range(1, Buffered).background(2).write(2, Buffered).flush();
            a.background(3).delete_range(0, Buffered).compact_range();
        }
        a.delete_range(2, Buffered).compact();
    }),
    ("ranges are deleted and ingested", |a| {
        a.keys = 40;
        for _ in 0..6 {
            a.write(3, Buffered).ingest(9).delete_range(1, Buffered).ingest(5).delete_range(0, Buffered).checkpoint();
            a.flush().background(2);
        }
        a.power_cut(DEFAULT()).delete_range(1, Sync).settle();
    }),
];

/// Policies that generated workloads choose from: trees of two to five levels with the memtables
/// and keys that they have.
const POLICIES: &[&str] = &[
    "leveling:T=3",
    "garnering:T=2,c=0.5",
    "tiering:T=2",
    "moose:last=0.8,k=1",
    "tiering:T=4",
    "qlsm-bush:T=2,X=2",
    "lazy-leveling:T=3",
    "garnering:T=3,c=0.8,first=3",
    "dostoevsky:T=4,K=2,Z=2",
    "moose:last=0.6,k=2",
    "custom:buffer 60; level 180 in 3 runs; level 2000 in 2 runs",
    "custom:buffer 60; level 180 in 3 runs; level 2000 in 2 runs",
    "custom:buffer 150; level 300 in 1 run; level 1200 in 4 runs; level 9000 in 2 runs",
    "custom:buffer 150; level 300 in 1 run; level 1200 in 4 runs; level 9000 in 2 runs",
];

/// A table for each key, so that there are many handovers.
fn ranges(author: &mut Author, policy: &'static str) {
    author.begin_with(policy).keys = 50;
    author.settings().table_bytes = 1;
    for _ in 0..20 {
        author.write(6, Buffered).flush().write(4, Buffered).compact_range();
    }
}

const GENERATED_NAME: &str = "generated";

/// A workload drawn from a seed: anything after anything.
fn generated(seed: u64) -> Workload {
    let random = Random::for_purpose(seed, 0x6E6);
    let pick = |choices: &[u64]| choices[random.below(choices.len() as u64) as usize];
    let settings = || Settings {
        durability: [Buffered, Sync, TEN_MS][random.below(3) as usize],
        memtable_bytes: pick(&[1, 100, 200, 400, 1000]),
        immutable_memtables_max: pick(&[1, 2, 3, 8]) as usize,
        // Not drawn: the stories of seeds stay as they were.
        late_memtables_max: [0, 16, 3][(seed / 4 % 3) as usize],
        block_bytes: pick(&[64, 128, 512]) as usize,
        table_bytes: pick(&[1, 300, 1000]),
        cache_bytes: pick(&[0, 1 << 16]),
        manifest_bytes: pick(&[1, 1, 600]),
        // Not drawn either.
        direct_io: seed / 2 % 2 == 1,
        policy: [None, Some(POLICIES[random.below(POLICIES.len() as u64) as usize])][random.below(2) as usize],
        threads: 1 + random.below(3) as usize,
        designer: Designer::User,
    };
    let mut author = Author::new(GENERATED_NAME, seed, settings());
    author.keys = pick(&[3, 10, 30]);
    author.value_bytes_max = pick(&[8, 30, 100, 700]);
    author.uniform = random.eighths(2);
    let base = author.draw(3);
    for _ in 0..10 + author.draw(20) {
        let durability = match random.below(6) {
            0 | 1 => [Buffered, Sync, TEN_MS][base as usize],
            2 => Sync,
            3 => TEN_MS,
            _ => Buffered,
        };
        match random.below(23) {
            0 => author.sync(),
            1 => author.flush(),
            2 | 3 => author.background(1 + random.below(4) as usize),
            4 => author.pass_ms(1 + random.below(12)),
            5 => author.reopen(settings()),
            6 => author.die(settings()),
            7 => author.power_cut(settings()),
            8 => author.compact(),
            9 => author.delete_all(durability),
            10 => author.compact_range(),
            11 => author.policy(POLICIES[random.below(POLICIES.len() as u64) as usize]),
            12 => author.settle(),
            13 => author.background(20),
            _ => author.write(1 + random.below(3) as usize, durability),
        };
    }
    // Not drawn either.
    if (seed / 16).is_multiple_of(3) { author.with_range_deletes(4).finish() } else { author.finish() }
}
