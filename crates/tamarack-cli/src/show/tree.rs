//! A tree as a bar chart of its levels.
//!
//! ```text
//! memtable ███···
//! level 1  ██████▓▓▓▓▓▓······              bars are as long as the logarithm of the capacity:
//! level 2  ████████████████████▒▒▒▒····    a triangle is a tree whose levels grow by one factor
//! ```
//!
//! A bar is filled with the level's runs to scale, old to young, so that new runs appear at the
//! right end. Neighbouring runs have two shades; inputs of a compaction in progress have a third. A
//! level above its capacity ends with an arrow.
//!
//! All characters are one column wide in every terminal font. Pure: from numbers to text.

use tamarack::{JobStats, LevelStats, Stats};

use super::lookups::rate;
use super::table::{grouped, plural, table};
use crate::size::{show_bytes, show_seconds};

/// The bar of the memtables.
const CELLS_MIN: f64 = 6.0;
/// The longest bar of a level.
const CELLS_MAX: f64 = 40.0;
/// Cells per doubling of the capacity, if the longest bar allows it.
const CELLS_PER_DOUBLING: f64 = 3.0;
/// The bar of a job.
const JOB_CELLS: usize = 20;

/// The shades of neighbouring runs, of inputs of a compaction, and of free capacity.
const RUNS: [char; 2] = ['█', '▓'];
const COMPACTING: char = '▒';
const FREE: char = '·';
const MORE: char = '▶';

/// Explains the bars.
pub(crate) const LEGEND: &str = "\
bars: length is the logarithm of the capacity, filled with runs to scale, old to young;
      █ ▓ alternate runs, ▒ runs in a compaction, · free, ▶ above the capacity";

/// A run in a bar.
#[derive(Clone, Copy)]
struct BarSegment {
    bytes: u64,
    is_compacting: bool,
}

/// Policy, number of levels, number of runs.
pub(crate) fn shape(stats: &Stats) -> String {
    let runs: usize = stats.levels.iter().map(|level| level.runs.len()).sum();
    // The specification of a custom shape is that shape, which is drawn below.
    let policy = if stats.policy.starts_with("custom:") { "custom" } else { &stats.policy };
    format!("{policy}: {}, {}", plural(stats.levels.len() as u64, "level"), plural(runs as u64, "run"))
}

/// Memtables and levels: bars and numbers.
pub(crate) fn levels(stats: &Stats) -> String {
    let heading = ["", "", "size", "full", "capacity", "runs", "entries", "tombstones", "compacting", "written"];
    let mut rows = vec![heading.map(str::to_owned).to_vec(), buffer_row(stats)];
    rows.extend((1..).zip(&stats.levels).map(|(number, level)| level_row(stats, number, level)));
    // Columns of zeros are left out: nothing is written yet by a command that has just opened the
    // database.
    if stats.written_raw_bytes() == 0 {
        drop_column(&mut rows, heading.len() - 1);
    }
    if stats.levels.iter().all(|level| level.runs_in_compactions() == 0) {
        drop_column(&mut rows, heading.len() - 2);
    }
    table(&rows)
}

fn drop_column(rows: &mut [Vec<String>], column: usize) {
    for row in rows.iter_mut().filter(|row| row.len() > column) {
        row.remove(column);
    }
}

fn buffer_row(stats: &Stats) -> Vec<String> {
    let segments: Vec<BarSegment> = stats
        .memtables
        .iter()
        .rev()
        .map(|memtable| BarSegment { bytes: memtable.raw_bytes, is_compacting: false })
        .collect();
    let size_bytes: u64 = stats.memtables.iter().map(|memtable| memtable.raw_bytes).sum();
    let capacity = stats.memtable_capacity_bytes;
    vec![
        "memtable".to_owned(),
        bar(cells(stats, capacity), capacity, &segments),
        show_bytes(size_bytes),
        share(size_bytes, capacity),
        show_bytes(capacity),
        String::new(),
        grouped(stats.memtables.iter().map(|memtable| memtable.entries).sum()),
    ]
}

fn level_row(stats: &Stats, number: usize, level: &LevelStats) -> Vec<String> {
    let total = level.total();
    let segments: Vec<BarSegment> = level
        .runs
        .iter()
        .rev()
        .map(|run| BarSegment { bytes: run.raw_bytes, is_compacting: run.in_compaction })
        .collect();
    vec![
        format!("level {number}"),
        bar(cells(stats, level.capacity_bytes), level.capacity_bytes, &segments),
        show_bytes(total.raw_bytes),
        share(total.raw_bytes, level.capacity_bytes),
        show_bytes(level.capacity_bytes),
        format!("{} of {}", level.runs.len(), level.run_slots),
        grouped(total.entries),
        grouped(total.tombstones),
        match level.runs_in_compactions() {
            0 => String::new(),
            count => plural(count as u64, "run"),
        },
        show_bytes(level.written_raw_bytes),
    ]
}

