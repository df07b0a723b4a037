//! Shows what verifying and repairing make of databases that were damaged at random.
//!
//! Each seed makes a small database with a history of its own: policy, sizes, puts, deletes,
//! batches, snapshots, compactions of ranges; compactions in progress or not; closed, killed, or on
//! a machine that lost its power. Then some of its files are damaged: bits flipped, ranges zeroed,
//! overwritten or exchanged, files cut, removed, made longer, or replaced by others. For each:
//!
//! * **Verifying** lists what was damaged, in that file, and changes nothing.
//! * **Planning** a repair changes nothing, and says what the repair then does.
//! * **A repaired database** opens, and verifying finds nothing any more. Files that were there are
//!   still there, under the names that the report says.
//! * **Nothing is made up.** Each value that is read was written, at that key.
//! * **What is whole is kept.** Of all versions of a key in blocks and records whose bytes are what
//!   they were, and that belonged to the state, what is read is the youngest, or a younger one yet.
//!   Files that are whole are the case where that is all of their blocks and records. (A WAL whose
//!   end looks as a crash leaves it is kept as a WAL: then records count up to the first that is
//!   damaged.)
//!   One thing is allowed where the report names key and sequence number: entries of an ingest may
//!   count as older than they are, never as younger, if nothing says when it ended.
//! * **What is lost is said.** If a key has another value than before the damage, a range of keys
//!   in the report covers it. Some things cannot be covered, and the report says so in general:
//!   where the manifest is lost, keys that were deleted may be back; and nobody misses a file of
//!   which nothing is left that names it, or the end of a WAL that nothing says to have been
//!   durable.
//!
//! # What cannot be told from a crash
//!
//! Some damage leaves what a crash may have left, had it come a little earlier. This, and nothing
//! else, need not be noticed:
//!
//! * **The manifest ends within an edit**, or in an edit that is not whole, and nothing that is
//!   left says that it was durable: no record behind it, no WAL segment or table that was begun
//!   after it, no WAL record that was written after it had put older entries into tables. A crash
//!   while the edit is appended leaves some of its bytes, and its checksum does not say which bytes
//!   are wrong. Verification lists the end of the manifest as torn, and the tables of the edit as
//!   files that nothing names. If it was the edit of a flush, unsynced records that it had put into
//!   tables may be torn in the WAL, which ends there, as verification says. An ingest that has
//!   ended is always missed, unless the WAL segment that names its edit is damaged as well.
//! * **A journal's file ends between two records**, because of a cut or, in a WAL, of zeros up to
//!   its end, at or after the position that is known to have been durable: so does a crash before
//!   the next record is appended, or the next segment begun.
//!
//! `TAMARACK_DATABASES` is how many (1,000), `TAMARACK_SEED` the first.

mod damage;
mod interrupted;
mod scene;
mod stories;
mod truth;

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use tamarack::{Error, RepairReport, VerifyReport};
use tamarack_env::{Random, SimEnv};

use damage::Damage;
use scene::{DIR, Scene};
use truth::{Answers, Forgotten, Truth};

/// How many databases, unless the environment says something else.
const DATABASES: u64 = 1000;

/// What the databases of a run had, all together: a suite that never meets something proves nothing
/// about it.
#[derive(Debug, Default)]
struct Tally {
    untouched: u64,
    kept: u64,
    rebuilt: u64,
    hopeless: u64,
    merging: u64,
    losses: u64,
    returned: u64,
}

#[test]
fn damaged_databases() {
    let number = |name: &str, otherwise| std::env::var(name).map_or(otherwise, |text| text.parse().expect("a number"));
    let (first, count) = (number("TAMARACK_SEED", 1), number("TAMARACK_DATABASES", DATABASES));
    let mut tally = Tally::default();
    let mut failures = Vec::new();
    for seed in first..first + count {
        let outcome = catch_unwind(AssertUnwindSafe(|| check(seed, &mut tally)));
        let outcome = outcome.unwrap_or_else(|panic| Err(format!("a panic: {:?}", panic.downcast_ref::<String>())));
        failures.extend(outcome.err().map(|why| format!("\nTAMARACK_SEED={seed} TAMARACK_DATABASES=1: {why}")));
        assert!(failures.len() < 10, "{}", failures.concat());
    }
    println!("{count} databases: {tally:?}");
    assert!(failures.is_empty(), "{}", failures.concat());
    let Tally { kept, rebuilt, merging, losses, .. } = tally;
    assert!(count < 500 || kept.min(rebuilt).min(merging).min(losses) > count / 50, "{tally:?}");
}

