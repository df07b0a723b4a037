//! [`GatedEnv`]: files in memory, with a gate before the reads of tables.
//!
//! While the gate is closed, whoever reads a table waits. So a test can show what goes on
//! meanwhile, and what waits for the reader.

use std::io;
use std::path::Path;
use std::sync::Arc;

use tamarack_env::MemoryEnv;
use tamarack_env::sync::{Condvar, Mutex, Rank};
use tamarack_testing::{CarryOut, Hook, Hooked, HookedCall};

/// An environment whose reads of tables can be held up.
pub(crate) type GatedEnv = Hooked<Gate>;

/// The gate.
#[derive(Debug)]
pub(crate) struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct GateState {
    is_closed: bool,
    /// The number of reads that wait at the gate.
    waiting: usize,
}

/// Makes an environment whose gate is open.
pub(crate) fn gated_env() -> Arc<GatedEnv> {
    let gate = Gate { state: Mutex::new(Rank::Test, GateState::default()), changed: Condvar::new() };
    Hooked::new(MemoryEnv::new(1), gate)
}

impl Gate {
    /// From now on, reads of tables wait.
    pub(crate) fn close(&self) {
        self.state.lock().is_closed = true;
    }

    /// Lets all reads go on.
    pub(crate) fn open(&self) {
        self.state.lock().is_closed = false;
        self.changed.notify_all();
    }

    /// Blocks until a read waits at the gate.
    pub(crate) fn wait_for_reader(&self) {
        let mut state = self.state.lock();
        while state.waiting == 0 {
            state = self.changed.wait(state);
        }
    }

    fn pass(&self) {
        let mut state = self.state.lock();
        state.waiting += 1;
        self.changed.notify_all();
        while state.is_closed {
            state = self.changed.wait(state);
        }
        state.waiting -= 1;
    }
}

impl Hook for Gate {
    fn around(&self, path: &Path, call: HookedCall<'_>, carry_out: CarryOut<'_>) -> io::Result<usize> {
        if matches!(call, HookedCall::Read) && path.extension().is_some_and(|extension| extension == "sst") {
            self.pass();
        }
        carry_out()
    }
}
