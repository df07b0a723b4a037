//! Lookups of many keys, all at one sequence in one state, whose blocks are read together.
//!
//! Each key goes down from the youngest source to the oldest, as a single lookup does, until it needs a block that is not in the cache. When all keys have
//! come that far, what they need is read in one batch, and they go on:
//!
//! ```text
//! keys          a    b    c    d
//! buffers       ✓    ·    ·    ·
//! run 1              ✓    ·    ·     first batch: the blocks of run 1 that may hold b, c or d
//! run 2                   ·    ✓     second batch: those of run 2 for c and d
//! run 3                   ✓          third batch
//! ```
//!
//! So there are at most as many batches as runs, and one more for each run whose lower index blocks are not cached. The other way, all runs' blocks at
//! once, would be one batch, but reads what a younger run makes needless: with filters, which let a key pass by nearly all runs that do not have it, the
//! first batch finds nearly all keys, and there is little left for latency to be saved on; without filters, it would read every run for every key.
//! A block that several keys need is read once.
//!
//! Tests: `tests/reads.rs` counts batches; lockstep histories compare with single lookups.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use super::get::{self, TREE, Visit};
use super::value::Value;
use crate::entry::{Entry, Query};
use crate::error::Result;
use crate::stats::LookupCounters;
use crate::table::Blocks;
use crate::tree::run::Run;
use crate::tree::state::State;

/// A key whose lookup has not ended.
struct Open {
    /// Its place among the queries.
    at: usize,
    /// The first run that it has not asked.
    run: usize,
}

/// What `get` gives for each of `queries`, in their order. What it took is added to `counters`.
///
/// # Errors
/// Any error of one lookup is that of all.
pub(super) fn multi_get(
    state: &State,
    dir: &Path,
    queries: &[Query<'_>],
    counters: &LookupCounters,
) -> Result<Vec<Option<Value>>> {
    let mut blocks = Blocks::default();
    blocks.counts.lookups = queries.len() as u64;
    let values = look_up(state, dir, queries, &mut blocks);
    counters.add(&blocks.counts);
    values
}

fn look_up(state: &State, dir: &Path, queries: &[Query<'_>], blocks: &mut Blocks) -> Result<Vec<Option<Value>>> {
    let mut values = vec![None; queries.len()];
    let runs: Vec<&Arc<Run>> = state.version.tree(TREE).into_iter().flat_map(|tree| tree.runs()).collect();
    let mut open: Vec<_> = (0..queries.len()).map(|at| Open { at, run: 0 }).collect();
    let mut in_buffers = true;
    while !open.is_empty() {
        let mut left = Vec::new();
        for mut lookup in open {
            let at = lookup.at;
            let query = queries[at];
            let mut found = None;
            let visit: Visit<'_> = &mut |entry, pin| {
                found = Some(get::found_in(dir, entry, pin));
                ControlFlow::Break(())
            };
            let decided = in_buffers && get::fold_buffers(state, query, visit).is_break();
            if !decided && !go_down(&runs, &mut lookup.run, query, blocks, visit)? {
                left.push(lookup);
            } else if let Some(found) = found {
                values[at] = found?.value;
            }
        }
        in_buffers = false;
        blocks.read_lacking()?;
        open = left;
    }
    Ok(values)
}

/// Asks run after run until one decides or lacks a block; true if the lookup has ended.
fn go_down(
    runs: &[&Arc<Run>],
    run: &mut usize,
    query: Query<'_>,
    blocks: &mut Blocks,
    visit: Visit<'_>,
) -> Result<bool> {
    while let Some(asked) = runs.get(*run) {
        let mut visit = |entry: Entry<'_>, block: &_| visit(entry, &|value| Value::in_block(block, value));
        match asked.get_from(blocks, query, &mut visit)? {
            None => return Ok(false),
            Some(ControlFlow::Break(())) => return Ok(true),
            Some(ControlFlow::Continue(())) => *run += 1,
        }
    }
    Ok(true)
}
