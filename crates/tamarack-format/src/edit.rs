//! Edits: the changes of the tree on storage, as records of the manifest.
//!
//! ```text
//! edit     number varint │ change │ change │ …            to the end of the record
//! change   tag u8 │ length varint │ fields, as the tag says │ numbered fields
//! ```
//!
//! Numbered fields ([`crate::fields`]) are what later versions add to a change.
//!
//! An [`Edit`] is the unit of atomicity: all of its changes take effect together. `tree::version`
//! decides what the changes mean. One value has one encoding, so decoding and encoding again yields
//! the same bytes.
//!
//! An unknown tag was written by a newer version: that is distinguished from damage. Tags below 128
//! are required; a reader skips a change with an unknown tag from 128 on, and does not write it
//! again.
//!
//! Tests: round trips of random edits; decoding of arbitrary bytes (here, and the fuzz target
//! `journal`); stored bytes of each kind of change in the engine's `tests/golden/v2/edit.txt`.

use std::fmt;
use std::sync::Arc;

use crate::coding::{Reader, put_bytes, put_varint};
use crate::entry::Sequence;
pub use tamarack_model::RunId;

use crate::fields::{FieldError, FieldReader, FieldWriter};
pub use crate::key_range::{Key, KeyRange};
use crate::meta::{EditNumber, TableId, TableMeta, TreeId};

/// The number of a compaction. Never reused in a database.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CompactionId(pub u64);

/// An atomic change of the tree on storage.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Edit {
    /// Its number, one more than that of the previous edit.
    pub number: EditNumber,
    /// The changes, in the order in which they are applied.
    pub changes: Vec<Change>,
}

/// A slice of a table in an edit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SliceSpec {
    /// The table, which is in the tree already, or is added earlier in the same edit.
    pub table: TableId,
    /// The range of the slice; a missing bound is the table's own.
    pub range: KeyRange,
}

/// An encoded design and shape of a tree, opaque to the manifest.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShapeBlob {
    /// The encoding of the bytes.
    pub kind: u32,
    /// The design and shape.
    pub bytes: Arc<[u8]>,
}

