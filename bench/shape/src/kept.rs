//! [`Kept`]: figures of several runs of a program, one object for each policy or design, in one
//! JSON file; and parts of reports: aligned tables, and lines that say whether a claim holds.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use common::machine;
use common::words::Words;
use serde_json::{Map, Value, json};

/// What was measured so far.
pub struct Kept {
    file: Option<PathBuf>,
    /// In the order of the program's list.
    pub policies: Map<String, Value>,
}

impl Kept {
    /// Reads the file that `--results` or `--from` names; empty without one, or if the file does
    /// not exist.
    pub fn read(words: &Words) -> Self {
        let file = words.text("from").or_else(|| words.text("results")).map(PathBuf::from);
        let text = file.as_ref().and_then(|file| fs::read_to_string(file).ok());
        let policies = text.map_or_else(Map::new, |text| serde_json::from_str(&text).expect("figures that were kept"));
        Self { file, policies }
    }

    /// Takes in, and writes, what was measured of a policy. Figures of other settings are refused.
    pub fn add(&mut self, policy: &str, setting: &Value, mut figures: Value) {
        for (other, kept) in self.policies.iter().filter(|(other, _)| *other != policy) {
            assert_eq!(&kept["setting"], setting, "{other} was measured with other settings; take another file");
        }
        figures["setting"] = setting.clone();
        figures["measured"] = json!({ "date": machine::date(), "commit": machine::commit(), "load": machine::load(), "machine": machine::description() });
        self.policies.insert(policy.to_owned(), figures);
        if let Some(file) = &self.file {
            let text = serde_json::to_string_pretty(&self.policies).expect("it is JSON");
            fs::write(file, text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        }
    }

    /// The day on which the last of it was measured.
    pub fn date(&self) -> &str {
        self.policies.values().next_back().and_then(|kept| kept["measured"]["date"].as_str()).unwrap_or("undated")
    }

    /// Where, when and of what it was measured. `commands` say how to do it again.
    pub fn circumstances(&self, words: &Words, commands: &str) -> String {
        let mut text = String::new();
        let of = |name: &str| -> Vec<String> {
            let mut values: Vec<String> = Vec::new();
            for kept in self.policies.values() {
                let value = &kept["measured"][name];
                let value =
                    value.as_str().map_or_else(|| format!("{:.1}", value.as_f64().unwrap_or(f64::NAN)), str::to_owned);
                if !values.contains(&value) {
                    values.push(value);
                }
            }
            values
        };
        let _ = writeln!(
            text,
            "* Machine: {}; databases on {}.",
            of("machine").join("; "),
            machine::file_system(&words.dir())
        );
        let _ = writeln!(text, "* Commit: {}", of("commit").join(", "));
        let _ = writeln!(text, "* Commands: {commands}");
        let _ = writeln!(
            text,
            "* Runnable threads, averaged over the minute before each part ended: {}.",
            of("load").join(", ")
        );
        if let Some(conditions) = words.text("conditions") {
            let _ = writeln!(text, "* {conditions}");
        }
        text
    }
}

/// The commands that measure one policy after the other, and make the report.
pub fn by_policy(program: &str) -> String {
    let command = format!("cargo run --release -p shape --bin {program} --");
    format!("`{command} --dir DIR --results FILE --only POLICY` for each policy, then `{command} --from FILE --write`")
}

/// A number in it, by names.
pub fn number(value: &Value, path: &[&str]) -> f64 {
    path.iter().fold(value, |value, name| &value[*name]).as_f64().unwrap_or(f64::NAN)
}

/// A table with aligned columns, as text and as Markdown. Columns are numbers unless their name
/// ends with a space.
pub fn table(columns: &[&str], rows: &[Vec<String>]) -> String {
    let header: Vec<String> = columns.iter().map(|name| name.trim_end().to_owned()).collect();
    let width = |at: usize| rows.iter().chain([&header]).map(|row| row[at].chars().count()).max().unwrap_or(0).max(3);
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let is_words = |at: usize| columns[at].ends_with(' ');
    let line = |row: &Vec<String>| {
        let cells = row.iter().enumerate().map(|(at, cell)| match is_words(at) {
            true => format!("{cell:<0$}", widths[at]),
            false => format!("{cell:>0$}", widths[at]),
        });
        format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "))
    };
    let rule = (0..columns.len())
        .map(|at| if is_words(at) { "-".repeat(widths[at]) } else { format!("{}:", "-".repeat(widths[at] - 1)) });
    format!(
        "{}| {} |\n{}",
        line(&header),
        rule.collect::<Vec<_>>().join(" | "),
        rows.iter().map(line).collect::<String>()
    )
}

/// With so many digits; nothing for what is no number.
pub fn digits(number: f64, digits: usize) -> String {
    // Without the sign of a zero.
    if number.is_finite() { format!("{:.digits$}", number + 0.0) } else { String::new() }
}

/// How far one is from the other.
pub fn off(measured: f64, model: f64) -> String {
    let off = 100.0 * (measured / model - 1.0);
    if measured == model {
        "0 %".to_owned()
    } else if off.is_finite() {
        format!("{off:+.1} %")
    } else {
        String::new()
    }
}

pub fn holds(holds: bool, words: &str) -> String {
    format!("* {}: {words}\n", if holds { "holds" } else { "does not hold" })
}

/// Prints the report, or as JSON what it is made of, and writes it where it belongs.
pub fn publish(words: &Words, kept: &Kept, name: &str, report: &str) {
    if words.flag("json") {
        kept.policies
            .iter()
            .for_each(|(policy, figures)| println!("{}", json!({ "policy": policy, "figures": figures })));
        return;
    }
    let notes =
        words.text("notes").map_or_else(String::new, |file| format!("\n{}", fs::read_to_string(file).expect("notes")));
    let report = format!("{report}{notes}");
    println!("{report}");
    if words.flag("write") {
        let path = words.report(name);
        fs::write(&path, report).expect("the report is written");
        eprintln!("{}", path.display());
    }
}
