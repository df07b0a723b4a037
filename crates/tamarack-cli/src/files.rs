//! Files of the user: input to import, acknowledged line numbers, shapes, devices. The files of the
//! database belong to the engine.

#![expect(clippy::disallowed_types, reason = "the user's files are no part of the database and are never simulated")]

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;

use crate::outcome::Failure;
use crate::size::show_bytes;

/// Reader of lines with their numbers.
pub(crate) struct Lines {
    reader: Box<dyn BufRead>,
    name: String,
    total_bytes: Option<u64>,
    read_bytes: u64,
    line: Vec<u8>,
    line_bytes_max: u64,
    number: u64,
}

/// The byte order mark that some editors write at the beginning of UTF-8 text.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// The bytes that one byte of a record may take in a line (`\u00ff`), and what a line has besides.
const ESCAPED_BYTES_MAX: u64 = 6;
const LINE_BYTES_BESIDES: u64 = 64 << 10;

impl Lines {
    /// The lines of the file at `path`, or of standard input if that is `-`; each holds at most one
    /// record of `record_bytes_max`.
    pub(crate) fn open(path: &Path, record_bytes_max: u64) -> Result<Self, Failure> {
        let line_bytes_max = record_bytes_max.saturating_mul(ESCAPED_BYTES_MAX).saturating_add(LINE_BYTES_BESIDES);
        if path.as_os_str() == "-" {
            let stdin = Box::new(io::stdin().lock());
            return Ok(Self::new(stdin, "standard input".to_owned(), None, line_bytes_max));
        }
        let name = path.display().to_string();
        let open = || {
            let file = File::open(path)?;
            let about = file.metadata()?;
            if about.is_dir() {
                return Err(io::ErrorKind::IsADirectory.into());
            }
            Ok((file, about.is_file().then_some(about.len())))
        };
        let (file, total_bytes) =
            open().map_err(|e: io::Error| cannot(&name, &e, "name a file that exists and can be read"))?;
        Ok(Self::new(Box::new(BufReader::with_capacity(256 << 10, file)), name, total_bytes, line_bytes_max))
    }

    fn new(reader: Box<dyn BufRead>, name: String, total_bytes: Option<u64>, line_bytes_max: u64) -> Self {
        Self { reader, name, total_bytes, read_bytes: 0, line: Vec::new(), line_bytes_max, number: 0 }
    }

    /// Reads the next line and returns it without its end (`\n` or `\r\n`; the last line may lack
    /// one), or `None` after the last. A byte order mark at the beginning of the input is left out.
    pub(crate) fn next_line(&mut self) -> Result<Option<&[u8]>, Failure> {
        self.line.clear();
        // One byte more than a line may have, so that a longer one is noticed.
        let mut limited = (&mut self.reader).take(self.line_bytes_max + 1);
        let bytes = limited
            .read_until(b'\n', &mut self.line)
            .map_err(|e| cannot(&self.name, &e, "no line after the last acknowledged one was stored"))?;
        if bytes == 0 {
            return Ok(None);
        }
        self.number += 1;
        self.read_bytes += bytes as u64;
        if bytes as u64 > self.line_bytes_max {
            let most = show_bytes(self.line_bytes_max);
            return Err(
                self.wrong(&format!("the line has more than {most}: no record of this memory budget takes that"))
            );
        }
        let line = self.line.strip_suffix(b"\n").unwrap_or(&self.line);
        let line = if self.number == 1 { line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line) } else { line };
        Ok(Some(line.strip_suffix(b"\r").unwrap_or(line)))
    }

    /// The number of the line read last; the first is 1.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The bytes read so far.
    pub(crate) fn read_bytes(&self) -> u64 {
        self.read_bytes
    }

    /// The size of the input, if known.
    pub(crate) fn total_bytes(&self) -> Option<u64> {
        self.total_bytes
    }

    /// A usage error at the line read last.
    pub(crate) fn wrong(&self, what: &str) -> Failure {
        Failure::Usage(format!("{}:{}: {what}", self.name, self.number))
    }
}

/// The most bytes of a small file.
const TEXT_BYTES_MAX: u64 = 1 << 20;

/// The text of a small file that an argument names.
pub(crate) fn read_text(path: &Path) -> Result<String, Failure> {
    let read = || {
        let mut text = String::new();
        File::open(path)?.take(TEXT_BYTES_MAX + 1).read_to_string(&mut text).map(|_| text)
    };
    let wrong = |what: String| Failure::Usage(format!("{}: {what}", path.display()));
    let what_to_do = "name a file that exists and is text";
    let text = read().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::InvalidData | io::ErrorKind::IsADirectory => {
            wrong(format!("{error}; {what_to_do}"))
        }
        _ => cannot(&path.display().to_string(), &error, what_to_do),
    })?;
    if text.len() as u64 > TEXT_BYTES_MAX {
        return Err(wrong(format!("more than {} of text; name a smaller file", show_bytes(TEXT_BYTES_MAX))));
    }
    Ok(text)
}

