//! Calls that fail, disks that fill up, lie and rot.

use super::*;
use io::ErrorKind::{NotFound, Other, StorageFull};

fn kind<T>(result: io::Result<T>) -> Option<io::ErrorKind> {
    result.err().map(|error| error.kind())
}

/// A machine with `f` = "old" durable and "new" written over it, and a sync that fails in this way.
fn after_failed_sync(failure: Failure) -> (SimEnv, Arc<dyn File>) {
    let env = SimEnv::new(1);
    let file = create_durable(&env, "f", b"old");
    file.write_all_at(b"newer", 0, WRITE).unwrap();
    env.inject(Fault::new(failure).kind(CallKind::Sync));
    assert_eq!(kind(file.sync(SYNC)), Some(Other));
    assert_eq!(env.faults_shown(), 1);
    (env, file)
}

#[test]
fn a_failed_sync_that_keeps_pages_can_be_made_good() {
    let (env, file) = after_failed_sync(Failure::SyncKeepsPages);
    assert_eq!(text(&env, "f"), "newer");
    assert_eq!(text(&env.image(Crash::LoseAll), "f"), "old");
    file.sync(SYNC).unwrap();
    assert_eq!(text(&env.image(Crash::LoseAll), "f"), "newer");
}

#[test]
fn a_failed_sync_that_drops_pages_lets_the_next_one_lie() {
    let (env, file) = after_failed_sync(Failure::SyncDropsPages);
    file.sync(SYNC).unwrap();
    assert_eq!(text(&env, "f"), "newer", "the cache still shows it");
    assert_eq!(found(&env, |image| text(image, "f")), ["old\0\0"], "no image has it");
    let direct = env.open(Path::new("f"), Access::ReadDirect).unwrap();
    let mut bytes = [0; 5];
    direct.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"old\0\0", "a read past the cache shows what is on the device");
    file.write_all_at(b"newer", 0, WRITE).unwrap();
    file.sync(SYNC).unwrap();
    assert_eq!(text(&env.image(Crash::LoseAll), "f"), "newer", "written again, it lands");
}

#[test]
fn a_failed_sync_may_keep_the_length_alone() {
    let (env, _file) = after_failed_sync(Failure::SyncKeepsLengthOnly);
    assert_eq!(text(&env, "f"), "old\0\0");
    assert_eq!(found(&env, |image| text(image, "f")), ["old\0\0"]);
}

#[test]
fn an_error_may_come_although_the_thing_was_done() {
    let (env, _file) = after_failed_sync(Failure::ErrorAfterEffect);
    assert_eq!(found(&env, |image| text(image, "f")), ["newer"]);
    env.inject(Fault::new(Failure::ErrorAfterEffect).step(REMOVE));
    assert_eq!(kind(env.remove(Path::new("f"), REMOVE)), Some(Other));
    assert_eq!(content(&env, "f"), None);
}

#[test]
fn a_short_write_says_so_and_a_partial_one_fails() {
    for seed in 0..50 {
        let env = SimEnv::new(seed);
        let file = create(&env, "f", b"");
        env.inject(Fault::new(Failure::ShortWrite));
        let count = file.write_at(b"0123456789", 0, WRITE).unwrap();
        assert!((1..10).contains(&count), "seed {seed}: {count}");
        assert_eq!(text(&env, "f"), "0123456789"[..count], "seed {seed}");
        env.inject(Fault::new(Failure::PartialWrite));
        assert_eq!(kind(file.write_at(b"abcdefghij", 0, WRITE)), Some(Other));
        let bytes = text(&env, "f");
        assert!(bytes.starts_with('a') && !bytes.contains('j'), "seed {seed}: {bytes}");
        file.write_all_at(b"whole", 0, WRITE).unwrap();
        assert!(text(&env, "f").starts_with("whole"), "seed {seed}: faults strike once");
    }
}

/// `write_all_at` and `read_exact_at` finish what is short.
#[test]
fn short_reads_and_writes_are_continued() {
    let env = SimEnv::new(2);
    env.inject(Fault::new(Failure::ShortWrite).forever());
    env.inject(Fault::new(Failure::ShortRead).forever());
    let bytes: Vec<u8> = (0..200).collect();
    let file = create(&env, "f", &bytes);
    let mut read = vec![0; 200];
    file.read_exact_at(&mut read, 0).unwrap();
    assert_eq!(read, bytes);
    assert!(env.faults_shown() >= 4, "{}", env.faults_shown());
}

