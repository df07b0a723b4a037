//! [`Version::check`]: checks all invariants of a version, for debug builds and `verify`.
//!
//! Cost: a walk over all slices, with a binary search in every other run for each. Reads no table.

use std::collections::BTreeMap;

use super::apply::check_neighbours;
use super::broken::{Broken, broken};
use super::version::{Compaction, TreeVersion, Version};
use crate::format::edit::KeyRange;
use crate::format::meta::TableId;

impl Version {
    /// Checks every invariant that holds without reading tables.
    pub fn check(&self) -> Result<(), Broken> {
        for (id, tree) in &self.trees {
            tree.check(self).map_err(|Broken(why)| Broken(format!("{id:?}: {why}")))?;
        }
        Ok(())
    }
}

impl TreeVersion {
    fn check(&self, version: &Version) -> Result<(), Broken> {
        if self.levels.last().is_some_and(|level| level.runs.is_empty()) {
            return broken("the last level is empty");
        }
        self.check_tables(version)?;
        self.check_runs(version)?;
        for compaction in &self.compactions {
            self.check_compaction(compaction, version)?;
        }
        Ok(())
    }

    /// Checks that the tables are those that slices reference.
    fn check_tables(&self, version: &Version) -> Result<(), Broken> {
        let mut named: BTreeMap<TableId, usize> = BTreeMap::new();
        for slice in self.runs().flat_map(|run| run.slices().iter()) {
            *named.entry(slice.table().id()).or_default() += 1;
        }
        let counted = self.tables.iter().map(|table| (table.file.id(), table.slices));
        if !counted.eq(named.iter().map(|(id, slices)| (*id, *slices))) {
            return broken(format!("the tables are {:?}, but slices name {named:?}", self.tables));
        }
        let flushed = self.flushed_through;
        let wrong = |id: TableId, last| id.0 >= version.next.table || last > flushed;
        match self.tables().find(|table| wrong(table.id(), table.meta().largest_sequence)) {
            None => Ok(()),
            Some(table) => broken(format!("{table:?} is not below {:?} and {flushed:?}", version.next)),
        }
    }

    fn check_runs(&self, version: &Version) -> Result<(), Broken> {
        for run in self.runs() {
            if run.id().0 >= version.next.run || self.runs().filter(|other| other.id() == run.id()).count() != 1 {
                return broken(format!("{:?} is not unique or is not below {:?}", run.id(), version.next));
            }
            if run.is_empty() && self.compaction_of(run.id()).is_none() {
                return broken(format!("{:?} has no slices and is in no compaction", run.id()));
            }
            run.check_order(0, usize::MAX)?;
            for slice in run.slices().iter() {
                self.check_age(run.id(), slice)?;
            }
        }
        Ok(())
    }

    fn check_compaction(&self, compaction: &Compaction, version: &Version) -> Result<(), Broken> {
        let sharing = self.compactions.iter().filter(|other| {
            other.id == compaction.id
                || other.names(compaction.output)
                || compaction.inputs.iter().any(|run| other.names(*run))
        });
        if compaction.id.0 >= version.next.compaction || sharing.count() != 1 {
            return broken(format!("{compaction:?} shares a run or is not below {:?}", version.next));
        }
        check_neighbours(self, compaction)?;
        if !compaction.done.is_sorted_by(|a, b| a.is_before(b)) || compaction.done.iter().any(KeyRange::is_empty) {
            return broken(format!("the ranges of {compaction:?} are empty, overlap or are out of order"));
        }
        let slices = |run| self.run(run).into_iter().flat_map(|(run, ..)| run.slices().iter());
        for slice in compaction.inputs.iter().flat_map(|input| slices(*input)) {
            let is_outside = |range: &KeyRange| {
                range.from.as_deref().is_some_and(|from| slice.ends_before(from))
                    || range.to.as_deref().is_some_and(|to| to <= slice.first_key())
            };
            if !compaction.done.iter().all(is_outside) {
                return broken(format!("an input of {compaction:?} still has {:?}", slice.spec()));
            }
        }
        match slices(compaction.output).find(|slice| !compaction.done.iter().any(|range| slice.is_within(range))) {
            None => Ok(()),
            Some(slice) => broken(format!("the output of {compaction:?} has {:?} too early", slice.spec())),
        }
    }
}
