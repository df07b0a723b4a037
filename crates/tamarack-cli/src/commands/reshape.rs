//! `tamarack reshape`: changes the policy of a live database, with an estimate of the cost.

use clap::{Arg, ArgAction, ArgMatches};
use serde_json::Value;
use tamarack::{Db, Error, ReshapeEstimate, RunStats};

use super::compact::Watch;
use crate::outcome::{Failure, Outcome};
use crate::show::table::{plural, table};
use crate::show::{Output, json};
use crate::size::show_bytes;
use crate::subcommand::Subcommand;
use crate::{database, size};

pub(super) const SUBCOMMAND: Subcommand = Subcommand {
    name: "reshape",
    summary: "Change the policy of a database; estimate the cost of the change",
    help: "\
Changes the compaction policy (`tamarack compact --help` lists them). The change alone
moves no data: levels take their new shape as data arrives, and once writes pause while
the database is open. --at-once reshapes the tree now: full levels move down, and runs
beyond the number that the new policy allows are compacted. That writes every byte at
most once, which is less than `tamarack compact` writes. The command may be interrupted:
nothing is lost, and compactions resume when the database is next opened.

Before the change the command prints an estimate, by a simulation of the planner from
the present runs: bytes that flushes and compactions will write (before compression)
while --writes bytes arrive, with the present policy, with the new one as data arrives,
and with the new one at once. --dry-run stops there. Overwrites cost less than the
estimate, which assumes new keys. Without --policy the present policy is meant;
--at-once then completes an earlier change.",
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
    arguments.push(switch("dry-run", "Print the estimate, and change nothing").conflicts_with("at-once"));
    arguments.push(switch("at-once", "Compact the tree into its new shape now, and wait for that"));
    arguments.push(
        Arg::new("writes")
            .long("writes")
            .value_name("SIZE")
            .help("Writes to assume for the estimate: keys, values, and 8 bytes\nper entry [default: the size of the tree]")
            .value_parser(size::parse_bytes),
    );
    arguments.extend(database::compaction_arguments());
    arguments
}

fn run(matches: &ArgMatches, output: &mut Output<'_>) -> Result<Outcome, Failure> {
    let [dry, at_once] = ["dry-run", "at-once"].map(|name| matches.get_flag(name));
    let words = database::policy_specification(matches)?;
    let db = database::open_to_reshape(matches, dry, output)?;
    if !dry {
        db.flush()?;
    }
    if at_once {
        // Beside compactions in progress, some levels would keep a run too many.
        db.wait_for_compactions()?;
    }
    let before = db.stats();
    let size_bytes = RunStats::total(before.levels.iter().flat_map(|level| &level.runs)).raw_bytes;
    let words = words.unwrap_or(before.policy.clone());
    let estimate = estimate(&db, &words, matches.get_one("writes").copied(), size_bytes)?;
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
        lines.push(format!("compactions wrote {}; the tree has {}", show_bytes(written), plural(runs, "run")));
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

/// The estimate for the given writes; by default for the size of the tree, as far as the
/// simulation reaches.
fn estimate(db: &Db, words: &str, writes: Option<u64>, size_bytes: u64) -> Result<ReshapeEstimate, Error> {
    let Some(bytes) = writes else {
        let mut bytes = size_bytes;
        return loop {
            match db.estimate_reshape(words, bytes) {
                Err(Error::InvalidArgument(_)) if bytes > 0 && db.estimate_reshape(words, 0).is_ok() => bytes /= 2,
                estimate => break estimate,
            }
        };
    };
    db.estimate_reshape(words, bytes)
}

fn shown(estimate: &ReshapeEstimate) -> String {
    let row = |way: &str, bytes: u64, extra: i64| {
        let sign = if extra < 0 { "less" } else { "more" };
        let than = if extra == 0 { String::new() } else { format!("{} {sign}", show_bytes(extra.unsigned_abs())) };
        vec![format!("  {way}"), show_bytes(bytes), than]
    };
    let head = format!("for {} of writes", show_bytes(estimate.arriving_bytes));
    let rows = [
        vec![head, "bytes written".to_owned()],
        row(&format!("{} (unchanged)", estimate.policy_before), estimate.kept_bytes, 0),
        row(&format!("{}, as data arrives", estimate.policy), estimate.lazily_bytes, estimate.extra_lazily_bytes()),
        row(&format!("{}, at once", estimate.policy), estimate.at_once_bytes, estimate.extra_at_once_bytes()),
    ];
    format!(
        "{}\nat once: compactions write {} before the first write",
        table(&rows),
        show_bytes(estimate.reshape_bytes)
    )
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use crate::testing::{TestDir, run, run_ok};

    fn parsed(words: &[&str]) -> Value {
        serde_json::from_str(&run_ok(words)).expect("it is JSON")
    }

    /// A dry run changes nothing; the estimate of a reshape at once is what compactions write then;
    /// afterwards no level has more runs than the policy allows.
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
        let predicted = dry["estimate"]["reshape_bytes"].as_u64().expect("a number");
        assert!(predicted > 0, "{dry}");

        let kept = |dry: &Value| dry["estimate"]["kept_bytes"].as_u64().expect("a number");
        let bounded =
            ["reshape", &db, "--policy", "leveling:T=8", "--dry-run", "--writes", "1MiB", "--space-max", "1.05"];
        let bounded = parsed(&[&bounded[..], &["--json"]].concat());
        assert!(kept(&bounded) > kept(&dry), "a bound on space needs compactions: {bounded} {dry}");

        let lazy = parsed(&["reshape", &db, "--policy", "leveling:T=8", "--json"]);
        assert_eq!((&lazy["written_bytes"], &lazy["changed"]), (&0.into(), &true.into()), "{lazy}");
        assert!(lazy["runs"].as_u64() > Some(3), "{lazy}");
        let said = run_ok(&["reshape", &db, "--at-once"]);
        for part in ["leveling:T=8 (unchanged)", "leveling:T=8, at once", "before the first write", "compactions wrote"]
        {
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
        assert!(refused(&["--writes", "90TiB"]).contains("arriving bytes"));
    }
}