/// Every call of a small workload fails in turn, in every way that fits it, once and for ever; the
/// numbers of calls do not depend on the faults before.
#[test]
fn every_call_can_fail_in_every_way_that_fits() {
    fn workload(env: &SimEnv) -> io::Result<()> {
        let (a, b, d) = (Path::new("/d/a"), Path::new("/d/b"), Path::new("/d"));
        env.create_dir(d, CREATE)?;
        let file = env.create(a, CREATE)?;
        file.allocate(100, CUT)?;
        let written = file.write_at(b"bytes", 0, WRITE)?;
        file.sync(SYNC)?;
        file.set_len(written as u64, CUT)?;
        env.hard_link(a, Path::new("/link"), LINK)?;
        env.rename(a, b, RENAME)?;
        env.sync_dir(d, SYNC_DIR)?;
        let _lock = env.lock(&d.join("LOCK"))?;
        let file = env.open(b, Access::Read)?;
        file.len()?;
        file.read_at(&mut [0; 5], 0)?;
        env.list(d)?;
        env.remove(b, REMOVE)
    }
    let env = SimEnv::new(3);
    env.start_recording();
    workload(&env).unwrap();
    let calls = env.stop_recording();
    assert_eq!(calls.iter().map(|call| call.number).collect::<Vec<_>>(), Vec::from_iter(0..15));
    let silent = [Failure::ShortWrite, Failure::ShortRead, Failure::LostWrite];
    for call in &calls {
        for failure in Failure::ALL {
            for forever in [false, true] {
                let env = SimEnv::new(3);
                let fault = Fault::new(failure.clone()).from_call(call.number).kind(call.kind);
                env.inject(if forever { fault.forever() } else { fault });
                let result = workload(&env);
                let shown = env.faults_shown() > 0;
                assert_eq!(shown, failure.fits(call), "{failure:?} at {call:?}");
                assert_eq!(result.is_err(), shown && !silent.contains(&failure), "{failure:?} at {call:?}: {result:?}");
            }
        }
    }
}

#[test]
fn a_failed_call_changes_nothing() {
    let env = SimEnv::new(4);
    let file = create_durable(&env, "f", b"old");
    let before = env.identity();
    env.inject(Fault::new(Failure::Io).forever());
    assert_eq!(kind(file.write_at(b"new", 0, WRITE)), Some(Other));
    assert_eq!(kind(file.set_len(0, CUT)), Some(Other));
    assert_eq!(kind(env.create(Path::new("g"), CREATE)), Some(Other));
    assert_eq!(kind(env.rename(Path::new("f"), Path::new("g"), RENAME)), Some(Other));
    assert_eq!(kind(env.remove(Path::new("f"), REMOVE)), Some(Other));
    assert_eq!(kind(env.list(Path::new("/"))), Some(Other));
    env.clear_faults();
    assert_eq!(env.identity(), before);
}

#[test]
fn a_failed_directory_sync_makes_nothing_durable() {
    let env = SimEnv::new(5);
    create(&env, "f", b"").sync(SYNC).unwrap();
    env.inject(Fault::new(Failure::Io).kind(CallKind::SyncDir));
    assert_eq!(kind(env.sync_dir(Path::new("/"), SYNC_DIR)), Some(Other));
    assert_eq!(content(&env.image(Crash::LoseAll), "f"), None);
    sync_root(&env);
    assert!(content(&env.image(Crash::LoseAll), "f").is_some());
}

#[test]
fn faults_strike_only_what_they_are_aimed_at() {
    let strikes = |fault: Fault| {
        let env = SimEnv::new(6);
        let (a, b) = (create(&env, "a", b""), create(&env, "b", b""));
        env.inject(fault);
        let first = env.calls_made();
        assert_eq!(first, 2, "an empty write_all makes no call");
        [
            a.write_at(b"12", 0, WRITE),
            b.write_at(b"12", 7, OTHER),
            a.sync(SYNC).map(|()| 0),
            a.write_at(b"12", 0, WRITE),
        ]
        .map(|result| result.is_err())
    };
    let io = || Fault::new(Failure::Io);
    assert_eq!(strikes(io()), [true, false, false, false]);
    assert_eq!(strikes(io().forever()), [true; 4]);
    assert_eq!(strikes(io().times(2)), [true, true, false, false]);
    assert_eq!(strikes(io().at_call(3)), [false, true, false, false]);
    assert_eq!(strikes(io().from_call(4).forever()), [false, false, true, true]);
    assert_eq!(strikes(io().step(OTHER).forever()), [false, true, false, false]);
    assert_eq!(strikes(io().path("a").forever()), [true, false, true, true]);
    assert_eq!(strikes(io().path("a").kind(CallKind::Write).forever()), [true, false, false, true]);
    assert_eq!(strikes(io().matching(|call| call.offset == 7).forever()), [false, true, false, false]);
}

