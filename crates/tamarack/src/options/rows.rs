//! Tables of options, expanded into fields, setters, rustdoc, and rows for generated documents.

use std::fmt;

/// Description of one option; `docs/OPTIONS.md` is generated from these.
pub struct Row {
    /// Name of the setter.
    pub name: &'static str,
    /// Type of its argument.
    pub takes: &'static str,
    /// Default, in words.
    pub default: &'static str,
    /// Valid values, in words.
    pub range: &'static str,
    /// Effect, in lines of Markdown as rustdoc reads it.
    pub effect: &'static str,
}

/// A table of options.
///
/// ```text
/// Name = {
///     /// Effect: the setter's documentation, to which default and range are appended.
///     name(argument: Type) -> Field, default "in words", range "in words";
/// }
/// ```
///
/// It expands to `struct Name`, whose fields are `None` until their setter is called, and
/// `Name::TABLE`, the rows.
macro_rules! options {
    ($(#[$about:meta])* $group:ident = { $(
        $(#[doc = $effect:literal])*
        $name:ident($argument:ident: $takes:ty) -> $keeps:ty, default $default:literal, range $range:literal;
    )* }) => {
        $(#[$about])*
        #[derive(Clone, Default, Debug)]
        pub struct $group {
            $($name: Option<$keeps>,)*
        }

        impl $group {
            /// Descriptions of all options of this group.
            #[doc(hidden)]
            pub const TABLE: &[Row] = &[$(Row {
                name: stringify!($name),
                takes: stringify!($takes),
                default: $default,
                range: $range,
                effect: concat!($($effect, "\n"),*),
            }),*];

            /// Returns options with nothing set: the defaults.
            pub fn new() -> Self {
                Self::default()
            }

            $(
                $(#[doc = $effect])*
                #[doc = ""]
                #[doc = concat!("Default: ", $default, ". Range: ", $range, ".")]
                #[must_use]
                pub fn $name(mut self, $argument: $takes) -> Self {
                    self.$name = Some($argument.into());
                    self
                }
            )*
        }
    };
}
pub(super) use options;

/// Wrapper without a `Debug` output of its content, which would print whole databases.
#[derive(Clone)]
pub(super) struct Unshown<T>(pub(super) T);

impl<T> From<T> for Unshown<T> {
    fn from(inner: T) -> Self {
        Self(inner)
    }
}

impl<T> fmt::Debug for Unshown<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}
