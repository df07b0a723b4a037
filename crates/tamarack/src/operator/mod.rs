//! Merge operators: what a merge operand does to a value.
//!
//! ```text
//!   versions of a key, young to old     operand c    operand b    put v
//!   full merge                          merge(v, [b, c]) ─► value
//!   partial merge                       merge_partial(b, c) ─► one operand, the value unknown
//! ```
//!
//! A program registers one [`MergeOperator`] ([`crate::Options::merge_operator`]); the manifest has
//! its name. [`Merging`] is the operator of an open database, or the fact that it has none:
//! lookups, scans, flushes and compactions fold operands through it, and errors come from it.
//!
//! [`ready`] has the ready-made operators, which are found by their names.
//!
//! No I/O, no knowledge of entries, tables or snapshots: `merge::fold` decides what may be folded.
//! Tests: `tests/suite/operands.rs`.

mod laws;
pub mod ready;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

pub use laws::check_laws;
use tamarack_env::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, Result};
use crate::mistake::{self, Mistake};

/// The reason why a merge operator could not merge.
pub type MergeFailure = Box<dyn std::error::Error + Send + Sync>;

/// The result of a full merge.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Merged {
    /// The key has the value that was written to the buffer.
    Value,
    /// The key has no value: it is deleted.
    Deleted,
}

/// A merge operator: what the operands of [`Db::merge`](crate::Db::merge) do to a value.
///
/// # Laws
///
/// The same operands are merged again and again, by lookups and scans, and at last by a flush or a
/// compaction; how many at once depends on when that comes. So the result must depend on nothing
/// else than the value and the operands in their order:
///
/// * **Deterministic**: the same arguments give the same result, in each process and version of the
///   program. A changed operator needs a new name.
/// * **Composed of steps**: merging `a` and `b` into a value gives what merging `b` into the result
///   of merging `a` gives, also if that result is that the key is deleted. An average of its
///   operands, or the last three of them, is no such operator, unless its value tells what it needs
///   (the sum and the count; the last three).
/// * **Partial merges agree**: merging the result of [`MergeOperator::merge_partial`] gives what
///   merging its two operands gives, whatever is below and above them.
///
/// [`operators::check_laws`](crate::operators::check_laws) checks them for given operands: call it
/// in a test of the operator. An operator must not panic, and must not call the database.
///
/// # Partial merges
///
/// Flushes and compactions that do not know the value below the operands of a key join neighbours
/// by [`MergeOperator::merge_partial`]. An operator without partial merges works as well, but each
/// operand stays on storage until a compaction knows the value, so lookups of a key get slower with
/// each of its operands.
///
/// ```
/// use tamarack::{MergeFailure, MergeOperator, Merged};
///
/// /// The longest text that was merged.
/// struct Longest;
///
/// impl MergeOperator for Longest {
///     fn name(&self) -> &str {
///         "example.longest"
///     }
///
///     fn merge(
///         &self,
///         _key: &[u8],
///         existing: Option<&[u8]>,
///         operands: &[&[u8]],
///         value: &mut Vec<u8>,
///     ) -> Result<Merged, MergeFailure> {
///         let all = existing.into_iter().chain(operands.iter().copied());
///         value.extend_from_slice(all.max_by_key(|text| text.len()).unwrap_or_default());
///         Ok(Merged::Value)
///     }
/// }
/// # let advanced = tamarack::AdvancedOptions::new().env(tamarack::MemoryEnv::new(1));
/// # let options = tamarack::Options::new().advanced(advanced);
/// let db = options.merge_operator(std::sync::Arc::new(Longest)).open("/texts")?;
/// db.put("oak", "leaf")?;
/// db.merge("oak", "acorn")?;
/// db.merge("oak", "bark")?;
/// assert_eq!(db.get("oak")?.as_deref(), Some(&b"acorn"[..]));
/// # Ok::<(), tamarack::Error>(())
/// ```
pub trait MergeOperator: Send + Sync {
    /// Returns the name of the operator, 1 to 255 bytes. The manifest records it: a database with
    /// operands of one operator does not open with another one. Names that begin with `tamarack.`
    /// are those of [`crate::operators`].
    fn name(&self) -> &str;

    /// Full merge: appends the value that `key` has after `operands`, which are listed old to new
    /// and never empty, to the empty buffer `value`. `existing` is the value before them, `None` if
    /// there is none.
    ///
    /// # Errors
    /// Any reason why these cannot be merged. Reads of the key return it as [`Error::Merge`]; what
    /// is stored stays as it is.
    fn merge(
        &self,
        key: &[u8],
        existing: Option<&[u8]>,
        operands: &[&[u8]],
        value: &mut Vec<u8>,
    ) -> Result<Merged, MergeFailure>;

    /// Partial merge: appends one operand that does what `older` and then `newer` do to the empty
    /// buffer `operand`, and returns true; false if there is no such operand. Default: false.
    ///
    /// # Errors
    /// Any reason why these cannot be merged: they stay two operands.
    fn merge_partial(
        &self,
        key: &[u8],
        older: &[u8],
        newer: &[u8],
        operand: &mut Vec<u8>,
    ) -> Result<bool, MergeFailure> {
        let _ = (key, older, newer, operand);
        Ok(false)
    }

