//! `tamarack put`: stores one record.

use std::ffi::OsStr;
use std::ffi::OsString;

use clap::{Arg, ArgMatches};

use crate::database;
use crate::files;
use crate::outcome::{Failure, Outcome};
use crate::show::{Output, json};
use crate::subcommand::{Subcommand, required_text, text_argument};

pub(super) const SUBCOMMAND: Subcommand = Subcommand {
    name: "put",
    summary: "Store one record",
    help: "\
Creates the database if it does not exist, and replaces the value if the key
exists. Key and value use the escapes of `tamarack export --help`: a backslash is
written \\\\, any byte \\xNN. A value of - is read from standard input, unescaped. If
key or value begin with a dash, write -- before the database.",
    examples: "\
tamarack put prices.db oak 9.80
tamarack put prices.db picture - < oak.png
tamarack put prices.db oak 9.80 --durability sync",
    arguments,
    run,
};

fn arguments() -> Vec<Arg> {
    let mut arguments = vec![
        database::path_argument(),
        text_argument("key", "Key, with escapes").value_name("KEY").required(true),
        text_argument("value", "Value, with escapes; - reads it from standard input")
            .value_name("VALUE")
            .required(true),
    ];
    arguments.extend(database::write_arguments());
    arguments
}

fn run(matches: &ArgMatches, output: &mut Output<'_>) -> Result<Outcome, Failure> {
    let key = required_text(matches, "key")?;
    let value = value(matches)?;
    let db = database::open_or_create(matches, output)?;
    db.put(&key, &value)?;
    db.close()?;
    let members = json::object([("key_bytes", key.len().into()), ("value_bytes", value.len().into())]);
    output.result(None, members)?;
    Ok(Outcome::Done)
}

fn value(matches: &ArgMatches) -> Result<Vec<u8>, Failure> {
    if matches.get_one::<OsString>("value").map(OsString::as_os_str) != Some(OsStr::new("-")) {
        return required_text(matches, "value");
    }
    files::read_standard_input(database::write_bytes_max(matches))
}

#[cfg(test)]
mod tests {
    use crate::testing::{TestDir, run, run_ok};

    /// A put creates the database, replaces, and takes escapes; an invalid escape is status 2.
    #[test]
    fn puts_replace() {
        let dir = TestDir::new("puts_replace");
        let db = dir.join("db");
        run_ok(&["put", &db, "oak", "1"]);
        run_ok(&["put", &db, "oak", r"9\t80", "--durability", "sync"]);
        run_ok(&["put", "--", &db, "-k", "-v"]);
        assert_eq!(run_ok(&["export", &db]), "-k\t-v\noak\t9\\t80\n");
        let ran = run(&["put", &db, "oak", r"C:\dir"]);
        assert_eq!(ran.status, 2);
        assert!(ran.err.contains("not an escape"), "{}", ran.err);
        assert_eq!(run_ok(&["get", &db, "oak"]), "9\\t80\n");
    }
}
