//! [`Stream`]: what goes on from one memtable to the next, beside writers at full speed.

/// What goes on from one memtable to the next.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stream {
    /// Content of the active memtable, in memtables.
    pub(super) active: f64,
    /// Memtables put in a unit of time, in the last step; 0 before the first.
    pub(super) rate: f64,
    /// True if writers were delayed in the last step.
    pub(super) waits: bool,
    /// What writers may put beyond the limit, in memtables.
    pub(super) credit: f64,
    /// The workers; 0 if there are none, as compactions are carried out at another pace.
    pub(super) workers: usize,
    /// Units of time so far.
    pub(super) time: f64,
}
