//! `fdatasync`: what the kernel answers when a file system is shut down in mid-call. No engine is
//! part of this.
//!
//! A child writes blocks with their number in them to files of three kinds, calls `fdatasync` after
//! each, and tells the answer with its times. After the file system was shut down and mounted
//! again, each block that was answered with 0 is looked for.
//!
//! | file | what a write needs besides its data |
//! |---|---|
//! | `appended` | blocks and a length, in the journal |
//! | `written` | nothing: its blocks were written and synced before |
//! | `allocated` | that its blocks, allocated before, are marked as written, in the journal |
//!
//! A lost block is counted, by its kind and by whether the call had returned before the shutdown
//! began, during it, or after it had ended. Only the first of these is a failure.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio, exit};
use std::time::Duration;

use rustix::fs::{FallocateFlags, fallocate, fdatasync};
use tamarack_testing::Random;

use super::shutdown::{MANNERS, shut_down};
use super::{Disk, LOSSES};
use crate::args::Args;
use crate::clock::now_ns;
use crate::run::{Outcome, Run};

const BLOCK_BYTES: u64 = 4096;

/// Blocks of a file that are written, and then again from the first on.
const BLOCKS: u64 = 4096;

const KINDS: &[&str] = &["appended", "written", "allocated"];

/// Runs the command.
pub(crate) fn run(run: Run) -> ExitCode {
    run.rounds(|run, dir| {
        let disk = Disk::new(run.seed(), dir)?;
        let mut random = Random::new(run.seed());
        for _ in 0..LOSSES {
            one_loss(run, &disk, &mut random)?;
            run.progress();
            if !run.has_time() && run.args.count.is_none() {
                break;
            }
        }
        Ok(())
    })
}

/// The child: one thread for each kind of file, until a call fails.
pub(crate) fn child(args: &Args) -> ExitCode {
    std::thread::scope(|scope| {
        for (kind, name) in KINDS.iter().enumerate() {
            let path = args.dir.join(name);
            scope.spawn(move || {
                if let Err(error) = write(&path, kind) {
                    println!("E {kind} {error}");
                }
            });
        }
    });
    ExitCode::SUCCESS
}

fn write(path: &Path, kind: usize) -> std::io::Result<()> {
    let file = File::create(path)?;
    match KINDS[kind] {
        "written" => file.write_all_at(&vec![0; (BLOCKS * BLOCK_BYTES) as usize], 0)?,
        "allocated" => fallocate(&file, FallocateFlags::empty(), 0, BLOCKS * BLOCK_BYTES)?,
        _ => {}
    }
    file.sync_all()?;
    File::open(path.parent().expect("a file has a directory"))?.sync_all()?;
    for number in 1..=BLOCKS {
        let mut block = vec![number as u8; BLOCK_BYTES as usize];
        block[..8].copy_from_slice(&number.to_le_bytes());
        file.write_all_at(&block, (number - 1) * BLOCK_BYTES)?;
        let begin = now_ns();
        let answer = fdatasync(&file).map_or_else(|error| error.raw_os_error(), |()| 0);
        let line = format!("F {kind} {number} {begin} {} {answer}\n", now_ns());
        if std::io::stdout().lock().write_all(line.as_bytes()).is_err() {
            exit(0);
        }
        // What a later call answers is part of the question, so an error does not end this.
    }
    Ok(())
}

/// One answer of `fdatasync`.
struct Answer {
    kind: usize,
    number: u64,
    begin: u64,
    end: u64,
    code: i32,
}

fn one_loss(run: &mut Run, disk: &Disk, random: &mut Random) -> Outcome {
    let mounted = disk.mount()?;
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(program);
    command.args(["control", "--dir"]).arg(mounted.path()).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("no child: {error}"))?;
    let output = child.stdout.take().expect("it is piped");
    let listener = std::thread::spawn(move || BufReader::new(output).lines().collect::<Result<Vec<_>, _>>());
    std::thread::sleep(Duration::from_micros(50_000 + random.below(600_000)));
    let begin = now_ns();
    shut_down(mounted.path(), *random.pick(MANNERS))?;
    let end = now_ns();
    std::thread::sleep(Duration::from_millis(20));
    child.kill().and_then(|()| child.wait()).map_err(|error| format!("kill: {error}"))?;
    let lines = listener.join().map_err(|_| "the listener panicked")?.map_err(|error| error.to_string())?;
    drop(mounted);
    let answers: Vec<Answer> = lines.iter().filter_map(|line| answer(line)).collect();
    let mounted = disk.mount()?;
    run.add(&format!("losses of {}", disk.kind), 1);
    for (kind, name) in KINDS.iter().enumerate() {
        // Before a file was made and synced there are no answers.
        let bytes = fs::read(mounted.path().join(name)).unwrap_or_default();
        for answer in answers.iter().filter(|answer| answer.kind == kind) {
            judge(run, name, answer, &bytes, (begin, end))?;
        }
    }
    for name in KINDS {
        if let Err(error) = fs::remove_file(mounted.path().join(name))
            && error.kind() != std::io::ErrorKind::NotFound
        {
            Err(format!("{name}: {error}"))?;
        }
    }
    Ok(())
}

fn answer(line: &str) -> Option<Answer> {
    let numbers: Vec<i64> = line.strip_prefix("F ")?.split(' ').map(|word| word.parse().ok()).collect::<Option<_>>()?;
    let [kind, number, begin, end, code] = numbers[..] else { return None };
    Some(Answer { kind: kind as usize, number: number as u64, begin: begin as u64, end: end as u64, code: code as i32 })
}

fn judge(run: &mut Run, name: &str, answer: &Answer, bytes: &[u8], (begin, end): (u64, u64)) -> Outcome {
    let at = ((answer.number - 1) * BLOCK_BYTES) as usize;
    let block = bytes.get(at..at + BLOCK_BYTES as usize);
    let is_there = block.is_some_and(|block| {
        block[..8] == answer.number.to_le_bytes() && block[8..].iter().all(|byte| *byte == answer.number as u8)
    });
    let when = if answer.end < begin {
        "returned before it"
    } else if answer.begin > end {
        "called after it"
    } else if answer.end > end {
        "returned after it"
    } else {
        "returned during it"
    };
    let what = match (answer.code, is_there) {
        (0, true) => "0",
        (0, false) => "0, LOST",
        _ => "an error",
    };
    run.add(&format!("{name}: {when}: {what}"), 1);
    if what == "0, LOST" {
        run.max(&format!("{name}: {when}: lost, latest after it ended, µs"), answer.end.saturating_sub(end) / 1000);
        if when == "returned before it" {
            Err(format!("block {} of {name} was synced {} ns before the shutdown", answer.number, begin - answer.end))?;
        }
    }
    Ok(())
}
