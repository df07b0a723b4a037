//! [`check_laws`]: what a [`MergeOperator`] promises, checked for given operands.

use super::{MergeFailure, MergeOperator, Merged};

/// Checks the laws of [`MergeOperator`] for one key, its value (`None` if it has none), and
/// operands, old to new: all ways to merge the operands in two steps, and all partial merges of
/// neighbours, must agree with the full merge, and each operand must pass
/// [`MergeOperator::check_operand`]. For tests of operators: call it with many random operands.
///
/// ```
/// use tamarack::operators::{Add, check_laws};
///
/// let operands = [3u64, 5, 7].map(u64::to_le_bytes);
/// let operands = operands.each_ref().map(|operand| &operand[..]);
/// assert_eq!(check_laws(&Add, b"oak", None, &operands), Ok(()));
/// ```
///
/// # Errors
/// What disagrees, in words.
pub fn check_laws(
    operator: &dyn MergeOperator,
    key: &[u8],
    existing: Option<&[u8]>,
    operands: &[&[u8]],
) -> Result<(), String> {
    let merge = |existing: Option<&[u8]>, operands: &[&[u8]]| match operands {
        [] => Ok(existing.map(<[u8]>::to_vec)),
        _ => full(operator, key, existing, operands),
    };
    let refused = |failure: MergeFailure| format!("an operand is refused: {failure}");
    operands.iter().try_for_each(|operand| operator.check_operand(operand)).map_err(refused)?;
    let all = merge(existing, operands)?;
    let agrees = |how: String, found: Option<Vec<u8>>| match found == all {
        true => Ok(()),
        false => Err(format!("{how}: {}, instead of {}", shown(found.as_deref()), shown(all.as_deref()))),
    };
    for at in 0..operands.len() {
        let (older, newer) = operands.split_at(at);
        let first = merge(existing, older)?;
        agrees(format!("{at} operands, then {}", newer.len()), merge(first.as_deref(), newer)?)?;
    }
    for at in 1..operands.len() {
        let mut joined = Vec::new();
        let (older, newer) = (operands[at - 1], operands[at]);
        let is_joined = operator.merge_partial(key, older, newer, &mut joined);
        if is_joined.map_err(|failure| format!("operands {} and {at} cannot be joined: {failure}", at - 1))? {
            let fewer = [&operands[..at - 1], &[&joined[..]], &operands[at + 1..]].concat();
            agrees(format!("operands {} and {at} joined", at - 1), merge(existing, &fewer)?)?;
        }
    }
    Ok(())
}

/// Full merge.
fn full(
    operator: &dyn MergeOperator,
    key: &[u8],
    existing: Option<&[u8]>,
    operands: &[&[u8]],
) -> Result<Option<Vec<u8>>, String> {
    let mut value = Vec::new();
    let merged = operator.merge(key, existing, operands, &mut value);
    let merged = merged.map_err(|failure| format!("{} operands cannot be merged: {failure}", operands.len()))?;
    Ok((merged == Merged::Value).then_some(value))
}

/// A value for a message.
fn shown(value: Option<&[u8]>) -> String {
    value.map_or_else(|| "no value".to_owned(), |value| format!("\"{}\"", value.escape_ascii()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of operands, which is no value of steps; or joins that lose the older operand.
    struct Broken {
        joins: bool,
    }

    impl MergeOperator for Broken {
        fn name(&self) -> &str {
            "test.broken"
        }

        fn merge(
            &self,
            _: &[u8],
            _: Option<&[u8]>,
            operands: &[&[u8]],
            value: &mut Vec<u8>,
        ) -> Result<Merged, MergeFailure> {
            if operands.contains(&&b"?"[..]) {
                return Err("a question".into());
            }
            let last = operands.last().copied().unwrap_or_default();
            match self.joins {
                true => value.extend_from_slice(last),
                false => value.extend_from_slice(operands.len().to_string().as_bytes()),
            }
            Ok(Merged::Value)
        }

        fn merge_partial(&self, _: &[u8], older: &[u8], _: &[u8], out: &mut Vec<u8>) -> Result<bool, MergeFailure> {
            out.extend_from_slice(older);
            Ok(self.joins)
        }

        fn check_operand(&self, operand: &[u8]) -> Result<(), MergeFailure> {
            if operand == b"!" { Err("an exclamation".into()) } else { Ok(()) }
        }
    }

    #[test]
    fn what_breaks_a_law_is_told() {
        let told = |joins: bool, operands: &[&[u8]]| check_laws(&Broken { joins }, b"k", Some(b"v"), operands);
        assert_eq!(told(true, &[b"a"]), Ok(()));
        assert_eq!(told(false, &[b"a", b"b"]), Err("1 operands, then 1: \"1\", instead of \"2\"".to_owned()));
        assert_eq!(told(true, &[b"a", b"b"]), Err("operands 0 and 1 joined: \"a\", instead of \"b\"".to_owned()));
        assert_eq!(told(true, &[b"!"]), Err("an operand is refused: an exclamation".to_owned()));
        assert_eq!(told(true, &[b"?"]), Err("1 operands cannot be merged: a question".to_owned()));
    }
}
