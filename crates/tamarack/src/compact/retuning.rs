//! [`Retuning`]: which tables are still to get other filters. What is done about it: `compact::scheduler::retune`.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use tamarack_env::Worker;
use tamarack_env::sync::Mutex;

use crate::error::Error;
use crate::format::meta::EditNumber;
use crate::table::FilterTarget;
use crate::tree::table_file::TableFile;

/// What it was reckoned for: an edit, and a choice of filters.
pub(super) type Moment = (EditNumber, u64);

/// How far retuning is.
#[derive(Default)]
pub(super) struct Retuning {
    pub(super) worker: OnceLock<Arc<dyn Worker>>,
    pub(super) state: Mutex<State>,
}

/// What is left to do.
#[derive(Default)]
pub(super) struct State {
    /// What the list is for.
    pub(super) of: Option<Moment>,
    pub(super) list: VecDeque<(Weak<TableFile>, FilterTarget)>,
    /// The last choice of filters that all tables were given.
    pub(super) settled: Option<u64>,
    /// After a failure: not before that time.
    pub(super) pause_until: Duration,
    pub(super) trouble: Option<Error>,
}

impl Retuning {
    pub(super) fn wake(&self) {
        if let Some(worker) = self.worker.get() {
            worker.wake();
        }
    }
}
