//! `tamarack design`: predicts the shape, memory and costs of trees without a database.
//!
//! ```text
//! command line ┐                     ┌─ one design ──► text, object
//! --file ──────┴─► given ─► request ─┼─ --policy auto ► search
//!                                    ├─ --compare ───► compare
//!                                    └─ --plot ──────► trade_off ─► plot
//! ```
//!
//! All costs are those of [`tamarack_model::navigator::union`].

mod arguments;
mod compare;
mod device;
mod full_speed;
mod given;
mod object;
mod plot;
mod read_cost;
mod request;
mod search;
#[cfg(test)]
mod tests;
mod text;
mod trade_off;

use clap::ArgMatches;
use serde_json::{Map, Value};
use tamarack_model::design::{Design, price};
use tamarack_model::navigator::union::{PricedDesign, Request};
use tamarack_model::prediction::Effort;

use self::compare::Comparison;
use self::given::Given;
use self::request::{DesignRequest, NamedDesign, PlotRequest};
use self::search::DesignSearch;
use self::trade_off::TradeOff;
use crate::files;
use crate::outcome::{Failure, Outcome};
use crate::show::{Output, json};
use crate::subcommand::Subcommand;

pub(super) const SUBCOMMAND: Subcommand = Subcommand {
    name: "design",
    summary: "Predict the shape, memory and costs of a tree, without a database",
    help: "\
Prints the shape that a policy gives a tree of so many entries, the filters of each
level's runs, their memory, and the cost of operations, as the engine's models predict
them.

The tree is simulated: it is loaded with all entries, each key once, then written to
until as much has been flushed as the last level but one takes twice. `mean`, `least`
and `most` are over the moments after flushes of that phase. Keys are put again, each
as likely, unless --inserts or --skew say otherwise; without updates in the workload,
the tree is at rest after its load. Compactions end before the next flush. `full speed`
is the mean beside a thread that puts as fast as write throttling lets it, on the device
and a machine of --cores: compactions are late then, so that there are more runs, and
less is written. It is not predicted if it takes more than 20,000 flushes: the column is
empty then, and `full_speed` is null with --json (without updates in the workload, there
is no `full_speed`). Larger memtables have fewer flushes. `full tree` is the mean for a
tree that is as full as its shape allows.
Read amplification is given for three operations, without a cache:
  zero-result lookup  block reads of a lookup whose key does not exist
  existing lookup     block reads of a lookup whose key exists, each key as likely
  range seek          block reads up to the first entry of a scan
  update              write amplification: bytes written by flushes and compactions
                      for each byte flushed
  space               space amplification: bytes of all runs for each byte of live
                      entries; in the full tree every entry of a younger level replaces
                      one in an older level

With --policy auto and --memory, policies, filters, memtable sizes and blocks of 4 to
32 KiB are compared for the workload (with --block-size, --compare or --plot, all blocks
are of --block-size), and the best is shown, beside the best of each other kind of policy
that takes at most half as long again, and the defaults of other stores (Monkey's
Table 4); the cache takes the memory that is left, and serves the reads that its size and
--skew promise. --what-if adds the best design and its time for half and twice the memory,
ten times the data, workloads that mostly read or write, and the other devices.

--compare prints a row of predicted means for each design, with the best of each column
marked. A design is a policy, or the name of a store for its defaults (leveldb, rocksdb,
cassandra, hbase, wiredtiger, accumulo), then, in either order, a filter and a memtable
size where they differ from --filter and --buffer. The design of --policy is the first
row if --policy is given. With --memory, the cache takes what a design leaves of it, and
a design that exceeds it is marked; without, nothing is cached.

--plot shows the trade-off between reads and writes: the cost of a read of the workload
over write amplification, for all policies that --policy auto compares, with --filter and
--buffer, or with --policy auto for all designs that it compares. Marked are the designs
asked for or found, the defaults of other stores, and the Pareto front: designs that no
other one beats in one cost without losing in the other. With --json, `trade_off` has them.

--file takes options from a text file, under their names without dashes. Options of the
command line win; `compare` may be repeated; paths are relative to the working directory:
  # the shop, in summer
  entries = 100000000
  workload = existing=8,range=1,update=1
  skew = 0.9
  policy = auto
  memory = 2GiB
  max = space=1.3

The time per operation is the sum of the mean costs over the workload, for one thread that
also waits for the compactions that it causes. It serves to compare designs. The device
is a name, a file that `tamarack calibrate --output` wrote, or a database in which
`tamarack calibrate` stored figures. Figures of names are assumed, not measured:
              block read  reads at once  read bandwidth  write bandwidth
  hdd               8 ms            1.8        180 MB/s         160 MB/s
  ssd             120 µs            9.6        500 MB/s         450 MB/s
  nvme            100 µs             16          2 GB/s           1 GB/s
  memory            1 µs              2         10 GB/s           5 GB/s
and, for all four, of processor time 20 ns per digest, 50 ns per probe of a Bloom
filter, 100 ns per probe of Chucky, 150 ns and 500 ns to find a block and an entry in
it, 1 µs to decode a block that was read, 200 ns per lookup and 1 µs per scan besides
these, 50 ns per entry of a scan, 500 ns per entry of a compaction, and 2 µs per put.",
    examples: "\
tamarack design --entries 100000000 --entry-size 128
tamarack design --entries 100000000 --policy moose:last=0.8,k=1 --buffer 2MiB
tamarack design --entries 100000000 --device prices.db
tamarack design --entries 1000000 --workload zero-result=1,update=3 --json
tamarack design --entries 100000000 --policy auto --memory 2GiB --max update=5
tamarack design --entries 100000000 --policy auto --memory 2GiB --what-if
tamarack design --entries 100000000 --compare leveling:T=10 --compare tiering:T=4 bloom:bits=12 64MiB
tamarack design --entries 100000000 --memory 2GiB --policy moose --compare rocksdb --plot
tamarack design --file shop.txt --plot shop.svg",
    arguments: arguments::arguments,
    run,
};

