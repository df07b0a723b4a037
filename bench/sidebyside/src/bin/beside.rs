//! `beside`: every workload on every engine, and a report; see [`sidebyside::beside`].

use std::fs;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use common::words::Words;
use sidebyside::beside::{Results, measure, settings};
use sidebyside::plan::Plan;
use sidebyside::{process, table, worker};

const HELP: &str = "\
usage: beside [OPTIONS]

  --dir DIR         where the databases are made; it should be on the disk to be measured, not in memory,
                    with 15 GB free                                      [the system's temporary directory]
  --quick           a tenth of the entries, shorter slices, two rounds: a minute or two
  --only LIST       rows whose names DATABASE-READS/ROW/THREADS have one of these parts, such as
                    leveled-cached/readrandom; databases are leveled, runs, large; reads are cached, direct.
                    `steady` in a part asks for rows that are measured in a steady state, large-steady/ROW/THREADS
                    with YCSB C, YCSB B, YCSB D, YCSB A, YCSB C after A: four minutes for each engine, number of
                    threads and round; never run otherwise
  --engines LIST    some of tamarack,rocksdb,'rocksdb hcc',leveldb,fjall,redb                          [all]
  --threads LIST    how many threads                                                                   [1,2]
  --rounds N        slices of each row on each engine                                                    [3]
  --slice-ms N      how long a slice takes at most (of overwrite, three times as long)                 [200]
  --steady-warm-s N warm-up of a row of the steady state                                                [10]
  --steady-s N      how long it is measured then (YCSB A, twice as long)                                [30]
  --small N         small entries, of 16 bytes and their value                                     [5000000]
  --small-value N   bytes of their values                                                              [100]
  --large N         entries of 24 + 1000 bytes                                                     [1000000]
  --buffer-kib N    size of the buffers of leveled trees                                              [8192]
  --keep            leave the loaded databases in DIR, or use those that are there (then nothing is said of loading)
  --report FILE     write the Markdown report there, after each part     [results/DATE-beside-MACHINE.md]
  --json FILE       write all figures there                                   [the report's name, with .json]
  --from FILE       measure nothing: make the report of these figures, which --json has written
  --notes FILE      Markdown for the section on rows where Tamarack is behind";

fn main() -> ExitCode {
    if let Some((engine, words)) = process::as_worker() {
        let plan = Plan::new(&Words::of(HELP, words.into_iter()));
        return done(worker::serve(&engine, &plan).map(|()| true));
    }
    let words = Words::read(HELP);
    done(report(&words))
}

/// True if all went well.
fn report(words: &Words) -> io::Result<bool> {
    let report = words.report("beside-");
    let json = words.text("json").map_or_else(|| report.with_extension("json"), Into::into);
    let notes = words.text("notes").map_or(Ok(String::new()), fs::read_to_string)?;
    let write = |results: &Results| fs::write(&report, table::markdown(results, &notes));
    let results = if let Some(from) = words.text("from") {
        serde_json::from_str(&fs::read_to_string(from)?)?
    } else {
        let save = |results: &Results| {
            save(&json, results)?;
            write(results)
        };
        measure(&Plan::new(words), &settings(words), &save)?
    };
    write(&results)?;
    print!("{}", table::markdown(&results, &notes));
    eprintln!("written to {}", report.display());
    Ok(results.circumstances.troubles.is_empty())
}

fn save(json: &Path, results: &Results) -> io::Result<()> {
    fs::write(json, serde_json::to_string(results)?)
}

fn done(outcome: io::Result<bool>) -> ExitCode {
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("beside: {error}");
            ExitCode::FAILURE
        }
    }
}
