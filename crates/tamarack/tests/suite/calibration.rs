//! Calibrations: figures of simulated devices, what is stored and what is left behind, at each call
//! that fails and for each moment at which the machine stops.
//!
//! The clock of the simulator moves only by calls of storage, so figures of the processor are those
//! of a clock that stands still: only that they are there is asserted.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tamarack::{AdvancedOptions, Calibration, Device, Error, Options, Result, step};
use tamarack_env::sim::{self, CallKind, Crash, Failure, Fault};
use tamarack_env::sync::{Mutex, Rank};
use tamarack_env::{Env, MemoryEnv, SimEnv, Step};
use tamarack_format::calibration::encode_calibration;
use tamarack_testing::{read_dir, read_file, write_file};

const DIR: &str = "/db";
const FILE: &str = "/db/CALIBRATION";
const DATA_BYTES: u64 = 1 << 20;
const TIME: Duration = Duration::from_millis(500);

/// The steps that a calibration takes.
const STEPS: [Step; 10] = [
    step::CALIBRATION_CREATE_DATA,
    step::CALIBRATION_ALLOCATE_DATA,
    step::CALIBRATION_WRITE_DATA,
    step::CALIBRATION_SYNC_DATA,
    step::CALIBRATION_REMOVE,
    step::CALIBRATION_CREATE,
    step::CALIBRATION_WRITE,
    step::CALIBRATION_SYNC,
    step::CALIBRATION_RENAME,
    step::CALIBRATION_SYNC_DIRECTORY,
];

fn options(env: &Arc<dyn Env>) -> Options {
    Options::new().advanced(AdvancedOptions::new().env(env.clone()).memtable_bytes(4096))
}

fn of(sim: &SimEnv) -> Options {
    options(&(Arc::new(sim.clone()) as Arc<dyn Env>))
}

fn calibrate(options: &Options, dir: &str) -> Result<Calibration> {
    options.calibrate(dir, DATA_BYTES, TIME, &mut |_, _| {})
}

/// A machine with a database that has a table, and with the figures of that device.
fn calibrated(device: sim::Device) -> (SimEnv, Device) {
    let sim = SimEnv::new(1);
    sim.set_device(Some(device));
    let db = of(&sim).open(DIR).expect("a new database");
    db.put("key", "value").and_then(|()| db.flush()).and_then(|()| db.close()).expect("storage is sound");
    let measured = calibrate(&of(&sim), DIR).expect("storage is sound");
    assert_eq!(measured.stored.as_deref(), Some(Path::new(FILE)));
    (sim, measured.device)
}

fn names(env: &dyn Env) -> Vec<String> {
    read_dir(env, Path::new(DIR)).into_keys().collect()
}

/// Neither damage nor anything left behind, and the entry is there.
fn check_database(options: &Options) {
    let db = options.open(DIR).expect("it opens");
    assert_eq!(db.get("key").expect("it is readable").as_deref(), Some(&b"value"[..]));
    db.close().expect("it closes");
    let report = options.verify(DIR, &mut |_, _| {}).expect("there is a database");
    assert!(report.is_ok() && report.unnamed.is_empty() && report.foreign.is_empty(), "{report:?}");
}

/// The figures of a simulated device are found again: exactly where nothing else takes time.
#[test]
fn figures_are_those_of_the_device() -> Result<()> {
    let sim = SimEnv::new(1);
    let device = sim::Device::SATA_SSD;
    sim.set_device(Some(device));
    let db = of(&sim).open(DIR)?;
    db.put("key", "value").and_then(|()| db.close())?;
    let mut parts = Vec::new();
    let began = sim.now();
    let found = of(&sim).calibrate(DIR, 4 << 20, TIME, &mut |done, all| parts.push((done, all)))?;
    assert!(sim.now() - began < 2 * TIME, "{:?}", sim.now() - began);
    assert_eq!((parts[0], parts.last()), ((0, 1000), Some(&(1000, 1000))));
    assert!(parts.is_sorted() && parts.len() > 20, "{parts:?}");
    assert_eq!((found.data_bytes, found.direct_alignment), (4 << 20, Some(512)));

    let Device { read_seconds, reads_per_second, sync_seconds, .. } = found.device;
    let near = |name: &str, found: f64, expected: f64| {
        assert!((found / expected - 1.0).abs() < 0.01, "{name}: {found}, not {expected}");
    };
    // Latency, transfer of the two pages in which the bytes are, and the processor's copy of 4 KiB.
    near("read", read_seconds, 100e-6 + 2.0 * 4096.0 / 500e6 + 4096.0 / 1e9);
    near("reads alone", reads_per_second[0], 1.0 / read_seconds);
    // A page of the WAL is written, too.
    near("sync", sync_seconds, 1e-3 + 4096.0 / 500e6);
    // Latencies of reads that are in flight together pass together, transfers do not.
    assert!(reads_per_second.is_sorted(), "{reads_per_second:?}");
    // The last of a round are fewer.
    let most = 32.0 / (100e-6 + 64.0 * 4096.0 / 500e6 + 4096.0 / 1e9);
    assert!(reads_per_second[5] > 0.95 * most && reads_per_second[5] <= most, "{} of {most}", reads_per_second[5]);
    for rate in [found.device.read_bytes_per_second, found.device.write_bytes_per_second] {
        assert!(rate > 150e6 && rate <= 500e6, "{rate}");
    }
    assert_eq!(found.device.check(), Ok(()));
    assert_eq!(of(&sim).calibration(DIR)?, Some(found.device));
    check_database(&of(&sim));
    Ok(())
}

