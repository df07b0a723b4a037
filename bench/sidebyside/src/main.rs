//! `sidebyside`: fills, timed; see [`sidebyside::fills`].

use std::process::ExitCode;

use common::words::Words;
use sidebyside::fills::{Settings, measure};

const HELP: &str = "\
usage: sidebyside [OPTIONS]

  --dir DIR            where the databases are made and removed again; it should be on the disk to be
                       measured, not in memory                              [the system's temporary directory]
  --rounds N           runs of each engine on each workload                                                [5]
  --entries N          puts per run at durability buffered                                           [1000000]
  --sync-entries N     puts per run at durability sync                                                  [5000]
  --buffer-mib N       size of the in-memory buffer of every engine                                       [64]
  --threads LIST       numbers of writing threads                                                        [1,2]
  --workloads LIST     some of fillrandom,fillseq                                                        [all]
  --durability LIST    some of buffered,sync                                                             [all]
  --engines LIST       some of tamarack,rocksdb,leveldb,fjall,redb                                       [all]
  --report FILE        write a Markdown report there                        [results/DATE-fills-MACHINE.md]
  --no-report          only print it";

fn main() -> ExitCode {
    let words = Words::read(HELP);
    let settings = Settings {
        dir: words.dir(),
        rounds: words.positive("rounds", 5) as usize,
        entries: words.positive("entries", 1_000_000),
        sync_entries: words.positive("sync-entries", 5_000),
        buffer_bytes: words.positive("buffer-mib", 64) << 20,
        threads: words.numbers("threads", &[1, 2]),
        workloads: words.list("workloads"),
        durabilities: words.list("durability"),
        engines: words.list("engines"),
    };
    let report = words.report("fills-");
    let outcome = measure(&settings, &words.command("sidebyside")).and_then(|text| {
        print!("{text}");
        if words.flag("no-report") { Ok(()) } else { std::fs::write(report, text) }
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("sidebyside: {error}");
            ExitCode::FAILURE
        }
    }
}
