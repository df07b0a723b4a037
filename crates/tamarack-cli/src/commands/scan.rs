//! `tamarack scan`: prints the records whose keys lie in a range.

use clap::{Arg, ArgAction, ArgMatches, value_parser};
use tamarack_format::key_range::KeyRange;

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
    let [from, to, prefix] = ["from", "to", "prefix"].map(|name| text_value(matches, name));
    Ok(range(from?.as_deref(), to?.as_deref(), &prefix?.unwrap_or_default()))
}

fn run(matches: &ArgMatches, output: &mut Output<'_>) -> Result<Outcome, Failure> {
    let range = given_range(matches)?;
    let db = database::open_to_read(matches, output)?;
    let format = export::format(matches, output);
    if let Some(range) = range {
        let entries = db.scan(range.bounds());
        let entries = match matches.get_one::<u64>("limit") {
            Some(&limit) => entries.limit(usize::try_from(limit).unwrap_or(usize::MAX)),
            None => entries,
        };
        if matches.get_flag("reverse") {
            export::print(entries.rev(), format, output)?;
        } else {
            export::print(entries, format, output)?;
        }
    }
    db.close()?;
    Ok(Outcome::Done)
}

/// The keys in `from..to` with the prefix `prefix`; `None` if that range is empty.
fn range(from: Option<&[u8]>, to: Option<&[u8]>, prefix: &[u8]) -> Option<KeyRange> {
    let range = KeyRange::new(from, to).and(&KeyRange::with_prefix(prefix));
    (!range.is_empty()).then_some(range)
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
            let range = range(from.as_deref(), to.as_deref(), &prefix);
            let within = range.is_some_and(|range| range.contains(&key));
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
