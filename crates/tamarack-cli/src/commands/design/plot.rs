//! `tamarack design --plot`: a trade-off drawn in the terminal or as an SVG image.
//!
//! | module | what it is |
//! |---|---|
//! | `terminal` | characters on a grid, and a list |
//! | `svg` | the image |
//! | `signs` | which designs have names |
//! | `labels` | places for labels that do not overlap |
//! | `scale` | axes and ticks |
//! | `image` | elements of SVG |

mod image;
mod labels;
mod scale;
mod signs;
mod svg;
mod terminal;

use super::trade_off::TradeOff;

/// The plot for a terminal of 80 columns, without a line end.
pub(super) fn text(trade_off: &TradeOff) -> String {
    terminal::text(trade_off)
}

/// The plot as the text of an SVG file.
pub(super) fn svg(trade_off: &TradeOff) -> String {
    svg::file(trade_off)
}
