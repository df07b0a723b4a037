//! Devices that argument `device` names: by a name, a file with figures, or a calibrated database.

use std::path::Path;

use tamarack::{Error, Options};
use tamarack_model::device::Device;

use crate::files;
use crate::outcome::Failure;

/// The device that argument `device` means. A name comes before a file or a directory that is
/// called so, for which one can write `./nvme`.
pub(super) fn named(name: &str) -> Result<Device, Failure> {
    if let Some(device) = Device::named(name) {
        return Ok(device);
    }
    let path = Path::new(name);
    if !path.exists() {
        let names = Device::NAMES.join(", ");
        return Err(Failure::Usage(format!("--device {name}: neither one of {names} nor a file or a database")));
    }
    if path.is_dir() {
        return stored(path);
    }
    files::read_text(path)?.parse().map_err(|error| Failure::Usage(format!("{name}: {error}")))
}

/// The device whose figures are stored with a database.
fn stored(dir: &Path) -> Result<Device, Failure> {
    let calibrate = format!("`tamarack calibrate {}`", dir.display());
    let stored = Options::new().calibration(dir).map_err(|error| match error {
        Error::Corruption { path, .. } => Failure::Storage(format!(
            "{}: damaged: its checksum does not fit the figures; run {calibrate} again",
            path.display()
        )),
        error => error.into(),
    })?;
    stored.ok_or_else(|| Failure::Usage(format!("{}: no figures are stored here; run {calibrate}", dir.display())))
}
