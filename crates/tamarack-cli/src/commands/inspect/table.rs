//! A table: footer, properties, filter, digests, index, blocks, entries.
//!
//! All blocks are read in the order of the file, one at a time, and checked as `Table::verify`
//! does; but what is wrong with one is told and the next one is read. Memory: an outline of each
//! block, not the blocks.

use tamarack_filter::{Digest, DigestSet, Filter, kind_to_number};
use tamarack_format::block::{Block, BlockCursor};
use tamarack_format::claims;
use tamarack_format::entry;
use tamarack_format::entry::{Entry, Sequence};
use tamarack_format::meta::TableId;
use tamarack_format::stored::{BlockHandle, Flaw, StoredBytes, open_block};
use tamarack_format::table::{FOOTER_BYTES, Footer, Properties, Units, digests_seed};

use super::input::Input;
use super::report::{Cell, Fault, Report};
use crate::outcome::Failure;
use crate::show::table::plural;
use crate::text;

/// Shows the table in `input`, whose number its name says, if it does.
pub(super) fn inspect(input: &Input, named: Option<u64>, report: &mut Report<'_, '_>) -> Result<(), Failure> {
    report.facts(vec![Cell::words("kind", "table"), Cell::size("file_bytes", input.bytes)])?;
    let Some(footer) = footer(input, named, report)? else { return Ok(()) };
    report.facts(vec![
        Cell::number("table", footer.table.0),
        Cell::bits("database", footer.database),
        Cell::number("created_after_edit", footer.created_after.0),
    ])?;
    let mut walk = Walk::new(input, &footer, report);
    let properties = walk.properties();
    walk.filter(properties.as_ref());
    walk.digests();
    walk.index();
    walk.finish(properties.as_ref());
    let Walk { parts, lower, data, filter, digests, counted, .. } = walk;

    if let Some(properties) = &properties {
        report.facts(facts_of(properties))?;
    } else {
        report.facts(vec![Cell::count("entries_read", counted.entries)])?;
    }
    report.facts(filter_facts(filter.as_ref(), &footer))?;
    report.facts(vec![match (&digests, &footer.digests) {
        (Some(digests), _) => Cell::count("digests", digests.digests().len() as u64),
        (None, Some(_)) => Cell::words("digests", "not readable"),
        (None, None) => Cell::words("digests", "none"),
    }])?;
    report
        .facts(vec![Cell::count("index_blocks", lower.len() as u64), Cell::count("data_blocks", data.len() as u64)])?;
    report.list("parts", parts.iter().map(Outline::part_row).collect())?;
    report.list("index", lower.iter().map(|outline| outline.row("fences")).collect())?;
    report.list("blocks", data.iter().map(|outline| outline.row("entries")).collect())?;
    if report.wanted.entries {
        show_entries(input, &footer, &data, report)?;
    }
    Ok(())
}

/// The footer; without its checksum if that is wrong, and `None` if it leads nowhere.
fn footer(input: &Input, named: Option<u64>, report: &mut Report<'_, '_>) -> Result<Option<Footer>, Failure> {
    let tail_bytes = input.bytes.min(FOOTER_BYTES as u64);
    let offset = input.bytes - tail_bytes;
    let tail = input.read(offset, tail_bytes)?;
    let Some(claim) = claims::of_table(&tail) else {
        report.damaged(0, format!("a table ends with a footer of {FOOTER_BYTES} bytes; there is no room for it"));
        return Ok(None);
    };
    let number = named.unwrap_or(claim.number);
    let decode = |number| Footer::decode(&tail, input.bytes, claim.database, TableId(number));
    match (decode(number), decode(claim.number)) {
        (Ok((footer, root)), _) => {
            report.facts(vec![Cell::bits("root_checksum", root)])?;
            Ok(Some(footer))
        }
        (Err(Flaw::Unsupported(what)), _) | (_, Err(Flaw::Unsupported(what))) => Err(input.newer(what)),
        (Err(Flaw::OtherVersion(version)), _) | (_, Err(Flaw::OtherVersion(version))) => {
            Err(input.other_version(version))
        }
        (_, Ok((footer, _))) => {
            report.damaged(offset, format!("by its name this is table {number}, by its footer table {}", claim.number));
            Ok(Some(footer))
        }
        (Err(Flaw::Damaged(what)), _) => {
            report.damaged(offset, what);
            Ok(claims::unchecked_footer(&tail, input.bytes).map(|footer| Footer { table: TableId(number), ..footer }))
        }
    }
}

