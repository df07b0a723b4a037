//! A report in Markdown: its tables by the heading above them.

/// A report.
pub(crate) struct Report {
    /// The name of its file.
    pub(crate) name: String,
    text: String,
}

/// The rows of a table below its heading row, with the names of the columns.
pub(crate) struct Table {
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

/// One row, with the names of its columns.
#[derive(Clone, Copy)]
pub(crate) struct Row<'a> {
    columns: &'a [String],
    cells: &'a [String],
}

impl Report {
    pub(crate) fn new(name: &str, text: String) -> Self {
        Self { name: name.to_owned(), text }
    }

    /// The first table below the heading `heading`, which is given without its `#`.
    pub(crate) fn table(&self, heading: &str) -> Table {
        let is_heading = |line: &&str| line.starts_with('#') && line.trim_start_matches('#').trim() == heading;
        let below = self.text.lines().skip_while(|line| !is_heading(line)).skip(1);
        let mut lines = below.skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
        let columns = lines.next().unwrap_or_else(|| panic!("{}: no table below `{heading}`", self.name));
        Table { columns: cells(columns), rows: lines.skip(1).map(cells).collect() }
    }

    /// The text of the line that begins with `beginning`, after that.
    pub(crate) fn line(&self, beginning: &str) -> &str {
        let found = self.text.lines().find_map(|line| line.strip_prefix(beginning));
        found.unwrap_or_else(|| panic!("{}: no line begins with `{beginning}`", self.name))
    }
}

impl Table {
    pub(crate) fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        self.rows.iter().map(|cells| Row { columns: &self.columns, cells })
    }
}

impl<'a> Row<'a> {
    /// The text in the first column of that name.
    pub(crate) fn text(&self, column: &str) -> &'a str {
        self.nth(column, 0)
    }

    /// The number in the first column of that name; `None` if the cell is empty.
    pub(crate) fn number(&self, column: &str) -> Option<f64> {
        self.nth_number(column, 0)
    }

    /// The number in the column of that name that follows `skipped` others of the same name.
    pub(crate) fn nth_number(&self, column: &str, skipped: usize) -> Option<f64> {
        let text = self.nth(column, skipped).replace(',', "");
        (!text.is_empty())
            .then(|| text.parse().unwrap_or_else(|_| panic!("`{text}` in column `{column}` is no number")))
    }

    /// The text in the column of that name that follows `skipped` others of the same name.
    pub(crate) fn nth(&self, column: &str, skipped: usize) -> &'a str {
        let mut found = self.columns.iter().zip(self.cells).filter(|(name, _)| *name == column);
        found.nth(skipped).map(|(_, cell)| cell.as_str()).unwrap_or_else(|| panic!("no column `{column}`"))
    }
}

fn cells(line: &str) -> Vec<String> {
    line.trim().trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()
}
