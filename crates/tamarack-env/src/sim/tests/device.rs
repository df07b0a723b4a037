//! What calls cost on a device, that all share its bandwidth and nothing else, and whose time
//! passes meanwhile.
//!
//! The device of these tests is slow and easy to reckon with: a page takes 1 ms to read or write
//! and 1 µs of processor, a read 10 ms longer, a sync 100 ms longer.

use std::time::Duration;

use super::*;
use crate::sync::{Mutex, Rank};

const PAGE: usize = 4096;

const DEVICE: Device = Device {
    read_bytes_per_second: 4_096_000,
    write_bytes_per_second: 4_096_000,
    cpu_bytes_per_second: 4_096_000_000,
    read_latency: Duration::from_millis(10),
    sync_latency: Duration::from_millis(100),
    dirty_bytes_max: 1 << 30,
};

/// Where processor and latency take no time, so that a page is a millisecond and nothing else is
/// anything.
const BANDWIDTH_ONLY: Device =
    Device { cpu_bytes_per_second: u64::MAX, read_latency: Duration::ZERO, sync_latency: Duration::ZERO, ..DEVICE };

fn machine(seed: u64, device: Device) -> SimEnv {
    let env = SimEnv::new(seed);
    env.set_device(Some(device));
    env
}

const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

const fn us(microseconds: u64) -> Duration {
    Duration::from_micros(microseconds)
}

/// How long `call` takes.
fn cost(env: &SimEnv, call: impl FnOnce()) -> Duration {
    let began = env.now();
    call();
    env.now() - began
}

fn write(file: &dyn File, page: usize, pages: usize) {
    file.write_all_at(&vec![7; pages * PAGE], (page * PAGE) as u64, WRITE).unwrap();
}

fn read(file: &dyn File, page: usize, pages: usize) {
    file.read_exact_at(&mut vec![0; pages * PAGE], (page * PAGE) as u64).unwrap();
}

#[test]
fn costs_add_up() {
    let env = machine(1, DEVICE);
    let file = create(&env, "f", b"");
    assert_eq!(env.now(), Duration::ZERO, "names cost nothing until they are synced");
    assert_eq!(cost(&env, || write(&*file, 0, 4)), us(4));
    assert_eq!(cost(&env, || write(&*file, 3, 2)), us(2));
    assert_eq!(cost(&env, || read(&*file, 0, 5)), us(5), "what is dirty is in the cache");
    assert_eq!(cost(&env, || file.sync(SYNC).unwrap()), ms(5 + 100), "a page written twice is transferred once");
    assert_eq!(cost(&env, || file.sync(SYNC).unwrap()), ms(100));
    assert_eq!(cost(&env, || sync_root(&env)), ms(100));
    assert_eq!(cost(&env, || read(&*file, 1, 3)), ms(3 + 10) + us(3));
    assert_eq!(cost(&env, || file.read_exact_at(&mut [0; 2], 4095).unwrap()), ms(2 + 10), "two pages for two bytes");
    assert_eq!(cost(&env, || assert_eq!(file.read_at(&mut [0; 9], 1 << 20).unwrap(), 0)), ms(0), "past the end");
    write(&*file, 0, 2);
    assert_eq!(cost(&env, || read(&*file, 1, 2)), ms(1 + 10) + us(2), "one page is dirty, one is not");
    file.set_len(PAGE as u64, CUT).unwrap();
    assert_eq!(cost(&env, || file.sync(SYNC).unwrap()), ms(1 + 100), "what was cut off is not written");
}

