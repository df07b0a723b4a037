//! `damage`: files of a database are damaged at random, of every kind and in every way; what
//! follows is an error or the right answer, never a panic or a wrong answer.
//!
//! ```text
//! copy, damaged ─┬─► verify ─► must notice what opening or reading suffers from
//!                ├─► open, read ─► error, or right, or a torn end that is reported
//!                └─► repair ─► open, read ─► what it does not report as lost is there
//! ```
//!
//! Right is the content after the last commit. If the damage looks like the torn end that a crash
//! leaves, what remains is a prefix of the commits, and opening reports it.

pub(crate) mod harm;

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use tamarack::{Db, Options, RepairReport};
use tamarack_testing::Random;

use crate::child::carry_out;
use crate::design::Design;
use crate::disturb::disturb;
use crate::prefix::{difference, matching};
use crate::run::{Outcome, Run};
use crate::stream::{Content, Stream};

/// How many copies of one database are damaged.
const COPIES: u64 = 25;

/// Runs the command.
pub(crate) fn run(run: Run) -> ExitCode {
    run.rounds(one_database)
}

/// A whole database, as it was before its copies were damaged.
struct Whole {
    stream: Stream,
    commits: u64,
    content: Content,
    /// Whether it was closed; else its WAL may end anywhere after what was synced.
    is_closed: bool,
}

fn one_database(run: &mut Run, dir: &Path) -> Outcome {
    let mut random = Random::new(run.seed());
    let original = dir.join("original");
    let whole = make(&original, &mut random)?;
    for number in 0..COPIES {
        let options = Design::random(&mut random).options();
        let (db, repaired) = (dir.join("db"), dir.join("repaired"));
        let mut copied_and_harmed = || {
            harm::copy(&original, &db)?;
            let mut done = Vec::new();
            for _ in 0..if random.one_in(5) { 1 + random.below(4) } else { 1 } {
                done.extend(harm::harm(&db, &mut random)?);
            }
            harm::copy(&db, &repaired)?;
            Ok::<_, std::io::Error>(done)
        };
        let harms = copied_and_harmed().map_err(|error| format!("copy: {error}"))?;
        run.add("copies damaged", 1);
        run.add("damages", harms.len() as u64);
        let say = |what: String| format!("copy {number}, {harms:?}, closed: {}: {what}", whole.is_closed);
        judge(run, &whole, &options, &db).map_err(say)?;
        judge_repair(run, &whole, &options, &repaired).map_err(say)?;
        for copy in [&db, &repaired] {
            fs::remove_dir_all(copy).map_err(|error| error.to_string())?;
        }
        run.progress();
        if !run.has_time() && run.args.count.is_none() {
            break;
        }
    }
    run.add("databases", 1);
    Ok(())
}

/// Makes a database of some thousand commits.
fn make(dir: &Path, random: &mut Random) -> Outcome<Whole> {
    let synced_one_in = *random.pick(&[0, 3]);
    let stream = Stream { seed: random.next(), writer: 0, keys: 300, synced_one_in };
    let commits = 50 + random.below(1500);
    let failed = |error: tamarack::Error| format!("making a database: {error}");
    let db = Design::random(random).options().open(dir).map_err(failed)?;
    for number in 1..=commits {
        carry_out(&db, &stream.commit(number)).map_err(failed)?;
        if random.one_in(100) {
            disturb(&db, random).map_err(failed)?;
        }
    }
    let is_closed = !random.one_in(3);
    if is_closed {
        db.close().map_err(failed)?;
    } else {
        drop(db);
    }
    let mut content = Content::new();
    stream.apply(&mut content, 0, commits);
    Ok(Whole { stream, commits, content, is_closed })
}

