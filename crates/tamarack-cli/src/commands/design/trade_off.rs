//! The trade-off between reads and writes: designs with their write amplification and the cost of
//! the workload's reads, and which of them are on the Pareto front.
//!
//! Without a search, the candidates are the policies of the union search with the filter and
//! memtable that were given. After a search, they are all designs that it compared, with its quick
//! predictions, and the marked designs are predicted in the same way so that all are comparable.
//! Designs that exceed the memory budget are no candidates.

use serde_json::Value;
use tamarack_model::navigator::monkey::defaults::{self, DefaultDesign};
use tamarack_model::navigator::pareto;
use tamarack_model::navigator::union::{PricedDesign, policies};
use tamarack_model::prediction::Effort;

use super::read_cost::ReadCost;
use super::request::{DesignRequest, NamedDesign};
use crate::show::json;

/// What a design is in the trade-off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// It was asked for, or found.
    Asked,
    /// A store has it by default.
    Store,
    /// A candidate on the Pareto front.
    Front,
    /// Any other candidate.
    Other,
}

/// A design and its two costs.
pub(super) struct PlacedDesign {
    pub(super) role: Role,
    /// Its store or its policy.
    pub(super) name: String,
    pub(super) priced: PricedDesign,
    /// Its write amplification.
    pub(super) writes: f64,
    /// The cost of a read of the workload.
    pub(super) reads: f64,
    /// False if it exceeds the memory budget.
    pub(super) fits: bool,
    pub(super) is_on_front: bool,
}

/// All designs: those asked for, the stores', the front by ascending write amplification, and the
/// others.
pub(super) struct TradeOff {
    pub(super) cost: ReadCost,
    pub(super) designs: Vec<PlacedDesign>,
    /// What they are designs for.
    pub(super) data: String,
    has_cache: bool,
    has_updates: bool,
}

impl TradeOff {
    /// The trade-off of a request: of the designs `compared` by its search, or of all policies.
    pub(super) fn new(
        request: &DesignRequest,
        cost: ReadCost,
        asked: &[NamedDesign],
        compared: Option<&[PricedDesign]>,
    ) -> Self {
        let effort = if compared.is_some() { Effort::Quick } else { Effort::Full };
        let place = |role: Role, name: String, priced: PricedDesign| PlacedDesign {
            role,
            name,
            writes: priced.prediction.write_amplification,
            reads: cost.of(&request.setting, &priced),
            fits: request.memory.is_none() || priced.split.cache >= 0.0,
            is_on_front: false,
            priced,
        };
        let asked_for =
            |design: &NamedDesign| place(Role::Asked, design.name(), design.priced(&request.setting, effort));
        let store = |design: &DefaultDesign| {
            let named = NamedDesign::of_store(design);
            place(Role::Store, design.store.to_owned(), named.priced(&request.setting, effort))
        };
        let mut designs: Vec<PlacedDesign> = asked.iter().map(asked_for).collect();
        designs.extend(defaults::ALL.iter().map(store));
        let candidates: Vec<PricedDesign> = match compared {
            Some(compared) => compared.to_vec(),
            None => policies().map(|policy| request.with_policy(policy).priced(&request.setting, effort)).collect(),
        };
        for candidate in candidates {
            let is_there = |other: &PlacedDesign| other.role != Role::Store && is_same(&other.priced, &candidate);
            if !designs.iter().any(is_there) {
                designs.push(place(Role::Other, candidate.policy.to_string(), candidate));
            }
        }
        designs.retain(|design| design.fits || design.role != Role::Other);
        find_front(&mut designs);
        let has_updates = request.setting.workload.updates > 0.0;
        Self { cost, designs, data: request.data(), has_cache: request.memory.is_some(), has_updates }
    }

    /// What the write amplification is that of.
    pub(super) fn x_title(&self) -> &'static str {
        if self.has_updates { "write amplification" } else { "write amplification of the load" }
    }

    /// What the cost of reads is.
    pub(super) fn y_title(&self) -> String {
        let cache = if self.has_cache { ", with the cache" } else { "" };
        format!("{} per read{cache}", self.cost.unit())
    }

    /// The designs of one role, in order.
    pub(super) fn of_role(&self, role: Role) -> impl Iterator<Item = &PlacedDesign> {
        self.designs.iter().filter(move |design| design.role == role)
    }

    /// The same for programs.
    pub(super) fn object(&self) -> Value {
        let one = |design: &PlacedDesign| {
            let role = match design.role {
                Role::Asked => "asked",
                Role::Store => "store",
                Role::Front => "front",
                Role::Other => "other",
            };
            let mut object = json::object([
                ("role", role.into()),
                ("policy", design.priced.policy.to_string().into()),
                ("filter", design.priced.filter_specification.as_str().into()),
                ("buffer_bytes", design.priced.buffer.0.into()),
                ("update_writes", design.writes.into()),
                (self.cost.member(), design.reads.into()),
                ("fits", design.fits.into()),
                ("is_on_front", design.is_on_front.into()),
            ]);
            if design.role == Role::Store {
                object.insert("store".to_owned(), design.name.as_str().into());
            }
            Value::Object(object)
        };
        let designs: Vec<Value> = self.designs.iter().map(one).collect();
        Value::Object(json::object([("read_cost", self.cost.member().into()), ("designs", designs.into())]))
    }
}

fn is_same(one: &PricedDesign, other: &PricedDesign) -> bool {
    (one.buffer, one.filter) == (other.buffer, other.filter) && one.policy == other.policy
}

/// Marks the designs on the Pareto front of those that fit the memory, and sorts all by role. What
/// other stores have by default, often with other memory, is beside it.
fn find_front(designs: &mut [PlacedDesign]) {
    let may_be: Vec<usize> =
        (0..designs.len()).filter(|at| designs[*at].fits && designs[*at].role != Role::Store).collect();
    let costs: Vec<[f64; 2]> = may_be.iter().map(|at| [designs[*at].writes, designs[*at].reads]).collect();
    for at in pareto::front(&costs) {
        let design = &mut designs[may_be[at]];
        design.is_on_front = true;
        if design.role == Role::Other {
            design.role = Role::Front;
        }
    }
    let rank = |design: &PlacedDesign| match design.role {
        Role::Asked => 0,
        Role::Store => 1,
        Role::Front => 2,
        Role::Other => 3,
    };
    // Those asked for and the stores stay in their order.
    designs.sort_by(|a, b| {
        let by_writes = if a.role == Role::Front { a.writes.total_cmp(&b.writes) } else { std::cmp::Ordering::Equal };
        rank(a).cmp(&rank(b)).then(by_writes)
    });
}
