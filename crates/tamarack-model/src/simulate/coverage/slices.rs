//! [`Slices`]: a run as a list of slices with keys, from which ranges are cut.

use std::ops::Range;

/// Neighbouring entries of a run, with the range that they cover.
#[derive(Clone, Debug)]
pub(super) struct Slice {
    /// In order; at least one.
    pub(super) keys: Vec<u64>,
    /// Ends where the next slice begins, if both were written by one compaction.
    pub(super) range: Range<u64>,
    /// When the level, which had been emptied there, got its first entries of this range.
    since: u64,
}

/// A run: slices in order, which do not overlap.
#[derive(Clone, Debug, Default)]
pub(super) struct Slices {
    slices: Vec<Slice>,
    entries: usize,
}

/// Input slices of a compaction that cover keys in common, as one slice.
#[derive(Debug)]
pub(super) struct Cluster {
    pub(super) slice: Slice,
    count: usize,
}

impl Cluster {
    /// True if it is one slice, which overlaps no other.
    pub(super) fn is_lone(&self) -> bool {
        self.count == 1
    }
}

/// Neighbouring slices that are passed on together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) entries: usize,
    /// The part of the key space that the slices cover, without gaps between them.
    pub(super) width: f64,
    /// The mean over their keys.
    pub(super) since: f64,
}

/// The part of the key space that a range is.
fn width(range: &Range<u64>) -> f64 {
    (range.end - range.start) as f64 / u64::MAX as f64
}

/// Combines slices of several runs that overlap, directly or through others.
pub(super) fn clusters(slices: impl Iterator<Item = Slice>) -> Vec<Cluster> {
    let mut slices: Vec<Slice> = slices.collect();
    slices.sort_by_key(|slice| slice.range.start);
    let mut clusters: Vec<Cluster> = Vec::new();
    for slice in slices {
        match clusters.last_mut() {
            Some(last) if slice.range.start < last.slice.range.end => {
                last.count += 1;
                last.slice.range.end = last.slice.range.end.max(slice.range.end);
                last.slice.keys.extend(slice.keys);
            }
            _ => clusters.push(Cluster { slice, count: 1 }),
        }
    }
    for cluster in &mut clusters {
        // In linear time for sequences that are in order.
        cluster.slice.keys.sort();
    }
    clusters
}

impl Slice {
    /// Makes a slice that covers these keys, at least one and in order.
    pub(super) fn of_keys(keys: Vec<u64>, since: u64) -> Self {
        let range = keys[0]..keys[keys.len() - 1].saturating_add(1);
        Self { keys, range, since }
    }

    /// Makes a slice of keys that are all there is in this range.
    pub(super) fn new(keys: Vec<u64>, range: Range<u64>, since: u64) -> Self {
        Self { keys, range, since }
    }

    /// The slice of both an arrived one and the slices of its range that it replaces.
    pub(super) fn merged(arrived: Self, replaced: &[Self]) -> Self {
        let mut keys = arrived.keys;
        keys.extend(replaced.iter().flat_map(|slice| &slice.keys));
        // In linear time for sequences that are in order.
        keys.sort();
        Self { keys, ..arrived }
    }

    /// A slice from the beginning of this one to the end of a later one, with the entries of both.
    pub(super) fn through(mut self, later: Self) -> Self {
        self.keys.extend(later.keys);
        self.range.end = later.range.end;
        self
    }

    pub(super) fn width(&self) -> f64 {
        width(&self.range)
    }

    /// Divides into tables of about equal size and at most so many entries; none without entries.
    fn divide_into(mut self, table: usize, tables: &mut Vec<Self>) {
        let mut left = self.keys.len().div_ceil(table);
        while left > 1 {
            let at = self.keys[self.keys.len() / left];
            let right = self.split_off(at);
            tables.push(std::mem::replace(&mut self, right));
            left -= 1;
        }
        if !self.keys.is_empty() {
            tables.push(self);
        }
    }

