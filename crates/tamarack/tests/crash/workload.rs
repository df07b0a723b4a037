//! Workloads: short sequences of actions on a database, written by hand or drawn from a seed.
//!
//! A [`Workload`] is a list of [`Action`]s, decided in full before it runs; [`run`] does them one
//! after another on a simulated machine, under the eyes of an [`Examiner`].

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use tamarack::Durability;
use tamarack::mistake::{self, Mistake};
use tamarack_env::sim::{Crash, Failure as Fails, Fault};
use tamarack_env::{Random, SimEnv, Step};

use crate::death::Death;
use crate::examiner::Examiner;
use crate::history::Commit;
use crate::session::{Designer, Ledger, Outcome, Session, Settings};

/// An action on the database or its machine.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    Write(Commit, Durability),
    /// The same, as a sorted run: its changes are puts of different keys, in order.
    Ingest(Commit),
    Sync,
    Flush,
    /// Compacts all runs into one.
    Compact,
    /// Compacts a range of keys.
    CompactRange(Range<Vec<u8>>),
    /// Waits until no compaction is due.
    Settle,
    /// Reshapes the tree.
    Reshape,
    /// Makes a checkpoint.
    Checkpoint,
    /// Changes the policy.
    Policy(&'static str),
    /// Runs that many steps of background work.
    Background(usize),
    /// Advances the clock, and runs background work until it is idle.
    Pass(Duration),
    /// Advances the clock, and runs so many steps of background work.
    Tick(Duration, usize),
    /// Scans so many times.
    Scan(u64),
    /// Looks up so many keys that are not there.
    LookUpAbsent(u64),
    /// A clean close, and opening again.
    Reopen(Settings),
    /// The process dies, and the next one opens the database.
    Die(Settings),
    /// The machine loses power, and opens the database when it is back.
    PowerCut(u64, Settings),
    /// The next call with that step fails in this way.
    Fail(Step, Fails),
}

/// A story.
#[derive(Clone, Debug)]
pub(crate) struct Workload {
    pub(crate) name: String,
    pub(crate) seed: u64,
    pub(crate) settings: Settings,
    pub(crate) actions: Vec<Action>,
}

/// Writes workloads.
pub(crate) struct Author {
    random: Random,
    workload: Workload,
    /// How many different keys there are.
    pub(crate) keys: u64,
    /// The longest value, in bytes.
    pub(crate) value_bytes_max: u64,
    /// All values have that length.
    pub(crate) uniform: bool,
}

/// Runs a workload. The examiner records failures.
pub(crate) fn run(workload: &Workload, examiner: &Arc<Examiner>) {
    let env = SimEnv::new(workload.seed);
    examiner.mutate(&env);
    let mut session = Session::new(env, Ledger::new(), workload.settings, Death::Process);
    let mut live = || live(workload, examiner, &mut session);
    let outcome = match workload.settings.designer {
        Designer::AtRandom => mistake::with(Mistake::DesignsAtRandom, live),
        Designer::User | Designer::Navigator => live(),
    };
    if let Err(what) = outcome {
        examiner.fail(&Vec::new(), what);
    }
    session.env.clear_hook();
    examiner.count_calls(&session.env);
}

