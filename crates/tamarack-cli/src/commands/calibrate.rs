//! `tamarack calibrate`: measures the device and the processor for the cost models.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Arg, ArgMatches, value_parser};
use serde_json::{Map, Value};
use tamarack::{Calibration, Device, Options};
use tamarack_model::device::DEVICE_FIGURES;

use crate::outcome::{Failure, Outcome};
use crate::show::progress::Progress;
use crate::show::{Output, json};
use crate::size::show_bytes;
use crate::subcommand::Subcommand;
use crate::{files, size};

pub(super) const SUBCOMMAND: Subcommand = Subcommand {
    name: "calibrate",
    summary: "Measure the device and the processor for the cost models",
    help: "\
Measures how long reads, writes and syncs in DIR and the engine's own steps take on this
machine, and prints the figures. If DIR is a database, they are stored there, in the file
CALIBRATION, in place of earlier ones; `tamarack design --device DIR` uses them. The
database must not be open; to measure beside an open one, name another directory on the
same device, and write the figures to a file with --output, for --device FILE.

Storage is measured with a temporary file in DIR that is written, synced and read, with
direct I/O (past the page cache) where the file system has it; where not, the command
says so, and the figures of reads are those of memory. Caches of the drive or of a host
may still hold a file that is small. Steps of the processor are measured with the
engine's own code: for keys of 16 bytes and values of 100, and mostly over more memory
than the processor's inner caches have. Every figure is the median of several rounds; other
work on the machine makes all of them slower.

  random reads        blocks of 4 KiB, with that many in flight
  sequential reads    in pieces of 1 MiB
  sequential writes   through the page cache, each eighth of the file synced
  sync                of a write of 128 bytes into preallocated space, as of the WAL
  digest, probe       the hash of a key; filters of 10 bits per key, absent keys; Chucky
                      with 12 bits, once for all runs
  search of an index  the fence pointers of a run as large as the file
  entry in a block    found in one of many cached blocks of 4 KiB
  entry of a scan, of a compaction; put
                      in a database in memory; a compaction of two runs, uncompressed; a
                      put with the WAL's write, which is not synced

It takes up to 150 MB of memory.",
    examples: "\
tamarack calibrate prices.db
tamarack calibrate /mnt/data --output data.device
tamarack calibrate prices.db --size 2GiB --seconds 60 --json",
    arguments,
    run,
};

fn arguments() -> Vec<Arg> {
    vec![
        Arg::new("dir")
            .value_name("DIR")
            .help("Directory of a database, or another one on the device")
            .required(true)
            .value_parser(value_parser!(PathBuf)),
        Arg::new("size")
            .long("size")
            .value_name("SIZE")
            .help("Size of the temporary file: at least 1MiB, at most half of the\nfree space; larger than the caches of the device is better\n")
            .default_value("256MiB")
            .value_parser(size::parse_bytes),
        Arg::new("seconds")
            .long("seconds")
            .value_name("COUNT")
            .help("Time for all measurements, about; less of the file is written\nif the device is slow")
            .default_value("10")
            .value_parser(value_parser!(u64).range(1..=3600)),
        Arg::new("output")
            .long("output")
            .value_name("FILE")
            .help("Also write the figures to FILE, as text that can be edited")
            .value_parser(value_parser!(PathBuf)),
    ]
}

fn run(matches: &ArgMatches, output: &mut Output<'_>) -> Result<Outcome, Failure> {
    let dir: &PathBuf = matches.get_one("dir").expect("it is required");
    let number = |name| *matches.get_one::<u64>(name).expect("it has a default");
    let bytes = number("size");
    let progress = Progress::thousandths("calibrating".to_owned());
    let time = Duration::from_secs(number("seconds"));
    let measured = Options::new().calibrate(dir, bytes, time, &mut |thousandths, _| progress.set(thousandths))?;
    drop(progress);
    if measured.direct_alignment.is_none() {
        let why = "its file system has no direct I/O, so figures of reads are those of memory, not of the device";
        output.note(&format!("{}: {why}", dir.display()));
    }
    // Eighths of the file are whole blocks.
    if measured.data_bytes < bytes / 2 {
        let (written, asked) = (show_bytes(measured.data_bytes), show_bytes(bytes));
        output.note(&format!("only {written} of {asked} were written in the time; give more --seconds"));
    }
    if let Some(file) = matches.get_one::<PathBuf>("output") {
        files::write_text(file, &measured.device.to_string())?;
    }
    output.result(Some(&text(dir, &measured)), object(&measured))?;
    Ok(Outcome::Done)
}

