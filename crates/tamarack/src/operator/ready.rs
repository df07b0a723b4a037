//! The ready-made merge operators. Their names and encodings are part of the format of the
//! databases that use them.
//!
//! A database that has recorded one of their names finds it by that name, without
//! [`crate::Options::merge_operator`]; so does the program `tamarack`.
//!
//! Tests: `tests/suite/operands.rs`; partial merges agree with full ones, here.

use std::sync::Arc;

use super::{MergeFailure, MergeOperator, Merged};

/// The ready-made operator of that name.
pub fn by_name(name: &str) -> Option<Arc<dyn MergeOperator>> {
    let all: [Arc<dyn MergeOperator>; 5] =
        [Arc::new(Add), Arc::new(Min), Arc::new(Max), Arc::new(Append), Arc::new(SetUnion)];
    all.into_iter().find(|operator| operator.name() == name)
}

/// Adds 64-bit integers: `tamarack.add64`.
///
/// Values and operands are eight bytes, little-endian. A missing value is 0. The sum wraps around
/// at 2⁶⁴, so that signed integers in two's complement are added as well: `(-3i64).to_le_bytes()`
/// subtracts 3.
///
/// ```
/// # let advanced = tamarack::AdvancedOptions::new().env(tamarack::MemoryEnv::new(1));
/// # let options = tamarack::Options::new().advanced(advanced);
/// use std::sync::Arc;
/// use tamarack::operators::Add;
///
/// let db = options.merge_operator(Arc::new(Add)).open("/visits")?;
/// db.merge("oak", 40u64.to_le_bytes())?;
/// db.merge("oak", 2u64.to_le_bytes())?;
/// assert_eq!(db.get("oak")?.as_deref(), Some(&42u64.to_le_bytes()[..]));
/// # Ok::<(), tamarack::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Add;

/// Keeps the smallest of unsigned 64-bit integers: `tamarack.min64`.
///
/// Values and operands are eight bytes, little-endian. A missing value does not count.
#[derive(Clone, Copy, Debug, Default)]
pub struct Min;

/// Keeps the largest of unsigned 64-bit integers: `tamarack.max64`.
///
/// Values and operands are eight bytes, little-endian. A missing value does not count.
#[derive(Clone, Copy, Debug, Default)]
pub struct Max;

/// Appends bytes to a value: `tamarack.append`.
///
/// A missing value is empty. There are no separators: operands that need one bring it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Append;

/// Joins sets of byte strings: `tamarack.union`.
///
/// Values and operands are sets as [`SetUnion::encode`] writes them: each element is its length in
/// bytes (`u32`, little-endian) and its bytes; the elements ascend, and none comes twice. A missing
/// value is the empty set.
///
/// ```
/// # let advanced = tamarack::AdvancedOptions::new().env(tamarack::MemoryEnv::new(1));
/// # let options = tamarack::Options::new().advanced(advanced);
/// use std::sync::Arc;
/// use tamarack::operators::SetUnion;
///
/// let db = options.merge_operator(Arc::new(SetUnion)).open("/tags")?;
/// db.merge("oak", SetUnion::encode(["tree", "hard"]))?;
/// db.merge("oak", SetUnion::encode(["tree", "tall"]))?;
/// let tags = db.get("oak")?.expect("it has tags");
/// assert_eq!(SetUnion::decode(&tags), Some(vec![&b"hard"[..], b"tall", b"tree"]));
/// # Ok::<(), tamarack::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct SetUnion;

impl SetUnion {
    /// Encodes a set of these elements, in any order, also with repetitions.
    ///
    /// # Panics
    /// If an element has 2³² bytes or more.
    pub fn encode<E: AsRef<[u8]>>(elements: impl IntoIterator<Item = E>) -> Vec<u8> {
        let elements: Vec<E> = elements.into_iter().collect();
        let mut ordered: Vec<&[u8]> = elements.iter().map(AsRef::as_ref).collect();
        ordered.sort_unstable();
        ordered.dedup();
        let mut set = Vec::new();
        ordered.into_iter().for_each(|element| put_element(&mut set, element));
        set
    }

