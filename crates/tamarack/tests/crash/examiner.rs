//! [`Examiner`]: takes images of machines at every moment, opens the database on each, and checks
//! it.
//!
//! ```text
//! workload ── call ── call ── call ── …      before each call that changes storage, and last:
//!              │       │       │
//!            images  images  images          a loss of power in several ways, a killed process
//!              │
//!              ├─ open ── call ── call ── …  the same during recovery, and during its recovery
//!              ├─ is the state a prefix of the commits, with everything durable?
//!              ├─ commit something, crash: is it still right?
//!              └─ verify
//! ```
//!
//! The choices for an image (how it continues, with which options, whether its recovery crashes)
//! follow only from the workload's seed and from the [`Trail`] on which the image was reached; so a
//! trail suffices to examine the same image again.
//!
//! Equal images are opened once, but each must satisfy the guarantees of its own moment. So the
//! outcome is stored by the image's identity.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tamarack::Durability;
use tamarack::step;
use tamarack_env::sim::{CallKind, Moment};
use tamarack_env::sync::{Mutex, Rank};
use tamarack_env::{Random, SimEnv, Step};

use crate::death::Death;
use crate::edits::{ByEdit, Follower};
use crate::history::Commit;
use crate::redesigns::RedesignTally;
use crate::session::{ImageContents, Ledger, Outcome, Session, Settings};

/// How thoroughly to look.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    /// Images at each moment of a workload, at most.
    pub(crate) deaths: usize,
    /// Images at each moment of a recovery, at most.
    pub(crate) deaths_in_recovery: usize,
    /// Of sixteen images of workloads, in how many crashes during their recovery are tried; and of
    /// the images of recoveries, in half as many.
    pub(crate) recoveries: u64,
}

impl Effort {
    fn deaths(&self, depth: usize, recovering: bool) -> usize {
        match depth {
            0 => self.deaths,
            _ if recovering => self.deaths_in_recovery,
            // What comes after a recovery is as in the workload, mostly.
            _ => 1,
        }
    }
}

/// A part of the program to break, in order to see whether that is noticed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Mutation {
    #[default]
    None,
    /// These calls do nothing.
    Omit(Step),
    /// These calls happen only after the next one of the others.
    Delay(Step, Step),
}

/// One image on the way to another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Taken {
    /// The number of the call before which the machine stopped.
    pub(crate) call: u64,
    pub(crate) death: Death,
    /// That call's step; `None` if there was no call to come.
    pub(crate) step: Option<Step>,
}

/// The images on the way, from the workload's machine on.
pub(crate) type Trail = Vec<Taken>;

/// A failure, and its trail.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) workload: String,
    pub(crate) seed: u64,
    pub(crate) trail: Trail,
    pub(crate) what: String,
}

/// Coverage.
#[derive(Default, Debug)]
pub(crate) struct Tally {
    /// Different images: no two have the same names and contents.
    pub(crate) images: HashSet<u64>,
    /// Different images by the step of the call before which they were taken.
    pub(crate) by_step: BTreeMap<Row, u64>,
    /// The same by what an edit does, and the step towards that.
    pub(crate) by_edit: ByEdit,
    /// Images taken, equal ones included.
    pub(crate) taken: u64,
    /// Images of machines that were recovering, and of machines that were recovering from a crash
    /// during recovery.
    pub(crate) by_depth: [u64; 3],
    /// Calls that were made with each step, on all machines.
    pub(crate) calls: BTreeMap<Step, u64>,
    /// The steps among them that sync a file or a directory.
    pub(crate) syncs: BTreeSet<Step>,
    /// Changes of the design.
    pub(crate) redesigns: RedesignTally,
}

/// A row of the tally: what was going on, and the step that came next.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Row {
    pub(crate) recovering: bool,
    pub(crate) step: Option<Step>,
}

/// Takes and judges images. Shared by all machines of a workload.
pub(crate) struct Examiner {
    workload: String,
    seed: u64,
    effort: Effort,
    mutation: Mutation,
    /// Only the images on this trail.
    replay: Option<Trail>,
    found: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    /// By what tells an image apart.
    outcomes: HashMap<u64, ImageContents>,
    tally: Tally,
    failure: Option<Failure>,
}

/// How deep crashes within recoveries go: a recovery, the recovery from a crash during it, and one
/// more.
const DEPTH_MAX: usize = 3;

