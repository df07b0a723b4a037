//! Aligned tables: text to the left, numbers to the right.

/// Formats rows of cells, the first row being the heading, as aligned columns. A column is aligned
/// to the right if every cell below its heading begins with a digit.
pub(crate) fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let cell = |row: &Vec<String>, column: usize| row.get(column).cloned().unwrap_or_default();
    let widths: Vec<usize> = (0..columns)
        .map(|column| rows.iter().map(|row| cell(row, column).chars().count()).max().unwrap_or(0))
        .collect();
    let is_number = |text: &String| text.is_empty() || text.starts_with(|c: char| c.is_ascii_digit());
    let to_right: Vec<bool> = (0..columns)
        .map(|column| rows.len() > 1 && rows[1..].iter().all(|row| is_number(&cell(row, column))))
        .collect();
    let line = |row: &Vec<String>| {
        let cells = (0..columns).map(|column| {
            let (text, width) = (cell(row, column), widths[column]);
            if to_right[column] { format!("{text:>width$}") } else { format!("{text:<width$}") }
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Four significant digits.
pub(crate) fn significant(number: f64) -> String {
    if number == 0.0 {
        return "0".to_owned();
    }
    let before = number.abs().log10().floor() as i32 + 1;
    if before < -3 { format!("{number:.3e}") } else { format!("{number:.*}", (4 - before).max(0) as usize) }
}

/// `number` with its digits in groups of three.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A count with its noun: `1 entry`, `2,000 entries`.
pub(crate) fn plural(count: u64, noun: &str) -> String {
    let plural = match noun.strip_suffix('y') {
        _ if count == 1 => noun.to_owned(),
        Some(stem) => format!("{stem}ies"),
        None => format!("{noun}s"),
    };
    format!("{} {plural}", grouped(count))
}

/// Words stand to the left, numbers to the right, and missing cells are blank.
#[test]
fn columns_are_aligned() {
    let rows = [["level", "bytes"], ["one", "9"], ["three", "1,000"]].map(|row| row.map(str::to_owned).to_vec());
    assert_eq!(table(&rows), "level  bytes\none        9\nthree  1,000");
    assert_eq!([1, 2000].map(|count| plural(count, "entry")), ["1 entry", "2,000 entries"]);
    assert_eq!([0, 1].map(|count| plural(count, "run")), ["0 runs", "1 run"]);
    assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
}

/// Numbers have four significant digits.
#[test]
fn four_significant_digits() {
    let shown = [0.0, 0.001_234_56, 0.5, 1.0, 12.345, 123_456.7, 1e-7].map(significant);
    assert_eq!(shown, ["0", "0.001235", "0.5000", "1.000", "12.35", "123457", "1.000e-7"]);
}
