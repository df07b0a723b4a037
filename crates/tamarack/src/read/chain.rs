//! [`Chain`]: the versions that decide a key whose youngest visible version is a merge operand.
//!
//! Lookups and scans add the versions one by one, young to old or old to young, and merge what they
//! have added. A put or a delete decides, with the operands above it.
//!
//! # Cost
//!
//! Each operand is copied into one buffer. Whenever the buffer has doubled beyond `JOIN_BYTES`,
//! neighbours are joined by the operator's partial form, so that a million operands of a counter
//! take 256 KiB; an operator without one gets all of them at once, in as much memory as they take.
//!
//! Tests: below, against what all versions give one by one; `tests/suite/operands.rs`.

use std::ops::ControlFlow;

use crate::entry::{Entry, EntryKind};
use crate::error::{Error, Result};
use crate::operator::{Merged, Merging};

/// The memory of operands from which on neighbours are joined, in bytes.
const JOIN_BYTES: usize = 256 << 10;

/// The order in which versions come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Arrival {
    YoungFirst,
    OldFirst,
}

/// The versions that decide a key. See the module's documentation.
#[derive(Debug)]
pub(super) struct Chain<'a> {
    merging: &'a Merging,
    key: &'a [u8],
    order: Arrival,
    /// In the order in which they came.
    operands: Operands,
    /// The memory from which on they are joined.
    join_at: usize,
    existing: Option<Vec<u8>>,
    /// The kind of an entry that cannot be read, if there is one.
    reserved: Option<EntryKind>,
}

impl<'a> Chain<'a> {
    /// Creates an empty chain of `key`, whose versions come in this order.
    pub(super) fn new(merging: &'a Merging, key: &'a [u8], order: Arrival) -> Self {
        let operands = Operands::default();
        Self { merging, key, order, operands, join_at: JOIN_BYTES, existing: None, reserved: None }
    }

    /// Begins with `existing`, which is older than all that comes.
    pub(super) fn above(self, existing: Option<Vec<u8>>) -> Self {
        Self { existing, ..self }
    }

    /// Adds the next version. Breaks if no other counts.
    pub(super) fn add(&mut self, entry: &Entry<'_>) -> ControlFlow<()> {
        match entry.kind {
            EntryKind::Merge => {
                self.operands.push(entry.value);
                if self.operands.memory() > self.join_at {
                    self.join();
                }
                return ControlFlow::Continue(());
            }
            EntryKind::Put => self.begin(Some(entry.value)),
            EntryKind::Delete => self.begin(None),
            kind => {
                self.reserved = Some(kind);
                return ControlFlow::Break(());
            }
        }
        match self.order {
            Arrival::YoungFirst => ControlFlow::Break(()),
            Arrival::OldFirst => ControlFlow::Continue(()),
        }
    }

    /// Notes a put or a delete. It hides what is older.
    fn begin(&mut self, existing: Option<&[u8]>) {
        self.existing = existing.map(<[u8]>::to_vec);
        if self.order == Arrival::OldFirst {
            self.operands.clear();
        }
    }

    /// Folds all into `out`, which is empty. Returns [`Merged::Deleted`] if there is no value.
    ///
    /// # Errors
    /// [`Error::Merge`] if they cannot be merged; [`Error::Unsupported`] if a version is of a kind
    /// that this program cannot read.
    pub(super) fn merge(self, out: &mut Vec<u8>) -> Result<Merged> {
        if let Some(kind) = self.reserved {
            return Err(reserved(self.merging, kind));
        }
        if self.operands.is_empty() {
            // A put or a delete came after all operands.
            out.extend_from_slice(self.existing.as_deref().unwrap_or_default());
            return Ok(if self.existing.is_some() { Merged::Value } else { Merged::Deleted });
        }
        let mut operands: Vec<&[u8]> = self.operands.iter().collect();
        if self.order == Arrival::YoungFirst {
            operands.reverse();
        }
        self.merging.merge(self.key, self.existing.as_deref(), &operands, out)
    }

    /// Joins neighbours until a half of [`JOIN_BYTES`] is left, or a pass removes less than a
    /// quarter of them.
    #[cold]
    fn join(&mut self) {
        loop {
            let before = self.operands.ends.len();
            self.join_pairs();
            let after = self.operands.ends.len();
            if after == before || after > before - before / 4 || self.operands.memory() <= JOIN_BYTES / 2 {
                break;
            }
        }
        self.join_at = JOIN_BYTES.max(2 * self.operands.memory());
    }

    /// Joins neighbours, pair by pair. What the operator cannot join stays: the full merge says
    /// why, if that fails as well.
    fn join_pairs(&mut self) {
        let (mut joined, mut merged) = (Operands::default(), Vec::new());
        let mut operands = self.operands.iter().peekable();
        while let Some(operand) = operands.next() {
            merged.clear();
            let is_joined = operands.peek().is_some_and(|next| {
                let (older, newer) = match self.order {
                    Arrival::YoungFirst => (*next, operand),
                    Arrival::OldFirst => (operand, *next),
                };
                matches!(self.merging.merge_partial(self.key, older, newer, &mut merged), Ok(true))
            });
            if is_joined {
                operands.next();
            }
            joined.push(if is_joined { &merged } else { operand });
        }
        drop(operands);
        self.operands = joined;
    }
}

/// The error for an entry of a kind that this version cannot read.
#[cold]
pub(super) fn reserved(merging: &Merging, kind: EntryKind) -> Error {
    Error::Unsupported {
        path: merging.dir().to_owned(),
        what: format!("the database holds an entry of the kind {kind:?}, which this version cannot read"),
    }
}

