//! Calibration: measures the figures of a [`Device`] where a database is, and keeps them there.
//!
//! ```text
//! directory ──▶ storage ───▶ times of reads, writes, syncs ─┐
//!                                                           ├──▶ Device ──▶ CALIBRATION
//! memory ─────▶ processor ─▶ times of the engine's own code ┘
//! ```
//!
//! * [`storage`] writes a temporary file in the directory and reads it back, past the page cache
//!   where the file system can.
//! * [`processor`] calls hash, filters, index and blocks as a lookup does.
//! * [`tree`] uses a database in memory for what only a whole one does: puts, lookups, scans,
//!   compactions; [`device_reads`] lets its reads take what they take on the device.
//! * [`calibration`](crate::calibration) keeps the figures in the directory of a database.
//!
//! Each figure is the median of several rounds, so that a pause of the machine in some of them does
//! no harm. Other work on the machine does: a calibration measures what it leaves.
//!
//! # What it cannot see
//!
//! Caches below the file system: a drive, a controller or a host that keeps what was just written
//! in memory answers faster than it will with more data. The larger the file, the smaller their
//! part. Nor the drift of a drive that is written to for hours.
//!
//! Where the clock stands still, as the simulator's may, every time is one nanosecond: figures are
//! above 0 on any environment.
//!
//! Tests: `calibration`, and `tests/suite/calibration.rs`.

mod device_reads;
mod entries;
mod plan;
mod processor;
mod storage;
mod tree;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tamarack_env::Env;
use tamarack_model::device::{DEVICE_FIGURES, Device};

use crate::calibration;
use crate::directory::Listing;
use crate::engine::{not_a_directory, take_lock};
use crate::error::{Error, Result};
use crate::format::names::FileName;
use crate::options::Options;
use crate::step;

use plan::Plan;

/// The smallest file that a calibration reads and writes.
const DATA_BYTES_MIN: u64 = 1 << 20;

/// The result of a calibration.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Calibration {
    /// The measured figures, with four significant digits.
    pub device: Device,
    /// The alignment of direct reads in bytes. `None` if the file system has none: then reads came
    /// from the page cache, and their figures are those of memory.
    pub direct_alignment: Option<usize>,
    /// Bytes of the file that was written and read; fewer than asked for if the device is slow.
    pub data_bytes: u64,
    /// The file with the figures; `None` if there is no database in the directory.
    pub stored: Option<PathBuf>,
}

