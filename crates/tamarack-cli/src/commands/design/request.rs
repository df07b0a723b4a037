//! [`DesignRequest`]: what `tamarack design` is asked for, checked.

use std::path::PathBuf;

use tamarack_model::filter::FilterChoice;
use tamarack_model::navigator::monkey::defaults::{self, DefaultDesign};
use tamarack_model::navigator::union::{Bounds, Limits, PricedDesign, Request, price_with};
use tamarack_model::policy::{self, DATA_MAX, Policy};
use tamarack_model::prediction::Effort;
use tamarack_model::{BUFFER_MAX, Bytes};

use super::arguments::{AUTO, COMPARE, FILE, NVME, PLOT, PLOT_COST, TERMINAL, Weights, workload};
use super::device;
use super::given::Given;
use super::read_cost::ReadCost;
use crate::database;
use crate::outcome::Failure;
use crate::show::table::grouped;
use crate::size::{parse_bytes, show_bytes};

/// The largest blocks that a search may choose, unless their size is given.
const BLOCK_BYTES_MAX: u64 = 32 << 10;

/// What is asked for.
pub(super) struct DesignRequest {
    /// Data, workload and device. Without a memory budget it has none, so that nothing is cached.
    pub(super) setting: Request,
    /// The memory budget, if there is one.
    pub(super) memory: Option<Bytes>,
    /// The name of the device.
    pub(super) device_name: String,
    /// The cores of the machine, for costs at full speed.
    pub(super) cores: usize,
    /// The design of --policy, --filter and --buffer; `None` if the best one is to be found.
    pub(super) design: Option<NamedDesign>,
    /// The filter and the memtable of designs that name no others.
    filter: FilterChoice,
    buffer: Bytes,
    /// True if the best design is also to be found for other settings.
    pub(super) wants_what_if: bool,
    /// Designs to compare; empty if that is not asked for.
    pub(super) compared: Vec<NamedDesign>,
    /// True if the design of --policy is to be compared with them.
    pub(super) compares_policy: bool,
    /// The plot, if one is asked for.
    pub(super) plot: Option<PlotRequest>,
}

/// A plot: its vertical axis, and where it goes.
pub(super) struct PlotRequest {
    pub(super) cost: ReadCost,
    /// `None` for the terminal.
    pub(super) file: Option<PathBuf>,
}

/// A design by its specifications.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct NamedDesign {
    /// The store that has it by default, if that is how it was named.
    pub(super) store: Option<&'static str>,
    pub(super) policy: Policy,
    pub(super) filter: FilterChoice,
    pub(super) buffer: Bytes,
}

impl NamedDesign {
    /// The design of a policy. A custom shape has its own memtable.
    fn new(policy: Policy, filter: FilterChoice, buffer: Bytes) -> Self {
        let buffer = policy.shape(Bytes(1), buffer).buffer();
        Self { store: None, policy, filter, buffer }
    }

    /// The default design of a store.
    pub(super) fn of_store(design: &DefaultDesign) -> Self {
        Self { store: Some(design.store), ..Self::new(design.policy(), design.filter(), design.buffer) }
    }

    /// A design that was priced.
    pub(super) fn of(priced: &PricedDesign) -> Self {
        Self { store: None, policy: priced.policy.clone(), filter: priced.filter, buffer: priced.buffer }
    }

    /// Its costs.
    pub(super) fn priced(&self, setting: &Request, effort: Effort) -> PricedDesign {
        price_with(setting, &self.policy, self.buffer, self.filter, effort)
    }

    /// The name for tables and plots: its policy, and its store if it was named by that.
    pub(super) fn name(&self) -> String {
        match self.store {
            Some(store) => format!("{store} ({})", self.policy),
            None => self.policy.to_string(),
        }
    }
}

impl DesignRequest {
    pub(super) fn of(given: &Given<'_>) -> Result<Self, Failure> {
        let Some(entries) = given.get::<u64>("entries").copied() else {
            return Err(Failure::Usage(format!(
                "the number of entries is missing: give --entries, or write a line `entries = COUNT` in {}",
                given.text(FILE)
            )));
        };
        let (entry_bytes, block_bytes) = (given.value::<u64>("entry-size"), given.value::<u64>("block-size"));
        let buffer = Bytes(given.value("buffer"));
        if entry_bytes == 0 || block_bytes == 0 || !is_memtable(buffer) {
            return Err(Failure::Usage(format!(
                "--entry-size, --block-size and --buffer must be at least 1, and --buffer at most {BUFFER_MAX}"
            )));
        }
        if Bytes(entries) * entry_bytes > DATA_MAX {
            return Err(Failure::Usage(format!(
                "{entries} entries of {entry_bytes} bytes exceed the largest tree that the models cover, {DATA_MAX}; give fewer or smaller entries"
            )));
        }
        let device_name = given.text("device").to_owned();
        let memory = given.get::<u64>("memory").copied().map(Bytes);
        let parts: Weights = given.value("workload");
        // Block reads of designs side by side mean the same only if blocks do.
        let chooses_blocks = !["block-size", COMPARE, PLOT].into_iter().any(|name| given.is_given(name));
        let setting = Request {
            entries,
            entry_bytes,
            block_bytes,
            memory: memory.unwrap_or(Bytes::ZERO),
            workload: workload(parts, given.value("range-entries")).expect("the parser checks it"),
            inserts: given.value("inserts"),
            theta: given.value("skew"),
            device: device::named(&device_name)?,
            bounds: given.get::<Bounds>("max").copied().unwrap_or_default(),
            limits: Limits { block_bytes_max: if chooses_blocks { BLOCK_BYTES_MAX } else { 0 }, ..Limits::default() },
        };
        let filter: FilterChoice = given.text("filter").parse().map_err(|error| Failure::Usage(format!("{error}")))?;
        let design = match given.text("policy") {
            AUTO => None,
            words => Some(NamedDesign::new(parsed_policy(words)?, filter, buffer)),
        };
        let compared: Result<_, _> =
            given.each(COMPARE).iter().map(|words| compared_design(words, filter, buffer)).collect();
        let request = Self {
            setting,
            memory,
            device_name,
            cores: given.value::<u64>("cores") as usize,
            design,
            filter,
            buffer,
            wants_what_if: given.has("what-if"),
            compared: compared?,
            compares_policy: given.is_given("policy"),
            plot: plot(given)?,
        };
        request.check(given.is_given("max"))?;
        Ok(request)
    }

