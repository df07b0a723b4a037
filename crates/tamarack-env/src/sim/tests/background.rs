//! Workers that step in seeded order on the waiting thread, and the virtual clock.

use super::*;
use crate::sync::{Mutex, Rank};

/// Three workers that note their names, three times each; the order in which they did.
fn order(seed: u64) -> String {
    let env = SimEnv::new(seed);
    let notes = Arc::new(Mutex::new(Rank::Test, String::new()));
    for name in ["a", "b", "c"] {
        let (notes, left) = (notes.clone(), Mutex::new(Rank::Test, 3));
        start(&env, name, move || {
            notes.lock().push_str(name);
            *left.lock() -= 1;
            if *left.lock() > 0 { Progress::More } else { Progress::Done }
        });
    }
    env.run_background_until_idle();
    notes.lock().clone()
}

#[test]
fn the_order_of_steps_follows_from_the_seed() {
    let orders: Vec<String> = (0..50).map(order).collect();
    assert_eq!(orders, (0..50).map(order).collect::<Vec<_>>());
    let mut different = orders.clone();
    different.sort();
    different.dedup();
    assert!(different.len() > 30, "{different:?}");
    for order in &orders {
        assert!(order.len() == 9 && ["a", "b", "c"].iter().all(|name| order.matches(name).count() == 3), "{order}");
    }
}

#[test]
fn an_idle_worker_steps_when_woken_and_time_does_not_wake_it() {
    let env = SimEnv::new(1);
    let steps = Arc::new(Mutex::new(Rank::Test, 0));
    let counter = steps.clone();
    let worker = start(&env, "idle", move || {
        *counter.lock() += 1;
        Progress::Idle
    });
    assert!(env.step_background() && !env.step_background());
    env.advance(Duration::from_secs(1000));
    assert!(!env.step_background());
    worker.wake();
    assert!(env.step_background() && !env.step_background());
    assert_eq!(*steps.lock(), 2);
}

/// A worker that is woken while it runs, here by itself, runs again although it says that it is
/// idle.
#[test]
fn a_wake_during_a_step_is_not_lost() {
    let env = SimEnv::new(2);
    let handle: Arc<Mutex<Option<Arc<dyn Worker>>>> = Arc::new(Mutex::new(Rank::Test, None));
    let own = handle.clone();
    let steps = Arc::new(Mutex::new(Rank::Test, 0));
    let counter = steps.clone();
    *handle.lock() = Some(start(&env, "self-waking", move || {
        *counter.lock() += 1;
        if *counter.lock() == 1 {
            own.lock().as_ref().unwrap().wake();
        }
        Progress::Idle
    }));
    env.run_background_until_idle();
    assert_eq!(*steps.lock(), 2);
}

#[test]
fn waiting_runs_workers_which_may_use_the_environment() {
    let env = SimEnv::new(3);
    let event = Arc::new(Event::new());
    let (inside, notify) = (env.clone(), event.clone());
    start(&env, "writer", move || {
        create(&inside, "f", b"data").sync(SYNC).unwrap();
        // A step may also start others, and wait for time, in which the others run.
        let done = Arc::new(Mutex::new(Rank::Test, false));
        let flag = done.clone();
        start(&inside, "nested", move || {
            *flag.lock() = true;
            Progress::Done
        });
        let deadline = inside.now() + Duration::from_secs(1);
        assert!(!inside.wait(&Event::new(), Some(deadline), &mut || false));
        assert!(*done.lock());
        notify.notify();
        Progress::Done
    });
    assert!(env.wait(&event, None, &mut || content(&env, "f").is_some()));
    assert_eq!(env.now(), Duration::from_secs(1));
}

#[test]
fn time_jumps_to_the_next_timer_but_not_past_the_deadline() {
    let env = SimEnv::new(4);
    let (ticks, event) = (Arc::new(Mutex::new(Rank::Test, Vec::new())), Arc::new(Event::new()));
    let (inside, to, notify) = (env.clone(), ticks.clone(), event.clone());
    start(&env, "clock", move || {
        to.lock().push(inside.now().as_secs());
        notify.notify();
        Progress::IdleUntil(inside.now() + Duration::from_secs(10))
    });
    assert!(env.wait(&event, None, &mut || ticks.lock().len() == 3));
    assert_eq!(*ticks.lock(), [0, 10, 20]);
    assert!(!env.wait(&event, Some(Duration::from_secs(25)), &mut || false));
    assert_eq!(env.now(), Duration::from_secs(25));
    assert_eq!(*ticks.lock(), [0, 10, 20]);
}

