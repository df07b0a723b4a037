//! Trials: which tests reach which mutants, and which mutants survive them.
//!
//! First every test runs once without a mutant, which tells its time and the mutants that it
//! reaches. Then each mutant runs with the tests that reach it, the fastest first, until one fails.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::compile::Program;
use crate::process::{self, End};

/// A test, as it is without a mutant.
#[derive(Debug)]
pub(crate) struct Test {
    program: Program,
    pub(crate) name: String,
    pub(crate) time: Duration,
    reached: BTreeSet<u32>,
}

impl Test {
    /// The time that it may take with a mutant.
    fn limit(&self) -> Duration {
        self.time * 5 + Duration::from_secs(10)
    }
}

/// What became of a mutant.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Fate {
    /// The compiler rejects it.
    NotViable,
    /// No test reaches it, so none was run.
    NotReached,
    /// So many tests reach it, and all pass.
    Survived(usize),
    /// This test fails.
    Killed(String),
    /// This test takes more than five times its time and ten seconds.
    TimedOut(String),
}

impl Fate {
    pub(crate) fn is_killed(&self) -> bool {
        matches!(self, Self::Killed(_) | Self::TimedOut(_))
    }
}

/// Runs every test without a mutant. Returns those that take at most `slowest`, the fastest first,
/// and the names of the others.
///
/// # Errors
/// If a test fails: then it says nothing about mutants.
pub(crate) fn without_mutant(
    programs: &[Program],
    dir: &Path,
    slowest: Duration,
    jobs: usize,
) -> Result<(Vec<Test>, Vec<String>), String> {
    let mut all = Vec::new();
    for program in programs {
        all.extend(process::list(program)?.into_iter().map(|name| (program, name)));
    }
    let (tests, slow) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    in_parallel(jobs, all.len(), |job, index| {
        let (program, name) = &all[index];
        let reached = dir.join(format!("reached-{job}"));
        let _ = fs::remove_file(&reached); // of the test before
        let began = Instant::now();
        let end = process::run(program, name, "record", &reached, &scratch(dir, job), slowest)?;
        let time = began.elapsed();
        match end {
            End::Failed => return Err(format!("test {name} fails without a mutant")),
            End::TimedOut => slow.lock().expect("no panic").push(name.clone()),
            End::Passed => {
                let numbers = fs::read_to_string(&reached).unwrap_or_default(); // no mutant was reached
                let reached = numbers.lines().map(|line| line.parse().expect("a number")).collect();
                let test = Test { program: (*program).clone(), name: name.clone(), time, reached };
                tests.lock().expect("no panic").push(test);
            }
        }
        Ok(())
    })?;
    let mut tests = tests.into_inner().expect("no panic");
    tests.sort_by_key(|test| test.time);
    Ok((tests, slow.into_inner().expect("no panic")))
}

/// Runs these mutants. `after` is called after each, with the number of those that have ended.
pub(crate) fn with_mutants(
    mutants: &[u32],
    tests: &[Test],
    dir: &Path,
    jobs: usize,
    after: impl Fn(usize, u32, &Fate) + Sync,
) -> Result<Vec<(u32, Fate)>, String> {
    let fates = Mutex::new(Vec::new());
    in_parallel(jobs, mutants.len(), |job, index| {
        let number = mutants[index];
        let fate = fate(number, tests, dir, job)?;
        let mut fates = fates.lock().expect("no panic");
        fates.push((number, fate.clone()));
        after(fates.len(), number, &fate);
        Ok(())
    })?;
    let mut fates = fates.into_inner().expect("no panic");
    fates.sort_by_key(|(number, _)| *number);
    Ok(fates)
}

fn fate(number: u32, tests: &[Test], dir: &Path, job: usize) -> Result<Fate, String> {
    let mut count = 0;
    for test in tests.iter().filter(|test| test.reached.contains(&number)) {
        count += 1;
        let unused = dir.join("reached");
        match process::run(&test.program, &test.name, &number.to_string(), &unused, &scratch(dir, job), test.limit())? {
            End::Passed => {}
            End::Failed => return Ok(Fate::Killed(test.name.clone())),
            End::TimedOut => return Ok(Fate::TimedOut(test.name.clone())),
        }
    }
    Ok(if count == 0 { Fate::NotReached } else { Fate::Survived(count) })
}

fn scratch(dir: &Path, job: usize) -> PathBuf {
    dir.join(format!("tmp-{job}"))
}

/// Calls `each(job, index)` for all indices below `count`, in `jobs` threads; ends at an error.
fn in_parallel(
    jobs: usize,
    count: usize,
    each: impl Fn(usize, usize) -> Result<(), String> + Sync,
) -> Result<(), String> {
    let next = AtomicUsize::new(0);
    let (next, each) = (&next, &each);
    let one = move |job| {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= count {
                return Ok(());
            }
            each(job, index).inspect_err(|_| next.store(count, Ordering::Relaxed))?;
        }
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..jobs).map(|job| scope.spawn(move || one(job))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })
}
