//! `tamarack explain`: the design of a database, and why it has it.

use std::path::PathBuf;

use serde_json::Value;
use tamarack::{RunStats, Stats};

use crate::outcome::{Failure, Outcome};
use crate::show::table::plural;
use crate::show::{Output, json};
use crate::size::show_bytes;
use crate::subcommand::Subcommand;
use crate::{database, text};

pub(super) const SUBCOMMAND: Subcommand = Subcommand {
    name: "explain",
    summary: "Show the design of a database, and the decisions that led to it",
    help: "\
Shows the policy, the sizes of memtables and of the blocks of new tables, the runs, and
the last changes that the navigator has made, the latest one last: the design before and
after, the operations that it followed from, the predicted mean time of an operation
with either, and what the change was expected to take. They are stored with the design.

The navigator changes the design of a database whose policy is `auto`, which is that
of a new one: `tamarack reshape DB --policy auto` lets it, and any other policy ends
that. It waits until a change is expected to save more time than it takes, if the
present workload lasts as long again as it has so far. `tamarack design` predicts the
costs of designs for a workload that you describe.",
    examples: "\
tamarack explain names.db
tamarack explain names.db --json",
    arguments: || vec![database::path_argument(), database::direct_argument()],
    run,
};

fn run(matches: &clap::ArgMatches, output: &mut Output<'_>) -> Result<Outcome, Failure> {
    let path: &PathBuf = matches.get_one("db").expect("it is required");
    let name = path.display().to_string();
    let db = database::open_to_read(matches, output)?;
    let (stats, history) = (db.stats(), db.design_history());
    db.close()?;
    let members = json::object([
        ("database", text::escaped(name.as_bytes()).into()),
        ("policy", stats.policy.clone().into()),
        ("is_automatic", is_automatic(&stats).into()),
        ("memtable_bytes", stats.memtable_capacity_bytes.into()),
        ("block_bytes", stats.block_bytes.into()),
        ("decisions", Value::Array(history.iter().cloned().map(Value::String).collect())),
    ]);
    output.result(Some(&for_people(&stats, &history)), members)?;
    Ok(Outcome::Done)
}

fn is_automatic(stats: &Stats) -> bool {
    stats.policy.starts_with("auto")
}

fn for_people(stats: &Stats, history: &[String]) -> String {
    let runs: Vec<&RunStats> = stats.levels.iter().flat_map(|level| &level.runs).collect();
    let bytes: u64 = runs.iter().map(|run| run.raw_bytes).sum();
    let who = if is_automatic(stats) { "chosen by the navigator" } else { "given; `auto` lets the navigator choose" };
    let mut lines = vec![
        format!("policy     {} ({who})", stats.policy),
        format!("memtables  {}", show_bytes(stats.memtable_capacity_bytes)),
        format!("blocks     {}", show_bytes(stats.block_bytes)),
        format!("tree       {} in {}", show_bytes(bytes), plural(runs.len() as u64, "run")),
    ];
    if history.is_empty() {
        lines.push("no change of the design by the navigator is recorded".to_owned());
    }
    for (number, decision) in (1..).zip(history) {
        lines.push(format!("change {number}   {decision}"));
    }
    lines.join("\n")
}
