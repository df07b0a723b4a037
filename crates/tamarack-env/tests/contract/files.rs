//! What a file does with bytes: it is a vector of them that grows with zeros, whoever reads and
//! writes.

use std::io::ErrorKind;
use std::sync::Arc;

use tamarack_env::sync::thread;
use tamarack_env::{Access, File, Random, ReadRequest, read_together};

use crate::{Place, STEP, bytes_of};

pub(crate) fn reads_end_with_the_file(place: &Place) {
    let file = place.create("file", b"0123456789");
    let mut buffer = [0xAA; 8];
    assert_eq!(read(&*file, &mut buffer, 6), 4);
    assert_eq!(buffer, *b"6789\xAA\xAA\xAA\xAA");
    for offset in [10, 11, 1 << 40] {
        assert_eq!(file.read_at(&mut buffer, offset).unwrap(), 0, "at {offset}");
    }
    assert_eq!(file.read_at(&mut [], 3).unwrap(), 0);
    assert_eq!(file.read_exact_at(&mut buffer, 6).unwrap_err().kind(), ErrorKind::UnexpectedEof);
    file.read_exact_at(&mut buffer, 2).unwrap();
    assert_eq!(buffer, *b"23456789");
}

pub(crate) fn gaps_read_as_zero(place: &Place) {
    let file = place.create("file", b"head");
    file.write_all_at(b"tail", 100_000, STEP).unwrap();
    let mut expected = b"head".to_vec();
    expected.resize(100_000, 0);
    expected.extend(b"tail");
    assert!(bytes_of(&*file) == expected);
}

/// Bytes that were cut off do not come back when the file grows again.
pub(crate) fn set_len_cuts_and_extends(place: &Place) {
    let file = place.create("file", b"0123456789");
    file.set_len(4, STEP).unwrap();
    assert_eq!(bytes_of(&*file), b"0123");
    file.set_len(8, STEP).unwrap();
    assert_eq!(bytes_of(&*file), b"0123\0\0\0\0");
    file.write_all_at(b"x", 6, STEP).unwrap();
    assert_eq!(bytes_of(&*file), b"0123\0\0x\0");
    file.set_len(0, STEP).unwrap();
    assert!(file.is_empty().unwrap());
}

/// What is there stays; the rest is zeros that can be written to. A length that the file has
/// already changes nothing.
pub(crate) fn allocate_only_extends(place: &Place) {
    let file = place.create("file", b"kept");
    file.allocate(10_000, STEP).unwrap();
    let mut expected = b"kept".to_vec();
    expected.resize(10_000, 0);
    assert!(bytes_of(&*file) == expected);
    for length in [0, 3, 10_000] {
        file.allocate(length, STEP).unwrap();
        assert_eq!(file.len().unwrap(), 10_000, "after asking for {length}");
    }
    file.write_all_at(b"end", 9_997, STEP).unwrap();
    expected[9_997..].copy_from_slice(b"end");
    assert!(bytes_of(&*file) == expected);
}

/// Reserving space shows nowhere: not in the length, and not in the bytes.
pub(crate) fn reserve_changes_nothing(place: &Place) {
    let file = place.create("file", b"kept");
    for length in [0, 2, 100_000] {
        file.reserve(length, STEP).unwrap();
        assert!(bytes_of(&*file) == b"kept", "after reserving {length}");
    }
    file.write_all_at(b"more", 4, STEP).unwrap();
    file.sync(STEP).unwrap();
    assert!(bytes_of(&*file) == b"keptmore");
}

/// Nor does a hint, wherever it points.
pub(crate) fn nothing_written_changes_nothing(place: &Place) {
    let file = place.create("file", b"kept");
    for offset in [0, 2, 4, 100] {
        assert_eq!(file.write_at(&[], offset, STEP).unwrap(), 0);
    }
    for (offset, length) in [(0, 0), (0, 4), (2, 1 << 40), (u64::MAX, u64::MAX)] {
        file.start_writeback(offset, length);
        file.will_read(offset, length);
    }
    file.sync(STEP).unwrap();
    assert_eq!(bytes_of(&*file), b"kept");
}

