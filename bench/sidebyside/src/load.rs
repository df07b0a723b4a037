//! Filling a store, and copies of what was filled.

use std::fs;
use std::io;
use std::ops::Range;
use std::path::Path;

use tamarack_env::histogram::Histogram;

use crate::data::Data;
use crate::drive::{Access, Done, drive};
use crate::stores::Store;

/// Puts the entries of `numbers`, in their order, dealt to `threads`. Returns the seconds from the
/// first put to the return of the last, and all latencies.
pub fn fill(store: &dyn Store, data: &Data, noise: &[u8], numbers: Range<u64>, threads: usize) -> (f64, Histogram) {
    let share = |thread| numbers.clone().skip(thread).step_by(threads).map(|n| (Access::Put, n));
    let driven = drive(store, data, noise, share, &Done::of(threads));
    (driven.seconds, driven.puts)
}

/// Makes a copy of the database in `base` for changing: tables, which no store changes, become
/// links, and the rest is copied.
pub fn copy(base: &Path, copy: &Path) -> io::Result<()> {
    fs::create_dir_all(copy)?;
    for file in fs::read_dir(base)? {
        let file = file?;
        let (from, to) = (file.path(), copy.join(file.file_name()));
        if file.file_type()?.is_dir() {
            self::copy(&from, &to)?;
        } else if is_table(&from) {
            fs::hard_link(&from, &to)?;
        } else {
            fs::copy(&from, &to)?;
        }
    }
    Ok(())
}

/// Tables of Tamarack and of RocksDB, of LevelDB, and of fjall, which keeps them in a directory.
fn is_table(file: &Path) -> bool {
    let ending = file.extension().and_then(|ending| ending.to_str());
    matches!(ending, Some("sst" | "ldb")) || file.parent().is_some_and(|parent| parent.ends_with("tables"))
}