fn facts_of(properties: &Properties) -> Vec<Cell> {
    let ingest = properties.ingest.map(|part| {
        let base = if part.is_last { "sequence_base" } else { "sequence_base_at_least" };
        [Cell::number("ingest", part.first_table), Cell::number(base, properties.sequence_base.0)]
    });
    let facts = vec![
        Cell::count("entries", properties.entries),
        Cell::count("tombstones", properties.tombstones),
        Cell::size("raw_bytes", properties.raw_bytes),
        Cell::number("smallest_sequence", properties.smallest_sequence.0),
        Cell::number("largest_sequence", properties.largest_sequence.0),
        Cell::bytes("smallest_key", &properties.smallest_key),
        Cell::bytes("largest_key", &properties.largest_key),
    ];
    facts.into_iter().chain(ingest.into_iter().flatten()).collect()
}

fn filter_facts(filter: Option<&Filter>, footer: &Footer) -> Vec<Cell> {
    let Some(filter) = filter else {
        let words = if footer.filter.is_some() { "not readable" } else { "none" };
        return vec![Cell::words("filter", words)];
    };
    let kind = format!("{:?}", filter.kind()).to_lowercase();
    vec![
        Cell::words("filter", kind),
        Cell::count("filter_bits", filter.bits()),
        Cell::count("filter_keys", filter.entries()),
        Cell::number("filter_probes", u64::from(filter.probes())),
    ]
}

/// The place of a fence.
type Fence<'f> = (&'f [u8], Sequence);

/// What is shown of a block.
struct Outline {
    part: &'static str,
    handle: BlockHandle,
    compression: &'static str,
    payload_bytes: usize,
    /// Entries, or fences.
    entries: u64,
    /// The place of its fence, in index and data.
    fence: (Vec<u8>, Sequence),
    is_whole: bool,
}

impl Outline {
    fn new(part: &'static str, handle: &BlockHandle, fence: Fence<'_>) -> Self {
        let fence = (fence.0.to_vec(), fence.1);
        Self { part, handle: *handle, compression: "unknown", payload_bytes: 0, entries: 0, fence, is_whole: false }
    }

    fn cells(&self) -> Vec<Cell> {
        vec![
            Cell::number("offset", self.handle.offset),
            Cell::number("bytes", self.handle.bytes as u64),
            Cell::number("payload_bytes", self.payload_bytes as u64),
            Cell::words("compression", self.compression),
        ]
    }

    fn part_row(&self) -> Vec<Cell> {
        let mut row = vec![Cell::words("part", self.part)];
        row.extend(self.cells());
        row
    }

    fn row(&self, entries: &'static str) -> Vec<Cell> {
        let mut row = self.cells();
        let state = if self.is_whole { "whole" } else { "damaged" };
        row.extend([Cell::number(entries, self.entries), Cell::words("state", state)]);
        // A fence between versions of one key is said to be at one of them.
        let (key, sequence) = &self.fence;
        let mut fence = Cell::bytes("fence", key);
        if *sequence < Sequence::MAX {
            fence = fence.with_text(format!("{} at {}", text::escaped(key), sequence.0));
        }
        row.push(fence);
        row
    }
}

/// A walk over all blocks, which tells what is wrong.
struct Walk<'w, 'a, 'o> {
    input: &'w Input,
    footer: &'w Footer,
    report: &'w mut Report<'a, 'o>,
    /// Digests, units of the filter, filter, properties, top index.
    parts: Vec<Outline>,
    lower: Vec<Outline>,
    data: Vec<Outline>,
    filter: Option<Filter>,
    /// Where its units are, if it is elastic.
    units: Vec<BlockHandle>,
    digests: Option<DigestSet>,
    /// Those of the keys so far, if there are digests to compare with.
    seen: Vec<Digest>,
    counted: Properties,
    /// The place of the last entry.
    last: Option<(Vec<u8>, Sequence)>,
    /// Where the next data block and the next lower index block must begin; unknown after damage.
    next_data: Option<u64>,
    next_lower: Option<u64>,
}

