//! Injected faults: which call fails, and how.
//!
//! A [`Fault`] is a [`Failure`] and the calls it strikes: by running number, step, kind, path, or
//! any predicate; all conditions given must hold. It strikes once unless told otherwise, and passes
//! over calls that cannot fail in its way (there is no short sync), so one list of failures can be
//! tried at every call of a workload: [`super::SimEnv::faults_shown`] tells whether it had an
//! effect.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::env::Step;

/// One call to the environment.
#[derive(Clone, Debug)]
pub struct Call {
    /// Its place among all calls, reading ones included, from 0.
    pub number: u64,
    /// What it does.
    pub kind: CallKind,
    /// The caller's name for it; `None` for calls that carry none because they change nothing
    /// durable.
    pub step: Option<Step>,
    /// The file or directory; for a rename or a link, the old name.
    pub path: Arc<Path>,
    /// Where in the file, in bytes; the new length for [`CallKind::SetLen`], and up to where for
    /// [`CallKind::Allocate`] and [`CallKind::Reserve`].
    pub offset: u64,
    /// How many bytes are read or written.
    pub bytes: u64,
}

/// What a call does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[expect(missing_docs, reason = "each is the method of Env or File with that name")]
pub enum CallKind {
    CreateDir,
    SyncDir,
    List,
    Rename,
    HardLink,
    Remove,
    Create,
    Open,
    Lock,
    Read,
    Write,
    Sync,
    SetLen,
    Allocate,
    Reserve,
    Len,
    Space,
}

/// A way to go wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Failure {
    /// An input/output error; nothing happened.
    Io,
    /// The disk is full; nothing happened.
    StorageFull,
    /// A link that cannot be made because the new name would be in another file system.
    CrossesDevices,
    /// An input/output error, although the thing was done. Not for creates.
    ErrorAfterEffect,
    /// A write that writes only a first part and says so.
    ShortWrite,
    /// A write that fails after a first part has been written.
    PartialWrite,
    /// A read that returns only a first part.
    ShortRead,
    /// A sync that fails; the pages stay dirty and a later sync writes them.
    SyncKeepsPages,
    /// A sync that fails; the pages count as clean, so reads still show them and no later sync
    /// writes them.
    SyncDropsPages,
    /// A sync that fails; the data is gone, also for reads, but the new length is durable.
    SyncKeepsLengthOnly,
    /// A write that returns `Ok` and lands nowhere.
    LostWrite,
    /// A write that returns `Ok` and lands elsewhere, as far as there are bytes to overwrite.
    MisdirectedWrite {
        /// The file it lands in; `None` for the right file.
        path: Option<PathBuf>,
        /// Where in that file, in bytes.
        offset: u64,
    },
}

impl CallKind {
    /// True for calls that change storage: those before which the hook is called. A lock is none of
    /// them, although it may create its file: what it does is not part of what a crash can
    /// keep.
    pub fn changes_storage(self) -> bool {
        !matches!(self, Self::List | Self::Open | Self::Lock | Self::Read | Self::Len | Self::Space)
    }

    /// True for calls that a full disk refuses, because they take space.
    pub fn takes_space(self) -> bool {
        matches!(self, Self::Create | Self::CreateDir | Self::Write | Self::Allocate | Self::Reserve)
    }
}

impl Failure {
    /// All failures that need no parameter.
    pub const ALL: [Self; 11] = [
        Self::Io,
        Self::StorageFull,
        Self::CrossesDevices,
        Self::ErrorAfterEffect,
        Self::ShortWrite,
        Self::PartialWrite,
        Self::ShortRead,
        Self::SyncKeepsPages,
        Self::SyncDropsPages,
        Self::SyncKeepsLengthOnly,
        Self::LostWrite,
    ];

    /// Whether such a call can fail in this way.
    pub fn fits(&self, call: &Call) -> bool {
        match self {
            Self::Io => true,
            Self::StorageFull => call.kind.changes_storage(),
            Self::CrossesDevices => call.kind == CallKind::HardLink,
            Self::ErrorAfterEffect => {
                call.kind.changes_storage() && !matches!(call.kind, CallKind::Create | CallKind::CreateDir)
            }
            Self::ShortWrite | Self::PartialWrite => call.kind == CallKind::Write && call.bytes > 1,
            Self::ShortRead => call.kind == CallKind::Read && call.bytes > 1,
            Self::SyncKeepsPages | Self::SyncDropsPages | Self::SyncKeepsLengthOnly => call.kind == CallKind::Sync,
            Self::LostWrite | Self::MisdirectedWrite { .. } => call.kind == CallKind::Write,
        }
    }
}

/// A failure and the calls it strikes. Made by [`Fault::new`] and narrowed by the other methods;
/// given to [`super::SimEnv::inject`].
#[derive(Clone)]
pub struct Fault {
    pub(super) failure: Failure,
    conditions: Vec<Condition>,
    /// How often it still strikes; `None` is for ever.
    strikes_left: Option<u64>,
}

#[derive(Clone)]
enum Condition {
    At(u64),
    From(u64),
    Step(Step),
    Kind(CallKind),
    Path(PathBuf),
    Matching(Arc<dyn Fn(&Call) -> bool + Send + Sync>),
}

impl Fault {
    /// Strikes the next call that can fail so, once.
    pub fn new(failure: Failure) -> Self {
        Self { failure, conditions: Vec::new(), strikes_left: Some(1) }
    }

    /// Only the call with this number.
    pub fn at_call(self, number: u64) -> Self {
        self.on(Condition::At(number))
    }

    /// Only calls with this number or a higher one.
    pub fn from_call(self, number: u64) -> Self {
        self.on(Condition::From(number))
    }

    /// Only calls with this step.
    pub fn step(self, step: Step) -> Self {
        self.on(Condition::Step(step))
    }

    /// Only calls of this kind.
    pub fn kind(self, kind: CallKind) -> Self {
        self.on(Condition::Kind(kind))
    }

    /// Only calls on this path.
    pub fn path(self, path: impl Into<PathBuf>) -> Self {
        self.on(Condition::Path(path.into()))
    }

    /// Only calls that `predicate` accepts. It must not call the environment.
    pub fn matching(self, predicate: impl Fn(&Call) -> bool + Send + Sync + 'static) -> Self {
        self.on(Condition::Matching(Arc::new(predicate)))
    }

    /// Strikes the first so many of these calls.
    pub fn times(self, times: u64) -> Self {
        Self { strikes_left: Some(times), ..self }
    }

    /// Strikes all of these calls.
    pub fn forever(self) -> Self {
        Self { strikes_left: None, ..self }
    }

    fn on(mut self, condition: Condition) -> Self {
        self.conditions.push(condition);
        self
    }

    /// Whether `call` is struck; if so, that strike is used up.
    pub(super) fn strikes(&mut self, call: &Call) -> bool {
        if self.strikes_left == Some(0) || !self.failure.fits(call) {
            return false;
        }
        if !self.conditions.iter().all(|condition| condition.holds(call)) {
            return false;
        }
        self.strikes_left = self.strikes_left.map(|left| left - 1);
        true
    }
}

impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fault")
            .field("failure", &self.failure)
            .field("strikes_left", &self.strikes_left)
            .finish_non_exhaustive()
    }
}

impl Condition {
    fn holds(&self, call: &Call) -> bool {
        match self {
            Self::At(number) => call.number == *number,
            Self::From(number) => call.number >= *number,
            Self::Step(step) => call.step == Some(*step),
            Self::Kind(kind) => call.kind == *kind,
            Self::Path(path) => *call.path == **path,
            Self::Matching(predicate) => predicate(call),
        }
    }
}
