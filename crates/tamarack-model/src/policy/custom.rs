//! A custom shape, as a policy: the shape that somebody wrote down, for as much data as it holds;
//! for more, the same with a larger last level.

use std::fmt;

use super::steps::{Policy, enlarge, enough};
use super::words::PolicyError;
use crate::shape::Shape;
use crate::units::Bytes;

/// A given shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Custom {
    shape: Shape,
}

impl Custom {
    /// Of this shape.
    pub fn new(shape: Shape) -> Self {
        Self { shape }
    }

    /// Of a shape's text form, its lines separated by `;`.
    pub(super) fn read(text: &str) -> Result<Self, PolicyError> {
        let shape = text.replace(';', "\n").parse::<Shape>();
        shape.map(Self::new).map_err(|error| PolicyError::new(error.to_string()))
    }
}

impl Policy for Custom {
    /// The given shape, whatever the buffer: the shape says how large that should be. Its last
    /// level is doubled as often as needed.
    fn shape(&self, data: Bytes, _buffer: Bytes) -> Shape {
        let mut levels = self.shape.levels().to_vec();
        enlarge(&mut levels, enough(data));
        Shape::new(self.shape.buffer(), levels).expect("a larger last level breaks no rule")
    }
}

impl fmt::Display for Custom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "custom:{}", self.shape.to_string().trim_end().replace('\n', "; "))
    }
}
