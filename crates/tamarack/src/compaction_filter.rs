//! Compaction filters: what a program lets compactions drop or change.
//!
//! ```text
//!   compaction ─► newest version of a key, a put ─► filter ─► Keep      written as it is
//!                                                         ├─► Drop      a tombstone, or nothing
//!                                                         └─► Change    written with another value
//! ```
//!
//! A program registers one [`CompactionFilter`] ([`crate::Options::compaction_filter`]). Nothing on
//! storage depends on it, so its name is not recorded. [`RegisteredFilter`] calls it, and keeps its
//! failures and panics from the compaction.
//!
//! No I/O, no knowledge of snapshots or tables: `merge::filter_pass` decides what is shown, and
//! what a decision becomes. Tests: here; `tests/suite/compaction_filters.rs`.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The reason why a compaction filter could not decide.
pub type FilterFailure = Box<dyn std::error::Error + Send + Sync>;

/// An entry that a compaction is about to write.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct FilterEntry<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The value.
    pub value: &'a [u8],
    /// The level that the entry goes to; 1 is the youngest.
    pub level: usize,
    /// True if no older version of the key is in the tree: the compaction keeps none, and no older
    /// run has one. False if that is not certain.
    pub is_oldest: bool,
}

impl fmt::Debug for FilterEntry<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FilterEntry")
            .field("key", &self.key.escape_ascii().to_string())
            .field("value_bytes", &self.value.len())
            .field("level", &self.level)
            .field("is_oldest", &self.is_oldest)
            .finish()
    }
}

/// What becomes of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FilterDecision {
    /// The entry stays as it is.
    Keep,
    /// The key is deleted. Older versions stay deleted, too.
    Drop,
    /// The key gets the value that was written to the buffer.
    Change,
}

/// A compaction filter: decides what becomes of entries that compactions write anyway. With it, a
/// program drops entries that have expired, or whose tenant is gone, and rewrites values of an old
/// format, without reading and writing them itself.
///
/// # Which entries it is shown
///
/// * Of each key that a compaction copies, the newest version that is kept, if that is a put.
///   Merge operands are shown when they have become a value.
/// * Nothing that a snapshot, a scan or a transaction can read: what these read does not change.
///   While one is open, older entries are not shown.
/// * Nothing that a delete or a range delete hides, as far as the compaction knows it. Writes that
///   are in memtables or younger runs are not known to it.
/// * No entry of a flush, and none of a table that is moved to another level without being copied.
///   How soon an entry is shown depends on the shape of the tree.
///   [`Db::compact`](crate::Db::compact) copies all tables, and so shows all entries.
///
/// # When it takes effect
///
/// The effect of a decision becomes visible when the output of the compaction does: to all later
/// reads, as if the entry had been deleted, or replaced, right after it was written. So writes that
/// are younger stay, and younger merge operands are merged with nothing, or with the changed value.
/// If a snapshot, a scan or a transaction has begun since the entry was shown, the decision is
/// void, and the entry stays until the next compaction. While an output with decisions becomes
/// visible, no snapshot begins: it waits for an edit of the manifest, which is a sync.
///
/// # What it must be
///
/// * **Repeatable.** The same entry may be shown again: by a later compaction if it was kept, and
///   after a crash, a failure or a void decision. A change must be right if it is applied to its
///   own result.
/// * **Fast.** It is called on a background thread for each such entry, and delays the compaction,
///   and at last writers.
/// * **Alone.** It must not call the database.
///
/// If it fails or panics, the entry stays as it is; see [`CompactionFilter::filter`].
///
/// ```
/// use tamarack::{CompactionFilter, FilterDecision, FilterEntry, FilterFailure};
///
/// /// Drops values whose first eight bytes are a time before `now`.
/// struct Expiry {
///     now: u64,
/// }
///
/// impl CompactionFilter for Expiry {
///     fn name(&self) -> &str {
///         "example.expiry"
///     }
///
///     fn filter(
///         &self,
///         entry: &FilterEntry<'_>,
///         _: &mut Vec<u8>,
///     ) -> Result<FilterDecision, FilterFailure> {
///         let expires = entry.value.first_chunk().ok_or("a value without a time")?;
///         let is_over = u64::from_be_bytes(*expires) < self.now;
///         Ok(if is_over { FilterDecision::Drop } else { FilterDecision::Keep })
///     }
/// }
/// # let advanced = tamarack::AdvancedOptions::new().env(tamarack::MemoryEnv::new(1));
/// # let options = tamarack::Options::new().advanced(advanced);
/// let expiry = std::sync::Arc::new(Expiry { now: 1000 });
/// let db = options.compaction_filter(expiry).open("/sessions")?;
/// db.put("ann", 999_u64.to_be_bytes())?;
/// db.put("ben", 1001_u64.to_be_bytes())?;
/// db.compact()?;
/// assert!(db.get("ann")?.is_none() && db.get("ben")?.is_some());
/// assert_eq!(db.stats().compaction_filter_dropped, 1);
/// # Ok::<(), tamarack::Error>(())
/// ```
pub trait CompactionFilter: Send + Sync {
    /// Returns the name of the filter, for events and log messages. It is not recorded.
    fn name(&self) -> &str;

