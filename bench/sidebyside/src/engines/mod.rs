//! The stores behind one narrow trait. Settings that only one store has stand in its file, with their reason.

mod fjall;
#[cfg(feature = "rocksdb")]
mod rocksdb;
mod tamarack;

use std::path::Path;

use crate::workload::Workload;

/// A kind of store.
pub trait Engine {
    /// Its name in tables.
    fn name(&self) -> &'static str;

    /// The crate whose version the report gives.
    fn package(&self) -> &'static str;

    /// How it was set up beyond what the workload says, and what could not be made equal.
    fn setup(&self) -> &'static str;

    /// Makes a store in the empty directory `dir`, without compression, and without merges unless the workload is to be settled.
    fn open(&self, dir: &Path, workload: &Workload, buffer_bytes: u64) -> Box<dyn Store>;
}

/// An open store. A failure of the store ends the measurement.
pub trait Store: Sync {
    /// Puts one entry with the durability that was asked for.
    fn put(&self, key: &[u8], value: &[u8]);

    /// Writes the buffers out and waits until nothing is left to be merged.
    fn settle(&self);

    /// Gets one value.
    fn get(&self, key: &[u8]) -> Option<Vec<u8>>;
}

/// All engines, in the order of a round.
pub fn all() -> Vec<Box<dyn Engine>> {
    vec![
        Box::new(tamarack::Tamarack),
        #[cfg(feature = "rocksdb")]
        Box::new(rocksdb::RocksDb),
        Box::new(fjall::Fjall),
    ]
}