/// A slow device is given less to write, and the time is kept all the same.
#[test]
fn time_is_bounded() -> Result<()> {
    let sim = SimEnv::new(1);
    sim.set_device(Some(sim::Device { write_bytes_per_second: 1_000_000, ..sim::Device::NETWORK_VOLUME }));
    sim.create_dir(Path::new(DIR), step::DATABASE_CREATE).expect("it is new");
    let found = calibrate(&of(&sim), DIR)?;
    assert_eq!(found.data_bytes, DATA_BYTES / 8);
    assert!(sim.now() < 2 * TIME, "{:?}", sim.now());
    Ok(())
}

/// In a directory without a database, nothing is stored, and nothing is left; without direct I/O,
/// the result says so.
#[test]
fn without_a_database() -> Result<()> {
    let env = MemoryEnv::new(1);
    env.create_dir(Path::new(DIR), step::DATABASE_CREATE).expect("it is new");
    let found = calibrate(&options(&env), DIR)?;
    assert_eq!((found.stored, found.direct_alignment, found.data_bytes), (None, None, DATA_BYTES));
    assert_eq!(found.device.check(), Ok(()));
    assert_eq!(names(&*env), [""; 0]);
    assert_eq!(options(&env).calibration(DIR)?, None);
    // A database may be made there.
    options(&env).open(DIR)?.close()
}

/// Whichever call fails, the error names it; the former figures stay, or the new ones are there,
/// and nothing is left that opening does not remove.
#[test]
fn every_call_fails() -> Result<()> {
    let (whole, old) = calibrated(sim::Device::SATA_SSD);
    let reads = Fault::new(Failure::Io).kind(CallKind::Read).matching(|call| call.bytes == 4096);
    let faults = STEPS.map(|step| (step.0, Fault::new(Failure::Io).step(step)));
    for (name, fault) in faults.into_iter().chain([("calibration: read data", reads)]) {
        let sim = whole.image(Crash::KeepAll);
        sim.set_device(Some(sim::Device::NVME_SSD));
        sim.inject(fault);
        let error = calibrate(&of(&sim), DIR).expect_err(name);
        assert_eq!(sim.faults_shown(), 1, "{name}");
        assert!(matches!(&error, Error::Io { operation, .. } if *operation == name), "{name}: {error}");
        let is_left = names(&sim).contains(&"CALIBRATION.new".to_owned());
        assert_eq!(is_left, name == step::CALIBRATION_REMOVE.0, "{name}");
        let found = of(&sim).calibration(DIR)?.expect("the former or the new ones");
        assert_eq!(found == old, name != step::CALIBRATION_SYNC_DIRECTORY.0, "{name}: {found:?}");
        check_database(&of(&sim));
        assert!(!names(&sim).contains(&"CALIBRATION.new".to_owned()), "{name}");
        let again = calibrate(&of(&sim), DIR)?;
        assert_ne!(again.device, old);
    }
    Ok(())
}

/// Whenever the machine stops, the former figures are there or the new ones, whole.
#[test]
fn crashes_leave_the_former_figures_or_the_new_ones() -> Result<()> {
    let (sim, old) = calibrated(sim::Device::SATA_SSD);
    sim.set_device(Some(sim::Device::NVME_SSD));
    let images = Arc::new(Mutex::new(Rank::Test, Vec::new()));
    let taken = images.clone();
    let mut calls = 0_u64;
    sim.set_hook(move |moment| {
        calls += 1;
        let step = moment.call.step.expect("it changes storage");
        // There are very many of these two, and all are alike.
        let is_one_of_many = [step::CALIBRATION_WRITE_DATA, step::CALIBRATION_SYNC_DATA].contains(&step);
        if !is_one_of_many || calls.is_multiple_of(101) {
            let ways = [Crash::LoseAll, Crash::KeepAll, Crash::ByFile { seed: calls }, Crash::Prefix(1)];
            taken.lock().extend(ways.map(|way| (step, moment.image(way))));
        }
    });
    let new = calibrate(&of(&sim), DIR)?.device;
    sim.clear_hook();
    assert_ne!(new, old);
    let images = std::mem::take(&mut *images.lock());
    assert!(STEPS.iter().all(|step| images.iter().any(|(taken, _)| taken == step)), "every step is met");
    let mut seen = [0; 2];
    for (step, image) in images {
        let found = of(&image).calibration(DIR)?.expect("there were some before");
        assert!(found == old || found == new, "{step:?}: {found:?}");
        seen[usize::from(found == new)] += 1;
        check_database(&of(&image));
        assert!(!names(&image).contains(&"CALIBRATION.new".to_owned()), "{step:?}");
        assert_eq!(of(&image).calibration(DIR)?, Some(found), "opening leaves it alone");
    }
    assert!(seen.iter().all(|count| *count > 0), "{seen:?}");
    Ok(())
}

