//! A change there and back under writers at a fixed rate, beside readers who check every answer.
//!
//! ```text
//!   writer    put put put ──────┬─────── put put …   at a fixed rate; latency from the call, and
//!                               │                    delay after the due time
//!   getter    get · get · get · │ · get …            acknowledged entries and absent keys; every
//!                               │                    answer is checked
//!   scanner   scan · scan · ·   │ · scan …           from an existing entry: its neighbours
//!   control   write · write · · │ · write …          4 KiB each millisecond to its own file there
//!                           the change: none, lazily, at once
//! ```
//!
//! Each way begins with the same tree (a checkpoint of one at rest) and writes the same entries.
//! The control changes nothing: the others' additional bytes are the cost of the change. The tree
//! that was changed lazily is the one that is changed back.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use common::control::{beside_control, wait_until};
use common::numbers::{mib, mix};
use common::words::Words;
use tamarack::{Db, Event, ReshapeEstimate, Result, Stats};
use tamarack_env::histogram::Histogram;

use super::entries::{Entries, RAW_BYTES, key, number_in};
use super::{FIRST, Setup, buffered, grown, holds, levels, write};

const OTHER: &str = "moose:last=0.8,k=1";

/// Numbers from here on are never written.
const ABSENT: u64 = 1 << 40;
/// So many neighbours a scan looks at.
const SCANNED: usize = 16;

/// What is done at the change.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Way {
    Kept,
    Lazily,
    AtOnce,
}

/// What one way gave.
struct Run {
    way: Way,
    estimate: ReshapeEstimate,
    /// Raw bytes from the change until the tree was at rest.
    written: u64,
    /// Of that, by compactions that reshape levels, and the time until the tree had its shape.
    reshaped: u64,
    reshape_time: Duration,
    before: Puts,
    after: Puts,
    control: Histogram,
    stalls: u64,
    delayed: f64,
    answers: u64,
    wrong: u64,
    runs_most: usize,
    at_rest: String,
}

/// Puts, and how far one came after its due time at most, in nanoseconds.
#[derive(Default)]
struct Puts {
    latencies: Histogram,
    behind: u64,
    time: Duration,
}

pub(super) fn measure(words: &Words, setup: &Setup) -> Result<String> {
    let (reads, percent) = (words.positive("reads", 2000), words.positive("percent", 90));
    let entries = Entries::new();
    let base = setup.dir.join("base");
    let (db, count) = grown(setup, &base, &entries)?;
    let count = count.into_inner();
    let copy = setup.dir.join("copy");
    db.checkpoint(&copy)?;
    let sustained = sustained(setup, &copy, &entries, count, reads)?;
    let rate = sustained * percent / 100;
    fs::remove_dir_all(&copy).expect("the copy is removed");
    let mut text = format!(
        "\n## There and back under writers and readers\n\n\
         One thread puts {rate} entries per second, {percent} % of the {sustained} per second that the leveled tree took at full speed, with the same readers and rest included. Puts that are due within a \
         millisecond come together. Two threads read {reads} times per second together, single entries and {SCANNED} neighbours; every answer is checked. For each way {} MiB are written, the change \
         comes after an eighth of that. Latencies count from the put's call; behind: how far a put returned after its due time at most. Control: 4 KiB every millisecond to a file beside.\n",
        setup.load >> 20
    );
    let mut verdicts = Vec::new();
    let mut from = (db, count);
    for (number, to) in [OTHER, FIRST].into_iter().enumerate() {
        let (mut runs, mut next) = (Vec::new(), None);
        for way in [Way::Kept, Way::AtOnce, Way::Lazily] {
            let dir = setup.dir.join(format!("{number}-{way:?}"));
            from.0.checkpoint(&dir)?;
            let db = open(setup, &dir)?;
            let (run, count) = one(setup, &db, &entries, from.1, (to, way), rate, reads)?;
            eprintln!("{to} {way:?}: {:.0} MiB, {:?}", mib(run.written), run.reshape_time);
            runs.push(run);
            match way {
                Way::Lazily => next = Some((db.0, count)),
                _ => {
                    db.0.close()?;
                    fs::remove_dir_all(&dir).expect("it is removed");
                }
            }
        }
        let (db, count) = next.expect("one way is lazy");
        let all_there = entries.are_all_there(&db, count)?;
        verdicts.push((all_there, format!("after the change to {to} every entry is there, and no other")));
        text += &tables(&from.0.stats().policy, to, &runs, &mut verdicts);
        from = (db, count);
    }
    text += "\n";
    for (it_does, what) in verdicts {
        text += &format!("* {}: {what}\n", holds(it_does));
    }
    Ok(text)
}

