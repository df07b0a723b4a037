//! Amounts with their units, each with a type of its own.
//!
//! All sizes in this crate are **raw entry bytes**: keys and values as the user wrote them plus the
//! entry's header, before compression, without blocks, filters or checksums. A shape therefore
//! means the same with any compression.
//!
//! Sizes are written and read as `64MiB`: a number without spaces, then `B`, `KiB`, `MiB`, `GiB`,
//! `TiB` or nothing for bytes. The printed form is exact, and reads back as the same size.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul};
use std::str::FromStr;

/// A number of raw entry bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

/// A number of entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Entries(pub u64);

impl Bytes {
    /// Zero bytes.
    pub const ZERO: Self = Self(0);

    /// The number as a real number, for formulas.
    pub fn as_f64(self) -> f64 {
        self.0 as f64
    }

    /// `self / other` as a real number.
    pub fn ratio(self, other: Self) -> f64 {
        self.as_f64() / other.as_f64()
    }
}

impl Add for Bytes {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl AddAssign for Bytes {
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}

impl Mul<u64> for Bytes {
    type Output = Self;

    /// Saturates at the largest size.
    fn mul(self, factor: u64) -> Self {
        Self(self.0.saturating_mul(factor))
    }
}

impl Sum for Bytes {
    fn sum<I: Iterator<Item = Self>>(sizes: I) -> Self {
        sizes.fold(Self::ZERO, Add::add)
    }
}

/// Units of sizes, largest first.
const UNITS: [(&str, u64); 4] = [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];

impl fmt::Display for Bytes {
    /// Formats in the largest unit that divides the size, so nothing is rounded.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = UNITS.iter().find(|(_, unit)| self.0 > 0 && self.0.is_multiple_of(*unit));
        let text = unit.map_or_else(|| self.0.to_string(), |(name, unit)| format!("{}{name}", self.0 / unit));
        f.pad(&text)
    }
}

impl FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, name) = text.split_at(digits);
        let unit = match name {
            "" | "B" => Some(1),
            _ => UNITS.iter().find(|(known, _)| *known == name).map(|(_, unit)| *unit),
        };
        let explain = || format!("`{text}` is not a size; write one as `64MiB` (units: B, KiB, MiB, GiB, TiB)");
        let number: u64 = number.parse().map_err(|_| explain())?;
        unit.and_then(|unit| number.checked_mul(unit)).map(Self).ok_or_else(explain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Printed sizes read back, in the largest exact unit.
    #[test]
    fn sizes_read_back() {
        for (bytes, text) in
            [(0, "0"), (1, "1"), (1023, "1023"), (1 << 20, "1MiB"), (3 << 29, "1536MiB"), (1025, "1025")]
        {
            assert_eq!(Bytes(bytes).to_string(), text);
            assert_eq!(text.parse(), Ok(Bytes(bytes)));
        }
        assert_eq!("7B".parse(), Ok(Bytes(7)));
    }

    /// Invalid sizes are refused, also those that are too large.
    #[test]
    fn refuses_what_is_no_size() {
        for text in ["", "MiB", "64 MiB", "64MB", "-1", "99999999TiB"] {
            assert!(text.parse::<Bytes>().is_err(), "{text}");
        }
    }
}