/// The figures are no part of the data: a checkpoint lacks them, a repair leaves them, and without
/// a database they make none.
#[test]
fn beside_the_data() -> Result<()> {
    let (sim, device) = calibrated(sim::Device::SATA_SSD);
    let db = of(&sim).open(DIR)?;
    db.checkpoint("/checkpoint")?;
    assert_eq!(of(&sim).calibration(DIR)?, Some(device), "also of an open database");
    let refused = calibrate(&of(&sim), DIR).expect_err("it is open");
    assert!(matches!(refused, Error::Locked { .. }), "{refused}");
    db.close()?;
    assert_eq!(of(&sim).calibration("/checkpoint")?, None);

    sim.remove(Path::new("/db/CURRENT"), step::CURRENT_REMOVE).expect("it is there");
    assert!(of(&sim).repair(DIR, &mut |_, _| {})?.applied);
    assert_eq!(of(&sim).calibration(DIR)?, Some(device));
    check_database(&of(&sim));

    // An empty database is all that such a directory can become.
    let content = read_file(&sim, Path::new(FILE));
    let alone = SimEnv::new(2);
    alone.create_dir(Path::new(DIR), step::DATABASE_CREATE).expect("it is new");
    write_file(&alone, Path::new(FILE), &content);
    let refused = of(&alone).open_read_only(DIR).expect_err("there is no database");
    assert!(refused.to_string().contains("no database here"), "{refused}");
    of(&alone).open(DIR)?.close()?;
    assert_eq!(of(&alone).calibration(DIR)?, Some(device));
    Ok(())
}

/// A damaged file is an error, which says what to do; one of a newer version is none of damage.
#[test]
fn damage_is_an_error() -> Result<()> {
    let (sim, device) = calibrated(sim::Device::SATA_SSD);
    let content = read_file(&sim, Path::new(FILE));
    let load = |content: &[u8]| {
        write_file(&sim, Path::new(FILE), content);
        of(&sim).calibration(DIR)
    };
    for bit in (0..content.len() * 8).step_by(7) {
        let mut changed = content.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        let error = load(&changed).expect_err("it is damaged");
        assert!(matches!(&error, Error::Corruption { path, .. } if path == Path::new(FILE)), "{error}");
        assert!(error.to_string().contains("calibrate again"), "{error}");
    }
    for wrong in [&b""[..], &content[..content.len() - 1], &[b'#'; 200_000]] {
        assert!(matches!(load(wrong), Err(Error::Corruption { .. })), "{} bytes", wrong.len());
        check_database(&of(&sim));
    }
    let newer = load(encode_calibration("tamarack device 2\n").as_bytes()).expect_err("it is newer");
    assert!(matches!(newer, Error::Unsupported { .. }) && newer.to_string().contains("version 2"), "{newer}");
    assert_eq!(load(&content)?, Some(device));
    Ok(())
}

/// What is wrong is refused before anything is written.
#[test]
fn refusals() {
    let sim = SimEnv::new(1);
    sim.create_dir(Path::new(DIR), step::DATABASE_CREATE).expect("it is new");
    write_file(&sim, Path::new("/file"), b"text");
    let refused = |dir: &str, data_bytes, part: &str| {
        let error = of(&sim).calibrate(dir, data_bytes, TIME, &mut |_, _| {}).expect_err(part);
        assert!(matches!(error, Error::InvalidArgument(_)) && error.to_string().contains(part), "{error}");
    };
    refused(DIR, DATA_BYTES - 1, "at least 1048576 are needed");
    refused("/nowhere", DATA_BYTES, "no such directory");
    refused("/file", DATA_BYTES, "not a directory");
    sim.set_capacity(Some(3 << 20));
    refused(DIR, 2 << 20, "choose a smaller file");
    write_file(&sim, Path::new("/db/CALIBRATION.new"), b"");
    refused(DIR, DATA_BYTES, "was interrupted; remove the file");
    for dir in ["/nowhere", "/file"] {
        let error = of(&sim).calibration(dir).expect_err("no directory");
        assert!(matches!(error, Error::InvalidArgument(_)), "{error}");
    }
}