/// Explains the columns of [`runs`] about filters.
pub(crate) const RUNS_LEGEND: &str = "\
filter bits: per key; predicted, measured: false positive rate of the filters;
zero-result: estimated lookups since opening that reached the run although it does not
contain their key (one in 64 lookups is sampled)";

const _: () = assert!(tamarack::LOOKUPS_PER_SAMPLE == 64, "the text above says so");

/// Every run, level by level, young to old.
pub(crate) fn runs(stats: &Stats) -> String {
    let heading = [
        "",
        "run",
        "tables",
        "entries",
        "tombstones",
        "raw bytes",
        "file bytes",
        "filter bits",
        "predicted",
        "measured",
        "zero-result",
        "",
    ];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    for (number, level) in (1..).zip(&stats.levels) {
        rows.extend(level.runs.iter().map(|run| {
            vec![
                format!("level {number}"),
                run.id.to_string(),
                grouped(run.tables),
                grouped(run.entries),
                grouped(run.tombstones),
                show_bytes(run.raw_bytes),
                show_bytes(run.file_bytes),
                format!("{:.1}", run.filter_bits_per_entry()),
                if run.filter_bits == 0 { String::new() } else { rate(run.filter_fpr) },
                run.lookups.false_positive_rate().map_or_else(String::new, rate),
                if run.lookups.sampled == 0 { String::new() } else { grouped(run.lookups.estimated_zero_result()) },
                if run.in_compaction { "compacting".to_owned() } else { String::new() },
            ]
        }));
    }
    table(&rows)
}

/// Flushes and compactions in progress, a line each; `None` if there are none.
pub(crate) fn jobs(stats: &Stats) -> Option<String> {
    let row = |job: &JobStats| {
        let all = job.done_bytes + job.left_bytes;
        let done = BarSegment { bytes: job.done_bytes, is_compacting: false };
        let inputs = plural(job.inputs.len() as u64, "run");
        vec![
            format!("{} into level {}", if job.is_flush { "flush" } else { "compaction" }, job.target_level),
            bar(JOB_CELLS, all, &[done]),
            share(job.done_bytes, all),
            format!("{} left", show_bytes(job.left_bytes)),
            if job.is_flush { "1 memtable".to_owned() } else { inputs },
            plural((job.parts_working + job.parts_waiting) as u64, "part"),
            job.cause.clone(),
        ]
    };
    let rows: Vec<Vec<String>> = stats.jobs.iter().map(row).collect();
    (!rows.is_empty())
        .then(|| table(&[vec![vec![String::new(); 7]], rows].concat()).trim_start_matches('\n').to_owned())
}

/// Advice on the most urgent problem; `None` if there is none. `db` is the user's name of the
/// database.
pub(crate) fn advice(stats: &Stats, db: &str) -> Option<String> {
    let total = tamarack::RunStats::total(stats.levels.iter().flat_map(|level| &level.runs));
    if let Some(why) = &stats.writing_stopped {
        return Some(format!("writes are refused: {why}"));
    }
    if let Some(disk) = stats.disk.filter(|disk| disk.is_low) {
        return Some(format!(
            "the disk has {} free, less than the reserve of {} for flushes and compactions: puts are refused, deletes are accepted; free some space, or \
             delete keys and run `tamarack compact {db}`",
            show_bytes(disk.free_bytes),
            show_bytes(disk.reserve_bytes)
        ));
    }
    if let Some(error) = &stats.background_error {
        return Some(format!("background work makes no progress: {error}"));
    }
    if stats.compactions_paused {
        return Some("compactions are paused: runs accumulate and reads slow down until they are resumed".to_owned());
    }
    let compactions = stats.jobs.iter().filter(|job| !job.is_flush).count() as u64;
    if compactions > 0 {
        let time =
            stats.debt_seconds.map_or_else(String::new, |seconds| format!(", about {} of work", show_seconds(seconds)));
        let (are, they) = if compactions == 1 { ("is", "it resumes") } else { ("are", "they resume") };
        return Some(format!(
            "{} {are} in progress{time}: {they} whenever the database is open; `tamarack compact {db} --settle` waits for that",
            plural(compactions, "compaction")
        ));
    }
    let above = (1..).zip(&stats.levels).max_by_key(|(_, level)| level.runs_above_slots());
    if let Some((number, level)) = above.filter(|(_, level)| level.runs_above_slots() > 0) {
        let runs = plural(level.runs_above_slots() as u64, "run");
        let are = if level.runs_above_slots() == 1 { "it is" } else { "they are" };
        return Some(format!(
            "level {number} has {runs} above its limit: {are} compacted when more data arrives; `tamarack compact {db}` compacts everything now"
        ));
    }
    // A compaction then drops at least a quarter of the entries, and most likely what they delete.
    if total.entries > 0 && total.tombstones * 4 > total.entries {
        return Some(format!(
            "{} of the entries are tombstones (marks of deleted keys): `tamarack compact {db}` reclaims their space",
            share(total.tombstones, total.entries)
        ));
    }
    None
}

