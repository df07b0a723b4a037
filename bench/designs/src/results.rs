//! [`Results`]: the figures that were kept, each beside what is predicted of it.

use serde_json::{Value, json};
use shape::kept::{Kept, number};

use crate::accuracy::Comparison;
use crate::costs::{Figure, Figures};
use crate::list::{NamedDesign, all};
use crate::predict::{Machine, PREDICTIONS, Phase};
use crate::workloads::{WORKLOADS, WriteMix};

/// A design and all that was kept of it.
pub struct Measured<'a> {
    pub design: NamedDesign,
    pub kept: &'a Value,
}

/// A design under a workload.
#[derive(Clone, Copy)]
pub struct Cell<'a> {
    pub design: NamedDesign,
    pub mix: &'static WriteMix,
    pub kept: &'a Value,
    pub measured: Figures,
    /// In the order of [`PREDICTIONS`].
    pub predicted: [Option<Figures>; PREDICTIONS.len()],
}

pub struct Results<'a> {
    pub designs: Vec<Measured<'a>>,
    pub cells: Vec<Cell<'a>>,
    pub setting: &'a Value,
}

impl<'a> Results<'a> {
    /// Reads the figures and computes all predictions.
    pub fn of(kept: &'a Kept) -> Self {
        let found = |design: NamedDesign| Some(Measured { design, kept: kept.policies.get(&design.name())? });
        let designs: Vec<Measured<'a>> = all().filter_map(found).collect();
        let setting = designs.first().map_or(&Value::Null, |design| &design.kept["setting"]);
        let cells = designs.iter().flat_map(|measured| {
            WORKLOADS.iter().filter_map(move |mix| {
                let kept = measured.kept["workloads"].get(mix.name)?;
                Some(Cell::new(measured.design, mix, kept, (setting, &measured.kept["machine"])))
            })
        });
        Self { cells: cells.collect(), designs, setting }
    }

    pub fn cell(&self, design: &NamedDesign, mix: &WriteMix) -> Option<&Cell<'a>> {
        self.cells.iter().find(|cell| cell.design.number == design.number && cell.mix.name == mix.name)
    }

    /// True if there is something to compare with a prediction.
    pub fn has(&self, prediction: usize) -> bool {
        self.cells.iter().any(|cell| cell.predicted[prediction].is_some())
    }

    /// All that can be compared with a prediction.
    pub fn comparisons(&self, prediction: usize) -> Vec<Comparison<(&Cell<'a>, Figure)>> {
        let of_cell = |cell| Figure::ALL.into_iter().filter_map(move |figure| compared(cell, figure, prediction));
        self.cells.iter().flat_map(of_cell).collect()
    }
}

fn compared<'c, 'a>(
    cell: &'c Cell<'a>,
    figure: Figure,
    prediction: usize,
) -> Option<Comparison<(&'c Cell<'a>, Figure)>> {
    let predicted = cell.predicted[prediction]?.get(figure)?;
    Comparison::new((cell, figure), cell.measured.get(figure)?, predicted)
}

impl Machine {
    /// The machine of figures that were kept.
    pub fn of(kept: &Value) -> Self {
        let device = kept["device"].as_str().map(|text| text.parse().expect("figures of a device"));
        Self { device: device.unwrap_or_default(), cores: kept["cores"].as_u64().unwrap_or(2) as usize }
    }
}

impl<'a> Cell<'a> {
    fn new(design: NamedDesign, mix: &'static WriteMix, kept: &'a Value, (setting, machine): (&Value, &Value)) -> Self {
        let entries = number(setting, &["entries"]) as u64;
        let settled = setting["settled"].as_bool().unwrap_or(false);
        let count = |name: &str| kept[name].as_u64().unwrap_or(0);
        let machine = (!settled).then(|| Machine::of(machine));
        let phase = Phase { mix, inserted: count("inserted"), flushed_bytes: count("flushed"), machine };
        let policy = design.parsed();
        let model = design.model(&policy, entries);
        let predicted = PREDICTIONS.map(|(_, predict)| predict(&model, &phase));
        Self { design, mix, kept, measured: Figures::from_json(&kept["figures"]), predicted }
    }

    /// The share of the workload that was done within its time.
    pub fn done(&self) -> f64 {
        number(self.kept, &["done"])
    }

    /// For programs.
    pub fn json(&self) -> Value {
        let predicted = PREDICTIONS.iter().zip(self.predicted);
        let predicted = predicted.filter_map(|((name, _), figures)| Some(((*name).to_owned(), figures?.to_json())));
        json!({
            "design": self.design.name(),
            "policy": self.design.policy,
            "filter": self.design.filter,
            "memtables": self.design.memtables,
            "workload": self.mix.name,
            "measured": self.kept,
            "predicted": predicted.collect::<serde_json::Map<_, _>>(),
        })
    }
}
