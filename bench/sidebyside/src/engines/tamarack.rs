//! Tamarack.

use std::path::Path;

use super::{Engine, Store};
use crate::workload::{Durability, Workload};
use ::tamarack::{Compression, Db, Expert, MergePause, Options};

pub struct Tamarack;

struct Open {
    db: Db,
    /// Held as long as nothing is to be merged.
    _pause: Option<MergePause>,
}

impl Engine for Tamarack {
    fn name(&self) -> &'static str {
        "tamarack"
    }

    fn package(&self) -> &'static str {
        "tamarack"
    }

    fn setup(&self) -> &'static str {
        "no filters; up to three sealed buffers; merges paused, but for loadrandom, where it is leveled with a size ratio of 10; two background threads"
    }

    fn open(&self, dir: &Path, workload: &Workload, buffer_bytes: u64) -> Box<dyn Store> {
        let durability = match workload.durability {
            Durability::Buffered => ::tamarack::Durability::Buffered,
            Durability::Sync => ::tamarack::Durability::Sync,
        };
        let expert = Expert::new().filter("none").buffer_bytes(buffer_bytes).sealed_max(3);
        let options = Options::new().durability(durability).compression(Compression::None).threads(2).expert(expert);
        let db = options.open(dir.join("db")).expect("tamarack opens");
        let pause = (!workload.settled).then(|| db.pause_merges());
        Box::new(Open { db, _pause: pause })
    }
}

impl Store for Open {
    fn put(&self, key: &[u8], value: &[u8]) {
        self.db.put(key, value).expect("tamarack puts");
    }

    fn settle(&self) {
        self.db.flush().expect("tamarack flushes");
        self.db.wait_for_merges().expect("tamarack merges");
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.db.get(key).expect("tamarack gets").map(|value| value.to_vec())
    }
}