/// A batch transfers what its reads transfer, and waits for one latency only, whatever order it is
/// read in.
#[test]
fn a_batch_waits_once() {
    for seed in 0..10 {
        let env = machine(seed, DEVICE);
        let file = create(&env, "f", b"");
        file.set_len(100 * PAGE as u64, CUT).unwrap();
        let batch = |pages: &[u64]| {
            let request = |page: &u64| ReadRequest { file: file.clone(), offset: page * PAGE as u64, bytes: PAGE };
            let outcomes = read_together(&env, pages.iter().map(request).collect());
            assert!(outcomes.iter().all(Result::is_ok));
        };
        assert_eq!(cost(&env, || [1, 5, 9].iter().for_each(|&page| batch(&[page]))), ms(3 * (1 + 10)) + us(3));
        assert_eq!(cost(&env, || batch(&[1, 5, 9])), ms(3 + 10) + us(1), "seed {seed}");
        assert_eq!(cost(&env, || batch(&[])), ms(0));
        write(&*file, 5, 1);
        assert_eq!(cost(&env, || batch(&[1, 5, 9])), ms(2 + 10) + us(1), "seed {seed}, one page is dirty");
    }
}

#[test]
fn writeback_goes_on_while_nobody_waits() {
    let env = machine(2, DEVICE);
    let file = create(&env, "f", b"");
    write(&*file, 0, 10);
    assert_eq!(cost(&env, || file.start_writeback(0, 4 * PAGE as u64)), ms(0));
    env.advance(ms(3));
    assert_eq!(cost(&env, || file.sync(SYNC).unwrap()), ms(1 + 6 + 100), "one page under way and six to come");
    write(&*file, 0, 10);
    file.start_writeback(0, u64::MAX);
    env.advance(ms(50));
    assert_eq!(cost(&env, || file.sync(SYNC).unwrap()), ms(100));
}

#[test]
fn a_file_has_only_so_many_dirty_pages() {
    let env = machine(3, Device { dirty_bytes_max: 4 * PAGE as u64, ..DEVICE });
    let file = create(&env, "f", b"");
    write(&*file, 0, 4);
    env.advance(ms(50));
    assert_eq!(cost(&env, || write(&*file, 4, 1)), us(1), "it does not wait");
    env.advance(ms(50));
    assert_eq!(cost(&env, || file.sync(SYNC).unwrap()), ms(100));
}

/// A WAL of one page waits for the table handed to the device before it, and not for the one handed
/// over later.
#[test]
fn files_queue_behind_each_other() {
    let env = machine(4, DEVICE);
    let (table, later, log) = (create(&env, "table", b""), create(&env, "later", b""), create(&env, "log", b""));
    write(&*table, 0, 30);
    write(&*later, 0, 70);
    table.start_writeback(0, u64::MAX);
    write(&*log, 0, 1);
    assert_eq!(cost(&env, || log.sync(SYNC).unwrap()), ms(30 + 1 + 100) - us(1));
}

/// Starts workers that call `step` eight times each, and says when each had ended.
fn ends_of(env: &SimEnv, workers: usize, step: impl Fn(&dyn File) + Clone + Send + Sync + 'static) -> Vec<Duration> {
    let ends = Arc::new(Mutex::new(Rank::Test, Vec::new()));
    for worker in 0..workers {
        let file = create(env, &format!("f{worker}"), b"");
        // Of a length, and clean.
        file.set_len(PAGE as u64, CUT).unwrap();
        let (left, step, env, ends) = (Mutex::new(Rank::Test, 8), step.clone(), env.clone(), ends.clone());
        start(&env.clone(), "worker", move || {
            step(&*file);
            *left.lock() -= 1;
            if *left.lock() > 0 {
                return Progress::More;
            }
            ends.lock().push(env.now());
            Progress::Done
        });
    }
    env.run_background_until_idle();
    let mut ends = ends.lock().clone();
    ends.sort();
    ends
}

