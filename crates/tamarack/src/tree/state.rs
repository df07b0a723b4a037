//! What a reader pins: the buffers and the version, as one immutable value that is replaced as a whole.
//!
//! ```text
//!            State ──┬── active    the buffer that commits go into
//!   (one Arc, behind ├── sealed    full buffers that wait to be flushed, young to old
//!    an ArcSwap)     └── version   the runs on storage
//! ```
//!
//! Every entry of `active` is younger than every entry of `sealed`, which is younger than every entry of `version`; the
//! sealed ones are ordered among themselves. So the first answer on the way down is the youngest.
//!
//! Writers, readers and background work meet here and only here: writers seal and wait for room, flushes install,
//! readers pin. Pinning takes no lock and does not count references on a shared cache line. The schedule explorer cannot
//! see into it, so a [`schedule_point`] stands before each.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};
use tamarack_env::sync::atomic::{AtomicU64, Ordering};
use tamarack_env::sync::{Mutex, schedule_point};
use tamarack_env::{Event, Lock, Worker};

use crate::buffer::Buffer;
use crate::entry::Sequence;
use crate::error::{Error, Result};
use crate::events::{Event as Happened, Events};
use crate::format::meta::EditNumber;
use crate::stats::LookupCounters;
use crate::tree::version::Version;
use crate::tree::visible::Visible;

/// One consistent view of a tree.
#[derive(Debug)]
pub struct State {
    /// Takes what is committed.
    pub active: Arc<Buffer>,
    /// Full buffers, young to old.
    pub sealed: Vec<Arc<Sealed>>,
    /// What is on storage.
    pub version: Arc<Version>,
}

impl State {
    /// Memory of all buffers.
    pub fn buffers_memory_bytes(&self) -> u64 {
        let sealed: u64 = self.sealed.iter().map(|sealed| sealed.buffer.memory_bytes()).sum();
        self.active.memory_bytes() + sealed
    }

    /// Raw bytes of all buffers.
    pub fn buffers_raw_bytes(&self) -> u64 {
        let sealed: u64 = self.sealed.iter().map(|sealed| sealed.buffer.raw_bytes()).sum();
        self.active.raw_bytes() + sealed
    }
}

/// A buffer that takes no more commit groups.
#[derive(Debug)]
pub struct Sealed {
    /// Its entries; complete once [`Sealed::last`] is visible.
    pub buffer: Arc<Buffer>,
    /// The last sequence that can be in it.
    pub last: Sequence,
}

/// A kind of background work that others may wait for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Activity {
    /// Sealed buffers become runs.
    Flush,
    /// Runs become one.
    Merge,
}

impl Activity {
    fn name(self) -> &'static str {
        match self {
            Self::Flush => "flush",
            Self::Merge => "merge",
        }
    }
}

/// What keeps background work from going on.
#[derive(Debug, Default)]
struct Trouble {
    /// Why there will be no more of it.
    stopped: Option<Arc<Error>>,
    /// Why flushes failed last, if they did; they are tried again, but whoever waits is told rather than left waiting.
    flush: Option<Error>,
    /// The same for merges.
    merge: Option<Error>,
    /// Which activities have failed and not succeeded since.
    failing: [bool; 2],
    /// What went wrong last, whether it was made up for or not.
    last: Option<Error>,
}

impl Trouble {
    fn of(&mut self, activity: Activity) -> &mut Option<Error> {
        match activity {
            Activity::Flush => &mut self.flush,
            Activity::Merge => &mut self.merge,
        }
    }

    /// An activity succeeded. True if it had failed before.
    fn made_up_for(&mut self, activity: Activity) -> bool {
        *self.of(activity) = None;
        std::mem::take(&mut self.failing[activity as usize])
    }
}

/// One tree (keyspace): its state, and the events by which its users meet.
pub struct Tree {
    state: ArcSwap<State>,
    /// Serialises those that replace `state`, and holds why background work is stuck, if it is.
    trouble: Mutex<Trouble>,
    /// The last durable manifest edit: new files carry it.
    durable_edit: AtomicU64,
    /// Which sequences are visible, and the snapshots.
    pub visible: Visible,
    /// What lookups did.
    pub lookups: LookupCounters,
    /// A flush or a merge was installed, or failed, or there will be no more of them.
    pub progress: Event,
    /// Whom to tell what happens.
    pub events: Arc<Events>,
    /// Whom to wake when a buffer was sealed.
    flusher: OnceLock<Arc<dyn Worker>>,
    /// Held while anything, a snapshot or an iterator too, can still read from the database's files.
    _lock: Box<dyn Lock>,
}

impl std::fmt::Debug for Tree {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tree").field("state", &self.state).field("visible", &self.visible).finish_non_exhaustive()
    }
}

impl Tree {
    /// A tree in the given state, with everything up to `visible` to be seen.
    pub fn new(state: State, visible: Sequence, lock: Box<dyn Lock>) -> Self {
        let durable_edit = AtomicU64::new(state.version.edit_number().0);
        let lookups = state.version.files.storage().lookups().clone();
        Self {
            state: ArcSwap::from_pointee(state),
            trouble: Mutex::default(),
            durable_edit,
            visible: Visible::new(visible),
            lookups,
            progress: Event::new(),
            events: Arc::default(),
            flusher: OnceLock::new(),
            _lock: lock,
        }
    }

    /// The same, with somebody to tell what happens.
    #[must_use]
    pub fn telling(self, events: Arc<Events>) -> Self {
        Self { events, ..self }
    }

    /// The state now, for the duration of one operation.
    pub fn pin(&self) -> Guard<Arc<State>> {
        schedule_point();
        self.state.load()
    }

    /// The state now, to be kept.
    pub fn pin_owned(&self) -> Arc<State> {
        schedule_point();
        self.state.load_full()
    }

