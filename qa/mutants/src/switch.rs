//! The module `__mutant` of each mutated crate: which mutant is on, and which were reached.
//!
//! Not part of this program: its text is copied to `src/__mutant.rs` of the crate under test.
//! `TAMARACK_MUTANT` is a mutant's number, or `record`: then no mutant is on, and the number of
//! each site that is reached is appended, once, to the file `TAMARACK_MUTANT_REACHED`.

use std::io::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

/// The variable was not read yet.
const UNREAD: u32 = u32::MAX;
/// No mutant is on; reached ones are recorded.
const RECORD: u32 = u32::MAX - 1;
/// More mutants than any run has.
const COUNT_MAX: usize = 1 << 16;

static ACTIVE: AtomicU32 = AtomicU32::new(UNREAD);
static REACHED: [AtomicBool; COUNT_MAX] = [const { AtomicBool::new(false) }; COUNT_MAX];

/// Returns true if this mutant is on.
#[inline(always)]
pub(crate) fn on(number: u32) -> bool {
    let active = ACTIVE.load(Relaxed);
    if active < RECORD { active == number } else { is_on_at_first(number) }
}

#[cold]
#[inline(never)]
fn is_on_at_first(number: u32) -> bool {
    if ACTIVE.load(Relaxed) == UNREAD {
        let active = match std::env::var("TAMARACK_MUTANT") {
            Ok(word) if word == "record" => RECORD,
            Ok(word) => word.parse().expect("TAMARACK_MUTANT is the number of a mutant, or `record`"),
            Err(_) => 0,
        };
        ACTIVE.store(active, Relaxed);
        return on(number);
    }
    let reached = &REACHED[number as usize];
    if !reached.load(Relaxed) && !reached.swap(true, Relaxed) {
        let path = std::env::var_os("TAMARACK_MUTANT_REACHED").expect("TAMARACK_MUTANT_REACHED names a file");
        let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
        file.and_then(|mut file| file.write_all(format!("{number}\n").as_bytes())).expect("a reached mutant is noted");
    }
    false
}