impl Options {
    /// Measures the device of the directory `dir` and the processor, in about `time`, and stores
    /// the figures if there is a database in `dir`, which must not be open. Replaces those of an
    /// earlier calibration. Only the environment of the options matters.
    ///
    /// Writes a temporary file of `data_bytes` (at least 1 MiB, at most half of the free space),
    /// which should be large beside the caches of the device; fewer if the device cannot write them
    /// in a quarter of the time. The file is gone afterwards, also after an error or if the process
    /// ends. Takes up to 150 MB of memory.
    ///
    /// `progress` gets the thousandths that are done, and 1000.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if `dir` is no directory, or `data_bytes` is out of range;
    /// [`Error::Locked`] if the database is open; [`Error::Io`] if storage fails: the stored
    /// figures are the former ones then, or the new ones.
    pub fn calibrate(
        &self,
        dir: impl AsRef<Path>,
        data_bytes: u64,
        time: Duration,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Calibration> {
        calibrate(&self.resolve()?.env, dir.as_ref(), data_bytes, time, progress)
    }

    /// Returns the figures that [`Options::calibrate`] stored in the directory `dir`; `None` if
    /// there are none. The database may be open.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if `dir` is no directory; [`Error::Corruption`] if the file is
    /// damaged: calibrate again; [`Error::Unsupported`] if a newer version wrote it;
    /// [`Error::Io`] if it cannot be read.
    pub fn calibration(&self, dir: impl AsRef<Path>) -> Result<Option<Device>> {
        let env = self.resolve()?.env;
        let listing = listing(&*env, dir.as_ref())?;
        let is_there = listing.files().any(|file| file == FileName::Calibration);
        is_there.then(|| calibration::load(&*env, dir.as_ref())).transpose()
    }
}

fn calibrate(
    shared_env: &Arc<dyn Env>,
    dir: &Path,
    data_bytes: u64,
    time: Duration,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Calibration> {
    let env = &**shared_env;
    if data_bytes < DATA_BYTES_MIN {
        let what = format!("a calibration with a file of {data_bytes} bytes: at least {DATA_BYTES_MIN} are needed");
        return Err(Error::InvalidArgument(what));
    }
    let files: Vec<FileName> = listing(env, dir)?.files().collect();
    let is_database = files.contains(&FileName::Current);
    // Nobody else writes to the device, and nobody else calibrates.
    let _lock = if is_database { Some(take_lock(env, dir)?) } else { None };
    if files.contains(&FileName::CalibrationNew) {
        remove_leftover(env, dir, is_database)?;
    }
    check_space(env, dir, data_bytes)?;
    let mut plan = Plan::new(env, time, progress);
    let storage = storage::measure(env, dir, data_bytes, &mut plan)?;
    let processor = processor::measure(shared_env, &storage, data_bytes, time, &mut plan)?;
    let device = Device {
        read_seconds: storage.read_seconds,
        reads_per_second: storage.reads_per_second,
        read_bytes_per_second: storage.read_bytes_per_second,
        write_bytes_per_second: storage.write_bytes_per_second,
        sync_seconds: storage.sync_seconds,
        // A database in memory calls no operating system.
        put_seconds: processor.put_seconds + storage.append_seconds,
        ..processor
    };
    let device = rounded(device);
    device.check().unwrap_or_else(|error| panic!("every figure is measured: {error}"));
    let stored = is_database.then(|| calibration::store(env, dir, &device)).transpose()?;
    Ok(Calibration { device, direct_alignment: storage.direct_alignment, data_bytes: storage.data_bytes, stored })
}

/// The device with four significant digits of each figure; the others are noise.
fn rounded(mut device: Device) -> Device {
    for figure in DEVICE_FIGURES {
        let digits = format!("{:.3e}", figure.get(&device));
        figure.set(&mut device, digits.parse().unwrap_or_else(|error| panic!("{digits} is a number: {error}")));
    }
    device
}

fn listing(env: &dyn Env, dir: &Path) -> Result<Listing> {
    match Listing::find(env, dir) {
        Ok(Some(listing)) => Ok(listing),
        Ok(None) => {
            let what = "there is no such directory; give that of a database, or another one on the device";
            Err(Error::InvalidArgument(format!("{}: {what}", dir.display())))
        }
        Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotADirectory => {
            Err(not_a_directory(dir))
        }
        Err(error) => Err(error),
    }
}

/// Removes what an interrupted calibration left. Only the lock of a database tells that from the
/// file of one in progress.
fn remove_leftover(env: &dyn Env, dir: &Path, is_database: bool) -> Result<()> {
    let path = FileName::CalibrationNew.path(dir);
    if !is_database {
        let what = "another calibration of this directory is in progress, or was interrupted; remove the file then";
        return Err(Error::InvalidArgument(format!("{}: {what}", path.display())));
    }
    env.remove(&path, step::CALIBRATION_REMOVE).map_err(|error| Error::io(step::CALIBRATION_REMOVE.0, &path, error))
}

/// Refuses to fill the disk.
fn check_space(env: &dyn Env, dir: &Path, data_bytes: u64) -> Result<()> {
    let space = env.space(dir).map_err(|error| Error::io("calibration: read free space", dir, error))?;
    match space {
        Some(space) if space.free_bytes / 2 < data_bytes => Err(Error::InvalidArgument(format!(
            "{}: a calibration with a file of {data_bytes} bytes needs twice as many free bytes, and there are {}; free some space, or choose a smaller file",
            dir.display(),
            space.free_bytes
        ))),
        _ => Ok(()),
    }
}
