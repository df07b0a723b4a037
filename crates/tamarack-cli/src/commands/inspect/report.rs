//! [`Report`]: what was found in a file, as aligned text for people and as one object for programs.
//!
//! ```text
//! fact    fact                 name: value, at the top
//! list    row │ row │ …        the same columns in each row; at most as many rows as are wanted
//! problem │ problem │ …        what is not whole, with its offset
//! ```
//!
//! Text is printed as it comes; the object when all is known.

use serde_json::{Map, Value};
use tamarack_format::entry::Entry;

use super::range::Wanted;
use crate::outcome::{Failure, Outcome};
use crate::show::table::{grouped, plural, table};
use crate::show::{Output, json};
use crate::size::show_bytes;
use crate::text;

/// The longest name of a fact, in characters: facts come in several pieces, all with their values
/// below each other.
const NAME_WIDTH: usize = 18;

/// The member that has the entries.
const CONTENTS: &str = "contents";

/// One value with its name, in both forms.
pub(super) struct Cell {
    name: &'static str,
    text: String,
    member: (String, Value),
}

impl Cell {
    /// Some words for people, and what stands for them in JSON. A name of several words has `_`
    /// between them.
    pub(super) fn new(name: &'static str, text: impl Into<String>, value: impl Into<Value>) -> Self {
        Self { name, text: text.into(), member: (name.to_owned(), value.into()) }
    }

    /// Words that are the same in both forms.
    pub(super) fn words(name: &'static str, words: impl Into<String>) -> Self {
        let words = words.into();
        Self::new(name, words.clone(), words)
    }

    /// A number that counts.
    pub(super) fn count(name: &'static str, number: u64) -> Self {
        Self::new(name, grouped(number), number)
    }

    /// A number that names: without groups of digits.
    pub(super) fn number(name: &'static str, number: u64) -> Self {
        Self::new(name, number.to_string(), number)
    }

    /// A number of bytes.
    pub(super) fn size(name: &'static str, bytes: u64) -> Self {
        let text =
            if bytes < 1024 { format!("{bytes} B") } else { format!("{} ({} B)", show_bytes(bytes), grouped(bytes)) };
        Self::new(name, text, bytes)
    }

    /// 64 bits that stand for themselves. A string in JSON, where not every reader has such
    /// numbers.
    pub(super) fn bits(name: &'static str, bits: u64) -> Self {
        Self::words(name, format!("{bits:016x}"))
    }

    /// A key or a value.
    pub(super) fn bytes(name: &'static str, bytes: &[u8]) -> Self {
        Self { name, text: text::escaped(bytes), member: json::bytes_member(name, bytes) }
    }

    /// The same, with another text for people.
    #[must_use]
    pub(super) fn with_text(self, text: impl Into<String>) -> Self {
        Self { text: text.into(), ..self }
    }

    fn heading(&self) -> String {
        self.name.replace('_', " ")
    }
}

/// Why something in a file is not whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    /// It is not what was written.
    Damaged,
    /// It looks like the end that a crash leaves, where nothing had been promised.
    Torn,
    /// This build cannot read it.
    Unreadable,
}

impl Fault {
    fn word(self) -> &'static str {
        match self {
            Self::Damaged => "damaged",
            Self::Torn => "torn",
            Self::Unreadable => "unreadable",
        }
    }
}

/// What was found in a file. See the module's documentation.
pub(super) struct Report<'a, 'o> {
    output: &'a mut Output<'o>,
    pub(super) wanted: &'a Wanted,
    file: String,
    object: Map<String, Value>,
    problems: Vec<(u64, Fault, String)>,
}

impl<'a, 'o> Report<'a, 'o> {
    /// On the file of that name.
    pub(super) fn new(output: &'a mut Output<'o>, wanted: &'a Wanted, file: String) -> Self {
        let object = json::object([("file", file.as_str().into())]);
        Self { output, wanted, file, object, problems: Vec::new() }
    }

    /// Something at `offset` is not whole.
    pub(super) fn problem(&mut self, offset: u64, fault: Fault, what: impl Into<String>) {
        self.problems.push((offset, fault, what.into()));
    }

    /// Something at `offset` is not what was written.
    pub(super) fn damaged(&mut self, offset: u64, what: impl Into<String>) {
        self.problem(offset, Fault::Damaged, what);
    }

    /// True if everything so far is whole.
    pub(super) fn is_whole(&self) -> bool {
        self.problems.is_empty()
    }

