//! Files of the user: input to import, acknowledged line numbers, shapes. The files of the database
//! belong to the engine.

#![expect(clippy::disallowed_types, reason = "the user's files are no part of the database and are never simulated")]

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;

use crate::outcome::Failure;

/// Reader of lines with their numbers.
pub(crate) struct Lines {
    reader: Box<dyn BufRead>,
    name: String,
    total_bytes: Option<u64>,
    read_bytes: u64,
    line: Vec<u8>,
    number: u64,
}

impl Lines {
    /// The lines of the file at `path`, or of standard input if that is `-`.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        if path.as_os_str() == "-" {
            return Ok(Self::new(Box::new(io::stdin().lock()), "standard input".to_owned(), None));
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
        Ok(Self::new(Box::new(BufReader::with_capacity(256 << 10, file)), name, total_bytes))
    }

    fn new(reader: Box<dyn BufRead>, name: String, total_bytes: Option<u64>) -> Self {
        Self { reader, name, total_bytes, read_bytes: 0, line: Vec::new(), number: 0 }
    }

    /// Reads the next line and returns it without its end (`\n` or `\r\n`; the last line may lack
    /// one), or `None` after the last.
    pub(crate) fn next_line(&mut self) -> Result<Option<&[u8]>, Failure> {
        self.line.clear();
        let bytes = self
            .reader
            .read_until(b'\n', &mut self.line)
            .map_err(|e| cannot(&self.name, &e, "no line after the last acknowledged one was stored"))?;
        if bytes == 0 {
            return Ok(None);
        }
        self.number += 1;
        self.read_bytes += bytes as u64;
        let line = self.line.strip_suffix(b"\n").unwrap_or(&self.line);
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

/// The text of a small file.
pub(crate) fn read_text(path: &Path) -> Result<String, Failure> {
    let read = || {
        let mut text = String::new();
        File::open(path)?.read_to_string(&mut text).map(|_| text)
    };
    read().map_err(|error| cannot(&path.display().to_string(), &error, "name a file that exists and is text"))
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
        let mut lines = Lines::open(Path::new(&dir.file("in", "a\r\n\nb\r"))).expect("it opens");
        let mut read = Vec::new();
        while let Some(line) = lines.next_line().expect("it reads") {
            read.push(line.to_vec());
        }
        assert_eq!(read, [&b"a"[..], b"", b"b"]);
        assert_eq!((lines.number(), lines.read_bytes(), lines.total_bytes()), (3, 6, Some(6)));
    }
}
