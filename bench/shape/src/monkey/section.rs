//! [`Section`]: one table of figures, for people and for programs, and what it is to show.

use std::fmt;

use serde_json::{Map, Value};

/// See the module's documentation.
pub struct Section {
    title: &'static str,
    /// What was measured.
    words: String,
    columns: Vec<&'static str>,
    rows: Vec<Vec<Cell>>,
    /// What was to be shown, and whether it was.
    verdicts: Vec<(String, bool)>,
}

/// What stands in a table.
#[derive(Clone)]
pub enum Cell {
    Word(String),
    Count(u64),
    /// With so many digits behind the point.
    Number(f64, usize),
    /// A share, in percent.
    Percent(f64),
}

impl Section {
    pub fn new(title: &'static str, words: String, columns: &[&'static str]) -> Self {
        Self { title, words, columns: columns.to_vec(), rows: Vec::new(), verdicts: Vec::new() }
    }

    pub fn row(&mut self, cells: Vec<Cell>) {
        assert_eq!(cells.len(), self.columns.len(), "a cell for each column of {}", self.title);
        eprintln!("{}", line(&cells));
        self.rows.push(cells);
    }

    /// What was to be shown, and whether it was.
    pub fn verdict(&mut self, words: String, holds: bool) {
        self.verdicts.push((words, holds));
    }

    /// A line for each row, and for each verdict.
    pub fn json(&self) -> Vec<String> {
        let object = |members: Vec<(&str, Value)>| {
            let members = members.into_iter().map(|(name, value)| (name.to_owned(), value));
            Value::Object([("part".to_owned(), self.title.into())].into_iter().chain(members).collect::<Map<_, _>>())
                .to_string()
        };
        let row = |row: &Vec<Cell>| object(self.columns.iter().copied().zip(row.iter().map(Cell::value)).collect());
        let verdict = |(words, holds): &(String, bool)| {
            object(vec![("shown", words.as_str().into()), ("holds", (*holds).into())])
        };
        self.rows.iter().map(row).chain(self.verdicts.iter().map(verdict)).collect()
    }
}

fn line(cells: &[Cell]) -> String {
    format!("| {} |", cells.iter().map(ToString::to_string).collect::<Vec<_>>().join(" | "))
}

impl Cell {
    fn value(&self) -> Value {
        match self {
            Self::Word(word) => word.as_str().into(),
            Self::Count(count) => (*count).into(),
            Self::Number(number, _) | Self::Percent(number) => (*number).into(),
        }
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Word(word) => f.write_str(word),
            Self::Count(count) => write!(f, "{count}"),
            Self::Number(number, _) if number.is_nan() => f.write_str(""),
            Self::Number(number, digits) => write!(f, "{number:.digits$}"),
            Self::Percent(share) => write!(f, "{:+.1} %", 100.0 * share),
        }
    }
}

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "## {}\n\n{}\n\n| {} |", self.title, self.words, self.columns.join(" | "))?;
        let align = |cell: &Cell| if matches!(cell, Cell::Word(_)) { "---" } else { "---:" };
        let aligned: Vec<_> = self.rows.first().into_iter().flatten().map(align).collect();
        writeln!(f, "|{}|", aligned.join("|"))?;
        self.rows.iter().try_for_each(|cells| writeln!(f, "{}", line(cells)))?;
        writeln!(f)?;
        self.verdicts
            .iter()
            .try_for_each(|(words, holds)| writeln!(f, "* {}: {words}", if *holds { "holds" } else { "does not hold" }))
    }
}
