//! Small databases at rest, drawn from a seed, and all that was ever written to them.

use std::collections::BTreeMap;
use std::sync::Arc;

use tamarack::{AdvancedOptions, Batch, Compression, Db, Durability, Options};
use tamarack_env::sim::{Crash, Sector};
use tamarack_env::{Random, SimEnv};

use super::truth::Answers;

/// Where the database lives.
pub(crate) const DIR: &str = "/db";

/// A database that nobody has open.
pub(crate) struct Scene {
    settings: Settings,
    pub(crate) env: SimEnv,
    pub(crate) ending: &'static str,
    /// All versions of each key, each with its sequence; a value is unlike all others.
    pub(crate) versions: BTreeMap<Vec<u8>, Vec<Version>>,
}

/// A sequence, and the value of that time; `None` for a delete.
pub(crate) type Version = (u64, Option<Vec<u8>>);

#[derive(Clone)]
struct Settings {
    memtable_bytes: u64,
    block_bytes: usize,
    table_bytes: u64,
    threads: usize,
    policy: String,
    filter: &'static str,
    compression: Compression,
}

impl Scene {
    /// The database of a seed.
    pub(crate) fn of(seed: u64) -> Self {
        let random = Random::for_purpose(seed, 2);
        let ratio = 2 + random.below(4);
        let policies = ["leveling", "tiering", "lazy-leveling"];
        let filters = ["none", "blocked:bits=10", "bloom:bits=8"];
        let settings = Settings {
            memtable_bytes: 60 + random.below(500),
            block_bytes: 64 + random.below(200) as usize,
            table_bytes: 100 + random.below([200, 2000][random.below(2) as usize]),
            threads: 1 + random.below(3) as usize,
            policy: format!("{}:T={ratio}", policies[random.below(3) as usize]),
            filter: filters[random.below(3) as usize],
            compression: if random.eighths(3) { Compression::Lz4 } else { Compression::None },
        };
        let env = SimEnv::new(seed);
        let mut scene = Self { settings, env, ending: "closed", versions: BTreeMap::new() };
        scene.write(&random);
        scene
    }

    /// How it is opened, verified and repaired.
    pub(crate) fn options(&self, env: &SimEnv) -> Options {
        let Settings { memtable_bytes, block_bytes, table_bytes, threads, policy, filter, compression } =
            self.settings.clone();
        let advanced = AdvancedOptions::new()
            .memtable_bytes(memtable_bytes)
            .immutable_memtables_max(4)
            .block_bytes(block_bytes)
            .table_bytes(table_bytes);
        let advanced = advanced.cache_bytes(16 << 10).policy(&policy).filter(filter);
        Options::new().threads(threads).compression(compression).advanced(advanced.env(Arc::new(env.clone())))
    }

    fn write(&mut self, random: &Random) {
        let mut db = self.options(&self.env).open(DIR).expect("nothing fails");
        let (keys, mut sequence) = (3 + random.below(60), 0);
        let mut snapshot = None;
        let mut pause = None;
        let steps = 1 + random.below(5);
        for number in 0..20 + random.below(140) {
            match random.below(40) {
                0 => db.flush().expect("nothing fails"),
                1 => snapshot = Some(db.snapshot()),
                2 => snapshot = None,
                3 if pause.is_none() => {
                    let (from, to) = (random.below(keys), random.below(keys));
                    db.compact_range(key(from.min(to))..key(from.max(to))).expect("nothing fails");
                }
                4 => pause = Some(db.pause_compactions()),
                5 => pause = None,
                6 => {
                    (snapshot, pause) = (None, None);
                    db.close().expect("nothing fails");
                    db = self.options(&self.env).open(DIR).expect("nothing fails");
                }
                7 => self.ingest(&db, random, keys, number, &mut sequence),
                _ => self.commit(&db, random, keys, number, &mut sequence),
            }
            for _ in 0..random.below(steps) {
                self.env.step_background();
            }
        }
        drop((snapshot, pause));
        match random.below(4) {
            0 => db.close().expect("nothing fails"),
            1 => {
                self.ending = "killed";
                self.env = self.env.process_image();
            }
            2 => {
                self.ending = "powerless";
                self.env = self.env.image(Crash::Torn { seed: random.next(), sector: Sector::Bytes512 });
            }
            _ => {
                self.ending = "unsynced";
                self.env = self.env.image(Crash::LoseAll);
            }
        }
    }

    fn ingest(&mut self, db: &Db, random: &Random, keys: u64, number: u64, sequence: &mut u64) {
        let mut entries: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
        for entry in 0..1 + random.below(20) {
            entries.insert(key(random.below(keys)), format!("{number}.{entry} ingested").into_bytes());
        }
        let mut ingest = db.ingest().expect("nothing fails");
        for (key, value) in &entries {
            ingest.put(key, value).expect("nothing fails");
        }
        ingest.finish().expect("nothing fails");
        *sequence = db.stats().visible_sequence;
        for (key, value) in entries {
            self.versions.entry(key).or_default().push((*sequence, Some(value)));
        }
    }

    fn commit(&mut self, db: &Db, random: &Random, keys: u64, number: u64, sequence: &mut u64) {
        let mut batch = Batch::new();
        let entries = if random.eighths(2) { 1 + random.below(5) } else { 1 };
        for entry in 0..entries {
            let key = key(random.below(keys));
            let value = (!random.eighths(3)).then(|| {
                let filler = "v".repeat(random.below([8, 90][random.below(2) as usize]) as usize);
                format!("{number}.{entry} {filler}").into_bytes()
            });
            match &value {
                Some(value) => batch.put(&key, value),
                None => batch.delete(&key),
            };
            *sequence += 1;
            self.versions.entry(key).or_default().push((*sequence, value));
        }
        let durability = if random.eighths(2) { Durability::Sync } else { Durability::Buffered };
        db.write_with(&batch, durability).expect("nothing fails");
    }

    /// What an open database answers for every key.
    pub(crate) fn answers(&self, env: &SimEnv) -> Result<Answers, String> {
        let db = self.options(env).open(DIR).map_err(|error| format!("open: {error}"))?;
        let mut answers = Answers::new();
        for key in self.versions.keys() {
            let value = db.get(key).map_err(|error| format!("get: {error}"))?;
            answers.insert(key.clone(), value.map(|value| value.to_vec()));
        }
        let scanned: Result<Vec<_>, _> = db.scan(..).collect();
        let scanned = scanned.map_err(|error| format!("scan: {error}"))?;
        let expected = answers.iter().filter_map(|(key, value)| Some((key, value.as_ref()?)));
        if !scanned
            .iter()
            .map(|(key, value)| (key.to_vec(), value.to_vec()))
            .eq(expected.map(|(k, v)| (k.clone(), v.clone())))
        {
            return Err("a scan gives something else than lookups".to_owned());
        }
        db.close().map_err(|error| format!("close: {error}"))?;
        Ok(answers)
    }
}

fn key(number: u64) -> Vec<u8> {
    let mut key = format!("key {:02}", number % 97).into_bytes();
    key.truncate(3 + (number % 4) as usize);
    key.extend_from_slice(format!("{number}").as_bytes());
    key
}
