//! The text form of a [`Device`]: a version, and a line with name, value and unit of each figure.
//!
//! ```text
//! tamarack device 1
//! # what follows a # is a comment
//! read 91.2 us
//! reads_depth_1 10650 1/s
//! …
//! ```
//!
//! Every figure stands there once, in any order; those may be missing that earlier programs did not
//! measure. Values are decimal numbers above 0, without sign and exponent. Printing gives the
//! shortest decimal number from which parsing makes the same value again, bit by bit: units are
//! powers of ten, so printing and parsing only move the point.
//!
//! The list of figures is the one place that knows names and units; programs print from it, too.

use std::fmt;
use std::str::FromStr;

use super::Device;

/// The version of the text form, in its first line.
const VERSION: u32 = 1;

/// What the first line begins with.
const FIRST_WORDS: &str = "tamarack device ";

/// The unit of a figure in the text form.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FigureUnit {
    /// 10⁻⁹ seconds.
    Nanoseconds,
    /// 10⁻⁶ seconds.
    Microseconds,
    /// Operations per second.
    PerSecond,
    /// 10⁶ bytes per second.
    MegabytesPerSecond,
}

impl FigureUnit {
    /// Its name in the text form.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nanoseconds => "ns",
            Self::Microseconds => "us",
            Self::PerSecond => "1/s",
            Self::MegabytesPerSecond => "MB/s",
        }
    }

    /// What the unit without its power of ten is called in names: `seconds`, `per_second` or
    /// `bytes_per_second`.
    pub fn base(self) -> &'static str {
        match self {
            Self::Nanoseconds | Self::Microseconds => "seconds",
            Self::PerSecond => "per_second",
            Self::MegabytesPerSecond => "bytes_per_second",
        }
    }

    /// The power of ten.
    fn exponent(self) -> i32 {
        match self {
            Self::Nanoseconds => -9,
            Self::Microseconds => -6,
            Self::PerSecond => 0,
            Self::MegabytesPerSecond => 6,
        }
    }
}

/// A figure of a device: its name and unit, and where it is.
#[derive(Clone, Copy, Debug)]
pub struct DeviceFigure {
    /// The name in the text form.
    pub name: &'static str,
    /// The unit in the text form.
    pub unit: FigureUnit,
    /// What it is, in a few words.
    pub what: &'static str,
    at: fn(&mut Device) -> &mut f64,
}

impl DeviceFigure {
    /// The value, in seconds or per second.
    pub fn get(&self, device: &Device) -> f64 {
        let mut copy = *device;
        *(self.at)(&mut copy)
    }

    /// Sets the value, in seconds or per second.
    pub fn set(&self, device: &mut Device, value: f64) {
        *(self.at)(device) = value;
    }

    /// The value in the figure's unit, as in the text form.
    pub fn show(&self, device: &Device) -> String {
        decimal(self.get(device), self.unit.exponent())
    }

    pub(super) fn check(&self, device: &Device) -> Result<(), DeviceError> {
        let value = self.get(device);
        if value.is_finite() && value > 0.0 {
            return Ok(());
        }
        Err(DeviceError(format!("{}: {value} is not a finite number above 0", self.name)))
    }
}

const fn figure(
    name: &'static str,
    unit: FigureUnit,
    what: &'static str,
    at: fn(&mut Device) -> &mut f64,
) -> DeviceFigure {
    DeviceFigure { name, unit, what, at }
}

use FigureUnit::{MegabytesPerSecond, Microseconds, Nanoseconds, PerSecond};

