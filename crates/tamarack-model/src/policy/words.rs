//! Parser for policy specifications, `name:T=5,K=4`.

use std::fmt;

/// An invalid policy specification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyError(String);

/// A policy's name and parameters.
pub(super) struct Words<'a> {
    words: &'a str,
    name: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
}

impl<'a> Words<'a> {
    pub(super) fn read(words: &'a str) -> Result<Self, PolicyError> {
        let (name, list) = words.split_once(':').unwrap_or((words, ""));
        let parameters = list.split(',').filter(|part| !part.is_empty()).map(|part| {
            part.split_once('=').ok_or_else(|| {
                PolicyError(format!("`{part}` in `{words}` is not understood; write a parameter as in `T=10`"))
            })
        });
        Ok(Self { words, name, parameters: parameters.collect::<Result<_, _>>()? })
    }

    pub(super) fn name(&self) -> &'a str {
        self.name
    }

    /// The values of these parameters, all whole numbers; each must be given once, and no other.
    pub(super) fn only<const N: usize>(&self, keys: [&str; N]) -> Result<[u32; N], PolicyError> {
        self.check(&keys, &[])?;
        let mut values = [0; N];
        for (value, key) in values.iter_mut().zip(keys) {
            *value = self.whole(key)?;
        }
        Ok(values)
    }

    /// Refuses all other parameters: each of `needed` must be given once, each of `optional` at
    /// most once.
    pub(super) fn check(&self, needed: &[&str], optional: &[&str]) -> Result<(), PolicyError> {
        let times = |wanted: &&str| self.parameters.iter().filter(|(key, _)| key == wanted).count();
        let known = |(key, _): &(&str, &str)| needed.iter().chain(optional).any(|one| one == key);
        let right = self.parameters.iter().all(known)
            && needed.iter().all(|key| times(key) == 1)
            && optional.iter().all(|key| times(key) <= 1);
        if right {
            return Ok(());
        }
        let (name, must, may) = (self.name, needed.join(", "), optional.join(", "));
        Err(PolicyError(match (needed, optional) {
            ([], _) => format!("`{name}` may have the parameters {may}, each once"),
            (_, []) => format!("`{name}` has the parameters {must}, each once"),
            _ => format!("`{name}` has the parameters {must}, each once, and may have {may}"),
        }))
    }

    /// The value of this parameter, a whole number. It [must be given](Self::check).
    pub(super) fn whole(&self, key: &str) -> Result<u32, PolicyError> {
        self.value(key, "a whole number, as in `T=10`")
    }

    /// The value of this parameter, a whole number; `default` if it is not given.
    pub(super) fn whole_or(&self, key: &str, default: u32) -> Result<u32, PolicyError> {
        if self.has(key) { self.whole(key) } else { Ok(default) }
    }

    /// The value of this parameter, a number. It [must be given](Self::check).
    pub(super) fn number(&self, key: &str) -> Result<f64, PolicyError> {
        self.value(key, "a number, as in `c=0.8`")
    }

    /// The value of this parameter, a number; `default` if it is not given.
    pub(super) fn number_or(&self, key: &str, default: f64) -> Result<f64, PolicyError> {
        if self.has(key) { self.number(key) } else { Ok(default) }
    }

    fn has(&self, key: &str) -> bool {
        self.parameters.iter().any(|(known, _)| *known == key)
    }

    fn value<T: std::str::FromStr>(&self, key: &str, right: &str) -> Result<T, PolicyError> {
        let text = self.parameters.iter().find(|(known, _)| *known == key).map_or("", |(_, text)| text);
        let explain = || PolicyError(format!("`{key}={text}` in `{}` is not understood; write {right}", self.words));
        text.parse().map_err(|_| explain())
    }
}

impl PolicyError {
    pub(super) fn new(text: String) -> Self {
        Self(text)
    }

    /// Refuses a parameter outside `least..=most`, with its meaning.
    pub(super) fn unless_within<T: PartialOrd + fmt::Display + Copy>(
        name: &str,
        value: T,
        least: T,
        most: T,
        meaning: &str,
    ) -> Result<(), Self> {
        if (least..=most).contains(&value) {
            return Ok(());
        }
        Err(Self(format!("{name}={value} is out of range: {meaning} is from {least} to {most}")))
    }
}

/// The maximum size ratio: 2^16 times [`DATA_MAX`](super::DATA_MAX) still fits 64 bits.
const RATIO_MAX: u32 = 1 << 16;

/// Refuses an invalid size ratio.
pub(super) fn check_ratio(ratio: u32) -> Result<(), PolicyError> {
    PolicyError::unless_within("T", ratio, 2, RATIO_MAX, "the size ratio of neighbouring levels")
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invalid policy: {}", self.0)
    }
}

impl std::error::Error for PolicyError {}
