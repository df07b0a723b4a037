//! [`Writers`]: all streams of one database, and whether what is found in it is a prefix of the
//! order of their commits.
//!
//! ```text
//! writer 0   ├─1─┤ ├──2──┤      ├─3─┤ ├─4 ✗
//! writer 1     ├────1────┤ ├──2──┤ ├──3──┤        time ─►
//! ```
//!
//! Found are, of each writer, the first so many commits. Those of all writers together are a prefix
//! of one order of commits unless one that had returned before another began is missing while the
//! other is there: 3 of writer 1 without 2 of writer 0.

use tamarack::{Db, Error};
use tamarack_testing::Random;

use crate::prefix::{Prefix, matching};
use crate::run::Outcome;
use crate::stream::{Content, Stream, writer_of};
use crate::told::Told;

/// The streams of a database, and how far each has come.
#[derive(Clone, Debug)]
pub(crate) struct Writers {
    pub(crate) streams: Vec<Stream>,
    /// How many commits of each are in the database.
    pub(crate) reached: Vec<u64>,
    /// The content after these.
    pub(crate) contents: Vec<Content>,
}

impl Writers {
    /// Draws streams for a new database.
    pub(crate) fn random(seed: u64, random: &mut Random, synced_one_in: &[u64]) -> Self {
        let count = 1 + random.below(4);
        let keys = *random.pick(&[20, 200, 1000]);
        let synced_one_in = *random.pick(synced_one_in);
        Self::new((0..count).map(|writer| Stream { seed, writer, keys, synced_one_in }).collect())
    }

    /// Streams of an empty database.
    pub(crate) fn new(streams: Vec<Stream>) -> Self {
        let count = streams.len();
        Self { streams, reached: vec![0; count], contents: vec![Content::new(); count] }
    }

    /// Reads everything in a database, for each writer.
    pub(crate) fn read(&self, db: &Db) -> Outcome<Vec<Content>> {
        let found = self.try_read(db).map_err(|error| format!("scan: {error}"))??;
        Ok(found)
    }

    /// As [`Writers::read`], with an error of the scan by itself.
    pub(crate) fn try_read(&self, db: &Db) -> Result<Result<Vec<Content>, String>, Error> {
        let mut found = vec![Content::new(); self.streams.len()];
        let mut last: Option<Vec<u8>> = None;
        for entry in db.scan(..) {
            let (key, value) = entry?;
            let (key, value) = (key.to_vec(), value.to_vec());
            if last.as_ref().is_some_and(|last| *last >= key) {
                return Ok(Err(format!("the scan gives {} out of order", key.escape_ascii())));
            }
            last = Some(key.clone());
            let writer = writer_of(&key).filter(|writer| *writer < found.len() as u64);
            let Some(writer) = writer else {
                return Ok(Err(format!("the key {} was never written", key.escape_ascii())));
            };
            found[writer as usize].insert(key, value);
        }
        Ok(Ok(found))
    }

    /// Checks that `found` is what a prefix of the commits makes, with at least those of
    /// `required`, and goes on from there.
    pub(crate) fn check(&mut self, found: &[Content], told: &Told, required: &[u64]) -> Outcome<Vec<Prefix>> {
        let issued: Vec<u64> = (0..found.len()).map(|writer| told.acked(writer) + 1).collect();
        let prefixes = self.explain(found, required, &issued)?;
        check_order(&prefixes, told)?;
        Ok(prefixes)
    }

    /// Finds for each writer the prefix that explains what was found, and goes on from there.
    pub(crate) fn explain(&mut self, found: &[Content], required: &[u64], most: &[u64]) -> Outcome<Vec<Prefix>> {
        let mut prefixes = Vec::new();
        for (writer, stream) in self.streams.iter().enumerate() {
            let content = &mut self.contents[writer];
            stream.apply(content, self.reached[writer], required[writer]);
            let prefix = matching(stream, content, required[writer], most[writer], &found[writer])?;
            self.reached[writer] = prefix.most;
            prefixes.push(prefix);
        }
        Ok(prefixes)
    }
}

/// Checks that no commit is missing which had returned before one that is there began.
pub(crate) fn check_order(prefixes: &[Prefix], told: &Told) -> Outcome {
    let is_new = |writer: &usize| prefixes[*writer].least > told.from[*writer];
    let newest =
        (0..prefixes.len()).filter(is_new).map(|writer| (told.begin(writer, prefixes[writer].least), writer)).max();
    let Some((begin, newest)) = newest else { return Ok(()) };
    for (writer, prefix) in prefixes.iter().enumerate() {
        let missing = prefix.most + 1;
        if let Some(ack) = told.ack(writer, missing).filter(|ack| ack.end < begin) {
            Err(format!(
                "no prefix of the order of commits: {missing} of writer {writer} had returned {} ns before {} of \
                 writer {newest} began, and is missing",
                begin - ack.end,
                prefixes[newest].least
            ))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::told::Ack;

    /// The picture above: 4 of writer 0 is in flight.
    fn told() -> Told {
        let mut told = Told::new(&[0, 0]);
        let acks = |times: &[(u64, u64)]| {
            times.iter().map(|&(begin, end)| Ack { begin, end, is_synced: false }).collect::<Vec<_>>()
        };
        told.acks = vec![acks(&[(1, 5), (7, 13), (20, 24)]), acks(&[(3, 13), (15, 21), (23, 29)])];
        told
    }

    #[test]
    fn commits_that_are_missing_before_later_ones_are_noticed() {
        let is_prefix = |counts: [u64; 2]| {
            let prefixes = counts.map(|count| Prefix { least: count, most: count });
            check_order(&prefixes, &told()).is_ok()
        };
        for fits in [[0, 0], [1, 0], [0, 1], [2, 1], [2, 2], [3, 2], [2, 3], [3, 3], [4, 3]] {
            assert!(is_prefix(fits), "{fits:?}");
        }
        for broken in [[0, 2], [1, 2], [1, 3], [3, 0], [4, 1]] {
            assert!(!is_prefix(broken), "{broken:?}");
        }
    }
}