fn live(workload: &Workload, examiner: &Arc<Examiner>, session: &mut Session) -> Outcome {
    let start = Vec::new();
    examiner.watch(session, &start);
    session.open(workload.settings, Death::Process)?;
    for action in &workload.actions {
        if examiner.failed() {
            return Ok(());
        }
        match action {
            Action::Write(commit, durability) => session.write(commit.clone(), *durability)?,
            Action::Ingest(commit) => session.ingest(commit.clone())?,
            Action::Sync => session.sync()?,
            Action::Flush => session.flush()?,
            Action::Compact => session.compact()?,
            Action::CompactRange(range) => session.compact_range(range.clone())?,
            Action::Settle => session.settle()?,
            Action::Reshape => session.reshape()?,
            Action::Checkpoint => session.checkpoint()?,
            Action::Policy(words) => session.set_policy(words)?,
            Action::Background(steps) => session.step_background(*steps),
            Action::Pass(time) => session.pass_time(*time),
            Action::Tick(time, steps) => session.tick(*time, *steps),
            Action::Scan(times) => session.scan(*times)?,
            Action::LookUpAbsent(times) => session.look_up_absent(*times)?,
            Action::Reopen(settings) => {
                session.close()?;
                examiner.look_at(session, &start);
                session.open(*settings, Death::Process)?;
            }
            Action::Die(settings) => {
                session.die();
                examiner.look_at(session, &start);
                session.open(*settings, Death::Process)?;
            }
            Action::PowerCut(seed, settings) => {
                let crash = Crash::draw(*seed, session.env.unsynced_changes());
                examiner.count_calls(&session.env);
                let env = session.env.image(crash);
                examiner.mutate(&env);
                let ledger = session.ledger.lock().clone();
                *session = Session::new(env, ledger, *settings, Death::Power(crash));
                examiner.watch(session, &start);
                session.open(*settings, Death::Power(crash))?;
            }
            Action::Fail(step, failure) => {
                session.expect_faults();
                session.env.inject(Fault::new(failure.clone()).step(*step));
            }
        }
        session.note_changes()?;
    }
    let changes = session.ledger.lock().changes;
    examiner.count_made(changes);
    examiner.look_at(session, &start);
    session.close()?;
    examiner.look_at(session, &start);
    Ok(())
}

impl Author {
    pub(crate) fn new(name: &str, seed: u64, settings: Settings) -> Self {
        let workload = Workload { name: name.to_owned(), seed, settings, actions: Vec::new() };
        let random = Random::for_purpose(seed, 0x5709);
        Self { random, workload, keys: 12, value_bytes_max: 60, uniform: false }
    }

    pub(crate) fn finish(self) -> Workload {
        self.workload
    }

    /// The same with range deletes in the place of about so many eighths of its deletes of one key.
    /// What else happens stays as it was.
    pub(crate) fn with_range_deletes(mut self, eighths: u64) -> Self {
        let (random, keys) = (Random::for_purpose(self.workload.seed, 0x2A4), self.keys);
        for action in &mut self.workload.actions {
            let Action::Write(commit, _) = action else { continue };
            for change in commit.changes.iter_mut().filter(|change| change.value.is_none()) {
                if random.eighths(eighths) {
                    let from = random.below(keys);
                    change.key = key(from);
                    change.to = Some(key(from + 1 + random.below(keys)));
                }
            }
        }
        self
    }

