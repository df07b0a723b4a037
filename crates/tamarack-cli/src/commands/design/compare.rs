//! `tamarack design --compare`: several designs for the same data and workload, one row each.

use serde_json::{Map, Value};
use tamarack_model::navigator::union::PricedDesign;
use tamarack_model::prediction::Effort;

use super::request::{DesignRequest, NamedDesign};
use crate::show::json;
use crate::show::table::{grouped, plural, significant, table};
use crate::size::show_bytes;

/// Designs that were priced.
pub(super) struct Comparison<'a> {
    request: &'a DesignRequest,
    rows: Vec<ComparedDesign>,
}

/// One of them.
struct ComparedDesign {
    name: String,
    priced: PricedDesign,
    /// False if its memtables, filters and indexes exceed the memory budget.
    fits: bool,
}

/// A cost that designs are compared by.
struct CostColumn {
    heading: &'static str,
    /// Its name for programs.
    member: &'static str,
    value: fn(&PricedDesign) -> f64,
    show: fn(f64) -> String,
    /// True if the greatest value is the best.
    is_gain: bool,
}

const fn cost(heading: &'static str, member: &'static str, value: fn(&PricedDesign) -> f64) -> CostColumn {
    CostColumn { heading, member, value, show: significant, is_gain: false }
}

/// The columns, in order.
const COLUMNS: [CostColumn; 8] = [
    cost("zero-result", "zero_result_reads", |priced| priced.prediction.zero_result_reads.mean()),
    cost("existing", "existing_reads", |priced| priced.prediction.existing_reads.mean()),
    cost("seek", "range_seeks", |priced| priced.prediction.scan_reads[0].mean()),
    cost("update", "update_writes", |priced| priced.prediction.write_amplification),
    cost("space", "space_amplification", |priced| priced.prediction.space_amplification.mean()),
    cost("bits", "filter_bits_per_entry", |priced| priced.prediction.filter_bits_per_entry.mean()),
    CostColumn {
        show: |seconds| significant(seconds * 1e6),
        ..cost("µs", "seconds_per_op", |priced| priced.seconds_per_op)
    },
    CostColumn {
        show: |throughput| grouped(throughput as u64),
        is_gain: true,
        ..cost("operations/s", "throughput_per_s", |priced| 1.0 / priced.seconds_per_op)
    },
];

impl<'a> Comparison<'a> {
    /// Prices these designs.
    pub(super) fn new(request: &'a DesignRequest, designs: &[NamedDesign]) -> Self {
        let row = |design: &NamedDesign| {
            let priced = design.priced(&request.setting, Effort::Full);
            let fits = request.memory.is_none() || priced.split.cache >= 0.0;
            ComparedDesign { name: design.name(), priced, fits }
        };
        Self { request, rows: designs.iter().map(row).collect() }
    }

    /// The best values of each column, as they are shown: those of designs that fit the memory.
    fn best(&self) -> [Option<String>; COLUMNS.len()] {
        COLUMNS.map(|column| {
            let values = self.rows.iter().filter(|row| row.fits).map(|row| (column.value)(&row.priced));
            let best = if column.is_gain { values.reduce(f64::max) } else { values.reduce(f64::min) };
            best.map(column.show)
        })
    }

    /// A table with a legend.
    pub(super) fn text(&self) -> String {
        let memory = match self.request.memory {
            Some(memory) => format!(", with {} of memory", show_bytes(memory.0)),
            None => String::new(),
        };
        let has_memory = self.request.memory.is_some();
        let cache = ["cache", "hits"].into_iter().filter(|_| has_memory);
        let heading = ["", "filter", "memtable"].into_iter().chain(cache);
        let heading = heading.chain(COLUMNS.iter().map(|column| column.heading));
        let mut rows: Vec<Vec<String>> = vec![heading.map(str::to_owned).collect()];
        let best = self.best();
        rows.extend(self.rows.iter().map(|row| row.cells(&best, has_memory)));
        let count = plural(self.rows.len() as u64, "design");
        format!("{count} for {}{memory}\n\n{}\n\n{LEGEND}", self.request.data(), table(&rows))
    }

    /// The same for programs: an object for each design.
    pub(super) fn objects(&self) -> Value {
        let best = self.best();
        self.rows.iter().map(|row| Value::Object(row.object(&best, self.request.memory.is_some()))).collect()
    }
}

/// What the columns are.
const LEGEND: &str = "\
* the best of its column, among the designs that fit the memory
zero-result, existing, seek: block reads without a cache; update: write amplification; space:
space amplification; bits: bits of filters per entry; µs, operations/s: of the workload on the
device, with the cache that --memory leaves";

impl ComparedDesign {
    fn is_best(&self, at: usize, best: &[Option<String>]) -> bool {
        let shown = (COLUMNS[at].show)((COLUMNS[at].value)(&self.priced));
        self.fits && best[at].as_ref() == Some(&shown)
    }

    fn cells(&self, best: &[Option<String>], has_memory: bool) -> Vec<String> {
        let PricedDesign { filter_specification, buffer, split, lookup_hits, .. } = &self.priced;
        let mut cells = vec![self.name.clone(), filter_specification.clone(), show_bytes(buffer.0)];
        if has_memory && self.fits {
            cells.extend([show_bytes(split.cache as u64), significant(*lookup_hits)]);
        } else if has_memory {
            cells.extend([format!("{} too much", show_bytes(-split.cache as u64)), significant(0.0)]);
        }
        cells.extend(COLUMNS.iter().enumerate().map(|(at, column)| {
            let mark = if self.is_best(at, best) { '*' } else { ' ' };
            format!("{}{mark}", (column.show)((column.value)(&self.priced)))
        }));
        cells
    }

    fn object(&self, best: &[Option<String>], has_memory: bool) -> Map<String, Value> {
        let mut object = json::object([
            ("policy", self.priced.policy.to_string().into()),
            ("filter", self.priced.filter_specification.as_str().into()),
            ("buffer_bytes", self.priced.buffer.0.into()),
        ]);
        object.extend(COLUMNS.iter().map(|column| (column.member.to_owned(), (column.value)(&self.priced).into())));
        if has_memory {
            object.extend(json::object([
                ("fits", self.fits.into()),
                ("cache_bytes", (self.priced.split.cache.max(0.0) as u64).into()),
                ("lookup_hits", self.priced.lookup_hits.into()),
            ]));
        }
        let members = (0..COLUMNS.len()).filter(|at| self.is_best(*at, best)).map(|at| COLUMNS[at].member);
        object.insert("best".to_owned(), members.collect());
        object
    }
}
