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
//! A range delete ends the versions as a tombstone does: what is below the key's floor is hidden.
//!
//! Cost: a search in each run that may have the key, and a [`Chain`] of what it finds; one
//! allocation for the value. Tests: `tests/suite/operands.rs`.

use std::ops::ControlFlow;

use super::chain::{Arrival, Chain};
use super::value::Value;
use crate::entry::{Entry, Query, Sequence};
use crate::error::Result;
use crate::operator::{Merged, Merging};
use crate::stats::LookupTally;
use crate::tree::filters::Filters;
use crate::tree::state::State;

/// Looks up a key whose youngest visible version is an operand. `None` if the operands delete it.
///
/// # Errors
/// [`Error::Merge`](crate::Error::Merge) if they cannot be merged; errors of reading.
#[cold]
#[inline(never)]
pub(super) fn get(state: &State, merging: &Merging, query: Query<'_>, tally: &LookupTally) -> Result<Option<Value>> {
    let query = query.seeing(Sequence::ZERO);
    let mut chain = Chain::new(merging, query.key(), Arrival::YoungFirst);
    let mut visit = |entry: Entry<'_>| chain.add(&entry);
    let is_complete = state.memtables().any(|memtable| memtable.get(query, &mut visit).is_break());
    if !is_complete {
        let floor = state.floor_in_tables(query);
        let mut visit_visible =
            |entry: Entry<'_>| if entry.sequence < floor { ControlFlow::Break(()) } else { visit(entry) };
        let filters = Filters::pin(state);
        let mut candidates = filters.candidates(state, query);
        while let Some(candidate) = candidates.next(tally)? {
            if candidate.search(query, tally, &mut |entry, _| visit_visible(entry))?.is_break() {
                break;
            }
        }
    }
    let mut value = Vec::new();
    let merged = chain.merge(&mut value)?;
    Ok((merged == Merged::Value).then(|| Value::own(value.into())))
}
