//! [`env`]: calls of the operating system that fail at random, as those of a device that is
//! about to break, of a process without descriptors, or on a disk that others fill.
//!
//! A failed call is not carried out; of a failed write half is written. Which calls fail depends on
//! the order in which threads make them, so a seed does not repeat a run.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::io::Errno;
use tamarack_env::{Env, OsEnv};
use tamarack_testing::{CarryOut, Hook, Hooked, HookedCall, Random};

/// One of so many calls fails: each second or so at full load.
const ONE_IN: u64 = 3000;

/// The operating system with such calls; `heard` is told which call failed, and how.
pub(crate) fn env(seed: u64, heard: fn(&str)) -> Arc<dyn Env> {
    Hooked::new(OsEnv::new(), Faults { random: Mutex::new(Random::new(seed)), heard })
}

/// A hook that fails calls.
#[derive(Debug)]
struct Faults {
    random: Mutex<Random>,
    /// Hears of each call that fails.
    heard: fn(&str),
}

impl Faults {
    /// The error of a call that shall fail.
    fn error(&self, call: HookedCall<'_>) -> Option<Errno> {
        let random = &mut *self.random.lock().unwrap_or_else(PoisonError::into_inner);
        random.one_in(ONE_IN).then(|| match call {
            HookedCall::Create(_) => *random.pick(&[Errno::IO, Errno::MFILE, Errno::NOSPC]),
            HookedCall::Write(..) | HookedCall::SetLen(..) => *random.pick(&[Errno::IO, Errno::NOSPC]),
            HookedCall::Remove(_) | HookedCall::SyncDir(_) | HookedCall::Read | HookedCall::Sync(_) => Errno::IO,
        })
    }
}

impl Hook for Faults {
    fn around(&self, path: &Path, call: HookedCall<'_>, carry_out: CarryOut<'_>) -> io::Result<usize> {
        let Some(error) = self.error(call) else { return carry_out() };
        let error = io::Error::from(error);
        let name = path.file_name().unwrap_or_default().display();
        let step = call.step().map_or("read", |step| step.0);
        (self.heard)(&format!("{step} of {name}: {error}"));
        Err(error)
    }
}
