//! [`Statistic`], [`Figure`]: the description of a statistic, and its value; `statistics!`: the
//! tables that both come from.
//!
//! ```text
//! table of rows ─┬─► struct with public fields, rustdoc        (Stats, LevelStats, …)
//!                ├─► counters, where the table has such rows   (Counters, ReaderCounters)
//!                ├─► TABLE: name, unit and meaning of each     (docs/STATS.md)
//!                └─► figures(): names with values              (JSON, OpenMetrics, exporters)
//! ```
//!
//! A value that is one of a table's own types is a [`Figure::Group`]. Cost of `figures`: one
//! allocation per group.

use tamarack_env::histogram::Histogram;

use super::{Counter, Seconds};

/// Description of a statistic; `docs/STATS.md` is generated from these.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Statistic {
    /// Name: of the field, and in the JSON output of `tamarack stats`.
    pub name: &'static str,
    /// Type of the field.
    pub takes: &'static str,
    /// Unit, in words; empty for a group of statistics.
    pub unit: &'static str,
    /// True if it only grows while the database is open, from 0.
    pub is_counter: bool,
    /// Meaning, in lines of Markdown as rustdoc reads it.
    pub meaning: &'static str,
}

/// Value of a statistic.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum Figure {
    /// No value: unknown, not measured yet, or not set.
    Absent,
    /// Yes or no.
    Flag(bool),
    /// A whole number.
    Count(u64),
    /// A number; it may be infinite.
    Number(f64),
    /// Text.
    Text(String),
    /// Latencies.
    Latencies(Histogram),
    /// Statistics of one thing, such as a level.
    Group(Vec<(&'static Statistic, Figure)>),
    /// Several values, such as levels.
    List(Vec<Figure>),
}

/// A type that statistics have.
pub(crate) trait Value {
    /// Returns the value.
    fn figure(&self) -> Figure;
}

impl Value for bool {
    fn figure(&self) -> Figure {
        Figure::Flag(*self)
    }
}

impl Value for u64 {
    fn figure(&self) -> Figure {
        Figure::Count(*self)
    }
}

impl Value for u32 {
    fn figure(&self) -> Figure {
        Figure::Count(u64::from(*self))
    }
}

impl Value for usize {
    fn figure(&self) -> Figure {
        Figure::Count(*self as u64)
    }
}

impl Value for f64 {
    fn figure(&self) -> Figure {
        Figure::Number(*self)
    }
}

impl Value for String {
    fn figure(&self) -> Figure {
        Figure::Text(self.clone())
    }
}

impl Value for Histogram {
    fn figure(&self) -> Figure {
        Figure::Latencies(self.clone())
    }
}

impl<T: Value> Value for Option<T> {
    fn figure(&self) -> Figure {
        self.as_ref().map_or(Figure::Absent, T::figure)
    }
}

impl<T: Value> Value for Vec<T> {
    fn figure(&self) -> Figure {
        Figure::List(self.iter().map(T::figure).collect())
    }
}

/// A plain number that a counter sums up.
pub trait Summed {
    /// The counter.
    type Counter;
}

impl Summed for u64 {
    type Counter = Counter;
}

impl Summed for f64 {
    type Counter = Seconds;
}

/// A table of statistics.
///
/// ```text
/// /// Documentation of the struct.
/// pub struct Name {
///     /// Meaning.
///     name: Type, "unit";
///     /// Meaning of what only grows while the database is open.
///     name: u64, "unit", counter;
///     /// Meaning of a group, a flag or a text, which has no unit.
///     name: Type;
/// }
/// /// Documentation of the counters.
/// counters Counters {
///     /// Meaning.
///     name: u64, "unit";
///     + {
///         /// Counters that are no statistic by themselves.
///         name: Type,
///     }
/// }
/// ```
///
/// It expands to `pub struct Name` with the fields of both parts, `Name::TABLE`, and
/// `Name::figures`. The second part may be missing; it expands to `pub struct Counters`, with a
/// [`Counter`] for each `u64` and [`Seconds`] for each `f64`, to `Name::counted`, which reads them,
/// and to `Name::COUNTERS`. With `sums;` in front, values can be added and subtracted.
macro_rules! statistics {
    (
        $($sums:ident;)?
        $(#[$about:meta])* pub struct $name:ident {
            $($(#[doc = $meaning:literal])* $field:ident: $type:ty $(, $unit:literal $(, $kind:ident)?)?;)*
        }
        $($(#[$counters_about:meta])* counters $counters:ident {
            $($(#[doc = $counter_meaning:literal])* $counter:ident: $counted:ty, $counter_unit:literal;)*
            $(+ { $($(#[$own_about:meta])* $own:ident: $own_type:ty,)* })?
        })?
    ) => {
        $(#[$about])*
        #[non_exhaustive]
        pub struct $name {
            $(
                $(#[doc = $meaning])*
                $(#[doc = concat!("\nUnit: ", $unit, ".")])?
                pub $field: $type,
            )*
            $($(
                $(#[doc = $counter_meaning])*
                #[doc = concat!("\nUnit: ", $counter_unit, ".")]
                pub $counter: $counted,
            )*)?
        }

        impl $name {
            /// Descriptions of its statistics, in the order of the fields.
            pub const TABLE: &[$crate::stats::Statistic] = &[
                $($crate::stats::Statistic {
                    name: stringify!($field),
                    takes: stringify!($type),
                    unit: concat!($($unit)?),
                    is_counter: $crate::stats::statistics::is_counter!($($($kind)?)?),
                    meaning: concat!($($meaning, "\n"),*),
                },)*
                $($($crate::stats::Statistic {
                    name: stringify!($counter),
                    takes: stringify!($counted),
                    unit: $counter_unit,
                    is_counter: true,
                    meaning: concat!($($counter_meaning, "\n"),*),
                },)*)?
            ];

            /// Returns each statistic with its value, for programs that show or export all of them.
            pub fn figures(&self) -> Vec<(&'static $crate::stats::Statistic, $crate::stats::Figure)> {
                let values = [
                    $($crate::stats::statistics::Value::figure(&self.$field),)*
                    $($($crate::stats::statistics::Value::figure(&self.$counter),)*)?
                ];
                Self::TABLE.iter().zip(values).collect()
            }
        }

        impl $crate::stats::statistics::Value for $name {
            fn figure(&self) -> $crate::stats::Figure {
                $crate::stats::Figure::Group(self.figures())
            }
        }

        $crate::stats::statistics::sums! { $($sums)? $name { $($field)* $($($counter)*)? } }

        $(
            impl $name {
                /// Names of the statistics that are counters of the engine since opening.
                pub const COUNTERS: &[&str] = &[$(stringify!($counter)),*];

                /// Returns the values of the counters, with defaults for all else.
                pub(crate) fn counted(counters: &$counters) -> Self {
                    let mut counted = Self::default();
                    $(counted.$counter = counters.$counter.get();)*
                    counted
                }
            }

            $(#[$counters_about])*
            #[derive(Debug, Default)]
            pub struct $counters {
                $(
                    $(#[doc = $counter_meaning])*
                    pub $counter: <$counted as $crate::stats::statistics::Summed>::Counter,
                )*
                $($($(#[$own_about])* pub $own: $own_type,)*)?
            }
        )?
    };
}
pub(crate) use statistics;

/// True if a row says so.
macro_rules! is_counter {
    () => {
        false
    };
    (counter) => {
        true
    };
}
pub(crate) use is_counter;

/// Addition and subtraction of a table's struct, field by field, if its name follows `sums`.
macro_rules! sums {
    ($name:ident $fields:tt) => {};
    (sums $name:ident { $($field:ident)* }) => {
        impl std::ops::Add for $name {
            type Output = Self;

            fn add(self, other: Self) -> Self {
                Self { $($field: self.$field + other.$field,)* }
            }
        }

        impl std::ops::AddAssign for $name {
            fn add_assign(&mut self, other: Self) {
                *self = *self + other;
            }
        }

        impl std::ops::Sub for $name {
            type Output = Self;

            /// Returns what was added since `earlier`, a value of the same open database.
            fn sub(self, earlier: Self) -> Self {
                Self { $($field: self.$field - earlier.$field,)* }
            }
        }
    };
}
pub(crate) use sums;
