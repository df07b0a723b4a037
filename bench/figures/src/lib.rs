//! [`svg`]: images in SVG, for the figures of the documentation and for the plots of reports.

pub mod svg;