fn run(matches: &ArgMatches, output: &mut Output<'_>) -> Result<Outcome, Failure> {
    let given = Given::of(matches)?;
    let request = DesignRequest::of(&given)?;
    let search = match request.design {
        Some(_) => None,
        None => Some(DesignSearch::new(&request.setting, &request.device_name, request.wants_what_if)?),
    };
    let (mut text, mut object) = if request.compared.is_empty() {
        one_design(&request, search.as_ref())
    } else {
        comparison(&request, search.as_ref())
    };
    if let Some(plot) = &request.plot {
        let trade_off = trade_off(&request, plot, search.as_ref());
        object.insert("trade_off".to_owned(), trade_off.object());
        match &plot.file {
            None => text = format!("{text}\n\n{}", plot::text(&trade_off)),
            Some(file) => {
                files::write_text(file, &plot::svg(&trade_off))?;
                text = format!("{text}\n\nthe plot is in {}", file.display());
            }
        }
    }
    output.result(Some(&text), object)?;
    Ok(Outcome::Done)
}

/// The design that was given or found, for people and for programs.
fn one_design(request: &DesignRequest, search: Option<&DesignSearch>) -> (String, Map<String, Value>) {
    let Request { entries, entry_bytes, workload, device, .. } = request.setting;
    let found = match (&request.design, search) {
        (Some(design), _) => design.priced(&request.setting, Effort::Full),
        (None, search) => search.expect("a design that is not given was searched for").answer.best.clone(),
    };
    let PricedDesign { filter, buffer, block_bytes, .. } = found;
    let design = Design { entries, entry_bytes, buffer, policy: &found.policy, filter, block_bytes };
    let priced = price(&design, &workload, &device);
    let heading = format!("{}, {}: {}", found.policy, found.filter_specification, request.data());
    let levels = text::levels(&priced, entry_bytes);
    let full_speed = full_speed::predicted(&design, &found.prediction, request);
    let costs = text::costs(&priced, (&found.prediction, &full_speed), found.seconds_per_op);
    let mut text = format!("{heading}\n\n{levels}\n\n{costs}");
    let mut object = object::object(&found.policy.to_string(), &request.device_name, &priced);
    let predictions = object::predictions(&found.prediction, &full_speed, found.seconds_per_op);
    object.insert("predicted".to_owned(), predictions);
    if let Some(search) = search {
        text = format!("{}\n\n{text}", search.text());
        object["memory"]["cache_bytes"] = (found.split.cache as u64).into();
        search.add_to(&mut object);
    }
    (text, object)
}

/// Several designs: those of --compare, after that of --policy if it was given.
fn comparison(request: &DesignRequest, search: Option<&DesignSearch>) -> (String, Map<String, Value>) {
    let comparison = Comparison::new(request, &asked(request, search));
    let mut text = comparison.text();
    let mut object = json::object([("device", request.device_name.as_str().into()), ("designs", comparison.objects())]);
    if let Some(search) = search {
        text = format!("{}\n\n{text}", search.text());
        search.add_to(&mut object);
    }
    (text, object)
}

fn trade_off(request: &DesignRequest, plot: &PlotRequest, search: Option<&DesignSearch>) -> TradeOff {
    let compared = search.map(|search| search.compared.as_slice());
    TradeOff::new(request, plot.cost, &asked(request, search), compared)
}

/// The designs that were asked for: that of --policy, or the best one, and those of --compare.
fn asked(request: &DesignRequest, search: Option<&DesignSearch>) -> Vec<NamedDesign> {
    let first = match search {
        Some(search) => Some(NamedDesign::of(&search.answer.best)),
        None => request.design.clone().filter(|_| request.compares_policy || request.compared.is_empty()),
    };
    first.into_iter().chain(request.compared.iter().cloned()).collect()
}
