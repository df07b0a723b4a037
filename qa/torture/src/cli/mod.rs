//! `cli`: odd command lines for the program `tamarack`; each ends in time, with one of its own
//! statuses and a message for people.
//!
//! Unknown options, huge numbers, wrong paths, devices without end, FIFOs, directories; standard
//! input that is empty, endless or closed; standard output that is full or gone. Never a panic,
//! never a signal, never a hang, never a stack trace.

mod words;

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use tamarack_testing::Random;

use crate::mount::run_program;
use crate::run::{Outcome, Run, Stop};
use words::Vocabulary;

/// Command lines in one directory.
const LINES: u64 = 60;

/// Longest time that a command may take. Those that end take milliseconds.
const TIME_MAX: Duration = Duration::from_secs(60);

/// What no message may contain.
const TRACES: &[&str] = &["panicked at", "stack backtrace", "RUST_BACKTRACE", "overflow", "unwrap()"];

/// Runs the command.
pub(crate) fn run(run: Run) -> ExitCode {
    let program = run.args.cli.clone().or_else(|| std::env::var_os("TAMARACK_CLI").map(PathBuf::from));
    let program = program.unwrap_or_else(beside_this_program);
    run.rounds(|run, dir| {
        if !program.is_file() {
            let how = "name the program with --cli, or build it: cargo build --release -p tamarack-cli";
            return Err(Stop::Skipped(format!("{} is not there; {how}", program.display())));
        }
        let program = program.canonicalize().map_err(|error| error.to_string())?;
        one_directory(run, dir, &program)
    })
}

/// The program in the target directory of the main workspace, built for release or not.
fn beside_this_program() -> PathBuf {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
    let [release, debug] = ["release", "debug"].map(|profile| target.join(profile).join("tamarack"));
    if !release.is_file() && debug.is_file() { debug } else { release }
}

fn one_directory(run: &mut Run, dir: &Path, program: &Path) -> Outcome {
    let mut random = Random::new(run.seed());
    prepare(dir, program, &mut random)?;
    let vocabulary = Vocabulary::of(program)?;
    for number in 0..LINES {
        let words = vocabulary.command_line(&mut random);
        let began = Instant::now();
        let ended = Ended::of(program, &words, dir, &mut random)?;
        run.add("command lines", 1);
        run.max("longest, in milliseconds", began.elapsed().as_millis() as u64);
        let say = |what: &str| format!("line {number}, {}: {what}: {}", shown(&words), ended.message());
        let Some(status) = ended.status else { Err(say("did not end"))? };
        let Some(code) = status.code().filter(|code| (0..=3).contains(code)) else { Err(say(&status.to_string()))? };
        if let Some(trace) = TRACES.iter().find(|trace| ended.errors.contains(**trace)) {
            Err(say(&format!("'{trace}' in its message")))?;
        }
        run.add(["status 0", "status 1", "status 2", "status 3"][code as usize], 1);
        if code >= 2 && ended.errors.trim().is_empty() {
            Err(say("failed without a message"))?;
        }
        run.progress();
        if !run.has_time() && run.args.count.is_none() {
            break;
        }
    }
    run.add("directories", 1);
    Ok(())
}