/// Two files, an end in the middle of a request, and a request beyond it.
pub(crate) fn a_queue_keeps_each_result(place: &Place) {
    let (one, two) = (place.create("one", b"0123456789"), place.create("two", b"abcdefghij"));
    let places = [(&one, 2, 4), (&two, 8, 4), (&two, 0, 3), (&one, 50, 1), (&one, 10, 0)];
    let requests = places.map(|(file, offset, bytes)| ReadRequest { file: file.clone(), offset, bytes });
    let outcomes = read_together(&*place.env, requests.into());
    let outcomes: Vec<_> = outcomes.into_iter().map(|outcome| outcome.map_err(|error| error.kind())).collect();
    let end = || Err(ErrorKind::UnexpectedEof);
    assert_eq!(outcomes, [Ok(b"2345".to_vec()), end(), Ok(b"abc".to_vec()), end(), Ok(vec![])]);
}

/// Synced first, which the contract asks for before a direct read.
pub(crate) fn a_reader_cannot_write(place: &Place) {
    place.create("file", b"kept").sync(STEP).unwrap();
    for access in [Access::Read, Access::ReadRandom, Access::ReadDirect] {
        let file = place.env.open(&place.path("file"), access).unwrap();
        assert!(file.write_at(b"lost", 0, STEP).is_err(), "{access:?}");
        assert!(file.set_len(0, STEP).is_err(), "{access:?}");
        assert!(file.allocate(100, STEP).is_err(), "{access:?}");
        assert_eq!(bytes_of(&*file), b"kept");
    }
}

/// Random histories in lockstep with a vector.
pub(crate) fn a_file_is_a_vector_of_bytes(place: &Place) {
    for seed in 0..20 {
        println!("seed {seed}");
        let random = Random::new(seed);
        let name = format!("file-{seed}");
        let mut file = place.create(&name, b"");
        let mut model = Vec::new();
        for _ in 0..100 {
            if random.below(10) == 0 {
                file = place.env.open(&place.path(&name), Access::ReadWrite).unwrap();
            }
            change_both(&random, &*file, &mut model);
            look_at_both(&random, &*file, &model);
        }
        assert!(bytes_of(&*file) == model);
    }
}

fn change_both(random: &Random, file: &dyn File, model: &mut Vec<u8>) {
    let place = random.below(10_000) as usize;
    match random.below(8) {
        0 => {
            file.set_len(place as u64, STEP).unwrap();
            model.resize(place, 0);
        }
        1 => {
            file.allocate(place as u64, STEP).unwrap();
            model.resize(place.max(model.len()), 0);
        }
        2 => file.sync(STEP).unwrap(),
        3 => file.start_writeback(place as u64, random.below(10_000)),
        _ => {
            let bytes: Vec<_> = (0..random.below(3_000)).map(|_| random.next() as u8).collect();
            file.write_all_at(&bytes, place as u64, STEP).unwrap();
            if !bytes.is_empty() {
                model.resize(model.len().max(place + bytes.len()), 0);
                model[place..place + bytes.len()].copy_from_slice(&bytes);
            }
        }
    }
}

fn look_at_both(random: &Random, file: &dyn File, model: &[u8]) {
    assert_eq!(file.len().unwrap(), model.len() as u64);
    let start = random.below(12_000) as usize;
    let mut buffer = vec![0xAA; random.below(2_000) as usize];
    let length = read(file, &mut buffer, start as u64);
    let expected = model.get(start..model.len().min(start + buffer.len())).unwrap_or_default();
    assert!(buffer[..length] == *expected, "{length} bytes at {start}");
}

/// Each thread writes its own slots of one file, in random order and beyond the end, and reads back
/// what it wrote.
pub(crate) fn threads_read_and_write_at_once(place: &Place) {
    const THREADS: u64 = 4;
    const SLOT_BYTES: usize = 1000;
    const SLOTS: u64 = 64;
    let file = place.create("file", b"");
    thread::scope(|scope| {
        for owner in 0..THREADS {
            let file = Arc::clone(&file);
            scope.spawn(move || {
                let random = Random::new(owner);
                for round in 0..100 {
                    let slot = random.below(SLOTS) * THREADS + owner;
                    let (written, mut found) = ([round as u8; SLOT_BYTES], [0xAA; SLOT_BYTES]);
                    file.write_all_at(&written, slot * SLOT_BYTES as u64, STEP).unwrap();
                    file.read_exact_at(&mut found, slot * SLOT_BYTES as u64).unwrap();
                    assert!(found == written, "slot {slot} of thread {owner}, round {round}");
                }
            });
        }
    });
}

/// Reads until the buffer is full or the file ends.
fn read(file: &dyn File, buffer: &mut [u8], offset: u64) -> usize {
    let mut done = 0;
    while done < buffer.len() {
        match file.read_at(&mut buffer[done..], offset + done as u64).unwrap() {
            0 => break,
            count => done += count,
        }
    }
    done
}