    /// The last durable manifest edit.
    pub fn durable_edit(&self) -> EditNumber {
        EditNumber(self.durable_edit.load(Ordering::Acquire))
    }

    /// Registers the worker that flushes; may be called once.
    pub fn set_flusher(&self, worker: Arc<dyn Worker>) {
        assert!(self.flusher.set(worker).is_ok(), "a tree has one flusher");
    }

    /// Tells the flusher that a sealed buffer may be complete.
    pub fn wake_flusher(&self) {
        if let Some(worker) = self.flusher.get() {
            worker.wake();
        }
    }

    /// Seals the active buffer, whose last sequence is `last`, and opens a new one, which is returned. Only between commit
    /// groups.
    pub fn seal(&self, last: Sequence) -> Arc<Buffer> {
        let _changing = self.trouble.lock();
        let state = self.pin_owned();
        let active = Arc::new(state.active.another());
        let mut sealed = vec![Arc::new(Sealed { buffer: state.active.clone(), last })];
        assert!(
            state.sealed.first().is_none_or(|s| s.last <= last),
            "sealed {:?} after {last:?}",
            state.sealed.first()
        );
        sealed.extend(state.sealed.iter().cloned());
        schedule_point();
        self.state.store(Arc::new(State { active: active.clone(), sealed, version: state.version.clone() }));
        active
    }

    /// Publishes `version`, which is durable and which an activity made, unless a younger one, which has it all, came first.
    pub fn publish(&self, version: Arc<Version>, by: Activity) {
        {
            let mut trouble = self.trouble.lock();
            let sealed = self.pin().sealed.clone();
            self.replace(sealed, version);
            self.tell_if(trouble.made_up_for(by), by);
        }
        self.progress.notify();
    }

    /// Publishes `version`, which is durable and holds what was in the oldest sealed buffer, without that buffer.
    pub fn publish_flush(&self, flushed: &Arc<Sealed>, version: Arc<Version>) {
        {
            let mut trouble = self.trouble.lock();
            let state = self.pin_owned();
            let (oldest, younger) = state.sealed.split_last().expect("the flushed buffer is among the sealed ones");
            assert!(
                Arc::ptr_eq(oldest, flushed),
                "flushes install in sealing order: {:?} before {:?}",
                flushed.last,
                oldest.last
            );
            self.replace(younger.to_vec(), version);
            self.tell_if(trouble.made_up_for(Activity::Flush), Activity::Flush);
        }
        self.progress.notify();
    }

    /// Puts a new state in place of the old one. The caller holds the lock of those who do.
    fn replace(&self, sealed: Vec<Arc<Sealed>>, version: Arc<Version>) {
        let state = self.pin_owned();
        let is_younger = version.edit_number() > state.version.edit_number();
        let version = if is_younger { version } else { state.version.clone() };
        self.durable_edit.store(version.edit_number().0, Ordering::Release);
        schedule_point();
        self.state.store(Arc::new(State { active: state.active.clone(), sealed, version }));
    }

    /// Notes that an activity failed and will be tried again after some time.
    pub fn report_retry(&self, activity: Activity, error: Error, again_in: Duration) {
        self.events.noticed(&error);
        let told = error.clone();
        self.events.post(|| Happened::BackgroundFailed { doing: activity.name(), error: told, again_in });
        {
            let mut trouble = self.trouble.lock();
            trouble.failing[activity as usize] = true;
            trouble.last = Some(error.clone());
            *trouble.of(activity) = Some(error);
        }
        self.progress.notify();
    }

    /// Notes that whatever of an activity failed has been made up for, or is not called for any more.
    pub fn report_recovery(&self, activity: Activity) {
        self.tell_if(self.trouble.lock().made_up_for(activity), activity);
    }

    fn tell_if(&self, recovered: bool, activity: Activity) {
        if recovered {
            self.events.post(|| Happened::BackgroundRecovered { doing: activity.name() });
        }
    }

    /// What went wrong last in the background, whether it was made up for or not.
    pub fn last_trouble(&self) -> Option<Error> {
        self.trouble.lock().last.clone()
    }

    /// What went wrong with an activity before is none of what is asked for from now on.
    pub fn forget_trouble(&self, activity: Activity) {
        *self.trouble.lock().of(activity) = None;
    }

    /// True if the database was opened for reading only.
    pub fn is_read_only(&self) -> bool {
        matches!(self.check_running(), Err(Error::ReadOnly { .. }))
    }

    /// Notes that the database takes no more writes (rule: a failed sync is never retried as if it could succeed).
    pub fn report_stop(&self, error: Error) {
        let cause = match error {
            Error::Stopped { cause } => cause,
            other => Arc::new(other),
        };
        {
            // The first reason to stop is the one to tell.
            let mut trouble = self.trouble.lock();
            if trouble.stopped.is_none() {
                if !matches!(*cause, Error::Closed | Error::ReadOnly { .. }) {
                    let error = Error::Stopped { cause: cause.clone() };
                    trouble.last = Some(error.clone());
                    self.events.post(|| Happened::WritingStopped { error });
                }
                trouble.stopped = Some(cause);
            }
        }
        self.progress.notify();
    }

    /// An error if the database takes no more writes.
    pub fn check_running(&self) -> Result<()> {
        match &self.trouble.lock().stopped {
            Some(cause) if matches!(**cause, Error::ReadOnly { .. }) => Err(Error::clone(cause)),
            Some(cause) => Err(Error::Stopped { cause: cause.clone() }),
            None => Ok(()),
        }
    }

    /// An error if an activity makes no progress now.
    pub fn check_progress(&self, activity: Activity) -> Result<()> {
        self.check_running()?;
        match self.trouble.lock().of(activity) {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }
}
