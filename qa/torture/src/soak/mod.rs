//! `soak`: one database on a small file system that its live data fill to four fifths, written to
//! without pause; killed again and again; with figures over time, none of which may grow.
//!
//! ```text
//! child ──writes, flushes, compactions … ──✗ ──────────✗ ──────────✗
//! parent  samples every half second        └ verify, scan   …        ─► table, plot, verdict
//! ```
//!
//! In the lives of every other child, calls of the operating system fail at random: the child ends
//! by itself then, if the error is one that ends writing, and the parent finds what a kill leaves.
//!
//! Four fifths of what puts may take: the file system without the reserve. Writes that a full disk
//! refuses are tried again. The samples are kept beside the run's directory, as lines with commas
//! and as a plot.

mod plot;
mod sample;

use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use tamarack_testing::Random;

use crate::child::{Storage, Task};
use crate::clock::now_ns;
use crate::damage::harm::copy;
use crate::kill::check;
use crate::mount::{Mount, on_tmpfs};
use crate::run::{Outcome, Run};
use crate::stream::Stream;
use crate::told::{Running, Told};
use crate::writers::Writers;
use sample::{COLUMNS, Sample, add_latencies, median, table};

/// Size of the file system in MiB, unless `--size` says otherwise.
const DISK_MIB: u64 = 64;

const WRITERS: u64 = 4;

/// Bytes on storage for each key of a stream, on average: three quarters of the keys have a value.
const BYTES_PER_KEY: u64 = 145;

const SAMPLE_EVERY: Duration = Duration::from_millis(500);

/// How long a child lives at least and at most, in seconds. About half of the children end by a
/// failed call before; an hour has more than 200 kills.
const LIFE: (u64, u64) = (3, 17);

/// A run of fewer samples shows its figures and judges none.
const JUDGED_SAMPLES: usize = 1000;

/// By which factor the last quarter may exceed the second one.
const GROWTH_MAX: f64 = 1.3;

/// Runs the command.
pub(crate) fn run(run: Run) -> ExitCode {
    on_tmpfs(run, DISK_MIB, one_database)
}

/// What a failure leaves goes with the file system, so the database is copied beside it, and the
/// samples are written all the same.
fn one_database(run: &mut Run, dir: &Path, disk: &Mount, mib: u64) -> Outcome {
    let (began_ns, mut samples) = (now_ns(), Vec::new());
    let outcome = lives(run, dir, disk, mib, &mut samples);
    if outcome.is_err()
        && let Err(error) = copy(&disk.path().join("db"), &dir.join("db"))
    {
        eprintln!("the database cannot be kept: {error}");
    }
    let written = write_samples(run, &samples, began_ns);
    if let (Err(_), Err(error)) = (&outcome, &written) {
        eprintln!("the samples cannot be written: {error:?}");
    }
    outcome.and(written)?;
    report(run, &samples)
}

fn lives(run: &mut Run, dir: &Path, disk: &Mount, mib: u64, samples: &mut Vec<Sample>) -> Outcome {
    let mut random = Random::new(run.seed());
    // Puts leave about a fifth to the reserve.
    let live_bytes = (mib << 20) * 4 / 5 * 4 / 5;
    let stream =
        |writer| Stream { seed: run.args.seed, writer, keys: live_bytes / BYTES_PER_KEY / WRITERS, synced_one_in: 50 };
    let mut writers = Writers::new((0..WRITERS).map(stream).collect());
    let design_seed = random.next();
    while run.has_time() {
        let life = Duration::from_millis(1000 * LIFE.0 + random.below(1000 * (LIFE.1 - LIFE.0)));
        let life = life.min(run.time_left());
        let operator_seed = random.next();
        let storage = if random.one_in(2) { Storage::FailsAtRandom } else { Storage::Works };
        let task = Task {
            design_seed,
            operator_seed,
            streams: writers.streams.clone(),
            from: writers.reached.clone(),
            storage,
            is_small_disk: true,
        };
        let (told, some) = live(dir, disk, &task, life)?;
        samples.extend(some);
        let has_failed = !told.errors.is_empty();
        run.add(if has_failed { "ended by a failed call" } else { "kills" }, 1);
        run.add("calls of the system that failed", told.faults);
        run.add("commits acknowledged", told.acks.iter().map(|acks| acks.len() as u64).sum());
        run.add("refused by the full disk, tried again", told.refused);
        run.add("other calls", told.calls);
        check(run, disk.path(), &mut writers, &told, &mut random)?;
        run.progress();
    }
    Ok(())
}

/// The life of one child, and samples of it.
fn live(dir: &Path, disk: &Mount, task: &Task, life: Duration) -> Outcome<(Told, Vec<Sample>)> {
    let mut child = Running::start(disk.path(), &dir.join("stderr"), task)?;
    let (began, mut samples) = (Instant::now(), Vec::new());
    while began.elapsed() < life && !child.has_ended() {
        std::thread::sleep(SAMPLE_EVERY);
        samples.extend(Sample::of(child.id(), disk.path()));
    }
    child.kill()?;
    let (status, told) = child.wait()?;
    // Only with the error of a call that failed, never with one of the database's own finding.
    let is_of_system = |error: &String| error.contains("(os error ");
    let may_end = task.storage == Storage::FailsAtRandom && status.success() && told.errors.iter().all(is_of_system);
    if !told.wrong.is_empty() || !may_end && (!told.errors.is_empty() || status.code().is_some()) {
        let errors = fs::read_to_string(dir.join("stderr")).unwrap_or_default();
        Err(format!("a child ended by itself, {status}: {:?} {:?} {errors}", told.wrong, told.errors))?;
    }
    add_latencies(&mut samples, &told);
    Ok((told, samples))
}

/// Writes table and plot.
fn write_samples(run: &mut Run, samples: &[Sample], began_ns: u64) -> Outcome {
    run.add("samples", samples.len() as u64);
    for (ending, text) in [("csv", table(samples, began_ns)), ("svg", plot::plot(samples, began_ns))] {
        let path = run.args.dir.join(format!("soak-{}.{ending}", run.args.seed));
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        eprintln!("{}", path.display());
    }
    Ok(())
}

/// Compares the last quarter with the second one.
fn report(run: &mut Run, samples: &[Sample]) -> Outcome {
    let quarter = samples.len() / 4;
    for (name, value) in COLUMNS {
        let [early, late] = [1, 3].map(|n| median(&samples[n * quarter..(n + 1) * quarter], *value));
        run.max(&format!("{name}: second quarter"), early);
        run.max(&format!("{name}: last quarter"), late);
        let is_judged = samples.len() >= JUDGED_SAMPLES && *name != "commits";
        if is_judged && late as f64 > early as f64 * GROWTH_MAX {
            Err(format!("{name} grows: {early} in the second quarter, {late} in the last"))?;
        }
    }
    Ok(())
}