/// Opens a database, with a count of the bytes that reshaping compactions write.
fn open(setup: &Setup, dir: &Path) -> Result<(Db, Arc<AtomicU64>)> {
    let reshaped = Arc::new(AtomicU64::new(0));
    let listener = {
        let reshaped = reshaped.clone();
        move |event: &Event| {
            if let Event::CompactionBegun { cause, raw_bytes, .. } = event
                && cause.contains("reshape of level")
            {
                reshaped.fetch_add(*raw_bytes, Ordering::Relaxed);
            }
        }
    };
    Ok((setup.options().listener(Arc::new(listener)).open(dir)?, reshaped))
}

/// Puts per second at full speed beside the readers, until the tree is at rest.
fn sustained(setup: &Setup, dir: &Path, entries: &Entries, count: u64, reads: u64) -> Result<u64> {
    let (db, _) = open(setup, dir)?;
    let (count, ended, began) = (AtomicU64::new(count), AtomicBool::new(false), Instant::now());
    thread::scope(|scope| {
        let readers = [Reader::Get, Reader::Scan].map(|kind| {
            let (db, count, ended) = (&db, &count, &ended);
            scope.spawn(move || kind.read(db, entries, count, ended, reads / 2))
        });
        let outcome =
            write(&db, entries, &count, setup.load).and_then(|()| db.flush()).and_then(|()| db.wait_for_compactions());
        ended.store(true, Ordering::Relaxed);
        for reader in readers {
            let (_, wrong) = reader.join().expect("a reader ends")?;
            assert_eq!(wrong, 0, "an answer is wrong");
        }
        outcome
    })?;
    let rate = (setup.load / RAW_BYTES) as f64 / began.elapsed().as_secs_f64();
    db.close()?;
    Ok(rate as u64)
}

/// Writes with all readers running, and changes the policy in that way. Returns the outcome and the
/// number of entries then.
fn one(
    setup: &Setup,
    (db, reshaped): &(Db, Arc<AtomicU64>),
    entries: &Entries,
    first: u64,
    (to, way): (&str, Way),
    rate: u64,
    reads: u64,
) -> Result<(Run, u64)> {
    let (count, ended) = (AtomicU64::new(first), AtomicBool::new(false));
    let puts = setup.load / RAW_BYTES;
    let work = || {
        thread::scope(|scope| {
            let readers = [Reader::Get, Reader::Scan].map(|kind| {
                let (count, ended) = (&count, &ended);
                scope.spawn(move || kind.read(db, entries, count, ended, reads / 2))
            });
            let outcome = (|| {
                let before = paced(db, entries, &count, puts / 8, rate)?;
                let then = db.stats();
                let estimate = db.estimate_reshape(to, (puts - puts / 8) * RAW_BYTES + buffered(&then))?;
                let began = Instant::now();
                if way != Way::Kept {
                    db.set_policy(to)?;
                }
                let reshaper = scope.spawn(move || match way {
                    Way::AtOnce => db.reshape().map(|()| began.elapsed()),
                    _ => Ok(Duration::ZERO),
                });
                let after = paced(db, entries, &count, puts - puts / 8, rate)?;
                let writing = db.stats();
                let reshape_time = reshaper.join().expect("it ends")?;
                db.flush()?;
                db.wait_for_compactions()?;
                Ok::<_, tamarack::Error>((before, then, estimate, after, writing, reshape_time))
            })();
            ended.store(true, Ordering::Relaxed);
            let (mut answers, mut wrong) = (0, 0);
            for reader in readers {
                let of_one = reader.join().expect("a reader ends")?;
                (answers, wrong) = (answers + of_one.0, wrong + of_one.1);
            }
            let (before, then, estimate, after, writing, reshape_time) = outcome?;
            let now = db.stats();
            let runs = |stats: &Stats| stats.levels.iter().map(|level| level.runs.len()).sum::<usize>();
            let run = Run {
                way,
                estimate,
                written: now.written_raw_bytes() - then.written_raw_bytes(),
                reshaped: reshaped.load(Ordering::Relaxed),
                reshape_time,
                before,
                after,
                control: Histogram::default(),
                stalls: writing.write_stalls - then.write_stalls,
                delayed: writing.write_delay_seconds - then.write_delay_seconds,
                answers,
                wrong,
                runs_most: runs(&then).max(runs(&writing)),
                at_rest: levels(db),
            };
            Ok((run, count.load(Ordering::Relaxed)))
        })
    };
    let (outcome, control) = beside_control(&setup.dir, work).expect("the control writes");
    let (run, count) = outcome?;
    Ok((Run { control, ..run }, count))
}

