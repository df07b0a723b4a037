//! The check of the order of locks can fail, and fails only for what is wrong.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::{Condvar, Mutex, Rank, apart};

const LOW: Rank = Rank::Design;
const HIGH: Rank = Rank::Health;

/// Ascending is right, also again after locks were released out of turn.
#[test]
fn locks_are_taken_in_ascending_order() {
    let (low, high) = (Mutex::new(LOW, 1), Mutex::new(HIGH, 2));
    let first = low.lock();
    let second = high.lock();
    drop(first);
    drop(second);
    drop((low.lock(), high.lock()));
    drop(low.lock());
}

/// The message names both ranks; it comes although nobody else has either lock.
#[test]
#[should_panic(expected = "a thread that holds Health takes Design, and Design comes before it; release Health")]
fn a_lower_rank_is_refused() {
    let (low, high) = (Mutex::new(LOW, 1), Mutex::new(HIGH, 2));
    let _high = high.lock();
    let _low = low.lock();
}

/// So is the same rank twice.
#[test]
#[should_panic(expected = "a thread that holds Health takes Health, and Health comes only once")]
fn a_rank_is_taken_once() {
    let (one, other) = (Mutex::new(HIGH, 1), Mutex::new(HIGH, 2));
    let _one = one.lock();
    let _other = other.lock();
}

/// A lock that was free counts as held, wherever it stands in the order.
#[test]
fn a_lock_that_is_only_tried_counts_as_held() {
    let (low, high) = (Mutex::new(LOW, 1), Mutex::new(HIGH, 2));
    let first = high.lock();
    let second = low.try_lock();
    drop(first);
    assert!(second.is_some());
    let same = Mutex::new(LOW, 3);
    assert!(catch_unwind(AssertUnwindSafe(|| drop(same.lock()))).is_err());
    drop(second);
    drop(same.lock());
}

/// A wait ends with taking its lock again, which no other one may forbid.
#[test]
fn a_wait_is_for_the_highest_lock() {
    let (low, high, changed) = (Mutex::new(LOW, 1), Mutex::new(HIGH, 2), Condvar::new());
    let moment = std::time::Duration::from_millis(1);
    let first = low.lock();
    let (second, _) = changed.wait_timeout(high.lock(), moment);
    assert!(catch_unwind(AssertUnwindSafe(|| drop(changed.wait_timeout(first, moment)))).is_err());
    drop(second);
}

/// What another thread would do is checked by itself, and the locks of this thread come back,
/// also after a panic there.
#[test]
fn the_work_of_others_is_apart() {
    let (low, high) = (Mutex::new(LOW, 1), Mutex::new(HIGH, 2));
    let held = high.lock();
    apart(|| drop(low.lock()));
    assert!(catch_unwind(|| apart(|| panic!("a step"))).is_err());
    assert!(catch_unwind(AssertUnwindSafe(|| drop(low.lock()))).is_err());
    drop(held);
    drop(low.lock());
}

/// Locks of tests go with every other one.
#[test]
fn locks_of_tests_have_no_order() {
    let (low, test, other) = (Mutex::new(LOW, 1), Mutex::new(Rank::Test, 2), Mutex::new(Rank::Test, 3));
    let _test = test.lock();
    let _low = low.lock();
    let _other = other.lock();
}
