//! [`of`]: a PNG image of an SVG one, for readers whose programs show no SVG.

use std::io;
use std::sync::Arc;

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::fontdb::{Database, Style};
use resvg::usvg::{Options, Tree};

/// Pixels for each unit of the SVG image.
const SCALE: f32 = 1.5;

/// The image in its light colours, with the fonts of the system. An error if it has none.
pub fn of(svg: &str) -> io::Result<Vec<u8>> {
    let mut options = Options::default();
    let fonts = Arc::make_mut(&mut options.fontdb);
    fonts.load_system_fonts();
    let sans = sans_serif(fonts).ok_or_else(|| io::Error::other("the system has no fonts for PNG images"))?;
    fonts.set_sans_serif_family(sans);
    let tree = Tree::from_str(svg, &options).map_err(io::Error::other)?;
    let size = tree.size().to_int_size().scale_by(SCALE).expect("a plot has a size");
    let mut pixels = Pixmap::new(size.width(), size.height()).expect("a plot has a size");
    resvg::render(&tree, Transform::from_scale(SCALE, SCALE), &mut pixels.as_mut());
    pixels.encode_png().map_err(io::Error::other)
}

/// The family that stands for `sans-serif`, which no configuration tells: one with `Sans` in its
/// name, or else any.
fn sans_serif(fonts: &Database) -> Option<String> {
    let upright = || fonts.faces().filter(|face| face.style == Style::Normal && !face.monospaced);
    let names = || upright().filter_map(|face| Some(face.families.first()?.0.as_str()));
    let sans = names().filter(|name| name.contains("Sans")).min_by_key(|name| name.len());
    sans.or_else(|| names().next()).map(str::to_owned)
}
