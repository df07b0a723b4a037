//! `CALIBRATION`: the measured figures in the directory of a database, for cost models.
//!
//! Written as a whole under another name, synced and renamed, so that there are the former figures
//! or the new ones, after a crash too. They are no part of the data: opening, verification and
//! repair pass over the file, and a checkpoint does not copy it, for it may be on another device.

use std::io;
use std::path::{Path, PathBuf};

use tamarack_env::{Access, Env, Step};
use tamarack_model::device::Device;

use crate::error::{Error, Result};
use crate::format::calibration::{CALIBRATION_BYTES_MAX, decode_calibration, encode_calibration};
use crate::format::names::FileName;
use crate::step;

/// Stores figures in the locked directory of a database; returns the file.
pub(crate) fn store(env: &dyn Env, dir: &Path, device: &Device) -> Result<PathBuf> {
    let (new, path) = (FileName::CalibrationNew.path(dir), FileName::Calibration.path(dir));
    let failed = |step: Step, path: &Path| {
        let path = path.to_owned();
        move |source: io::Error| Error::io(step.0, &path, source)
    };
    let file = env.create(&new, step::CALIBRATION_CREATE).map_err(failed(step::CALIBRATION_CREATE, &new))?;
    let content = encode_calibration(&device.to_string());
    let written = file
        .write_all_at(content.as_bytes(), 0, step::CALIBRATION_WRITE)
        .map_err(failed(step::CALIBRATION_WRITE, &new))
        .and_then(|()| file.sync(step::CALIBRATION_SYNC).map_err(failed(step::CALIBRATION_SYNC, &new)))
        .and_then(|()| {
            env.rename(&new, &path, step::CALIBRATION_RENAME).map_err(failed(step::CALIBRATION_RENAME, &path))
        });
    if let Err(error) = written {
        // The next opening removes it, if this does not.
        drop(env.remove(&new, step::CALIBRATION_REMOVE));
        return Err(error);
    }
    env.sync_dir(dir, step::CALIBRATION_SYNC_DIRECTORY).map_err(failed(step::CALIBRATION_SYNC_DIRECTORY, dir))?;
    Ok(path)
}

/// Loads the figures; the file is there.
pub(crate) fn load(env: &dyn Env, dir: &Path) -> Result<Device> {
    let path = FileName::Calibration.path(dir);
    let damaged = |what: &str| Error::corruption(&path, 0, format!("{what}; calibrate again to replace the file"));
    let failed = |source| Error::io("calibration: read", &path, source);
    let file = env.open(&path, Access::Read).map_err(failed)?;
    if file.len().map_err(failed)? > CALIBRATION_BYTES_MAX {
        return Err(damaged("the file is far too large for figures of a device"));
    }
    let content = file.read_all().map_err(failed)?;
    let text = decode_calibration(&content).ok_or_else(|| damaged("the checksum does not fit the figures"))?;
    // Its checksum says that it is what was written; so it was another version that wrote it.
    text.parse().map_err(|error| Error::Unsupported { path: path.clone(), what: format!("{error}") })
}
