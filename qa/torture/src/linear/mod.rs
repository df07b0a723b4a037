//! `linear`: eight threads call an open database while an operator changes policy, filter and tree;
//! what they got must be what one thread could have got.
//!
//! | module | what it is |
//! |---|---|
//! | `history` | what was called when, and what came back |
//! | `checker` | whether some order of the calls explains all that came back |
//!
//! Few keys, so that threads meet; a memtable of some kilobytes, so that flushes and compactions
//! run all the time. Of a scan and a snapshot only the call that makes it counts as its time; what
//! it reads, later, must be as of then.

mod checker;
mod history;

use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tamarack::{Batch, Db, Error, Scan};
use tamarack_testing::Random;

use crate::design::Design;
use crate::disturb::disturb;
use crate::run::{Outcome, Run, Stop};
use checker::Complaint;
use history::{Act, Call, Versioned};

const THREADS: usize = 8;

/// How many keys the threads share.
const KEYS: u16 = 48;

/// Calls of one history, unless `--size` says otherwise.
const CALLS: u64 = 100_000;

/// Runs the command.
pub(crate) fn run(run: Run) -> ExitCode {
    run.rounds(one_history)
}

fn one_history(run: &mut Run, dir: &Path) -> Outcome {
    let mut random = Random::new(run.seed());
    let design = Design::random(&mut random);
    let calls_each = run.args.size.unwrap_or(CALLS) / THREADS as u64;
    let db = design.options().open(dir.join("db")).map_err(|error| format!("open: {error}; {design}"))?;
    let (calls, disturbances) = record(&db, &mut random, calls_each).map_err(|what| format!("{what}; {design}"))?;
    drop(db);
    let recorded = run.elapsed();
    let effort = checker::check(&calls, usize::from(KEYS)).map_err(|complaint| {
        let file = dir.join("history.txt");
        let kept = fs::write(&file, history::text(&calls)).map_or_else(|error| error.to_string(), |()| String::new());
        let (what, index) = match complaint {
            Complaint::Violation(index) => ("no order of the calls explains", index),
            Complaint::TooManyConfigurations(index) => ("too many calls in progress to explain", index),
        };
        Stop::Failed(format!("{what} {:?}; {} {kept}; {design}", calls[index], file.display()))
    })?;
    run.add("histories", 1);
    run.add("calls", calls.len() as u64);
    run.add("flushes, compactions, changes of design", disturbances);
    run.add("of these scans and snapshots", calls.iter().filter(|call| is_large(&call.act)).count() as u64);
    run.add(
        "batches",
        calls.iter().filter(|call| matches!(&call.act, Act::Write(all) if all.len() > 1)).count() as u64,
    );
    run.add("milliseconds of checking", (run.elapsed() - recorded).as_millis() as u64);
    run.max("configurations at most", effort.configurations_max as u64);
    Ok(())
}

fn is_large(act: &Act) -> bool {
    matches!(act, Act::Read(all) if all.len() == usize::from(KEYS))
}

/// Lets all threads make their calls beside an operator; returns the history, and how many calls
/// the operator made.
fn record(db: &Db, random: &mut Random, calls_each: u64) -> Result<(Vec<Call>, u64), String> {
    let (ticks, is_over, start) = (AtomicU64::new(0), AtomicBool::new(false), Barrier::new(THREADS + 1));
    let seeds: Vec<u64> = (0..=THREADS).map(|_| random.next()).collect();
    std::thread::scope(|scope| {
        let (ticks, is_over, start) = (&ticks, &is_over, &start);
        let callers: Vec<_> = (0..THREADS)
            .map(|thread| {
                let random = Random::new(seeds[thread]);
                let caller = Caller { db, thread, random, ticks, versions: 0, calls: Vec::new() };
                scope.spawn(move || {
                    start.wait();
                    caller.call_often(calls_each)
                })
            })
            .collect();
        let mut random = Random::new(seeds[THREADS]);
        let operator = scope.spawn(move || {
            let mut count = 0;
            start.wait();
            while !is_over.load(Ordering::Relaxed) {
                disturb(db, &mut random).map_err(|error| format!("operator: {error}"))?;
                count += 1;
            }
            Ok::<u64, String>(count)
        });
        let all: Vec<_> = callers.into_iter().map(|caller| caller.join().expect("callers do not panic")).collect();
        is_over.store(true, Ordering::Relaxed);
        let disturbances = operator.join().expect("the operator does not panic")?;
        let calls = all.into_iter().collect::<Result<Vec<_>, String>>()?.concat();
        Ok((calls, disturbances))
    })
}

/// One thread that makes random calls and records them.
struct Caller<'a> {
    db: &'a Db,
    thread: usize,
    random: Random,
    ticks: &'a AtomicU64,
    /// How many values it has written.
    versions: u32,
    calls: Vec<Call>,
}

