//! Lookups of keys with merge operands.
//!
//! A lookup that finds an operand begins anew here: all versions of the key, youngest first, from
//! memtables and from the candidate runs, down to the first put or delete, or to the end. What
//! stands above that is merged into it.
//!
//! Cached entries are not asked: they say what is youngest in the tables, which may be newer than
//! the pinned state, and include operands that its memtables have as well. Nor is what is found in
//! older runs cached as an entry, since it is not the youngest ([`Query::seeing`] nothing); its
//! blocks are.
//!
//! Cost: a search in each run that may have the key, and pins of what it finds; one allocation for
//! the value. Tests: `tests/suite/operands.rs`.

use std::ops::ControlFlow;

use super::value::Value;
use crate::entry::{Entry, EntryKind, Query, Sequence};
use crate::error::{Error, Result};
use crate::operator::Merging;
use crate::stats::LookupTally;
use crate::tree::filters::Filters;
use crate::tree::state::State;

/// Looks up a key whose youngest visible version is an operand. `None` if the operands delete it.
///
/// # Errors
/// [`Error::Merge`] if they cannot be merged; errors of reading.
#[cold]
#[inline(never)]
pub(super) fn get(state: &State, merging: &Merging, query: Query<'_>, tally: &LookupTally) -> Result<Option<Value>> {
    let query = query.seeing(Sequence::ZERO);
    let mut chain = Chain::default();
    let is_complete = state.memtables().any(|memtable| {
        let mut visit = |entry: Entry<'_>| chain.add(&entry, || Value::in_memtable(memtable.pin(entry.value)));
        memtable.get(query, &mut visit).is_break()
    });
    if !is_complete {
        let filters = Filters::pin(state);
        let mut candidates = filters.candidates(state, query);
        while let Some(candidate) = candidates.next(tally)? {
            let found = candidate
                .search(query, tally, &mut |entry, holder| chain.add(&entry, || Value::pinned(holder, entry.value)))?;
            if found.is_break() {
                break;
            }
        }
    }
    chain.merge(merging, query.key())
}

/// The error for an entry of a kind that this version cannot read.
#[cold]
pub(super) fn reserved(merging: &Merging, kind: EntryKind) -> Error {
    Error::Unsupported {
        path: merging.dir().to_owned(),
        what: format!("the database holds an entry of the kind {kind:?}, which this version cannot read"),
    }
}

/// The versions of a key that decide it.
#[derive(Default)]
struct Chain {
    /// Young to old.
    operands: Vec<Value>,
    existing: Option<Value>,
    /// The kind of an entry that cannot be read, if there is one.
    reserved: Option<EntryKind>,
}

impl Chain {
    /// Adds the next older version. Breaks if no older one counts.
    fn add(&mut self, entry: &Entry<'_>, pin: impl FnOnce() -> Value) -> ControlFlow<()> {
        match entry.kind {
            EntryKind::Merge => {
                self.operands.push(pin());
                return ControlFlow::Continue(());
            }
            EntryKind::Put => self.existing = Some(pin()),
            EntryKind::Delete => {}
            kind => self.reserved = Some(kind),
        }
        ControlFlow::Break(())
    }

    fn merge(self, merging: &Merging, key: &[u8]) -> Result<Option<Value>> {
        if let Some(kind) = self.reserved {
            return Err(reserved(merging, kind));
        }
        let operands: Vec<&[u8]> = self.operands.iter().rev().map(|operand| &**operand).collect();
        let value = merging.value(key, self.existing.as_deref(), &operands)?;
        Ok(value.map(|value| Value::own(value.into())))
    }
}