/// Writes a small file that an argument names, over what was there.
pub(crate) fn write_text(path: &Path, text: &str) -> Result<(), Failure> {
    let written = File::create(path).and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|e| cannot(&path.display().to_string(), &e, "check that its directory exists and can be written"))
}

/// Reads all of standard input, at most `bytes_max`.
pub(crate) fn read_standard_input(bytes_max: u64) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let read = io::stdin().lock().take(bytes_max + 1).read_to_end(&mut bytes);
    read.map_err(|error| cannot("standard input", &error, "nothing was stored"))?;
    if bytes.len() as u64 > bytes_max {
        let most = show_bytes(bytes_max);
        return Err(Failure::Usage(format!("standard input: more than {most}, the most that a value may have here")));
    }
    Ok(bytes)
}

/// Writer of acknowledgements: one line number per line, each the last of a durable batch.
pub(crate) struct Acks {
    file: File,
    name: String,
}

impl Acks {
    /// Opens the file at `path` for appending, and creates it if it does not exist.
    pub(crate) fn append_to(path: &Path) -> Result<Self, Failure> {
        let name = path.display().to_string();
        let file = OpenOptions::new().create(true).append(true).open(path);
        let file = file.map_err(|e| cannot(&name, &e, "check that its directory exists and can be written"))?;
        Ok(Self { file, name })
    }

    /// Acknowledges all lines up to `line`, with one unbuffered write, so that the acknowledgement
    /// survives the end of this process.
    pub(crate) fn note(&mut self, line: u64) -> Result<(), Failure> {
        let text = format!("{line}\n");
        self.file.write_all(text.as_bytes()).map_err(|e| cannot(&self.name, &e, "free some space and import again"))
    }
}

fn cannot(name: &str, error: &io::Error, advice: &str) -> Failure {
    Failure::Storage(format!("{name}: {error}; {advice}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TestDir;

    /// Line ends of both kinds, empty lines, and a last line without an end.
    #[test]
    fn lines_have_no_ends() {
        let dir = TestDir::new("lines_have_no_ends");
        let mut lines = Lines::open(Path::new(&dir.file("in", "a\r\n\nb\r")), 10).expect("it opens");
        let mut read = Vec::new();
        while let Some(line) = lines.next_line().expect("it reads") {
            read.push(line.to_vec());
        }
        assert_eq!(read, [&b"a"[..], b"", b"b"]);
        assert_eq!((lines.number(), lines.read_bytes(), lines.total_bytes()), (3, 6, Some(6)));
    }

    /// A line that no record can take ends the input, before all of it is in memory.
    #[test]
    fn lines_are_limited() {
        let dir = TestDir::new("lines_are_limited");
        let most = 10 * ESCAPED_BYTES_MAX + LINE_BYTES_BESIDES;
        for (bytes, fits) in [(most - 1, true), (most, false), (most + 1_000_000, false)] {
            let text = format!("a\n{}\nb\n", "x".repeat(bytes as usize));
            let mut lines = Lines::open(Path::new(&dir.file("in", text)), 10).expect("it opens");
            assert_eq!(lines.next_line().expect("short").map(<[u8]>::len), Some(1));
            let read = lines.next_line().map(|line| line.map(<[u8]>::len));
            match read {
                Ok(length) => assert!(fits && length == Some(bytes as usize), "{bytes}"),
                Err(Failure::Usage(what)) => assert!(!fits && what.contains("in:2: "), "{bytes}: {what}"),
                Err(other) => panic!("{bytes}: {other:?}"),
            }
            assert!(lines.line.len() as u64 <= most + 1);
        }
    }

    /// The mark that editors write is no part of the first key; elsewhere it is text.
    #[test]
    fn a_byte_order_mark_is_left_out() {
        let dir = TestDir::new("a_byte_order_mark_is_left_out");
        let mut lines = Lines::open(Path::new(&dir.file("in", "\u{feff}a\n\u{feff}b\n")), 10).expect("it opens");
        assert_eq!(lines.next_line().expect("it reads"), Some(&b"a"[..]));
        assert_eq!(lines.next_line().expect("it reads"), Some("\u{feff}b".as_bytes()));
    }

    /// A file without an end is no text; neither is one that is missing. Both are wrong usage.
    #[test]
    fn small_files_are_small() {
        for path in ["/dev/zero", "/nowhere"] {
            assert!(
                matches!(read_text(Path::new(path)), Err(Failure::Usage(what)) if what.starts_with(path)),
                "{path}"
            );
        }
    }
}
