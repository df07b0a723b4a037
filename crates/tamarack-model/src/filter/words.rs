//! Filter specifications: `none`, `blocked:bits=10`, `bloom:bits=7.5,allocation=uniform`,
//! `elastic:bits=10`, `chucky:bits=12`.

use std::fmt;
use std::str::FromStr;

use super::{FilterKind, chucky};

/// The filters of a tree's tables.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FilterChoice {
    /// No filters: every lookup searches every run.
    None,
    /// One filter for each table.
    Each {
        /// The kind of all of them.
        kind: FilterKind,
        /// Mean bits in memory per entry of the tree; above 0 and at most [`BITS_MAX`].
        bits_per_entry: f64,
        /// The allocation of bits to runs.
        allocation: Allocation,
    },
    /// One filter for the whole tree (Chucky): it maps each key to the runs that hold it.
    Tree {
        /// Mean bits in memory per entry of the tree; at least [`chucky::BITS_MIN`] and at most
        /// [`BITS_MAX`].
        bits_per_entry: f64,
    },
}

/// The allocation of filter bits to the runs of a tree.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Allocation {
    /// The same number of bits per entry in every run.
    Uniform,
    /// Fewest false positives of zero-result lookups (Monkey, §4.1).
    Monkey,
    /// Fewest false positives of lookups of which `v` find something for each one that does not
    /// (Monkey, §4.4).
    MonkeyGeneral {
        /// At least 0.
        v: f64,
    },
    /// Fewest false positives of the lookups observed, by their misses in each part of the tree.
    Observed,
}

impl Allocation {
    /// The share of lookups that are assumed to find something; `None` for
    /// [`Allocation::Observed`], which uses measurements.
    pub fn found(self) -> Option<f64> {
        match self {
            Self::Uniform | Self::Monkey => Some(0.0),
            Self::MonkeyGeneral { v } => Some(v / (v + 1.0)),
            Self::Observed => None,
        }
    }
}

impl FilterChoice {
    /// Mean bits in memory per entry of the tree; 0 for no filters.
    pub fn bits_per_entry(self) -> f64 {
        match self {
            Self::None => 0.0,
            Self::Each { bits_per_entry, .. } | Self::Tree { bits_per_entry } => bits_per_entry,
        }
    }
}

/// An invalid filter specification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterError(String);

/// The maximum number of bits per entry. Beyond it the best filters have fewer than one false
/// positive in 10¹³ lookups, and 64-bit digests become the limit.
pub const BITS_MAX: f64 = 64.0;

/// The name of [`FilterChoice::Tree`].
const CHUCKY: &str = "chucky";

/// The maximum of `v`; more is as good as every lookup finding something.
const V_MAX: f64 = 1e9;

impl FromStr for FilterChoice {
    type Err = FilterError;

    /// Parses the form that [`fmt::Display`] writes; `allocation=uniform` may be added.
    ///
    /// # Errors
    /// If the specification is invalid; the error lists the valid ones.
    fn from_str(words: &str) -> Result<Self, FilterError> {
        let (name, list) = words.split_once(':').unwrap_or((words, ""));
        let kind = FilterKind::ALL.into_iter().find(|kind| kind.name() == name);
        match (name, kind) {
            ("none", _) if list.is_empty() => Ok(Self::None),
            ("none", _) => Err(FilterError(format!("`none` has no parameters, but `{words}` has"))),
            (_, Some(kind)) => {
                let Parameters { bits_per_entry, allocation } = Parameters::read(name, list)?;
                if kind == FilterKind::Elastic && allocation != Allocation::Uniform {
                    return Err(FilterError(format!(
                        "`{words}`: `elastic` allocates its bits by the access frequency of tables, and has no `allocation`"
                    )));
                }
                Ok(Self::Each { kind, bits_per_entry, allocation })
            }
            (CHUCKY, None) => {
                let Parameters { bits_per_entry, allocation } = Parameters::read(name, list)?;
                if allocation != Allocation::Uniform {
                    return Err(FilterError(format!(
                        "`{words}`: `chucky` is one filter for all runs, and has no `allocation`"
                    )));
                }
                if bits_per_entry < chucky::BITS_MIN {
                    return Err(FilterError(format!(
                        "`{words}`: `chucky` needs at least {} bits per entry; `blocked` and `bloom` do with less",
                        chucky::BITS_MIN
                    )));
                }
                Ok(Self::Tree { bits_per_entry })
            }
            (_, None) => Err(FilterError(format!(
                "`{name}` is unknown; filters are `none`, `blocked:bits=10`, `bloom:bits=10`, `elastic:bits=10` and `chucky:bits=12`"
            ))),
        }
    }
}

/// The parameters of a specification, such as `bits=10,allocation=monkey-general,v=3`.
struct Parameters {
    bits_per_entry: f64,
    allocation: Allocation,
}