/// All figures of a device, in the order of the text form.
pub const DEVICE_FIGURES: &[DeviceFigure] = &[
    figure("read", Microseconds, "random read of 4 KiB, alone", |d| &mut d.read_seconds),
    figure("reads_depth_1", PerSecond, "random reads, one at a time", |d| &mut d.reads_per_second[0]),
    figure("reads_depth_2", PerSecond, "random reads, 2 at a time", |d| &mut d.reads_per_second[1]),
    figure("reads_depth_4", PerSecond, "random reads, 4 at a time", |d| &mut d.reads_per_second[2]),
    figure("reads_depth_8", PerSecond, "random reads, 8 at a time", |d| &mut d.reads_per_second[3]),
    figure("reads_depth_16", PerSecond, "random reads, 16 at a time", |d| &mut d.reads_per_second[4]),
    figure("reads_depth_32", PerSecond, "random reads, 32 at a time", |d| &mut d.reads_per_second[5]),
    figure("sequential_read", MegabytesPerSecond, "sequential reads", |d| &mut d.read_bytes_per_second),
    figure("sequential_write", MegabytesPerSecond, "sequential writes, synced", |d| &mut d.write_bytes_per_second),
    figure("sync", Microseconds, "sync after a small write", |d| &mut d.sync_seconds),
    figure("hash", Nanoseconds, "digest of a key, fixed part", |d| &mut d.hash_seconds),
    figure("hash_byte", Nanoseconds, "digest of a key, for each byte", |d| &mut d.hash_byte_seconds),
    figure("probe_blocked", Nanoseconds, "probe of a blocked Bloom filter", |d| &mut d.probe_seconds.blocked),
    figure("probe_bloom", Nanoseconds, "probe of a standard Bloom filter", |d| &mut d.probe_seconds.bloom),
    figure("probe_elastic", Nanoseconds, "probe of an elastic filter", |d| &mut d.probe_seconds.elastic),
    figure("probe_chucky", Nanoseconds, "probe of Chucky, for the whole tree", |d| &mut d.probe_seconds.chucky),
    figure("index_search", Nanoseconds, "search of a run's index", |d| &mut d.index_seconds),
    figure("entry_read", Nanoseconds, "entry found in a cached block", |d| &mut d.entry_seconds),
    figure("scan_step", Nanoseconds, "entry of a cached scan", |d| &mut d.scan_seconds),
    figure("compaction_entry", Nanoseconds, "entry of a compaction's inputs", |d| &mut d.compaction_seconds),
    figure("put", Nanoseconds, "put of an entry, not synced", |d| &mut d.put_seconds),
    figure("block_decoded", Nanoseconds, "block of 4 KiB, besides its read", |d| &mut d.decode_seconds),
    figure("lookup", Nanoseconds, "lookup, besides runs", |d| &mut d.lookup_seconds),
    figure("scan_begin", Nanoseconds, "scan, besides runs and entries", |d| &mut d.scan_begin_seconds),
    figure("scan_block", Nanoseconds, "first block of a scan, besides that", |d| &mut d.scan_block_seconds),
];

/// Figures that were measured from the beginning. The others may be missing, and are then those of
/// the [default](Device::default): a calibration by an earlier program stays of use.
const FIRST_FIGURES: usize = 21;

/// Why a text is no device, or a device is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceError(String);

impl fmt::Display for DeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for DeviceError {}

impl fmt::Display for Device {
    /// The text form, with a line end after each line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{FIRST_WORDS}{VERSION}")?;
        DEVICE_FIGURES
            .iter()
            .try_for_each(|figure| writeln!(f, "{} {} {}", figure.name, figure.show(self), figure.unit.name()))
    }
}

impl FromStr for Device {
    type Err = DeviceError;

    /// Parses the text form.
    ///
    /// # Errors
    /// A message that names the line, or the figure that is missing.
    fn from_str(text: &str) -> Result<Self, DeviceError> {
        let lines = (1..).zip(text.lines()).map(|(number, line)| (number, line.split('#').next().unwrap_or("").trim()));
        let mut lines = lines.filter(|(_, line)| !line.is_empty());
        check_version(lines.next())?;
        let (mut device, mut seen) = (Self::default(), [false; DEVICE_FIGURES.len()]);
        for (number, line) in lines {
            let place = parse_line(line, &mut device).map_err(|what| DeviceError(format!("line {number}: {what}")))?;
            if std::mem::replace(&mut seen[place], true) {
                let name = DEVICE_FIGURES[place].name;
                return Err(DeviceError(format!("line {number}: `{name}` is there for the second time; remove one")));
            }
        }
        match seen[..FIRST_FIGURES].iter().position(|seen| !seen) {
            None => Ok(device),
            Some(missing) => {
                let DeviceFigure { name, unit, .. } = DEVICE_FIGURES[missing];
                Err(DeviceError(format!("`{name}` is missing: add a line `{name} VALUE {}`", unit.name())))
            }
        }
    }
}

fn check_version(first: Option<(usize, &str)>) -> Result<(), DeviceError> {
    let Some((number, line)) = first else {
        return Err(DeviceError(format!("nothing is there; the first line is `{FIRST_WORDS}{VERSION}`")));
    };
    let wrong = |what: String| Err(DeviceError(format!("line {number}: {what}")));
    match line.strip_prefix(FIRST_WORDS).map(str::parse::<u32>) {
        Some(Ok(VERSION)) => Ok(()),
        Some(Ok(version)) => wrong(format!("version {version} of this form; this program reads version {VERSION}")),
        _ => wrong(format!("the first line is to be `{FIRST_WORDS}{VERSION}`")),
    }
}

