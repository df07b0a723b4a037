//! Monkey's closed forms: lookup cost with optimal filters in trees of one size ratio, leveled or
//! tiered.
//!
//! They are limits for many levels; [`crate::allocate`] and [`super::lookup`] are exact for any
//! tree, and everything else in this crate uses those. The closed forms explain the costs, and suit
//! searches over thousands of designs. `tests/suite/monkey.rs` measures their error for few levels:
//! at 5 bits per entry 15 % for T = 2 and five levels, under 1 % for T = 10 and three.
//!
//! Symbols are the paper's: `T` size ratio, `L` levels, `a` visible runs of a level (1 for
//! leveling, T - 1 for tiering), `m` filter bits per entry, `v` lookups that find something for
//! each one that does not, `L_u` levels without filters. Misprints of the paper are corrected:
//! tests compare each form with the exact sums.

use crate::allocate::LN2_SQUARED;

/// The merge policy of a [`MonkeyTree`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merging {
    /// One run in each level.
    Leveling,
    /// T - 1 runs in each level are visible.
    Tiering,
}

/// A tree of one size ratio.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MonkeyTree {
    /// `T`, at least 2.
    pub ratio: f64,
    /// The merge policy of its levels.
    pub merging: Merging,
}

impl MonkeyTree {
    /// `a`: visible runs of each level.
    pub fn runs(&self) -> f64 {
        match self.merging {
            Merging::Leveling => 1.0,
            Merging::Tiering => self.ratio - 1.0,
        }
    }

    /// `C` of Eq. 7: `T^(T/(T-1)) / (T-1)` for leveling, `T^(T/(T-1))` for tiering.
    fn factor(&self) -> f64 {
        self.runs() * self.ratio.powf(self.ratio / (self.ratio - 1.0)) / (self.ratio - 1.0)
    }

    /// `ω` of the largest level: mean misses of a lookup in one of its runs.
    fn weight_of_largest(&self, found: f64) -> f64 {
        match self.merging {
            Merging::Leveling => 1.0 - found,
            Merging::Tiering => 1.0 - found * self.ratio / (2.0 * (self.ratio - 1.0)),
        }
    }

    /// `L` of Eq. 1, for data of this many memtables; at least 1.
    pub fn levels(&self, data: f64) -> u32 {
        // A whole logarithm must not be rounded up for its last digit.
        (self.levels_continuous(data) - 1e-9).ceil() as u32
    }

    /// `L` of Eq. 1 before it is rounded up, as Eq. 38 has it; at least 1, which the paper leaves
    /// out.
    pub fn levels_continuous(&self, data: f64) -> f64 {
        ((data * (self.ratio - 1.0) / self.ratio).ln() / self.ratio.ln()).max(1.0)
    }

    /// `M_th / N` of Eq. 8: bits per entry from which on all levels have filters, for zero-result
    /// lookups.
    pub fn threshold(&self) -> f64 {
        self.ratio.ln() / ((self.ratio - 1.0) * LN2_SQUARED)
    }

    /// `L_u`, the number of levels without filters, from Eq. 8.
    pub fn unfiltered(&self, bits_per_entry: f64, levels: u32) -> u32 {
        if bits_per_entry >= self.threshold() {
            return 0;
        }
        let unfiltered = ((self.threshold() / bits_per_entry).ln() / self.ratio.ln() - 1e-9).ceil();
        (unfiltered as u32).min(levels)
    }

    /// `R` of Eq. 7: block reads of a zero-result lookup; at most the number of runs, `a L`, which
    /// the equation exceeds for few bits and few levels.
    pub fn zero_result(&self, bits_per_entry: f64, levels: u32) -> f64 {
        let unfiltered = f64::from(self.unfiltered(bits_per_entry, levels));
        if unfiltered >= f64::from(levels) {
            return self.runs() * f64::from(levels);
        }
        let exponent = bits_per_entry * LN2_SQUARED * self.ratio.powf(unfiltered);
        (self.factor() * (-exponent).exp() + self.runs() * unfiltered).min(self.runs() * f64::from(levels))
    }