impl Examiner {
    pub(crate) fn new(
        workload: &str,
        seed: u64,
        effort: Effort,
        mutation: Mutation,
        replay: Option<Trail>,
    ) -> Arc<Self> {
        let workload = workload.to_owned();
        Arc::new(Self { workload, seed, effort, mutation, replay, found: Mutex::new(Rank::Test, Default::default()) })
    }

    /// Breaks what is to be broken on this machine.
    pub(crate) fn mutate(&self, env: &SimEnv) {
        match self.mutation {
            Mutation::None => {}
            Mutation::Omit(step) => env.omit(step),
            Mutation::Delay(first, until_after) => env.delay(first, until_after),
        }
    }

    /// From now on takes images at every moment of this machine.
    pub(crate) fn watch(self: &Arc<Self>, session: &Session, trail: &Trail) {
        let (examiner, ledger, trail, settings) =
            (self.clone(), session.ledger.clone(), trail.clone(), session.settings());
        let mut follower = Follower::default();
        session.env.set_hook(move |moment: &Moment<'_>| {
            let take = |death| match death {
                Death::Process => moment.process_image(),
                Death::Power(crash) => moment.image(crash),
            };
            let (call, step) = (moment.call.number, moment.call.step);
            if let (CallKind::Sync | CallKind::SyncDir, Some(step)) = (moment.call.kind, step) {
                examiner.found.lock().tally.syncs.insert(step);
            }
            let before = examiner.found.lock().tally.images.len();
            examiner.look(call, step, moment.unsynced_changes(), &take, &ledger, &trail, settings);
            let tally = &mut examiner.found.lock().tally;
            // Images of recoveries from these count, too.
            follower.follow(moment, (tally.images.len() - before) as u64, &mut tally.by_edit);
        });
    }

    /// Takes images of a machine at rest.
    pub(crate) fn look_at(self: &Arc<Self>, session: &Session, trail: &Trail) {
        let env = &session.env;
        let take = |death| match death {
            Death::Process => env.process_image(),
            Death::Power(crash) => env.image(crash),
        };
        self.look(env.calls_made(), None, env.unsynced_changes(), &take, &session.ledger, trail, session.settings());
    }

    #[expect(clippy::too_many_arguments, reason = "a moment of either kind, whose ledger, and how it was reached")]
    fn look(
        self: &Arc<Self>,
        call: u64,
        step: Option<Step>,
        unsynced: usize,
        take: &dyn Fn(Death) -> SimEnv,
        ledger: &Mutex<Ledger>,
        trail: &Trail,
        settings: Settings,
    ) {
        if self.failed() || trail.len() >= DEPTH_MAX {
            return;
        }
        let deaths = match &self.replay {
            Some(replay) => {
                let next = replay.get(trail.len()).filter(|next| next.call == call && replay.starts_with_calls(trail));
                next.map(|next| next.death).into_iter().collect()
            }
            None => {
                let count = self.effort.deaths(trail.len(), ledger.lock().recovering);
                Death::draw(&Random::for_purpose(self.seed_of(trail), call), unsynced, count)
            }
        };
        let ledger = ledger.lock().clone();
        for death in deaths {
            let mut trail = trail.clone();
            trail.push(Taken { call, death, step });
            self.examine(take(death), ledger.clone(), trail, settings);
        }
    }

    /// Checks one image.
    fn examine(self: &Arc<Self>, image: SimEnv, ledger: Ledger, trail: Trail, settings: Settings) {
        let death = trail.last().expect("an image has a trail").death;
        let identity = image.identity();
        let key = match death {
            Death::Process => identity.rotate_left(1) ^ image.unsynced_changes() as u64,
            Death::Power(_) => identity,
        };
        if let Some(ImageContents { commits, digest, checkpoints }) = self.record(identity, key, &ledger, &trail) {
            let again = ledger.check(death, commits).and_then(|()| match ledger.line.digest(commits) == digest {
                true => ledger.check_checkpoints(&checkpoints),
                false => Err(format!("after {commits} commits there is what belongs to another history")),
            });
            again.unwrap_or_else(|what| self.fail(&trail, what));
            return;
        }
        let probe = AssertUnwindSafe(|| self.probe(image, ledger, &trail, settings));
        match catch_unwind(probe) {
            Ok(Ok(outcome)) => {
                self.found.lock().outcomes.insert(key, outcome);
            }
            Ok(Err(what)) => self.fail(&trail, what),
            Err(panic) => self.fail(&trail, format!("a panic: {}", message(&*panic))),
        }
    }

    /// Counts an image, and returns what is known of it.
    fn record(&self, identity: u64, key: u64, ledger: &Ledger, trail: &Trail) -> Option<ImageContents> {
        let mut found = self.found.lock();
        let tally = &mut found.tally;
        tally.taken += 1;
        if tally.images.insert(identity) {
            let step = trail.last().and_then(|taken| taken.step);
            *tally.by_step.entry(Row { recovering: ledger.recovering, step }).or_default() += 1;
            tally.by_depth[trail.len() - 1] += 1;
        }
        found.outcomes.get(&key).cloned()
    }

    /// Opens the database on an image, uses it, and says what was found on it.
    fn probe(
        self: &Arc<Self>,
        image: SimEnv,
        ledger: Ledger,
        trail: &Trail,
        settings: Settings,
    ) -> Outcome<ImageContents> {
        let random = Random::for_purpose(self.seed_of(trail), 1);
        let death = trail.last().expect("an image has a trail").death;
        let lost = ledger.line.clone();
        self.mutate(&image);
        let mut session = Session::new(image, ledger, settings, death);
        if self.looks_deeper(trail, &random) {
            self.watch(&session, trail);
        }
        let seen = session.ledger.lock().changes;
        let recovered = session.open(vary(settings, &random), death)?;
        self.count_changes(&session, seen)?;
        let digest = lost.digest(recovered);
        let checkpoints = session.open_checkpoints()?;
        session.ledger.lock().check_checkpoints(&checkpoints)?;
        // Now the lost commits are made again, so that their records fall onto the old ones, with
        // other content.
        for number in 0..1 + random.below(3) {
            let salt = random.next();
            let commit = match lost.commit(recovered + number as usize) {
                Some(lost) => lost.again(salt),
                None => Commit::new([(b"afterwards".to_vec(), Some(20))], salt),
            };
            session.write(commit, if random.eighths(3) { Durability::Sync } else { Durability::Buffered })?;
        }
        // Half of them with changes that are not synced, half with none.
        let is_early = random.eighths(4);
        if is_early {
            self.look_once_more(&session, trail, &random);
        }
        session.sync()?;
        if !is_early {
            self.look_once_more(&session, trail, &random);
        }
        if random.eighths(1) {
            session.flush()?;
        }
        if random.eighths(2) {
            // Compactions that the crash interrupted go on.
            session.settle()?;
            session.check()?;
        }
        session.verify()?;
        self.count_calls(&session.env);
        Ok(ImageContents { commits: recovered, digest, checkpoints })
    }

    /// One crash of a database that went on after a crash; here it suffices that it opens and that
    /// all is there.
    fn look_once_more(self: &Arc<Self>, session: &Session, trail: &Trail, random: &Random) {
        let (env, call) = (&session.env, session.env.calls_made());
        let unsynced = env.unsynced_changes();
        let deaths = Death::draw(random, unsynced, 3);
        let death = deaths[random.below(deaths.len() as u64) as usize];
        let Death::Power(crash) = death else { return };
        let ledger = session.ledger.lock().clone();
        let mut trail = trail.clone();
        trail.push(Taken { call, death, step: None });
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let image = env.image(crash);
            self.mutate(&image);
            let mut after = Session::new(image, ledger, session.settings(), death);
            let outcome = after.open(session.settings(), death).map(drop);
            self.count_calls(&after.env);
            outcome
        }));
        match outcome {
            Ok(Ok(())) => {}
            Ok(Err(what)) => self.fail(&trail, what),
            Err(panic) => self.fail(&trail, format!("a panic: {}", message(&*panic))),
        }
    }

    fn looks_deeper(&self, trail: &Trail, random: &Random) -> bool {
        let drawn = random.below(16) < self.effort.recoveries >> (trail.len() - 1);
        match &self.replay {
            Some(replay) => replay.len() > trail.len(),
            None => drawn && trail.len() < DEPTH_MAX,
        }
    }

    fn seed_of(&self, trail: &Trail) -> u64 {
        trail.iter().fold(self.seed, |seed, taken| {
            let text = format!("{}={}", taken.call, taken.death);
            text.bytes()
                .fold(Random::new(seed).next(), |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
        })
    }

    /// Adds up the calls of a machine that is not needed any more.
    pub(crate) fn count_calls(&self, env: &SimEnv) {
        let mut found = self.found.lock();
        for (step, count) in env.step_counts() {
            *found.tally.calls.entry(step).or_default() += count;
        }
    }

    /// Counts what a database has recorded of changes of its design, of which so many were seen
    /// before.
    fn count_changes(&self, session: &Session, seen: u64) -> Outcome {
        if let Some(recorded) = session.recorded_changes()? {
            self.found.lock().tally.redesigns += RedesignTally {
                changes: 0,
                changed: u64::from(recorded.number > 0),
                half_made: u64::from(recorded.is_half),
                unseen: u64::from(recorded.number > seen),
            };
        }
        Ok(())
    }

    /// Counts the changes of the design that a workload has made.
    pub(crate) fn count_made(&self, changes: u64) {
        self.found.lock().tally.redesigns.changes += changes;
    }

    pub(crate) fn failed(&self) -> bool {
        self.found.lock().failure.is_some()
    }

    /// Records the first failure.
    pub(crate) fn fail(&self, trail: &Trail, what: String) {
        let failure = Failure { workload: self.workload.clone(), seed: self.seed, trail: trail.clone(), what };
        self.found.lock().failure.get_or_insert(failure);
    }

    /// What was seen, and what went wrong. Ends the examination.
    pub(crate) fn finish(&self) -> (Tally, Option<Failure>) {
        let found = std::mem::take(&mut *self.found.lock());
        (found.tally, found.failure)
    }
}