/// So many puts at that rate.
fn paced(db: &Db, entries: &Entries, count: &AtomicU64, puts: u64, rate: u64) -> Result<Puts> {
    let mut done = Puts::default();
    let began = Instant::now();
    let mut now = began;
    for n in 0..puts {
        let due = began + Duration::from_nanos((n as f64 / rate as f64 * 1e9) as u64);
        now = wait_until(due, now);
        entries.put(db, count.load(Ordering::Relaxed))?;
        count.fetch_add(1, Ordering::Release);
        let after = Instant::now();
        done.latencies.note(after - now);
        done.behind = done.behind.max((after - due).as_nanos() as u64);
        now = after;
    }
    done.time = began.elapsed();
    Ok(done)
}

#[derive(Clone, Copy)]
enum Reader {
    Get,
    Scan,
}

impl Reader {
    /// Reads at that rate until `ended`; returns the numbers of answers and of wrong answers.
    fn read(self, db: &Db, entries: &Entries, count: &AtomicU64, ended: &AtomicBool, rate: u64) -> Result<(u64, u64)> {
        let (mut answers, mut wrong) = (0, 0);
        let began = Instant::now();
        while !ended.load(Ordering::Relaxed) {
            let due = began + Duration::from_nanos((answers as f64 / rate as f64 * 1e9) as u64);
            thread::sleep(due.saturating_duration_since(Instant::now()));
            // Acknowledged, so it is there.
            let number = mix(answers ^ began.elapsed().as_nanos() as u64) % count.load(Ordering::Acquire);
            let right = match self {
                Self::Get if answers % 4 == 3 => db.get(key(ABSENT + number))?.is_none(),
                Self::Get => db.get(key(number))?.is_some_and(|value| value[..] == *entries.value(number)),
                Self::Scan => scans_right(db, entries, number)?,
            };
            answers += 1;
            wrong += u64::from(!right);
        }
        Ok((answers, wrong))
    }
}

/// From that entry on: it comes first, keys ascend, and each has the value that belongs to it.
fn scans_right(db: &Db, entries: &Entries, number: u64) -> Result<bool> {
    let mut last: Option<Vec<u8>> = None;
    for entry in db.scan(&key(number)[..]..).take(SCANNED) {
        let (found, value) = entry?;
        let of = number_in(&value);
        let is_first = last.is_none();
        let in_order = last.as_ref().is_none_or(|last| last[..] < found[..]);
        if !in_order || (is_first && of != number) || found[..] != key(of) || value[..] != *entries.value(of) {
            return Ok(false);
        }
        last = Some(found.to_vec());
    }
    Ok(last.is_some())
}

