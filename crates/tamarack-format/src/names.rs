//! The names of a database's files.
//!
//! ```text
//! LOCK                  locked while the database is open
//! CURRENT               one line: the name of the current manifest
//! CURRENT.new           the next CURRENT, before it is renamed
//! CALIBRATION           measured figures of the device
//! CALIBRATION.new       what a calibration reads and writes; the next CALIBRATION
//! 0000000007.manifest   edits, one after another
//! 0000000012.wal        a segment of the WAL
//! 0000000031.sst        a table
//! ```

use std::path::{Path, PathBuf};

/// The largest number in a name. A database that made a thousand files each second would need nine
/// thousand years to get there, so larger numbers are nobody's: a name with one is not that of a
/// database's file.
pub const FILE_NUMBER_MAX: u64 = (1 << 48) - 1;

/// A file of a database, by its name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum FileName {
    /// `LOCK`.
    Lock,
    /// `CURRENT`.
    Current,
    /// `CURRENT.new`.
    CurrentNew,
    /// `CALIBRATION`.
    Calibration,
    /// `CALIBRATION.new`.
    CalibrationNew,
    /// A manifest with its number.
    Manifest(u64),
    /// A WAL segment with its number.
    Wal(u64),
    /// A table with its number.
    Table(u64),
}

impl FileName {
    /// The name as a string.
    pub fn name(self) -> String {
        match self {
            Self::Lock => "LOCK".to_owned(),
            Self::Current => "CURRENT".to_owned(),
            Self::CurrentNew => "CURRENT.new".to_owned(),
            Self::Calibration => "CALIBRATION".to_owned(),
            Self::CalibrationNew => "CALIBRATION.new".to_owned(),
            Self::Manifest(number) => format!("{number:010}.manifest"),
            Self::Wal(number) => format!("{number:010}.wal"),
            Self::Table(number) => format!("{number:010}.sst"),
        }
    }

    /// The path in the database's directory.
    pub fn path(self, dir: &Path) -> PathBuf {
        dir.join(self.name())
    }

    /// Its number, if it is a manifest.
    pub fn manifest(&self) -> Option<u64> {
        match self {
            Self::Manifest(number) => Some(*number),
            _ => None,
        }
    }

    /// Its number, if it is a WAL segment.
    pub fn wal(&self) -> Option<u64> {
        match self {
            Self::Wal(number) => Some(*number),
            _ => None,
        }
    }

    /// Its number, if it is a table.
    pub fn table(&self) -> Option<u64> {
        match self {
            Self::Table(number) => Some(*number),
            _ => None,
        }
    }

    /// Parses a name; `None` if it is not that of a database's file.
    pub fn parse(name: &str) -> Option<Self> {
        let file = match name {
            "LOCK" => Self::Lock,
            "CURRENT" => Self::Current,
            "CURRENT.new" => Self::CurrentNew,
            "CALIBRATION" => Self::Calibration,
            "CALIBRATION.new" => Self::CalibrationNew,
            _ => {
                let (number, kind) = name.split_once('.')?;
                let number = number.parse().ok().filter(|number| *number <= FILE_NUMBER_MAX)?;
                match kind {
                    "manifest" => Self::Manifest(number),
                    "wal" => Self::Wal(number),
                    "sst" => Self::Table(number),
                    _ => return None,
                }
            }
        };
        // One file has one name: "1.wal" or "+000000001.wal" are not ours.
        (file.name() == name).then_some(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_others_are_refused() {
        for file in [
            FileName::Lock,
            FileName::Current,
            FileName::CurrentNew,
            FileName::Calibration,
            FileName::CalibrationNew,
            FileName::Manifest(7),
            FileName::Wal(FILE_NUMBER_MAX),
            FileName::Table(0),
        ] {
            assert_eq!(FileName::parse(&file.name()), Some(file));
        }
        for name in
            ["", "1.wal", "+000000001.wal", "0000000001.log", "lock", "0000000001.wal.bak", "281474976710656.sst"]
        {
            assert_eq!(FileName::parse(name), None, "{name}");
        }
    }
}