/// Verifies and reads a damaged database.
fn judge(run: &mut Run, whole: &Whole, options: &Options, dir: &Path) -> Result<(), String> {
    // A torn end counts as noticed: opening reports it as well.
    let noticed = match options.verify(dir, &mut |_, _| {}) {
        Ok(report) if report.is_ok() && report.torn.is_empty() => None,
        Ok(report) => Some(format!("{:?} {:?}", report.problems, report.torn)),
        Err(error) => Some(error.to_string()),
    };
    run.add("noticed by verify", u64::from(noticed.is_some()));
    let db = match options.open(dir) {
        Ok(db) => db,
        Err(error) => {
            run.add("refused by open", 1);
            return noticed.map(drop).ok_or(format!("verify noticed nothing, open says: {error}"));
        }
    };
    let is_torn = !db.recovery().dropped.is_empty();
    run.add("torn ends reported by open", u64::from(is_torn));
    let error = match read(&db) {
        Ok(found) if found == whole.content => {
            run.add("right answers in spite of damage", 1);
            return Ok(());
        }
        Ok(found) => {
            let prefix = matching(&whole.stream, &mut Content::new(), 0, whole.commits, &found);
            return match prefix {
                Ok(_) if is_torn || !whole.is_closed => {
                    run.add("prefixes, after a torn end", u64::from(is_torn));
                    run.add("prefixes, without one, not closed", u64::from(!is_torn));
                    Ok(())
                }
                Ok(prefix) => Err(format!("only {prefix:?} of {} commits, and no word of it", whole.commits)),
                Err(what) => Err(format!("a wrong answer; verify: {noticed:?}; recovery: {:?}: {what}", db.recovery())),
            };
        }
        Err(error) => error,
    };
    run.add("errors while reading", 1);
    if noticed.is_none() {
        return Err(format!("verify noticed nothing, a scan says: {error}"));
    }
    // Each lookup by itself gives an error or the right value; after a torn end an earlier one.
    for number in 0..whole.stream.keys {
        let key = whole.stream.key(number);
        let was_written = |value: &[u8]| whole.stream.wrote(&key, value, whole.commits);
        match db.get(&key) {
            Ok(found) if found.as_deref() == whole.content.get(&key).map(Vec::as_slice) => {}
            Ok(found) if is_torn && found.as_deref().is_none_or(was_written) => {}
            Ok(_) => return Err(format!("a wrong value of {}; a scan says: {error}", key.escape_ascii())),
            Err(_) => run.add("lookups with errors", 1),
        }
    }
    Ok(())
}

fn read(db: &Db) -> Result<Content, tamarack::Error> {
    db.scan(..).map(|entry| entry.map(|(key, value)| (key.to_vec(), value.to_vec()))).collect()
}

/// Repairs a damaged database and compares what it then holds with what the repair reports.
fn judge_repair(run: &mut Run, whole: &Whole, options: &Options, dir: &Path) -> Result<(), String> {
    let torn = options.verify(dir, &mut |_, _| {}).map(|report| report.torn.len()).unwrap_or(0);
    let report = match options.repair(dir, &mut |_, _| {}) {
        Ok(report) => report,
        Err(error) => {
            run.add("repairs refused", 1);
            return if options.open(dir).is_ok() { Err(format!("a repair was refused: {error}")) } else { Ok(()) };
        }
    };
    run.add("repairs", u64::from(report.applied));
    let db = options.open(dir).map_err(|error| format!("after a repair, open: {error}; {report:?}"))?;
    let found = read(&db).map_err(|error| format!("after a repair, scan: {error}"))?;
    let verified = db.verify(&mut |_, _| {}).map_err(|error| format!("after a repair, verify: {error}"))?;
    if !verified.is_ok() {
        return Err(format!("after a repair, verify: {:?}", verified.problems));
    }
    if let Some((key, value)) = found.iter().find(|(key, value)| !whole.stream.wrote(key, value, whole.commits)) {
        return Err(format!("after a repair, {} has an invented value {}", key.escape_ascii(), value.escape_ascii()));
    }
    if torn > 0 || !whole.is_closed || !db.recovery().dropped.is_empty() {
        // What a crash may have torn off is not part of what is compared.
        run.add("repairs of databases with torn ends", 1);
        return Ok(());
    }
    run.add("repairs without any loss", u64::from(report.applied && report.lost.is_empty()));
    let outside: Vec<&Vec<u8>> = whole
        .content
        .keys()
        .chain(found.keys())
        .filter(|key| !is_lost(&report, key) && whole.content.get(*key) != found.get(*key))
        .collect();
    if !report.may_return && !outside.is_empty() {
        return Err(format!(
            "{} keys differ that the repair does not report as lost; {}; {report:?}",
            outside.len(),
            difference("after a repair", &whole.content, &found)
        ));
    }
    Ok(())
}

/// True if the report says that entries of this key may be lost.
fn is_lost(report: &RepairReport, key: &[u8]) -> bool {
    report.lost.iter().any(|lost| {
        lost.from.as_ref().is_none_or(|from| from.as_slice() <= key)
            && lost.to.as_ref().is_none_or(|to| key <= to.as_slice())
    })
}