    /// Returns the elements of a set, ascending; `None` if the bytes are not a set.
    pub fn decode(set: &[u8]) -> Option<Vec<&[u8]>> {
        let (mut rest, mut elements) = (set, Vec::new());
        while !rest.is_empty() {
            let (length, after) = rest.split_first_chunk()?;
            let (element, after) = after.split_at_checked(u32::from_le_bytes(*length) as usize)?;
            if elements.last().is_some_and(|last| *last >= element) {
                return None;
            }
            elements.push(element);
            rest = after;
        }
        Some(elements)
    }
}

fn put_element(set: &mut Vec<u8>, element: &[u8]) {
    let length = u32::try_from(element.len()).expect("an element has fewer than 2^32 bytes");
    set.extend_from_slice(&length.to_le_bytes());
    set.extend_from_slice(element);
}

/// Joins sets into `out`.
fn join<'a>(sets: impl Iterator<Item = &'a [u8]>, out: &mut Vec<u8>) -> Result<(), MergeFailure> {
    let mut elements = Vec::new();
    for set in sets {
        elements.extend(self::elements(set)?);
    }
    elements.sort_unstable();
    elements.dedup();
    elements.into_iter().for_each(|element| put_element(out, element));
    Ok(())
}

/// The elements of a value or operand.
fn elements(set: &[u8]) -> Result<Vec<&[u8]>, MergeFailure> {
    Ok(SetUnion::decode(set).ok_or("a value or operand is not a set as `SetUnion` encodes it")?)
}

/// A value or operand as a number.
fn number(bytes: &[u8]) -> Result<u64, MergeFailure> {
    let number = <[u8; 8]>::try_from(bytes).map(u64::from_le_bytes);
    number.map_err(|_| format!("a value or operand has {} bytes instead of 8", bytes.len()).into())
}

/// Folds numbers into `out`; there is at least one.
fn fold_numbers<'a>(
    numbers: impl Iterator<Item = &'a [u8]>,
    fold: fn(u64, u64) -> u64,
    out: &mut Vec<u8>,
) -> Result<(), MergeFailure> {
    let mut folded = None;
    for bytes in numbers {
        let number = number(bytes)?;
        folded = Some(folded.map_or(number, |folded| fold(folded, number)));
    }
    out.extend_from_slice(&folded.unwrap_or(0).to_le_bytes());
    Ok(())
}

/// An operator whose operands are values, so that a partial merge is a full one.
macro_rules! operators_on_values {
    ($($operator:ident $name:literal $check:expr, $join:expr;)*) => { $(
        impl MergeOperator for $operator {
            fn name(&self) -> &str {
                $name
            }

            fn merge(
                &self,
                _: &[u8],
                existing: Option<&[u8]>,
                operands: &[&[u8]],
                value: &mut Vec<u8>,
            ) -> Result<Merged, MergeFailure> {
                $join(existing.into_iter().chain(operands.iter().copied()), value).map(|()| Merged::Value)
            }

            fn merge_partial(
                &self,
                _: &[u8],
                older: &[u8],
                newer: &[u8],
                operand: &mut Vec<u8>,
            ) -> Result<bool, MergeFailure> {
                $join([older, newer].into_iter(), operand).map(|()| true)
            }

            fn check_operand(&self, operand: &[u8]) -> Result<(), MergeFailure> {
                $check(operand).map(drop)
            }
        }
    )* };
}

operators_on_values! {
    Add "tamarack.add64" number, |numbers, out| fold_numbers(numbers, u64::wrapping_add, out);
    Min "tamarack.min64" number, |numbers, out| fold_numbers(numbers, u64::min, out);
    Max "tamarack.max64" number, |numbers, out| fold_numbers(numbers, u64::max, out);
    Append "tamarack.append" |_| Ok::<(), MergeFailure>(()), |parts, out| {
        append(parts, out);
        Ok::<(), MergeFailure>(())
    };
    SetUnion "tamarack.union" elements, join;
}