/// The length of the bar of a capacity.
fn cells(stats: &Stats, capacity: u64) -> usize {
    let doublings = |bytes: u64| (bytes.max(1) as f64 / stats.memtable_capacity_bytes.max(1) as f64).log2().max(0.0);
    let most = stats.levels.iter().map(|level| doublings(level.capacity_bytes)).fold(1.0, f64::max);
    let step = CELLS_PER_DOUBLING.min((CELLS_MAX - CELLS_MIN) / most);
    (CELLS_MIN + step * doublings(capacity)).round() as usize
}

/// A bar of `cells` cells for `capacity`, filled from the left.
fn bar(cells: usize, capacity: u64, segments: &[BarSegment]) -> String {
    let size_bytes: u64 = segments.iter().map(|segment| segment.bytes).sum();
    let mut drawn: Vec<char> = (0..cells)
        .map(|cell| {
            // A cell shows the run at its middle.
            let place = (cell as f64 + 0.5) / cells as f64 * capacity as f64;
            let mut end = 0;
            let found = segments.iter().position(|segment| {
                end += segment.bytes;
                place < end as f64
            });
            found.map_or(FREE, |index| shade(segments[index], index))
        })
        .collect();
    if let (Some(first), Some(index)) = (drawn.first_mut(), segments.iter().position(|segment| segment.bytes > 0))
        && *first == FREE
    {
        // A small run must not look like an empty level.
        *first = if segments[index].is_compacting { COMPACTING } else { '▏' };
    }
    // From half a cell above the capacity on, the bar ends with an arrow.
    if let Some(last) = drawn.last_mut()
        && size_bytes as f64 > capacity as f64 * (1.0 + 0.5 / cells as f64)
    {
        *last = MORE;
    }
    drawn.into_iter().collect()
}

fn shade(segment: BarSegment, index: usize) -> char {
    if segment.is_compacting { COMPACTING } else { RUNS[index % RUNS.len()] }
}

/// `part` of `whole` in percent.
fn share(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "0 %".to_owned();
    }
    format!("{:.0} %", part as f64 / whole as f64 * 100.0)
}

#[cfg(test)]
mod tests {
    use tamarack::{DiskStats, MemtableStats, RunStats};

    use super::*;
    use crate::testing::with;

    fn buffer(raw_bytes: u64) -> MemtableStats {
        with(|memtable: &mut MemtableStats| (memtable.entries, memtable.raw_bytes) = (raw_bytes / 100, raw_bytes))
    }

    fn level(capacity_bytes: u64, run_slots: u32, runs: Vec<RunStats>) -> LevelStats {
        with(|level: &mut LevelStats| {
            (level.capacity_bytes, level.run_slots, level.runs) = (capacity_bytes, run_slots, runs);
        })
    }

    fn run(id: u64, mebibytes: u64, is_compacting: bool) -> RunStats {
        let raw_bytes = mebibytes << 20;
        with(|run: &mut RunStats| {
            (run.id, run.in_compaction) = (id, is_compacting);
            (run.tables, run.entries, run.tombstones) = (1, raw_bytes / 100, 7);
            (run.raw_bytes, run.file_bytes) = (raw_bytes, raw_bytes / 2);
        })
    }

    /// A buffer of 1 MiB and levels of 4, 16 and 64 MiB.
    fn tree(levels: [Vec<RunStats>; 3]) -> Stats {
        let mut capacity = 1 << 20;
        let levels = levels.map(|runs| {
            capacity *= 4;
            level(capacity, 4, runs)
        });
        with(|stats: &mut Stats| {
            stats.memtable_capacity_bytes = 1 << 20;
            stats.memtables = vec![buffer(300_000), buffer(1 << 20)];
            stats.levels = levels.into();
        })
    }

    /// A tree at rest: bars grow evenly with the capacity, runs are to scale, oldest first; a small
    /// run is visible; an immutable memtable beside a full active one is above the capacity of
    /// one.
    #[test]
    fn a_tree_at_rest() {
        let stats = tree([vec![run(9, 1, false), run(8, 2, false)], vec![], vec![run(3, 1, false)]]);
        let expected = [
            "                                       size   full  capacity    runs  entries  tombstones",
            "memtable  █████▶                    1.3 MiB  129 %   1.0 MiB           13,485",
            "level 1   ██████▓▓▓···              3.0 MiB   75 %   4.0 MiB  2 of 4   31,456          14",
            "level 2   ··················            0 B    0 %  16.0 MiB  0 of 4        0           0",
            "level 3   ▏·······················  1.0 MiB    2 %  64.0 MiB  1 of 4   10,485           7",
        ];
        assert_eq!(levels(&stats).lines().collect::<Vec<_>>(), expected);
        assert_eq!((jobs(&stats), advice(&stats, "db")), (None, None));
    }

