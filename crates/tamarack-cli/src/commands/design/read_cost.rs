//! [`ReadCost`]: what the reads of a workload are counted in.

use tamarack_model::navigator::union::{PricedDesign, Request};

/// The cost of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadCost {
    /// Block reads.
    Blocks,
    /// Microseconds on the device.
    Time,
}

impl ReadCost {
    /// Reads the argument.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        match text {
            "blocks" => Ok(Self::Blocks),
            "time" => Ok(Self::Time),
            _ => Err("write blocks or time".to_owned()),
        }
    }

    /// The mean over the reads of the workload.
    ///
    /// # Panics
    /// If it does not read.
    pub(super) fn of(self, setting: &Request, priced: &PricedDesign) -> f64 {
        let Request { workload, device, .. } = setting;
        let cost = match self {
            Self::Blocks => priced.work.block_reads(workload),
            Self::Time => priced.work.seconds(device).mean_of_reads(workload).map(|seconds| seconds * 1e6),
        };
        cost.expect("a plot is refused for a workload without reads")
    }

    /// Its unit, as the title of an axis.
    pub(super) fn unit(self) -> &'static str {
        match self {
            Self::Blocks => "block reads",
            Self::Time => "µs",
        }
    }

    /// Its name for programs.
    pub(super) fn member(self) -> &'static str {
        match self {
            Self::Blocks => "block_reads",
            Self::Time => "microseconds",
        }
    }
}