fn text(dir: &Path, measured: &Calibration) -> String {
    let Calibration { device, data_bytes, .. } = measured;
    let line = |what: &str, value: &str, unit: &str| format!("{what:<36}{value:>10} {unit}");
    let mut lines: Vec<String> =
        DEVICE_FIGURES.iter().map(|figure| line(figure.what, &figure.show(device), figure.unit.name())).collect();
    lines.push(line("random reads in the time of one", &format!("{:.1}", device.reads_at_once()), ""));
    let reads = match measured.direct_alignment {
        Some(alignment) => format!("direct I/O, aligned to {}", show_bytes(alignment as u64)),
        None => "no direct I/O".to_owned(),
    };
    lines.push(format!("\nfile of {}, {reads}", show_bytes(*data_bytes)));
    lines.push(match &measured.stored {
        Some(file) => format!("stored in {}", file.display()),
        None => format!("not stored: there is no database in {}", dir.display()),
    });
    lines.iter().map(|line| line.trim_end()).collect::<Vec<_>>().join("\n")
}

fn object(measured: &Calibration) -> Map<String, Value> {
    json::object([
        ("device", Value::Object(device_object(&measured.device))),
        ("reads_at_once", measured.device.reads_at_once().into()),
        ("data_bytes", measured.data_bytes.into()),
        ("direct_io", measured.direct_alignment.is_some().into()),
        ("stored", measured.stored.as_ref().map(|file| file.display().to_string()).into()),
    ])
}

