//! [`Contender`]: a design that is measured. Those of the sweep are fixed; one is chosen for each
//! mix, by the search alone, before anything is measured.

use tamarack_model::Bytes;
use tamarack_model::device::Device;
use tamarack_model::filter::FilterChoice;
use tamarack_model::navigator::union::{PricedDesign, find, price};
use tamarack_model::policy::{self, Policy};

use crate::mixes::Mix;
use crate::plan::Plan;

/// Policies of the sweep.
const SWEEP: [&str; 16] = [
    "leveling:T=2",
    "leveling:T=4",
    "leveling:T=6",
    "leveling:T=10",
    "leveling:T=5,first=4",
    "leveling:T=10,first=4",
    "tiering:T=3",
    "tiering:T=4",
    "tiering:T=6",
    "tiering:T=10",
    "lazy-leveling:T=5",
    "dostoevsky:T=6,K=2,Z=1",
    "dostoevsky:T=10,K=3,Z=1",
    "moose:last=0.8,k=1",
    "garnering:T=2,c=0.8",
    "qlsm-bush:T=2,X=2",
];

/// Filters of the sweep: those of a new database.
const SWEEP_FILTER: &str = "blocked:bits=10,allocation=monkey";

/// Memtables of the sweep, as a part of the memory: those of a new database.
const SWEEP_MEMTABLE_PART: u64 = 8;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Contender {
    /// Specification of the policy.
    pub policy: String,
    /// Specification of the filters.
    pub filter: String,
    /// Raw bytes of a memtable.
    pub buffer_bytes: u64,
}

impl Contender {
    /// Such as `leveling:T=4, bloom 10 monkey, 1MiB`.
    pub fn name(&self) -> String {
        let filter = self.filter.replace(":bits=", " ").replace(",allocation=", " ");
        format!("{}, {filter}, {}", self.policy, Bytes(self.buffer_bytes))
    }

    pub fn parsed(&self) -> Policy {
        policy::parse(&self.policy).unwrap_or_else(|error| panic!("{}: {error}", self.policy))
    }

    /// What the search's model says of it.
    pub fn price(&self, plan: &Plan, mix: &Mix, device: Device) -> PricedDesign {
        let filter: FilterChoice = self.filter.parse().unwrap_or_else(|error| panic!("{}: {error}", self.filter));
        price(&plan.request(mix, device), &self.parsed(), Bytes(self.buffer_bytes), filter)
    }
}

/// The designs of the sweep.
pub fn sweep(plan: &Plan) -> Vec<Contender> {
    let of = |policy: &str| Contender {
        policy: policy.to_owned(),
        filter: SWEEP_FILTER.to_owned(),
        buffer_bytes: plan.memory_bytes / SWEEP_MEMTABLE_PART,
    };
    SWEEP.map(of).to_vec()
}

/// The design that the search finds for a mix.
pub fn chosen(plan: &Plan, mix: &Mix, device: Device) -> Contender {
    let best = find(&plan.request(mix, device)).unwrap_or_else(|error| panic!("{}: {error:?}", mix.name)).best;
    Contender { policy: best.policy.to_string(), filter: best.filter_specification, buffer_bytes: best.buffer.0 }
}

/// What is measured: the sweep, and the chosen design of each mix.
pub struct Contenders {
    /// The sweep first, then the others, each once.
    pub all: Vec<Contender>,
    /// The chosen one of each mix.
    pub chosen: Vec<Contender>,
}

impl Contenders {
    pub fn of(plan: &Plan, mixes: &[Mix], device: Device) -> Self {
        let chosen: Vec<Contender> = mixes.iter().map(|mix| chosen(plan, mix, device)).collect();
        let mut all = sweep(plan);
        for contender in &chosen {
            if !all.contains(contender) {
                all.push(contender.clone());
            }
        }
        Self { all, chosen }
    }

    /// True for a design that is not only measured because it is chosen for another mix.
    pub fn is_in_sweep(plan: &Plan, contender: &Contender) -> bool {
        sweep(plan).contains(contender)
    }
}

/// The policies of the sweep are what they say, and the chosen designs can be opened: their
/// specifications are read back as what was priced.
#[test]
fn contenders_are_sound() {
    let words = common::words::Words::of("  --quick", ["--quick".to_owned()].into_iter());
    let plan = Plan::read(&words);
    let mixes = crate::mixes::all(plan.entries);
    let contenders = Contenders::of(&plan, &mixes[..4], Device::nvme());
    let names: std::collections::BTreeSet<String> = contenders.all.iter().map(Contender::name).collect();
    assert_eq!(names.len(), contenders.all.len());
    for contender in &contenders.all {
        assert_eq!(contender.parsed().to_string(), contender.policy);
        assert!(contender.buffer_bytes <= plan.memory_bytes / 8, "{contender:?}");
    }
    for (mix, chosen) in mixes.iter().zip(&contenders.chosen) {
        let [own, other] = [chosen, &contenders.all[6]].map(|design| design.price(&plan, mix, Device::nvme()));
        assert!(own.seconds_per_op <= other.seconds_per_op, "{}: {own:?} and {other:?}", mix.name);
    }
}