/// A change of an [`Edit`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    /// The identity of the database. First in a manifest's base, and nowhere else.
    Database {
        /// Its random id.
        id: u64,
    },
    /// The ids below these are used. They only grow.
    IdsUsed {
        /// The id of the next table.
        tables: u64,
        /// The id of the next run.
        runs: u64,
        /// The id of the next compaction.
        compactions: u64,
    },
    /// An empty tree is created.
    TreeCreated {
        /// Its number.
        tree: TreeId,
    },
    /// A tree (keyspace) gets a name that no other tree has, in place of its old one. The default
    /// tree's name is empty.
    TreeNamed {
        /// The tree.
        tree: TreeId,
        /// The name.
        name: Arc<str>,
    },
    /// A tree is dropped, with all its runs and tables. Its number is not reused.
    TreeDropped {
        /// Its number.
        tree: TreeId,
    },
    /// A table is added to a tree. A slice must name it before the edit ends.
    TableAdded {
        /// The tree.
        tree: TreeId,
        /// The manifest's record of the table.
        meta: Arc<TableMeta>,
    },
    /// An empty run is added.
    RunAdded {
        /// The tree.
        tree: TreeId,
        /// The run.
        run: RunId,
        /// The level, 1 the smallest.
        level: u32,
        /// Its index in the level, 0 the youngest; the runs at and after that index move by one.
        index: u32,
    },
    /// Slices are added to a run, in the order of their keys.
    SlicesAdded {
        /// The tree.
        tree: TreeId,
        /// The run, which is in no compaction.
        run: RunId,
        /// The new slices, in key order.
        slices: Vec<SliceSpec>,
    },
    /// All keys of a range are removed from a run.
    RunCut {
        /// The tree.
        tree: TreeId,
        /// The run, which is in no compaction.
        run: RunId,
        /// The range to remove.
        range: KeyRange,
    },
    /// A run is removed, with all its slices.
    RunRemoved {
        /// The tree.
        tree: TreeId,
        /// The run, which is in no compaction.
        run: RunId,
    },
    /// A compaction begins.
    CompactionBegun {
        /// The tree.
        tree: TreeId,
        /// The compaction.
        compaction: CompactionId,
        /// Its input runs: neighbours, young to old, in no other compaction.
        inputs: Vec<RunId>,
        /// Its output run: next to the inputs, in no other compaction.
        output: RunId,
    },
    /// A compaction hands over a range: it is removed from every input, and the output gets the
    /// result.
    CompactionAdvanced {
        /// The tree.
        tree: TreeId,
        /// The compaction.
        compaction: CompactionId,
        /// The range, which was not handed over before.
        range: KeyRange,
        /// The new slices of the output, in key order, within the range; none if no entry was kept.
        outputs: Vec<SliceSpec>,
    },
    /// A compaction has handed over all keys. Its inputs, which are empty, are removed; so is an
    /// empty output.
    CompactionEnded {
        /// The tree.
        tree: TreeId,
        /// The compaction.
        compaction: CompactionId,
    },
    /// Runs move to other levels without passing each other.
    Relabelled {
        /// The tree.
        tree: TreeId,
        /// All runs: level by level from 1, young to old.
        levels: Vec<Vec<RunId>>,
    },
    /// The tree gets a new design or shape.
    ShapeSet {
        /// The tree.
        tree: TreeId,
        /// The design and shape.
        shape: ShapeBlob,
    },
    /// All writes to the tree up to this one are in its tables. It only grows.
    FlushedThrough {
        /// The tree.
        tree: TreeId,
        /// The sequence number of the last of them.
        sequence: Sequence,
    },
    /// The database was closed cleanly, and its WAL ends here.
    WalEnd {
        /// The position in the WAL.
        position: u64,
    },
    /// The WAL is written again: its end is no longer known. First in the first edit after
    /// [`Change::WalEnd`].
    WalReopened,
    /// A lower bound on the durable part of the WAL when the edit was made.
    WalDurable {
        /// The position in the WAL.
        position: u64,
    },
    /// A range of keys of several runs has become part of one of them, or a repair has left a part
    /// of a compaction. From then on the sequences of a whole table do not tell its age relative to
    /// another's, until the tree is one run again.
    AgesMixed {
        /// The tree.
        tree: TreeId,
    },
    /// Ranges of keys are deleted in the tables of the tree: entries in one of them with a smaller
    /// sequence are hidden from readers at or above its own.
    RangesDeleted {
        /// The tree.
        tree: TreeId,
        /// The ranges, none empty, each with the sequence number of its deletion, which no other
        /// one has.
        ranges: Vec<(KeyRange, Sequence)>,
    },
    /// Range deletes end: no table of the tree has an entry that one of them hides.
    RangeDeletesEnded {
        /// The tree.
        tree: TreeId,
        /// Their sequence numbers.
        sequences: Vec<Sequence>,
    },
    /// The merge operands of the tree are those of another merge operator from now on. There are no
    /// operands of the one before.
    MergeOperatorSet {
        /// The tree.
        tree: TreeId,
        /// The stable name of the operator.
        name: Arc<str>,
    },
}

/// The reason why bytes are not an edit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EditError {
    /// The bytes are damaged, or were never an edit.
    Malformed(&'static str),
    /// A newer version wrote a change with this tag.
    UnknownChange(u8),
    /// A newer version wrote a required field with this number.
    UnknownField(u64),
}

impl Edit {
    /// Encodes the edit.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_varint(&mut out, self.number.0);
        for change in &self.changes {
            let mut fields = Vec::new();
            out.push(change.encode(&mut fields));
            put_bytes(&mut out, &fields);
        }
        out
    }

    /// Decodes an edit that [`Edit::encode`] encoded.
    pub fn decode(bytes: &[u8]) -> Result<Self, EditError> {
        let mut reader = Reader::new(bytes);
        let number = EditNumber(field(reader.varint(), "an edit's number")?);
        let mut changes = Vec::new();
        while let Some(tag) = reader.u8() {
            let fields = field(reader.bytes(), "a change")?;
            if let Some(change) = Change::decode(tag, &mut Reader::new(fields))? {
                changes.push(change);
            }
        }
        Ok(Self { number, changes })
    }
}

impl Edit {
    /// A table of the edit with a kind of entry that this version stores but does not serve yet,
    /// and that kind.
    pub fn unserved(&self) -> Option<(TableId, &'static str)> {
        self.changes.iter().find_map(|change| match change {
            Change::TableAdded { meta, .. } => Some((meta.id, meta.unserved()?)),
            _ => None,
        })
    }
}

impl fmt::Display for EditError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(what) => write!(f, "{what} is not well formed"),
            Self::UnknownChange(tag) => {
                write!(f, "a newer version wrote a change of kind {tag}, which this version does not know")
            }
            Self::UnknownField(number) => {
                write!(f, "a newer version wrote a change with field {number}, which this version does not know")
            }
        }
    }
}

