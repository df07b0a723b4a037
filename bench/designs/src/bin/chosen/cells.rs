//! [`Cells`]: the figures that were kept, and which cells are due.
//!
//! A cell is a contender under a mix. All cells are measured once; the chosen design of a mix, and
//! those near its best, as often as there are rounds. So chance decides little where it matters,
//! and little time goes to designs that are far from the best.

use common::numbers::median;
use common::words::Words;
use serde_json::{Value, json};
use shape::kept::Kept;
use tamarack_model::device::Device;

use crate::contenders::{Contender, Contenders};
use crate::mixes::Mix;
use crate::plan::Plan;

/// A contender is near the best if its median is at most so many times as long.
const NEAR: f64 = 1.2;

/// A design that is chosen for another mix is measured if it is predicted to take at most so many
/// times as long as the chosen one.
const COMPETES: f64 = 1.5;

/// The name under which the figures of the machine are kept, beside those of designs.
const MACHINE: &str = "machine";

/// What was measured of a cell.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Median seconds of an operation.
    pub seconds: f64,
    /// The least and the most.
    pub range: [f64; 2],
    /// How often it was measured.
    pub rounds: usize,
    /// Medians of the parts.
    pub parts: Parts,
}

/// Medians of what [`measure`](crate::measure) keeps of a cell.
#[derive(Clone, Copy, Debug)]
pub struct Parts {
    /// Seconds of an operation without awaited flushes and compactions.
    pub operating: f64,
    /// Seconds of awaited flushes and compactions for each update.
    pub settling: f64,
    /// Data blocks read by an operation.
    pub blocks: f64,
    /// Bytes written by flushes and compactions per byte flushed.
    pub write_amplification: f64,
}

pub struct Cells {
    pub kept: Kept,
}

impl Cells {
    pub fn read(words: &Words) -> Self {
        Self { kept: Kept::read(words) }
    }

    /// The figures of the machine with which designs were chosen, and the setting; `None` if there
    /// are none yet.
    pub fn machine(&self) -> Option<(Device, &Value)> {
        let kept = self.kept.policies.get(MACHINE)?;
        let text = kept["device"].as_str().expect("figures of a device");
        Some((text.parse().unwrap_or_else(|error| panic!("{text}: {error}")), &kept["setting"]))
    }

    /// Keeps the figures of the machine.
    pub fn set_machine(&mut self, device: &Device, source: &str, setting: &Value) {
        self.kept.add(MACHINE, setting, json!({ "device": device.to_string(), "source": source }));
    }

    /// Where the figures of the machine come from.
    pub fn source(&self) -> &str {
        self.kept.policies.get(MACHINE).and_then(|kept| kept["source"].as_str()).unwrap_or("unknown")
    }

    fn figures(&self, contender: &Contender, mix: &Mix) -> &[Value] {
        let kept = self.kept.policies.get(&contender.name());
        kept.and_then(|kept| kept["cells"][&mix.name].as_array()).map_or(&[], Vec::as_slice)
    }

    /// Keeps the figures of a cell beside those of earlier rounds.
    pub fn add(&mut self, contender: &Contender, mix: &Mix, setting: &Value, figures: Value) {
        let name = contender.name();
        let mut kept = self.kept.policies.get(&name).cloned().unwrap_or_else(|| json!({ "cells": {} }));
        match kept["cells"][&mix.name].as_array_mut() {
            Some(earlier) => earlier.push(figures),
            None => kept["cells"][&mix.name] = json!([figures]),
        }
        self.kept.add(&name, setting, kept);
    }

    /// What was measured of a cell; `None` if nothing was.
    pub fn cell(&self, contender: &Contender, mix: &Mix) -> Option<Cell> {
        let figures = self.figures(contender, mix);
        let of = |name: &str| -> Vec<f64> {
            figures.iter().map(|figures| figures[name].as_f64().unwrap_or(f64::NAN)).collect()
        };
        let seconds = of("seconds_per_op");
        let least = seconds.iter().copied().reduce(f64::min)?;
        let most = seconds.iter().copied().fold(least, f64::max);
        let middle = |name: &str| median(of(name).into_iter());
        let parts = Parts {
            operating: middle("operating_seconds"),
            settling: middle("settling_seconds"),
            blocks: middle("blocks"),
            write_amplification: middle("write_amplification"),
        };
        Some(Cell { rounds: seconds.len(), seconds: median(seconds.into_iter()), range: [least, most], parts })
    }

    /// The median of the best contender under a mix; infinity if nothing was measured.
    fn best(&self, contenders: &Contenders, mix: &Mix) -> f64 {
        let seconds = contenders.all.iter().filter_map(|contender| Some(self.cell(contender, mix)?.seconds));
        seconds.fold(f64::INFINITY, f64::min)
    }

    /// Numbers of the mixes under which a contender is to be measured now.
    pub fn due(
        &self,
        contenders: &Contenders,
        competitors: &[Vec<usize>],
        mixes: &[Mix],
        at: usize,
        rounds: usize,
    ) -> Vec<usize> {
        let contender = &contenders.all[at];
        let is_due = |number: &usize| {
            let mix = &mixes[*number];
            let Some(cell) = self.cell(contender, mix) else { return competitors[*number].contains(&at) };
            let is_chosen = contenders.chosen[*number] == *contender;
            cell.rounds < rounds && (is_chosen || cell.seconds <= NEAR * self.best(contenders, mix))
        };
        (0..mixes.len()).filter(is_due).collect()
    }
}

/// For each mix, the numbers of the contenders that are measured under it: the sweep, the chosen
/// one, and what is chosen for other mixes and predicted to come near.
pub fn competitors(plan: &Plan, contenders: &Contenders, mixes: &[Mix], device: Device) -> Vec<Vec<usize>> {
    let of_mix = |(mix, chosen): (&Mix, &Contender)| {
        let predicted = |contender: &Contender| contender.price(plan, mix, device).seconds_per_op;
        let most = COMPETES * predicted(chosen);
        let competes = |at: &usize| {
            let contender = &contenders.all[*at];
            Contenders::is_in_sweep(plan, contender) || contender == chosen || predicted(contender) <= most
        };
        (0..contenders.all.len()).filter(competes).collect()
    };
    mixes.iter().zip(&contenders.chosen).map(of_mix).collect()
}
