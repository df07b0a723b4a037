//! How many commits of a [`Stream`] a content has: it must be those of some prefix.

use std::collections::BTreeSet;

use crate::stream::{Content, Stream};

/// The least and the most commits that explain a content; they differ where a commit changed
/// nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Prefix {
    pub(crate) least: u64,
    pub(crate) most: u64,
}

/// Finds the prefix of `stream` with between `from` and `to` commits whose content is `found`.
/// `base` is the content after `from` commits; it becomes that of the prefix.
///
/// # Errors
/// What differs from the content after `from` and after `to` commits, if no prefix fits.
pub(crate) fn matching(
    stream: &Stream,
    base: &mut Content,
    from: u64,
    to: u64,
    found: &Content,
) -> Result<Prefix, String> {
    let at_first = base.clone();
    let mut differing: BTreeSet<Vec<u8>> = base.keys().chain(found.keys()).cloned().collect();
    differing.retain(|key| base.get(key) != found.get(key));
    let mut prefix: Option<Prefix> = None;
    for number in from..=to {
        if number > from {
            for (key, value) in stream.commit(number).entries {
                if value.as_ref() == found.get(&key) {
                    differing.remove(&key);
                } else {
                    differing.insert(key.clone());
                }
                match value {
                    Some(value) => base.insert(key, value),
                    None => base.remove(&key),
                };
            }
        }
        if differing.is_empty() {
            prefix = Some(Prefix { least: prefix.map_or(number, |prefix| prefix.least), most: number });
        }
    }
    let prefix = prefix.ok_or_else(|| {
        format!(
            "the content of writer {} is that of no prefix with {from} to {to} commits: {}; {}",
            stream.writer,
            difference(&format!("after {from}"), &at_first, found),
            difference(&format!("after {to}"), base, found)
        )
    })?;
    base.clone_from(found);
    Ok(prefix)
}

/// The first keys at which a content differs from an expected one.
pub(crate) fn difference(name: &str, expected: &Content, found: &Content) -> String {
    let keys: BTreeSet<_> = expected.keys().chain(found.keys()).collect();
    let differing: Vec<_> = keys.into_iter().filter(|key| expected.get(*key) != found.get(*key)).collect();
    let shown = differing.iter().take(4).map(|key| {
        format!("{} has {} instead of {}", key.escape_ascii(), short(found.get(*key)), short(expected.get(*key)))
    });
    format!("{name}: {} keys differ: {}", differing.len(), shown.collect::<Vec<_>>().join(", "))
}

/// The beginning of a value, which names its commit.
pub(crate) fn short(value: Option<&Vec<u8>>) -> String {
    value.map_or("nothing".to_owned(), |value| {
        let end = value.iter().position(|byte| *byte == b' ').unwrap_or(value.len().min(20));
        format!("'{}' of {} bytes", value[..end].escape_ascii(), value.len())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::apply;

    fn stream() -> Stream {
        Stream { seed: 3, writer: 0, keys: 20, synced_one_in: 0 }
    }

    #[test]
    fn a_prefix_is_found() {
        let stream = stream();
        for number in 0..60 {
            let mut found = Content::new();
            stream.apply(&mut found, 0, number);
            let mut base = Content::new();
            let prefix = matching(&stream, &mut base, 0, 60, &found).expect("it is one");
            assert!(prefix.least <= number && number <= prefix.most && prefix.most - prefix.least < 60);
            assert_eq!(base, found);
        }
    }

    /// A lost write, half a batch, a commit too many, a value of nobody.
    #[test]
    fn what_is_no_prefix_is_noticed() {
        let stream = stream();
        let content = |numbers: &mut dyn Iterator<Item = u64>| {
            let mut content = Content::new();
            numbers.for_each(|number| apply(&mut content, stream.commit(number)));
            content
        };
        let is_noticed = |found: &Content, from: u64, to: u64| {
            let mut base = content(&mut (1..=from));
            matching(&stream, &mut base, from, to, found).is_err()
        };
        let whole = content(&mut (1..=40));
        assert!(!is_noticed(&whole, 30, 50));
        let live = (1..=35).rev().find(|number| {
            let commit = stream.commit(*number);
            commit.entries.len() > 1
                && commit.entries.iter().any(|(key, value)| value.is_some() && whole.get(key) == value.as_ref())
        });
        let live = live.expect("a batch of which something is left");
        assert!(is_noticed(&content(&mut (1..=40).filter(|number| *number != live)), 0, 60), "a lost batch");
        let mut torn = whole.clone();
        torn.pop_first();
        assert!(is_noticed(&torn, 0, 60), "half a batch");
        assert!(is_noticed(&whole, 45, 60), "an acknowledged write is lost");
        assert!(is_noticed(&content(&mut (1..=60)), 0, 50), "more than was written");
        let mut invented = whole;
        invented.insert(stream.key(3), b"invented".to_vec());
        assert!(is_noticed(&invented, 0, 60), "an invented value");
    }
}
