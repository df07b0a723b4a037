//! Combinations with repetition, as numbers.
//!
//! `k` numbers below `v`, in ascending order and possibly equal, are one of `C(v + k - 1, k)`
//! combinations. Adding its place to each makes them different: `b_i = a_i + i`. Those are ranked
//! in the combinatorial number system, `rank = Σ C(b_i, i + 1)`, which counts the combinations
//! before. The combination of zeros has rank 0.

use tamarack_model::filter::chucky::groups::SLOTS_MAX;

/// Binomial coefficients `C(n, k)` for `k` up to [`SLOTS_MAX`] and `n` up to a bound.
#[derive(Clone, Debug)]
pub(super) struct Binomials {
    /// Row n has `C(n, 0)` to `C(n, SLOTS_MAX)`.
    rows: Vec<[u64; SLOTS_MAX + 1]>,
}

/// The combinations of `k` numbers below `v`, where they are few enough for a table.
#[derive(Clone, Debug, Default)]
pub(super) struct Combinations {
    /// By rank. Each number takes a byte, the first one the lowest.
    packed: Box<[u64]>,
}

/// Combinations in a table, at most: with more, numbers are found by searching.
const TABLE_MAX: u64 = 2048;

impl Binomials {
    /// For combinations of numbers below `v_max`. The coefficients fit 64 bits: `v_max` is at most
    /// [`LIDS_MAX`](tamarack_model::filter::chucky::groups::LIDS_MAX).
    pub(super) fn new(v_max: usize) -> Self {
        let mut rows = vec![[0; SLOTS_MAX + 1]; v_max + SLOTS_MAX];
        rows[0][0] = 1;
        for n in 1..rows.len() {
            rows[n][0] = 1;
            for k in 1..=SLOTS_MAX {
                rows[n][k] = rows[n - 1][k - 1] + rows[n - 1][k];
            }
        }
        Self { rows }
    }

    /// The number of combinations of `k` numbers below `v`; `v` is at least 1.
    pub(super) fn count(&self, v: usize, k: usize) -> u64 {
        self.rows[v + k - 1][k]
    }

    /// The rank of a combination, in ascending order.
    pub(super) fn rank(&self, numbers: impl Iterator<Item = usize>) -> u64 {
        numbers.enumerate().map(|(i, number)| self.term(number, i)).sum()
    }

    /// What the number at place `i` adds to the rank.
    #[inline]
    pub(super) fn term(&self, number: usize, i: usize) -> u64 {
        self.rows[number + i][i + 1]
    }

    /// The combination of rank `rank`, in ascending order: numbers below `v`, as many as `numbers`
    /// has.
    pub(super) fn unrank(&self, mut rank: u64, v: usize, numbers: &mut [usize]) {
        for i in (1..numbers.len()).rev() {
            // The greatest b with C(b, i + 1) <= rank; C(i, i + 1) is 0.
            let b = self.rows[..v + i].partition_point(|row| row[i + 1] <= rank) - 1;
            rank -= self.rows[b][i + 1];
            numbers[i] = b - i;
        }
        // C(b, 1) is b.
        if let [first, ..] = numbers {
            *first = rank as usize;
        }
    }

    /// The table of the combinations of `k` numbers below `v`; `None` if they are too many.
    pub(super) fn table(&self, v: usize, k: usize) -> Option<Combinations> {
        let count = self.count(v, k);
        let fits = count <= TABLE_MAX && v <= usize::from(u8::MAX) + 1;
        let packed = |rank| {
            let mut numbers = [0; SLOTS_MAX];
            self.unrank(rank, v, &mut numbers[..k]);
            numbers[..k].iter().rev().fold(0, |packed, number| packed << 8 | *number as u64)
        };
        fits.then(|| Combinations { packed: (0..count).map(packed).collect() })
    }

    pub(super) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.rows)
    }
}

impl Combinations {
    /// The combination of rank `rank`, in ascending order.
    #[inline]
    pub(super) fn of_rank(&self, rank: u64) -> [u8; 8] {
        self.packed[rank as usize].to_le_bytes()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.packed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With all LIDs that a code may have, numbers of combinations have 48 bits.
    #[test]
    fn combinations_are_bounded() {
        let v = tamarack_model::filter::chucky::groups::LIDS_MAX;
        assert!(Binomials::new(v).count(v, SLOTS_MAX) < 1 << 48);
    }

    /// Ranks count all combinations, once each, from 0 on.
    #[test]
    fn ranks_are_all_numbers() {
        for v in 1..=7 {
            let binomials = Binomials::new(v);
            for k in 1..=4 {
                let all: Vec<Vec<usize>> = (0..v.pow(k as u32))
                    .map(|number| (0..k).map(|i| number / v.pow(i as u32) % v).collect::<Vec<_>>())
                    .filter(|numbers| numbers.is_sorted())
                    .collect();
                assert_eq!(all.len() as u64, binomials.count(v, k));
                let mut ranks: Vec<u64> = all.iter().map(|numbers| binomials.rank(numbers.iter().copied())).collect();
                for (numbers, rank) in all.iter().zip(&ranks) {
                    let mut back = vec![0; k];
                    binomials.unrank(*rank, v, &mut back);
                    let packed = binomials.table(v, k).expect("they are few").of_rank(*rank);
                    assert!(back.iter().zip(packed).all(|(number, packed)| *number == usize::from(packed)));
                    assert_eq!((back, numbers.iter().all(|&n| n == 0)), (numbers.clone(), *rank == 0));
                }
                ranks.sort_unstable();
                assert!(ranks.iter().copied().eq(0..all.len() as u64), "{v}, {k}: {ranks:?}");
            }
        }
    }
}
