//! What the command line asks for.

use std::path::PathBuf;

use crate::machine;

/// The help text.
const HELP: &str = "\
usage: sidebyside [OPTIONS]

  --dir DIR            where the databases are made and removed again; it should be on the disk to be
                       measured, not in memory                              [the system's temporary directory]
  --rounds N           runs of each engine on each workload                                                [5]
  --entries N          puts per run at durability buffered                                           [1000000]
  --sync-entries N     puts per run at durability sync                                                  [5000]
  --load-entries N     puts per run of loadrandom                                                    [5000000]
  --buffer-mib N       size of the in-memory buffer of every engine                                       [64]
  --threads LIST       numbers of writing threads                                                        [1,2]
  --workloads LIST     some of fillrandom,fillseq,loadrandom                                             [all]
  --durability LIST    some of buffered,sync                                                             [all]
  --engines LIST       some of tamarack,rocksdb,fjall                                                    [all]
  --report FILE        write a Markdown report there              [results/DATE-MACHINE.md, unless --no-report]
  --no-report          only print the table";

/// How to measure.
#[derive(Clone, Debug)]
pub struct Settings {
    pub dir: PathBuf,
    pub rounds: usize,
    pub entries: u64,
    pub sync_entries: u64,
    pub load_entries: u64,
    pub buffer_bytes: u64,
    pub threads: Vec<u64>,
    pub workloads: Vec<String>,
    pub durabilities: Vec<String>,
    pub engines: Vec<String>,
    pub report: Option<PathBuf>,
    /// The words all this came from.
    pub words: Vec<String>,
}

impl Settings {
    /// Reads the command line; an error is a message for the user.
    pub fn from_words(words: impl Iterator<Item = String>) -> Result<Self, String> {
        let words: Vec<String> = words.collect();
        let mut settings = Self {
            dir: std::env::temp_dir(),
            rounds: 5,
            entries: 1_000_000,
            sync_entries: 5_000,
            load_entries: 5_000_000,
            buffer_bytes: 64 << 20,
            threads: vec![1, 2],
            workloads: Vec::new(),
            durabilities: Vec::new(),
            engines: Vec::new(),
            report: Some(machine::default_report("")),
            words: words.clone(),
        };
        let mut rest = words.into_iter();
        while let Some(word) = rest.next() {
            if word == "--help" || word == "-h" {
                return Err(HELP.to_owned());
            }
            if word == "--no-report" {
                settings.report = None;
                continue;
            }
            let value = rest.next().ok_or_else(|| format!("{word} needs a value\n\n{HELP}"))?;
            settings.set(&word, &value)?;
        }
        Ok(settings)
    }

    fn set(&mut self, word: &str, value: &str) -> Result<(), String> {
        let number = || {
            value
                .parse::<u64>()
                .ok()
                .filter(|n| *n > 0)
                .ok_or_else(|| format!("{word} {value}: a number from 1 is needed"))
        };
        let list = || value.split(',').map(str::to_owned).collect::<Vec<_>>();
        match word {
            "--dir" => self.dir = value.into(),
            "--rounds" => self.rounds = number()? as usize,
            "--entries" => self.entries = number()?,
            "--sync-entries" => self.sync_entries = number()?,
            "--load-entries" => self.load_entries = number()?,
            "--buffer-mib" => self.buffer_bytes = number()? << 20,
            "--threads" => {
                let threads = list().iter().map(|n| n.parse().ok().filter(|n| *n > 0)).collect::<Option<Vec<_>>>();
                self.threads =
                    threads.ok_or_else(|| format!("--threads {value}: numbers from 1 are needed, such as 1,2"))?;
            }
            "--workloads" => self.workloads = list(),
            "--durability" => self.durabilities = list(),
            "--engines" => self.engines = list(),
            "--report" => self.report = Some(value.into()),
            _ => return Err(format!("{word} is not an option\n\n{HELP}")),
        }
        Ok(())
    }

    /// True if that engine is to be measured.
    pub fn wants_engine(&self, name: &str) -> bool {
        wants(&self.engines, name)
    }

    /// True if that workload is to be run.
    pub fn wants_workload(&self, name: &str) -> bool {
        wants(&self.workloads, name)
    }

    /// True if that level of durability is to be measured.
    pub fn wants_durability(&self, name: &str) -> bool {
        wants(&self.durabilities, name)
    }
}

fn wants(list: &[String], name: &str) -> bool {
    list.is_empty() || list.iter().any(|wanted| wanted == name)
}
