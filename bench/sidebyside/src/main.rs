//! `sidebyside`: fills, timed.

use std::collections::BTreeMap;
use std::process::ExitCode;

use sidebyside::report::Report;
use sidebyside::run::{self, Sample};
use sidebyside::settings::Settings;
use sidebyside::{engines, workload};

fn main() -> ExitCode {
    let settings = match Settings::from_words(std::env::args().skip(1)) {
        Ok(settings) => settings,
        Err(message) => {
            eprintln!("{message}");
            return ExitCode::from(2);
        }
    };
    match measure(&settings) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("sidebyside: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(settings: &Settings) -> std::io::Result<()> {
    let engines = engines::all().into_iter().filter(|engine| settings.wants_engine(engine.name())).collect::<Vec<_>>();
    let workloads = workload::all(settings);
    let mut samples: BTreeMap<(usize, usize), Vec<Sample>> = BTreeMap::new();
    for round in 0..settings.rounds {
        for (w, workload) in workloads.iter().enumerate() {
            for (e, engine) in engines.iter().enumerate() {
                let sample = run::run(engine.as_ref(), workload, settings)?;
                eprintln!(
                    "round {}/{}: {workload}: {}: {:.0} ops/s",
                    round + 1,
                    settings.rounds,
                    engine.name(),
                    sample.ops_per_s
                );
                samples.entry((w, e)).or_default().push(sample);
            }
        }
    }
    let report = Report::new(settings, &workloads, &engines, &samples);
    print!("{}", report.table());
    if let Some(path) = &settings.report {
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory)?;
        }
        std::fs::write(path, report.markdown())?;
        println!("\nwritten to {}", path.display());
    }
    Ok(())
}
