//! How a machine stops, which ways to try at one moment, and a short text for each, so that one can
//! be asked for again.

use std::fmt;
use std::str::FromStr;

use tamarack_env::Random;
use tamarack_env::sim::{Crash, Sector};

/// How the database's process ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Death {
    /// It is killed: what it wrote stays in the page cache.
    Process,
    /// The machine loses its power.
    Power(Crash),
}

impl Death {
    /// Ways to stop at a moment with so many unsynced changes, at most `count`: the extremes first,
    /// then draws. Only one if nothing is unsynced.
    pub(crate) fn draw(random: &Random, unsynced: usize, count: usize) -> Vec<Self> {
        let mut deaths = vec![Self::Power(Crash::LoseAll)];
        if unsynced == 0 {
            return deaths;
        }
        deaths.push(if random.eighths(4) { Self::Process } else { Self::Power(Crash::KeepAll) });
        while deaths.len() < count {
            let at = random.below(unsynced as u64) as usize;
            let seed = random.next() >> 32;
            let crash = match random.below(if unsynced > 1 { 8 } else { 2 }) {
                0 => Crash::Torn { seed, sector: Sector::Bytes512 },
                1 => Crash::Torn { seed, sector: Sector::Bytes4096 },
                2 | 3 => Crash::AllBut(at),
                4 => Crash::Prefix(at),
                5 => Crash::ByFile { seed },
                _ => Crash::Subset { seed },
            };
            deaths.push(Self::Power(crash));
        }
        deaths.truncate(count);
        deaths
    }
}

impl fmt::Display for Death {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process => write!(f, "process"),
            Self::Power(Crash::LoseAll) => write!(f, "lose"),
            Self::Power(Crash::KeepAll) => write!(f, "keep"),
            Self::Power(Crash::Prefix(at)) => write!(f, "prefix:{at}"),
            Self::Power(Crash::AllBut(at)) => write!(f, "allbut:{at}"),
            Self::Power(Crash::ByFile { seed }) => write!(f, "byfile:{seed}"),
            Self::Power(Crash::Subset { seed }) => write!(f, "subset:{seed}"),
            Self::Power(Crash::Torn { seed, sector }) => write!(f, "torn{}:{seed}", sector.bytes()),
        }
    }
}

impl FromStr for Death {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, number) = text.split_once(':').unwrap_or((text, "0"));
        let seed = number.parse::<u64>().map_err(|error| format!("{text}: {error}"))?;
        let at = seed as usize;
        Ok(match kind {
            "process" => Self::Process,
            "lose" => Self::Power(Crash::LoseAll),
            "keep" => Self::Power(Crash::KeepAll),
            "prefix" => Self::Power(Crash::Prefix(at)),
            "allbut" => Self::Power(Crash::AllBut(at)),
            "byfile" => Self::Power(Crash::ByFile { seed }),
            "subset" => Self::Power(Crash::Subset { seed }),
            "torn512" => Self::Power(Crash::Torn { seed, sector: Sector::Bytes512 }),
            "torn4096" => Self::Power(Crash::Torn { seed, sector: Sector::Bytes4096 }),
            _ => return Err(format!("{text} is no kind of crash")),
        })
    }
}
