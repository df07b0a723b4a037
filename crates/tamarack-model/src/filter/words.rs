//! The words that name a filter: `none`, `blocked:bits=10`, `bloom:bits=7.5,allocation=uniform`.

use std::fmt;
use std::str::FromStr;

use super::FilterKind;

/// Which filters the tables of a tree are to have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FilterChoice {
    /// None: every lookup searches every run.
    None,
    /// One for each table, with as many bits per entry in every run.
    Uniform {
        /// The kind of all of them.
        kind: FilterKind,
        /// Above 0 and at most [`BITS_MAX`].
        bits_per_entry: f64,
    },
}

/// Why words name no filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterError(String);

/// With more bits per entry than this the best filters err less than once in 10¹³ lookups, and digests of 64 bits begin to be what limits.
pub const BITS_MAX: f64 = 64.0;

impl FromStr for FilterChoice {
    type Err = FilterError;

    /// Reads what [`fmt::Display`] writes; `allocation=uniform` may be added.
    ///
    /// # Errors
    /// One that says which words there are.
    fn from_str(words: &str) -> Result<Self, FilterError> {
        let (name, list) = words.split_once(':').unwrap_or((words, ""));
        let kind = FilterKind::ALL.into_iter().find(|kind| kind.name() == name);
        match (name, kind) {
            ("none", _) if list.is_empty() => Ok(Self::None),
            ("none", _) => Err(FilterError(format!("`none` has no parameters, but `{words}` has"))),
            (_, Some(kind)) => Ok(Self::Uniform { kind, bits_per_entry: bits_per_entry(name, list)? }),
            (_, None) => Err(FilterError(format!(
                "`{name}` is unknown; there are `none`, `blocked:bits=10` and `bloom:bits=10`"
            ))),
        }
    }
}

/// The bits per entry in a list such as `bits=10,allocation=uniform`.
fn bits_per_entry(name: &str, list: &str) -> Result<f64, FilterError> {
    let mut bits = None;
    let mut allocation = None;
    for part in list.split(',').filter(|part| !part.is_empty()) {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        let place = match key {
            "bits" => &mut bits,
            "allocation" => &mut allocation,
            _ => {
                return Err(FilterError(format!("`{part}` is not understood; `{name}` has `bits` and `allocation`")));
            }
        };
        if place.replace(value).is_some() {
            return Err(FilterError(format!("`{key}` stands twice in `{list}`")));
        }
    }
    if let Some(other) = allocation.filter(|allocation| *allocation != "uniform") {
        return Err(FilterError(format!("the allocation `{other}` is unknown; there is `uniform`")));
    }
    let bits = bits.ok_or_else(|| FilterError(format!("`{name}` needs its bits per entry, as in `{name}:bits=10`")))?;
    match bits.parse() {
        Ok(number) if number > 0.0 && number <= BITS_MAX => Ok(number),
        _ => Err(FilterError(format!(
            "`bits={bits}` is out of range: bits per entry are a number above 0 and up to {BITS_MAX}; for no filter write `none`"
        ))),
    }
}

impl fmt::Display for FilterChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Uniform { kind, bits_per_entry } => write!(f, "{}:bits={bits_per_entry}", kind.name()),
        }
    }
}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not a filter: {}", self.0)
    }
}

impl std::error::Error for FilterError {}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is read is written back as it was, without what goes without saying.
    #[test]
    fn words_come_back() {
        for (words, written) in [
            ("none", "none"),
            ("blocked:bits=10", "blocked:bits=10"),
            ("bloom:bits=7.5", "bloom:bits=7.5"),
            ("bloom:allocation=uniform,bits=64", "bloom:bits=64"),
        ] {
            assert_eq!(words.parse::<FilterChoice>().map(|choice| choice.to_string()), Ok(written.to_owned()));
        }
    }

    /// What cannot be is refused with the word that is wrong.
    #[test]
    fn errors_name_what_is_wrong() {
        for (words, part) in [
            ("", "``"),
            ("chucky:bits=10", "`chucky`"),
            ("none:bits=1", "`none:bits=1`"),
            ("bloom", "`bloom:bits=10`"),
            ("bloom:bits=0", "`none`"),
            ("bloom:bits=-1", "`bits=-1`"),
            ("bloom:bits=NaN", "`bits=NaN`"),
            ("bloom:bits=65", "64"),
            ("bloom:bits=ten", "`bits=ten`"),
            ("bloom:bits=1,bits=2", "twice"),
            ("blocked:bits=10,allocation=monkey", "`monkey`"),
            ("blocked:bits=10,k=2", "`k=2`"),
        ] {
            let error = words.parse::<FilterChoice>().expect_err(words).to_string();
            assert!(error.contains(part), "{words}: {error}");
        }
    }
}