#[test]
fn sleeping_takes_virtual_time_in_which_workers_run() {
    let env = SimEnv::new(10);
    let (ticks, inside) = (Arc::new(Mutex::new(Rank::Test, 0)), env.clone());
    let counter = ticks.clone();
    start(&env, "clock", move || {
        *counter.lock() += 1;
        Progress::IdleUntil(inside.now() + Duration::from_secs(10))
    });
    env.sleep_until(Duration::from_secs(25));
    assert_eq!((env.now(), *ticks.lock()), (Duration::from_secs(25), 3));
    env.sleep_until(Duration::from_secs(5));
    assert_eq!(env.now(), Duration::from_secs(25));
}

#[test]
fn images_have_as_many_cores_as_their_machine() {
    let env = SimEnv::new(11);
    assert_eq!(env.cores(), 2);
    env.set_cores(7);
    assert_eq!((env.cores(), env.image(Crash::draw(0, 0)).cores(), env.process_image().cores()), (7, 7, 7));
}

#[test]
#[should_panic(
    expected = "what was waited for is false, and nothing is left that could make it true; workers: [\"lazy: Idle\"]"
)]
fn waiting_for_what_cannot_come_is_a_deadlock() {
    let env = SimEnv::new(5);
    start(&env, "lazy", || Progress::Idle);
    env.wait(&Event::new(), None, &mut || false);
}

#[test]
#[should_panic(expected = "nobody notified the event")]
fn a_forgotten_notification_is_a_deadlock() {
    let env = SimEnv::new(6);
    let done = Arc::new(Mutex::new(Rank::Test, false));
    let flag = done.clone();
    start(&env, "forgetful", move || {
        *flag.lock() = true;
        Progress::Idle
    });
    env.wait(&Event::new(), None, &mut || *done.lock());
}

#[test]
#[should_panic(expected = "livelock: after a day of steps the wait goes on; workers: [\"busy: ")]
fn waiting_for_what_never_comes_is_a_livelock() {
    let env = SimEnv::new(8);
    let clock = env.clone();
    start(&env, "busy", move || Progress::IdleUntil(clock.now() + Duration::from_secs(30)));
    env.wait(&Event::new(), None, &mut || false);
}

#[test]
fn stopping_and_killing_release_the_work_without_another_step() {
    let env = SimEnv::new(7);
    let held = Arc::new(());
    let worker_with = |held: Arc<()>| {
        start(&env, "never", move || {
            let _ = &held;
            panic!("a stopped worker was stepped")
        })
    };
    worker_with(held.clone()).stop();
    assert_eq!(Arc::strong_count(&held), 1);
    assert!(!env.step_background());
    let worker = worker_with(held.clone());
    let new = env.kill();
    assert_eq!(Arc::strong_count(&held), 1);
    worker.wake();
    worker.stop();
    assert!(!env.step_background() && !new.step_background());
    assert!(env.start("late", Arc::new(Steps(|| Progress::Done))).is_err());
    assert!(!env.wait(&Event::new(), None, &mut || false), "a dead process does not wait");
}

/// The power fails at a call of a background step, as a hook may decide: the step runs to its end
/// without effect, and is not called again.
#[test]
fn a_process_may_be_killed_within_a_step() {
    let env = SimEnv::new(9);
    let handle = env.clone();
    env.set_hook(move |_| drop(handle.kill()));
    let held = Arc::new(());
    let inside = (env.clone(), held.clone());
    start(&env, "victim", move || {
        let inside = &inside;
        assert!(inside.0.create(Path::new("f"), CREATE).is_err());
        Progress::More
    });
    assert!(!env.wait(&Event::new(), None, &mut || false));
    assert_eq!((Arc::strong_count(&held), env.files()), (1, Vec::new()));
}

#[test]
fn work_that_is_done_is_released() {
    let env = SimEnv::new(8);
    let held = Arc::new(());
    let inside = held.clone();
    let worker = start(&env, "once", move || {
        let _ = &inside;
        Progress::Done
    });
    env.run_background_until_idle();
    assert_eq!(Arc::strong_count(&held), 1);
    worker.wake();
    assert!(!env.step_background());
}

#[test]
fn randomness_follows_from_the_seed() {
    let numbers = |seed| {
        Vec::from_iter((0..8).map({
            let env = SimEnv::new(seed);
            move |_| env.random()
        }))
    };
    assert_eq!(numbers(1), numbers(1));
    assert_ne!(numbers(1), numbers(2));
}
