//! The words that name a policy, `name:T=5,K=4`, taken apart.

use std::fmt;

/// Why words name no policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyError(String);

/// A name and its parameters.
pub(super) struct Words<'a> {
    name: &'a str,
    parameters: Vec<(&'a str, u32)>,
}

impl<'a> Words<'a> {
    pub(super) fn read(words: &'a str) -> Result<Self, PolicyError> {
        let (name, list) = words.split_once(':').unwrap_or((words, ""));
        let parameters = list.split(',').filter(|part| !part.is_empty()).map(|part| {
            let parsed = part.split_once('=').and_then(|(key, value)| Some((key, value.parse().ok()?)));
            parsed.ok_or_else(|| {
                PolicyError(format!("`{part}` in `{words}` is not understood; write a whole number, as in `T=10`"))
            })
        });
        Ok(Self { name, parameters: parameters.collect::<Result<_, _>>()? })
    }

    pub(super) fn name(&self) -> &'a str {
        self.name
    }

    /// The values of these parameters; each must be there once, and no other.
    pub(super) fn only<const N: usize>(&self, keys: [&str; N]) -> Result<[u32; N], PolicyError> {
        let refuse = || PolicyError(format!("`{}` has the parameters {}, each once", self.name, keys.join(", ")));
        if self.parameters.len() != N {
            return Err(refuse());
        }
        let mut values = [0; N];
        for (value, wanted) in values.iter_mut().zip(keys) {
            *value = self.parameters.iter().find(|(key, _)| *key == wanted).ok_or_else(refuse)?.1;
        }
        Ok(values)
    }
}

impl PolicyError {
    pub(super) fn new(text: String) -> Self {
        Self(text)
    }

    /// Refuses a parameter outside `least..=most`, saying what it means.
    pub(super) fn unless_within(name: &str, value: u32, least: u32, most: u32, meaning: &str) -> Result<(), Self> {
        if (least..=most).contains(&value) {
            return Ok(());
        }
        Err(Self(format!("{name}={value} is out of range: {meaning} is from {least} to {most}")))
    }
}

/// The largest size ratio: 2^16 times [`DATA_MAX`](super::DATA_MAX) can still be counted in 64 bits.
const RATIO_MAX: u32 = 1 << 16;

/// Refuses what is no size ratio.
pub(super) fn check_ratio(ratio: u32) -> Result<(), PolicyError> {
    PolicyError::unless_within("T", ratio, 2, RATIO_MAX, "the size ratio of neighbouring levels")
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not a policy: {}", self.0)
    }
}

impl std::error::Error for PolicyError {}