/// The tags of the kinds of change. They are part of the format and never reused.
mod tag {
    pub(super) const DATABASE: u8 = 1;
    pub(super) const IDS_USED: u8 = 2;
    pub(super) const TREE_CREATED: u8 = 3;
    pub(super) const TABLE_ADDED: u8 = 4;
    pub(super) const RUN_ADDED: u8 = 5;
    pub(super) const SLICES_ADDED: u8 = 6;
    pub(super) const RUN_CUT: u8 = 7;
    pub(super) const RUN_REMOVED: u8 = 8;
    pub(super) const COMPACTION_BEGUN: u8 = 9;
    pub(super) const COMPACTION_ADVANCED: u8 = 10;
    pub(super) const COMPACTION_ENDED: u8 = 11;
    pub(super) const RELABELLED: u8 = 12;
    pub(super) const SHAPE_SET: u8 = 13;
    pub(super) const FLUSHED_THROUGH: u8 = 14;
    pub(super) const WAL_END: u8 = 15;
    pub(super) const WAL_REOPENED: u8 = 16;
    pub(super) const WAL_DURABLE: u8 = 17;
    pub(super) const AGES_MIXED: u8 = 18;
    pub(super) const TREE_NAMED: u8 = 19;
    pub(super) const TREE_DROPPED: u8 = 20;
    pub(super) const MERGE_OPERATOR_SET: u8 = 21;
    pub(super) const RANGES_DELETED: u8 = 22;
    pub(super) const RANGE_DELETES_ENDED: u8 = 23;
    pub(super) const LAST: u8 = RANGE_DELETES_ENDED;
    /// The first tag of optional changes, which a reader skips if it does not know them.
    pub(super) const OPTIONAL: u8 = 128;
}

impl Change {
    /// The largest tag in use; all from 1 to this one are.
    pub const TAG_LAST: u8 = tag::LAST;

    /// Appends the fields; returns the tag.
    fn encode(&self, out: &mut Vec<u8>) -> u8 {
        match self {
            Self::Database { id } => {
                out.extend_from_slice(&id.to_le_bytes());
                tag::DATABASE
            }
            Self::IdsUsed { tables, runs, compactions } => {
                put_numbers(out, tag::IDS_USED, &[*tables, *runs, *compactions])
            }
            Self::TreeCreated { tree } => put_numbers(out, tag::TREE_CREATED, &[tree.0.into()]),
            Self::TreeNamed { tree, name } => {
                put_varint(out, tree.0.into());
                put_bytes(out, name.as_bytes());
                tag::TREE_NAMED
            }
            Self::TreeDropped { tree } => put_numbers(out, tag::TREE_DROPPED, &[tree.0.into()]),
            Self::TableAdded { tree, meta } => {
                put_varint(out, tree.0.into());
                let mut fields = FieldWriter::default();
                meta.put(&mut fields);
                fields.finish(out);
                tag::TABLE_ADDED
            }
            Self::RunAdded { tree, run, level, index } => {
                put_numbers(out, tag::RUN_ADDED, &[tree.0.into(), run.0, u64::from(*level), u64::from(*index)])
            }
            Self::SlicesAdded { tree, run, slices } => {
                let tag = put_numbers(out, tag::SLICES_ADDED, &[tree.0.into(), run.0]);
                put_list(out, slices, put_slice);
                tag
            }
            Self::RunCut { tree, run, range } => {
                let tag = put_numbers(out, tag::RUN_CUT, &[tree.0.into(), run.0]);
                put_range(out, range);
                tag
            }
            Self::RunRemoved { tree, run } => put_numbers(out, tag::RUN_REMOVED, &[tree.0.into(), run.0]),
            Self::CompactionBegun { tree, compaction, inputs, output } => {
                let tag = put_numbers(out, tag::COMPACTION_BEGUN, &[tree.0.into(), compaction.0]);
                put_list(out, inputs, put_run);
                put_run(out, output);
                tag
            }
            Self::CompactionAdvanced { tree, compaction, range, outputs } => {
                let tag = put_numbers(out, tag::COMPACTION_ADVANCED, &[tree.0.into(), compaction.0]);
                put_range(out, range);
                put_list(out, outputs, put_slice);
                tag
            }
            Self::CompactionEnded { tree, compaction } => {
                put_numbers(out, tag::COMPACTION_ENDED, &[tree.0.into(), compaction.0])
            }
            Self::Relabelled { tree, levels } => {
                let tag = put_numbers(out, tag::RELABELLED, &[tree.0.into()]);
                put_list(out, levels, |out, runs| put_list(out, runs, put_run));
                tag
            }
            Self::ShapeSet { tree, shape } => {
                let tag = put_numbers(out, tag::SHAPE_SET, &[tree.0.into(), shape.kind.into()]);
                put_bytes(out, &shape.bytes);
                tag
            }
            Self::FlushedThrough { tree, sequence } => {
                put_numbers(out, tag::FLUSHED_THROUGH, &[tree.0.into(), sequence.0])
            }
            Self::WalEnd { position } => put_numbers(out, tag::WAL_END, &[*position]),
            Self::WalReopened => put_numbers(out, tag::WAL_REOPENED, &[]),
            Self::WalDurable { position } => put_numbers(out, tag::WAL_DURABLE, &[*position]),
            Self::AgesMixed { tree } => put_numbers(out, tag::AGES_MIXED, &[tree.0.into()]),
            Self::MergeOperatorSet { tree, name } => {
                put_varint(out, tree.0.into());
                put_bytes(out, name.as_bytes());
                tag::MERGE_OPERATOR_SET
            }
            Self::RangesDeleted { tree, ranges } => {
                put_varint(out, tree.0.into());
                put_list(out, ranges, |out, (range, sequence)| {
                    put_range(out, range);
                    put_varint(out, sequence.0);
                });
                tag::RANGES_DELETED
            }
            Self::RangeDeletesEnded { tree, sequences } => {
                put_varint(out, tree.0.into());
                put_list(out, sequences, |out, sequence| put_varint(out, sequence.0));
                tag::RANGE_DELETES_ENDED
            }
        }
    }

