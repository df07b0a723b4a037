//! `tamarack design --policy auto`: finds a design for a workload and a memory budget.

use serde_json::{Map, Value};
use tamarack_model::Bytes;
use tamarack_model::device::Device;
use tamarack_model::navigator::monkey::defaults::{self, DefaultDesign};
use tamarack_model::navigator::union::{
    Answer, Bounds, Exploration, Impossible, PricedDesign, Request, explore, find, price,
};
use tamarack_model::workload::Workload;

use crate::outcome::Failure;
use crate::show::json;
use crate::show::table::{grouped, significant, table};
use crate::size::show_bytes;

/// The names of bounds, in the order of [`Bounds::all`].
const NAMES: [&str; 5] = ["zero-result", "existing", "range", "update", "space"];

/// Reads bounds as in `zero-result=0.1,update=6`.
pub(super) fn parse_bounds(text: &str) -> Result<Bounds, String> {
    let explain = || {
        format!(
            "write bounds as in `zero-result=0.1,update=6`: numbers above 0 of {}, each name once",
            NAMES.join(", ")
        )
    };
    let mut bounds = [None; 5];
    for part in text.split(',') {
        let (name, number) = part.split_once('=').ok_or_else(explain)?;
        let at = NAMES.iter().position(|known| *known == name).ok_or_else(explain)?;
        let number = number.parse::<f64>().ok().filter(|number| *number > 0.0 && number.is_finite());
        if bounds[at].replace(number.ok_or_else(explain)?).is_some() {
            return Err(explain());
        }
    }
    let [zero_result_reads, existing_reads, range_seeks, update_writes, space_amplification] = bounds;
    Ok(Bounds { zero_result_reads, existing_reads, range_seeks, update_writes, space_amplification })
}

/// What was found.
pub(super) struct DesignSearch {
    pub(super) answer: Answer,
    /// All designs that were compared.
    pub(super) compared: Vec<PricedDesign>,
    /// The default designs of other stores.
    stores: Vec<(&'static str, PricedDesign)>,
    /// What could be different, if that is asked for.
    what_if: Option<Vec<WhatIf>>,
}

impl DesignSearch {
    /// The best design of all, or why there is none. `device` is the name of the request's.
    pub(super) fn new(request: &Request, device: &str, wants_what_if: bool) -> Result<Self, Failure> {
        let Exploration { answer, compared } = explore(request);
        let answer = explained(request, answer)?;
        let what_if = wants_what_if.then(|| what_if(request, device));
        Ok(Self { answer, compared, stores: stores(request), what_if })
    }

    /// All of it as text.
    pub(super) fn text(&self) -> String {
        let what_if = self.what_if.as_deref().unwrap_or_default();
        format!("{}{}", text(&self.answer, &self.stores), what_if_text(&self.answer, what_if))
    }