/// Takes a figure into `device`, and returns its place among all.
fn parse_line(line: &str, device: &mut Device) -> Result<usize, String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [name, value, unit] = words[..] else {
        return Err("it is to have three words, name, value and unit, as in `read 91.2 us`".to_owned());
    };
    let place = DEVICE_FIGURES.iter().position(|figure| figure.name == name);
    let place = place.ok_or_else(|| {
        let names: Vec<&str> = DEVICE_FIGURES.iter().map(|figure| figure.name).collect();
        format!("`{name}` is not known; the names are {}", names.join(", "))
    })?;
    let figure = &DEVICE_FIGURES[place];
    if unit != figure.unit.name() {
        return Err(format!("{name}: `{unit}` is not its unit, which is {}", figure.unit.name()));
    }
    let value = parse_decimal(value, figure.unit.exponent());
    figure.set(device, value.ok_or_else(|| format!("{name}: `{}` is not a number above 0, such as 91.2", words[1]))?);
    Ok(place)
}

/// The number `text` · 10^`exponent`, if that is finite and above 0.
fn parse_decimal(text: &str, exponent: i32) -> Option<f64> {
    let is_decimal = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let value: f64 = format!("{text}e{exponent}").parse().ok().filter(|_| is_decimal)?;
    (value.is_finite() && value > 0.0).then_some(value)
}

/// The shortest text from which [`parse_decimal`] makes `value`.
fn decimal(value: f64, exponent: i32) -> String {
    // Digits with a point after the first one, and a power of ten.
    let scientific = format!("{value:e}");
    let Some((digits, power)) = scientific.split_once('e') else { return scientific };
    let (Ok(power), digits) = (power.parse::<i32>(), digits.replace('.', "")) else { return scientific };
    // How many digits stand before the point.
    match 1 + power - exponent {
        before if before <= 0 => format!("0.{}{digits}", "0".repeat(before.unsigned_abs() as usize)),
        before if before as usize >= digits.len() => digits.clone() + &"0".repeat(before as usize - digits.len()),
        before => format!("{}.{}", &digits[..before as usize], &digits[before as usize..]),
    }
}

#[cfg(test)]
mod tests {
    use tamarack_testing::Random;

    use super::*;

    /// A device of random figures, over many powers of ten.
    fn any(random: &mut Random) -> Device {
        let mut device = Device::default();
        for figure in DEVICE_FIGURES {
            let value = loop {
                let value = f64::from_bits(random.next() & !(1 << 63));
                if value.is_finite() && value > 1e-30 && value < 1e30 {
                    break value;
                }
            };
            figure.set(&mut device, if random.one_in(4) { value.max(1.0).round() } else { value });
        }
        device
    }

    /// Parsing gives what was printed, bit by bit.
    #[test]
    fn round_trip() {
        let mut random = Random::new(1);
        let named = Device::NAMES.map(|name| Device::named(name).expect(name));
        for device in named.into_iter().chain(std::iter::repeat_with(|| any(&mut random)).take(300)) {
            let text = device.to_string();
            assert_eq!(text.parse(), Ok(device), "{text}");
            assert_eq!(text.lines().count(), 1 + DEVICE_FIGURES.len());
        }
        // The ends of what a number can be.
        for value in [f64::MIN_POSITIVE, f64::from_bits(1), f64::MAX] {
            let device = Device { sync_seconds: value, write_bytes_per_second: value, ..Device::default() };
            assert_eq!(device.to_string().parse(), Ok(device), "{value}");
        }
    }

    /// Values are shown in their units, as people write them.
    #[test]
    fn values_are_decimal() {
        for (value, exponent, text) in [
            (100e-6, -6, "100"),
            (91.25e-6, -6, "91.25"),
            (0.5e-9, -9, "0.5"),
            (2e9, 6, "2000"),
            (1234.5, 0, "1234.5"),
            (3e-12, -6, "0.000003"),
        ] {
            assert_eq!(decimal(value, exponent), text);
            assert_eq!(parse_decimal(text, exponent), Some(value));
        }
        for text in ["", ".", "-1", "+1", "1e3", "nan", "inf", "0", "0.0", "1.2.3", "1,5", "0x1", "1_0", "١"] {
            assert_eq!(parse_decimal(text, -6), None, "{text}");
        }
        let (huge, tiny) = ("9".repeat(400), format!("0.{}1", "0".repeat(400)));
        assert_eq!((parse_decimal(&huge, 0), parse_decimal(&tiny, 0)), (None, None));
    }

