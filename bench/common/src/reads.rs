//! Reads whose bytes nobody wants.

use std::io;

use tamarack_env::{ReadQueue, ReadRequest};

/// Requests, read from the last one on; what is read is thrown away.
pub struct DiscardedReads {
    requests: Vec<ReadRequest>,
    /// An error of one of them.
    pub outcome: io::Result<()>,
}

impl DiscardedReads {
    /// Asks for these.
    pub fn new(requests: impl IntoIterator<Item = ReadRequest>) -> Self {
        Self { requests: requests.into_iter().collect(), outcome: Ok(()) }
    }
}

impl ReadQueue for DiscardedReads {
    fn next(&mut self) -> Option<ReadRequest> {
        self.requests.pop()
    }

    fn arrived(&mut self, _: usize, bytes: io::Result<&[u8]>) {
        if let Err(error) = bytes {
            self.outcome = Err(error);
        }
    }
}