impl<'w, 'a, 'o> Walk<'w, 'a, 'o> {
    fn new(input: &'w Input, footer: &'w Footer, report: &'w mut Report<'a, 'o>) -> Self {
        Self {
            input,
            footer,
            report,
            parts: Vec::new(),
            lower: Vec::new(),
            data: Vec::new(),
            filter: None,
            units: Vec::new(),
            digests: None,
            seen: Vec::new(),
            counted: Properties::default(),
            last: None,
            next_data: Some(0),
            next_lower: None,
        }
    }

    fn flaw(&mut self, flaw: Flaw, outline: &Outline) {
        let (fault, what) = match flaw {
            Flaw::Damaged(what) => (Fault::Damaged, what),
            Flaw::Unsupported(what) => (Fault::Unreadable, what),
            Flaw::OtherVersion(_) => (Fault::Unreadable, "it is of another format version"),
        };
        self.report.problem(outline.handle.offset, fault, format!("{}: {what}", outline.part));
    }

    /// Reads a block and gives its payload, if it is whole.
    fn payload(&mut self, outline: &mut Outline) -> Option<Vec<u8>> {
        let BlockHandle { offset, bytes, .. } = outline.handle;
        if outline.handle.end() > self.input.bytes - FOOTER_BYTES as u64 {
            self.report.damaged(
                offset,
                format!("{}: it would end at byte {}, past the blocks", outline.part, outline.handle.end()),
            );
            return None;
        }
        let stored = match self.input.try_read(offset, bytes) {
            Ok(stored) => stored,
            Err(error) => {
                self.report.damaged(offset, format!("{}: it cannot be read: {error}", outline.part));
                return None;
            }
        };
        outline.compression = claims::compression(&stored);
        match open_block(StoredBytes::Owned(stored.into()), self.footer.place(), &outline.handle) {
            Ok(payload) => {
                outline.payload_bytes = payload.len();
                outline.is_whole = true;
                Some(payload.to_vec())
            }
            Err(flaw) => {
                self.flaw(flaw, outline);
                None
            }
        }
    }

    /// As [`Walk::payload`], for a block of entries.
    fn block(&mut self, outline: &mut Outline) -> Option<Block> {
        let decoded = Block::decode(self.payload(outline)?);
        let checked = decoded.and_then(|block| block.check_restarts().map(|()| block));
        if let Err(flaw) = &checked {
            outline.is_whole = false;
            self.flaw(*flaw, outline);
        }
        checked.ok()
    }

    fn properties(&mut self) -> Option<Properties> {
        let mut outline = Outline::new("properties", &self.footer.properties, (&[], Sequence::MAX));
        let decoded = self.payload(&mut outline).map(|payload| Properties::decode(&payload));
        if let Some(Err(flaw)) = decoded {
            self.flaw(flaw, &outline);
        }
        self.parts.push(outline);
        decoded?.ok()
    }

    fn filter(&mut self, properties: Option<&Properties>) {
        let Some(handle) = &self.footer.filter else { return };
        let mut outline = Outline::new("filter", handle, (&[], Sequence::MAX));
        let payload = self.payload(&mut outline);
        let payload =
            if self.footer.has_units { payload.and_then(|list| self.units(&list, &outline)) } else { payload };
        match payload.map(|payload| Filter::decode(&payload)) {
            Some(Ok(filter)) => {
                let has = (kind_to_number(filter.kind()), filter.bits());
                if properties.is_some_and(|properties| (properties.filter_kind, properties.filter_bits) != has) {
                    self.report.damaged(handle.offset, "filter: its kind or its bits are not those in the properties");
                }
                self.filter = Some(filter);
            }
            Some(Err(error)) => self.report.damaged(handle.offset, format!("filter: {error}")),
            None => {}
        }
        let units = self.units.len();
        self.parts.insert(units, outline);
    }

    /// The units of an elastic filter, one after the other, as a whole filter is encoded.
    fn units(&mut self, list: &[u8], outline: &Outline) -> Option<Vec<u8>> {
        let units = match Units::decode(list, outline.handle.offset) {
            Ok(units) => units,
            Err(flaw) => {
                self.flaw(flaw, outline);
                return None;
            }
        };
        let mut filter = Some(Vec::new());
        for handle in &units.0 {
            let mut outline = Outline::new("filter unit", handle, (&[], Sequence::MAX));
            let payload = self.payload(&mut outline);
            filter = filter.zip(payload).map(|(filter, payload)| [filter, payload].concat());
            // In the file the last one stands first.
            self.parts.insert(0, outline);
        }
        self.units = units.0;
        filter
    }