impl Parameters {
    fn read(name: &str, list: &str) -> Result<Self, FilterError> {
        let refuse = |why: String| Err(FilterError(why));
        let (mut bits, mut allocation, mut v) = (None, None, None);
        for part in list.split(',').filter(|part| !part.is_empty()) {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            let place = match key {
                "bits" => &mut bits,
                "allocation" => &mut allocation,
                "v" => &mut v,
                _ => {
                    return refuse(format!("unknown parameter `{part}`; `{name}` has `bits`, `allocation` and `v`"));
                }
            };
            if place.replace(value).is_some() {
                return refuse(format!("`{key}` is given twice in `{list}`"));
            }
        }
        let Some(bits) = bits else {
            return refuse(format!("`{name}` needs its bits per entry, as in `{name}:bits=10`"));
        };
        let bits_per_entry = match bits.parse() {
            Ok(number) if number > 0.0 && number <= BITS_MAX => number,
            _ => {
                return refuse(format!(
                    "`bits={bits}` is out of range: bits per entry must be above 0 and at most {BITS_MAX}; for no filter write `none`"
                ));
            }
        };
        let allocation = match (allocation.unwrap_or("uniform"), v) {
            ("uniform", None) => Allocation::Uniform,
            ("monkey", None) => Allocation::Monkey,
            ("observed", None) => Allocation::Observed,
            ("monkey-general", Some(v)) => match v.parse() {
                Ok(v) if (0.0..=V_MAX).contains(&v) => Allocation::MonkeyGeneral { v },
                _ => {
                    return refuse(format!(
                        "`v={v}` is out of range: `v`, the ratio of lookups that find something to those that do not, must be from 0 to {V_MAX}"
                    ));
                }
            },
            ("monkey-general", None) => {
                return refuse("`allocation=monkey-general` needs `v`, the ratio of lookups that find something to those that do not, as in `v=3`".to_owned());
            }
            ("uniform" | "monkey" | "observed", Some(_)) => {
                return refuse("`v` belongs to `allocation=monkey-general`".to_owned());
            }
            (other, _) => {
                return refuse(format!(
                    "the allocation `{other}` is unknown; allocations are `uniform`, `monkey`, `monkey-general` and `observed`"
                ));
            }
        };
        Ok(Self { bits_per_entry, allocation })
    }
}

impl fmt::Display for FilterChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Tree { bits_per_entry } => write!(f, "{CHUCKY}:bits={bits_per_entry}"),
            Self::Each { kind, bits_per_entry, allocation } => {
                write!(f, "{}:bits={bits_per_entry}", kind.name())?;
                match allocation {
                    Allocation::Uniform => Ok(()),
                    Allocation::Monkey => f.write_str(",allocation=monkey"),
                    Allocation::Observed => f.write_str(",allocation=observed"),
                    Allocation::MonkeyGeneral { v } => write!(f, ",allocation=monkey-general,v={v}"),
                }
            }
        }
    }
}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invalid filter: {}", self.0)
    }
}

impl std::error::Error for FilterError {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Specifications are written back as they were read, without defaults.
    #[test]
    fn specifications_read_back() {
        for (words, written) in [
            ("none", "none"),
            ("blocked:bits=10", "blocked:bits=10"),
            ("bloom:bits=7.5", "bloom:bits=7.5"),
            ("bloom:allocation=uniform,bits=64", "bloom:bits=64"),
            ("elastic:bits=10", "elastic:bits=10"),
            ("chucky:bits=12.5", "chucky:bits=12.5"),
            ("blocked:bits=5,allocation=monkey", "blocked:bits=5,allocation=monkey"),
            ("bloom:allocation=observed,bits=7", "bloom:bits=7,allocation=observed"),
            ("bloom:v=3,bits=5,allocation=monkey-general", "bloom:bits=5,allocation=monkey-general,v=3"),
        ] {
            assert_eq!(words.parse::<FilterChoice>().map(|choice| choice.to_string()), Ok(written.to_owned()));
        }
    }

    /// An invalid specification is refused with an error that names the invalid part.
    #[test]
    fn errors_name_what_is_wrong() {
        for (words, part) in [
            ("", "``"),
            ("cuckoo:bits=10", "`cuckoo`"),
            ("chucky:bits=9.9", "10 bits"),
            ("chucky:bits=12,allocation=monkey", "`allocation`"),
            ("none:bits=1", "`none:bits=1`"),
            ("bloom", "`bloom:bits=10`"),
            ("bloom:bits=0", "`none`"),
            ("bloom:bits=-1", "`bits=-1`"),
            ("bloom:bits=NaN", "`bits=NaN`"),
            ("bloom:bits=65", "64"),
            ("bloom:bits=ten", "`bits=ten`"),
            ("bloom:bits=1,bits=2", "twice"),
            ("blocked:bits=10,allocation=ape", "`ape`"),
            ("blocked:bits=10,allocation=monkey,v=1", "`v`"),
            ("blocked:bits=10,allocation=observed,v=1", "`v`"),
            ("blocked:bits=10,allocation=monkey-general", "`v=3`"),
            ("blocked:bits=10,allocation=monkey-general,v=-1", "`v=-1`"),
            ("blocked:bits=10,v=1", "`v`"),
            ("blocked:bits=10,k=2", "`k=2`"),
            ("elastic", "`elastic:bits=10`"),
            ("elastic:bits=10,allocation=monkey", "`allocation`"),
        ] {
            let error = words.parse::<FilterChoice>().expect_err(words).to_string();
            assert!(error.contains(part), "{words}: {error}");
        }
    }
}
