//! [`OpenFiles`]: how many files of tables are open at a time.
//!
//! A tree can have more tables than a process may have open files, so the file of a table is closed
//! when others are needed, and opened again when the table is read next. The table's index and
//! filter stay in memory, so only reads of blocks need the file.
//!
//! ```text
//! read ─► file open: mark it as used, read            no lock
//!      └► file closed: close others if needed, open   one lock, to choose what is closed
//! ```
//!
//! Which file is closed: the first in a circle that was not used since the circle was last walked
//! through (the clock algorithm). A read in progress keeps its file until it ends, so for a moment
//! more files are open than the limit: at most one for each read in flight, of which a queue of
//! reads has at most a sixteenth of the limit. So sixteen threads with a queue each take twice the
//! limit, which by default is half of what the process may have.
//!
//! The name of a table's file stays as long as the table is referenced, so opening again finds the
//! same file; what is read is checked as ever.
//!
//! Tests: here, on the memory environment; `tests/descriptors.rs`, with a limit of the operating
//! system and far more tables.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use tamarack_env::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use tamarack_env::sync::{Mutex, Rank};
use tamarack_env::{Access, Env, File, is_out_of_descriptors};

/// The open files of tables.
pub(super) struct OpenFiles {
    env: Arc<dyn Env>,
    access: Access,
    max: usize,
    clock: Mutex<FileCircle>,
    reopened: AtomicU64,
}

impl fmt::Debug for OpenFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenFiles").field("max", &self.max).finish_non_exhaustive()
    }
}

/// The circle of open files.
#[derive(Default)]
struct FileCircle {
    open: Vec<Arc<FileSlot>>,
    hand: usize,
}

/// The file of a table, while it is open.
#[derive(Debug, Default)]
struct FileSlot {
    file: ArcSwapOption<Arc<dyn File>>,
    /// Whether it was read since the hand passed.
    used: AtomicBool,
    /// Its place in the circle, if it is open. Changes under the lock of the circle only.
    place: AtomicUsize,
}

/// The file of a table, open or not. Its name must stay until this is dropped.
pub(super) struct PooledFile {
    slot: Arc<FileSlot>,
    /// `None` if it stays open.
    files: Option<Arc<OpenFiles>>,
}

impl fmt::Debug for PooledFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.slot.fmt(f)
    }
}

impl OpenFiles {
    /// Creates the set of files that are read by `access`, of which at most `max` are open.
    pub(super) fn new(env: Arc<dyn Env>, access: Access, max: usize) -> Arc<Self> {
        let clock = Mutex::new(Rank::OpenFiles, FileCircle::default());
        Arc::new(Self { env, access, max: max.max(1), clock, reopened: AtomicU64::new(0) })
    }

    /// Opens a file.
    pub(super) fn open(self: &Arc<Self>, path: &Path) -> io::Result<PooledFile> {
        let pooled = PooledFile { slot: Arc::default(), files: Some(self.clone()) };
        self.open_slot(&pooled.slot, path)?;
        Ok(pooled)
    }

    /// Returns true if another file can be opened without closing one.
    pub(super) fn can_open_another(&self) -> bool {
        self.clock.lock().open.len() < self.max
    }

    /// How many reads of one queue may be in flight: their files are open, in the circle or not.
    pub(super) fn in_flight_max(&self) -> usize {
        (self.max / 16).max(1)
    }

    /// The number of files that were opened again after they had been closed for others.
    pub(super) fn reopened(&self) -> u64 {
        self.reopened.load(Ordering::Relaxed)
    }

    #[cold]
    fn open_slot(&self, slot: &Arc<FileSlot>, path: &Path) -> io::Result<Arc<Arc<dyn File>>> {
        self.shrink(self.max - 1);
        let opened = match self.env.open(path, self.access) {
            // Others in this process, or on this machine, have files open.
            Err(error) if is_out_of_descriptors(&error) => {
                self.shrink(0);
                self.env.open(path, self.access)?
            }
            opened => opened?,
        };
        let mut clock = self.clock.lock();
        // Another thread may have been faster.
        if let Some(file) = slot.file.load_full() {
            return Ok(file);
        }
        if clock.open.len() >= self.max {
            clock.close_one();
        }
        let file = Arc::new(opened);
        slot.place.store(clock.open.len(), Ordering::Relaxed);
        slot.used.store(true, Ordering::Relaxed);
        clock.open.push(slot.clone());
        slot.file.store(Some(file.clone()));
        Ok(file)
    }

    /// Closes files until at most `kept` are open.
    fn shrink(&self, kept: usize) {
        let mut clock = self.clock.lock();
        while clock.open.len() > kept {
            clock.close_one();
        }
    }
}

impl FileCircle {
    /// Closes the first file that was not used since the hand last passed it.
    fn close_one(&mut self) {
        loop {
            self.hand = if self.hand < self.open.len() { self.hand } else { 0 };
            if !self.open[self.hand].used.swap(false, Ordering::Relaxed) {
                return self.remove(self.hand);
            }
            self.hand += 1;
        }
    }

