//! Custom shapes as a policy: a given shape for as much data as it holds, and the same shape with a
//! larger last level for more.

use std::fmt;

use super::steps::{ShapeFamily, enlarge, enough};
use super::words::PolicyError;
use crate::shape::Shape;
use crate::units::Bytes;

/// A policy with a given shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Custom {
    shape: Shape,
}

impl Custom {
    /// Creates the policy of this shape.
    pub fn new(shape: Shape) -> Self {
        Self { shape }
    }

    /// Returns the given shape.
    pub fn given(&self) -> &Shape {
        &self.shape
    }

    /// Parses a shape's text form, its lines separated by `;`.
    pub(super) fn read(text: &str) -> Result<Self, PolicyError> {
        let shape = text.replace(';', "\n").parse::<Shape>();
        shape.map(Self::new).map_err(|error| PolicyError::new(error.to_string()))
    }
}

impl ShapeFamily for Custom {
    /// Returns the given shape, whatever the memtable size: the shape contains its own. Its last
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
