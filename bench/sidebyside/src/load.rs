//! Filling a store, and copies of what was filled.

use std::fs;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;
use tamarack_env::histogram::Histogram;

use crate::data::Data;
use crate::stores::Store;

/// Puts the entries of `numbers`, in their order, dealt to `threads`. Returns the seconds from the
/// first put to the return of the last, and all latencies.
pub fn fill(store: &dyn Store, data: &Data, noise: &[u8], numbers: Range<u64>, threads: usize) -> (f64, Histogram) {
    let start_line = Barrier::new(threads + 1);
    thread::scope(|scope| {
        let writers: Vec<_> = (0..threads)
            .map(|thread| {
                let (start_line, share) = (&start_line, numbers.clone().skip(thread).step_by(threads));
                scope.spawn(move || {
                    start_line.wait();
                    fill_share(store, data, noise, share)
                })
            })
            .collect();
        start_line.wait();
        let began = Instant::now();
        let mut all = Histogram::default();
        for writer in writers {
            all.add(&writer.join().expect("a writer's failure ends the measurement"));
        }
        (began.elapsed().as_secs_f64(), all)
    })
}

/// The clock is read once per put: the end of one is the begin of the next.
fn fill_share(store: &dyn Store, data: &Data, noise: &[u8], numbers: impl Iterator<Item = u64>) -> Histogram {
    let (mut latencies, mut key, mut before) = (Histogram::default(), Vec::new(), Instant::now());
    for n in numbers {
        key.clear();
        data.push_key(n, &mut key);
        store.put(&key, data.value(noise, n));
        let after = Instant::now();
        latencies.note(after - before);
        before = after;
    }
    latencies
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

/// Tables of Tamarack, of RocksDB, and of fjall, which keeps them in a directory.
fn is_table(file: &Path) -> bool {
    let ending = file.extension().and_then(|ending| ending.to_str());
    ending == Some("sst") || file.parent().is_some_and(|parent| parent.ends_with("tables"))
}
