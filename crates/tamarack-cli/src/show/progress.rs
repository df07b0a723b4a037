//! Progress bars on standard error for long work; silent unless standard error is a terminal.

use std::borrow::Cow;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// A progress bar, or a growing count where the total is unknown.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// Progress in bytes of `total_bytes`, if known.
    pub(crate) fn bytes(doing: &'static str, total_bytes: Option<u64>) -> Self {
        match total_bytes {
            Some(total) => Self::styled(
                ProgressBar::new(total),
                doing,
                "{msg} {wide_bar} {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec} {eta}",
            ),
            None => {
                Self::styled(ProgressBar::no_length(), doing, "{msg} {binary_bytes} {binary_bytes_per_sec} {elapsed}")
            }
        }
    }

    /// Progress in records, of unknown total.
    pub(crate) fn records(doing: &'static str) -> Self {
        Self::styled(ProgressBar::no_length(), doing, "{msg} {human_pos} records {per_sec} {elapsed}")
    }

    /// Progress in thousandths of the whole.
    pub(crate) fn thousandths(doing: String) -> Self {
        Self::styled(ProgressBar::new(1000), doing, "{msg} {wide_bar} {percent} %")
    }

    fn styled(bar: ProgressBar, doing: impl Into<Cow<'static, str>>, template: &str) -> Self {
        bar.set_style(ProgressStyle::with_template(template).expect("the templates above are valid"));
        bar.set_message(doing);
        Self(bar)
    }

    /// Advances to `position`.
    pub(crate) fn set(&self, position: u64) {
        self.0.set_position(position);
    }

    /// Sets the total.
    pub(crate) fn set_total(&self, total: u64) {
        self.0.set_length(total);
    }

    /// The time since the start.
    pub(crate) fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
