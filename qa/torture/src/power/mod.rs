//! `power`: a file system on a loop device loses its power while a child writes; after it is
//! mounted again, everything is there that was synced before.
//!
//! ```text
//! child   ──writes, syncs, flushes──────┬─ EIO
//! parent              shutdown begins ──┴─ ends ─► umount ─► mount ─► open ─► scan ─► verify
//! ```
//!
//! * Every commit that was acknowledged with a sync before the shutdown began is there, with all
//!   commits that had returned before it began; so is what `Db::sync` covered.
//! * What is there beyond is a prefix of the order of commits, batches whole.
//!
//! The device keeps whatever reached it: caches of drives that reorder or lose writes are not part
//! of this. The simulator of the engine's own tests has them.
//!
//! `fdatasync` is the same without an engine: see [`control`].

pub(crate) mod control;
mod shutdown;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use tamarack_testing::Random;

use crate::child::{Storage, Task};
use crate::clock::now_ns;
use crate::design::Design;
use crate::mount::{Mount, run_program};
use crate::run::{Outcome, Run, Stop};
use crate::told::{Running, Told};
use crate::writers::Writers;
use shutdown::{MANNERS, Manner, shut_down};

/// Losses of one file system, before the next one is made.
const LOSSES: u64 = 8;

/// Size of the file system, in MiB; the file is sparse.
const DISK_MIB: u64 = 320;

/// A child notices the loss by its next write.
const END_MAX: Duration = Duration::from_secs(20);

/// Runs the command.
pub(crate) fn run(run: Run) -> ExitCode {
    run.rounds(|run, dir| {
        let disk = Disk::new(run.seed(), dir)?;
        one_disk(run, dir, &disk)
    })
}

/// A file with a file system in it.
struct Disk {
    kind: &'static str,
    image: PathBuf,
    path: PathBuf,
}

impl Disk {
    /// Makes a file system: ext4 or xfs in turn, as far as the machine has them.
    fn new(seed: u64, dir: &Path) -> Outcome<Self> {
        let can_make = |kind: &&str| Command::new(format!("mkfs.{kind}")).arg("-V").output().is_ok();
        let kinds: Vec<&'static str> = ["ext4", "xfs"].into_iter().filter(can_make).collect();
        if kinds.is_empty() {
            return Err(Stop::Skipped("there is neither mkfs.ext4 nor mkfs.xfs".to_owned()));
        }
        let kind = kinds[(seed % kinds.len() as u64) as usize];
        let disk = Self { kind, image: dir.join("image"), path: dir.join("disk") };
        let image = fs::File::create(&disk.image).and_then(|file| file.set_len(DISK_MIB << 20));
        image.map_err(|error| format!("{}: {error}", disk.image.display()))?;
        let force = if kind == "ext4" { "-F" } else { "-f" };
        run_program(Command::new(format!("mkfs.{kind}")).args(["-q", force]).arg(&disk.image))?;
        // Only a first mount can show that this machine lets us.
        disk.mount().map(drop).map_err(|stop| match stop {
            Stop::Failed(why) => Stop::Skipped(format!("a loop device cannot be mounted; it takes root: {why}")),
            skipped => skipped,
        })?;
        Ok(disk)
    }

    fn mount(&self) -> Outcome<Mount> {
        Mount::image(&self.path, &self.image)
    }
}

fn one_disk(run: &mut Run, dir: &Path, disk: &Disk) -> Outcome {
    let mut random = Random::new(run.seed());
    let mut writers = Writers::random(run.seed(), &mut random, &[2, 5, 30]);
    for _ in 0..LOSSES {
        let manner = *random.pick(MANNERS);
        let (told, loss) = lose_power(dir, disk, &writers, &mut random, manner)?;
        let mounted = disk.mount()?;
        let checked = check(run, &mounted, &mut writers, &told, loss, &mut random);
        checked.map_err(|stop| stop.within(&format!("{} {manner:?}", disk.kind)))?;
        run.add(&format!("losses of {}", disk.kind), 1);
        drop(mounted);
        run.progress();
        if !run.has_time() && run.args.count.is_none() {
            break;
        }
    }
    Ok(())
}

/// When the shutdown began and ended.
type Loss = (u64, u64);

