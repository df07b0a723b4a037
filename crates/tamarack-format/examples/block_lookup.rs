//! What a search in a cached block costs where the processor's caches hold nothing of it: gets of
//! random keys in random blocks, over more memory than any cache has.
//!
//! ```sh
//! cargo build --release -p tamarack-format --example block_lookup
//! target/release/examples/block_lookup 150000 decimal 16 100 there
//! target/release/examples/block_lookup 150000 random 24 1000 missing
//! ```
//!
//! The arguments are: how many blocks of 4 KiB, the kind of keys, bytes of a key and of a value,
//! and whether the keys are there. Prints the nanoseconds of a search as the median of several
//! rounds, and those of making a block's index. Blocks are in `Arc`s that a search clones, as the
//! block cache does. To count instructions, toggle `valgrind` at `lookups` and take few blocks.

#![expect(clippy::disallowed_methods, reason = "a program that measures what the machine does")]

use std::hint::black_box;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

use tamarack_env::{ByteBuffer, Random};
use tamarack_format::block::{Block, BlockBuilder};
use tamarack_format::entry::{Entry, EntryKind, Sequence};

/// Many short ones: others use the machine, too.
const ROUNDS: usize = 61;
const LOOKUPS: usize = 20_000;
const BLOCK_BYTES: usize = 4096;
/// As in tables.
const RESTART_INTERVAL: usize = 8;

/// A block together with what stands beside it in the engine: the charge of its memory.
struct Charged {
    block: Block,
    _charge: [u64; 3],
}

/// The keys of a block: their first number, and how many there are.
#[derive(Clone, Copy)]
struct Keys {
    first: u64,
    count: u64,
}

/// The kind of all keys.
#[derive(Clone, Copy)]
struct Kind {
    is_decimal: bool,
    key_bytes: usize,
    /// The distance of neighbouring keys that are random.
    gap: u64,
}

impl Kind {
    /// The key of a number: keys ascend with it. Every second number is of a key that is missing.
    fn key(self, number: u64, key: &mut Vec<u8>) {
        use std::io::Write;
        key.clear();
        if self.is_decimal {
            write!(key, "key:{number:0width$}", width = self.key_bytes - 4).expect("memory");
        } else {
            let jitter = (number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20) % (self.gap / 2);
            key.extend_from_slice(&(number * self.gap + jitter).to_be_bytes());
            let tail = number.wrapping_mul(0xD6E8_FEB8_6659_FD93).to_le_bytes();
            key.extend(tail.iter().cycle().take(self.key_bytes - 8));
        }
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let blocks: usize = arguments.next().map_or(1000, |text| text.parse().expect("how many blocks"));
    let is_decimal = arguments.next().is_none_or(|kind| kind == "decimal");
    let key_bytes = arguments.next().map_or(16, |text| text.parse().expect("bytes of a key"));
    let value_bytes: usize = arguments.next().map_or(100, |text| text.parse().expect("bytes of a value"));
    let is_there = arguments.next().is_none_or(|which| which == "there");
    let numbers = 2 * (blocks * BLOCK_BYTES / value_bytes) as u64;
    let kind = Kind { is_decimal, key_bytes, gap: u64::MAX / (numbers + 1) };

    let value = vec![7; value_bytes];
    let (mut next, mut index_ns) = (0, 0);
    let made: Vec<_> = (0..blocks)
        .map(|_| {
            let (payload, keys) = payload(kind, &value, next);
            next = keys.first + 2 * keys.count;
            let block = Block::decode(payload).expect("sound");
            let started = Instant::now();
            let block = block.indexed();
            index_ns += started.elapsed().as_nanos();
            (Arc::new(Charged { block, _charge: [0; 3] }), keys)
        })
        .collect();
    let (blocks, keys): (Vec<_>, Vec<_>) = made.into_iter().unzip();
    let memory: usize = blocks.iter().map(|charged| charged.block.memory_bytes()).sum();

    let random = Random::new(1);
    let mut times: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let sought: Vec<(usize, [u8; 32])> = (0..LOOKUPS)
                .map(|_| {
                    let at = random.next() as usize % blocks.len();
                    let Keys { first, count } = keys[at];
                    let mut key = Vec::new();
                    kind.key(first + 2 * (random.next() % count) + u64::from(!is_there), &mut key);
                    key.resize(32, 0);
                    (at, key.try_into().expect("its length"))
                })
                .collect();
            let started = Instant::now();
            let found = lookups(&blocks, &sought, key_bytes);
            let time = started.elapsed().as_nanos() as f64 / LOOKUPS as f64;
            assert_eq!(found, if is_there { LOOKUPS } else { 0 });
            time
        })
        .collect();
    times.sort_by(f64::total_cmp);
    println!(
        "{} entries in {} blocks of {} bytes: {:.0} ns a search ({:.0} at best, {:.0} in one of four rounds), {} ns an index",
        keys.iter().map(|keys| keys.count).sum::<u64>(),
        blocks.len(),
        memory / blocks.len(),
        times[ROUNDS / 2],
        times[0],
        times[ROUNDS / 4],
        index_ns / blocks.len() as u128,
    );
}

/// A full block of keys from a number on.
fn payload(kind: Kind, value: &[u8], first: u64) -> (ByteBuffer, Keys) {
    let mut builder = BlockBuilder::new(RESTART_INTERVAL);
    let (mut key, mut count) = (Vec::new(), 0);
    loop {
        kind.key(first + 2 * count, &mut key);
        let entry = Entry { key: &key, sequence: Sequence(1_000_000 + count), kind: EntryKind::Put, value };
        let plan = builder.plan(&entry);
        if count > 0 && plan.payload_bytes > BLOCK_BYTES {
            break;
        }
        builder.add_as(&plan, &entry);
        count += 1;
    }
    let mut payload = ByteBuffer::new();
    builder.finish_into(&mut payload);
    // In an allocation of its own length, as blocks are read.
    (ByteBuffer::from(&payload[..]), Keys { first, count })
}

#[inline(never)]
fn lookups(blocks: &[Arc<Charged>], sought: &[(usize, [u8; 32])], key_bytes: usize) -> usize {
    let mut found = 0;
    for (at, key) in sought {
        let charged = Arc::clone(&blocks[*at]);
        let _ = charged.block.versions(&key[..key_bytes], Sequence(u64::MAX >> 1), &mut |entry| {
            found += 1;
            black_box(entry.value.first());
            ControlFlow::Break(())
        });
    }
    found
}