    /// A number below `bound`.
    pub(crate) fn draw(&self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    pub(crate) fn act(&mut self, action: Action) -> &mut Self {
        self.workload.actions.push(action);
        self
    }

    /// So many commits of one to three puts and deletes.
    pub(crate) fn write(&mut self, count: usize, durability: Durability) -> &mut Self {
        for _ in 0..count {
            let changes = [1, 1, 1, 2, 3][self.draw(5) as usize];
            self.batch(changes, durability);
        }
        self
    }

    /// One commit of so many puts and deletes.
    pub(crate) fn batch(&mut self, changes: usize, durability: Durability) -> &mut Self {
        let shape: Vec<_> = (0..changes).map(|_| (self.key(), self.value_bytes())).collect();
        let salt = self.random.next();
        self.act(Action::Write(Commit::new(shape, salt), durability))
    }

    /// Ingests about so many puts.
    pub(crate) fn ingest(&mut self, puts: u64) -> &mut Self {
        let mut keys: Vec<_> = (0..puts).map(|_| self.key()).collect();
        keys.sort();
        keys.dedup();
        let value_bytes = |_: &Vec<u8>| self.draw(self.value_bytes_max + 1) as usize;
        let shape: Vec<_> =
            keys.into_iter().map(|key| (value_bytes(&key), key)).map(|(n, key)| (key, Some(n))).collect();
        let salt = self.random.next();
        self.act(Action::Ingest(Commit::new(shape, salt)))
    }

    /// Deletes every key, in one commit.
    pub(crate) fn delete_all(&mut self, durability: Durability) -> &mut Self {
        let shape: Vec<_> = (0..self.keys).map(|number| (key(number), None)).collect();
        self.act(Action::Write(Commit::new(shape, 0), durability))
    }

    /// One commit that deletes about a third of the keys by a range delete, and changes so many
    /// keys after that.
    pub(crate) fn delete_range(&mut self, changes: usize, durability: Durability) -> &mut Self {
        let from = self.draw(self.keys);
        let range = key(from)..key(from + 1 + self.keys / 3);
        let shape: Vec<_> = (0..changes).map(|_| (self.key(), self.value_bytes())).collect();
        let salt = self.random.next();
        self.act(Action::Write(Commit::new(shape, salt).after_range_delete(range), durability))
    }

    fn key(&self) -> Vec<u8> {
        key(self.draw(self.keys))
    }

    fn value_bytes(&self) -> Option<usize> {
        match self.draw(8) {
            _ if self.uniform => Some(self.value_bytes_max as usize),
            0 | 1 => None,
            _ => Some(self.draw(self.value_bytes_max + 1) as usize),
        }
    }

    pub(crate) fn sync(&mut self) -> &mut Self {
        self.act(Action::Sync)
    }

    pub(crate) fn flush(&mut self) -> &mut Self {
        self.act(Action::Flush)
    }

    pub(crate) fn compact(&mut self) -> &mut Self {
        self.act(Action::Compact)
    }

    /// Compacts about a third of the keys.
    pub(crate) fn compact_range(&mut self) -> &mut Self {
        let from = self.draw(self.keys);
        self.act(Action::CompactRange(key(from)..key(from + 1 + self.keys / 3)))
    }

    pub(crate) fn settle(&mut self) -> &mut Self {
        self.act(Action::Settle)
    }

    pub(crate) fn reshape(&mut self) -> &mut Self {
        self.act(Action::Reshape)
    }

    pub(crate) fn checkpoint(&mut self) -> &mut Self {
        self.act(Action::Checkpoint)
    }

    pub(crate) fn policy(&mut self, words: &'static str) -> &mut Self {
        self.act(Action::Policy(words))
    }

    /// What the database begins with.
    pub(crate) fn settings(&mut self) -> &mut Settings {
        &mut self.workload.settings
    }

    /// The database begins with this policy.
    pub(crate) fn begin_with(&mut self, words: &'static str) -> &mut Self {
        self.workload.settings.policy = Some(words);
        self
    }

    pub(crate) fn background(&mut self, steps: usize) -> &mut Self {
        self.act(Action::Background(steps))
    }

    pub(crate) fn pass_ms(&mut self, milliseconds: u64) -> &mut Self {
        self.act(Action::Pass(Duration::from_millis(milliseconds)))
    }

    /// Scans so many times.
    pub(crate) fn scan(&mut self, times: u64) -> &mut Self {
        self.act(Action::Scan(times))
    }

    /// Looks up so many keys that are not there.
    pub(crate) fn look_up_absent(&mut self, times: u64) -> &mut Self {
        self.act(Action::LookUpAbsent(times))
    }

    pub(crate) fn reopen(&mut self, settings: Settings) -> &mut Self {
        self.act(Action::Reopen(settings))
    }

    pub(crate) fn die(&mut self, settings: Settings) -> &mut Self {
        self.act(Action::Die(settings))
    }

    pub(crate) fn power_cut(&mut self, settings: Settings) -> &mut Self {
        let seed = self.random.next();
        self.act(Action::PowerCut(seed, settings))
    }

    pub(crate) fn fail(&mut self, step: Step, failure: Fails) -> &mut Self {
        self.act(Action::Fail(step, failure))
    }
}

fn key(number: u64) -> Vec<u8> {
    format!("key{number:02}").into_bytes()
}
