//! Full disks: at every call of a workload that changes storage the disk becomes full, stays full
//! for a while, and is freed; the database continues by itself.
//!
//! Checked in each run, with the same handle from the beginning to the end unless the script itself
//! opens another:
//!
//! * While the disk is full, every operation succeeds or says that space is missing; nothing ends
//!   writing, and no answer is wrong. Nobody waits for ever: the simulator panics if somebody waits
//!   for what cannot happen.
//! * A loss of power, or the end of the process, leaves all that was promised: while the disk is
//!   full, right after it was freed, and in the end.
//! * Once there is space again, and the pause before the next attempt is over, nothing fails any
//!   more: what was refused succeeds when tried again, memtables are flushed, compactions end, the
//!   manifest is rolled.
//! * In the end all that was acknowledged is there and nothing else, `verify` finds nothing, and
//!   the database that is opened anew is the same.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use tamarack::{Durability, step};
use tamarack_env::sim::{Call, Crash, Failure, Fault, Moment};
use tamarack_env::sync::atomic::{AtomicU64, Ordering};
use tamarack_env::{Random, SimEnv, Step};

use super::session::{Checked, DIR, Expect, Session};
use super::workload::{self, Op, Workload};
use super::{SEED, calls_of, exhaustive, panic_text};
use crate::answers::Answers;

/// What a full disk refuses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    /// Another page. What is removed gives space that the next one takes.
    Pages,
    /// As `Pages`, but told only by the sync of what was written.
    LatePages,
    /// Every call that takes space, however little.
    Everything,
    /// That, and to cut a file, as a file system may that never writes in place. The write that
    /// finds the disk full gets a part through.
    CutsToo,
}

const WAYS: [Way; 4] = [Way::Pages, Way::LatePages, Way::Everything, Way::CutsToo];

impl Way {
    fn fill(self, env: &SimEnv, call: u64) {
        match self {
            Self::Pages => env.set_capacity(Some(env.used_bytes())),
            Self::LatePages => {
                env.delay_allocation(true);
                env.set_capacity(Some(env.used_bytes()));
            }
            Self::Everything => env.inject(refused(&[])),
            Self::CutsToo => {
                env.inject(Fault::new(Failure::ShortWrite).at_call(call));
                env.inject(refused(&[step::WAL_CUT, step::MANIFEST_CUT_APPEND]));
            }
        }
    }

    fn free(env: &SimEnv) {
        env.set_capacity(None);
        env.delay_allocation(false);
        env.clear_faults();
    }
}

fn refused(more: &'static [Step]) -> Fault {
    let is_refused = |call: &Call| call.kind.takes_space() || call.step.is_some_and(|step| more.contains(&step));
    Fault::new(Failure::StorageFull).matching(is_refused).forever()
}

/// One call at which the disk becomes full.
struct Trial<'a> {
    workload: &'a Workload,
    way: Way,
    call: &'a Call,
    seed: u64,
}

/// When the machine is looked at after a loss of power.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Loss {
    WhileFull,
    OnceFreed,
    InTheEnd,
}

/// When the disk is freed: after so many more calls, or before that operation after the one in
/// which it became full, whichever is first.
struct Freed {
    after_calls: u64,
    after_ops: u64,
}

/// Shows it for every call of several scripts, in each way.
#[test]
fn a_disk_that_becomes_full_at_any_call_and_is_freed_again() {
    let drawn = if exhaustive() { 100 } else { 3 };
    let mut refused: BTreeMap<Step, u64> = BTreeMap::new();
    let at_random = [workload::reopening().at_random(), workload::drawn(1).at_random()];
    for workload in workload::scripts().into_iter().chain((0..drawn).map(workload::drawn)).chain(at_random) {
        let (mut trials, mut with_refusals, mut violations) = (0, 0, Vec::new());
        for call in calls_of(&workload, false).iter().filter(|call| call.kind.changes_storage()) {
            for way in WAYS {
                let seed = call.number * WAYS.len() as u64 + way as u64;
                let trial = Trial { workload: &workload, way, call, seed };
                trials += 1;
                match trial.outcome() {
                    Ok(0) => {}
                    Ok(_) => {
                        with_refusals += 1;
                        *refused.entry(call.step.expect("it changes storage")).or_default() += 1;
                    }
                    Err(why) => violations.push(format!("{trial}: {why}")),
                }
            }
        }
        println!("{}: {trials} runs, {with_refusals} with an operation that was refused", workload.name);
        let shown = violations.iter().take(20).map(|violation| format!("\n * {violation}")).collect::<String>();
        assert!(violations.is_empty(), "{} of {trials} runs show what must not happen:{shown}", violations.len());
    }
    println!("refusals by the call at which the disk became full: {refused:#?}");
    for step in [
        step::WAL_CREATE,
        step::WAL_ALLOCATE,
        step::WAL_APPEND,
        step::WAL_SYNC,
        step::TABLE_CREATE,
        step::TABLE_WRITE,
        step::TABLE_SYNC,
        step::TABLE_SYNC_DIRECTORY,
        step::MANIFEST_CREATE,
        step::MANIFEST_WRITE_BASE,
        step::MANIFEST_SYNC_BASE,
        step::MANIFEST_APPEND,
        step::MANIFEST_MARK,
        step::CURRENT_CREATE,
        step::CURRENT_WRITE,
        step::CURRENT_SYNC,
        step::CURRENT_RENAME,
        step::CURRENT_SYNC_DIRECTORY,
    ] {
        let count = refused.get(&step).copied().unwrap_or(0);
        assert!(count >= 5, "only {count} runs with a disk that was full at {:?} had anything refused", step.0);
    }
}

