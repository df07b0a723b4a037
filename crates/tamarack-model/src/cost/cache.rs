//! Hits of a cache that keeps what is read most.
//!
//! The engine admits a block or entry to its caches by how often it was asked for lately, so that
//! in a steady state the cache has the most popular ones. A cache of entries of keys that are
//! chosen by Zipf's law with exponent θ then serves the share of lookups that the most popular keys
//! get; if every key is as likely, the share of the data that it has room for.

/// Memory of a cached entry beside its raw bytes, in bytes.
const CACHED_ENTRY_BYTES: f64 = 48.0;

/// Entries of so many raw bytes for which a cache of entries of `cache` bytes has room.
pub fn entries(cache: f64, entry: f64) -> f64 {
    cache.max(0.0) / (entry + CACHED_ENTRY_BYTES)
}

/// The share of lookups that a cache serves with room for `cached` of `keys` keys, which are chosen
/// by Zipf's law with this exponent, from 0 on: `H(cached, θ) / H(keys, θ)`, with `H(n, θ) = Σ
/// r^-θ` over the n most popular.
pub fn hits(cached: f64, keys: f64, theta: f64) -> f64 {
    if cached >= keys {
        return 1.0;
    }
    (popularity(cached.max(0.0), theta) / popularity(keys, theta)).clamp(0.0, 1.0)
}

/// `H(n, θ)`: the first 64 terms, and the integral of the others (with the trapezoidal rule's
/// correction, which is exact to a part in 10⁴ from there on).
fn popularity(n: f64, theta: f64) -> f64 {
    const SUMMED: f64 = 64.0;
    let whole: f64 = (1..=n.min(SUMMED) as u64).map(|rank| (rank as f64).powf(-theta)).sum();
    if n <= SUMMED {
        return whole;
    }
    let integral = if (theta - 1.0).abs() < 1e-9 {
        (n / SUMMED).ln()
    } else {
        (n.powf(1.0 - theta) - SUMMED.powf(1.0 - theta)) / (1.0 - theta)
    };
    whole + integral + (n.powf(-theta) - SUMMED.powf(-theta)) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 100 entries with their 48 bytes.
    #[test]
    fn entries_by_hand() {
        assert_eq!(entries(100.0 * 148.0, 100.0), 100.0);
        assert_eq!(entries(-1.0, 100.0), 0.0, "memory that the other parts have taken");
    }

    /// Against sums term by term.
    #[test]
    fn popularity_by_terms() {
        for theta in [0.0, 0.5, 0.99, 1.0, 1.3] {
            for keys in [3_u64, 64, 65, 1_000, 200_000] {
                let sum: f64 = (1..=keys).map(|rank| (rank as f64).powf(-theta)).sum();
                let found = popularity(keys as f64, theta);
                assert!((found / sum - 1.0).abs() < 1e-4, "{keys}, {theta}: {found} instead of {sum}");
            }
        }
    }

    /// Extremes, and a share of uniform keys.
    #[test]
    fn shares_of_lookups() {
        assert_eq!([hits(0.0, 10.0, 0.99), hits(10.0, 10.0, 0.99), hits(20.0, 10.0, 0.0)], [0.0, 1.0, 1.0]);
        assert!((hits(250.0, 1_000.0, 0.0) - 0.25).abs() < 1e-9);
        assert!(hits(10_000.0, 1e6, 0.99) > 0.6);
    }
}