    fn remove(&mut self, place: usize) {
        let slot = self.open.swap_remove(place);
        slot.file.store(None);
        if let Some(moved) = self.open.get(place) {
            moved.place.store(place, Ordering::Relaxed);
        }
    }
}

impl PooledFile {
    /// A file that stays open: for one that is read once and dropped.
    pub(super) fn alone(file: Arc<dyn File>) -> Self {
        let slot = FileSlot { file: ArcSwapOption::from_pointee(file), ..FileSlot::default() };
        Self { slot: Arc::new(slot), files: None }
    }

    /// Calls `read` with the file, and opens it first if it is closed. `path` is its name.
    #[inline]
    pub(super) fn with<R>(&self, path: &Path, read: impl FnOnce(&Arc<dyn File>) -> R) -> io::Result<R> {
        let file = self.slot.file.load();
        match &*file {
            Some(file) => {
                // A store to a line that others read only where it changes something.
                if !self.slot.used.load(Ordering::Relaxed) {
                    self.slot.used.store(true, Ordering::Relaxed);
                }
                Ok(read(file))
            }
            None => {
                drop(file);
                let files = self.files.as_ref().expect("a file outside of the circle stays open");
                files.reopened.fetch_add(1, Ordering::Relaxed);
                Ok(read(&*files.open_slot(&self.slot, path)?))
            }
        }
    }
}

impl Drop for PooledFile {
    fn drop(&mut self) {
        let Some(files) = &self.files else { return };
        let mut clock = files.clock.lock();
        if self.slot.file.load().is_some() {
            clock.remove(self.slot.place.load(Ordering::Relaxed));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use tamarack_env::{MemoryEnv, Step};

    use super::*;

    const STEP: Step = Step("test: any");

    fn path(number: usize) -> PathBuf {
        PathBuf::from(format!("/{number}"))
    }

    fn files(env: &Arc<dyn Env>, count: usize, max: usize) -> (Arc<OpenFiles>, Vec<PooledFile>) {
        for number in 0..count {
            let file = env.create(&path(number), STEP).expect("a new file");
            file.write_all_at(&[number as u8; 8], 0, STEP).expect("written");
        }
        let files = OpenFiles::new(env.clone(), Access::Read, max);
        let pooled = (0..count).map(|number| files.open(&path(number)).expect("opened")).collect();
        (files, pooled)
    }

    fn open(files: &OpenFiles) -> Vec<usize> {
        let clock = files.clock.lock();
        for (place, slot) in clock.open.iter().enumerate() {
            assert_eq!(slot.place.load(Ordering::Relaxed), place);
            assert!(slot.file.load().is_some(), "slot {place}");
        }
        (0..clock.open.len()).collect()
    }

    fn read(pooled: &PooledFile, number: usize) {
        let mut bytes = [0; 8];
        pooled.with(&path(number), |file| file.read_exact_at(&mut bytes, 0)).expect("opened").expect("read");
        assert_eq!(bytes, [number as u8; 8]);
    }

    /// Whatever is read in whatever order, at most `max` files are open, all of them in the circle
    /// where they say; and dropped ones are not in it.
    #[test]
    fn no_more_are_open_than_the_limit() {
        let env: Arc<dyn Env> = MemoryEnv::new(1);
        let (files, mut pooled) = files(&env, 50, 7);
        let mut state = 1u64;
        for _ in 0..5_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let number = (state >> 33) as usize % pooled.len();
            read(&pooled[number], number);
            assert!(open(&files).len() <= 7);
        }
        while pooled.len() > 3 {
            pooled.pop();
            assert!(open(&files).len() <= pooled.len());
        }
        assert!(files.reopened() > 1_000, "{} files were opened again", files.reopened());
    }

    /// A file that is read between any two others stays open.
    #[test]
    fn what_is_used_stays_open() {
        let env: Arc<dyn Env> = MemoryEnv::new(1);
        let (files, pooled) = files(&env, 40, 8);
        read(&pooled[0], 0);
        let before = files.reopened();
        for number in (1..40).cycle().take(1_000) {
            read(&pooled[number], number);
            read(&pooled[0], 0);
        }
        assert_eq!(files.reopened() - before, 1_000, "only the others, which are read in turn");
    }

    /// Threads read what they ask for while others close it.
    #[test]
    fn threads_share_the_limit() {
        let env: Arc<dyn Env> = MemoryEnv::new(1);
        let (files, pooled) = files(&env, 30, 4);
        tamarack_env::sync::thread::scope(|scope| {
            for thread in 0..4 {
                let pooled = &pooled;
                scope.spawn(move || {
                    for turn in 0..3_000 {
                        let number = (turn * (thread + 3) + turn / 7) % pooled.len();
                        read(&pooled[number], number);
                    }
                });
            }
        });
        assert!(open(&files).len() <= 4);
    }
}
