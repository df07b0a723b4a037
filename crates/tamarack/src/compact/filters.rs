//! [`Filters`]: which filters the tables of a job get.
//!
//! Decided once for each job, when it is opened, from the tree as it stands and as it will stand when it is full ([`tamarack_model::assign`]). A merge whose inputs
//! are large takes a while; what is flushed and merged above it meanwhile was reckoned with.

use tamarack_model::allocate::Curve;
use tamarack_model::assign::{Budget, Standing, bits_for_new};
use tamarack_model::filter::FilterChoice;
use tamarack_model::{Bytes, Entries, Shape};

use crate::compact::job::Task;
use crate::format::edit::RunId;
use crate::table::FilterSettings;
use crate::tree::run::Run;
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
        /// How many bits there are, and for which lookups.
        budget: Budget,
    },
}

impl Filters {
    /// What was chosen.
    pub fn new(choice: FilterChoice) -> Self {
        let FilterChoice::Each { kind, bits_per_entry, allocation } = choice else { return Self::None };
        match allocation.found() {
            None => Self::Alike(FilterSettings { kind, bits_per_entry }),
            Some(found) => Self::Shared { curve: Box::new(Curve::new(kind)), budget: Budget { bits_per_entry, found } },
        }
    }

    /// For a table of a run that is built outside, of which there is so much, and that will be the youngest of the tree. `shape` has a level for it.
    pub(super) fn of_youngest(&self, shape: &Shape, tree: &TreeVersion, run: Standing) -> Option<FilterSettings> {
        self.of_new(shape, || {
            let others = tree
                .levels()
                .iter()
                .zip(1..)
                .flat_map(|(level, number)| level.runs().iter().map(move |run| standing(number, run)));
            ([run].into_iter().chain(others).collect(), 0)
        })
    }

    /// For the tables of a job.
    pub(super) fn of_job(&self, shape: &Shape, tree: &TreeVersion, task: &Task) -> Option<FilterSettings> {
        self.of_new(shape, || with_output(tree, task))
    }

    /// `runs` gives the runs of the tree with the new one, and where that stands.
    fn of_new(&self, shape: &Shape, runs: impl FnOnce() -> (Vec<Standing>, usize)) -> Option<FilterSettings> {
        let (curve, budget) = match self {
            Self::None => return None,
            Self::Alike(settings) => return Some(*settings),
            Self::Shared { curve, budget } => (curve, budget),
        };
        let (runs, new) = runs();
        let bits_per_entry = bits_for_new(curve, *budget, shape, &runs, new);
        (bits_per_entry > 0.0).then(|| FilterSettings { kind: curve.kind(), bits_per_entry })
    }
}

/// The runs of the tree as they will be when the job is done, young to old, and which of them is its output.
fn with_output(tree: &TreeVersion, task: &Task) -> (Vec<Standing>, usize) {
    let (members, buffer) = match task {
        Task::Flush { sealed, input } => (input.as_slice().to_vec(), Some(&sealed.buffer)),
        Task::Range { inputs } => (inputs.to_vec(), None),
        Task::Merge { id } => {
            let merge = tree.merges().iter().find(|merge| merge.id == *id);
            let merge = merge.unwrap_or_else(|| panic!("{id:?} is being carried out, but is not in progress"));
            (merge.inputs.iter().copied().chain([merge.output]).collect(), None)
        }
    };
    let mut output = Standing { level: 1, bytes: Bytes::ZERO, entries: Entries(0), filter_bits: 0.0 };
    if let Some(buffer) = buffer {
        (output.bytes, output.entries) = (Bytes(buffer.raw_bytes()), Entries(buffer.entries()));
    }
    let mut runs = Vec::new();
    // A flush stands before all others, everything else where the oldest of its runs is.
    let mut new = 0;
    for (level, run) in
        tree.levels().iter().zip(1..).flat_map(|(level, number)| level.runs().iter().map(move |run| (number, run)))
    {
        if is_member(&members, run) {
            let added = standing(level, run);
            output.bytes += added.bytes;
            output.entries.0 += added.entries.0;
            output.level = level;
            new = runs.len();
        } else {
            runs.push(standing(level, run));
        }
    }
    runs.insert(new, output);
    (runs, new)
}

fn is_member(members: &[RunId], run: &Run) -> bool {
    members.contains(&run.id())
}

fn standing(level: usize, run: &Run) -> Standing {
    let mut standing = Standing { level, bytes: Bytes::ZERO, entries: Entries(0), filter_bits: 0.0 };
    for slice in run.slices().iter() {
        let meta = slice.table().meta();
        standing.bytes += Bytes(slice.raw_bytes());
        standing.entries.0 += slice.share_of(meta.entries);
        standing.filter_bits += slice.share_of(meta.filter_bits) as f64;
    }
    standing
}
