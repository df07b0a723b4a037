//! `full`: a small file system is filled until puts are refused; then keys are deleted, space comes
//! back without an operator, and writing goes on.
//!
//! ```text
//! free space  ▇▆▅▄▃▂▁▁  puts refused │ deletes ▁▂▃▅▆  puts accepted │ next cycle
//! ```
//!
//! The file system is a tmpfs in a mount namespace of this process alone, so it goes with the
//! process, and needs no rights where user namespaces are allowed. Each database lives through some
//! cycles under one policy after another. No call asks for a flush or a compaction. A refused put
//! must not have been written; everything acknowledged is compared with what is found.

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use tamarack::{Batch, Db, Error};
use tamarack_testing::Random;

use crate::design::{Design, POLICIES};
use crate::mount::{Mount, on_tmpfs};
use crate::prefix::difference;
use crate::run::{Outcome, Run, Stop};
use crate::stream::Content;

/// Size of the file system in MiB, unless `--size` says otherwise.
const DISK_MIB: u64 = 24;

/// Cycles of one database; it is opened anew with another policy after each second one.
const CYCLES: u64 = 8;

/// The disk is full after so many refusals in a row, or ten times as many.
const REFUSALS: u64 = 5;

/// Longest time that deletes may be refused, and that puts may be refused after them.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// Runs the command, in a namespace of its own.
pub(crate) fn run(run: Run) -> ExitCode {
    on_tmpfs(run, DISK_MIB, one_database)
}

fn one_database(run: &mut Run, _dir: &Path, disk: &Mount, mib: u64) -> Outcome {
    let mut random = Random::new(run.seed());
    let mut content = Content::new();
    let mut db = None;
    for cycle in 0..CYCLES {
        if cycle % 2 == 0 {
            db = None;
        }
        let db = match &mut db {
            Some(db) => db,
            None => {
                let memtable_bytes = (mib << 20) / *random.pick(&[32, 100, 200]);
                let policy = POLICIES[((run.seed() * CYCLES / 2 + cycle / 2) % POLICIES.len() as u64) as usize];
                let mut design = Design::random(&mut random).with_policy(policy).with_memtable(memtable_bytes);
                // Small tables would be ten thousand, and the engine's assertions look at each of
                // them at each handover.
                if mib > DISK_MIB {
                    design = design.with_default_tables();
                }
                let opened = design.options().open(disk.path().join("db"));
                db.insert(opened.map_err(|error| format!("open: {error}; {design}"))?)
            }
        };
        fill_and_empty(run, db, &mut content, &mut random)?;
        run.add("cycles", 1);
        run.progress();
        if !run.has_time() && run.args.count.is_none() {
            break;
        }
    }
    let report = db.expect("a database is open").verify(&mut |_, _| {}).map_err(|error| format!("verify: {error}"))?;
    if !report.is_ok() {
        Err(format!("verify: {:?}", report.problems))?;
    }
    run.add("databases", 1);
    Ok(())
}

/// One cycle.
fn fill_and_empty(run: &mut Run, db: &Db, content: &mut Content, random: &mut Random) -> Outcome {
    let disk_bytes = db.stats().disk.ok_or("no limit of the disk is known")?.total_bytes;
    let puts = fill(db, content, random, disk_bytes)?;
    run.add("puts", puts);
    let level = db.stats().disk.map_or(0, |disk| disk.free_bytes * 1000 / disk.total_bytes.max(1));
    run.max("free when puts are refused, per mille, at most", level);
    let kept = random.below(40);
    let keys: Vec<Vec<u8>> = content.keys().filter(|_| random.below(100) >= kept).cloned().collect();
    let (refusals, longest) = delete(db, content, &keys, random)?;
    run.add("deletes", keys.len() as u64);
    run.add("deletes that had to be tried again", refusals);
    run.max("longest wait for a delete, ms", longest.as_millis() as u64);
    let began = Instant::now();
    let value = random.bytes(100);
    while let Err(error) = db.put("first", &value) {
        expect_full(&error)?;
        if began.elapsed() > WAIT_MAX {
            Err(format!(
                "puts are refused {WAIT_MAX:?} after deletes of {} keys: {error}; {:?}",
                keys.len(),
                db.stats()
            ))?;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    content.insert(b"first".to_vec(), value);
    run.max("longest wait for a put after deletes, ms", began.elapsed().as_millis() as u64);
    compare(db, content)
}

/// Puts until they are refused for a while; returns how many were accepted.
fn fill(db: &Db, content: &mut Content, random: &mut Random, disk_bytes: u64) -> Outcome<u64> {
    let (mut puts, mut refusals, mut in_a_row) = (0, 0, 0);
    // More of them than fit, by a factor of 1.2 to 4.
    let keys = (disk_bytes / 500).max(1000) * (12 + random.below(28)) / 10;
    while in_a_row < REFUSALS && refusals < 10 * REFUSALS {
        let key = format!("{:07}", random.below(keys)).into_bytes();
        let length = if random.one_in(50) { random.below(30_000) } else { 20 + random.below(1000) };
        let value = random.bytes(length);
        match db.put(&key, &value) {
            Ok(()) => {
                content.insert(key, value);
                puts += 1;
                in_a_row = 0;
            }
            Err(error) => {
                expect_full(&error)?;
                refusals += 1;
                in_a_row += 1;
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
    Ok(puts)
}

/// Deletes keys, again where that is refused; returns how often it was, and the longest wait.
fn delete(db: &Db, content: &mut Content, keys: &[Vec<u8>], random: &mut Random) -> Outcome<(u64, Duration)> {
    let (mut refusals, mut longest) = (0, Duration::ZERO);
    let mut rest = keys;
    while !rest.is_empty() {
        let (some, others) = rest.split_at(rest.len().min(1 + random.below(50) as usize));
        let mut batch = Batch::new();
        some.iter().for_each(|key| {
            batch.delete(key);
        });
        let began = Instant::now();
        while let Err(error) = db.write(&batch) {
            expect_full(&error)?;
            if began.elapsed() > WAIT_MAX {
                Err(format!("deletes are refused for {WAIT_MAX:?}: {error}; {:?}", db.stats()))?;
            }
            refusals += 1;
            std::thread::sleep(Duration::from_millis(5));
        }
        longest = longest.max(began.elapsed());
        some.iter().for_each(|key| {
            content.remove(key);
        });
        rest = others;
    }
    Ok((refusals, longest))
}

fn expect_full(error: &Error) -> Outcome {
    if error.is_storage_full() { Ok(()) } else { Err(Stop::Failed(format!("not only full: {error}"))) }
}

fn compare(db: &Db, content: &Content) -> Outcome {
    let mut found = Content::new();
    for entry in db.scan(..) {
        let (key, value) = entry.map_err(|error| format!("scan: {error}"))?;
        found.insert(key.to_vec(), value.to_vec());
    }
    if found != *content { Err(difference("what is there", content, &found))? } else { Ok(()) }
}
