//! Storage in memory each of whose reads takes as long as on a slower device.
//!
//! It waits by computing until the thread has used a given processor time, so that other programs
//! lengthen neither the waiting nor what the same clock measures.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use common::machine::thread_cpu_ns;
use tamarack_env::MemoryEnv;
use tamarack_testing::{CarryOut, Hook, Hooked, HookedCall};

/// The storage.
pub type Waiting = Hooked<Device>;

/// How long it takes.
#[derive(Debug, Default)]
pub struct Device {
    wait_ns: AtomicU64,
}

/// Makes a storage that does not wait yet.
pub fn waiting() -> Arc<Waiting> {
    Hooked::new(MemoryEnv::new(1), Device::default())
}

impl Device {
    /// From now on each read takes so long, besides what it takes in memory.
    pub fn set_wait_ns(&self, wait_ns: u64) {
        self.wait_ns.store(wait_ns, Ordering::Relaxed);
    }
}

impl Hook for Device {
    fn around(&self, _path: &Path, call: HookedCall<'_>, carry_out: CarryOut<'_>) -> io::Result<usize> {
        let wait_ns = self.wait_ns.load(Ordering::Relaxed);
        if wait_ns > 0 && matches!(call, HookedCall::Read) {
            let until = thread_cpu_ns() + wait_ns;
            while thread_cpu_ns() < until {
                std::hint::spin_loop();
            }
        }
        carry_out()
    }
}
