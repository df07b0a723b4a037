//! [`Filters`]: which filters the tables of a job get, and which those have that are there.
//!
//! Decided once for each job, when it is opened, from the tree as it stands and as it will stand when it is full ([`tamarack_model::assign`]). A merge whose inputs
//! are large takes a while; what is flushed and merged above it meanwhile was reckoned with.
//!
//! With `allocation=observed` it is decided by how often lookups passed each run in vain lately, of those that are sampled: in the last one or two periods of
//! `crate::stats`, about half a million lookups. A merge's output takes over what the oldest of its inputs saw. Opening a database begins with nothing seen, which is
//! the same as `allocation=monkey`.
//!
//! Tests: `tests/allocation.rs`, `tests/observed.rs`.

use std::sync::Arc;

use tamarack_model::allocate::Curve;
use tamarack_model::allocate::weights::{Asked, Seen, SeenRun};
use tamarack_model::assign::{Budget, Standing, bits_for_new};
use tamarack_model::filter::{Allocation, BITS_MAX, FilterChoice, FilterKind};
use tamarack_model::planner::is_level_full;
use tamarack_model::retune::{Part, Tuned, Wanted};
use tamarack_model::{Bytes, Entries, Shape};

use crate::compact::job::Task;
use crate::format::edit::RunId;
use crate::stats::LookupCounters;
use crate::table::{FilterSettings, kind_to_number};
use crate::tree::run::Run;
use crate::tree::table_file::TableFile;
use crate::tree::version::TreeVersion;

/// Which filters the tables of a tree are to carry.
#[derive(Clone, Debug)]
pub enum Filters {
    /// None.
    None,
    /// The same for all.
    Alike(FilterSettings),
    /// Of one kind, the bits shared out among runs.
    Shared {
        /// What filters of that kind promise for their bits.
        curve: Box<Curve>,
        /// Bits for each entry of the tree.
        bits_per_entry: f64,
        /// For which lookups.
        sharing: Sharing,
    },
}

/// For which lookups the bits of filters are shared out.
#[derive(Clone, Copy, Debug)]
pub enum Sharing {
    /// Such of which this share finds something.
    Found(f64),
    /// Such as there were lately.
    Observed,
}

/// The bits per entry that tables store, so that there are as many in memory: of elastic filters twice as many, of which hot tables have more in memory and others fewer.
pub fn stored_bits(kind: FilterKind, bits_per_entry: f64) -> f64 {
    match kind {
        FilterKind::Elastic => (2.0 * bits_per_entry).min(BITS_MAX),
        FilterKind::Bloom | FilterKind::Blocked => bits_per_entry,
    }
}

impl Filters {
    /// What was chosen.
    pub fn new(choice: FilterChoice) -> Self {
        let FilterChoice::Each { kind, bits_per_entry, allocation } = choice else { return Self::None };
        let sharing = match allocation {
            Allocation::Uniform => {
                return Self::Alike(FilterSettings { kind, bits_per_entry: stored_bits(kind, bits_per_entry) });
            }
            Allocation::Monkey => Sharing::Found(0.0),
            Allocation::MonkeyGeneral { v } => Sharing::Found(v / (v + 1.0)),
            Allocation::Observed => Sharing::Observed,
        };
        Self::Shared { curve: Box::new(Curve::new(kind)), bits_per_entry, sharing }
    }

    /// For a table of a run that is built outside, of which there is so much, and that will be the youngest of the tree. `shape` has a level for it.
    pub(super) fn of_youngest(
        &self,
        shape: &Shape,
        tree: &TreeVersion,
        run: Standing,
        lookups: &LookupCounters,
    ) -> Option<FilterSettings> {
        self.of_new(shape, tree, lookups, |runs, _| ([run].into_iter().chain(standings(runs)).collect(), 0))
    }

    /// For the tables of a job.
    pub(super) fn of_job(
        &self,
        shape: &Shape,
        tree: &TreeVersion,
        task: &Task,
        lookups: &LookupCounters,
    ) -> Option<FilterSettings> {
        self.of_new(shape, tree, lookups, |runs, asked| with_output(tree, runs, asked, task))
    }