    /// Block reads of a zero-result lookup with the same bits for every entry (Appendix D).
    pub fn zero_result_uniform(&self, bits_per_entry: f64, levels: u32) -> f64 {
        self.runs() * f64::from(levels) * (-bits_per_entry * LN2_SQUARED).exp()
    }

    /// The rates of levels 1 to `levels` for `R` block reads of a zero-result lookup, with the
    /// least memory: Eq. 32 and 33, exact for full levels.
    ///
    /// # Panics
    /// If `reads` is not above 0.
    pub fn rates(&self, reads: f64, levels: u32) -> Vec<f64> {
        assert!(reads > 0.0, "{reads} block reads");
        let (t, per_level) = (self.ratio, reads / self.runs());
        let most = |unfiltered: u32| (1.0 - t.powi(-((levels - unfiltered) as i32))) / (1.0 - 1.0 / t);
        let unfiltered =
            (0..levels).find(|&unfiltered| per_level - f64::from(unfiltered) <= most(unfiltered)).unwrap_or(levels);
        let filtered = levels - unfiltered;
        let share = |level: u32| t.powi(level as i32 - 1) * (t - 1.0) / (t.powi(filtered as i32) - 1.0);
        let rate = |level| if level > filtered { 1.0 } else { (per_level - f64::from(unfiltered)) * share(level) };
        (1..=levels).map(rate).collect()
    }

    /// `M_th^L` and `M_th^(L-1)` of Eq. 18, in bits per entry, if a share `found` of lookups find
    /// something: above the first all levels have filters, between them all but the largest.
    pub fn thresholds_mixed(&self, found: f64) -> (f64, f64) {
        let t = self.ratio;
        let largest = (t.ln() / (t - 1.0) - self.weight_of_largest(found).ln() / t) / LN2_SQUARED;
        (largest, t.ln() / (t * (t - 1.0) * LN2_SQUARED))
    }

    /// `L_u` of Eq. 18, for a tree of any number of levels.
    fn unfiltered_mixed(&self, bits_per_entry: f64, found: f64) -> u32 {
        let (all, all_but_largest) = self.thresholds_mixed(found);
        if bits_per_entry >= all {
            return 0;
        }
        let beyond = ((all_but_largest / bits_per_entry).ln() / self.ratio.ln() - 1e-9).ceil().max(0.0);
        1 + beyond as u32
    }

    /// The piece of Eq. 19 and 20 with this `L_u`.
    pub fn lookup_piece(&self, unfiltered: u32, found: f64) -> LookupPiece {
        let t = self.ratio;
        let (all, all_but_largest) = self.thresholds_mixed(found);
        if unfiltered == 0 {
            let factor = self.factor() * self.weight_of_largest(found).powf((t - 1.0) / t);
            return LookupPiece { from: all, to: f64::INFINITY, factor, decay: LN2_SQUARED, constant: found };
        }
        let threshold = |unfiltered: u32| match unfiltered {
            0 => all,
            _ => all_but_largest / t.powf(f64::from(unfiltered - 1)),
        };
        LookupPiece {
            from: threshold(unfiltered),
            to: threshold(unfiltered - 1),
            factor: self.factor(),
            decay: LN2_SQUARED * t.powf(f64::from(unfiltered)),
            constant: self.mixed_without_filters(unfiltered, found),
        }
    }

    /// `Z` of Eq. 19 and 20: mean block reads of lookups, of which a share `found` = v / (v+1) find
    /// something, in the largest level; at most the cost without filters, which the equations
    /// exceed for few bits and few levels. `levels` may be a fraction.
    pub fn mixed(&self, bits_per_entry: f64, levels: impl Into<f64>, found: f64) -> f64 {
        let without = self.mixed_without_filters(levels, found);
        if bits_per_entry <= 0.0 {
            return without;
        }
        let unfiltered = self.unfiltered_mixed(bits_per_entry, found);
        self.lookup_piece(unfiltered, found).reads(bits_per_entry).min(without)
    }