    /// Decides what becomes of an entry. For [`FilterDecision::Change`], the new value is appended
    /// to `value`, which is empty; it may be as long as one that is put, an eighth of the memory
    /// budget and 1 GiB.
    ///
    /// # Errors
    /// Any reason why that cannot be decided. The entry stays as it is, and the compaction goes on,
    /// as after a panic (in a process that is built to unwind) and a value that is too long.
    /// [`Stats::compaction_filter_failures`](crate::Stats::compaction_filter_failures) counts the
    /// entries, and an [`Event::CompactionFilterFailed`](crate::Event::CompactionFilterFailed) has
    /// the first reason of each output table.
    fn filter(&self, entry: &FilterEntry<'_>, value: &mut Vec<u8>) -> Result<FilterDecision, FilterFailure>;
}

/// The compaction filter of an open database.
#[derive(Clone)]
pub struct RegisteredFilter {
    filter: Arc<dyn CompactionFilter>,
    /// The longest value that a change may make, in bytes.
    value_bytes_max: u64,
}

impl RegisteredFilter {
    /// Registers a filter, whose values have at most this length.
    pub fn new(filter: Arc<dyn CompactionFilter>, value_bytes_max: u64) -> Self {
        Self { filter, value_bytes_max }
    }

    /// Returns the name of the filter.
    pub fn name(&self) -> &str {
        self.filter.name()
    }

    /// Calls the filter. A changed value is in `value`, whose content is replaced.
    ///
    /// # Errors
    /// Why it could not decide, in words that name the key.
    pub fn decide(&self, entry: &FilterEntry<'_>, value: &mut Vec<u8>) -> Result<FilterDecision, String> {
        value.clear();
        let failed = |why: &dyn fmt::Display| {
            let (name, key) = (self.name(), entry.key.escape_ascii());
            format!("compaction filter {name} failed for key \"{key}\", whose entry is kept: {why}")
        };
        // Nothing of ours is changed in between, so a panic leaves nothing half done.
        let decided = catch_unwind(AssertUnwindSafe(|| self.filter.filter(entry, value)));
        let decision = match decided {
            Ok(decision) => decision.map_err(|failure| failed(&failure))?,
            Err(panic) => return Err(failed(&format_args!("it panicked: {}", message_of(&*panic)))),
        };
        if decision == FilterDecision::Change && value.len() as u64 > self.value_bytes_max {
            let (bytes, most) = (value.len(), self.value_bytes_max);
            return Err(failed(&format_args!("its value has {bytes} bytes; the maximum is {most}")));
        }
        Ok(decision)
    }
}

/// The message of a panic.
fn message_of(panic: &(dyn std::any::Any + Send)) -> &str {
    let owned = panic.downcast_ref::<String>().map(String::as_str);
    owned.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message")
}

impl fmt::Debug for RegisteredFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Does what the value says.
    struct Obedient;

    impl CompactionFilter for Obedient {
        fn name(&self) -> &str {
            "test.obedient"
        }

        fn filter(&self, entry: &FilterEntry<'_>, value: &mut Vec<u8>) -> Result<FilterDecision, FilterFailure> {
            value.extend_from_slice(entry.key);
            match entry.value {
                b"fail" => Err("it shall fail".into()),
                b"panic" => panic!("it shall panic at {}", entry.level),
                b"change" => Ok(FilterDecision::Change),
                _ => Ok(FilterDecision::Keep),
            }
        }
    }

    #[test]
    fn failures_panics_and_long_values_are_errors_that_name_the_key() {
        let filter = RegisteredFilter::new(Arc::new(Obedient), 3);
        let mut value = b"of before".to_vec();
        let mut decide = |key: &str, put: &str| {
            let entry = FilterEntry { key: key.as_bytes(), value: put.as_bytes(), level: 7, is_oldest: false };
            filter.decide(&entry, &mut value).map(|decision| (decision, value.clone()))
        };
        assert_eq!(decide("oak", "change"), Ok((FilterDecision::Change, b"oak".to_vec())));
        assert_eq!(decide("maple", "keep").map(|(decision, _)| decision), Ok(FilterDecision::Keep));
        for (put, why) in [
            ("fail", "kept: it shall fail"),
            ("panic", "it panicked: it shall panic at 7"),
            ("change", "5 bytes; the maximum is 3"),
        ] {
            let error = decide("maple", put).expect_err(put);
            assert!(error.contains("test.obedient") && error.contains("\"maple\"") && error.contains(why), "{error}");
        }
    }
}