#[test]
fn workers_share_the_device_and_not_the_processor() {
    let sync_one_page = |file: &dyn File| {
        write(file, 0, 1);
        file.sync(SYNC).unwrap();
    };
    let last = |device, workers| *ends_of(&machine(5, device), workers, sync_one_page).last().unwrap();
    assert_eq!((last(BANDWIDTH_ONLY, 1), last(BANDWIDTH_ONLY, 3)), (ms(8), ms(24)));
    let computing = Device { write_bytes_per_second: u64::MAX, cpu_bytes_per_second: 4_096_000, ..BANDWIDTH_ONLY };
    assert_eq!((last(computing, 1), last(computing, 3)), (ms(8), ms(8)));
    // Latency is waited out at the same time, and while one waits another transfers: the first
    // transfers of three take 3 ms, and from then on each finds the device free.
    assert_eq!(last(Device { sync_latency: ms(100), ..BANDWIDTH_ONLY }, 3), ms(8 * 101 + 2));
    let device = Device { read_latency: ms(100), ..BANDWIDTH_ONLY };
    let read_one_page = |file: &dyn File| read(file, 0, 1);
    assert_eq!(*ends_of(&machine(5, device), 3, read_one_page).last().unwrap(), ms(8 * 101 + 2));
}

/// Steps of 40 ms each: the wait ends at its deadline, in the middle of one, and the steps have
/// gone on.
#[test]
fn a_wait_ends_on_time_and_work_goes_on_meanwhile() {
    let env = machine(6, BANDWIDTH_ONLY);
    let (file, inside, begins) = (create(&env, "f", b""), env.clone(), Arc::new(Mutex::new(Rank::Test, Vec::new())));
    let begun = begins.clone();
    let worker = start(&env, "worker", move || {
        begun.lock().push(inside.now());
        write(&*file, 0, 40);
        file.sync(SYNC).unwrap();
        Progress::More
    });
    assert!(!env.wait(&Event::new(), Some(ms(100)), &mut || false));
    assert_eq!((env.now(), begins.lock().clone()), (ms(100), vec![ms(0), ms(40), ms(80)]));
    env.sleep_until(ms(115));
    assert_eq!((env.now(), begins.lock().len()), (ms(115), 3));
    // A caller that is busy itself finds that the steps have begun when they would have, and no
    // earlier than that.
    env.advance(ms(100));
    assert_eq!(begins.lock().len(), 3);
    env.run_until(ms(240));
    assert_eq!((env.now(), begins.lock()[3..].to_vec()), (ms(240), vec![ms(120), ms(160), ms(200), ms(240)]));
    worker.stop();
    assert_eq!(env.now(), ms(280), "the last step has to end first");
}

/// The step of 40 ms says so at once, but who waits hears of it at its end; unless the deadline
/// comes before.
#[test]
fn a_notification_arrives_at_the_end_of_its_step() {
    let wait_until = |deadline| {
        let env = machine(7, BANDWIDTH_ONLY);
        let (file, event, done) =
            (create(&env, "f", b""), Arc::new(Event::new()), Arc::new(Mutex::new(Rank::Test, false)));
        let (notify, flag) = (event.clone(), done.clone());
        start(&env, "worker", move || {
            *flag.lock() = true;
            notify.notify();
            write(&*file, 0, 40);
            file.sync(SYNC).unwrap();
            Progress::Idle
        });
        (env.wait(&event, deadline, &mut || *done.lock()), env.now())
    };
    assert_eq!(wait_until(None), (true, ms(40)));
    assert_eq!(wait_until(Some(ms(60))), (true, ms(40)));
    assert_eq!(wait_until(Some(ms(30))), (false, ms(30)));
}

/// Of two steps that notify, the shorter one ends the wait, whichever is simulated first.
#[test]
fn the_earliest_notification_counts() {
    for seed in 0..10 {
        let env = machine(seed, Device { write_bytes_per_second: u64::MAX, cpu_bytes_per_second: 4_096_000, ..DEVICE });
        let event = Arc::new(Event::new());
        for pages in [50, 20] {
            let (file, notify) = (create(&env, &format!("f{pages}"), b""), event.clone());
            start(&env, "worker", move || {
                write(&*file, 0, pages);
                notify.notify();
                Progress::Idle
            });
        }
        let mut asked = 0;
        let mut is_asked_again = || {
            asked += 1;
            asked == 2
        };
        assert!(env.wait(&event, None, &mut is_asked_again));
        assert_eq!(env.now(), ms(20), "seed {seed}");
    }
}

