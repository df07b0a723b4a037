//! [`date`]: sequence bases of ingested tables that no manifest names.
//!
//! The manifest has the base of every table. Without it, the last table of an ingest says it in its
//! properties, for all tables of the ingest. If these properties are lost too, nothing says when
//! the ingest ended. Then it gets the earliest place in the history that the rest allows:
//!
//! ```text
//! numbers of tables      3         5         6 (ingested)      7          9
//! sequence numbers    1..90    91..120         ?           125..140   171..180
//!                                └─ lower bound ─┘ └ too few before ┘
//! ```
//!
//! * **Tables with smaller numbers.** Numbers of tables increase, and a table gets its own when it
//!   begins. So what these contain was written before the table began, and an ingest ends after
//!   its last table began. The same holds for everything that the readable part of the manifest
//!   calls flushed, and for what a finished table of the same ingest noted as visible.
//! * **Free sequence numbers.** An ingest takes as many sequence numbers as it has entries. If some
//!   other entry has one of the next so many, the ingest ended after that.
//!
//! So the ingest really ended there or later (unless ingests overlapped in time, when the tables of
//! the other one may count as older). Nothing younger is hidden by it; but writes after the bound
//! that were older than the ingest may hide its entries, and a repair lists these keys.
//! ([Decision 0010](../../../../docs/decisions/0010-a-sequence-base-per-table.md).)
//!
//! Pure. Tests: here, and `tests/faults/repair`.

use std::collections::BTreeMap;

use crate::entry::Sequence;
use crate::format::meta::TableMeta;
use crate::format::table::Properties;

/// Sequence numbers in use, both inclusive.
pub(super) type Used = (Sequence, Sequence);

/// What nothing names or dates, and what else is known of the history.
pub(super) struct Ingests<'a> {
    /// The tables that the manifest names, by number.
    pub(super) named: &'a BTreeMap<u64, TableMeta>,
    /// Other tables whose properties are whole.
    pub(super) unnamed: &'a mut BTreeMap<u64, TableMeta>,
    /// The readable entries of other tables, whose properties are lost.
    pub(super) damaged: &'a BTreeMap<u64, Properties>,
    /// Sequence numbers of the WAL's records.
    pub(super) wal: &'a [Used],
    /// Everything up to here is in named tables.
    pub(super) flushed_through: Sequence,
}

/// The place that an ingested table gets because nothing says it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Placed {
    /// The ingest ended after this sequence number.
    pub(crate) after: Sequence,
    /// The sequence base of the table.
    pub(crate) base: Sequence,
}

/// Sets the sequence bases of unnamed tables. Returns the guessed ones, also those of tables whose
/// properties are lost.
pub(super) fn date(ingests: Ingests<'_>) -> BTreeMap<u64, Placed> {
    let Ingests { named, unnamed, damaged, wal, flushed_through } = ingests;
    let mut groups: BTreeMap<u64, KnownTables> = BTreeMap::new();
    let of_manifest = named.values().map(|meta| (true, meta));
    for (is_named, meta) in of_manifest.chain(unnamed.values().map(|meta| (false, meta))) {
        let Some(part) = meta.ingest else { continue };
        groups.entry(part.first_table).or_default().add(meta, is_named || part.is_last);
    }
    let mut tables: BTreeMap<u64, Used> = BTreeMap::new();
    for meta in unnamed.values_mut() {
        if let Some(group) = meta.ingest.and_then(|part| groups.get(&part.first_table)).filter(|group| group.is_exact) {
            meta.properties.set_sequence_base(group.base);
        }
    }
    let is_undated = |meta: &&TableMeta| meta.ingest.is_some_and(|part| !groups[&part.first_table].is_exact);
    let dated = named.values().chain(unnamed.values().filter(|meta| !is_undated(meta)));
    tables.extend(dated.map(|meta| (meta.id.0, (meta.smallest_sequence, meta.largest_sequence))));
    let in_order = damaged.iter().filter(|(_, counted)| counted.entries > 0 && !is_ingested(counted));
    tables.extend(in_order.map(|(number, counted)| (*number, (counted.smallest_sequence, counted.largest_sequence))));
    let history = History { flushed_through, tables, wal };

    let mut guessed = BTreeMap::new();
    for group in groups.values().filter(|group| !group.is_exact) {
        let placed = history.place(group.youngest, group.base, group.entries);
        for number in &group.tables {
            unnamed
                .get_mut(number)
                .expect("ingests of named tables are dated")
                .properties
                .set_sequence_base(placed.base);
            guessed.insert(*number, placed);
        }
    }
    for (number, counted) in damaged.iter().filter(|(_, counted)| is_ingested(counted)) {
        // The ones that began before are most likely of the same ingest.
        let noted = groups.values().filter(|group| group.youngest < *number).map(|group| group.base);
        guessed.insert(*number, history.place(*number, noted.max().unwrap_or_default(), counted.entries));
    }
    guessed
}

/// True if the entries of a table without properties are those of an ingest. Otherwise only one
/// entry has the first sequence number.
fn is_ingested(counted: &Properties) -> bool {
    counted.entries > 1 && counted.largest_sequence == Sequence(1)
}

/// The tables of an ingest that have their properties.
#[derive(Debug, Default)]
struct KnownTables {
    /// The base that the last table has, or the largest lower bound that another one notes.
    base: Sequence,
    is_exact: bool,
    tables: Vec<u64>,
    youngest: u64,
    entries: u64,
}