    /// Divides at a key within the range.
    fn split_off(&mut self, at: u64) -> Self {
        let index = self.keys.partition_point(|key| *key < at);
        let right = Self { keys: self.keys.split_off(index), range: at..self.range.end, since: self.since };
        self.range.end = at;
        right
    }
}

/// The parts of a slice of one age, each by its end: the ages of the slices that it replaces, which
/// are in order, and its own between them.
fn ages(slice: &Slice, replaced: &[Slice]) -> Vec<(u64, u64)> {
    let mut parts: Vec<(u64, u64)> = Vec::new();
    let mut add = |until: u64, since: u64| match parts.last_mut() {
        Some(last) if last.0 >= until => {}
        Some(last) if last.1 == since => last.0 = until,
        _ => parts.push((until, since)),
    };
    let mut end = slice.range.start;
    for old in replaced {
        if old.range.start > end {
            add(old.range.start, slice.since);
        }
        end = old.range.end;
        add(end, old.since);
    }
    if end < slice.range.end {
        add(slice.range.end, slice.since);
    }
    parts
}

impl Slices {
    /// A run that covers everything, of whose entries nothing else is known.
    pub(super) fn everything() -> Self {
        Self { slices: vec![Slice::new(Vec::new(), 0..u64::MAX, 0)], entries: 0 }
    }

    pub(super) fn into_slices(self) -> Vec<Slice> {
        self.slices
    }

    pub(super) fn entries(&self) -> usize {
        self.entries
    }

    /// The part of the key space that the run covers.
    pub(super) fn covers(&self) -> f64 {
        self.slices.iter().map(Slice::width).sum()
    }

    /// Removes what lies in this range. A part without keys is no slice.
    pub(super) fn cut(&mut self, range: &Range<u64>) -> Vec<Slice> {
        self.divide(range.start);
        self.divide(range.end);
        let first = self.slices.partition_point(|slice| slice.range.start < range.start);
        let after = self.slices.partition_point(|slice| slice.range.start < range.end);
        let removed: Vec<Slice> = self.slices.drain(first..after).collect();
        self.entries -= removed.iter().map(|slice| slice.keys.len()).sum::<usize>();
        removed
    }

    /// Divides a range into parts that the run covers, and parts that it does not.
    pub(super) fn divided(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let mut parts = Vec::new();
        let mut from = range.start;
        let mut add = |until: u64| {
            if from < until {
                parts.push(from..until);
                from = until;
            }
        };
        let first = self.slices.partition_point(|slice| slice.range.end <= range.start);
        let inside = self.slices[first..].iter().take_while(|slice| slice.range.start < range.end);
        let mut end = None;
        for slice in inside {
            if end != Some(slice.range.start) {
                end.map(&mut add);
                add(slice.range.start);
            }
            end = Some(slice.range.end.min(range.end));
        }
        end.map(&mut add);
        add(range.end);
        parts
    }

    /// Removes the keys of this range.
    pub(super) fn keys_cut(&mut self, range: &Range<u64>) -> Vec<u64> {
        self.cut(range).into_iter().flat_map(|slice| slice.keys).collect()
    }

    fn divide(&mut self, at: u64) {
        let index = self.slices.partition_point(|slice| slice.range.end <= at);
        let Some(slice) = self.slices.get_mut(index).filter(|slice| slice.range.start < at) else { return };
        let right = slice.split_off(at);
        if slice.keys.is_empty() {
            self.slices[index] = right;
        } else if !right.keys.is_empty() {
            self.slices.insert(index + 1, right);
        }
    }