    /// Checks an operand before it is written. What it refuses is not written
    /// ([`Error::InvalidArgument`]); an operand that it lets pass and that cannot be merged makes
    /// its key unreadable until the key is put or deleted. Default: every operand passes.
    ///
    /// # Errors
    /// The reason why `operand` can never be merged.
    fn check_operand(&self, operand: &[u8]) -> Result<(), MergeFailure> {
        let _ = operand;
        Ok(())
    }
}

/// The longest value that a merge may make: the longest that tables hold.
const VALUE_BYTES_MAX: u64 = 1 << 30;

/// The longest name of an operator, in bytes.
pub const NAME_BYTES_MAX: usize = 255;

/// The merge operator of an open database, if it has one.
pub struct Merging {
    /// The directory of the database, for errors.
    dir: Arc<Path>,
    operator: Option<Arc<dyn MergeOperator>>,
    /// The name that the manifest has.
    recorded: Option<Arc<str>>,
    /// True after a flush or a compaction could not merge something.
    has_failed: AtomicBool,
}

impl Merging {
    /// Makes the merging of the database in `dir`, with the operator that serves it and the name
    /// that it has recorded.
    pub fn new(dir: Arc<Path>, operator: Option<Arc<dyn MergeOperator>>, recorded: Option<Arc<str>>) -> Arc<Self> {
        Arc::new(Self { dir, operator, recorded, has_failed: AtomicBool::new(false) })
    }

    /// Returns the directory of the database.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns true if there is an operator, so that operands can be written and merged.
    pub fn is_served(&self) -> bool {
        self.operator.is_some()
    }

    /// Returns true if a compaction can be expected to merge operands: there is an operator, and
    /// no flush or compaction of this process has met operands that it cannot merge. Otherwise
    /// compactions for the sake of operands alone would come again and again for nothing.
    pub fn can_fold(&self) -> bool {
        // Relaxed: a compaction too many costs time only.
        self.is_served() && !self.has_failed.load(Ordering::Relaxed)
    }

    /// Notes that a flush or a compaction could not merge something; returns true the first time.
    pub fn note_failure(&self) -> bool {
        !self.has_failed.swap(true, Ordering::Relaxed)
    }

    /// Checks an operand that is to be written. See [`MergeOperator::check_operand`].
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if there is no operator, or if it refuses the operand.
    #[cold]
    pub fn check_operand(&self, key: &[u8], operand: &[u8]) -> Result<()> {
        let Some(operator) = &self.operator else {
            let what = "merge operands need a merge operator: open the database with `Options::merge_operator`";
            return Err(Error::InvalidArgument(what.to_owned()));
        };
        operator.check_operand(operand).map_err(|failure| {
            let (name, key) = (operator.name(), key.escape_ascii());
            Error::InvalidArgument(format!("merge operator {name} refuses an operand for key \"{key}\": {failure}"))
        })
    }

    /// Full merge of `operands`, old to new, into `value`, which is empty. See
    /// [`MergeOperator::merge`].
    ///
    /// # Errors
    /// [`Error::Merge`] if there is no operator, or if it fails.
    pub fn merge(
        &self,
        key: &[u8],
        existing: Option<&[u8]>,
        operands: &[&[u8]],
        value: &mut Vec<u8>,
    ) -> Result<Merged> {
        let Some(operator) = &self.operator else { return Err(self.missing(key)) };
        let merged = operator.merge(key, existing, operands, value);
        let merged = merged.map_err(|failure| self.failed(key, failure.to_string()))?;
        if value.len() as u64 > VALUE_BYTES_MAX {
            return Err(self.failed(key, format!("the value has {} bytes; the maximum is 1 GiB", value.len())));
        }
        Ok(merged)
    }

    /// Returns the value that a full merge makes, `None` if it deletes the key.
    ///
    /// # Errors
    /// As [`Merging::merge`].
    pub fn value(&self, key: &[u8], existing: Option<&[u8]>, operands: &[&[u8]]) -> Result<Option<Vec<u8>>> {
        let mut value = Vec::new();
        let merged = self.merge(key, existing, operands, &mut value)?;
        Ok((merged == Merged::Value).then_some(value))
    }

    /// Partial merge of two neighbours into `operand`, which is empty. Returns false if they stay
    /// two: see [`MergeOperator::merge_partial`].
    ///
    /// # Errors
    /// As [`Merging::merge`].
    pub fn merge_partial(&self, key: &[u8], older: &[u8], newer: &[u8], operand: &mut Vec<u8>) -> Result<bool> {
        let Some(operator) = &self.operator else { return Err(self.missing(key)) };
        if mistake::is_planted(Mistake::OperandLost) {
            operand.extend_from_slice(newer);
            return Ok(true);
        }
        let merged = operator.merge_partial(key, older, newer, operand);
        merged.map_err(|failure| self.failed(key, failure.to_string()))
    }

    fn failed(&self, key: &[u8], what: String) -> Error {
        let name = self.operator.as_ref().map_or("", |operator| operator.name());
        Error::Merge { operator: name.to_owned(), key: key.to_vec(), what }
    }

    fn missing(&self, key: &[u8]) -> Error {
        let what = "it is not registered: open the database with `Options::merge_operator`".to_owned();
        let name = self.recorded.as_deref().unwrap_or("of unknown name");
        Error::Merge { operator: name.to_owned(), key: key.to_vec(), what }
    }
}

impl fmt::Debug for Merging {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.operator.as_ref().map(|operator| operator.name());
        f.debug_struct("Merging").field("operator", &name).field("recorded", &self.recorded).finish_non_exhaustive()
    }
}
