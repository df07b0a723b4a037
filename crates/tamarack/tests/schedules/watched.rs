//! [`WatchedEnv`]: files in memory that remember what was synced, and fail when they are told to.
//!
//! ```text
//!   write_at ──► written ──sync──► durable      a sync makes earlier writes durable
//! ```

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tamarack_env::sync::{Mutex, Rank};
use tamarack_env::{MemoryEnv, Step};
use tamarack_testing::{CarryOut, Hook, Hooked, HookedCall};

/// An environment for one exploration.
pub(crate) type WatchedEnv = Hooked<Watch>;

/// What is known of all files.
#[derive(Debug)]
pub(crate) struct Watch {
    files: Mutex<BTreeMap<PathBuf, Bytes>>,
    /// A step, and at which of its calls from now it fails, once.
    failure: Mutex<Option<(Step, u32)>>,
}

/// What a file holds, and what of it a crash of the machine would leave for certain.
#[derive(Debug, Default)]
struct Bytes {
    written: Vec<u8>,
    durable: Vec<u8>,
}

/// Makes an environment without files.
pub(crate) fn watched_env() -> Arc<WatchedEnv> {
    let (files, failure) = (Mutex::new(Rank::Test, BTreeMap::new()), Mutex::new(Rank::Test, None));
    Hooked::new(MemoryEnv::new(1), Watch { files, failure })
}

impl Watch {
    /// The call number `call` (from 1) of `step` from now on fails, once.
    pub(crate) fn fail(&self, step: Step, call: u32) {
        *self.failure.lock() = Some((step, call));
    }

    /// True if a file whose name ends so holds `text` for certain.
    pub(crate) fn is_durable(&self, extension: &str, text: &str) -> bool {
        self.files.lock().iter().any(|(path, bytes)| {
            path.extension().is_some_and(|found| found == extension)
                && bytes.durable.windows(text.len()).any(|window| window == text.as_bytes())
        })
    }

    /// The files whose names end so and that hold what was not synced.
    pub(crate) fn unsynced(&self, extension: &str) -> Vec<PathBuf> {
        let files = self.files.lock();
        let unsynced = files.iter().filter(|(path, bytes)| {
            path.extension().is_some_and(|found| found == extension) && bytes.written != bytes.durable
        });
        unsynced.map(|(path, _)| path.clone()).collect()
    }

    /// Whether this call is the one that fails.
    fn check(&self, step: Step) -> io::Result<()> {
        let mut failure = self.failure.lock();
        match &mut *failure {
            Some((failing, call)) if *failing == step => {
                *call -= 1;
                if *call == 0 {
                    *failure = None;
                    return Err(io::Error::other("as ordered"));
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Nothing is noted of a file without a name.
    fn note(&self, path: &Path, change: impl FnOnce(&mut Bytes)) {
        if let Some(bytes) = self.files.lock().get_mut(path) {
            change(bytes);
        }
    }
}

impl Hook for Watch {
    fn around(&self, path: &Path, call: HookedCall<'_>, carry_out: CarryOut<'_>) -> io::Result<usize> {
        // What is written while a sync goes on may not be durable after it.
        let mut synced = Vec::new();
        if let HookedCall::Sync(_) = call {
            self.note(path, |file| synced.clone_from(&file.written));
        }
        if let Some(step) = call.step() {
            self.check(step)?;
        }
        let count = carry_out()?;
        match call {
            HookedCall::Create(_) => drop(self.files.lock().insert(path.to_owned(), Bytes::default())),
            HookedCall::Remove(_) => drop(self.files.lock().remove(path)),
            HookedCall::Write(_, bytes, offset) => self.note(path, |file| {
                let (start, end) = (offset as usize, offset as usize + count);
                file.written.resize(file.written.len().max(end), 0);
                file.written[start..end].copy_from_slice(&bytes[..count]);
            }),
            HookedCall::SetLen(_, length) => self.note(path, |file| file.written.truncate(length as usize)),
            HookedCall::Sync(_) => self.note(path, |file| file.durable = synced),
            HookedCall::Read | HookedCall::SyncDir(_) => {}
        }
        Ok(count)
    }
}
