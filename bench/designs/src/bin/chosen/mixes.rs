//! [`all`]: the mixes of operations, those of two papers and one kind that both lack.

use tamarack_model::navigator::smoose::WORKLOADS;
use tamarack_model::workload::Workload;

/// A kind of operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A lookup of a key that is not there.
    ZeroResult,
    /// A lookup of a key that is there, each as likely.
    Existing,
    /// A scan, from any key on.
    Scan,
    /// Another value for a key that is there, each as likely.
    Update,
}

impl Kind {
    /// In the order of [`Mix::parts`].
    pub const ALL: [Self; 4] = [Self::ZeroResult, Self::Existing, Self::Scan, Self::Update];
}

/// A mix of operations.
#[derive(Clone, PartialEq, Debug)]
pub struct Mix {
    pub name: String,
    /// Parts of zero-result lookups, lookups of existing keys, scans, and updates, in any unit.
    pub parts: [u64; 4],
    /// Entries of a scan.
    pub scanned: u64,
}

/// Entries of a scan in MOOSE's mixes; the paper does not say.
const MOOSE_SCANNED: u64 = 10;

/// A scan of Monkey's Fig. 13 F returns one of so many entries ("a selectivity of ≈ 0.001 %").
const SCANNED_PART: u64 = 100_000;

/// Percentages of lookups or scans in Monkey's Fig. 13, which has those between them as well.
const PERCENTAGES: [u64; 3] = [10, 50, 90];

/// All mixes, for a tree of so many entries: MOOSE's A to J (Table 4); Monkey's Fig. 13 E,
/// zero-result lookups and updates, and F, short scans and updates; and lookups of existing keys
/// with updates.
pub fn all(entries: u64) -> Vec<Mix> {
    let moose = WORKLOADS.iter().map(|(letter, shares)| {
        let [scans, updates, lookups] = shares.map(|share| share as u64);
        Mix { name: format!("moose-{letter}"), parts: [lookups, 0, scans, updates], scanned: MOOSE_SCANNED }
    });
    let scanned = (entries / SCANNED_PART).max(1);
    let beside_updates = |name: &str, kind: usize, scanned: u64| {
        PERCENTAGES.map(|percent| {
            let mut parts = [0, 0, 0, 100 - percent];
            parts[kind] = percent;
            Mix { name: format!("{name}-{percent}"), parts, scanned }
        })
    };
    let others =
        [beside_updates("13E", 0, scanned), beside_updates("13F", 2, scanned), beside_updates("existing", 1, scanned)];
    moose.chain(others.into_iter().flatten()).collect()
}

impl Mix {
    /// The shares as models have them.
    pub fn workload(&self) -> Workload {
        let [zero_result, existing, scans, updates] = self.parts.map(|part| part as f64);
        let after_first = self.scanned.saturating_sub(1) as f64;
        Workload::of_parts(zero_result, existing, scans, updates, after_first)
            .unwrap_or_else(|| panic!("{self:?} has operations"))
    }

    /// Shares, in the order of [`Kind::ALL`], which add up to 1.
    pub fn shares(&self) -> [f64; 4] {
        let all: u64 = self.parts.iter().sum();
        self.parts.map(|part| part as f64 / all as f64)
    }

    /// Such as `98 % scans of 10, 1 % updates`.
    pub fn words(&self) -> String {
        let scans = format!("scans of {}", self.scanned);
        let names = ["zero-result lookups", "existing lookups", scans.as_str(), "updates"];
        let present = names.iter().zip(self.shares()).filter(|(_, share)| *share > 0.0);
        present.map(|(name, share)| format!("{:.0} % {name}", 100.0 * share)).collect::<Vec<_>>().join(", ")
    }
}

/// Deals the kinds of a mix in turns, so that after any number of operations each kind is within
/// one of its share.
pub struct Turns {
    shares: [f64; 4],
    due: [f64; 4],
}

impl Turns {
    pub fn of(mix: &Mix) -> Self {
        Self { shares: mix.shares(), due: [0.0; 4] }
    }

    /// The kind of the next operation.
    pub fn deal(&mut self) -> Kind {
        let mut next = 0;
        for kind in 0..4 {
            self.due[kind] += self.shares[kind];
            if self.due[kind] > self.due[next] {
                next = kind;
            }
        }
        self.due[next] -= 1.0;
        Kind::ALL[next]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names differ, every mix has updates, so that levels turn over, and shares are those of the
    /// papers.
    #[test]
    fn mixes_are_sound() {
        let mixes = all(1_000_000);
        let names: std::collections::BTreeSet<&str> = mixes.iter().map(|mix| mix.name.as_str()).collect();
        assert_eq!((mixes.len(), names.len()), (19, 19));
        for mix in &mixes {
            assert!(mix.parts[3] > 0 && mix.scanned > 0, "{mix:?}");
            assert!((mix.shares().iter().sum::<f64>() - 1.0).abs() < 1e-12, "{mix:?}");
        }
        let of = |name: &str| mixes.iter().find(|mix| mix.name == name).unwrap_or_else(|| panic!("{name}"));
        assert_eq!((of("moose-A").parts, of("moose-A").scanned), ([1, 0, 98, 1], 10));
        assert_eq!((of("moose-E").parts, of("13E-90").parts), ([49, 0, 2, 49], [90, 0, 0, 10]));
        assert_eq!((of("13F-10").parts, of("13F-10").scanned), ([0, 0, 10, 90], 10));
        assert_eq!(of("13F-10").words(), "10 % scans of 10, 90 % updates");
    }

    /// At any moment each kind is within one operation of its share, and rare kinds come, too.
    #[test]
    fn turns_keep_the_shares() {
        for mix in all(1_000_000) {
            let (mut turns, mut counts) = (Turns::of(&mix), [0_u64; 4]);
            for operation in 1..=1000 {
                let next = turns.deal();
                counts[Kind::ALL.iter().position(|kind| *kind == next).expect("a kind")] += 1;
                for (count, share) in counts.iter().zip(mix.shares()) {
                    let expected = share * f64::from(operation);
                    assert!((*count as f64 - expected).abs() <= 1.0 + 1e-9, "{mix:?}: {counts:?} of {operation}");
                    assert!(share > 0.0 || *count == 0, "{mix:?}: {counts:?}");
                }
            }
        }
    }
}
