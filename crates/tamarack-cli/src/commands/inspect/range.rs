//! [`Wanted`]: how much of a file's content is to be shown.

use clap::{Arg, ArgAction, ArgMatches, value_parser};
use tamarack_format::key_range::KeyRange;

use super::super::scan::{given_range, range_arguments};
use crate::outcome::Failure;

/// What is to be shown besides the outline. Whatever is shown, all is read and checked.
pub(super) struct Wanted {
    /// True if entries are, or changes one by one.
    pub(super) entries: bool,
    /// How many rows of each list.
    pub(super) rows_max: usize,
    /// Of entries, those with these keys; none if there can be none.
    keys: Option<KeyRange>,
}

impl Wanted {
    /// What the arguments ask for.
    pub(super) fn given(matches: &ArgMatches) -> Result<Self, Failure> {
        let limit = matches.get_one::<u64>("limit").map(|limit| usize::try_from(*limit).unwrap_or(usize::MAX));
        let (entries, rows_max) = (matches.get_flag("entries"), limit.unwrap_or(usize::MAX));
        Ok(Self { entries, rows_max, keys: given_range(matches)? })
    }

    /// True if entries with that key are to be shown.
    pub(super) fn key(&self, key: &[u8]) -> bool {
        self.keys.as_ref().is_some_and(|keys| keys.contains(key))
    }
}

/// The options that say what is wanted.
pub(super) fn arguments() -> Vec<Arg> {
    let mut arguments = vec![
        Arg::new("entries")
            .long("entries")
            .help("Print the entries of an SSTable or a WAL segment, and each\nchange of a manifest on a line")
            .action(ArgAction::SetTrue),
        Arg::new("limit")
            .long("limit")
            .value_name("COUNT")
            .help("Print at most COUNT blocks, records, entries and edits each")
            .value_parser(value_parser!(u64)),
    ];
    arguments.extend(range_arguments().map(|argument| argument.requires("entries")));
    arguments
}