/// Operands, one behind the other in one buffer.
#[derive(Default, Debug)]
struct Operands {
    bytes: Vec<u8>,
    /// Where each one ends.
    ends: Vec<usize>,
}

impl Operands {
    fn push(&mut self, operand: &[u8]) {
        self.bytes.extend_from_slice(operand);
        self.ends.push(self.bytes.len());
    }

    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let begins = std::iter::once(0).chain(self.ends.iter().copied());
        begins.zip(&self.ends).map(|(begin, end)| &self.bytes[begin..*end])
    }

    fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Their memory, in bytes.
    fn memory(&self) -> usize {
        self.bytes.len() + self.ends.len() * size_of::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use tamarack_testing::Random;

    use super::*;
    use crate::entry::Sequence;
    use crate::operator::ready::{Add, Append};
    use crate::operator::{MergeFailure, MergeOperator};

    /// Appends operands, and joins none that begins with `x`.
    struct Picky;

    impl MergeOperator for Picky {
        fn name(&self) -> &str {
            "test.picky"
        }

        fn merge(
            &self,
            key: &[u8],
            existing: Option<&[u8]>,
            operands: &[&[u8]],
            value: &mut Vec<u8>,
        ) -> Result<Merged, MergeFailure> {
            Append.merge(key, existing, operands, value)
        }

        fn merge_partial(&self, _: &[u8], older: &[u8], newer: &[u8], out: &mut Vec<u8>) -> Result<bool, MergeFailure> {
            match (older.first(), newer.first()) {
                (Some(b'x'), _) => Ok(false),
                (_, Some(b'x')) => Err("an x".into()),
                _ => {
                    out.extend([older, newer].concat());
                    Ok(true)
                }
            }
        }
    }

    fn merging(operator: impl MergeOperator + 'static) -> Arc<Merging> {
        Merging::new(Path::new("/db").into(), Some(Arc::new(operator)), None)
    }

    fn entry<'a>(at: usize, kind: EntryKind, value: &'a [u8]) -> Entry<'a> {
        Entry { key: b"k", sequence: Sequence(at as u64 + 1), kind, value }
    }

    /// In both orders, also where neighbours are joined on the way, the value is that of all
    /// versions applied one by one.
    #[test]
    fn random_chains_have_the_value_of_their_versions() {
        let mut joined = 0;
        for seed in 0..60 {
            let mut random = Random::new(seed);
            let (long, count) = (random.one_in(2), random.below(80));
            let versions: Vec<(EntryKind, Vec<u8>)> = (0..1 + count)
                .map(|_| match random.below(if long { 200 } else { 6 }) {
                    0 => (EntryKind::Put, random.bytes(3)),
                    1 => (EntryKind::Delete, Vec::new()),
                    _ => {
                        let length = if long { 20_000 } else { 3 };
                        let first = if random.one_in(4) { b'x' } else { b'a' };
                        (EntryKind::Merge, [&[first], &*random.bytes(length)].concat())
                    }
                })
                .collect();
            let mut expected = None;
            for (kind, value) in &versions {
                match kind {
                    EntryKind::Put => expected = Some(value.clone()),
                    EntryKind::Delete => expected = None,
                    _ => expected.get_or_insert_with(Vec::new).extend_from_slice(value),
                }
            }
            let merging = merging(Picky);
            for order in [Arrival::YoungFirst, Arrival::OldFirst] {
                let mut chain = Chain::new(&merging, b"k", order);
                let mut entries: Vec<_> =
                    versions.iter().enumerate().map(|(at, (kind, value))| entry(at, *kind, value)).collect();
                if order == Arrival::YoungFirst {
                    entries.reverse();
                }
                let operands = entries.iter().take_while(|entry| chain.add(entry).is_continue()).count();
                joined += usize::from(chain.join_at > JOIN_BYTES || chain.operands.ends.len() < operands);
                let mut out = Vec::new();
                let merged = chain.merge(&mut out).expect("appending does not fail");
                let found = (merged == Merged::Value).then_some(out);
                assert_eq!(found, expected, "seed {seed}, {order:?}");
            }
        }
        assert!(joined > 10, "only {joined} chains were joined on the way");
    }

    /// A million operands of a counter take little memory.
    #[test]
    fn a_long_chain_takes_bounded_memory() {
        let merging = merging(Add);
        let mut chain = Chain::new(&merging, b"k", Arrival::YoungFirst);
        let mut largest = 0;
        for at in 0..1_000_000 {
            assert!(chain.add(&entry(at, EntryKind::Merge, &3u64.to_le_bytes())).is_continue());
            largest = largest.max(chain.operands.memory());
        }
        assert!(largest <= JOIN_BYTES + 16, "{largest} bytes");
        let mut out = Vec::new();
        assert_eq!(chain.merge(&mut out).expect("numbers"), Merged::Value);
        assert_eq!(out, 3_000_000u64.to_le_bytes());
    }

    /// A kind of entry that this version cannot read ends the lookup, with an error.
    #[test]
    fn unknown_kinds_are_refused() {
        let merging = merging(Append);
        let mut chain = Chain::new(&merging, b"k", Arrival::YoungFirst);
        assert!(chain.add(&entry(1, EntryKind::Merge, b"a")).is_continue());
        assert!(chain.add(&entry(0, EntryKind::ValuePointer, b"b")).is_break());
        assert!(matches!(chain.merge(&mut Vec::new()), Err(Error::Unsupported { .. })));
    }
}