/// Two tables: bytes, and what puts took.
fn tables(from: &str, to: &str, runs: &[Run], verdicts: &mut Vec<(bool, String)>) -> String {
    let name = |way| match way {
        Way::Kept => format!("{from} is kept"),
        Way::Lazily => format!("{to} as data arrives"),
        Way::AtOnce => format!("{to} at once"),
    };
    let kept = runs.iter().find(|run| run.way == Way::Kept).expect("it is one of them");
    let mut text = format!(
        "\n### {from} -> {to}\n\n| way | written MiB | estimated | ratio | extra MiB | estimated | ratio | compacted at once MiB | estimated | ratio | at once s | runs when the writer ended, at most | at rest then |\n|---|{}---|\n",
        "---:|".repeat(11)
    );
    for run in runs {
        let e = &run.estimate;
        let (estimated, extra_estimated) = match run.way {
            Way::Kept => (e.kept_bytes, 0),
            Way::Lazily => (e.lazily_bytes, e.extra_lazily_bytes()),
            Way::AtOnce => (e.at_once_bytes, e.extra_at_once_bytes()),
        };
        let signed = |bytes: i64| bytes as f64 / f64::from(1 << 20);
        let extra = run.written as i64 - kept.written as i64;
        let ratio = run.written as f64 / estimated as f64;
        let mut cells = vec![
            name(run.way),
            format!("{:.0}", mib(run.written)),
            format!("{:.0}", mib(estimated)),
            format!("{ratio:.3}"),
        ];
        if run.way == Way::Kept {
            cells.extend([""; 3].map(str::to_owned));
        } else {
            cells.extend([format!("{:+.0}", signed(extra)), format!("{:+.0}", signed(extra_estimated))]);
            let costs = extra_estimated > 0;
            cells.push(if costs {
                format!("{:.3}", extra as f64 / extra_estimated as f64)
            } else {
                "spares".to_owned()
            });
            verdicts.push((
                ratio <= 1.15,
                format!("{from} -> {}: at most 1.15 times the bytes that were estimated; {ratio:.3}", name(run.way)),
            ));
            // Savings: at least as much as estimated, less 15 %.
            let bound = extra_estimated as f64 + 0.15 * extra_estimated.abs() as f64;
            verdicts.push((
                extra as f64 <= bound,
                format!(
                    "{from} -> {}: extra bytes at most 15 % above the estimate; {:+.0} MiB, estimated {:+.0}",
                    name(run.way),
                    signed(extra),
                    signed(extra_estimated)
                ),
            ));
        }
        if run.way == Way::AtOnce {
            let ratio = run.reshaped as f64 / e.reshape_bytes as f64;
            cells.extend([format!("{:.0}", mib(run.reshaped)), format!("{:.0}", mib(e.reshape_bytes))]);
            cells.push(if e.reshape_bytes > 0 { format!("{ratio:.3}") } else { String::new() });
            cells.push(format!("{:.1}", run.reshape_time.as_secs_f64()));
            verdicts.push((
                run.reshaped as f64 <= 1.15 * e.reshape_bytes as f64,
                format!(
                    "{from} -> {}: compactions at once copy at most 1.15 times the estimate; {:.0} MiB, {:.0}",
                    name(run.way),
                    mib(run.reshaped),
                    mib(e.reshape_bytes)
                ),
            ));
        } else {
            cells.extend([""; 4].map(str::to_owned));
        }
        cells.extend([run.runs_most.to_string(), run.at_rest.clone()]);
        text += &format!("| {} |\n", cells.join(" | "));
    }
    text += &format!(
        "\n| puts | per s | p50 us | p99 us | p99.9 us | max ms | behind ms | delayed s | waits for a flush | control p99.9 us | control max ms | answers | wrong |\n|---|{}\n",
        "---:|".repeat(12)
    );
    for run in runs {
        let row = |name: &str, puts: &Puts, rest: &str| {
            let l = &puts.latencies;
            format!(
                "| {name} | {:.0} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} | {rest} |\n",
                l.samples() as f64 / puts.time.as_secs_f64(),
                l.percentile_ns(500) as f64 / 1e3,
                l.percentile_ns(990) as f64 / 1e3,
                l.percentile_ns(999) as f64 / 1e3,
                l.longest_ns() as f64 / 1e6,
                puts.behind as f64 / 1e6,
            )
        };
        text += &row(&format!("before: {from}"), &run.before, " | | | | | ");
        let control = &run.control;
        let rest = format!(
            "{:.1} | {} | {:.1} | {:.1} | {} | {}",
            run.delayed,
            run.stalls,
            control.percentile_ns(999) as f64 / 1e3,
            control.longest_ns() as f64 / 1e6,
            run.answers,
            run.wrong
        );
        text += &row(&name(run.way), &run.after, &rest);
        if run.way != Way::Kept {
            let most = run.after.latencies.longest_ns() as f64 / 1e6;
            verdicts.push((
                most < 100.0,
                format!("{from} -> {}: no put takes 100 ms; the longest {most:.1} ms", name(run.way)),
            ));
        }
        verdicts
            .push((run.wrong == 0, format!("{from} -> {}: every answer is right, of {}", name(run.way), run.answers)));
    }
    text
}