    /// Adds a slice where nothing is, as tables of at most so many entries. All entries of a table
    /// have one age: that of the slice that they replace, or of the added one if there was none.
    pub(super) fn put(&mut self, mut slice: Slice, replaced: &[Slice], table: usize) {
        let mut tables = Vec::new();
        for (until, since) in ages(&slice, replaced) {
            let mut right = slice.split_off(until);
            std::mem::swap(&mut slice, &mut right);
            right.since = since;
            right.divide_into(table, &mut tables);
        }
        self.entries += tables.iter().map(|table| table.keys.len()).sum::<usize>();
        let place = self.slices.partition_point(|other| other.range.start < slice.range.start);
        self.slices.splice(place..place, tables);
    }

    /// The ranges of the first slices at this key or after it, or from the beginning on if there
    /// are none, with a table of entries together.
    pub(super) fn window_from(&self, key: u64, table: usize) -> Vec<Range<u64>> {
        let first = self.slices.partition_point(|slice| slice.range.start < key);
        self.ranges(if first == self.slices.len() { 0 } else { first }, table)
    }

    /// The ranges of the window with the least cost.
    pub(super) fn best_window(&self, table: usize, cost: impl Fn(&Window) -> f64) -> Vec<Range<u64>> {
        let costs = (0..self.slices.len()).map(|first| cost(&self.window(first, table)));
        let best = costs.enumerate().min_by(|(_, a), (_, b)| a.total_cmp(b));
        best.map_or(Vec::new(), |(first, _)| self.ranges(first, table))
    }

    /// The ranges of the window with the fewest entries of `next` for each of its own.
    pub(super) fn least_overlap(&self, next: &Self, table: usize) -> Vec<Range<u64>> {
        let mut before = vec![0.0];
        before.extend(next.slices.iter().scan(0.0, |sum, slice| {
            *sum += slice.keys.len() as f64;
            Some(*sum)
        }));
        // Both lists are in order, so the places in `next` only go forward.
        let mut place = 0;
        let overlaps: Vec<f64> = self
            .slices
            .iter()
            .map(|slice| {
                let mut below = |key: u64| {
                    while next.slices.get(place).is_some_and(|other| other.range.end <= key) {
                        place += 1;
                    }
                    let inside = next.slices.get(place).filter(|other| other.range.start < key);
                    before[place]
                        + inside.map_or(0.0, |other| {
                            other.keys.len() as f64 * width(&(other.range.start..key)) / other.width()
                        })
                };
                let start = below(slice.range.start);
                below(slice.range.end) - start
            })
            .collect();
        let cost = |first: usize| {
            let count = self.window_len(first, table);
            let entries: usize = self.slices[first..first + count].iter().map(|slice| slice.keys.len()).sum();
            overlaps[first..first + count].iter().sum::<f64>() / entries as f64
        };
        let best = (0..self.slices.len()).map(cost).enumerate().min_by(|(_, a), (_, b)| a.total_cmp(b));
        best.map_or(Vec::new(), |(first, _)| self.ranges(first, table))
    }

    /// The number of slices of the window that begins with this one.
    fn window_len(&self, first: usize, table: usize) -> usize {
        let mut entries = 0;
        let after = self.slices[first..].iter().position(|slice| {
            entries += slice.keys.len();
            entries >= table
        });
        after.map_or(self.slices.len() - first, |last| last + 1)
    }

    fn window(&self, first: usize, table: usize) -> Window {
        let slices = &self.slices[first..first + self.window_len(first, table)];
        let width = slices.iter().map(Slice::width).sum();
        Window {
            entries: slices.iter().map(|slice| slice.keys.len()).sum(),
            width,
            since: slices.iter().map(|slice| slice.since as f64 * slice.width()).sum::<f64>() / width,
        }
    }

    /// The ranges of a window, one for slices that lie side by side.
    fn ranges(&self, first: usize, table: usize) -> Vec<Range<u64>> {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for slice in &self.slices[first..first + self.window_len(first, table)] {
            match ranges.last_mut() {
                Some(last) if last.end == slice.range.start => last.end = slice.range.end,
                _ => ranges.push(slice.range.clone()),
            }
        }
        ranges
    }
}
