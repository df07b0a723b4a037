//! `tamarack scan`: prints the records whose keys lie in a range.

use std::ops::Bound;

use clap::{Arg, ArgAction, ArgMatches, value_parser};

use super::export;
use crate::outcome::{Failure, Outcome};
use crate::show::Output;
use crate::subcommand::{Subcommand, text_argument, text_value};
use crate::{database, records};

pub(super) const SUBCOMMAND: Subcommand = Subcommand {
    name: "scan",
    summary: "Print the records in a range of keys",
    help: "\
Prints the records with FROM <= key < TO in byte order of their keys, or in
descending order with --reverse. --prefix restricts the range further to keys with
that prefix. --limit stops after COUNT records: with --reverse, after those with the
greatest keys. Bounds and prefix use the escapes of `tamarack export --help`, which
also lists the formats.",
    examples: "\
tamarack scan names.db --prefix U+1F33
tamarack scan names.db --from U+0041 --to U+005B
tamarack scan names.db --reverse --limit 3 --json",
    arguments,
    run,
};

fn arguments() -> Vec<Arg> {
    let mut arguments = vec![database::path_argument()];
    arguments.extend(range_arguments());
    arguments.extend([
        Arg::new("limit")
            .long("limit")
            .value_name("COUNT")
            .help("Print at most this many records")
            .value_parser(value_parser!(u64)),
        Arg::new("reverse").long("reverse").help("Scan in descending order of keys").action(ArgAction::SetTrue),
        records::format_argument(),
        database::direct_argument(),
    ]);
    arguments
}

/// The options that select a range of keys.
pub(super) fn range_arguments() -> [Arg; 3] {
    let bound = |name: &'static str, value, help| text_argument(name, help).long(name).value_name(value);
    [
        bound("from", "KEY", "Lower bound of the keys (inclusive)"),
        bound("to", "KEY", "Upper bound of the keys (exclusive)"),
        bound("prefix", "PREFIX", "Only keys with this prefix"),
    ]
}

/// The range of keys that [`range_arguments`] select; `None` if it is empty.
pub(super) fn given_range(matches: &ArgMatches) -> Result<Option<KeyRange>, Failure> {
    let prefix = text_value(matches, "prefix")?.unwrap_or_default();
    Ok(range(text_value(matches, "from")?, text_value(matches, "to")?, &prefix))
}

fn run(matches: &ArgMatches, output: &mut Output<'_>) -> Result<Outcome, Failure> {
    let range = given_range(matches)?;
    let limit =
        matches.get_one::<u64>("limit").map_or(usize::MAX, |limit| usize::try_from(*limit).unwrap_or(usize::MAX));
    let db = database::open_to_read(matches, output)?;
    let format = export::format(matches, output);
    if let Some(range) = range {
        let entries = db.scan(range);
        if matches.get_flag("reverse") {
            export::print(entries.rev().take(limit), format, output)?;
        } else {
            export::print(entries.take(limit), format, output)?;
        }
    }
    db.close()?;
    Ok(Outcome::Done)
}

/// A range of keys: lower bound inclusive, upper bound exclusive.
pub(super) type KeyRange = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// The keys in `from..to` with the prefix `prefix`; `None` if that range is empty.
fn range(from: Option<Vec<u8>>, to: Option<Vec<u8>>, prefix: &[u8]) -> Option<KeyRange> {
    let start = from.unwrap_or_default().max(prefix.to_vec());
    let end = match (to, after_prefix(prefix)) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    };
    if end.as_ref().is_some_and(|end| *end <= start) {
        return None;
    }
    Some((Bound::Included(start), end.map_or(Bound::Unbounded, Bound::Excluded)))
}

/// The least key that is greater than all keys that begin with `prefix`; `None` if there is no such
/// key.
fn after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte < 0xff)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Random, TestDir, run, run_ok};

    /// On random bounds over a small alphabet, the range holds a key exactly if the key passes the
    /// three conditions one by one.
    #[test]
    fn ranges_mean_what_they_say() {
        let mut random = Random::new(tamarack_testing::seed(0x7a3a_2ac5));
        let mut word = |optional: bool| {
            let length = random.below(3);
            let bytes: Vec<u8> = (0..length).map(|_| [0, b'a', b'b', 0xfe, 0xff][random.below(5) as usize]).collect();
            (!optional || random.below(3) > 0).then_some(bytes)
        };
        for _ in 0..20_000 {
            let (from, to, prefix) = (word(true), word(true), word(true).unwrap_or_default());
            let key = word(false).unwrap_or_default();
            let expected = from.as_ref().is_none_or(|from| *from <= key)
                && to.as_ref().is_none_or(|to| key < *to)
                && key.starts_with(&prefix);
            let within = range(from.clone(), to.clone(), &prefix).is_some_and(|range| {
                use std::ops::RangeBounds;
                range.contains(&key)
            });
            assert_eq!(within, expected, "{key:?} in {from:?}..{to:?} with prefix {prefix:?}");
        }
    }

    /// Bounds, prefix, limit and direction on a handful of keys.
    #[test]
    fn scans_a_part() {
        let dir = TestDir::new("scans_a_part");
        let db = dir.join("db");
        run_ok(&["import", &db, &dir.file("in.tsv", "a\t1\nab\t2\nb\t3\nba\t4\nc\t5\n")]);
        let keys = |words: &[&str]| {
            let lines = run_ok(&[&["scan", &db], words].concat());
            lines
                .lines()
                .map(|line| line.split('\t').next().unwrap_or_default().to_owned())
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(keys(&[]), "a ab b ba c");
        assert_eq!(keys(&["--reverse"]), "c ba b ab a");
        assert_eq!(keys(&["--from", "ab", "--to", "ba"]), "ab b");
        assert_eq!(keys(&["--from", "ab", "--to", "ba", "--reverse"]), "b ab");
        assert_eq!(keys(&["--prefix", "b"]), "b ba");
        assert_eq!(keys(&["--prefix", "b", "--from", "ba"]), "ba");
        assert_eq!(keys(&["--limit", "2", "--reverse"]), "c ba");
        assert_eq!(keys(&["--limit", "0"]), "");
        assert_eq!(keys(&["--from", "z", "--to", "a"]), "");
        assert_eq!(run(&["scan", &db, "--prefix", "c", "--json"]).out, "{\"key\":\"c\",\"value\":\"5\"}\n");
    }
}