    /// Decodes the change with that tag and those fields; `None` if it is an optional one of a
    /// newer version.
    fn decode(tag: u8, reader: &mut Reader<'_>) -> Result<Option<Self>, EditError> {
        let change = match tag {
            tag::DATABASE => Self::Database { id: field(reader.u64(), "the database's id")? },
            tag::IDS_USED => {
                Self::IdsUsed { tables: number(reader)?, runs: number(reader)?, compactions: number(reader)? }
            }
            tag::TREE_CREATED => Self::TreeCreated { tree: tree(reader)? },
            tag::TREE_NAMED => Self::TreeNamed { tree: tree(reader)?, name: name(reader)? },
            tag::TREE_DROPPED => Self::TreeDropped { tree: tree(reader)? },
            tag::TABLE_ADDED => {
                let tree = tree(reader)?;
                let mut fields = FieldReader::new(reader.rest()).map_err(of_fields)?;
                let meta = Arc::new(TableMeta::take(&mut fields).map_err(of_fields)?);
                fields.finish().map_err(of_fields)?;
                return Ok(Some(Self::TableAdded { tree, meta }));
            }
            tag::RUN_ADDED => Self::RunAdded {
                tree: tree(reader)?,
                run: run(reader)?,
                level: small_number(reader)?,
                index: small_number(reader)?,
            },
            tag::SLICES_ADDED => {
                Self::SlicesAdded { tree: tree(reader)?, run: run(reader)?, slices: list(reader, slice)? }
            }
            tag::RUN_CUT => Self::RunCut { tree: tree(reader)?, run: run(reader)?, range: range(reader)? },
            tag::RUN_REMOVED => Self::RunRemoved { tree: tree(reader)?, run: run(reader)? },
            tag::COMPACTION_BEGUN => Self::CompactionBegun {
                tree: tree(reader)?,
                compaction: compaction(reader)?,
                inputs: list(reader, run)?,
                output: run(reader)?,
            },
            tag::COMPACTION_ADVANCED => Self::CompactionAdvanced {
                tree: tree(reader)?,
                compaction: compaction(reader)?,
                range: range(reader)?,
                outputs: list(reader, slice)?,
            },
            tag::COMPACTION_ENDED => Self::CompactionEnded { tree: tree(reader)?, compaction: compaction(reader)? },
            tag::RELABELLED => {
                Self::Relabelled { tree: tree(reader)?, levels: list(reader, |reader| list(reader, run))? }
            }
            tag::SHAPE_SET => Self::ShapeSet {
                tree: tree(reader)?,
                shape: ShapeBlob { kind: small_number(reader)?, bytes: field(reader.bytes(), "a shape")?.into() },
            },
            tag::FLUSHED_THROUGH => Self::FlushedThrough { tree: tree(reader)?, sequence: sequence(reader)? },
            tag::WAL_END => Self::WalEnd { position: number(reader)? },
            tag::WAL_REOPENED => Self::WalReopened,
            tag::WAL_DURABLE => Self::WalDurable { position: number(reader)? },
            tag::AGES_MIXED => Self::AgesMixed { tree: tree(reader)? },
            tag::MERGE_OPERATOR_SET => Self::MergeOperatorSet { tree: tree(reader)?, name: name(reader)? },
            tag::RANGES_DELETED => {
                let item = |reader: &mut Reader<'_>| Ok((range(reader)?, sequence(reader)?));
                Self::RangesDeleted { tree: tree(reader)?, ranges: list(reader, item)? }
            }
            tag::RANGE_DELETES_ENDED => {
                Self::RangeDeletesEnded { tree: tree(reader)?, sequences: list(reader, sequence)? }
            }
            tag::OPTIONAL.. => return Ok(None),
            unknown => return Err(EditError::UnknownChange(unknown)),
        };
        FieldReader::new(reader.rest()).and_then(FieldReader::finish).map_err(of_fields)?;
        Ok(Some(change))
    }
}