/// Makes the files that the command lines name.
fn prepare(dir: &Path, program: &Path, random: &mut Random) -> Outcome {
    let lines: String = (0..3000).map(|number| format!("key {number:05}\tvalue {number}\n")).collect();
    let mut make = || -> std::io::Result<()> {
        fs::write(dir.join("text"), &lines)?;
        fs::write(
            dir.join("jsonl"),
            "{\"key\":\"a\",\"value\":\"b\"}\n{\"key\":\"a\",\"key\":\"c\"}\n{}\n[1]\nnull\n",
        )?;
        fs::write(dir.join("csv"), "\u{feff}a,b\n\"a\nb\",c\n\"\n,,,\n")?;
        fs::write(dir.join("endless"), vec![b'x'; 8 << 20])?;
        fs::write(dir.join("noise"), random.bytes(20_000))?;
        fs::create_dir(dir.join("directory"))?;
        fs::create_dir(dir.join("empty"))?;
        fs::create_dir(dir.join("read-only"))?;
        symlink("link-to-itself", dir.join("link-to-itself"))
    };
    make().map_err(|error| format!("{}: {error}", dir.display()))?;
    run_program(Command::new("mkfifo").arg("fifo").current_dir(dir))?;
    for db in ["db", "damaged", "fifos"] {
        let import = ["import", db, "text", "--buffer", "16KiB"];
        run_program(Command::new(program).args(import).current_dir(dir))?;
    }
    let mut damage = || -> std::io::Result<()> {
        for entry in fs::read_dir(dir.join("damaged"))? {
            let path = entry?.path();
            let mut bytes = fs::read(&path)?;
            if random.one_in(3) && !bytes.is_empty() {
                let at = random.below(bytes.len() as u64) as usize;
                bytes[at] ^= 1;
                fs::write(path, bytes)?;
            }
        }
        Ok(())
    };
    damage().map_err(|error| error.to_string())?;
    let fifos = fs::read_dir(dir.join("fifos")).and_then(|entries| entries.collect::<std::io::Result<Vec<_>>>());
    let mut fifos: Vec<PathBuf> = fifos.map_err(|error| error.to_string())?.iter().map(fs::DirEntry::path).collect();
    fifos.sort();
    let fifo = random.pick(&fifos);
    fs::remove_file(fifo).map_err(|error| error.to_string())?;
    run_program(Command::new("mkfifo").arg(fifo))?;
    Ok(())
}

/// How a command ended.
struct Ended {
    /// `None` if it did not end in time.
    status: Option<ExitStatus>,
    errors: String,
}

impl Ended {
    fn of(program: &Path, words: &[OsString], dir: &Path, random: &mut Random) -> Outcome<Self> {
        let errors = dir.join("errors");
        let start = |random: &mut Random| -> std::io::Result<Child> {
            let open = |path: &str| File::open(path).map(Stdio::from);
            let input = match random.below(6) {
                0 => open("/dev/zero")?,
                1 => File::open(dir.join("text"))?.into(),
                2 => File::open(dir.join("noise"))?.into(),
                3 => open("/")?,
                _ => Stdio::null(),
            };
            let output = match random.below(6) {
                0 => File::options().write(true).open("/dev/full")?.into(),
                1 | 2 => Stdio::piped(),
                _ => Stdio::null(),
            };
            let mut command = Command::new(program);
            command.args(words).current_dir(dir).stdin(input).stdout(output).stderr(File::create(&errors)?);
            command.env_remove("RUST_BACKTRACE").spawn()
        };
        let mut child = start(random).map_err(|error| format!("{}: {error}", shown(words)))?;
        // Where it is a pipe: gone at once, or after some bytes. The program may be silent for
        // ever, so another thread waits for them.
        let reader = child
            .stdout
            .take()
            .filter(|_| random.one_in(2))
            .map(|mut output| std::thread::spawn(move || output.read(&mut [0; 100])));
        let began = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
                break Some(status);
            }
            if began.elapsed() > TIME_MAX {
                child.kill().and_then(|()| child.wait()).map_err(|error| error.to_string())?;
                break None;
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        if let Some(reader) = reader {
            let read = reader.join().map_err(|_| "reading the output panicked".to_owned())?;
            read.map_err(|error| error.to_string())?;
        }
        let errors = fs::read(&errors).map_err(|error| error.to_string())?;
        Ok(Self { status, errors: String::from_utf8_lossy(&errors).into_owned() })
    }

    fn message(&self) -> &str {
        let end = self.errors.char_indices().nth(1000).map_or(self.errors.len(), |(at, _)| at);
        &self.errors[..end]
    }
}

/// A command line as a shell would need it, cut where it is long.
fn shown(words: &[OsString]) -> String {
    let shown = words.iter().map(|word| {
        let text = format!("{:?}", word.to_string_lossy());
        text.chars().take(80).collect::<String>()
    });
    format!("tamarack {}", shown.collect::<Vec<_>>().join(" "))
}
