//! Huffman's code over symbols of which many have the same probability.
//!
//! Equally probable symbols are joined in pairs all at once, so that the code of 10¹⁵ symbols of a
//! few thousand types takes milliseconds.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use crate::tree::Type;

/// The entropy of symbols of these types, in bits.
pub fn entropy(types: &[Type]) -> f64 {
    types.iter().map(|of| -of.weight() * of.probability.log2()).sum()
}

/// How many symbols of each type have a codeword of each length, the shortest first.
pub type Lengths = Vec<Vec<(u32, u128)>>;

/// Nodes of the tree that are alike: as many as `count`.
struct Step {
    /// Each joins one of the first and one of the second.
    first: usize,
    second: usize,
    count: u128,
}

/// The codeword lengths of Huffman's code, and their average.
pub fn code(types: &[Type]) -> (Lengths, f64) {
    // Probabilities are positive, so their bits are in their order.
    let mut heap: BinaryHeap<Reverse<(u64, usize, u128)>> =
        types.iter().enumerate().map(|(node, of)| Reverse((of.probability.to_bits(), node, of.count))).collect();
    let (mut steps, mut average) = (Vec::<Step>::new(), 0.0);
    while let Some(Reverse((bits, first, of_first))) = heap.pop() {
        let probability = f64::from_bits(bits);
        let joined = types.len() + steps.len();
        if of_first > 1 {
            let pairs = of_first / 2;
            average += 2.0 * probability * pairs as f64;
            steps.push(Step { first, second: first, count: pairs });
            heap.push(Reverse(((2.0 * probability).to_bits(), joined, pairs)));
            if of_first % 2 == 1 {
                heap.push(Reverse((bits, first, 1)));
            }
            continue;
        }
        let Some(Reverse((others, second, of_second))) = heap.pop() else { break };
        let both = probability + f64::from_bits(others);
        average += both;
        steps.push(Step { first, second, count: 1 });
        heap.push(Reverse((both.to_bits(), joined, 1)));
        if of_second > 1 {
            heap.push(Reverse((others, second, of_second - 1)));
        }
    }
    (lengths(types, &steps), average)
}

/// From the root down: the nodes of each depth are shared out among what they join.
fn lengths(types: &[Type], steps: &[Step]) -> Lengths {
    let mut depths: Vec<BTreeMap<u32, u128>> = vec![BTreeMap::new(); types.len() + steps.len()];
    depths.last_mut().expect("there are symbols").insert(0, 1);
    for (step, Step { first, second, count }) in steps.iter().enumerate().rev() {
        let own = std::mem::take(&mut depths[types.len() + step]);
        assert_eq!(own.values().sum::<u128>(), *count, "each node has its place");
        for (depth, nodes) in own {
            for child in [*first, *second] {
                *depths[child].entry(depth + 1).or_insert(0) += nodes;
            }
        }
    }
    depths.truncate(types.len());
    depths.into_iter().map(|depths| depths.into_iter().collect()).collect()
}

/// The codeword length of each symbol, one at a time.
pub fn symbol_lengths(probabilities: &[f64]) -> Vec<u32> {
    let mut heap: BinaryHeap<Reverse<(u64, usize)>> =
        probabilities.iter().enumerate().map(|(node, p)| Reverse((p.to_bits(), node))).collect();
    let mut parents = vec![0; probabilities.len()];
    while let (Some(Reverse((a, first))), Some(Reverse((b, second)))) = (heap.pop(), heap.pop()) {
        let both = f64::from_bits(a) + f64::from_bits(b);
        (parents[first], parents[second]) = (parents.len(), parents.len());
        heap.push(Reverse((both.to_bits(), parents.len())));
        parents.push(0);
        if heap.len() == 1 {
            break;
        }
    }
    let mut depths = vec![0; parents.len()];
    for node in (0..parents.len() - 1).rev() {
        depths[node] = depths[parents[node]] + 1;
    }
    depths.truncate(probabilities.len());
    depths
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::{Distribution, Tree};

    /// The average of Huffman's code one symbol at a time: the twin.
    fn plain(probabilities: &[f64]) -> f64 {
        let lengths = symbol_lengths(probabilities);
        probabilities.iter().zip(lengths).map(|(p, length)| p * f64::from(length)).sum()
    }

    /// Pairs joined at once give the averages of pairs joined one by one, and lengths that are
    /// those of a complete prefix code: the sum of 2^-length is 1.
    #[test]
    fn types_are_coded_as_symbols() {
        for (tree, slots) in
            [(Tree::of_paper(5.0, 4, 1, 3), 4), (Tree::of_paper(2.0, 1, 1, 8), 5), (Tree::of_paper(10.0, 9, 9, 2), 3)]
        {
            for distribution in [Distribution::of_entries(&tree), Distribution::of_slots(&tree, slots)] {
                for types in [
                    distribution.combinations(slots),
                    distribution.permutations(slots.min(4)),
                    distribution.combinations(1),
                ] {
                    let symbols: Vec<f64> =
                        types.iter().flat_map(|of| std::iter::repeat_n(of.probability, of.count as usize)).collect();
                    let (lengths, average) = code(&types);
                    assert!((average - plain(&symbols)).abs() < 1e-9);
                    let again: f64 = types
                        .iter()
                        .zip(&lengths)
                        .flat_map(|(of, lengths)| {
                            lengths.iter().map(|(length, count)| of.probability * f64::from(*length) * *count as f64)
                        })
                        .sum();
                    assert!((average - again).abs() < 1e-9);
                    assert!(types.iter().zip(&lengths).all(|(of, l)| l.iter().map(|l| l.1).sum::<u128>() == of.count));
                    let kraft: f64 = lengths
                        .iter()
                        .flatten()
                        .map(|(length, count)| *count as f64 * 0.5_f64.powi(*length as i32))
                        .sum();
                    assert!((kraft - 1.0).abs() < 1e-9);
                    let entropy = entropy(&types);
                    assert!(entropy <= average + 1e-9 && average < entropy + 1.0, "{entropy}, {average}");
                }
            }
        }
    }

    /// The paper's tree of nine runs takes 1.52 bits for each LID (§4.2).
    #[test]
    fn the_papers_average() {
        let types = Distribution::of_entries(&Tree::of_paper(5.0, 4, 1, 3)).combinations(1);
        assert!((code(&types).1 - 189.0 / 124.0).abs() < 1e-12);
    }
}