/// The figures in seconds and per second.
fn device_object(device: &Device) -> Map<String, Value> {
    let member = |figure: &tamarack_model::device::DeviceFigure| {
        (format!("{}_{}", figure.name, figure.unit.base()), figure.get(device).into())
    };
    DEVICE_FIGURES.iter().map(member).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TestDir, run, run_ok};

    /// The shortest calibration.
    const SHORT: [&str; 4] = ["--size", "1MiB", "--seconds", "1"];

    fn calibrate(dir: &str, more: &[&str]) -> crate::testing::Ran {
        run(&[&["calibrate", dir][..], &SHORT, more].concat())
    }

    /// The figures of a database are stored in it, can be inspected, and are used by `design`;
    /// another calibration replaces them.
    #[test]
    fn stores_with_the_database() {
        let dir = TestDir::new("calibrate_stores_with_the_database");
        let db = dir.join("db");
        run_ok(&["put", &db, "key", "value"]);
        let design = |device: &str| {
            let ran = run(&["design", "--entries", "1000000", "--device", device, "--json"]);
            serde_json::from_str::<Value>(&ran.out).map_err(|_| ran)
        };
        let missing = design(&db).expect_err("there are no figures");
        assert!(missing.status == 2 && missing.err.contains(&format!("tamarack calibrate {db}")), "{missing:?}");
        for more in [&[][..], &["--json"]] {
            let ran = calibrate(&db, more);
            assert_eq!(ran.status, 0, "{ran:?}");
            assert!(ran.out.contains("CALIBRATION"), "{ran:?}");
        }
        let found: Value = serde_json::from_str(&calibrate(&db, &["--json"]).out).expect("an object");
        let names = |value: &Value| value.as_object().expect("an object").keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&found), ["data_bytes", "device", "direct_io", "reads_at_once", "stored"]);
        assert_eq!(names(&found["device"]).len(), DEVICE_FIGURES.len());
        for name in ["read_seconds", "reads_depth_32_per_second", "sequential_read_bytes_per_second", "put_seconds"] {
            assert!(found["device"][name].as_f64().is_some_and(|value| value > 0.0), "{name}: {found}");
        }
        assert_eq!(found["data_bytes"], 1 << 20);

        let stored = dir.join("db/CALIBRATION");
        assert_eq!(found["stored"], stored);
        let priced = design(&db).expect("there are figures");
        assert_eq!(priced["device"], db);
        // The same file, without the database around it.
        assert_eq!(design(&stored).expect("it is a device")["cost"], priced["cost"]);
        assert_ne!(design("hdd").expect("it has a name")["cost"], priced["cost"]);
        let read = found["device"]["read_seconds"].as_f64().expect("a number") * 1e6;
        let inspected = run_ok(&["inspect", &stored, "--json"]);
        let inspected: Value = serde_json::from_str(&inspected).expect("an object");
        let shown = inspected["read"].as_str().and_then(|shown| shown.strip_suffix(" us")).expect("a time");
        assert!((shown.parse::<f64>().expect("a number") / read - 1.0).abs() < 1e-9, "{shown}, not {read}");
        assert_eq!(run_ok(&["get", &db, "key"]), "value\n");
        assert!(run_ok(&["verify", &db]).contains("no damage"));
    }

    /// Without a database, the figures are printed, written where asked for, and not stored.
    #[test]
    fn prints_without_a_database() {
        let dir = TestDir::new("calibrate_prints_without_a_database");
        let (place, file) = (dir.join(""), dir.join("data.device"));
        let ran = calibrate(&place, &["--output", &file]);
        assert_eq!(ran.status, 0, "{ran:?}");
        assert!(ran.out.contains("random read of 4 KiB, alone") && ran.out.contains("not stored"), "{ran:?}");
        let device: Device = files::read_text(Path::new(&file)).expect("it was written").parse().expect("a device");
        for figure in DEVICE_FIGURES {
            let line = ran.out.lines().find(|line| line.starts_with(&format!("{:<36}", figure.what)));
            let words: Vec<&str> = line.expect(figure.name).rsplitn(3, ' ').take(2).collect();
            assert_eq!(words, [figure.unit.name(), &figure.show(&device)], "{ran:?}");
        }
        run_ok(&["design", "--entries", "1000", "--device", &file]);
        let left = run(&["verify", &place]);
        assert!(left.err.contains("no database"), "{left:?}");
        let files = tamarack_testing::read_dir(&*tamarack_env::OsEnv::new(), dir.path());
        assert!(files.keys().eq(["data.device"]), "{:?}", files.keys());
    }

    /// A damaged file is an error that says what to do; calibrating again does it.
    #[test]
    fn a_damaged_file_is_replaced() {
        let dir = TestDir::new("calibrate_a_damaged_file_is_replaced");
        let db = dir.join("db");
        run_ok(&["put", &db, "key", "value"]);
        assert_eq!(calibrate(&db, &[]).status, 0);
        let path = dir.path().join("db/CALIBRATION");
        let text = files::read_text(&path).expect("it is there");
        let changed = text.replacen("us", "ns", 1);
        dir.file("db/CALIBRATION", changed);
        let design = ["design", "--entries", "1000", "--device", &db];
        let refused = run(&design);
        assert_eq!((refused.status, refused.out.as_str()), (3, ""), "{refused:?}");
        let advice = format!("run `tamarack calibrate {db}` again");
        assert!(refused.err.contains("CALIBRATION") && refused.err.contains(&advice), "{refused:?}");
        assert_eq!(run(&["inspect", &dir.join("db/CALIBRATION")]).status, 1);
        assert!(run_ok(&["verify", &db]).contains("no damage"), "it is no data");
        assert_eq!(calibrate(&db, &[]).status, 0);
        run_ok(&design);
    }

    /// Wrong arguments are refused with advice, before anything is measured.
    #[test]
    fn refusals() {
        let dir = TestDir::new("calibrate_refusals");
        let paths = [dir.join(""), dir.file("file", "text"), dir.join("none")];
        let [place, file, none] = [0, 1, 2].map(|at| paths[at].as_str());
        for (words, part) in [
            (&[][..], "<DIR>"),
            (&[none], "no such directory"),
            (&[file], "not a directory"),
            (&[place, "--size", "1KiB"], "at least 1048576"),
            (&[place, "--size", "100000TiB"], "choose a smaller file"),
            (&[place, "--size", "big"], "such as 64MiB"),
            (&[place, "--seconds", "0"], "1..=3600"),
        ] {
            let words: Vec<&str> = ["calibrate"].iter().chain(words).copied().collect();
            let ran = run(&words);
            assert!(ran.status == 2 && ran.out.is_empty() && ran.err.contains(part), "{words:?}: {ran:?}");
        }
        // What an interrupted calibration may have left.
        dir.file("CALIBRATION.new", "");
        let ran = calibrate(place, &[]);
        assert!(ran.status == 2 && ran.err.contains("was interrupted; remove the file"), "{ran:?}");
    }
}