#[test]
fn a_full_disk_takes_what_fits_and_more_when_space_is_freed() {
    let env = SimEnv::new(7);
    env.set_capacity(Some(3 * 4096));
    let a = create_durable(&env, "a", &[1; 4096]);
    let b = create(&env, "b", b"");
    assert_eq!(b.write_at(&[2; 10_000], 0, WRITE).unwrap(), 8192, "what fits is written");
    assert_eq!(kind(b.write_at(&[2; 10], 8192, WRITE)), Some(StorageFull));
    assert_eq!(kind(b.allocate(8193, CUT)), Some(StorageFull));
    assert_eq!(kind(env.create(Path::new("c"), CREATE)), Some(StorageFull));
    b.write_all_at(&[3; 8192], 0, WRITE).expect("overwriting takes no space");
    env.remove(Path::new("a"), REMOVE).unwrap();
    assert_eq!(kind(b.write_at(&[2; 10], 8192, WRITE)), Some(StorageFull), "an open file keeps its space");
    drop(a);
    b.write_all_at(&[2; 10], 8192, WRITE).expect("the space of a removed file is free");
    assert_eq!(env.used_bytes(), 3 * 4096);
}

#[test]
fn what_is_allocated_can_be_written_whatever_else_fills_the_disk() {
    let env = SimEnv::new(8);
    env.set_capacity(Some(4 * 4096));
    let (a, b) = (create(&env, "a", b""), create(&env, "b", b""));
    a.allocate(3 * 4096, CUT).unwrap();
    assert_eq!(b.write_at(&[1; 9000], 0, WRITE).unwrap(), 4096);
    a.write_all_at(&[1; 3 * 4096], 0, WRITE).unwrap();
    a.set_len(0, CUT).unwrap();
    b.write_all_at(&[1; 9000], 0, WRITE).unwrap();
}

/// Where pages get their place only when they are synced, the write is told nothing of a full disk,
/// and the sync is; unless the place was reserved.
#[test]
fn with_delayed_allocation_it_is_the_sync_that_finds_no_space() {
    let env = SimEnv::new(8);
    let durable = create_durable(&env, "durable", &[1; 100]);
    let (a, b) = (create(&env, "a", b""), create(&env, "b", b""));
    a.reserve(4096, CUT).unwrap();
    assert!(a.is_empty().unwrap(), "what is reserved is not part of the file");
    env.delay_allocation(true);
    env.set_capacity(Some(env.used_bytes()));
    assert_eq!(env.space(Path::new("/")).unwrap().map(|space| space.free_bytes), Some(0));
    assert_eq!(kind(b.reserve(1, CUT)), Some(StorageFull));
    for file in [&a, &b, &durable] {
        file.write_all_at(b"written", 0, WRITE).unwrap();
    }
    assert_eq!(kind(b.sync(SYNC)), Some(StorageFull));
    a.sync(SYNC).expect("it has its place");
    durable.sync(SYNC).expect("it has its place");
    env.set_capacity(None);
    b.sync(SYNC).unwrap();
    env.sync_dir(Path::new("/"), SYNC).unwrap();
    let image = env.image(Crash::LoseAll);
    assert_eq!(image.content("a").unwrap(), b"written");
    assert_ne!(image.content("b").unwrap(), b"written", "a later sync does not bring back what a failed one dropped");
}

#[test]
fn a_lost_write_is_acknowledged_and_never_seen() {
    let env = SimEnv::new(9);
    let file = create_durable(&env, "f", b"old");
    env.inject(Fault::new(Failure::LostWrite));
    file.write_all_at(b"newer", 0, WRITE).unwrap();
    file.sync(SYNC).unwrap();
    assert_eq!(text(&env, "f"), "old\0\0");
    assert_eq!(text(&env.image(Crash::LoseAll), "f"), "old\0\0");
}

#[test]
fn a_misdirected_write_overwrites_something_else() {
    let env = SimEnv::new(10);
    let (f, g) = (create_durable(&env, "f", b"ffff"), create_durable(&env, "g", b"gggg"));
    env.inject(Fault::new(Failure::MisdirectedWrite { path: None, offset: 3 }));
    f.write_all_at(b"12", 0, WRITE).unwrap();
    assert_eq!(text(&env, "f"), "fff1");
    env.inject(Fault::new(Failure::MisdirectedWrite { path: Some("g".into()), offset: 1 }));
    f.write_all_at(b"34", 0, WRITE).unwrap();
    f.sync(SYNC).unwrap();
    g.sync(SYNC).unwrap();
    assert_eq!((text(&env, "f"), text(&env, "g")), ("fff1".to_owned(), "g34g".to_owned()));
    assert_eq!(text(&env.image(Crash::LoseAll), "g"), "g34g");
}