fn check(seed: u64, tally: &mut Tally) -> Result<(), String> {
    let scene = Scene::of(seed);
    let truth = Truth::of(&scene);
    let env = scene.env.process_image();
    let random = Random::for_purpose(seed, 1);
    let damages = damage::draw(&random, &env);
    for damage in &damages {
        damage.inflict(&env);
    }
    Case { scene: &scene, truth: &truth, env, damages }.check(tally).map_err(|why| {
        let damages: Vec<String> =
            damage::draw(&Random::for_purpose(seed, 1), &scene.env).iter().map(Damage::to_string).collect();
        format!("{}; {}: {why}", scene.ending, damages.join(", "))
    })
}

struct Case<'a> {
    scene: &'a Scene,
    truth: &'a Truth,
    env: SimEnv,
    damages: Vec<Damage>,
}

impl Case<'_> {
    fn check(&self, tally: &mut Tally) -> Result<(), String> {
        let before = contents(&self.env);
        let options = self.scene.options(&self.env);
        let verified = options.verify(DIR, &mut |_, _| {});
        let planned = options.plan_repair(DIR, &mut |_, _| {});
        if contents(&self.env) != before {
            return Err("verifying, or planning, changed something".to_owned());
        }
        let (verified, planned) = match (verified, planned) {
            (Ok(verified), Ok(planned)) => (verified, planned),
            // Nothing is left that says which database it was, or that there was one.
            (_, Err(error)) if self.nothing_is_left(&before) => {
                tally.hopeless += 1;
                drop(error);
                return Ok(());
            }
            (verified, planned) => return Err(format!("verify: {:?}; plan: {:?}", verified.err(), planned.err())),
        };
        self.check_found(&before, &verified)?;
        let repaired = options.repair(DIR, &mut |_, _| {}).map_err(|error| format!("repair: {error}"))?;
        let mut unapplied = repaired.clone();
        unapplied.applied = false;
        if format!("{planned:?}") != format!("{unapplied:?}") {
            return Err(format!("planned {planned:?}, repaired {repaired:?}"));
        }
        if repaired.applied == repaired.problems.is_empty() || repaired.problems.is_empty() != verified.is_ok() {
            return Err(format!("verify finds {:?}, and repair does {repaired:?}", verified.problems));
        }
        self.check_aside(&before, &repaired)?;
        let again = options.verify(DIR, &mut |_, _| {}).map_err(|error| format!("verify after repair: {error}"))?;
        if !again.is_ok() {
            return Err(format!("after the repair there is {:?}", again.problems));
        }
        let read_only = options.open_read_only(DIR).and_then(|db| db.verify(&mut |_, _| {}));
        // Where nothing but the making of a database is left, there is none to be read.
        let is_new = !repaired.applied && matches!(read_only, Err(Error::NotFound { .. }));
        if !is_new && !read_only.as_ref().is_ok_and(VerifyReport::is_ok) {
            return Err(format!("opened for reading only, there is {read_only:?} after {repaired:?}"));
        }
        let answers = self.scene.answers(&self.env).map_err(|why| format!("{why}; {repaired:?}"))?;
        self.check_answers(&before, &repaired, &answers, &self.forgotten(&before, &verified))?;
        tally.merging += u64::from(self.truth.is_compacting);
        match (repaired.applied, repaired.rebuilt) {
            (false, _) => tally.untouched += 1,
            (true, false) => tally.kept += 1,
            (true, true) => tally.rebuilt += 1,
        }
        tally.losses += u64::from(!repaired.lost.is_empty());
        tally.returned +=
            u64::from(answers.iter().any(|(key, value)| value.is_some() && self.truth.answers[key].is_none()));
        Ok(())
    }

    /// Every planted damage is found, unless the bytes mean nothing: files that nothing needs;
    /// space of the WAL that was only reserved.
    fn check_found(&self, before: &Contents, found: &VerifyReport) -> Result<(), String> {
        let forgotten = self.forgotten(before, found);
        let mut named: BTreeSet<&Path> = found.torn.iter().map(|torn| &*torn.path).collect();
        named.extend(found.problems.iter().filter_map(path_of));
        let any_wal = named.iter().any(|path| is(path, "wal"));
        let of_manifest = |path: &Path| path.ends_with("CURRENT") || is(path, "manifest");
        let structure_is_whole =
            self.truth.needed.iter().all(|(path, bytes)| !of_manifest(path) || before.get(path) == Some(bytes));
        for (path, whole) in &self.truth.needed {
            let now = before.get(path);
            // Cut between two records, a journal is whole in itself.
            let is_cut = || self.truth.is_cut_between_records(path, now);
            let is_found = match now {
                Some(now) if now == whole => continue,
                // What nobody names is not missed.
                None if is(path, "sst") => named.contains(&**path) || !structure_is_whole,
                _ if is(path, "sst") => named.contains(&**path) || forgotten.tables.contains(path),
                // Only `CURRENT` names the manifest.
                None if is(path, "manifest") => {
                    named.contains(&**path) || named.contains(&*Path::new(DIR).join("CURRENT"))
                }
                _ if is(path, "manifest") => named.contains(&**path) || is_cut(),
                _ if is(path, "wal") => any_wal || is_cut() || !structure_is_whole || !self.truth.wal_means(path, now),
                _ => named.contains(&**path),
            };
            if !is_found {
                return Err(format!("{} is damaged, but only these are found: {named:?}", path.display()));
            }
        }
        Ok(())
    }

    /// What belonged to edits that are in the manifest's torn end: verification lists that end, and
    /// all before it is whole. An ingest's table is missed all the same, unless the WAL is damaged,
    /// too.
    fn forgotten(&self, before: &Contents, found: &VerifyReport) -> Forgotten {
        let starts_whole = |torn: &&tamarack::Dropped| {
            let (now, whole) = (before.get(&torn.path), self.truth.needed.get(&torn.path));
            let kept = now.and_then(|now| now.get(..torn.offset as usize));
            is(&torn.path, "manifest") && kept.zip(whole).is_some_and(|(kept, whole)| whole.starts_with(kept))
        };
        if !found.torn.iter().any(|torn| starts_whole(&torn)) {
            return Forgotten::default();
        }
        let all = contents(&self.scene.env);
        let is_wal_whole = all.iter().all(|(path, bytes)| !is(path, "wal") || before.get(path) == Some(bytes));
        let is_missed = |path: &PathBuf| is_wal_whole && self.truth.ingested.contains(path);
        let tables = found.unnamed.iter().filter(|path| is(path, "sst") && !is_missed(path)).cloned().collect();
        let wal_end = found.torn.iter().find(|torn| is(&torn.path, "wal")).map(|torn| (torn.path.clone(), torn.offset));
        Forgotten { tables, wal_end }
    }

    /// Every file is where it was, or where the report says.
    fn check_aside(&self, before: &Contents, report: &RepairReport) -> Result<(), String> {
        let after = contents(&self.env);
        let aside: BTreeMap<_, _> =
            report.replaced.iter().filter_map(|file| Some((&file.path, file.aside.as_ref()?))).collect();
        for (path, bytes) in before {
            let now = aside.get(path).copied().unwrap_or(path);
            if after.get(now) != Some(bytes) {
                return Err(format!("{} is not as it was at {}", path.display(), now.display()));
            }
        }
        Ok(())
    }

    fn check_answers(
        &self,
        before: &Contents,
        report: &RepairReport,
        answers: &Answers,
        forgotten: &Forgotten,
    ) -> Result<(), String> {
        let keeps_wal = !report.replaced.iter().any(|file| is(&file.path, "wal"));
        let whole = self.truth.whole(before, keeps_wal, forgotten);
        // An ingested entry of which nothing says when it was written may be hidden by entries that
        // the report says to be possibly younger.
        let is_undated = |path: &Path| {
            let names = |problem: &&Error| path_of(problem) == Some(path);
            report.problems.iter().filter(names).any(|problem| problem.to_string().contains("one of an ingest"))
        };
        let undated: Vec<&tamarack::Lost> = report.lost.iter().filter(|lost| is_undated(&lost.path)).collect();
        let may_hide = |key: &[u8], sequence: u64, kept: u64| {
            let holds = |lost: &tamarack::Lost| lost.sequences.is_some_and(|(a, b)| (a..=b).contains(&sequence));
            let written = self.scene.versions[key].iter().find(|(of, _)| *of == kept);
            let is_ingested = written.and_then(|(_, value)| value.as_ref()).is_some_and(|v| v.ends_with(b"ingested"));
            is_ingested && undated.iter().any(|lost| covers(lost, key) && holds(lost))
        };
        for (key, value) in answers {
            let versions = &self.scene.versions[key];
            let name = key.escape_ascii();
            let sequence = match value {
                Some(value) => match versions.iter().find(|(_, written)| written.as_ref() == Some(value)) {
                    Some((sequence, _)) => Some(*sequence),
                    None => return Err(format!("\"{name}\" was never \"{}\"", value.escape_ascii())),
                },
                None => versions.iter().filter(|(_, written)| written.is_none()).map(|(sequence, _)| *sequence).max(),
            };
            let may_hide = |kept: u64| sequence.is_some_and(|sequence| may_hide(key, sequence, kept));
            let is_hidden = |kept: &&u64| sequence < Some(**kept) && !may_hide(**kept);
            if let Some(kept) = whole.get(key).filter(is_hidden) {
                return Err(format!("\"{name}\" is {value:?} of {sequence:?}, but {kept} is whole; {report:?}"));
            }
            let was = &self.truth.answers[key];
            let is_explained = value == was
                || report.lost.iter().any(|lost| covers(lost, key))
                || was.is_none() && report.may_return
                || sequence > self.truth.sequences.get(key).copied()
                || self.truth.leaves_no_trace(before, key, keeps_wal, report.rebuilt, forgotten);
            if !is_explained {
                return Err(format!("\"{name}\" was {was:?} and is {value:?}, which nothing explains in {report:?}"));
            }
        }
        Ok(())
    }

    /// True if there is no file any more that says which database it belongs to, and proves it.
    fn nothing_is_left(&self, before: &Contents) -> bool {
        self.truth.needed.iter().all(|(path, bytes)| before.get(path) != Some(bytes)) || before.is_empty() || {
            // A file of a kind that names no database, and one that is nothing but a name.
            let names = |path: &Path| !path.ends_with("CURRENT");
            !self.truth.needed.iter().any(|(path, bytes)| names(path) && before.get(path) == Some(bytes))
                && self.damages.len() > 1
        }
    }
}

type Contents = BTreeMap<PathBuf, Vec<u8>>;

/// All files but the lock, which is made.
fn contents(env: &SimEnv) -> Contents {
    let files = env.files().into_iter().filter(|(path, _)| !path.ends_with("LOCK"));
    files.map(|(path, _)| (path.clone(), env.content(&path).expect("it is there"))).collect()
}

fn path_of(error: &Error) -> Option<&Path> {
    match error {
        Error::Corruption { path, .. } | Error::Unsupported { path, .. } | Error::Io { path, .. } => Some(path),
        _ => None,
    }
}

fn covers(lost: &tamarack::Lost, key: &[u8]) -> bool {
    lost.from.as_deref().is_none_or(|from| from <= key) && lost.to.as_deref().is_none_or(|to| key <= to)
}

fn is(path: &Path, kind: &str) -> bool {
    path.extension().is_some_and(|extension| extension == kind)
}
