//! `tamarack delete`: removes one record.

use clap::{Arg, ArgMatches};

use crate::outcome::{Failure, Outcome};
use crate::show::{Output, json};
use crate::subcommand::{Subcommand, required_text, text_argument};
use crate::{database, text};

pub(super) const SUBCOMMAND: Subcommand = Subcommand {
    name: "delete",
    summary: "Delete one record",
    help: "\
The key uses the escapes of `tamarack export --help`. If it does not exist, nothing
changes and the exit status is 1.",
    examples: "\
tamarack delete prices.db oak
tamarack delete prices.db oak --durability sync",
    arguments,
    run,
};

fn arguments() -> Vec<Arg> {
    let key = text_argument("key", "Key, with escapes").value_name("KEY").required(true);
    let mut arguments = vec![database::path_argument(), key];
    arguments.extend(database::write_arguments());
    arguments
}

fn run(matches: &ArgMatches, output: &mut Output<'_>) -> Result<Outcome, Failure> {
    let key = required_text(matches, "key")?;
    let db = database::open_to_change(matches, output)?;
    let was_there = db.contains_key(&key)?;
    if was_there {
        db.delete(&key)?;
    }
    db.close()?;
    output.result(None, json::object([("deleted", was_there.into())]))?;
    if was_there {
        return Ok(Outcome::Done);
    }
    output.note(&format!("key not found: `{}`", text::escaped(&key)));
    Ok(Outcome::NotFound)
}

#[cfg(test)]
mod tests {
    use crate::testing::{TestDir, run, run_ok};

    /// A delete removes one key, once.
    #[test]
    fn deletes_once() {
        let dir = TestDir::new("deletes_once");
        let db = dir.join("db");
        run_ok(&["put", &db, "oak", "1"]);
        run_ok(&["put", &db, "elm", "2"]);
        run_ok(&["delete", &db, "oak"]);
        assert_eq!(run_ok(&["export", &db]), "elm\t2\n");
        assert_eq!(run(&["delete", &db, "oak"]).status, 1);
        assert_eq!(run(&["delete", &db, "oak", "--json"]).out, "{\"deleted\":false}\n");
    }
}
