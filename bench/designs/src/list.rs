//! [`DESIGNS`]: the designs that are measured, each a policy, a filter, and a memtable size.
//!
//! Memtables are a part of the data, so that the trees are the same at any `--entries`: level
//! capacities and runs depend on the number of memtables in the data only. The two numbers are away
//! from those at which a tree of geometric levels gets another one (T^i less half a batch), since
//! trees that are about to grow or have just grown depend on the order of flushes and compactions;
//! and they leave something in most levels.

use common::words::List;
use tamarack_model::Bytes;
use tamarack_model::design::Design;
use tamarack_model::filter::FilterChoice;
use tamarack_model::policy::{self, Policy};

use crate::store::{BLOCK_BYTES, RAW_BYTES};

/// Memtables in the data: 1.3 MiB each at the default number of entries.
const MANY: u64 = 777;
/// 3.7 MiB each.
const FEW: u64 = 274;

const MONKEY: &str = "blocked:bits=10,allocation=monkey";
const UNIFORM: &str = "blocked:bits=10,allocation=uniform";
const MONKEY_5: &str = "bloom:bits=5,allocation=monkey";
const MONKEY_2: &str = "bloom:bits=2,allocation=monkey";
const CHUCKY: &str = "chucky:bits=14.2";
const NONE: &str = "none";

/// Policy, filter, and memtables in the data.
pub const DESIGNS: [(&str, &str, u64); 30] = [
    ("leveling:T=2", MONKEY, FEW),
    ("leveling:T=3", UNIFORM, FEW),
    ("leveling:T=5", MONKEY, MANY),
    ("leveling:T=5", MONKEY_5, FEW),
    ("leveling:T=5", NONE, MANY),
    ("leveling:T=10", MONKEY, MANY),
    ("leveling:T=10", UNIFORM, FEW),
    ("leveling:T=10", CHUCKY, MANY),
    ("leveling:T=5,first=4", MONKEY, MANY),
    ("leveling:T=5,first=4", MONKEY_2, MANY),
    ("leveling:T=5,first=4", CHUCKY, FEW),
    ("tiering:T=3", MONKEY, MANY),
    ("tiering:T=4", UNIFORM, MANY),
    ("tiering:T=4", MONKEY_5, FEW),
    ("tiering:T=4", CHUCKY, MANY),
    ("tiering:T=10", MONKEY, MANY),
    ("tiering:T=10", NONE, FEW),
    ("lazy-leveling:T=3", MONKEY, MANY),
    ("lazy-leveling:T=5", MONKEY_5, MANY),
    ("lazy-leveling:T=5", MONKEY_2, FEW),
    ("dostoevsky:T=5,K=2,Z=1", MONKEY, MANY),
    ("dostoevsky:T=6,K=5,Z=2", UNIFORM, FEW),
    ("garnering:T=2,c=0.8", MONKEY, MANY),
    ("garnering:T=5,c=0.6,first=4", MONKEY_5, FEW),
    ("moose:last=0.8,k=1", MONKEY, MANY),
    ("moose:last=0.8,k=1", NONE, FEW),
    ("moose:last=0.9,k=0.5", UNIFORM, MANY),
    ("moose:last=0.7,k=2", MONKEY_5, MANY),
    ("qlsm-bush:T=2,X=2", MONKEY, MANY),
    ("tiering:T=3", NONE, FEW),
];

/// A design of the list.
#[derive(Clone, Copy, Debug)]
pub struct NamedDesign {
    /// From 1.
    pub number: usize,
    pub policy: &'static str,
    pub filter: &'static str,
    /// Memtables in the data.
    pub memtables: u64,
}

/// All designs whose names have one of these parts.
pub fn wanted(only: &List) -> Vec<NamedDesign> {
    all().filter(|design| only.wants_part_of(&design.name())).collect()
}

/// All designs, in order.
pub fn all() -> impl Iterator<Item = NamedDesign> {
    let named = |(number, &(policy, filter, memtables))| NamedDesign { number, policy, filter, memtables };
    (1..).zip(&DESIGNS).map(named)
}

impl NamedDesign {
    /// Such as `D03 leveling:T=5, blocked 10 monkey, 1/777`. It does not depend on the number of
    /// entries.
    pub fn name(&self) -> String {
        let filter = self.filter.replace(":bits=", " ").replace(",allocation=", " ");
        format!("D{:02} {}, {filter}, 1/{}", self.number, self.policy, self.memtables)
    }

    /// Raw bytes of a memtable, if the data has so many entries.
    pub fn buffer_bytes(&self, entries: u64) -> u64 {
        entries * RAW_BYTES / self.memtables
    }

    pub fn parsed(&self) -> Policy {
        policy::parse(self.policy).unwrap_or_else(|error| panic!("{}: {error}", self.name()))
    }

    fn filter_choice(&self) -> FilterChoice {
        self.filter.parse().unwrap_or_else(|error| panic!("{}: {error}", self.name()))
    }

    pub fn has_filters(&self) -> bool {
        self.filter != NONE
    }

    /// The design as models see it. `policy` is [`Self::parsed`].
    pub fn model<'a>(&self, policy: &'a Policy, entries: u64) -> Design<'a> {
        Design {
            entries,
            entry_bytes: RAW_BYTES,
            buffer: Bytes(self.buffer_bytes(entries)),
            policy,
            filter: self.filter_choice(),
            block_bytes: BLOCK_BYTES,
        }
    }
}

/// All can be read, have names of their own, and memtables of at least 32 KiB with `--quick`.
#[test]
fn designs_are_sound() {
    let names: std::collections::BTreeSet<String> = all().map(|design| design.name()).collect();
    assert_eq!(names.len(), DESIGNS.len());
    for design in all() {
        let policy = design.parsed();
        let model = design.model(&policy, crate::QUICK_ENTRIES);
        assert!(model.buffer.0 >= 32 << 10, "{}: {}", design.name(), model.buffer);
        assert_eq!(design.has_filters(), model.filter != FilterChoice::None, "{}", design.name());
    }
}
