//! `delays`: what single puts take under a sustained load; see [`sidebyside::delays`].

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use sidebyside::delays::{Settings, measure};
use sidebyside::machine;

const HELP: &str = "\
usage: delays [OPTIONS]

  --dir DIR            where the databases are made and removed again; it should be on the disk to be
                       measured, not in memory                              [the system's temporary directory]
  --rounds N           runs of each engine at each load                                                    [3]
  --seconds N          how long a run takes                                                               [60]
  --rate N             puts per second of the runs at a fixed rate                                     [30000]
  --buffer-mib N       size of the in-memory buffer of every engine                                        [8]
  --engines LIST       some of tamarack,rocksdb,fjall                                                    [all]
  --report FILE        write the Markdown report there                [results/DATE-delays-MACHINE.md]";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (settings, report) = match read(&words) {
        Ok(read) => read,
        Err(message) => {
            eprintln!("{message}");
            return ExitCode::from(2);
        }
    };
    // Where things are on this machine is nobody's concern.
    let shown = words.chunks(2).filter(|pair| pair[0] != "--report");
    let shown: Vec<String> =
        shown.map(|pair| if pair[0] == "--dir" { "--dir DIR".to_owned() } else { pair.join(" ") }).collect();
    let command = format!("cargo run --release --bin delays -- {}", shown.join(" "));
    let outcome = measure(&settings, command.trim_end()).and_then(|text| {
        print!("{text}");
        std::fs::write(&report, text)
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("delays: {error}");
            ExitCode::FAILURE
        }
    }
}

fn read(words: &[String]) -> Result<(Settings, PathBuf), String> {
    let mut settings = Settings {
        dir: std::env::temp_dir(),
        rounds: 3,
        time: Duration::from_secs(60),
        buffer_bytes: 8 << 20,
        rate: 30_000,
        engines: Vec::new(),
    };
    let mut report = machine::default_report("delays-");
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        let value = rest.next().ok_or(HELP)?;
        let number = || value.parse().ok().filter(|n: &u64| *n > 0).ok_or(format!("{word} {value}: a number from 1"));
        match word.as_str() {
            "--dir" => settings.dir = value.into(),
            "--rounds" => settings.rounds = number()? as usize,
            "--seconds" => settings.time = Duration::from_secs(number()?),
            "--rate" => settings.rate = number()?,
            "--buffer-mib" => settings.buffer_bytes = number()? << 20,
            "--engines" => settings.engines = value.split(',').map(str::to_owned).collect(),
            "--report" => report = value.into(),
            _ => return Err(format!("{word} is not an option\n\n{HELP}")),
        }
    }
    Ok((settings, report))
}
