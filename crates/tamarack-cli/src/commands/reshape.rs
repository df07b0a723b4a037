//! `tamarack reshape`: says what another policy would cost a tree, gives it the tree, and has it take its new form at once.

use clap::{Arg, ArgAction, ArgMatches};
use serde_json::Value;
use tamarack::{ChangeEstimate, Db, Error, RunStats};

use super::compact::Watch;
use crate::outcome::{Failure, Outcome};
use crate::show::table::{plural, table};
use crate::show::{Output, json};
use crate::size::show_bytes;
use crate::subcommand::Subcommand;
use crate::{database, size};

pub(super) const SUBCOMMAND: Subcommand = Subcommand {
    name: "reshape",
    summary: "Say what another policy would cost; give it to the tree, at once if wanted",
    help: "\
Gives the tree the shape of another policy (compact --help lists them), which
stays. That alone moves nothing: the tree is carried over as data arrives, level
by level, and a level that nothing arrives at keeps its runs. With --at-once it
is carried over now: full levels go down, and where there are more runs than the
new shape allows some are merged, until none has too many. That writes no byte
twice, and less than `tamarack compact`, which leaves one run. If it is interrupted
nothing is lost; what had begun is gone on with when the database is opened again.

Before that it says what the change will cost, by a simulation from the runs that
there are: the bytes before compression that flushes and merges will write while
--writes arrive, if the policy is kept, if the tree is carried over as data
arrives, and if it is at once. With --dry-run that is all. What overwrites older
records costs less. Without --policy it is the one that the tree has, whose form
--at-once brings about after an earlier change.",
    examples: "\
tamarack reshape names.db --policy moose:last=0.8,k=1 --dry-run
tamarack reshape names.db --policy tiering:T=4 --dry-run --writes 10GiB --json
tamarack reshape names.db --policy leveling:T=10 --at-once",
    arguments,
    run,
};

fn arguments() -> Vec<Arg> {
    let mut arguments = vec![database::path_argument()];
    let switch = |name: &'static str, help| Arg::new(name).long(name).help(help).action(ArgAction::SetTrue);
    arguments.push(switch("dry-run", "Say what it will cost, and change nothing").conflicts_with("at-once"));
    arguments.push(switch("at-once", "Merge what the new shape wants merged, and wait for it"));
    arguments.push(
        Arg::new("writes")
            .long("writes")
            .value_name("SIZE")
            .help("How much will be written, for the estimate: keys, values and\n8 bytes for each [default: as much as the tree holds]")
            .value_parser(size::parse_bytes),
    );
    arguments.extend(database::merge_arguments());
    arguments
}

fn run(matches: &ArgMatches, output: &mut Output<'_>) -> Result<Outcome, Failure> {
    let [dry, at_once] = ["dry-run", "at-once"].map(|name| matches.get_flag(name));
    let words = database::policy_words(matches)?;
    let db = database::open_to_reshape(matches, dry, output)?;
    if !dry {
        db.flush()?;
    }
    if at_once {
        // Beside merges that go on, some levels would be left with a run too many.
        db.wait_for_merges()?;
    }
    let before = db.stats();
    let held = RunStats::total(before.levels.iter().flat_map(|level| &level.runs)).raw_bytes;
    let words = words.unwrap_or(before.policy.clone());
    let estimate = estimate(&db, &words, matches.get_one("writes").copied(), held)?;
    let mut lines = vec![shown(&estimate)];
    if !dry {
        if estimate.policy != estimate.policy_before {
            db.set_policy(&words)?;
        }
        if at_once {
            let watch = Watch::start(&db, estimate.reshape_bytes);
            db.reshape()?;
            drop(watch);
        }
    }
    let after = db.stats();
    let written = after.written_raw_bytes().saturating_sub(before.written_raw_bytes());
    let runs = after.levels.iter().map(|level| level.runs.len() as u64).sum();
    if at_once {
        lines.push(format!("{} written, {} now", show_bytes(written), plural(runs, "run")));
    }
    if !dry {
        db.close()?;
    }
    let members = json::object([
        ("policy_before", estimate.policy_before.clone().into()),
        ("policy", estimate.policy.clone().into()),
        ("changed", (!dry && estimate.policy != estimate.policy_before).into()),
        ("at_once", at_once.into()),
        (
            "estimate",
            Value::Object(json::object([
                ("arriving_bytes", estimate.arriving_bytes.into()),
                ("kept_bytes", estimate.kept_bytes.into()),
                ("lazily_bytes", estimate.lazily_bytes.into()),
                ("extra_lazily_bytes", estimate.extra_lazily_bytes().into()),
                ("at_once_bytes", estimate.at_once_bytes.into()),
                ("extra_at_once_bytes", estimate.extra_at_once_bytes().into()),
                ("reshape_bytes", estimate.reshape_bytes.into()),
            ])),
        ),
        ("written_bytes", written.into()),
        ("runs", runs.into()),
    ]);
    output.result(Some(&lines.join("\n")), members)?;
    Ok(Outcome::Done)
}

