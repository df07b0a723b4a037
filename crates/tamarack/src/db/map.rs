//! What maps of the standard library have: first and last entries, lengths, iteration; and
//! estimates that read no data.
//!
//! Nothing here is on the way of a lookup or of a step of a scan.

use super::Db;
use crate::engine::Engine;
use crate::error::Result;
use crate::read::{KeyBounds, Scan, range_within};
use crate::tree::range_deletes::covers;

impl Db {
    /// Returns an iterator over all entries, in key order, as of now: [`Db::scan`] of `..`. A `for`
    /// loop over `&db` does the same.
    ///
    /// ```
    /// # let env = tamarack::MemoryEnv::new(1);
    /// # let advanced = tamarack::AdvancedOptions::new().env(env);
    /// # let db = tamarack::Options::new().advanced(advanced).open("/prices")?;
    /// db.put("maple", "12.50")?;
    /// db.put("oak", "9.80")?;
    /// let mut keys = Vec::new();
    /// for entry in &db {
    ///     keys.push(entry?.0);
    /// }
    /// assert_eq!(keys, [&b"maple"[..], b"oak"]);
    /// assert_eq!(db.iter().rev().count(), 2);
    /// # Ok::<(), tamarack::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Db::scan`].
    pub fn iter(&self) -> Scan {
        self.scan(..)
    }

    /// Returns the first key and its value, or `None` if the database is empty. The first one in a
    /// range is `db.scan(range).limit(1).next()`.
    ///
    /// ```
    /// # let env = tamarack::MemoryEnv::new(1);
    /// # let advanced = tamarack::AdvancedOptions::new().env(env);
    /// # let db = tamarack::Options::new().advanced(advanced).open("/prices")?;
    /// assert_eq!(db.first_key_value()?, None);
    /// db.put("maple", "12.50")?;
    /// db.put("oak", "9.80")?;
    /// assert_eq!(db.first_key_value()?, Some((b"maple".to_vec(), b"12.50".to_vec())));
    /// # Ok::<(), tamarack::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Db::get`].
    pub fn first_key_value(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.snapshot().first_key_value()
    }

    /// Returns the last key and its value, or `None` if the database is empty.
    ///
    /// ```
    /// # let env = tamarack::MemoryEnv::new(1);
    /// # let advanced = tamarack::AdvancedOptions::new().env(env);
    /// # let db = tamarack::Options::new().advanced(advanced).open("/prices")?;
    /// db.put("maple", "12.50")?;
    /// db.put("oak", "9.80")?;
    /// assert_eq!(db.last_key_value()?, Some((b"oak".to_vec(), b"9.80".to_vec())));
    /// # Ok::<(), tamarack::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Db::get`].
    pub fn last_key_value(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.snapshot().last_key_value()
    }

    /// Returns true if no key has a value. Costs a scan to the first entry.
    ///
    /// ```
    /// # let env = tamarack::MemoryEnv::new(1);
    /// # let advanced = tamarack::AdvancedOptions::new().env(env);
    /// # let db = tamarack::Options::new().advanced(advanced).open("/prices")?;
    /// assert!(db.is_empty()?);
    /// db.put("maple", "12.50")?;
    /// assert!(!db.is_empty()?);
    /// db.delete("maple")?;
    /// assert!(db.is_empty()?);
    /// # Ok::<(), tamarack::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Db::get`].
    pub fn is_empty(&self) -> Result<bool> {
        self.snapshot().is_empty()
    }

    /// Returns the number of keys that have a value, exactly, as of now. **Scans all entries**, and
    /// so reads the whole database; [`Db::approximate_len`] reads nothing.
    ///
    /// ```
    /// # let env = tamarack::MemoryEnv::new(1);
    /// # let advanced = tamarack::AdvancedOptions::new().env(env);
    /// # let db = tamarack::Options::new().advanced(advanced).open("/prices")?;
    /// db.put("maple", "12.50")?;
    /// db.put("maple", "13.00")?;
    /// assert_eq!(db.len()?, 1);
    /// # Ok::<(), tamarack::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Db::get`].
    pub fn len(&self) -> Result<u64> {
        self.snapshot().len()
    }