    /// The same without filters: Eq. 13 with all rates 1, and the last term of Eq. 19 and 20.
    pub fn mixed_without_filters(&self, levels: impl Into<f64>, found: f64) -> f64 {
        // Runs of the largest level that a lookup of an existing key reads, the key's own included.
        let to_find = match self.merging {
            Merging::Leveling => 1.0,
            Merging::Tiering => self.ratio / 2.0,
        };
        (levels.into() - found) * self.runs() + found * to_find
    }

    /// The same with equal bits for every entry: Eq. 13 with the rates of Appendix D.
    pub fn mixed_uniform(&self, bits_per_entry: f64, levels: impl Into<f64>, found: f64) -> f64 {
        found + (self.mixed_without_filters(levels, found) - found) * (-bits_per_entry * LN2_SQUARED).exp()
    }

    /// The least bits per entry with which Eq. 19 and 20 give at most this many block reads;
    /// infinite if `reads` is not above `found`, which no memory suffices for. Trees of few levels
    /// may reach it with no filter at all ([`MonkeyTree::mixed_without_filters`]).
    pub fn bits_for_mixed(&self, reads: f64, found: f64) -> f64 {
        if reads <= found {
            return f64::INFINITY;
        }
        if reads == f64::INFINITY {
            return 0.0;
        }
        let mut pieces = (0..).map(|unfiltered| self.lookup_piece(unfiltered, found));
        let covers = |piece: &LookupPiece| piece.from == 0.0 || piece.reads(piece.from) >= reads;
        pieces.find(covers).map_or(0.0, |piece| piece.bits_for(reads))
    }

    /// `W` of Eq. 10: block writes and reads of an update, `per_block` entries to a block, where a
    /// write costs `write_cost` reads. `levels` may be a fraction.
    pub fn update(&self, levels: impl Into<f64>, per_block: f64, write_cost: f64) -> f64 {
        let t = self.ratio;
        let writes = match self.merging {
            Merging::Leveling => (t - 1.0) / 2.0,
            Merging::Tiering => (t - 1.0) / t,
        };
        levels.into() / per_block * (1.0 + write_cost) * writes
    }

    /// `Q` of Eq. 11: block reads of a scan of `entries`, `per_block` to a block. `levels` may be a
    /// fraction.
    pub fn range(&self, levels: impl Into<f64>, entries: f64, per_block: f64) -> f64 {
        super::lookup::range(entries, per_block, self.runs() * levels.into())
    }
}

/// A piece of `Z` over the memory of filters, in which `L_u` is constant: Eq. 19 and 20 in the form
/// `factor · e^(-decay m) + constant`, m in bits per entry. Pieces of neighbouring `L_u` meet at
/// the thresholds of Eq. 18, with the same value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LookupPiece {
    /// Least bits per entry of the piece: the threshold below which one more level has no filters.
    pub from: f64,
    /// Most bits per entry; infinite if all levels have filters.
    pub to: f64,
    /// Block reads in levels with filters, if these had no bits.
    pub factor: f64,
    /// `ln²2 · T^L_u`.
    pub decay: f64,
    /// Block reads that filters do not avoid.
    pub constant: f64,
}

impl LookupPiece {
    /// `Z` with this many bits per entry, in the piece.
    pub fn reads(&self, bits_per_entry: f64) -> f64 {
        self.factor * (-self.decay * bits_per_entry).exp() + self.constant
    }

    /// The bits per entry of the piece with which `Z` is this high; the nearer end of the piece if
    /// none are.
    fn bits_for(&self, reads: f64) -> f64 {
        (-((reads - self.constant) / self.factor).ln() / self.decay).clamp(self.from, self.to)
    }
}
