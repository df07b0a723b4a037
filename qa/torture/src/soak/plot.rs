//! Samples over time as an SVG: one panel for each column.

use std::fmt::Write as _;

use super::sample::{COLUMNS, Sample};

const WIDTH: f64 = 800.0;
const HEIGHT: f64 = 110.0;
const LEFT: f64 = 10.0;

/// Draws the samples.
pub(super) fn plot(samples: &[Sample], began_ns: u64) -> String {
    let seconds = |sample: &Sample| (sample.at_ns - began_ns) as f64 / 1e9;
    let end = samples.last().map_or(1.0, seconds).max(1.0);
    let height = HEIGHT * COLUMNS.len() as f64;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    for (index, (name, value)) in COLUMNS.iter().enumerate() {
        let top = HEIGHT * index as f64;
        let largest = samples.iter().map(value).max().unwrap_or(0).max(1);
        let points = samples.iter().map(|sample| {
            let x = LEFT + seconds(sample) / end * (WIDTH - 2.0 * LEFT);
            let y = top + HEIGHT - 5.0 - value(sample) as f64 / largest as f64 * (HEIGHT - 25.0);
            format!("{x:.1},{y:.1}")
        });
        let points: Vec<String> = points.collect();
        write!(
            text,
            "<text x=\"{LEFT}\" y=\"{:.0}\">{name}: 0 to {largest} in {end:.0} s</text>\n\
             <polyline fill=\"none\" stroke=\"steelblue\" points=\"{}\"/>\n",
            top + 14.0,
            points.join(" ")
        )
        .expect("a string takes text");
    }
    text + "</svg>\n"
}

#[test]
fn a_plot_has_a_line_for_each_column() {
    let sample = |at_ns| Sample { at_ns, memory_kib: at_ns, ..Sample::default() };
    let text = plot(&[sample(1), sample(2_000_000_001)], 1);
    assert_eq!(text.matches("<polyline").count(), COLUMNS.len());
    assert!(text.contains("in 2 s") && text.contains("10.0,105.0 790.0,20.0"), "{text}");
}