    /// Returns about how many keys have a value: the puts in memtables and tables, less the deletes
    /// there. Reads nothing; the time is proportional to the number of tables.
    ///
    /// It differs from [`Db::len`] by at most the puts that were overwritten or deleted plus the
    /// deletes, of those that compactions have not dropped yet. So it is exact if each key was put
    /// once, and after [`Db::compact`] without snapshots. While a compaction is in progress, tables
    /// that it has handed over in part count as a half or a third. Each merge operand counts as a
    /// put, also beside the value that it is to be folded into.
    ///
    /// What a range delete hides counts until the range is cut out of the tables, soon after the
    /// flush ([`Db::delete_range`]), except in tables that it covers as a whole. Range deletes that
    /// wait for that are counted by [`Stats::range_deletes`](crate::Stats).
    ///
    /// ```
    /// # let env = tamarack::MemoryEnv::new(1);
    /// # let advanced = tamarack::AdvancedOptions::new().env(env);
    /// # let db = tamarack::Options::new().advanced(advanced).open("/prices")?;
    /// db.put("maple", "12.50")?;
    /// db.put("maple", "13.00")?;
    /// assert_eq!(db.approximate_len(), 2, "both are in the memtable");
    /// db.compact()?;
    /// assert_eq!(db.approximate_len(), 1);
    /// # Ok::<(), tamarack::Error>(())
    /// ```
    pub fn approximate_len(&self) -> u64 {
        let state = self.engine.tree.pin_scan();
        let in_memtables = state.memtables().map(|memtable| {
            let range_tombstones = if memtable.has_range_tombstones() { memtable.range_tombstones().len() } else { 0 };
            (memtable.entries().saturating_sub(range_tombstones as u64), memtable.tombstones())
        });
        let deleted = state.range_tombstones().unwrap_or_default();
        let slices = state.tree().runs().flat_map(|run| run.slices().iter());
        let slices = slices.filter(|slice| !covers(&deleted, slice));
        let in_tables = slices.map(|slice| (slice.entries(), slice.share_of(slice.table().meta().tombstones)));
        let add = |sum: (u64, u64), part: (u64, u64)| (sum.0 + part.0, sum.1 + part.1);
        let (entries, tombstones) = in_memtables.chain(in_tables).fold((0, 0), add);
        // A tombstone is an entry itself, and mostly hides one.
        entries.saturating_sub(tombstones.saturating_mul(2))
    }

    /// Returns about how many bytes the entries with keys in `range` take in tables, after
    /// compression: the size of the data blocks that they are in. Entries that are still in
    /// memtables are not counted ([`Db::flush`] writes them); overwritten and deleted ones are,
    /// until compactions drop them.
    ///
    /// It is found from the metadata of tables and from fence pointers; no data block is read. Of
    /// each sorted run, up to two tables are opened if they are not open, and up to two lower index
    /// blocks are read if they are not in memory.
    ///
    /// The estimate is never less than the blocks that have entries of the range. It exceeds them,
    /// in each sorted run, by at most one block at each end of the range, and by the index, the
    /// properties and the footer of tables that are inside of it as a whole: less than 1 % and 1
    /// KiB for each with uncompressed blocks of 4 KiB. While a compaction is in progress, each
    /// place to which it has handed over may add two blocks.
    ///
    /// ```
    /// # let env = tamarack::MemoryEnv::new(1);
    /// # let advanced = tamarack::AdvancedOptions::new().env(env);
    /// # let db = tamarack::Options::new().advanced(advanced).open("/trees")?;
    /// for number in 0..10_000_u32 {
    ///     db.put(number.to_be_bytes(), "a tree of some feet")?;
    /// }
    /// db.flush()?;
    /// let all = db.approximate_bytes(..)?;
    /// let tenth = db.approximate_bytes(..1000_u32.to_be_bytes())?;
    /// assert!((8 * tenth..12 * tenth).contains(&all), "{tenth} of {all}");
    /// # Ok::<(), tamarack::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io) or [`Error::Corruption`](crate::Error::Corruption) if a
    /// table cannot be opened or its index cannot be read.
    pub fn approximate_bytes(&self, range: impl KeyBounds) -> Result<u64> {
        let range = range_within(&range);
        if range.is_empty() {
            return Ok(0);
        }
        let Engine { database, tree, .. } = &*self.engine;
        let state = tree.pin_scan();
        let found = state.tree().runs().map(|run| run.data_bytes_within(&range)).sum::<Result<u64>>();
        found.inspect_err(|error| database.events.noticed(error))
    }
}

impl IntoIterator for &Db {
    type Item = Result<(Vec<u8>, Vec<u8>)>;
    type IntoIter = Scan;

    fn into_iter(self) -> Scan {
        self.iter()
    }
}