/// Over what will be written; or as much as there is, as far as that can be reckoned.
fn estimate(db: &Db, words: &str, writes: Option<u64>, held: u64) -> Result<ChangeEstimate, Error> {
    let Some(bytes) = writes else {
        let mut bytes = held;
        return loop {
            match db.estimate_change(words, bytes) {
                Err(Error::InvalidArgument(_)) if bytes > 0 && db.estimate_change(words, 0).is_ok() => bytes /= 2,
                estimate => break estimate,
            }
        };
    };
    db.estimate_change(words, bytes)
}

fn shown(estimate: &ChangeEstimate) -> String {
    let row = |way: &str, bytes: u64, extra: i64| {
        let sign = if extra < 0 { "less" } else { "more" };
        let than = if extra == 0 { String::new() } else { format!("{} {sign}", show_bytes(extra.unsigned_abs())) };
        vec![format!("  {way}"), show_bytes(bytes), than]
    };
    let head = format!("while {} arrive", show_bytes(estimate.arriving_bytes));
    let rows = [
        vec![head, "written".to_owned()],
        row(&format!("{} is kept", estimate.policy_before), estimate.kept_bytes, 0),
        row(&format!("{} as data arrives", estimate.policy), estimate.lazily_bytes, estimate.extra_lazily_bytes()),
        row(&format!("{} at once", estimate.policy), estimate.at_once_bytes, estimate.extra_at_once_bytes()),
    ];
    format!("{}\nat once merges write {} before anything arrives", table(&rows), show_bytes(estimate.reshape_bytes))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use crate::testing::{TestDir, run, run_ok};

    fn parsed(words: &[&str]) -> Value {
        serde_json::from_str(&run_ok(words)).expect("it is JSON")
    }

    /// A dry run changes nothing; what it says of merges at once is what they write then, and no level has more runs than the new shape allows.
    #[test]
    fn a_change_is_priced_and_made() {
        let dir = TestDir::new("a_change_is_priced_and_made");
        let db = dir.join("db");
        let lines: String = (0..5_000u64)
            .map(|i| format!("{:016x}\t{}\n", i.wrapping_mul(0x9e37_79b9_7f4a_7c15), "v".repeat(100)))
            .collect();
        let file = dir.file("in.tsv", lines);
        run_ok(&["import", &db, &file, "--buffer", "20KiB", "--policy", "tiering:T=8"]);
        run_ok(&["compact", &db, "--settle"]);
        let dry = parsed(&["reshape", &db, "--policy", "leveling:T=8", "--dry-run", "--writes", "1MiB", "--json"]);
        assert_eq!((&dry["policy_before"], &dry["changed"]), (&"tiering:T=8".into(), &false.into()), "{dry}");
        assert_eq!(dry["estimate"]["arriving_bytes"], 1 << 20);
        assert_eq!(parsed(&["stats", &db, "--json"])["policy"], "tiering:T=8");
        let foreseen = dry["estimate"]["reshape_bytes"].as_u64().expect("a number");
        assert!(foreseen > 0, "{dry}");

        let kept = |dry: &Value| dry["estimate"]["kept_bytes"].as_u64().expect("a number");
        let bounded =
            ["reshape", &db, "--policy", "leveling:T=8", "--dry-run", "--writes", "1MiB", "--space-max", "1.05"];
        let bounded = parsed(&[&bounded[..], &["--json"]].concat());
        assert!(kept(&bounded) > kept(&dry), "a bound on space calls for merges: {bounded} {dry}");

        let lazy = parsed(&["reshape", &db, "--policy", "leveling:T=8", "--json"]);
        assert_eq!((&lazy["written_bytes"], &lazy["changed"]), (&0.into(), &true.into()), "{lazy}");
        assert!(lazy["runs"].as_u64() > Some(3), "{lazy}");
        let said = run_ok(&["reshape", &db, "--at-once"]);
        for part in ["leveling:T=8 is kept", "leveling:T=8 at once", "before anything arrives", "written"] {
            assert!(said.contains(part), "`{part}` is not in\n{said}");
        }
        let stats = parsed(&["stats", &db, "--json"]);
        let levels = stats["levels"].as_array().expect("levels");
        assert!(levels.iter().all(|level| level["runs"].as_array().expect("runs").len() <= 1), "{stats}");
        let again = parsed(&["reshape", &db, "--at-once", "--json"]);
        assert_eq!((&again["written_bytes"], &again["estimate"]["reshape_bytes"]), (&0.into(), &0.into()), "{again}");
        assert_eq!(run_ok(&["export", &db]).lines().count(), 5_000);

        let refused = |words: &[&str]| {
            let ran = run(&[&["reshape", &db], words].concat());
            assert_eq!(ran.status, 2, "{words:?}");
            ran.err
        };
        assert!(refused(&["--policy", "leveling"]).contains("parameters T"));
        assert!(refused(&["--dry-run", "--at-once"]).contains("--at-once"));
        assert!(refused(&["--writes", "90TiB"]).contains("to be written"));
    }
}
