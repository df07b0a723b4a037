//! Random command lines: right words in wrong places, wrong words in right ones.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::Command;

use tamarack_testing::Random;

use crate::run::Outcome;

const COMMANDS: &[&str] = &[
    "import",
    "export",
    "put",
    "get",
    "delete",
    "scan",
    "stats",
    "compact",
    "reshape",
    "checkpoint",
    "verify",
    "repair",
    "inspect",
    "bench",
    "design",
    "help",
    "--help",
    "--version",
    "frobnicate",
    "",
    "--",
];

/// Options of all commands, and some of none.
const OPTIONS: &[&str] = &[
    "--format",
    "--acks",
    "--sorted",
    "--batch",
    "--durability",
    "--memory",
    "--policy",
    "--filter",
    "--no-digests",
    "--space-max",
    "--threads",
    "--direct-io",
    "--json",
    "--buffer",
    "--cache",
    "--block-size",
    "--compression",
    "--raw",
    "--from",
    "--to",
    "--prefix",
    "--limit",
    "--reverse",
    "--runs",
    "--lookups",
    "--settle",
    "--apply",
    "--entries",
    "--key-size",
    "--value-size",
    "--clients",
    "--dir",
    "--database",
    "--overwrite",
    "--seed",
    "--entry-size",
    "--workload",
    "--range-entries",
    "--estimate",
    "--now",
    "-h",
    "--",
    "-x",
    "--unknown",
    "--policy=",
    "---",
    "--json=1",
];

/// Values of every kind, most of them wrong for most options.
const VALUES: &[&str] = &[
    "",
    "-",
    "0",
    "1",
    "-1",
    "3",
    "1000",
    "18446744073709551615",
    "18446744073709551616",
    "99999999999999999999999999",
    "1e309",
    "NaN",
    "inf",
    "-inf",
    "1.01",
    "1.5",
    "0x10",
    "１２",
    "64KiB",
    "1MiB",
    "128TiB",
    "16EiB",
    "1.5GiB",
    "-1KiB",
    "KiB",
    "tsv",
    "csv",
    "jsonl",
    "xml",
    "none",
    "lz4",
    "zstd",
    "sync",
    "buffered",
    "interval:5",
    "interval:-5",
    "interval:99999999999999999999",
    "interval:",
    "leveling:T=10",
    "leveling:T=0",
    "leveling:T=99999999999999999999",
    "leveling:T=NaN",
    "tiering:T=2",
    "lazy-leveling:T=1",
    "dostoevsky:T=5,K=0,Z=0",
    "dostoevsky:T=5,K=9,Z=9",
    "garnering:T=2,c=-1",
    "garnering:T=2,c=0.0000001",
    "moose:last=0,k=0",
    "moose:last=inf",
    "qlsm-bush:T=1,X=1",
    "custom:",
    "custom:buffer 1B",
    "custom:buffer 64KiB; level 1MiB in 0 runs",
    "custom:buffer 64KiB; level 1MiB in 2 runs",
    "custom:/dev/zero",
    "custom:missing",
    "custom:directory",
    "custom:noise",
    "blocked:bits=10",
    "blocked:bits=0",
    "bloom:bits=64",
    "bloom:bits=65",
    "bloom:bits=NaN",
    "bloom:bits=5,allocation=monkey-general,v=inf",
    "elastic:bits=1e300",
    "zero-result=1",
    "zero-result=-1",
    "update=inf,range=0",
    "range=",
    "key",
    "\\x",
    "\\xff",
    "\\xzz",
    "a\tb",
    "ключ",
    "\u{1F332}",
    "%s%n",
    "$(true)",
    "a\nb",
];

/// Paths below the working directory, and devices.
const PATHS: &[&str] = &[
    "db",
    "db/CURRENT",
    "db/LOCK",
    "db/0000000001.manifest",
    "db/0000000001.wal",
    "db/0000000002.sst",
    "damaged",
    "empty",
    "missing",
    "missing/missing",
    "directory",
    "noise",
    "text",
    "jsonl",
    "csv",
    "endless",
    "read-only",
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "db/",
    "./db/../db",
    "link-to-itself",
    "-",
    "",
];

/// What stands in the place of a database as well. Where a command reads a file of the user's, it
/// waits for the writer of a FIFO as other programs do.
const DATABASES: &[&str] = &["fifo", "fifos", "fifos", "damaged", "damaged", "fifos/CURRENT", "damaged/CURRENT"];

/// The options that each command has, as its help says, with whether they take a value.
pub(super) struct Vocabulary(Vec<Vec<(String, bool)>>);

impl Vocabulary {
    /// Reads the help of every command.
    pub(super) fn of(program: &Path) -> Outcome<Self> {
        let mut options = Vec::new();
        for command in COMMANDS {
            let asked = Command::new(program).args([command, "--help"]).output();
            let help = asked.map_err(|error| format!("{}: {error}", program.display()))?.stdout;
            let help = String::from_utf8_lossy(&help).into_owned();
            let names = help.lines().filter_map(|line| line.trim_start().strip_prefix("--"));
            let names = names.map(|rest| {
                let mut words = rest.split(' ');
                (
                    format!("--{}", words.next().unwrap_or_default()),
                    words.next().is_some_and(|word| word.starts_with('<')),
                )
            });
            options.push(names.collect());
        }
        Ok(Self(options))
    }

    /// One command line, without the program.
    pub(super) fn command_line(&self, random: &mut Random) -> Vec<OsString> {
        let index = random.below(COMMANDS.len() as u64) as usize;
        let (command, own) = (COMMANDS[index], &self.0[index]);
        let mut words: Vec<OsString> = vec![command.into()];
        if !random.one_in(8) {
            let paths = *random.pick(&[&PATHS[..1], &PATHS[..1], PATHS, DATABASES]);
            words.push((*random.pick(paths)).into());
        }
        let operands = match command {
            "put" => 2,
            "get" | "delete" | "checkpoint" => 1,
            "import" => random.below(2),
            _ => random.below(20) / 19,
        };
        for _ in 0..operands {
            let operands = if random.one_in(2) { PATHS } else { VALUES };
            words.push((*random.pick(operands)).into());
        }
        for _ in 0..random.below(4) {
            if !own.is_empty() && !random.one_in(8) {
                let (name, has_value) = random.pick(own);
                words.push(name.into());
                if *has_value || random.one_in(20) {
                    let values = if random.one_in(4) { PATHS } else { VALUES };
                    words.push((*random.pick(values)).into());
                }
                continue;
            }
            words.push(match random.below(10) {
                0..5 => (*random.pick(OPTIONS)).into(),
                5..8 => (*random.pick(VALUES)).into(),
                8 => (*random.pick(PATHS)).into(),
                _ => odd_bytes(random),
            });
        }
        if command == "bench" {
            // Whatever was said before; the last one counts or is refused.
            words.extend(["--entries", "500", "--operations", "500", "--seconds", "1"].map(OsString::from));
        }
        words
    }
}

/// Bytes that are no UTF-8, and long words.
fn odd_bytes(random: &mut Random) -> OsString {
    let length = if random.one_in(4) { 100_000 } else { random.below(12) };
    let bytes: Vec<u8> = random.bytes(length).into_iter().map(|byte| byte.max(1)).collect();
    OsStr::from_bytes(&bytes).to_owned()
}
