//! `delays`: what single puts take under a sustained load; see [`sidebyside::delays`].

use std::process::ExitCode;
use std::time::Duration;

use common::words::Words;
use sidebyside::delays::{Settings, measure};

const HELP: &str = "\
usage: delays [OPTIONS]

  --dir DIR            where the databases are made and removed again; it should be on the disk to be
                       measured, not in memory                              [the system's temporary directory]
  --rounds N           runs of each engine at each load                                                    [3]
  --seconds N          how long a run takes                                                               [60]
  --rate N             puts per second of the runs at a fixed rate                                     [30000]
  --buffer-mib N       size of the in-memory buffer of every engine                                        [8]
  --engines LIST       some of tamarack,rocksdb,leveldb,fjall,redb                                       [all]
  --report FILE        write the Markdown report there                [results/DATE-delays-MACHINE.md]";

fn main() -> ExitCode {
    let words = Words::read(HELP);
    let settings = Settings {
        dir: words.dir(),
        rounds: words.positive("rounds", 3) as usize,
        time: Duration::from_secs(words.positive("seconds", 60)),
        buffer_bytes: words.positive("buffer-mib", 8) << 20,
        rate: words.positive("rate", 30_000),
        engines: words.list("engines"),
    };
    let report = words.report("delays-");
    let outcome = measure(&settings, &words.command("delays")).and_then(|text| {
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
