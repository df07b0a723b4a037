//! [`check`]: checks the ages of each key's entries in trees where whole tables do not prove them.
//!
//! Where a range of keys was compacted by itself, or a repair has left a part of a compaction, a
//! table's sequence numbers do not show which run is younger; only each key's versions are in
//! order. To check that, all runs are read side by side. In other trees [`Version::check`] has
//! compared the tables.

use std::path::Path;
use std::sync::Arc;

use crate::entry::Sequence;
use crate::error::{Error, Result};
use crate::format::names::FileName;
use crate::merge::Source;
use crate::table::ReadPolicy;
use crate::tree::run::RunCursor;
use crate::tree::version::{TreeVersion, Version};

/// Returns [`Error::Corruption`], naming a table, if a version of a key is above a younger one.
/// Reads its tables once.
pub(super) fn check(version: &Version, dir: &Path) -> Result<()> {
    let mixed = version.trees().filter(|(_, tree)| tree.are_ages_mixed());
    mixed.into_iter().try_for_each(|(_, tree)| check_tree(tree, dir))
}

fn check_tree(tree: &TreeVersion, dir: &Path) -> Result<()> {
    let runs: Vec<_> = tree.runs().collect();
    let mut cursors: Vec<RunCursor> =
        runs.iter().map(|run| run.cursor(ReadPolicy::Sequential, &Arc::default())).collect();
    cursors.iter_mut().try_for_each(Source::seek_first)?;
    while let Some(key) = cursors.iter().filter_map(|cursor| Some(cursor.entry()?.key)).min().map(<[u8]>::to_vec) {
        let mut oldest: Option<Sequence> = None;
        for (run, cursor) in runs.iter().zip(&mut cursors) {
            while let Some(entry) = cursor.entry().filter(|entry| *entry.key == *key) {
                if let Some(above) = oldest.filter(|above| *above <= entry.sequence) {
                    let table = run.table_of(&key).map_or(0, |table| table.id().0);
                    let (key, below) = (key.escape_ascii(), entry.sequence.0);
                    let what = format!("\"{key}\" has the sequence {} above its younger version {below}", above.0);
                    return Err(Error::corruption(&FileName::Table(table).path(dir), 0, what));
                }
                oldest = Some(entry.sequence);
                cursor.next()?;
            }
        }
    }
    Ok(())
}