    /// Comments, empty lines, blanks, other line ends and another order say the same.
    #[test]
    fn form_is_free() {
        let device = Device::ssd();
        let mut lines: Vec<String> = device.to_string().lines().map(str::to_owned).collect();
        lines[1..].reverse();
        let text = format!("# measured\r\n\r\n  {}  # each\r\n", lines.join(" # and\r\n\t"));
        assert_eq!(text.parse(), Ok(device));
    }

    /// Figures that earlier programs did not measure are the default's; others must be there.
    #[test]
    fn later_figures_may_be_missing() {
        let device = any(&mut Random::new(2));
        for (place, figure) in DEVICE_FIGURES.iter().enumerate() {
            let prefix = format!("{} ", figure.name);
            let text: String = device
                .to_string()
                .lines()
                .filter(|line| !line.starts_with(&prefix))
                .map(|line| format!("{line}\n"))
                .collect();
            let mut expected = device;
            figure.set(&mut expected, figure.get(&Device::default()));
            match text.parse::<Device>() {
                Ok(found) => assert!(place >= FIRST_FIGURES && found == expected, "{}", figure.name),
                Err(error) => {
                    assert!(place < FIRST_FIGURES && error.to_string().contains(figure.name), "{error}");
                }
            }
        }
    }

    /// What is wrong is named with its line.
    #[test]
    fn refusals() {
        let text = Device::nvme().to_string();
        let changed = |from: &str, to: &str| {
            assert!(text.contains(from), "{from}");
            text.replacen(from, to, 1)
        };
        for (text, part) in [
            (String::new(), "the first line is `tamarack device 1`"),
            ("# nothing\n".to_owned(), "the first line is"),
            (changed("tamarack device 1\n", ""), "line 1: the first line is to be `tamarack device 1`"),
            (changed("device 1", "device 2"), "line 1: version 2 of this form"),
            (changed("device 1", "device 1.0"), "line 1: the first line"),
            (changed("read 100 us", "read 100"), "line 2: it is to have three words"),
            (changed("read 100 us", "read 100 us us"), "line 2: it is to have three words"),
            (changed("read 100 us", "raed 100 us"), "line 2: `raed` is not known; the names are read, reads_depth_1"),
            (changed("read 100 us", "read 100 ms"), "line 2: read: `ms` is not its unit, which is us"),
            (changed("read 100 us", "read NaN us"), "line 2: read: `NaN` is not a number above 0"),
            (changed("read 100 us", "read -1 us"), "`-1` is not"),
            (changed("read 100 us", "read 0 us"), "`0` is not"),
            (changed("read 100 us", "read inf us"), "`inf` is not"),
            (changed("sync 100 us\n", ""), "`sync` is missing: add a line `sync VALUE us`"),
            (changed("sync 100 us\n", "sync 100 us\nsync 100 us\n"), "line 12: `sync` is there for the second time"),
        ] {
            let error = text.parse::<Device>().expect_err("it is wrong").to_string();
            assert!(error.contains(part), "`{part}` is not in `{error}`");
        }
    }

    /// Whatever the text, parsing ends with a device that is right, or an error.
    #[test]
    fn hostile_text_never_panics() {
        let mut random = Random::new(7);
        let pieces: Vec<String> = Device::nvme().to_string().split_inclusive(['\n', ' ']).map(str::to_owned).collect();
        let mut parsed = 0;
        for round in 0..3_000 {
            let mut bytes = Vec::new();
            if round % 3 == 0 {
                let count = random.below(200);
                bytes = random.bytes(count);
            } else {
                // A text that is nearly right.
                for piece in &pieces {
                    match random.below(40) {
                        0 => {}
                        1 => bytes.extend_from_slice(random.pick(&pieces).as_bytes()),
                        2 => bytes.extend(piece.bytes().map(|byte| byte ^ (1 << random.below(8)))),
                        _ => bytes.extend_from_slice(piece.as_bytes()),
                    }
                    if round % 3 == 1 {
                        bytes.extend_from_slice(b" ");
                    }
                }
            }
            if let Ok(device) = String::from_utf8_lossy(&bytes).parse::<Device>() {
                assert_eq!(device.check(), Ok(()));
                parsed += 1;
            }
        }
        // Every cut, too.
        let text = Device::nvme().to_string();
        parsed += (0..=text.len()).filter(|&end| text[..end].parse::<Device>().is_ok()).count();
        assert!(parsed > 0, "nothing was right");
    }
}