impl fmt::Display for Trial<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { workload, way, call, .. } = self;
        let step = call.step.map_or("", |step| step.0);
        write!(f, "{}, full at call {} ({:?} {step:?}), {way:?}", workload.name, call.number, call.kind)
    }
}

impl Trial<'_> {
    /// How many operations were refused, or what happened that must not, a panic included.
    fn outcome(&self) -> Result<u64, String> {
        let outcome = catch_unwind(AssertUnwindSafe(|| self.workload.planted(|| self.run())));
        outcome.unwrap_or_else(|panic| Err(format!("a panic: {}", panic_text(&*panic))))
    }

    fn run(&self) -> Result<u64, String> {
        let random = Random::new(self.seed);
        let freed = Freed { after_calls: 1 + random.below(60), after_ops: 1 + random.below(9) };
        let loss = [Loss::WhileFull, Loss::OnceFreed, Loss::InTheEnd][random.below(3) as usize];
        let env = SimEnv::new(SEED);
        let full_calls = self.fill_at_the_call(&env, freed.after_calls);
        let mut session = Session::new(env.clone(), false, Expect::Full, None).of(self.workload);
        let (mut full_ops, mut is_over, mut pending) = (0, false, Vec::new());
        session.open()?;
        for op in &self.workload.ops {
            let calls = full_calls.load(Ordering::Relaxed);
            if calls > 0 && !is_over {
                full_ops += 1;
                if full_ops == 1 && loss == Loss::WhileFull {
                    lose_power(&session, &random)?;
                }
                is_over = full_ops > freed.after_ops || calls > freed.after_calls;
                if is_over {
                    self.go_on(&mut session, std::mem::take(&mut pending))?;
                    if loss == Loss::OnceFreed {
                        lose_power(&session, &random).map_err(|why| format!("once the disk was freed: {why}"))?;
                    }
                }
            }
            let before = session.refused.get();
            session.step(op).map_err(|why| format!("{op:?}: {why}"))?;
            if matches!(op, Op::Write(..)) && session.refused.get() > before {
                pending.push(op.clone());
            }
        }
        assert!(full_calls.load(Ordering::Relaxed) > 0, "the workload is not the same each time");
        if !is_over {
            self.go_on(&mut session, pending)?;
        }
        env.clear_hook();
        session.check_handle()?;
        if loss == Loss::InTheEnd {
            lose_power(&session, &random).map_err(|why| format!("in the end: {why}"))?;
        }
        for op in [Op::Settle, Op::Verify, Op::Reopen, Op::Verify] {
            session.step(&op).map_err(|why| format!("in the end, {op:?}: {why}"))?;
        }
        session.check_handle()?;
        Ok(session.refused.get())
    }

    /// Fills the disk right before the call, and frees it again so many calls later. The number of
    /// calls since.
    fn fill_at_the_call(&self, env: &SimEnv, after_calls: u64) -> Arc<AtomicU64> {
        let (calls, seen) = (Arc::<AtomicU64>::default(), env.clone());
        let (counter, way, at) = (calls.clone(), self.way, self.call.number);
        env.set_hook(move |moment: &Moment<'_>| {
            if moment.call.number < at {
                return;
            }
            match counter.fetch_add(1, Ordering::Relaxed) {
                0 => way.fill(&seen, moment.call.number),
                calls if calls == after_calls => Way::free(&seen),
                _ => {}
            }
        });
        calls
    }

    /// There is space again: nothing fails from here on, and what was refused succeeds.
    fn go_on(&self, session: &mut Session, pending: Vec<Op>) -> Checked {
        Way::free(&session.env);
        session.wait(Duration::from_secs(1));
        session.expect_no_errors();
        if session.db.is_none() {
            session.open().map_err(|why| format!("opening, with space again: {why}"))?;
        }
        let sync = Op::Write(Vec::new(), Durability::Sync);
        pending
            .iter()
            .chain([&sync])
            .try_for_each(|op| session.step(op).map_err(|why| format!("with space again, {op:?}: {why}")))
    }
}

/// The machine loses power, or only the process ends. There is space when the database is opened
/// again.
fn lose_power(session: &Session, random: &Random) -> Checked {
    let (env, history) = (&session.env, &session.history);
    let crash = if random.below(2) == 0 { Crash::LoseAll } else { Crash::draw(random.next(), env.unsynced_changes()) };
    let ends = [(env.image(crash), history.durable()), (env.process_image(), history.acknowledged())];
    for (image, least) in ends {
        Way::free(&image);
        let look = || {
            let db = session.options(&image).open(DIR).map_err(|error| error.to_string())?;
            let report = db.verify(&mut |_, _| {}).map_err(|error| error.to_string())?;
            let answers = Answers::of(&db, &history.keys());
            let complaint = answers.errors().chain(&report.problems).next();
            complaint.map_or(Ok(()), |error| Err(error.to_string()))?;
            session.check_design_of(&db)?;
            history.explains(&answers, least).map(drop)
        };
        look().map_err(|why: String| format!("after the end, with {least} commits promised: {why}"))?;
    }
    Ok(())
}
