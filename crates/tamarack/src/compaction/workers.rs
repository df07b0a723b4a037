//! [`WorkerGroup`]: several workers as one.

use std::sync::Arc;

use tamarack_env::Worker;

/// Workers that share their work: they are woken and stopped together.
#[derive(Default)]
pub struct WorkerGroup {
    /// The workers.
    pub members: Vec<Arc<dyn Worker>>,
}

impl Worker for WorkerGroup {
    fn wake(&self) {
        self.members.iter().for_each(|member| member.wake());
    }

    fn stop(&self) {
        self.members.iter().for_each(|member| member.stop());
    }
}