#[test]
fn bytes_rot_at_rest() {
    let env = SimEnv::new(11);
    create_durable(&env, "a", b"aaaa");
    create_durable(&env, "b", b"bb");
    env.flip_bit("a", 2, 1).unwrap();
    env.flip_bit("a", 0, 25).unwrap();
    env.flip_bit("a", 4, 0).expect("there is nothing past the end, which is not an error");
    assert_eq!(text(&env, "a"), "aacc");
    env.truncate("a", 3).unwrap();
    env.overwrite("a", 0, b"x").unwrap();
    env.swap("a", "b").unwrap();
    for env in [env.clone(), env.image(Crash::LoseAll)] {
        assert_eq!((text(&env, "a"), text(&env, "b")), ("bb".to_owned(), "xac".to_owned()));
    }
    assert_eq!(kind(env.flip_bit("c", 0, 0)), Some(NotFound));
}

#[test]
fn slowness_moves_the_virtual_clock() {
    let env = SimEnv::new(12);
    let file = create(&env, "f", b"1234");
    assert_eq!(env.now(), Duration::ZERO);
    env.set_cost(Duration::from_millis(1), Duration::from_micros(10));
    file.write_all_at(&[0; 100], 0, WRITE).unwrap();
    file.read_at(&mut [0; 50], 0).unwrap();
    file.sync(SYNC).unwrap();
    assert_eq!(env.now(), Duration::from_micros(4500));
    env.advance(Duration::from_secs(1));
    assert_eq!(env.image(Crash::LoseAll).now(), Duration::from_micros(1_004_500));
}

/// What comes of a queue of reads of two bytes at each of these offsets: the bytes, or that it
/// failed.
fn batch(env: &SimEnv, file: &Arc<dyn File>, offsets: &[u64]) -> Vec<Option<Vec<u8>>> {
    let request = |&offset: &u64| ReadRequest { file: file.clone(), offset, bytes: 2 };
    read_together(env, offsets.iter().map(request).collect()).into_iter().map(Result::ok).collect()
}

/// Any one of a batch can fail, and the others do not notice; one that is short is read to its end.
#[test]
fn a_fault_strikes_one_read_of_a_batch() {
    for access in [Access::Read, Access::ReadDirect] {
        for victim in [0, 2, 4] {
            let env = SimEnv::new(1);
            create_durable(&env, "f", b"abcdef");
            let file = env.open(Path::new("f"), access).unwrap();
            let whole = |offset| Some(b"abcdef"[offset as usize..][..2].to_vec());
            let control: Vec<_> = [0, 2, 4].map(whole).into();
            assert_eq!(batch(&env, &file, &[0, 2, 4]), control);

            let at_victim = move |call: &Call| call.kind == CallKind::Read && call.offset == victim;
            let other_than =
                |bytes: Option<Vec<u8>>| [0, 2, 4].map(|at| if at == victim { bytes.clone() } else { whole(at) });
            env.inject(Fault::new(Failure::Io).matching(at_victim));
            assert_eq!(batch(&env, &file, &[0, 2, 4]), other_than(None));
            env.inject(Fault::new(Failure::ShortRead).matching(at_victim));
            assert_eq!(batch(&env, &file, &[0, 2, 4]), control);
            assert_eq!(batch(&env, &file, &[0, 2, 4]), control, "each struck once");
            assert_eq!(env.faults_shown(), 2);
        }
    }
}

/// The same seed gives the same order, another seed another one, and no request is left out or done
/// twice.
#[test]
fn batches_are_read_in_orders_drawn_from_the_seed() {
    let order = |seed| {
        let env = SimEnv::new(seed);
        let file = create_durable(&env, "f", b"abcdefghijkl");
        env.start_recording();
        batch(&env, &file, &[0, 1, 2, 3, 4, 5, 6, 7]);
        env.stop_recording().iter().map(|call| call.offset).collect::<Vec<_>>()
    };
    assert_eq!(order(1), order(1));
    assert_ne!(order(1), order(2));
    for seed in 0..20 {
        let mut offsets = order(seed);
        offsets.sort_unstable();
        assert_eq!(offsets, [0, 1, 2, 3, 4, 5, 6, 7], "seed {seed}");
    }
}