/// Lets a child write, and shuts the file system down.
fn lose_power(
    dir: &Path,
    disk: &Disk,
    writers: &Writers,
    random: &mut Random,
    manner: Manner,
) -> Outcome<(Told, Loss)> {
    let mounted = disk.mount()?;
    let task = Task {
        design_seed: random.next(),
        operator_seed: random.next(),
        streams: writers.streams.clone(),
        from: writers.reached.clone(),
        storage: Storage::MayFail,
        is_small_disk: false,
    };
    let mut child = Running::start(mounted.path(), &dir.join("stderr"), &task)?;
    std::thread::sleep(Duration::from_micros(random.below(1_000_000)));
    let begin = now_ns();
    shut_down(mounted.path(), manner)?;
    let loss = (begin, now_ns());
    let waiting = Instant::now();
    while !child.has_ended() && waiting.elapsed() < END_MAX {
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill()?;
    let (status, told) = child.wait()?;
    if !told.wrong.is_empty() || status.code() != Some(0) {
        let errors = fs::read_to_string(dir.join("stderr")).unwrap_or_default();
        Err(format!("a child ended with {status}: {:?} {:?} {errors}", told.wrong, told.errors))?;
    }
    Ok((told, loss))
}

/// Checks what is there after the loss.
fn check(
    run: &mut Run,
    mounted: &Mount,
    writers: &mut Writers,
    told: &Told,
    loss: Loss,
    random: &mut Random,
) -> Outcome {
    let count = told.from.len();
    // All that had returned before a sync began that ended before the loss.
    let syncs = told.syncs.iter().filter(|(_, end)| *end < loss.0).map(|(begin, _)| *begin);
    let acks = told.acks.iter().flatten().filter(|ack| ack.is_synced && ack.end < loss.0).map(|ack| ack.begin);
    let moment = syncs.chain(acks).max().unwrap_or(0);
    let required: Vec<u64> = (0..count)
        .map(|writer| {
            let own = told.acks[writer].iter().rposition(|ack| ack.is_synced && ack.end < loss.0);
            let own = own.map_or(0, |index| told.from[writer] + index as u64 + 1);
            told.acked_before(writer, moment).max(own)
        })
        .collect();
    let design = Design::random(random);
    let db = design.options().open(mounted.path().join("db")).map_err(|error| format!("open: {error}; {design}"))?;
    let found = writers.read(&db)?;
    let prefixes = writers.check(&found, told, &required)?;
    let report = db.verify(&mut |_, _| {}).map_err(|error| format!("verify: {error}"))?;
    if !report.is_ok() {
        Err(format!("verify: {:?}", report.problems))?;
    }
    run.add("commits acknowledged", told.acks.iter().map(|acks| acks.len() as u64).sum());
    run.add(
        "of these required, synced before the loss began",
        required.iter().zip(&told.from).map(|(r, f)| r - f).sum(),
    );
    for (writer, prefix) in prefixes.iter().enumerate() {
        run.add("lost, not synced", told.acked(writer).saturating_sub(prefix.most));
        for (index, ack) in told.acks[writer].iter().enumerate().filter(|(_, ack)| ack.is_synced && ack.end >= loss.0) {
            let is_there = told.from[writer] + (index as u64) < prefix.most;
            run.add("synced, acknowledged while or after it began", 1);
            if !is_there {
                run.add("of these missing", 1);
                run.max("latest of these after it had ended, µs", ack.end.saturating_sub(loss.1) / 1000);
            }
        }
    }
    run.add("entries recovered from the WAL", db.recovery().entries_replayed);
    run.add("torn ends of files", db.recovery().dropped.len() as u64);
    db.close().map_err(|error| format!("close: {error}"))?;
    remove_checkpoints(mounted.path())
}

/// Complete ones and others: nothing was promised of them before they returned.
fn remove_checkpoints(dir: &Path) -> Outcome {
    for entry in fs::read_dir(dir).map_err(|error| error.to_string())? {
        let path = entry.map_err(|error| error.to_string())?.path();
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("checkpoint-")) {
            fs::remove_dir_all(&path).map_err(|error| error.to_string())?;
        }
    }
    Ok(())
}