/// Options of the one who opens the database after the crash: often those it had.
fn vary(settings: Settings, random: &Random) -> Settings {
    match random.below(8) {
        0 => Settings { memtable_bytes: 64, table_bytes: 1, block_bytes: 64, ..settings },
        1 => Settings { memtable_bytes: 1 << 14, durability: Durability::Sync, ..settings },
        2 => Settings { immutable_memtables_max: 1, cache_bytes: 1 << 16, manifest_bytes: 1 << 20, ..settings },
        3 | 4 => Settings { direct_io: !settings.direct_io, ..settings },
        5 => Settings { threads: 1, policy: Some("dostoevsky:T=3,K=2,Z=1"), ..settings },
        _ => settings,
    }
}

/// What a panic said.
pub(crate) fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
    text.unwrap_or("without a message").to_owned()
}

/// Whether a trail that is wanted leads through where we are.
trait LeadsThrough {
    fn starts_with_calls(&self, trail: &Trail) -> bool;
}

impl LeadsThrough for Trail {
    fn starts_with_calls(&self, trail: &Trail) -> bool {
        trail.iter().zip(self).all(|(here, wanted)| (here.call, here.death) == (wanted.call, wanted.death))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "workload {:?}, seed {}: {}", self.workload, self.seed, self.what)?;
        for (depth, Taken { call, death, step }) in self.trail.iter().enumerate() {
            let machine = if depth == 0 { "the workload" } else { "the recovery of that" };
            let before = step.map_or("at rest", |step| step.0);
            writeln!(f, "    crash of {machine} before call {call} ({before}): {death:?}")?;
        }
        let trail: Vec<String> = self.trail.iter().map(|taken| format!("/{}={}", taken.call, taken.death)).collect();
        write!(
            f,
            "replay: TAMARACK_REPLAY='{}/{}{}' cargo test -p tamarack --test crash replay -- --nocapture",
            self.workload,
            self.seed,
            trail.concat()
        )
    }
}