/// Who is woken by a step begins when that step does it, not when the step began, nor when the
/// waiter's clock stands.
#[test]
fn a_worker_is_woken_at_the_time_of_the_one_who_wakes() {
    let env = machine(8, BANDWIDTH_ONLY);
    let (file, inside, begun) = (create(&env, "f", b""), env.clone(), Arc::new(Mutex::new(Rank::Test, Vec::new())));
    let begins = begun.clone();
    let woken = start(&env, "woken", move || {
        begins.lock().push(inside.now());
        Progress::IdleUntil(ms(1000))
    });
    env.run_until(ms(5));
    start(&env, "waking", move || {
        write(&*file, 0, 40);
        file.sync(SYNC).unwrap();
        woken.wake();
        Progress::Idle
    });
    env.run_until(ms(200));
    assert_eq!(*begun.lock(), [ms(0), ms(45)]);
}

/// Three workers and a caller that write, sync, read and sleep as random numbers say; who did so
/// when.
fn trace(seed: u64) -> Vec<(Duration, u64)> {
    let env = machine(seed, Device { dirty_bytes_max: 8 * PAGE as u64, ..DEVICE });
    let trace = Arc::new(Mutex::new(Rank::Test, Vec::new()));
    let act = |who: u64| {
        let (env, trace, file) = (env.clone(), trace.clone(), create(&env, &format!("f{who}"), &[1; 20 * PAGE]));
        move || {
            match env.random() % 3 {
                0 => write(&*file, (env.random() % 16) as usize, 4),
                1 => file.sync(SYNC).unwrap(),
                _ => read(&*file, (env.random() % 16) as usize, 4),
            }
            trace.lock().push((env.now(), who));
            Progress::IdleUntil(env.now() + ms(env.random() % 30))
        }
    };
    let workers: Vec<_> = (0..3).map(|who| start(&env, "worker", act(who))).collect();
    let caller = act(3);
    let mut last = Duration::ZERO;
    for _ in 0..50 {
        caller();
        assert!(env.now() >= last, "seed {seed}: {:?} after {last:?}", env.now());
        last = env.now() + ms(env.random() % 30);
        env.run_until(last);
        assert_eq!(env.now(), last, "seed {seed}");
    }
    workers.iter().for_each(|worker| worker.stop());
    let trace = trace.lock().clone();
    for who in 0..4 {
        assert!(trace.iter().filter(|(_, other)| *other == who).is_sorted(), "seed {seed}: time goes back for {who}");
    }
    trace
}

#[test]
fn times_follow_from_the_seed() {
    for seed in 0..20 {
        assert_eq!(trace(seed), trace(seed), "seed {seed}");
        assert_ne!(trace(seed), trace(seed + 1), "seed {seed}");
    }
}

#[test]
fn images_have_an_idle_device_of_the_same_speed() {
    let env = machine(9, DEVICE);
    let file = create_durable(&env, "f", b"1");
    write(&*file, 0, 100);
    file.start_writeback(0, u64::MAX);
    for image in [env.image(Crash::LoseAll), env.process_image()] {
        let file = image.open(Path::new("f"), Access::ReadWrite).unwrap();
        assert_eq!(image.now(), env.now());
        assert_eq!(cost(&image, || file.read_exact_at(&mut [0], 0).unwrap()), ms(1 + 10));
    }
    env.set_device(None);
    assert_eq!(cost(&env, || file.sync(SYNC).unwrap()), ms(0));
}

#[test]
#[should_panic(expected = "a device serves one thread and its workers")]
fn other_threads_have_no_time_of_their_own() {
    let env = machine(10, DEVICE);
    env.expect_threads();
}
