//! `reads-beside`: what reads cost beside other stores; see [`sidebyside::reads`].

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use sidebyside::machine;
use sidebyside::reads::sections::Sizes;
use sidebyside::reads::{Settings, measure, stores, table};

const HELP: &str = "\
usage: reads-beside [OPTIONS]

  --dir DIR            where the databases are made; it should be on the disk to be measured, not in
                       memory                                               [the system's temporary directory]
  --keep               leave the loaded databases there, for the next time (it works on copies)
  --quick              a tenth of the entries, a quarter of the operations, 3 rounds: a minute or two
  --rounds N           slices of each row on each engine                                                   [7]
  --small N            entries of 16 + 100 bytes                                                     [2000000]
  --large N            entries of 24 + 1000 bytes                                                    [1000000]
  --cache-mib N        cache of the sections of YCSB                                                      [64]
  --operations N       operations of a slice, in percent of the usual                                    [100]
  --sections LIST      some of cached,writing,cached-runs,direct,direct-runs,ycsb-c,ycsb-b,ycsb-d        [all]
  --engines LIST       some of tamarack,rocksdb,'rocksdb hcc','rocksdb hcc+hash',fjall                   [all]
  --report FILE        write the Markdown report there                 [results/DATE-reads-MACHINE.md]
  --no-report          only print it
  --only SECTION/ROW   one row again and again, such as cached/get, with --engines NAME, to be profiled
  --seconds N          for so long                                                                        [20]";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (settings, report) = match read(&words) {
        Ok(read) => read,
        Err(message) => {
            eprintln!("{message}");
            return ExitCode::from(2);
        }
    };
    let mut kinds = stores::all();
    kinds.retain(|kind| settings.wants_engine(kind.name()));
    let mut loads = vec![machine::load()];
    let outcome = measure(&settings, &kinds, &mut loads).and_then(|measured| {
        if settings.only.is_some() {
            return Ok(());
        }
        let text = table::markdown(&settings, &command(&words), &kinds, &measured, &loads);
        print!("{text}");
        report.map_or(Ok(()), |report| std::fs::write(report, text))
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("reads-beside: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Where things are on this machine is nobody's concern.
fn command(words: &[String]) -> String {
    let mut shown = "cargo run --release --bin reads-beside --".to_owned();
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        match word.as_str() {
            "--keep" | "--no-report" => (),
            "--report" => drop(rest.next()),
            "--dir" => {
                shown += " --dir DIR";
                rest.next();
            }
            _ => {
                shown.push(' ');
                shown += word;
            }
        }
    }
    shown
}

fn read(words: &[String]) -> Result<(Settings, Option<PathBuf>), String> {
    let usual =
        Sizes { small_entries: 2_000_000, large_entries: 1_000_000, cache_bytes: 64 << 20, operations_percent: 100 };
    let mut settings = Settings {
        dir: std::env::temp_dir(),
        keep: false,
        rounds: 7,
        sizes: usual,
        engines: Vec::new(),
        sections: Vec::new(),
        only: None,
    };
    let mut report = Some(machine::default_report("reads-"));
    let mut seconds = 20;
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        match word.as_str() {
            "--keep" => settings.keep = true,
            "--no-report" => report = None,
            "--quick" => {
                let sizes = &mut settings.sizes;
                sizes.small_entries /= 10;
                sizes.large_entries /= 10;
                sizes.cache_bytes /= 10;
                sizes.operations_percent /= 4;
                settings.rounds = 3;
            }
            _ => {
                let value = rest.next().ok_or(HELP)?;
                let number =
                    || value.parse().ok().filter(|n: &u64| *n > 0).ok_or(format!("{word} {value}: a number from 1"));
                let list = || value.split(',').map(str::to_owned).collect();
                match word.as_str() {
                    "--dir" => settings.dir = value.into(),
                    "--rounds" => settings.rounds = number()? as usize,
                    "--small" => settings.sizes.small_entries = number()?,
                    "--large" => settings.sizes.large_entries = number()?,
                    "--cache-mib" => settings.sizes.cache_bytes = number()? << 20,
                    "--operations" => settings.sizes.operations_percent = number()? as usize,
                    "--sections" => settings.sections = list(),
                    "--engines" => settings.engines = list(),
                    "--report" => report = Some(value.into()),
                    "--only" => settings.only = Some((value.clone(), Duration::ZERO)),
                    "--seconds" => seconds = number()?,
                    _ => return Err(format!("{word} is not an option\n\n{HELP}")),
                }
            }
        }
    }
    if let Some((_, time)) = &mut settings.only {
        *time = Duration::from_secs(seconds);
    }
    Ok((settings, report))
}