    /// True if something at `offset` is damaged, not only torn.
    pub(super) fn is_damaged_at(&self, offset: u64) -> bool {
        self.problems.iter().any(|(other, fault, _)| (*other, *fault) == (offset, Fault::Damaged))
    }

    /// Shows facts, one below the other.
    pub(super) fn facts(&mut self, facts: Vec<Cell>) -> Result<(), Failure> {
        for fact in &facts {
            self.text(&format!("{:<NAME_WIDTH$}  {}", fact.heading(), fact.text))?;
        }
        self.object.extend(facts.into_iter().map(|fact| fact.member));
        Ok(())
    }

    /// Shows rows below each other, at most as many as are wanted. In JSON they are an array of
    /// that name.
    pub(super) fn list(&mut self, name: &'static str, mut rows: Vec<Vec<Cell>>) -> Result<(), Failure> {
        let more = rows.len().saturating_sub(self.wanted.rows_max);
        rows.truncate(self.wanted.rows_max);
        if let Some(first) = rows.first().filter(|_| !self.output.is_json()) {
            let heading = first.iter().map(Cell::heading).collect();
            let texts = rows.iter().map(|row| row.iter().map(|cell| cell.text.clone()).collect());
            let lines: Vec<Vec<String>> = std::iter::once(heading).chain(texts).collect();
            self.text(&format!("\n{}\n{}", name.replace('_', " "), indented(&table(&lines))))?;
        }
        if more > 0 {
            self.text(&format!("  … and {} more", grouped(more as u64)))?;
        }
        let values = rows.into_iter().map(|row| Value::Object(row.into_iter().map(|cell| cell.member).collect()));
        self.object.insert(name.to_owned(), values.collect::<Vec<_>>().into());
        Ok(())
    }

    /// Begins the list of entries. In JSON it is the array `contents`.
    pub(super) fn begin_entries(&mut self) -> Result<(), Failure> {
        self.object.insert(CONTENTS.to_owned(), Value::Array(Vec::new()));
        self.text("\ncontents: sequence, kind, key, value")
    }

    /// Shows an entry, which stands in the block or record (`container`) at `offset`.
    pub(super) fn entry(&mut self, container: &'static str, offset: u64, entry: &Entry<'_>) -> Result<(), Failure> {
        let (sequence, kind) = (entry.sequence.0, format!("{:?}", entry.kind).to_lowercase());
        let Some(Value::Array(entries)) = self.object.get_mut(CONTENTS).filter(|_| self.output.is_json()) else {
            let mut line = format!("  {sequence:>12}  {kind:<6}  {}", text::escaped(entry.key));
            if entry.kind.has_value() {
                line.push('\t');
                line.push_str(&text::escaped(entry.value));
            }
            return self.output.line(&line);
        };
        let numbers = [(container, offset), ("sequence", sequence)];
        let mut members: Map<String, Value> =
            numbers.map(|(name, number)| (name.to_owned(), number.into())).into_iter().collect();
        members.extend([("kind".to_owned(), kind.into()), json::bytes_member("key", entry.key)]);
        members.extend(entry.kind.has_value().then(|| json::bytes_member("value", entry.value)));
        entries.push(Value::Object(members));
        Ok(())
    }

    /// Writes text for people.
    pub(super) fn text(&mut self, text: &str) -> Result<(), Failure> {
        if self.output.is_json() { Ok(()) } else { self.output.line(text) }
    }

    /// Says what is not whole, and ends.
    pub(super) fn finish(mut self) -> Result<Outcome, Failure> {
        self.problems.sort_by_key(|(offset, ..)| *offset);
        let (outcome, verdict) = match self.problems.len() as u64 {
            0 => (Outcome::Done, "no damage".to_owned()),
            problems => (Outcome::NotFound, plural(problems, "problem")),
        };
        self.text("")?;
        for (offset, fault, what) in &self.problems {
            if !self.output.is_json() {
                self.output.line(&format!("{}: {} at byte {offset}: {what}", self.file, fault.word()))?;
            }
        }
        let values = self.problems.iter().map(|(offset, fault, what)| {
            let (kind, what) = (fault.word().into(), what.as_str().into());
            Value::Object(json::object([("offset", (*offset).into()), ("kind", kind), ("what", what)]))
        });
        self.object.insert("problems".to_owned(), values.collect::<Vec<_>>().into());
        self.object.insert("ok".to_owned(), self.problems.is_empty().into());
        self.output.result(Some(&format!("{}: {verdict}", self.file)), self.object)?;
        Ok(outcome)
    }
}

fn indented(lines: &str) -> String {
    lines.lines().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}
