//! [`WORKLOADS`]: what is written between the reads, on a tree that was loaded with unique keys in
//! random order.

/// A mix of writes.
#[derive(Debug)]
pub struct WriteMix {
    pub name: &'static str,
    pub description: &'static str,
    /// Of a hundred writes, those that give an existing key another value.
    pub overwrites: u64,
    /// Those that add a new key.
    pub inserts: u64,
    /// Those that delete a key, or write again the one deleted longest ago.
    pub deletes: u64,
    /// The exponent of the Zipfian law by which overwritten keys are drawn; 0 draws all alike.
    pub theta: f64,
}

/// The most keys that are deleted at a time: one of so many entries.
pub const DELETED_PART: u64 = 200;

pub const WORKLOADS: [WriteMix; 6] = [
    WriteMix {
        name: "overwrites",
        description: "overwrites of keys drawn uniformly",
        overwrites: 100,
        inserts: 0,
        deletes: 0,
        theta: 0.0,
    },
    WriteMix {
        name: "zipfian",
        description: "overwrites of keys by a Zipfian law, exponent 0.99, ranks scattered over all keys",
        overwrites: 100,
        inserts: 0,
        deletes: 0,
        theta: common::zipfian::THETA,
    },
    WriteMix {
        name: "inserts",
        description: "inserts of new keys, so the tree grows",
        overwrites: 0,
        inserts: 100,
        deletes: 0,
        theta: 0.0,
    },
    WriteMix {
        name: "mixed",
        description: "half overwrites, uniform, and half inserts",
        overwrites: 50,
        inserts: 50,
        deletes: 0,
        theta: 0.0,
    },
    WriteMix {
        name: "rest",
        description: "no writes: the tree at rest after loading",
        overwrites: 0,
        inserts: 0,
        deletes: 0,
        theta: 0.0,
    },
    WriteMix {
        name: "deletes",
        description: "90 % overwrites, uniform; the others delete a key, and once 0.5 % of all are deleted, in turns with inserts of the key deleted longest ago",
        overwrites: 90,
        inserts: 0,
        deletes: 10,
        theta: 0.0,
    },
];

impl WriteMix {
    pub fn writes(&self) -> bool {
        self.overwrites + self.inserts + self.deletes > 0
    }

    /// True if entries become obsolete.
    pub fn makes_garbage(&self) -> bool {
        self.overwrites + self.deletes > 0
    }

    pub fn is_zipfian(&self) -> bool {
        self.theta > 0.0
    }
}

/// Writes are percentages.
#[test]
fn shares_add_up() {
    for mix in &WORKLOADS {
        let sum = mix.overwrites + mix.inserts + mix.deletes;
        assert!(sum == 100 || (sum == 0 && mix.name == "rest"), "{mix:?}");
    }
}