    /// Inputs of compactions have their own shade, an arrow shows a level above its capacity, and
    /// bytes written have a column.
    #[test]
    fn a_tree_with_a_compaction() {
        let mut stats =
            tree([vec![], vec![run(9, 6, true), run(8, 6, true), run(7, 8, false)], vec![run(3, 40, false)]]);
        stats.levels[1].written_raw_bytes = 5 << 20;
        stats.jobs = vec![with(|job: &mut JobStats| {
            "level 1 is full".clone_into(&mut job.cause);
            (job.inputs, job.target_level) = (vec![9, 8], 2);
            (job.done_bytes, job.left_bytes, job.parts_working) = (3 << 20, 9 << 20, 2);
        })];
        let drawn = levels(&stats);
        let line = |number: usize| drawn.lines().nth(number).unwrap_or_default();
        assert!(line(0).ends_with("runs  entries  tombstones  compacting  written"), "{drawn}");
        assert!(
            line(3).starts_with("level 2   █████████▒▒▒▒▒▒▒▒▶  ") && line(3).ends_with("21      2 runs  5.0 MiB"),
            "{drawn}"
        );
        assert!(line(4).starts_with("level 3   ███████████████·········  ") && line(4).ends_with(" 0 B"), "{drawn}");
        assert_eq!(
            jobs(&stats).as_deref(),
            Some("compaction into level 2  █████···············  25 %  9.0 MiB left  2 runs  2 parts  level 1 is full")
        );
        let said = advice(&stats, "my.db").expect("there is something to do");
        assert!(
            said.starts_with("1 compaction is in progress: it resumes") && said.contains("compact my.db --settle"),
            "{said}"
        );
        stats.debt_seconds = Some(40.0);
        assert!(advice(&stats, "my.db").is_some_and(|said| said.contains("about 40 s of work")));
    }

    /// Advice is about the most urgent problem.
    #[test]
    fn advice_is_given_where_it_helps() {
        let runs = |count| (0..count).map(|id| run(id, 1, false)).collect::<Vec<_>>();
        let mut stats = tree([runs(4), vec![], vec![]]);
        assert_eq!(advice(&stats, "db"), None, "as many runs as slots");
        stats.levels[1].runs = runs(6);
        let said = |stats: &Stats| advice(stats, "db").expect("there is advice");
        assert!(said(&stats).starts_with("level 2 has 2 runs above its limit: they are compacted"), "{}", said(&stats));
        stats.levels[1].runs.clear();
        stats.levels[0].runs.iter_mut().for_each(|run| run.tombstones = run.entries / 2);
        assert!(said(&stats).starts_with("50 % of the entries are tombstones"), "{}", said(&stats));
        stats.compactions_paused = true;
        assert!(said(&stats).starts_with("compactions are paused"), "{}", said(&stats));
        stats.background_error = Some("no space".to_owned());
        assert!(said(&stats).ends_with("no space"), "{}", said(&stats));
        stats.disk = Some(with(|disk: &mut DiskStats| {
            (disk.free_bytes, disk.reserve_bytes, disk.is_low) = (1 << 20, 2 << 20, true);
        }));
        assert!(said(&stats).contains("puts are refused, deletes are accepted; free some space"), "{}", said(&stats));
        stats.writing_stopped = Some("a sync failed".to_owned());
        assert!(said(&stats).ends_with("a sync failed"), "{}", said(&stats));
    }

    /// A bar has its length whatever it contains, and every run that fills a cell is visible.
    #[test]
    fn bars_keep_their_length() {
        for cells in 1..60 {
            for count in 0..50 {
                let segments: Vec<BarSegment> =
                    (0..count).map(|i| BarSegment { bytes: i * 37 % 11, is_compacting: i % 5 == 0 }).collect();
                assert_eq!(bar(cells, 100, &segments).chars().count(), cells);
            }
        }
        let thirds = [1, 1, 1].map(|bytes| BarSegment { bytes, is_compacting: false });
        assert_eq!(bar(6, 3, &thirds), "██▓▓██");
        assert_eq!(bar(6, 6, &thirds), "█▓█···");
        assert_eq!(bar(6, 2, &thirds), "███▓▓▶");
        assert_eq!(bar(6, 3, &[]), "······");
    }
}
