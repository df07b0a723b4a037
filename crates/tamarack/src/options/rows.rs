//! What a table of options becomes: fields, the methods that set them, their documentation, and
//! rows that documents are made from.

use std::fmt;

/// One option, in words; `docs/OPTIONS.md` is made from these.
pub struct Row {
    /// The method that sets it.
    pub name: &'static str,
    /// What that takes.
    pub takes: &'static str,
    /// What holds if it is not called.
    pub default: &'static str,
    /// What may be given.
    pub range: &'static str,
    /// What it does, in lines of Markdown as rustdoc reads it.
    pub effect: &'static str,
}

/// A table of options.
///
/// ```text
/// Name = {
///     /// What it does: the method's documentation, to which default and range are added.
///     name(argument: what the method takes) -> what the field keeps, default "in words", range "in words";
/// }
/// ```
///
/// It becomes `struct Name`, whose every field is `None` until its method is called, and
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
            /// All options of this kind, in words.
            #[doc(hidden)]
            pub const TABLE: &[Row] = &[$(Row {
                name: stringify!($name),
                takes: stringify!($takes),
                default: $default,
                range: $range,
                effect: concat!($($effect, "\n"),*),
            }),*];

            /// Nothing set: the defaults.
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

/// Something that `Debug` leaves out, because it would print all that it holds.
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
