//! Tamarack.

use std::path::Path;

use super::{Engine, Store};
use crate::workload::Durability;
use ::tamarack::{Compression, Db, Expert, Options};

pub struct Tamarack;

impl Engine for Tamarack {
    fn name(&self) -> &'static str {
        "tamarack"
    }

    fn package(&self) -> &'static str {
        "tamarack"
    }

    fn setup(&self) -> &'static str {
        "up to three sealed buffers"
    }

    fn open(&self, dir: &Path, durability: Durability, buffer_bytes: u64) -> Box<dyn Store> {
        let durability = match durability {
            Durability::Buffered => ::tamarack::Durability::Buffered,
            Durability::Sync => ::tamarack::Durability::Sync,
        };
        let expert = Expert::new().buffer_bytes(buffer_bytes).sealed_max(3);
        let options = Options::new().durability(durability).compression(Compression::None).expert(expert);
        Box::new(options.open(dir.join("db")).expect("tamarack opens"))
    }
}

impl Store for Db {
    fn put(&self, key: &[u8], value: &[u8]) {
        Db::put(self, key, value).expect("tamarack puts");
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        Db::get(self, key).expect("tamarack gets").map(|value| value.to_vec())
    }
}