fn append<'a>(parts: impl Iterator<Item = &'a [u8]>, out: &mut Vec<u8>) {
    parts.for_each(|part| out.extend_from_slice(part));
}

#[cfg(test)]
mod tests {
    use tamarack_testing::Random;

    use super::*;
    use crate::operator::check_laws;

    fn operand(name: &str, random: &mut Random) -> Vec<u8> {
        match name {
            "tamarack.append" => {
                let length = random.below(4);
                random.bytes(length)
            }
            "tamarack.union" => SetUnion::encode((0..random.below(4)).map(|_| vec![b'a' + random.below(6) as u8; 2])),
            _ => (random.next() >> random.below(64)).to_le_bytes().to_vec(),
        }
    }

    /// In however many steps operands are merged, and whatever neighbours are joined, the value is
    /// the same.
    #[test]
    fn ready_made_operators_keep_the_laws() {
        for name in ["tamarack.add64", "tamarack.min64", "tamarack.max64", "tamarack.append", "tamarack.union"] {
            let operator = by_name(name).expect("it is ready-made");
            for seed in 0..200 {
                let mut random = Random::new(seed);
                let existing = (!random.one_in(3)).then(|| operand(name, &mut random));
                let operands: Vec<Vec<u8>> = (0..1 + random.below(8)).map(|_| operand(name, &mut random)).collect();
                let operands: Vec<&[u8]> = operands.iter().map(Vec::as_slice).collect();
                assert_eq!(
                    check_laws(&*operator, b"key", existing.as_deref(), &operands),
                    Ok(()),
                    "{name}, seed {seed}"
                );
                let joins = |pair: &[&[u8]]| operator.merge_partial(b"key", pair[0], pair[1], &mut Vec::new());
                assert!(operands.windows(2).all(|pair| matches!(joins(pair), Ok(true))), "{name}, seed {seed}");
            }
        }
        assert!(by_name("tamarack.other").is_none());
    }

    #[test]
    fn what_is_no_number_and_no_set_is_refused() {
        let mut out = Vec::new();
        for operator in [&Add as &dyn MergeOperator, &Min, &Max] {
            let refused = operator.merge(b"key", Some(&[1; 8]), &[&[1; 7]], &mut out).expect_err("seven bytes");
            assert!(refused.to_string().contains("7 bytes instead of 8"), "{refused}");
            assert!(operator.check_operand(&[1; 7]).is_err() && operator.check_operand(&[1; 8]).is_ok());
        }
        let set = SetUnion::encode(["oak", "elm", "oak"]);
        assert_eq!(SetUnion::decode(&set), Some(vec![&b"elm"[..], b"oak"]));
        for cut in 1..set.len() {
            assert_eq!(SetUnion::decode(&set[..cut]).is_some(), cut == 7, "cut at {cut}");
        }
        let twice = [&set[..7], &set[..7]].concat();
        assert_eq!(SetUnion::decode(&twice), None, "an element that comes twice");
        assert!(SetUnion.merge(b"key", None, &[&twice], &mut out).is_err());
        assert!(SetUnion.check_operand(&twice).is_err() && SetUnion.check_operand(&set).is_ok());
    }

    /// Arbitrary bytes are a set or none, and a set has one encoding.
    #[test]
    fn arbitrary_bytes_are_decoded() {
        let mut sets = 0;
        for seed in 0..20_000 {
            let mut random = Random::new(seed);
            let mut bytes = Vec::new();
            for _ in 0..random.below(3) {
                let length = random.below(3);
                bytes.extend_from_slice(&(length as u32).to_le_bytes());
                let more = u64::from(random.one_in(8));
                bytes.extend(random.bytes(length + more));
            }
            if let Some(elements) = SetUnion::decode(&bytes) {
                assert_eq!(SetUnion::encode(&elements), bytes, "seed {seed}");
                sets += u32::from(elements.len() > 1);
            }
        }
        assert!(sets > 1000, "only {sets} sets of two elements");
    }
}