    /// Adds it to the object of the best design.
    pub(super) fn add_to(&self, object: &mut Map<String, Value>) {
        object.insert("search".to_owned(), self::object(&self.answer, &self.stores));
        if let Some(what_if) = &self.what_if {
            object.insert("what_if".to_owned(), what_if_object(what_if));
        }
    }
}

/// The answer, or why there is none.
fn explained(request: &Request, answer: Result<Answer, Impossible>) -> Result<Answer, Failure> {
    answer.map_err(|impossible| {
        Failure::Usage(match impossible {
            Impossible::Memory { least } => format!(
                "{} of memory are too few for the memtables, filters and indexes of any design; the smallest takes {}: \
                 give more with --memory, or larger blocks with --block-size",
                show_bytes(request.memory.0),
                show_bytes(least.ceil() as u64)
            ),
            Impossible::Bounds { least } => {
                let one = |((name, bound), least): ((&str, Option<f64>), f64)| {
                    bound.map(|bound| format!("{name}={bound} (the least found is {})", significant(least)))
                };
                let bounds = NAMES.into_iter().zip(request.bounds.all()).zip(least).filter_map(one);
                format!(
                    "no design within {} of memory keeps all bounds: {}; raise one of them, or --memory",
                    show_bytes(request.memory.0),
                    bounds.collect::<Vec<_>>().join(", ")
                )
            }
        })
    })
}

/// What was found, and the best of other kinds.
fn text(answer: &Answer, stores: &[(&'static str, PricedDesign)]) -> String {
    let PricedDesign { split, policy, filter_specification, buffer, block_bytes, .. } = &answer.best;
    let bytes = |bytes: f64| show_bytes(bytes as u64);
    let mut rows = vec![
        ["", "filter", "memtable", "block", "zero-result", "existing", "seek", "update", "space", "cache hits", "µs"]
            .map(str::to_owned)
            .to_vec(),
    ];
    rows.extend(std::iter::once(&answer.best).chain(&answer.others).map(|found| row(found.policy.to_string(), found)));
    for (store, design) in stores {
        let name = if design.split.cache < 0.0 { format!("{store} (too large)") } else { (*store).to_owned() };
        rows.push(row(name, design));
    }
    format!(
        "The best of {} designs, the best of each other kind of policy that takes at most half as long again,\n\
         and the defaults of other stores with this data and memory (their merge policies and filters in this\n\
         engine):\n\n{}\n\n\
         memory: {} of memtables, {} of filters, {} of indexes, {} of cache\n\
         options: --policy {policy} --filter {filter_specification} --buffer {buffer} --block-size {} --cache {}",
        grouped(answer.compared as u64),
        table(&rows),
        bytes(split.memtables),
        bytes(split.filters),
        bytes(split.indexes),
        bytes(split.cache),
        Bytes(*block_bytes),
        split.cache as u64,
    )
}

/// A row of costs.
fn row(name: String, found: &PricedDesign) -> Vec<String> {
    let prediction = &found.prediction;
    let costs = [
        prediction.zero_result_reads.mean(),
        prediction.existing_reads.mean(),
        prediction.scan_reads[0].mean(),
        prediction.write_amplification,
        prediction.space_amplification.mean(),
        found.lookup_hits,
        found.seconds_per_op * 1e6,
    ];
    let [buffer, block] = [found.buffer.0, found.block_bytes].map(show_bytes);
    let designed = [name, found.filter_specification.clone(), buffer, block];
    designed.into_iter().chain(costs.map(significant)).collect()
}

/// The default designs of other stores, priced for the same request.
fn stores(request: &Request) -> Vec<(&'static str, PricedDesign)> {
    let priced =
        |design: &DefaultDesign| (design.store, price(request, &design.policy(), design.buffer, design.filter()));
    defaults::ALL.iter().map(priced).collect()
}

/// The same for programs.
fn object(answer: &Answer, stores: &[(&'static str, PricedDesign)]) -> Value {
    Value::Object(json::object([
        ("compared", answer.compared.into()),
        ("best", design(&answer.best)),
        ("others", answer.others.iter().map(design).collect::<Vec<_>>().into()),
        ("stores", Value::Object(stores.iter().map(|(store, found)| ((*store).to_owned(), design(found))).collect())),
    ]))
}

fn design(found: &PricedDesign) -> Value {
    Value::Object(json::object([
        ("policy", found.policy.to_string().into()),
        ("filter", found.filter_specification.as_str().into()),
        ("buffer_bytes", found.buffer.0.into()),
        ("block_bytes", found.block_bytes.into()),
        ("memtables_bytes", (found.split.memtables as u64).into()),
        ("filters_bytes", (found.split.filters as u64).into()),
        ("indexes_bytes", (found.split.indexes as u64).into()),
        ("cache_bytes", (found.split.cache as u64).into()),
        ("lookup_hits", found.lookup_hits.into()),
        ("block_hits", found.block_hits.into()),
        ("seconds_per_op", found.seconds_per_op.into()),
    ]))
}

/// One thing that could be different, and the best design then; `None` if there is none.
struct WhatIf {
    what: String,
    best: Option<PricedDesign>,
}

/// The best designs if something else than what was asked for were given. `device` is the name of
/// the request's.
fn what_if(request: &Request, device: &str) -> Vec<WhatIf> {
    let memory = |factor: f64| Bytes((request.memory.as_f64() * factor) as u64);
    let mut others = vec![
        ("a quarter of the memory".to_owned(), Request { memory: memory(0.25), ..*request }),
        ("half the memory".to_owned(), Request { memory: memory(0.5), ..*request }),
        ("twice the memory".to_owned(), Request { memory: memory(2.0), ..*request }),
        ("four times the memory".to_owned(), Request { memory: memory(4.0), ..*request }),
        ("ten times the data".to_owned(), Request { entries: request.entries.saturating_mul(10), ..*request }),
    ];
    for (what, updates) in [("90 % reads", 0.1), ("90 % updates", 0.9)] {
        others.extend(
            with_updates(request.workload, updates).map(|workload| (what.to_owned(), Request { workload, ..*request })),
        );
    }
    for name in Device::NAMES.into_iter().filter(|name| *name != device) {
        let device = Device::named(name).expect("it is one of the names");
        others.push((format!("on {name}"), Request { device, ..*request }));
    }
    let best =
        |(what, request): (String, Request)| WhatIf { what, best: find(&request).ok().map(|answer| answer.best) };
    others.into_iter().map(best).collect()
}

/// The workload with this share of updates, from 0 to 1, and as many of everything else beside each
/// other as before; `None` if there was nothing else.
fn with_updates(workload: Workload, updates: f64) -> Option<Workload> {
    let Workload { zero_result, existing, ranges, range_entries, .. } = workload;
    let reads = zero_result + existing + ranges;
    let factor = (1.0 - updates) / reads;
    let parts = [zero_result, existing, ranges].map(|part| part * factor);
    (reads > 0.0).then(|| Workload::of_parts(parts[0], parts[1], parts[2], updates, range_entries)).flatten()
}

/// The table of what could be different; empty without any.
fn what_if_text(answer: &Answer, others: &[WhatIf]) -> String {
    if others.is_empty() {
        return String::new();
    }
    let as_asked = answer.best.seconds_per_op;
    let mut rows =
        vec![["what if", "policy", "filter", "memtable", "block", "µs", "times as long"].map(str::to_owned).to_vec()];
    let row = |what: &str, best: Option<&PricedDesign>| match best {
        Some(best) => vec![
            what.to_owned(),
            best.policy.to_string(),
            best.filter_specification.clone(),
            show_bytes(best.buffer.0),
            show_bytes(best.block_bytes),
            significant(best.seconds_per_op * 1e6),
            format!("{:.2}", best.seconds_per_op / as_asked),
            bar(best.seconds_per_op / as_asked),
        ],
        None => vec![what.to_owned(), "none fits".to_owned()],
    };
    rows.push(row("as asked", Some(&answer.best)));
    rows.extend(others.iter().map(|other| row(&other.what, other.best.as_ref())));
    format!("\n\n{}", table(&rows))
}

/// A bar of a length that is five for once; what is longer than four times is cut.
fn bar(times: f64) -> String {
    const MOST: f64 = 4.0;
    let cut = if times > MOST { "▶" } else { "" };
    format!("{}{cut}", "█".repeat((5.0 * times.min(MOST)).round() as usize))
}

/// The same for programs.
fn what_if_object(others: &[WhatIf]) -> Value {
    let one = |WhatIf { what, best }: &WhatIf| {
        Value::Object(json::object([
            ("what", what.as_str().into()),
            ("best", best.as_ref().map_or(Value::Null, design)),
        ]))
    };
    Value::Array(others.iter().map(one).collect())
}
