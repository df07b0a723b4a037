//! Seeded random numbers for tests: SplitMix64.

/// A generator.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 random bits.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number in `0..bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }
}

/// The seeds to try: the one in `TAMARACK_SEED`, or as many as `TAMARACK_ROUNDS` says, or `rounds`.
pub(crate) fn seeds(rounds: u64) -> std::ops::Range<u64> {
    let number = |name: &str| {
        let text = std::env::var(name).ok()?;
        let parsed = text.strip_prefix("0x").map_or_else(|| text.parse().ok(), |hex| u64::from_str_radix(hex, 16).ok());
        Some(parsed.unwrap_or_else(|| panic!("{name}={text} is not a number")))
    };
    match number("TAMARACK_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("TAMARACK_ROUNDS").unwrap_or(rounds),
    }
}