fn of_fields(error: FieldError) -> EditError {
    match error {
        FieldError::Malformed => EditError::Malformed("the fields of a change"),
        FieldError::Unknown(number) => EditError::UnknownField(number),
    }
}

/// Appends numbers; returns the tag of their change.
fn put_numbers(out: &mut Vec<u8>, tag: u8, numbers: &[u64]) -> u8 {
    for number in numbers {
        put_varint(out, *number);
    }
    tag
}

fn put_run(out: &mut Vec<u8>, run: &RunId) {
    put_varint(out, run.0);
}

/// A count, then the items.
fn put_list<T>(out: &mut Vec<u8>, items: &[T], mut put: impl FnMut(&mut Vec<u8>, &T)) {
    put_varint(out, items.len() as u64);
    for item in items {
        put(out, item);
    }
}

fn put_slice(out: &mut Vec<u8>, slice: &SliceSpec) {
    put_varint(out, slice.table.0);
    put_range(out, &slice.range);
}

fn put_range(out: &mut Vec<u8>, range: &KeyRange) {
    put_bound(out, range.from.as_deref());
    put_bound(out, range.to.as_deref());
}

/// Encodes a bound: 0 if there is none, else 1 + the key's length, and the key. (An empty key is a
/// key.)
fn put_bound(out: &mut Vec<u8>, bound: Option<&[u8]>) {
    match bound {
        None => put_varint(out, 0),
        Some(key) => {
            put_varint(out, key.len() as u64 + 1);
            out.extend_from_slice(key);
        }
    }
}

fn field<T>(value: Option<T>, what: &'static str) -> Result<T, EditError> {
    value.ok_or(EditError::Malformed(what))
}

fn number(reader: &mut Reader<'_>) -> Result<u64, EditError> {
    field(reader.varint(), "a number")
}

fn small_number(reader: &mut Reader<'_>) -> Result<u32, EditError> {
    field(reader.varint().and_then(|number| u32::try_from(number).ok()), "a number")
}

fn tree(reader: &mut Reader<'_>) -> Result<TreeId, EditError> {
    small_number(reader).map(TreeId)
}

fn name(reader: &mut Reader<'_>) -> Result<Arc<str>, EditError> {
    let name = field(reader.bytes(), "a name")?;
    std::str::from_utf8(name).map(Arc::from).map_err(|_| EditError::Malformed("a name"))
}

fn run(reader: &mut Reader<'_>) -> Result<RunId, EditError> {
    number(reader).map(RunId)
}

fn compaction(reader: &mut Reader<'_>) -> Result<CompactionId, EditError> {
    number(reader).map(CompactionId)
}

fn sequence(reader: &mut Reader<'_>) -> Result<Sequence, EditError> {
    let sequence = Sequence(number(reader)?);
    field((sequence <= Sequence::MAX).then_some(sequence), "a sequence")
}

fn slice(reader: &mut Reader<'_>) -> Result<SliceSpec, EditError> {
    Ok(SliceSpec { table: TableId(number(reader)?), range: range(reader)? })
}

fn range(reader: &mut Reader<'_>) -> Result<KeyRange, EditError> {
    Ok(KeyRange { from: bound(reader)?, to: bound(reader)? })
}

fn bound(reader: &mut Reader<'_>) -> Result<Option<Key>, EditError> {
    match number(reader)?.checked_sub(1) {
        None => Ok(None),
        Some(length) => {
            let key = usize::try_from(length).ok().and_then(|length| reader.take(length));
            field(key, "a bound").map(|key| Some(key.into()))
        }
    }
}

/// A list as [`put_list`] writes it. Its count is not trusted: memory is allocated as the items
/// come.
fn list<T>(
    reader: &mut Reader<'_>,
    mut item: impl FnMut(&mut Reader<'_>) -> Result<T, EditError>,
) -> Result<Vec<T>, EditError> {
    let count = number(reader)?;
    let mut items = Vec::new();
    for _ in 0..count {
        items.push(item(reader)?);
    }
    Ok(items)
}
