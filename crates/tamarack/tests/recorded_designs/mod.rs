//! [`RecordedChanges`]: the changes of the design that a database has recorded, checked against
//! each other and against the design that it has.
//!
//! ```text
//! A → B: why     a change records both designs in one edit with its first step
//!     B → C      the next one begins with what the one before has made:
//!                    B, or if only policy, memtables and blocks were changed, a half of it
//!         C      so does the design that the database has
//! ```
//!
//! So a record of what was not made is noticed, a change without its record, and a design that is
//! not the one that was made. Sizes of blocks are recorded where they change, and not compared: the
//! options of these tests give one, which each opening returns to.

use std::fmt;

use tamarack::Db;
use tamarack_model::Bytes;
use tamarack_model::filter::FilterChoice;
use tamarack_model::policy;

/// What is recorded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RecordedChanges {
    /// The number of the last change, if it was made at random; else of those that are recorded.
    pub(crate) number: u64,
    /// True if the last change was half made: all but the filters.
    pub(crate) is_half: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct RecordedDesign {
    policy: String,
    filter: String,
    memtables: String,
    /// The size of blocks, where it changes.
    blocks: Option<String>,
}

/// A line of the history.
#[derive(Debug)]
struct RecordedChange {
    before: RecordedDesign,
    after: RecordedDesign,
    why: String,
}

impl RecordedChanges {
    /// Checks what a database with an automatic policy has recorded. If the size of memtables is
    /// given, it need not be the recorded one.
    pub(crate) fn of(db: &Db, is_memtable_given: bool) -> Result<Self, String> {
        let stats = db.stats();
        let Some(policy) = stats.policy.strip_prefix("auto:") else {
            return Err(format!("the policy is {}, and not automatic", stats.policy));
        };
        let memtables = Bytes(stats.memtable_capacity_bytes).to_string();
        let present = RecordedDesign { policy: policy.to_owned(), filter: db.chosen_filter(), memtables, blocks: None };
        let mut number = 0;
        let mut last: Option<RecordedChange> = None;
        for line in db.design_history() {
            let change = RecordedChange::parse(&line).map_err(|why| format!("{why} in the recorded {line:?}"))?;
            if let Some(last) = &last
                && !last.has_made(&change.before, is_memtable_given)
            {
                return Err(format!("the recorded {last} is followed by {change}"));
            }
            number = change.number().unwrap_or(number + 1);
            last = Some(change);
        }
        let Some(last) = last else { return Ok(Self { number, is_half: false }) };
        if !last.has_made(&present, is_memtable_given) {
            return Err(format!("after the recorded {last}, the design is {present}"));
        }
        Ok(Self { number, is_half: present.filter != last.after.filter })
    }
}

impl RecordedChange {
    fn parse(line: &str) -> Result<Self, String> {
        let (before, rest) = line.split_once(" → ").ok_or("no arrow")?;
        let (after, why) = rest.split_once(": ").ok_or("no reason")?;
        Ok(Self { before: RecordedDesign::parse(before)?, after: RecordedDesign::parse(after)?, why: why.to_owned() })
    }

    fn number(&self) -> Option<u64> {
        self.why.strip_prefix("at random, change ")?.parse().ok()
    }

    /// True if the change leads to this design, or to it in half.
    fn has_made(&self, design: &RecordedDesign, is_memtable_given: bool) -> bool {
        let Self { before, after, .. } = self;
        let of_shape =
            |design: &RecordedDesign| (design.policy.clone(), (!is_memtable_given).then(|| design.memtables.clone()));
        // A record comes with the first step, which changes all but the filters if that changes.
        let may_be_half = of_shape(before) != of_shape(after) || before.blocks != after.blocks;
        of_shape(design) == of_shape(after)
            && (design.filter == after.filter || may_be_half && design.filter == before.filter)
    }
}

impl RecordedDesign {
    fn parse(words: &str) -> Result<Self, String> {
        let (rest, memtables) = words.split_once(", memtables of ").ok_or("no memtables")?;
        let (policy, filter) = rest.split_once(", ").ok_or("no filters")?;
        policy::parse(policy).map_err(|error| error.to_string())?;
        filter.parse::<FilterChoice>().map_err(|error| error.to_string())?;
        let (memtables, blocks) = match memtables.split_once(", blocks of ") {
            Some((memtables, blocks)) => (memtables, Some(blocks)),
            None => (memtables, None),
        };
        for size in [memtables].into_iter().chain(blocks) {
            size.parse::<Bytes>()?;
        }
        let blocks = blocks.map(str::to_owned);
        let [policy, filter, memtables] = [policy, filter, memtables].map(str::to_owned);
        Ok(Self { policy, filter, memtables, blocks })
    }
}

impl fmt::Display for RecordedDesign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}, memtables of {}", self.policy, self.filter, self.memtables)?;
        self.blocks.iter().try_for_each(|blocks| write!(f, ", blocks of {blocks}"))
    }
}

impl fmt::Display for RecordedChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} → {} ({})", self.before, self.after, self.why)
    }
}