impl Caller<'_> {
    fn call_often(mut self, count: u64) -> Result<Vec<Call>, String> {
        for _ in 0..count {
            self.call().map_err(|error| error.to_string())??;
        }
        Ok(self.calls)
    }

    fn tick(&self) -> u64 {
        self.ticks.fetch_add(1, Ordering::SeqCst)
    }

    fn call(&mut self) -> Result<Result<(), String>, Error> {
        let key = self.random.below(u64::from(KEYS)) as u16;
        match self.random.below(100) {
            0..30 => {
                let begin = self.tick();
                let value = self.db.get(name(key))?;
                let end = self.tick();
                Ok(version(key, value.as_deref()).map(|version| self.add(begin, end, Act::Read(vec![(key, version)]))))
            }
            30..60 => {
                let version = self.next_version();
                let value = self.value(key, version);
                let begin = self.tick();
                self.db.put(name(key), value)?;
                let end = self.tick();
                self.add(begin, end, Act::Write(vec![(key, version)]));
                Ok(Ok(()))
            }
            60..66 => {
                let begin = self.tick();
                self.db.delete(name(key))?;
                let end = self.tick();
                self.add(begin, end, Act::Write(vec![(key, 0)]));
                Ok(Ok(()))
            }
            66..80 => self.write_batch(),
            80..90 => self.get_several(),
            _ => self.read_all(),
        }
    }

    fn write_batch(&mut self) -> Result<Result<(), String>, Error> {
        let mut batch = Batch::new();
        let mut written: Vec<Versioned> = Vec::new();
        for _ in 0..2 + self.random.below(5) {
            let key = self.random.below(u64::from(KEYS)) as u16;
            if self.random.one_in(5) {
                batch.delete(name(key));
                written.push((key, 0));
            } else {
                let version = self.next_version();
                batch.put(name(key), self.value(key, version));
                written.push((key, version));
            }
        }
        let begin = self.tick();
        self.db.write(&batch)?;
        let end = self.tick();
        self.add(begin, end, Act::Write(written));
        Ok(Ok(()))
    }

    fn get_several(&mut self) -> Result<Result<(), String>, Error> {
        let keys: Vec<u16> = (0..2 + self.random.below(7)).map(|_| self.random.below(u64::from(KEYS)) as u16).collect();
        let names: Vec<String> = keys.iter().map(|key| name(*key)).collect();
        let begin = self.tick();
        let values = self.db.multi_get(&names)?;
        let end = self.tick();
        let versions = keys.iter().zip(&values).map(|(key, value)| Ok((*key, version(*key, value.as_deref())?)));
        Ok(versions.collect::<Result<_, String>>().map(|versions| self.add(begin, end, Act::Read(versions))))
    }

    /// A scan of everything, in either direction, or a snapshot that is read some time later.
    fn read_all(&mut self) -> Result<Result<(), String>, Error> {
        let begin = self.tick();
        let read = if self.random.one_in(2) {
            let scan = self.db.scan(..);
            let end = self.tick();
            scan_versions(scan, self.random.one_in(2))?.map(|versions| (end, versions))
        } else {
            let snapshot = self.db.snapshot();
            let end = self.tick();
            if self.random.one_in(4) {
                self.db.flush()?;
            }
            if self.random.one_in(2) {
                scan_versions(snapshot.scan(..), self.random.one_in(2))?.map(|versions| (end, versions))
            } else {
                let mut versions = Vec::new();
                for key in 0..KEYS {
                    versions.push((key, snapshot.get(name(key))?));
                }
                let versions = versions.iter().map(|(key, value)| Ok((*key, version(*key, value.as_deref())?)));
                versions.collect::<Result<_, String>>().map(|versions| (end, versions))
            }
        };
        Ok(read.map(|(end, versions)| self.add(begin, end, Act::Read(versions))))
    }

    fn add(&mut self, begin: u64, end: u64, act: Act) {
        self.calls.push(Call { thread: self.thread, begin, end, act });
    }

    /// A version that nobody else writes.
    fn next_version(&mut self) -> u32 {
        self.versions += 1;
        ((self.thread as u32) << 28) | self.versions
    }

    fn value(&mut self, key: u16, version: u32) -> String {
        let length = if self.random.one_in(50) { self.random.below(4000) } else { self.random.below(80) };
        format!("{key} {version} {}", ".".repeat(length as usize))
    }
}

fn name(key: u16) -> String {
    format!("key {key:02}")
}

/// The version that a value of `key` has; 0 if there is none.
fn version(key: u16, value: Option<&[u8]>) -> Result<u32, String> {
    let Some(value) = value else { return Ok(0) };
    let text = String::from_utf8_lossy(value);
    let mut words = text.split(' ');
    let of_key = words.next().and_then(|word| word.parse::<u16>().ok());
    let version = words.next().and_then(|word| word.parse::<u32>().ok());
    match version {
        Some(version) if of_key == Some(key) => Ok(version),
        _ => Err(format!("the value of key {key} was never written: {text}")),
    }
}

/// The versions of all keys that a scan finds.
fn scan_versions(scan: Scan, is_reverse: bool) -> Result<Result<Vec<Versioned>, String>, Error> {
    let mut versions: Vec<Versioned> = (0..KEYS).map(|key| (key, 0)).collect();
    let entries: Box<dyn Iterator<Item = _>> = if is_reverse { Box::new(scan.rev()) } else { Box::new(scan) };
    for entry in entries {
        let (found, value) = entry?;
        let number = str::from_utf8(&found).ok().and_then(|text| text.strip_prefix("key ")?.parse::<u16>().ok());
        let Some(key) = number.filter(|key| *key < KEYS) else {
            return Ok(Err(format!("the key {} was never written", found.escape_ascii())));
        };
        match version(key, Some(&value)) {
            Ok(version) => versions[usize::from(key)].1 = version,
            Err(what) => return Ok(Err(what)),
        }
    }
    Ok(Ok(versions))
}