    fn digests(&mut self) {
        let Some(handle) = &self.footer.digests else { return };
        let place = self.footer.place();
        let mut outline = Outline::new("digests", handle, (&[], Sequence::MAX));
        match self.payload(&mut outline).map(|payload| DigestSet::decode(&payload, digests_seed(place))) {
            Some(Ok(digests)) => self.digests = Some(digests),
            Some(Err(error)) => self.report.damaged(handle.offset, format!("digests: {error}")),
            None => {}
        }
        self.parts.insert(0, outline);
    }

    /// The top index, and all blocks that it leads to.
    fn index(&mut self) {
        let first = (&b""[..], Sequence::MAX);
        let mut outline = Outline::new("top index", &self.footer.top_index, first);
        if let Some(block) = self.block(&mut outline) {
            self.fences(&block, &mut outline, first, &mut |walk, handle, fence| walk.lower_block(handle, fence));
        }
        self.parts.push(outline);
    }

    /// Visits what the fences of an index block stand for; the first must be `first`.
    fn fences(
        &mut self,
        block: &Block,
        outline: &mut Outline,
        first: Fence<'_>,
        visit: &mut dyn FnMut(&mut Self, &BlockHandle, Fence<'_>),
    ) {
        let mut cursor = BlockCursor::default();
        let mut sound = cursor.seek_first(block);
        while let (Ok(()), Some(fence)) = (sound, cursor.entry(block)) {
            if outline.entries == 0 && (fence.key, fence.sequence) != first {
                self.flaw(Flaw::Damaged("it does not begin with its fence"), outline);
            }
            outline.entries += 1;
            match BlockHandle::decode(fence.value) {
                Ok(handle) => visit(self, &handle, (fence.key, fence.sequence)),
                Err(flaw) => self.flaw(flaw, outline),
            }
            sound = cursor.next(block);
        }
        if let Err(flaw) = sound {
            self.flaw(flaw, outline);
        }
    }

    fn lower_block(&mut self, handle: &BlockHandle, fence: Fence<'_>) {
        let mut outline = Outline::new("index block", handle, fence);
        if follows(self.report, &outline, self.lower.last(), self.next_lower) {
            match self.block(&mut outline) {
                Some(block) => {
                    self.fences(&block, &mut outline, fence, &mut |walk, handle, fence| walk.data_block(handle, fence))
                }
                // How far its data went is not known.
                None => self.next_data = None,
            }
            self.next_lower = Some(handle.end());
        }
        self.lower.push(outline);
    }

    fn data_block(&mut self, handle: &BlockHandle, fence: Fence<'_>) {
        let mut outline = Outline::new("data block", handle, fence);
        if follows(self.report, &outline, self.data.last(), self.next_data) {
            if let Some(block) = self.block(&mut outline) {
                self.entries(&block, &mut outline, fence);
            }
            self.next_data = Some(handle.end());
        }
        self.data.push(outline);
    }

    /// Checks the entries of a data block, and counts them.
    fn entries(&mut self, block: &Block, outline: &mut Outline, fence: Fence<'_>) {
        let (mut out_of_order, mut denied) = (0, 0);
        let before_fence = self.last.as_ref().is_none_or(|last| entry::compare((&last.0, last.1), fence).is_lt());
        let mut fence_parts = before_fence;
        let (mut last_key, mut last_sequence) = self.last.take().unwrap_or_default();
        let mut is_first = self.counted.entries == 0;
        let sound = for_each(block, &mut |entry| {
            if outline.entries == 0 {
                fence_parts &= entry::compare(fence, (entry.key, entry.sequence)).is_le();
            }
            let order = entry::compare((&last_key, last_sequence), (entry.key, entry.sequence));
            out_of_order += u64::from(!is_first && !order.is_lt());
            let is_new_key = is_first || last_key != entry.key;
            if is_new_key && (self.filter.is_some() || self.digests.is_some()) {
                let digest = Digest::of(entry.key);
                denied += u64::from(self.filter.as_ref().is_some_and(|filter| !filter.may_contain(digest)));
                self.seen.push(digest);
            }
            is_first = false;
            outline.entries += 1;
            self.counted.count(entry);
            last_key.clear();
            last_key.extend_from_slice(entry.key);
            last_sequence = entry.sequence;
            true
        });
        self.last = Some((last_key, last_sequence)).filter(|_| !is_first);
        if let Err(flaw) = sound {
            outline.is_whole = false;
            self.flaw(flaw, outline);
        }
        let mut tell = |is_so: bool, what: String| {
            if is_so {
                self.report.damaged(outline.handle.offset, format!("{}: {what}", outline.part));
            }
        };
        tell(outline.entries == 0, "it has no entries".to_owned());
        tell(!fence_parts, "its fence does not part its entries from those before".to_owned());
        tell(out_of_order > 0, format!("{} out of order", plural(out_of_order, "entry")));
        tell(denied > 0, format!("the filter denies {} that is there", plural(denied, "key")));
    }

    /// Compares what was counted with what the file says, if all of it was read.
    fn finish(&mut self, properties: Option<&Properties>) {
        if !self.report.is_whole() {
            return;
        }
        let mut at = self.next_data.unwrap_or(0);
        let Footer { digests, filter, properties: of_properties, top_index, .. } = self.footer;
        let before =
            self.lower.iter().map(|outline| &outline.handle).chain(digests.as_ref()).chain(self.units.iter().rev());
        let rest = [filter.as_ref(), Some(of_properties), Some(top_index)];
        for handle in before.chain(rest.into_iter().flatten()) {
            if handle.offset != at {
                self.report.damaged(
                    at.min(handle.offset),
                    format!("a block begins at {}, where the one before ends at {at}", handle.offset),
                );
                return;
            }
            at = handle.end();
        }
        if let (Some(stored), Some(handle)) = (&self.digests, &self.footer.digests)
            && *stored != DigestSet::new(std::mem::take(&mut self.seen))
        {
            self.report.damaged(handle.offset, "digests: they are not those of the keys");
        }
        let Some(properties) = properties else { return };
        self.counted.largest_key = self.last.take().unwrap_or_default().0;
        (self.counted.filter_kind, self.counted.filter_bits) = (properties.filter_kind, properties.filter_bits);
        (self.counted.compression, self.counted.ingest) = (properties.compression, properties.ingest);
        self.counted.set_sequence_base(properties.sequence_base);
        if self.counted != *properties {
            self.report.damaged(self.footer.properties.offset, "properties: they are not those of the entries");
        }
    }
}

/// True if the block stands behind the one before, so that it can be read without reading anything
/// twice. If it is not just behind, that is told.
fn follows(report: &mut Report<'_, '_>, outline: &Outline, before: Option<&Outline>, expected: Option<u64>) -> bool {
    let offset = outline.handle.offset;
    if expected.is_some_and(|expected| expected != offset) {
        let expected = expected.unwrap_or_default();
        report.damaged(
            offset,
            format!("{}: it begins at {offset}, where the one before ends at {expected}", outline.part),
        );
    }
    before.is_none_or(|before| before.handle.end() <= offset)
}

/// Visits the entries of a block until `visit` says that it is enough.
fn for_each(block: &Block, visit: &mut dyn FnMut(&Entry<'_>) -> bool) -> Result<(), Flaw> {
    let mut cursor = BlockCursor::default();
    cursor.seek_first(block)?;
    while let Some(entry) = cursor.entry(block) {
        if !visit(&entry) {
            break;
        }
        cursor.next(block)?;
    }
    Ok(())
}

/// Shows the entries that are wanted. Reads the whole blocks again.
fn show_entries(input: &Input, footer: &Footer, data: &[Outline], report: &mut Report<'_, '_>) -> Result<(), Failure> {
    report.begin_entries()?;
    let mut shown = 0;
    for outline in data.iter().filter(|outline| outline.is_whole) {
        let BlockHandle { offset, bytes, .. } = outline.handle;
        let again = input.try_read(offset, bytes).ok();
        let payload = again
            .and_then(|stored| open_block(StoredBytes::Owned(stored.into()), footer.place(), &outline.handle).ok());
        let Some(block) = payload.and_then(|payload| Block::decode(payload).ok()) else {
            report.damaged(offset, "data block: it was whole, and is not when it is read again");
            continue;
        };
        let mut result = Ok(());
        // Flaws of entries have been told.
        let _ = for_each(&block, &mut |entry| {
            if report.wanted.key(entry.key) && shown < report.wanted.rows_max {
                shown += 1;
                result = report.entry("block", offset, entry);
            }
            result.is_ok() && shown < report.wanted.rows_max
        });
        result?;
        if shown >= report.wanted.rows_max {
            break;
        }
    }
    Ok(())
}
