//! `tamarack get`: prints the value of one key.

use clap::{Arg, ArgAction, ArgMatches};

use crate::outcome::{Failure, Outcome};
use crate::show::{Output, json};
use crate::subcommand::{Subcommand, required_text, text_argument};
use crate::{database, text};

pub(super) const SUBCOMMAND: Subcommand = Subcommand {
    name: "get",
    summary: "Print the value of one key",
    help: "\
Key and value use the escapes of `tamarack export --help`; a line feed follows the
value. --raw prints the bytes of the value unescaped and nothing else. If the key
does not exist, nothing is printed (with --json, a value of null) and the exit
status is 1.",
    examples: "\
tamarack get names.db U+1F332
tamarack get prices.db picture --raw > oak.png
tamarack get names.db U+0041 --json",
    arguments,
    run,
};

fn arguments() -> Vec<Arg> {
    vec![
        database::path_argument(),
        text_argument("key", "Key, with escapes").value_name("KEY").required(true),
        Arg::new("raw")
            .long("raw")
            .help("Print the bytes of the value unescaped, without a line feed")
            .action(ArgAction::SetTrue)
            .conflicts_with("json"),
    ]
}

fn run(matches: &ArgMatches, output: &mut Output<'_>) -> Result<Outcome, Failure> {
    let key = required_text(matches, "key")?;
    let db = database::open_to_read(matches, output)?;
    let found = db.get(&key)?;
    let Some(value) = &found else {
        let absent = [json::bytes_member("key", &key), ("value".to_owned(), serde_json::Value::Null)];
        output.result(None, absent.into_iter().collect())?;
        output.note(&format!("key not found: `{}`", text::escaped(&key)));
        return Ok(Outcome::NotFound);
    };
    if matches.get_flag("raw") {
        output.bytes(value)?;
    } else {
        output.result(Some(&text::escaped(value)), json::record(&key, value))?;
    }
    drop(found);
    db.close()?;
    Ok(Outcome::Done)
}

#[cfg(test)]
mod tests {
    use crate::testing::{TestDir, run, run_ok};

    /// The value comes as text, raw, or JSON; an absent key is status 1.
    #[test]
    fn gets_in_three_forms() {
        let dir = TestDir::new("gets_in_three_forms");
        let db = dir.join("db");
        run_ok(&["put", &db, "oak", r"a\nb"]);
        run_ok(&["put", &db, "empty", ""]);
        assert_eq!(run_ok(&["get", &db, "oak"]), "a\\nb\n");
        assert_eq!(run_ok(&["get", &db, "oak", "--raw"]), "a\nb");
        assert_eq!(run_ok(&["get", &db, "oak", "--json"]), "{\"key\":\"oak\",\"value\":\"a\\nb\"}\n");
        assert_eq!(run_ok(&["get", &db, "empty"]), "\n");

        let ran = run(&["get", &db, "elm"]);
        assert_eq!((ran.status, ran.out.as_str()), (1, ""));
        assert!(ran.err.contains("key not found: `elm`"), "{}", ran.err);
        assert_eq!(run(&["get", &db, "elm", "--json"]).out, "{\"key\":\"elm\",\"value\":null}\n");
    }
}
