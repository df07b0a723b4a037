//! Databases: loaded once, and worked on in copies.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::data::Data;
use super::stores::{Kind, Place, Shape, Store};
use crate::run::settle;

/// The database of `kind` in `place`, below `dir`: loaded if it is not there yet.
pub fn loaded(kind: &dyn Kind, place: &Place, dir: &Path, noise: &[u8]) -> io::Result<PathBuf> {
    let Place { data, shape, .. } = place;
    let base = dir.join(format!("{}-{}-{}-{}", kind.files(), data.name, shape.name(), data.entries));
    let complete = base.with_extension("complete");
    if !complete.exists() {
        if base.exists() {
            fs::remove_dir_all(&base)?;
        }
        eprintln!("loading {}", base.display());
        fs::create_dir_all(dir)?;
        let store = kind.open(&base, &Place { direct_io: false, ..*place });
        load(store.as_ref(), data, *shape, noise);
        drop(store);
        settle();
        fs::write(complete, "")?;
    }
    Ok(base)
}

/// Entries come in the order of their numbers, which is a random order of keys.
fn load(store: &dyn Store, data: &Data, shape: Shape, noise: &[u8]) {
    let runs = match shape {
        Shape::Leveled => 1,
        Shape::Runs(runs) => runs,
    };
    let mut key = Vec::new();
    for run in 0..runs {
        for n in data.entries * run / runs..data.entries * (run + 1) / runs {
            key.clear();
            data.push_key(n, &mut key);
            store.put(&key, data.value(noise, n));
        }
        store.flush();
    }
    store.settle();
}

/// A copy of the database in `base`, which may be changed: tables, which no store changes, are links, and the rest is copied.
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

/// Tables of Tamarack, of RocksDB, and of fjall, which keeps them in a directory.
fn is_table(file: &Path) -> bool {
    let ending = file.extension().and_then(|ending| ending.to_str());
    matches!(ending, Some("table" | "sst")) || file.parent().is_some_and(|parent| parent.ends_with("tables"))
}
