//! The arguments of `tamarack design`, and how their values are read.

use clap::{Arg, ArgAction, value_parser};
use tamarack_model::workload::Workload;

use super::read_cost::ReadCost;
use super::search;
use crate::size;

pub(super) fn arguments() -> Vec<Arg> {
    let option = |name: &'static str, value, default, help| {
        Arg::new(name).long(name).value_name(value).help(help).default_value(default)
    };
    let size = |name, default, help| option(name, "SIZE", default, help).value_parser(size::parse_bytes);
    vec![
        Arg::new("entries")
            .long("entries")
            .value_name("COUNT")
            .help("Number of entries in the tree")
            .required_unless_present(FILE)
            .value_parser(value_parser!(u64).range(1..)),
        size("entry-size", "100", "Size of an entry: key, value, and 8 bytes"),
        size("buffer", "32MiB", "Size of the memtable (the papers' buffer)"),
        option(
            "policy",
            "POLICY",
            "leveling:T=5,first=4",
            "Compaction policy; compact --help lists them. auto finds the policy,\n\
             filter, memtable and block size with the least time per operation\n",
        ),
        Arg::new("memory")
            .long("memory")
            .value_name("SIZE")
            .help("With --policy auto, --compare or --plot: memory for memtables,\nfilters, indexes and cache")
            .value_parser(size::parse_bytes),
        Arg::new("max")
            .long("max")
            .value_name("BOUNDS")
            .help(
                "With --policy auto: upper bounds on mean costs, as in\n\
                 zero-result=0.1,existing=1.2,range=8,update=6,space=1.3",
            )
            .value_parser(search::parse_bounds),
        Arg::new("what-if")
            .long("what-if")
            .help("With --policy auto: the best design also for other amounts of\nmemory and data, other workloads and other devices")
            .action(ArgAction::SetTrue),
        option("filter", "FILTER", "blocked:bits=10,allocation=monkey", "Filters; import --help lists them\n"),
        size("block-size", "4KiB", "Size of data blocks, which --policy auto chooses unless it is given\n"),
        option(
            "workload",
            "WEIGHTS",
            EVEN,
            "Weights of the operations; an operation that is not named\nhas weight 0\n",
        )
        .value_parser(parse_weights),
        option(
            "device",
            "DEVICE",
            NVME,
            "hdd, ssd, nvme, memory, a file with figures, or a database\nthat has been calibrated\n",
        ),
        option(
            "cores",
            "COUNT",
            "4",
            "Processor cores, for costs at full speed: background threads\nare as many, at most 4\n",
        )
        .value_parser(value_parser!(u64).range(1..=1024)),
        option("range-entries", "COUNT", "0", "Entries that a scan reads after its first one")
            .value_parser(value_parser!(u64)),
        option("inserts", "SHARE", "0", "Share of updates that put new keys, from 0 to 1").value_parser(parse_share),
        option("skew", "THETA", "0", "Exponent of Zipf's law by which keys are put again, from 0 to 2\n")
            .value_parser(parse_theta),
        Arg::new(COMPARE)
            .long(COMPARE)
            .value_name("DESIGN")
            .help(
                "Compare designs, one for each --compare: a policy or a store\n\
                 (such as rocksdb), then a filter and a memtable size where they\n\
                 differ from --filter and --buffer",
            )
            .num_args(1..=3)
            .action(ArgAction::Append),
        Arg::new(PLOT)
            .long(PLOT)
            .value_name("FILE.svg")
            .help("Plot the read cost of designs over their write amplification, in\nthe terminal or as an SVG image")
            .num_args(0..=1)
            .default_missing_value(TERMINAL),
        option(PLOT_COST, "COST", "blocks", "With --plot: reads in blocks or in time")
            .value_parser(ReadCost::parse),
        Arg::new(FILE)
            .long(FILE)
            .value_name("FILE")
            .help("Read options from a file, one `name = value` a line; options on\nthe command line win"),
    ]
}

/// The argument that names a file with arguments.
pub(super) const FILE: &str = "file";

/// The argument with designs to compare.
pub(super) const COMPARE: &str = "compare";

/// The argument that asks for a plot, and where it goes.
pub(super) const PLOT: &str = "plot";

/// The value of [`PLOT`] that stands for a plot in the terminal.
pub(super) const TERMINAL: &str = "terminal";

/// The argument that says what a plot has on its vertical axis.
pub(super) const PLOT_COST: &str = "plot-cost";

/// The policy that stands for a search.
pub(super) const AUTO: &str = "auto";

/// The device that is assumed if none is named.
pub(super) const NVME: &str = "nvme";

/// Equal weights.
const EVEN: &str = "zero-result=1,existing=1,range=1,update=1";

/// The weights of `zero-result`, `existing`, `range` and `update`.
pub(super) type Weights = [f64; 4];

fn parse_weights(text: &str) -> Result<Weights, String> {
    const NAMES: [&str; 4] = ["zero-result", "existing", "range", "update"];
    let explain =
        || format!("write weights as in `{EVEN}`: non-negative numbers, at least one above 0, each name once");
    let mut parts = [None; 4];
    for part in text.split(',') {
        let (name, number) = part.split_once('=').ok_or_else(explain)?;
        let at = NAMES.iter().position(|known| *known == name).ok_or_else(explain)?;
        let number = number.parse::<f64>().map_err(|_| explain())?;
        if parts[at].replace(number).is_some() {
            return Err(explain());
        }
    }
    let parts = parts.map(|part| part.unwrap_or(0.0));
    workload(parts, 0).map(|_| parts).ok_or_else(explain)
}

/// The workload with these weights and lengths of scans, if the weights are valid.
pub(super) fn workload([zero_result, existing, ranges, updates]: Weights, range_entries: u64) -> Option<Workload> {
    Workload::of_parts(zero_result, existing, ranges, updates, range_entries as f64)
}

fn parse_share(text: &str) -> Result<f64, String> {
    parse_within(text, 1.0)
}

fn parse_theta(text: &str) -> Result<f64, String> {
    parse_within(text, 2.0)
}

fn parse_within(text: &str, most: f64) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| (0.0..=most).contains(number));
    number.ok_or_else(|| format!("give a number from 0 to {most}"))
}
