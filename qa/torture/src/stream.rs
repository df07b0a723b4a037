//! [`Stream`]: the endless list of commits of one writer, from a seed.
//!
//! Commit number `n` is a pure function of seed, writer and `n`, so that whoever knows how many
//! commits took effect knows the content. Each writer has keys of its own, which lie between those
//! of the others; each value names its writer and its commit and so is unique.
//!
//! ```text
//! commit 1 ─► commit 2 ─► commit 3 ─► …       content after n = the first n applied to nothing
//! ```

use std::collections::BTreeMap;

use tamarack_testing::Random;

use crate::design::WRITE_BYTES_MAX;

/// A value for each key.
pub(crate) type Content = BTreeMap<Vec<u8>, Vec<u8>>;

/// How a commit is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// By `put` or `delete`.
    Single,
    /// By `write_with`.
    Batch,
    /// By an ingest: only puts, in ascending order.
    Ingest,
}

/// One commit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Commit {
    pub(crate) kind: Kind,
    /// Whether it is written with `Durability::Sync`; an ingest always is.
    pub(crate) is_synced: bool,
    /// Keys, with a value or a delete.
    pub(crate) entries: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

/// The commits of one writer.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    pub(crate) seed: u64,
    pub(crate) writer: u64,
    /// How many keys it has.
    pub(crate) keys: u64,
    /// One commit in so many is synced; 0: none.
    pub(crate) synced_one_in: u64,
}

impl Stream {
    /// The commit with a number from 1 on.
    pub(crate) fn commit(&self, number: u64) -> Commit {
        let mut random = Random::new(self.seed.wrapping_mul(0x9E37_79B9) ^ (self.writer << 48) ^ number);
        random.next();
        let kind = match random.below(200) {
            0 => Kind::Ingest,
            1..60 => Kind::Batch,
            _ => Kind::Single,
        };
        let is_synced = kind == Kind::Ingest || (self.synced_one_in > 0 && random.one_in(self.synced_one_in));
        let entries = match kind {
            Kind::Single => vec![self.entry(&mut random, number, 0, true)],
            Kind::Batch => self.entries(&mut random, number, 1, true),
            Kind::Ingest => {
                let mut entries = self.entries(&mut random, number, 4, false);
                entries.sort();
                entries.dedup_by(|later, earlier| later.0 == earlier.0);
                entries
            }
        };
        Commit { kind, is_synced, entries }
    }

    fn entries(&self, random: &mut Random, number: u64, times: u64, deletes: bool) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
        let most = if random.one_in(10) { 200 } else { 8 };
        let count = times * (1 + random.below(most));
        let mut bytes = 0;
        let mut entries = Vec::new();
        for index in 0..count {
            let entry = self.entry(random, number, index, deletes);
            bytes += 8 + (entry.0.len() + entry.1.as_ref().map_or(0, Vec::len)) as u64;
            if bytes > WRITE_BYTES_MAX / 2 {
                break;
            }
            entries.push(entry);
        }
        entries
    }

    fn entry(&self, random: &mut Random, number: u64, index: u64, deletes: bool) -> (Vec<u8>, Option<Vec<u8>>) {
        let key = self.key(random.below(self.keys));
        if deletes && random.one_in(4) {
            return (key, None);
        }
        let mut value = format!("{}/{number}/{index} ", self.writer).into_bytes();
        let length = match random.below(100) {
            0 => random.below(20_000),
            1..5 => random.below(3000),
            _ => random.below(100),
        };
        if random.one_in(2) {
            value.extend(random.bytes(length));
        } else {
            value.resize(value.len() + length as usize, b'.');
        }
        (key, Some(value))
    }

    /// One of its keys. The writer stands at the end, so that keys of all writers mix in tables.
    pub(crate) fn key(&self, number: u64) -> Vec<u8> {
        let length = 1 + number % 23;
        format!("{number:06}{}-{}", "k".repeat(length as usize), self.writer).into_bytes()
    }

    /// True if one of the first `most` commits gave the key this value.
    pub(crate) fn wrote(&self, key: &[u8], value: &[u8], most: u64) -> bool {
        let text = String::from_utf8_lossy(value);
        let number = text.split('/').nth(1).and_then(|number| number.parse().ok());
        number.is_some_and(|number| {
            (1..=most).contains(&number)
                && self.commit(number).entries.iter().any(|(k, v)| k == key && v.as_deref() == Some(value))
        })
    }

    /// Applies the commits `from + 1 ..= to` to a content.
    pub(crate) fn apply(&self, content: &mut Content, from: u64, to: u64) {
        for number in from + 1..=to {
            apply(content, self.commit(number));
        }
    }
}

/// Applies a commit to a content.
pub(crate) fn apply(content: &mut Content, commit: Commit) {
    for (key, value) in commit.entries {
        match value {
            Some(value) => content.insert(key, value),
            None => content.remove(&key),
        };
    }
}

/// The writer that a key belongs to; `None` if it is no key of any.
pub(crate) fn writer_of(key: &[u8]) -> Option<u64> {
    let dash = key.iter().rposition(|byte| *byte == b'-')?;
    str::from_utf8(&key[dash + 1..]).ok()?.parse().ok()
}

#[test]
fn commits_depend_on_nothing_but_their_number() {
    let stream = Stream { seed: 7, writer: 2, keys: 50, synced_one_in: 3 };
    let commits: Vec<Commit> = (1..500).map(|number| stream.commit(number)).collect();
    assert!((1..500).rev().all(|number| stream.commit(number) == commits[number as usize - 1]));
    assert!([Kind::Single, Kind::Batch, Kind::Ingest].iter().all(|kind| commits.iter().any(|c| c.kind == *kind)));
    assert!(commits.iter().flat_map(|commit| &commit.entries).all(|(key, _)| writer_of(key) == Some(2)));
    let number = commits.iter().position(|commit| commit.entries[0].1.is_some()).expect("some put") as u64 + 1;
    let (key, value) = commits[number as usize - 1].entries[0].clone();
    let value = value.expect("it is one");
    assert!(stream.wrote(&key, &value, number) && !stream.wrote(&key, &value, number - 1));
    assert!(!stream.wrote(&key, b"invented", number));
    assert_eq!((writer_of(b"abc"), writer_of(b"a-b")), (None, None));
}
