//! Records: key and value as one line of text, in the formats of `import`, `export` and `scan`.
//!
//! ```text
//! a line's bytes, without its end ── decode ──► key, value ── encode ──► the line with a line feed
//! ```
//!
//! In every format one record is one line, so that line numbers mean records. Encoding is
//! reversible for all bytes: decoding an encoded record gives the same key and value (tested on
//! random bytes, for each format).

mod csv;
mod jsonl;
mod tsv;

use clap::builder::PossibleValue;
use clap::{Arg, ArgMatches, ValueEnum, value_parser};

/// How a record is written as a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Format {
    /// Key, tab, value.
    Tsv,
    /// Key, comma, value, either in quotes if need be.
    Csv,
    /// One JSON object per line.
    JsonLines,
}

/// The formats and escapes, explained to users.
pub(crate) const HELP: &str = "\
Formats, with one record per line and no header line:
  tsv    key, tab, value, both escaped as described below
  csv    key, comma, value, both escaped as described below; a field that contains a
         comma or a quote is enclosed in double quotes, with quotes doubled
  jsonl  {\"key\":\"...\",\"value\":\"...\"}; bytes that are not UTF-8 are written as
         hexadecimal digits in \"key_hex\" or \"value_hex\" instead

Escapes: keys and values are bytes. A backslash is written \\\\, a tab \\t, a line feed
\\n, a carriage return \\r, and a byte that is not part of valid UTF-8 \\xNN with two
hexadecimal digits. Everything else is written as it is. Input may use \\xNN for any
byte. Reading restores exactly the bytes that were written.";

/// The argument that chooses the format.
pub(crate) fn format_argument() -> Arg {
    Arg::new("format")
        .long("format")
        .value_name("FORMAT")
        .help("Line format: tsv, csv or jsonl")
        .default_value("tsv")
        .hide_possible_values(true)
        .value_parser(value_parser!(Format))
}

/// The format that was chosen.
pub(crate) fn format(matches: &ArgMatches) -> Format {
    *matches.get_one("format").expect("it has a default")
}

impl Format {
    /// Reads the record in `line`, which has no line end, into `key` and `value`, which are cleared
    /// first.
    ///
    /// # Errors
    /// A message that says what is wrong with the line and how to write it.
    pub(crate) fn decode(self, line: &[u8], key: &mut Vec<u8>, value: &mut Vec<u8>) -> Result<(), String> {
        key.clear();
        value.clear();
        match self {
            Self::Tsv => tsv::decode(line, key, value),
            Self::Csv => csv::decode(line, key, value),
            Self::JsonLines => jsonl::decode(line, key, value),
        }
    }

    /// Appends the record's line to `out`, line feed included.
    pub(crate) fn encode(self, key: &[u8], value: &[u8], out: &mut Vec<u8>) {
        match self {
            Self::Tsv => tsv::encode(key, value, out),
            Self::Csv => csv::encode(key, value, out),
            Self::JsonLines => jsonl::encode(key, value, out),
        }
        out.push(b'\n');
    }
}

impl ValueEnum for Format {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self::Tsv, Self::Csv, Self::JsonLines]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(match self {
            Self::Tsv => "tsv",
            Self::Csv => "csv",
            Self::JsonLines => "jsonl",
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Random, special_bytes};

    /// Random keys and values come back from each format, and each record is one line.
    #[test]
    fn any_record_comes_back() {
        let mut random = Random::new(tamarack_testing::seed(0x7a3a_2ac5));
        let (mut key, mut value) = (Vec::new(), Vec::new());
        for _ in 0..10_000 {
            let record = (special_bytes(&mut random, 8), special_bytes(&mut random, 8));
            for format in Format::value_variants() {
                let mut line = Vec::new();
                format.encode(&record.0, &record.1, &mut line);
                assert_eq!(line.pop(), Some(b'\n'));
                assert!(!line.contains(&b'\n') && !line.ends_with(b"\r"), "{format:?} {line:?}");
                format.decode(&line, &mut key, &mut value).unwrap_or_else(|e| panic!("{format:?} {record:?}: {e}"));
                assert_eq!((&key, &value), (&record.0, &record.1), "{format:?} {line:?}");
            }
        }
    }

    /// No line, however damaged, does worse than a message.
    #[test]
    fn any_line_is_decoded_or_refused() {
        let mut random = Random::new(tamarack_testing::seed(0x7a3a_2ac5));
        let (mut key, mut value) = (Vec::new(), Vec::new());
        let mut refused = 0;
        for _ in 0..10_000 {
            let mut line = Vec::new();
            let format = Format::value_variants()[random.below(3) as usize];
            format.encode(&special_bytes(&mut random, 6), &special_bytes(&mut random, 6), &mut line);
            let at = random.below(line.len() as u64) as usize;
            line[at] = special_bytes(&mut random, 1).pop().unwrap_or(b'"');
            refused += u32::from(format.decode(&line, &mut key, &mut value).is_err_and(|message| !message.is_empty()));
        }
        assert!(refused > 0, "the damage was never noticed");
    }
}