    /// `arrange` makes of the runs of the tree those that will be, and says where the new one stands.
    fn of_new(
        &self,
        shape: &Shape,
        tree: &TreeVersion,
        lookups: &LookupCounters,
        arrange: impl FnOnce(Vec<(RunId, Standing)>, &Asked) -> (Vec<Standing>, usize),
    ) -> Option<FilterSettings> {
        let (curve, bits_per_entry, sharing) = match self {
            Self::None => return None,
            Self::Alike(settings) => return Some(*settings),
            Self::Shared { curve, bits_per_entry, sharing } => (curve, *bits_per_entry, sharing),
        };
        let (runs, asked) = sharing.look_at(tree, lookups);
        let (mut runs, new) = arrange(runs, &asked);
        // A flush that makes the tree grow goes on to where it does not fill its level any more.
        let built = &mut runs[new];
        while built.level < shape.last() && is_level_full(shape, built.level, built.bytes.0) {
            built.level += 1;
        }
        let bits_per_entry = bits_for_new(curve, Budget { bits_per_entry, asked: &asked }, shape, &runs, new);
        (bits_per_entry > 0.0).then(|| FilterSettings { kind: curve.kind(), bits_per_entry })
    }
}

impl Filters {
    /// The runs of a tree with their tables' filters, young to old, for retuning; the kind that is wanted; and what is asked of them.
    pub(super) fn tunable(&self, tree: &TreeVersion, lookups: &LookupCounters) -> Tunable {
        let (kind, sharing) = match self {
            Self::None => (None, Sharing::Found(0.0)),
            Self::Alike(settings) => (Some(settings.kind), Sharing::Found(0.0)),
            Self::Shared { curve, sharing, .. } => (Some(curve.kind()), *sharing),
        };
        let (standings, asked) = sharing.look_at(tree, lookups);
        let is_known = !matches!(sharing, Sharing::Observed) || lookups.sampled() >= KNOWN_SAMPLES;
        let (mut runs, mut tables) = (Vec::new(), Vec::new());
        for (run, (_, standing)) in tree.runs().zip(standings) {
            // Tables that a merge is cutting back go soon; of others, what was cut off stays as long as the table.
            let is_in_merge = tree.merge_of(run.id()).is_some();
            let (mut of_run, mut parts): (Vec<Arc<TableFile>>, Vec<Part>) = Default::default();
            for slice in run.slices().iter() {
                let entries = slice.table().meta().entries;
                let live = if is_in_merge { entries } else { slice.share_of(entries) };
                match (of_run.last(), parts.last_mut()) {
                    // A table that is cut in two has one filter.
                    (Some(table), Some(part)) if table.id() == slice.table().id() => {
                        part.live = entries.min(part.live + live);
                    }
                    _ => {
                        parts.push(part_of(slice.table(), live.max(1)));
                        of_run.push(slice.table().clone());
                    }
                }
            }
            runs.push(Tuned { standing, parts });
            tables.push(of_run);
        }
        Tunable { kind, runs, tables, asked, is_known }
    }

    /// What filters are to be, in the words of the model; nothing if they are elastic.
    pub(super) fn wanted<'a>(&'a self, asked: &'a Asked) -> Option<Wanted<'a>> {
        Some(match self {
            Self::None => Wanted::Nothing,
            Self::Alike(FilterSettings { kind: FilterKind::Elastic, .. }) => return None,
            Self::Alike(FilterSettings { kind, bits_per_entry }) => Wanted::Alike(*kind, *bits_per_entry),
            Self::Shared { curve, bits_per_entry, .. } => {
                Wanted::Shared(curve, Budget { bits_per_entry: *bits_per_entry, asked })
            }
        })
    }
}

/// A tree as it is to be retuned.
pub(super) struct Tunable {
    /// The kind of filters that is wanted.
    pub(super) kind: Option<FilterKind>,
    /// The runs, young to old.
    pub(super) runs: Vec<Tuned>,
    /// The tables of each.
    pub(super) tables: Vec<Vec<Arc<TableFile>>>,
    /// What is asked of them.
    pub(super) asked: Asked,
    /// Whether that is known well enough to change filters for it.
    pub(super) is_known: bool,
}

/// From so many sampled lookups on, filters change for what was observed. Before, it would be noise that is followed; what is built goes by it all the same.
const KNOWN_SAMPLES: u64 = 1024;

fn part_of(table: &TableFile, live: u64) -> Part {
    let kind_of = |number| FilterKind::ALL.into_iter().find(|kind| kind_to_number(*kind) == number);
    let (meta, (kind, bits)) = (table.meta(), table.filter());
    Part {
        entries: meta.entries,
        live,
        bits: bits as f64,
        kind: kind_of(kind),
        can_be_made: table.can_be_retuned(),
        stored: kind_of(meta.filter_kind).map(|kind| (kind, meta.filter_bits as f64)),
    }
}