    /// Whether what was given goes together.
    fn check(&self, has_bounds: bool) -> Result<(), Failure> {
        let usage = |text: &str| Err(Failure::Usage(text.to_owned()));
        if self.design.is_none() && self.memory.is_none() {
            return usage("--policy auto needs --memory, such as --memory 1GiB");
        }
        if self.design.is_some() && (has_bounds || self.wants_what_if) {
            return usage("--max and --what-if are for --policy auto");
        }
        if self.design.is_some() && self.memory.is_some() && self.compared.is_empty() && self.plot.is_none() {
            return usage("--memory is for --policy auto, --compare and --plot");
        }
        let reads = self.setting.workload.zero_result + self.setting.workload.existing + self.setting.workload.ranges;
        if self.plot.is_some() && reads == 0.0 {
            return usage(
                "--plot shows the cost of reads, and --workload has none; add some, as in existing=1,update=9",
            );
        }
        Ok(())
    }

    /// A policy with the filter and the memtable of designs that name no others.
    pub(super) fn with_policy(&self, policy: Policy) -> NamedDesign {
        NamedDesign::new(policy, self.filter, self.buffer)
    }

    /// Data and device as a heading has them.
    pub(super) fn data(&self) -> String {
        let Request { entries, entry_bytes, .. } = self.setting;
        // The device that is always assumed is not named.
        let on = if self.device_name == NVME { String::new() } else { format!(", on {}", self.device_name) };
        let all = show_bytes((Bytes(entries) * entry_bytes).0);
        format!("{} entries of {}, {all}{on}", grouped(entries), show_bytes(entry_bytes))
    }
}

fn is_memtable(buffer: Bytes) -> bool {
    buffer > Bytes::ZERO && buffer <= BUFFER_MAX
}

fn parsed_policy(words: &str) -> Result<Policy, Failure> {
    let specification = database::specification(words)?;
    policy::parse(&specification).map_err(|error| Failure::Usage(error.to_string()))
}

/// Where the plot goes, if one is asked for.
fn plot(given: &Given<'_>) -> Result<Option<PlotRequest>, Failure> {
    let Some(place) = given.get::<String>(PLOT) else { return Ok(None) };
    if place != TERMINAL && !place.ends_with(".svg") {
        return Err(Failure::Usage(format!(
            "--plot {place}: plots are SVG images; name a file that ends in .svg, or none for the terminal"
        )));
    }
    let file = (place != TERMINAL).then(|| PathBuf::from(place));
    Ok(Some(PlotRequest { cost: *given.get(PLOT_COST).expect("it has a default"), file }))
}

/// A design of --compare: a policy or a store, and then a filter and a memtable size where they
/// differ from what is given for all.
fn compared_design(words: &[&str], filter: FilterChoice, buffer: Bytes) -> Result<NamedDesign, Failure> {
    let wrong = |what: String| Failure::Usage(format!("--{COMPARE} {}: {what}", words.join(" ")));
    let mut design = match defaults::ALL.iter().find(|design| design.store.eq_ignore_ascii_case(words[0])) {
        Some(design) => NamedDesign::of_store(design),
        None if words[0] == AUTO => {
            return Err(wrong(
                "name a policy here; with --policy auto, the best design is compared as well".to_owned(),
            ));
        }
        None => NamedDesign::new(parsed_policy(words[0])?, filter, buffer),
    };
    let (mut has_filter, mut has_buffer) = (false, false);
    for word in &words[1..] {
        let is_size = word.starts_with(|c: char| c.is_ascii_digit());
        let seen = if is_size { &mut has_buffer } else { &mut has_filter };
        if std::mem::replace(seen, true) {
            let what = if is_size { "two memtable sizes" } else { "two filters" };
            return Err(wrong(format!(
                "{what}; write a policy, a filter and a size, such as leveling:T=4 bloom:bits=8 64MiB"
            )));
        }
        if is_size {
            let size = Bytes(parse_bytes(word).map_err(wrong)?);
            if !is_memtable(size) {
                return Err(wrong(format!("the memtable must have at least 1 byte, and at most {BUFFER_MAX}")));
            }
            design = NamedDesign { store: design.store, ..NamedDesign::new(design.policy, design.filter, size) };
        } else {
            design.filter = word.parse().map_err(|error| wrong(format!("{error}")))?;
        }
    }
    Ok(design)
}
