//! A trade-off for a terminal of 80 columns: a grid of characters, and a list of the designs that
//! have letters or digits in it.

use super::scale::{AxisScale, label};
use super::signs::{SignedDesign, signed};
use crate::commands::design::trade_off::{Role, TradeOff};
use crate::show::table::{significant, table};
use crate::size::show_bytes;

/// The columns of the terminal.
const COLUMNS: usize = 80;

/// The rows of the grid.
const ROWS: usize = 20;

/// The most ticks of either axis.
const TICKS: (usize, usize) = (10, 7);

/// The plot, without a line end.
pub(super) fn text(trade_off: &TradeOff) -> String {
    let designs = signed(trade_off);
    let x = AxisScale::new(trade_off.designs.iter().map(|design| design.writes));
    let y = AxisScale::new(trade_off.designs.iter().map(|design| design.reads));
    let labels: Vec<(usize, String)> = y.ticks(TICKS.1).into_iter().map(|tick| (row(&y, tick), label(tick))).collect();
    let margin = labels.iter().map(|(_, label)| label.chars().count()).max().unwrap_or(0).max(4);
    let mut grid = Grid { cells: vec![vec![' '; COLUMNS - margin - 2]; ROWS] };
    for design in &designs {
        let column = column(&x, design.design.writes, grid.columns());
        grid.mark(row(&y, design.design.reads), column, design);
    }
    let mut lines = vec![title(&trade_off.y_title(), &y)];
    for (number, cells) in grid.cells.iter().enumerate() {
        let label = labels.iter().find(|(row, _)| *row == number).map(|(_, label)| label.as_str());
        let axis = if label.is_some() { '┤' } else { '│' };
        let cells: String = cells.iter().collect();
        lines.push(format!("{:>margin$} {axis}{cells}", label.unwrap_or_default()).trim_end().to_owned());
    }
    lines.extend(x_axis(&x, margin, grid.columns()));
    lines.push(format!("{:>COLUMNS$}", title(trade_off.x_title(), &x)));
    lines.push(String::new());
    lines.push(LEGEND.to_owned());
    lines.push(String::new());
    lines.push(list(trade_off, &designs));
    lines.join("\n")
}

/// What the signs mean.
const LEGEND: &str = "\
A, B … asked for or found    1, 2 … defaults of stores    a, b … o Pareto front
· other designs              signs that fall together stand side by side";

fn title(text: &str, scale: &AxisScale) -> String {
    format!("{text}{}", if scale.is_logarithmic() { ", logarithmic" } else { "" })
}

fn row(scale: &AxisScale, value: f64) -> usize {
    ((1.0 - scale.place(value)) * (ROWS - 1) as f64).round() as usize
}

fn column(scale: &AxisScale, value: f64, columns: usize) -> usize {
    (scale.place(value) * (columns - 1) as f64).round() as usize
}

/// The characters between the axes.
struct Grid {
    cells: Vec<Vec<char>>,
}

impl Grid {
    fn columns(&self) -> usize {
        self.cells[0].len()
    }

    /// Draws a design, the more important ones first. One with a name moves to a place beside its
    /// own if that is taken; one without is hidden behind the other then.
    fn mark(&mut self, row: usize, column: usize, design: &SignedDesign<'_>) {
        const BESIDE: [(isize, isize); 9] =
            [(0, 0), (0, 1), (0, -1), (-1, 0), (1, 0), (-1, 1), (1, -1), (-1, -1), (1, 1)];
        let places = if design.is_named { &BESIDE[..] } else { &BESIDE[..1] };
        for (down, right) in places {
            let place = (row.checked_add_signed(*down), column.checked_add_signed(*right));
            let (Some(row), Some(column)) = place else { continue };
            let cell = self.cells.get_mut(row).and_then(|cells| cells.get_mut(column));
            if let Some(cell) = cell.filter(|cell| **cell == ' ') {
                *cell = design.sign;
                return;
            }
        }
    }
}

/// The axis with its ticks, and their labels as far as they do not touch.
fn x_axis(scale: &AxisScale, margin: usize, columns: usize) -> [String; 2] {
    let mut axis = vec!['─'; columns];
    let mut labels = String::new();
    for tick in scale.ticks(TICKS.0) {
        let at = column(scale, tick, columns);
        let label = label(tick);
        let (length, used) = (label.chars().count(), labels.chars().count());
        let start = (margin + 2 + at).saturating_sub(length / 2).min(COLUMNS - length);
        if used == 0 || start > used {
            axis[at] = '┬';
            labels = format!("{labels:<start$}{label}");
        }
    }
    [format!("{:>margin$} └{}", "", axis.iter().collect::<String>()), labels]
}

/// The designs with names and their costs.
fn list(trade_off: &TradeOff, designs: &[SignedDesign<'_>]) -> String {
    let heading = ["", "writes", trade_off.cost.unit(), "memtable", "design", "filter"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    for SignedDesign { design, sign, .. } in designs.iter().filter(|design| design.is_named) {
        let note = match design.role {
            _ if !design.fits => " (too large)",
            Role::Asked if design.is_on_front => " (on the front)",
            _ => "",
        };
        let name = match design.role {
            Role::Store => format!("{} ({})", design.name, design.priced.policy),
            _ => design.name.clone(),
        };
        rows.push(vec![
            sign.to_string(),
            significant(design.writes),
            significant(design.reads),
            show_bytes(design.priced.buffer.0),
            format!("{name}{note}"),
            design.priced.filter_specification.clone(),
        ]);
    }
    table(&rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Labels of an axis stand below their ticks, and those that would touch are left out with
    /// their ticks.
    #[test]
    fn ticks_and_labels() {
        let scale = AxisScale::new([1.0, 10.0].into_iter());
        let [axis, labels] = x_axis(&scale, 4, 74);
        let expected = [
            "     └───┬───────────────────┬───────────┬───────┬──────┬────┬────────┬─────┬───",
            "         1                   2           3       4      5    6        8    10",
        ];
        assert_eq!([&axis, &labels], expected);
        assert!(axis.chars().count() <= COLUMNS && labels.chars().count() <= COLUMNS);
        let [axis, labels] = x_axis(&scale, 4, 12);
        assert_eq!((axis.matches('┬').count(), labels.split_whitespace().count()), (5, 5), "{axis}\n{labels}");
    }
}