impl Sharing {
    /// The runs of a tree, young to old, and what is asked of them, by what lookups did lately if that counts. [`Asked::weights`] of their extents are the weights that filters are
    /// shared out by: of all runs as they are, or with others in the place of some.
    pub(super) fn look_at(self, tree: &TreeVersion, lookups: &LookupCounters) -> (Vec<(RunId, Standing)>, Asked) {
        let levels = tree.levels().iter().zip(1..);
        let all = levels.flat_map(|(level, number)| level.runs().iter().map(move |run| (number, run)));
        let mut runs: Vec<_> = all.clone().map(|(level, run)| (run.id(), standing(level, run))).collect();
        let asked = match self {
            Self::Found(found) => Asked::Found(found),
            Self::Observed => {
                let (sampled, past_buffers) = lookups.lately();
                let share = past_buffers as f64 / sampled.max(1) as f64;
                let seen_runs: Vec<SeenRun> = all.map(|(_, run)| seen_of(run)).collect();
                let seen = Seen::new(sampled as f64, share.min(1.0), &seen_runs);
                for ((_, run), weight) in runs.iter_mut().zip(seen.weights()) {
                    run.seen = Some(weight);
                }
                Asked::Seen(seen)
            }
        };
        (runs, asked)
    }
}

/// The runs of the tree as they will be when the job is done, young to old, and which of them is its output.
fn with_output(tree: &TreeVersion, all: Vec<(RunId, Standing)>, asked: &Asked, task: &Task) -> (Vec<Standing>, usize) {
    let (members, buffer) = match task {
        Task::Flush { sealed, input } => (input.as_slice().to_vec(), Some(&sealed.buffer)),
        Task::Range { inputs } => (inputs.to_vec(), None),
        Task::Merge { id } => {
            let merge = tree.merges().iter().find(|merge| merge.id == *id);
            let merge = merge.unwrap_or_else(|| panic!("{id:?} is being carried out, but is not in progress"));
            (merge.inputs.iter().copied().chain([merge.output]).collect(), None)
        }
    };
    let mut output = Standing { level: 1, bytes: Bytes::ZERO, entries: Entries(0), filter_bits: 0.0, seen: None };
    if let Some(buffer) = buffer {
        (output.bytes, output.entries) = (Bytes(buffer.raw_bytes()), Entries(buffer.entries()));
    }
    let mut runs = Vec::new();
    // A flush stands before all others, everything else where the oldest of its runs is.
    let mut new = 0;
    let mut merged = Vec::new();
    for (place, (id, run)) in all.into_iter().enumerate() {
        if members.contains(&id) {
            output.bytes += run.bytes;
            output.entries.0 += run.entries.0;
            output.level = run.level;
            // The output itself is among them, and empty when the job begins.
            if run.entries > Entries(0) {
                merged.push(place);
            }
            new = runs.len();
        } else {
            runs.push(run);
        }
    }
    if let Asked::Seen(seen) = asked {
        output.seen = seen.merged(&merged);
    }
    runs.insert(new, output);
    (runs, new)
}

fn standings(runs: Vec<(RunId, Standing)>) -> impl Iterator<Item = Standing> {
    runs.into_iter().map(|(_, run)| run)
}

fn standing(level: usize, run: &Run) -> Standing {
    let mut standing = Standing { level, bytes: Bytes::ZERO, entries: Entries(0), filter_bits: 0.0, seen: None };
    for slice in run.slices().iter() {
        let meta = slice.table().meta();
        standing.bytes += Bytes(slice.raw_bytes());
        standing.entries.0 += slice.share_of(meta.entries);
        // What it has now, which is not what is stored if it was retuned.
        standing.filter_bits += slice.share_of(slice.table().filter().1) as f64;
    }
    standing
}

/// What lookups did lately in a run's tables. Tables that are younger than others saw fewer.
fn seen_of(run: &Run) -> SeenRun {
    let mut seen = SeenRun { bytes: Bytes(run.known_raw_bytes()), ..SeenRun::default() };
    let mut entries = 0.0;
    for slice in run.slices().iter() {
        let (came, in_vain, lookups) = slice.table().seen_lately();
        let of_slice = slice.share_of(slice.table().meta().entries) as f64;
        seen.came += came;
        seen.in_vain += in_vain;
        seen.lookups += lookups as f64 * of_slice;
        entries += of_slice;
    }
    let share = |sum: f64| sum.min(1.0);
    SeenRun {
        lookups: seen.lookups / f64::max(entries, 1.0),
        came: share(seen.came),
        in_vain: share(seen.in_vain),
        ..seen
    }
}
