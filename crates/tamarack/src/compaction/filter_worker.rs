//! [`FilterWorker`]: the worker that rebuilds filters, beside flushes and compactions. Its state is
//! in [`FilterRebuild`](super::filter_rebuild::FilterRebuild).

use std::sync::Arc;

use tamarack_env::{Progress, Work};

use crate::compaction::scheduler::Scheduler;

/// Rebuilds the filters of a scheduler's tables.
pub struct FilterWorker(Arc<Scheduler>);

impl FilterWorker {
    /// For the tables of that scheduler. Says at once what tables are to be opened with, and loads
    /// some of them.
    pub fn new(scheduler: &Arc<Scheduler>) -> Self {
        scheduler.filters().begin(&scheduler.view_at_opening());
        Self(scheduler.clone())
    }
}

impl Work for FilterWorker {
    fn step(&self) -> Progress {
        if self.0.has_ended() { Progress::Done } else { self.0.filter_step() }
    }
}