impl KnownTables {
    fn add(&mut self, meta: &TableMeta, is_exact: bool) {
        (self.is_exact, self.base) = (self.is_exact, self.base).max((is_exact, meta.sequence_base));
        self.tables.push(meta.id.0);
        self.youngest = self.youngest.max(meta.id.0);
        self.entries += meta.entries;
    }
}

/// The part of the history whose sequence numbers are known.
#[derive(Debug)]
struct History<'a> {
    flushed_through: Sequence,
    /// By the number of the table.
    tables: BTreeMap<u64, Used>,
    wal: &'a [Used],
}

impl History<'_> {
    /// Places `entries` of an ingest whose youngest table is `table`, and which ended after
    /// `noted`.
    fn place(&self, table: u64, noted: Sequence, entries: u64) -> Placed {
        let older = self.tables.range(..table).map(|(_, (_, largest))| *largest);
        let mut after = older.max().unwrap_or_default().max(noted).max(self.flushed_through);
        // Between the smallest and the largest sequence number of a table, others may be free.
        let of_tables =
            self.tables.values().flat_map(|(smallest, largest)| [(*smallest, *smallest), (*largest, *largest)]);
        let mut used: Vec<Used> = of_tables.chain(self.wal.iter().copied()).collect();
        used.sort_unstable();
        for (first, last) in used {
            // The very last one may be the ingest's own, in the output of a compaction.
            if first.0 < after.0.saturating_add(entries) {
                after = after.max(last);
            }
        }
        // In the file all entries have the number 1; outside, the last of the run's numbers.
        let last = after.0.saturating_add(entries).min(Sequence::MAX.0 - 1);
        Placed { after, base: Sequence(last - 1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::meta::{EditNumber, TableId};
    use crate::format::table::IngestPart;

    fn table(number: u64, entries: u64, sequences: (u64, u64)) -> TableMeta {
        let (smallest_sequence, largest_sequence) = (Sequence(sequences.0), Sequence(sequences.1));
        let properties = Properties { entries, smallest_sequence, largest_sequence, ..Properties::default() };
        TableMeta {
            id: TableId(number),
            properties,
            file_bytes: 0,
            digest_bytes: 0,
            root_checksum: 0,
            created_after: EditNumber(0),
        }
    }

    fn ingested(number: u64, first: u64, is_last: bool, base: u64) -> TableMeta {
        let mut meta = table(number, 10, (1, 1));
        meta.properties.ingest = Some(IngestPart { first_table: first, is_last });
        meta.properties.set_sequence_base(Sequence(base));
        meta
    }

    fn dated(tables: &[TableMeta], damaged: &[(u64, u64)], wal: &[(u64, u64)]) -> (Vec<u64>, Vec<(u64, u64, u64)>) {
        let mut unnamed: BTreeMap<u64, TableMeta> = tables.iter().map(|meta| (meta.id.0, meta.clone())).collect();
        let damaged = damaged.iter().map(|(number, entries)| (*number, table(*number, *entries, (1, 1)).properties));
        let (damaged, named) = (damaged.collect(), BTreeMap::new());
        let wal: Vec<Used> = wal.iter().map(|(first, last)| (Sequence(*first), Sequence(*last))).collect();
        let flushed_through = Sequence(5);
        let guessed =
            date(Ingests { named: &named, unnamed: &mut unnamed, damaged: &damaged, wal: &wal, flushed_through });
        let bases = unnamed.values().map(|meta| meta.sequence_base.0).collect();
        (bases, guessed.into_iter().map(|(number, placed)| (number, placed.after.0, placed.base.0)).collect())
    }

    /// All tables of an ingest have the base that its last one says.
    #[test]
    fn the_last_table_dates_all() {
        let tables = [ingested(3, 3, false, 7), table(4, 9, (8, 40)), ingested(5, 3, true, 60)];
        assert_eq!(dated(&tables, &[], &[]), (vec![60, 0, 60], vec![]));
    }

    /// Without the last table, an ingest counts as written after everything in tables with smaller
    /// numbers, after what a table of it noted, and after what the manifest says.
    #[test]
    fn older_tables_are_a_lower_bound() {
        assert_eq!(dated(&[], &[(3, 10)], &[]), (vec![], vec![(3, 5, 14)]));
        let younger = table(9, 40, (70, 90));
        let tables = [table(2, 30, (1, 30)), ingested(3, 3, false, 40), younger.clone()];
        assert_eq!(dated(&tables, &[], &[]), (vec![0, 49, 0], vec![(3, 40, 49)]));
        assert_eq!(dated(&tables, &[(5, 10)], &[]), (vec![0, 49, 0], vec![(3, 40, 49), (5, 40, 49)]));
        assert_eq!(dated(&[tables[0].clone(), younger], &[(3, 10)], &[]), (vec![0, 0], vec![(3, 30, 39)]));
    }

    /// As many sequence numbers as the ingest has entries must be free.
    #[test]
    fn an_ingest_stands_where_its_numbers_are_free() {
        let tables = [table(2, 30, (1, 30)), table(9, 40, (36, 90))];
        assert_eq!(dated(&tables, &[(3, 6)], &[]), (vec![0, 0], vec![(3, 30, 35)]), "the last may be its own");
        assert_eq!(dated(&tables, &[(3, 7)], &[]), (vec![0, 0], vec![(3, 36, 42)]), "37 to 89 may be free");
        assert_eq!(dated(&tables, &[(3, 7)], &[(36, 50)]), (vec![0, 0], vec![(3, 50, 56)]));
        assert_eq!(dated(&tables, &[(3, 60)], &[]), (vec![0, 0], vec![(3, 90, 149)]));
    }
}