/// What kind of work a step belongs to, as the report groups them.
pub(crate) fn kind(row: Row) -> &'static str {
    let Some(step) = row.step else { return "at rest" };
    match step {
        _ if row.recovering => "recovery",
        step::WAL_APPEND | step::WAL_ALLOCATE | step::WAL_SYNC | step::WAL_CUT | step::WAL_SYNC_CUT => "WAL append",
        step::WAL_CREATE | step::WAL_HEADER | step::WAL_SYNC_HEADER | step::WAL_SYNC_PREVIOUS => "rotation",
        step::WAL_TRIM => "close",
        _ if step.0.starts_with("checkpoint") => "checkpoint",
        step::TABLE_CREATE | step::TABLE_WRITE | step::TABLE_SYNC => "table",
        step::WAL_REMOVE | step::TABLE_REMOVE | step::MANIFEST_REMOVE | step::CURRENT_REMOVE => "deletion",
        step::DATABASE_CREATE
        | step::DATABASE_SYNC_PARENT
        | step::WAL_SYNC_DIRECTORY
        | step::TABLE_SYNC_DIRECTORY
        | step::MANIFEST_SYNC_DIRECTORY
        | step::CURRENT_SYNC_DIRECTORY => "directory",
        _ if step.0.starts_with("manifest") || step.0.starts_with("current") => "manifest",
        _ => "recovery",
    }
}
