//! Parsing and formatting of sizes, durations and durability levels: `64MiB`, `interval:50`.

use std::time::Duration;

use tamarack::Durability;

/// Units of size, the longest first so that `MiB` is not taken for a number followed by `B`.
const UNITS: &[(&str, u64)] = &[
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("kB", 1_000),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("B", 1),
    ("", 1),
];

/// Parses a size: a whole number with an optional unit, such as `4096`, `64MiB` or
/// `1GB`.
///
/// # Errors
/// A message that shows how to write a size.
pub(crate) fn parse_bytes(text: &str) -> Result<u64, String> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let unit_bytes = UNITS.iter().find(|(name, _)| *name == unit.trim_start()).map(|(_, bytes)| *bytes);
    let number: Option<u64> = number.parse().ok();
    number
        .zip(unit_bytes)
        .and_then(|(number, unit_bytes)| number.checked_mul(unit_bytes))
        .ok_or_else(|| "write a size as a whole number with a unit, such as 64MiB, 512KiB or 1GB".to_owned())
}

/// `bytes` as people read it: `1.4 MiB`.
pub(crate) fn show_bytes(bytes: u64) -> String {
    const NAMES: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut size = bytes as f64 / 1024.0;
    let mut unit = 0;
    // 1023.95 would be shown as "1024.0", which is one of the next unit.
    while size >= 1023.95 && unit + 1 < NAMES.len() {
        size /= 1024.0;
        unit += 1;
    }
    format!("{size:.1} {}", NAMES[unit])
}

/// A time as people read it: `12 s`, `3 min`, `1.5 h`.
pub(crate) fn show_seconds(seconds: f64) -> String {
    match seconds {
        s if s < 9.95 => format!("{s:.1} s"),
        s if s < 119.5 => format!("{s:.0} s"),
        s if s < 119.5 * 60.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

/// The durability that `text` names: `buffered`, `sync`, or `interval:MS`.
///
/// # Errors
/// A message that names the levels.
pub(crate) fn parse_durability(text: &str) -> Result<Durability, String> {
    match text {
        "buffered" => Ok(Durability::Buffered),
        "sync" => Ok(Durability::Sync),
        _ => text
            .strip_prefix("interval:")
            .and_then(|ms| ms.trim_end_matches("ms").parse().ok())
            .map(|ms| Durability::Interval(Duration::from_millis(ms)))
            .ok_or_else(|| {
                "write buffered, sync, or interval:MS with MS in milliseconds, such as interval:50".to_owned()
            }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Valid and invalid sizes.
    #[test]
    fn reads_sizes() {
        for (text, bytes) in
            [("0", 0), ("4096", 4096), ("64MiB", 64 << 20), ("1 GiB", 1 << 30), ("3kB", 3000), ("7B", 7)]
        {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
        for text in ["", "MiB", "1.5MiB", "-1", "64mib", "99999999999TiB", "1 2"] {
            assert!(parse_bytes(text).is_err_and(|message| message.contains("64MiB")), "{text}");
        }
    }

    /// Shown sizes round to one digit and never reach 1024 of a unit.
    #[test]
    fn shows_sizes() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1_468_006, "1.4 MiB"),
            ((1 << 20) - 1, "1.0 MiB"),
            (u64::MAX, "16384.0 PiB"),
        ] {
            assert_eq!(show_bytes(bytes), text);
        }
    }

    /// Times are shown in a fitting unit.
    #[test]
    fn shows_times() {
        for (seconds, text) in
            [(0.0, "0.0 s"), (9.94, "9.9 s"), (9.96, "10 s"), (119.4, "119 s"), (120.0, "2 min"), (9000.0, "2.5 h")]
        {
            assert_eq!(show_seconds(seconds), text);
        }
    }

    /// The three levels.
    #[test]
    fn reads_durability() {
        assert_eq!(parse_durability("buffered"), Ok(Durability::Buffered));
        assert_eq!(parse_durability("sync"), Ok(Durability::Sync));
        assert_eq!(parse_durability("interval:50"), Ok(Durability::Interval(Duration::from_millis(50))));
        assert!(parse_durability("interval").is_err());
        assert!(parse_durability("interval:soon").is_err());
    }
}
