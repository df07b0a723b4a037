//! The processor: times of the engine's own code, over more memory than the inner caches have.
//!
//! What each figure measures:
//!
//! * **Hash**: [`Digest::of`] for keys of 16 and of 1024 bytes. Each key depends on the digest
//!   before it, as a lookup waits for its digest. The two lengths give the part that all keys have,
//!   and the part for each byte.
//! * **Probe of a filter**: [`Filter::may_contain`] for absent keys, in one filter of 10 bits per
//!   key. Each probe waits for the answer of the one before. What a run more takes a lookup beyond
//!   that, to find its filter between other work, comes on top; it is measured on a database.
//! * **Probe of Chucky**: the same in a filter of 12 bits per key over a whole tree of the default
//!   policy. The partition is found, and both buckets are read.
//! * **Index search**: [`Fences::floor`], and the handle of the block, over as many blocks as the
//!   calibration's file has. Each search waits for the one before.
//! * **Entry read**: [`Block::versions`] for a key that is there, in random blocks of 4 KiB. A get
//!   of a cached block does this after its search in the cache.
//! * **Decoding**: [`open_block_into`] and [`Block::decode`] for stored blocks of 4 KiB without
//!   compression, in random order: the least that a block takes that was read.
//! * **Puts, compactions, lookups, scans, blocks that are read**: whole operations on a database,
//!   see [`tree`]. Of what these take, the figures above are subtracted, so that a model that adds
//!   up the parts has the whole.
//!
//! Entries have keys of 16 bytes and values of 100. What it takes to choose the key of a probe is
//! measured as well, and subtracted.

use std::hint::black_box;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use tamarack_env::random::{STEP, mixed};
use tamarack_env::{ByteBuffer, Env};
use tamarack_filter::chucky::{Code, Shares};
use tamarack_filter::{Digest, Filter, FilterKind, Size};
use tamarack_model::Bytes;
use tamarack_model::device::{Device, ProbeSeconds};
use tamarack_model::filter::chucky::{Classes, load, slots};
use tamarack_model::policy::Auto;

use super::entries::{KEY_BYTES, VALUE, key};
use super::plan::Plan;
use super::storage::StorageTimes;
use super::tree;
use crate::cuckoo::{Directory, Partition};
use crate::error::Result;
use crate::format::block::{Block, BlockBuilder, Compression};
use crate::format::checksum::{FileKind, Place};
use crate::format::entry::{Entry, EntryKind, Sequence};
use crate::format::fences::{FIRST_PLACE, Fences};
use crate::format::stored::{BlockEncoder, BlockHandle, open_block_into};
use crate::format::table::fence_entry;
use crate::random_reads::{median, timed};

/// Shares of the time, in thousandths, for the progress: none of the parts asks the clock. A filter
/// has one for each of four kinds.
const HASH_SHARE: u64 = 10;
const FILTER_SHARE: u64 = 25;
const INDEX_SHARE: u64 = 10;
const ENTRY_SHARE: u64 = 20;

/// Rounds of calls: many short ones, since others use the machine, too.
const ROUNDS: u64 = 31;

/// Calls in a round, at most: a millisecond or a few.
const CALLS: u64 = 20_000;

/// Bytes of the file of a calibration for each key of a filter, and each call of a round.
const BYTES_PER_KEY: u64 = 64;

/// Bytes of the file for each byte of blocks, and for each entry of the databases.
const BYTES_PER_BLOCK_BYTE: u64 = 8;
const BYTES_PER_TREE_ENTRY: u64 = 1024;

/// Blocks that are searched, at most: 32 MiB.
const BLOCKS_MAX: u64 = 8192;

/// Keys of a filter and entries of a database, at most, for each second of a calibration.
const FILTER_KEYS_PER_SECOND: f64 = 400e3;
const TREE_ENTRIES_PER_SECOND: f64 = 20e3;

/// Bits per key of Bloom filters, and of Chucky.
const FILTER_BITS: f64 = 10.0;
const CHUCKY_BITS: f64 = 12.0;

/// Entries of a partition of Chucky, about as in a tree.
const PARTITION_ENTRIES: u64 = 10_000;

/// Bytes of a block, and entries between whole keys, as in tables.
const BLOCK_BYTES: usize = 4096;
const RESTART_INTERVAL: usize = 8;
const INDEX_RESTART_INTERVAL: usize = 4;

const FENCE_BYTES: usize = 12;
const LONG_KEY_BYTES: usize = 1024;

/// The shortest time of a call, for differences that are nothing but noise.
const SECONDS_MIN: f64 = 1e-12;

/// Measures the processor; figures of storage are those of the default device. The memory that is
/// used is in proportion to `data_bytes`, and bounded by `time`.
pub(super) fn measure(
    shared_env: &Arc<dyn Env>,
    storage: &StorageTimes,
    data_bytes: u64,
    time: Duration,
    plan: &mut Plan<'_>,
) -> Result<Device> {
    let env = &**shared_env;
    let at_most = |count: u64, per_second: f64| count.min((per_second * time.as_secs_f64().max(0.1)) as u64);
    let rounds = Rounds { env, calls: CALLS.min(data_bytes / BYTES_PER_KEY) };
    let (hash_seconds, hash_byte_seconds) = hash(&rounds);
    plan.advance(HASH_SHARE);
    let keys = at_most(data_bytes / BYTES_PER_KEY, FILTER_KEYS_PER_SECOND).max(rounds.calls);
    let probe_seconds = probes(&rounds, keys, plan);
    let index_seconds = index(&rounds, data_bytes / BLOCK_BYTES as u64);
    plan.advance(INDEX_SHARE);
    let blocks = (data_bytes / BYTES_PER_BLOCK_BYTE / BLOCK_BYTES as u64).clamp(1, BLOCKS_MAX);
    let entry_seconds = entries(&rounds, blocks);
    let decode_seconds = decoding(env, blocks);
    plan.advance(ENTRY_SHARE);
    // A power of two, so that an odd factor scatters the keys.
    let tree_entries = at_most(data_bytes / BYTES_PER_TREE_ENTRY, TREE_ENTRIES_PER_SECOND).max(512);
    let seconds = tree::measure(shared_env, storage, 1 << tree_entries.ilog2(), plan)?;
    // Between other work, the next filter of a tree takes longer than one filter alone.
    let skipped = (seconds.skipped_run - probe_seconds.blocked).max(0.0);
    let ProbeSeconds { blocked, bloom, elastic, chucky } = probe_seconds;
    let [blocked, bloom, elastic] = [blocked, bloom, elastic].map(|probe| probe + skipped);
    let probe_seconds = ProbeSeconds { blocked, bloom, elastic, chucky };
    let digest_seconds = hash_seconds + KEY_BYTES as f64 * hash_byte_seconds;
    let (lookup, search) = (digest_seconds + probe_seconds.blocked, index_seconds + entry_seconds);
    Ok(Device {
        hash_seconds,
        hash_byte_seconds,
        probe_seconds,
        index_seconds,
        entry_seconds,
        decode_seconds: seconds.block_read.max(decode_seconds),
        scan_block_seconds: seconds.scan_block.max(SECONDS_MIN),
        lookup_seconds: (seconds.lookup - lookup).max(SECONDS_MIN),
        scan_begin_seconds: (seconds.scan_begin - search).max(SECONDS_MIN),
        scan_seconds: seconds.scan_step,
        compaction_seconds: seconds.compaction,
        put_seconds: seconds.put,
        ..Device::default()
    })
}

/// Rounds of so many calls each.
struct Rounds<'a> {
    env: &'a dyn Env,
    calls: u64,
}

impl Rounds<'_> {
    /// The median seconds of a call; a round gets what `prepared` makes for its number, which takes
    /// no time.
    fn seconds<T>(&self, prepared: impl Fn(u64) -> T, round: impl Fn(T) -> u64) -> f64 {
        let seconds = (0..ROUNDS).map(|number| {
            let given = prepared(number);
            timed(self.env, || black_box(round(given))).1 / self.calls as f64
        });
        median(seconds.collect())
    }

    /// Numbers below a bound for the calls of a round, in no order.
    fn numbers(&self, round: u64, bound: u64) -> impl Iterator<Item = u64> {
        let first = round * self.calls;
        (first..first + self.calls).map(move |number| mixed(number.wrapping_mul(STEP)) % bound)
    }
}

/// The seconds of a digest without a key, and for each byte of it.
fn hash(rounds: &Rounds<'_>) -> (f64, f64) {
    let bytes: Vec<u8> = (0..64 + LONG_KEY_BYTES).map(|at| at as u8).collect();
    let of_length = |length: usize| {
        let hash = |last: u64| Digest::of(&bytes[(last % 64) as usize..][..length]).stored();
        rounds.seconds(|round| round, |first| (0..rounds.calls).fold(first, |last, _| hash(last)))
    };
    let [short, long] = [KEY_BYTES, LONG_KEY_BYTES].map(of_length);
    let byte = ((long - short) / (LONG_KEY_BYTES - KEY_BYTES) as f64).max(SECONDS_MIN);
    ((short - KEY_BYTES as f64 * byte).max(SECONDS_MIN), byte)
}

/// A digest without a key; each number has another one.
fn digest(number: u64) -> Digest {
    Digest::from_stored(mixed(number.wrapping_mul(STEP)))
}

/// The seconds to probe filters with so many keys.
fn probes(rounds: &Rounds<'_>, keys: u64, plan: &mut Plan<'_>) -> ProbeSeconds {
    // Absent keys, others in each round: what is probed twice is in the processor's caches.
    let in_turn = |may_contain: &dyn Fn(Digest) -> bool| {
        let probe = |first: u64| {
            (0..rounds.calls).fold(0, |last, call| u64::from(may_contain(digest(first + 2 * call + last))))
        };
        rounds.seconds(|round| keys + round * 2 * rounds.calls, probe)
    };
    let choosing = in_turn(&|digest| digest.stored() == 0);
    let seconds = |may_contain: &dyn Fn(Digest) -> bool| (in_turn(may_contain) - choosing).max(SECONDS_MIN);
    let mut digests: Vec<Digest> = (0..keys).map(digest).collect();
    let [blocked, bloom, elastic] = [FilterKind::Blocked, FilterKind::Bloom, FilterKind::Elastic].map(|kind| {
        let filter = Filter::build(kind, Size::PerEntry(FILTER_BITS), &digests).expect("it has bits");
        let seconds = seconds(&|digest| filter.may_contain(digest));
        plan.advance(FILTER_SHARE);
        seconds
    });
    digests.sort_unstable();
    let directory = chucky(&digests);
    let excludes = |digest| directory.find(digest).is_some_and(|(partition, place)| partition.excludes(place));
    let chucky = seconds(&|digest| !excludes(digest));
    plan.advance(FILTER_SHARE);
    ProbeSeconds { blocked, bloom, elastic, chucky }
}

/// A filter over a tree of the default policy with these keys, in order.
fn chucky(digests: &[Digest]) -> Directory {
    let policy = Auto::first();
    let shape = policy.shape(Bytes(10 << 30), Bytes(32 << 20));
    let classes = Classes::of(&shape);
    let states: Vec<Shares> = classes.states(&shape).into_iter().map(Shares::new).collect();
    let slots = slots(CHUCKY_BITS);
    let code = Code::new(slots, classes.lids(), &states).expect("the default policy has a code of this size");
    let code = Arc::new(code);
    let shares = states[states.len() / 2].of_entries();
    let all: f64 = shares.iter().sum();
    // As many entries of each class of runs as the tree has.
    let lid = |digest: Digest| {
        let random = mixed(digest.stored());
        let mut at = (random >> 11) as f64 / (1_u64 << 53) as f64 * all;
        let class = shares.iter().position(|share| {
            at -= share;
            at < 0.0
        });
        let lids = code.lids_of_class(class.unwrap_or(0));
        lids.start + (random % u64::from(lids.end - lids.start).max(1)) as u16
    };
    let mut directory = Directory::new(digests.len() as u64 / PARTITION_ENTRIES);
    let intervals: Vec<_> = directory.partitions().map(|(interval, _)| interval).collect();
    for interval in intervals {
        let from = digests.partition_point(|digest| *digest < interval.first());
        let to = digests.partition_point(|digest| *digest <= interval.last());
        let buckets = ((to - from) as f64 / (slots as f64 * load(slots))).ceil() as usize;
        let partition = Partition::filled(code.clone(), buckets.max(1), u64::MAX, |partition, add| {
            digests[from..to].iter().for_each(|digest| add(interval.place(partition, *digest), lid(*digest)));
        });
        let partition = partition.expect("any number may be unplaced");
        directory = directory.with(interval, Some(Arc::new(partition)));
    }
    directory
}

/// The seconds of a search in an index of so many blocks.
fn index(rounds: &Rounds<'_>, blocks: u64) -> f64 {
    let mut builder = BlockBuilder::new(INDEX_RESTART_INTERVAL);
    for block in 0..blocks {
        let mut handle = Vec::new();
        BlockHandle { offset: block * BLOCK_BYTES as u64, bytes: BLOCK_BYTES, checksum: block }.encode(&mut handle);
        // Without the bytes that all keys have in common at their end, as tables shorten them.
        let fence = &key(2 * block)[..FENCE_BYTES];
        builder.add(&fence_entry(if block == 0 { FIRST_PLACE.0 } else { fence }, Sequence::MAX, &handle));
    }
    let mut payload = ByteBuffer::new();
    builder.finish_into(&mut payload);
    let block = Block::decode(payload).expect("it was built here");
    let fences = Fences::decode(&block, FIRST_PLACE).expect("it was built here");
    let search = |key: &[u8]| fences.handle(fences.floor(key, Sequence::MAX)).offset;
    rounds.seconds(
        |round| rounds.numbers(round, 2 * blocks).map(key).collect(),
        |keys: Vec<[u8; KEY_BYTES]>| {
            // Offsets are even: only the processor does not know, and so waits for each search.
            keys.iter().fold(0, |last: u64, key| search(&key[..KEY_BYTES - (last & 1) as usize]))
        },
    )
}

/// The seconds of finding an entry in one of so many blocks.
fn entries(rounds: &Rounds<'_>, blocks: u64) -> f64 {
    let mut next = 0;
    let blocks: Vec<(Block, u64)> = (0..blocks)
        .map(|_| {
            let (block, count) = block(next);
            next += count;
            (block, next)
        })
        .collect();
    let find = |number: u64| (blocks.partition_point(|(_, end)| *end <= number), key(number));
    let read = |(at, key): &(usize, [u8; KEY_BYTES])| {
        let mut found = 0;
        let versions = blocks[*at].0.versions(key, Sequence::MAX, &mut |entry| {
            found = u64::from(entry.value[0]);
            ControlFlow::Break(())
        });
        assert!(versions.is_ok() && found == u64::from(VALUE[0]), "every key is in its block");
        found
    };
    rounds.seconds(
        |round| rounds.numbers(round, next).map(find).collect(),
        |sought: Vec<(usize, [u8; KEY_BYTES])>| sought.iter().map(read).sum(),
    )
}

/// The seconds of checking and decoding a block of [`BLOCK_BYTES`], of so many.
fn decoding(env: &dyn Env, blocks: u64) -> f64 {
    let place = Place::new(0, FileKind::Table, 1);
    let (mut encoder, mut next) = (BlockEncoder::new(place), 0);
    let stored: Vec<(ByteBuffer, BlockHandle)> = (0..blocks)
        .map(|number| {
            let (mut payload, count) = payload(next);
            next += count;
            let handle = encoder.finish_block(&mut payload, Compression::None, number * BLOCK_BYTES as u64);
            (payload, handle)
        })
        .collect();
    let bytes: usize = stored.iter().map(|(stored, _)| stored.len()).sum();
    let mut space = ByteBuffer::new();
    let mut decode = |(stored, handle): &(ByteBuffer, BlockHandle)| {
        open_block_into(stored, place, handle, &mut space).expect("it was made here");
        space = Block::decode(std::mem::take(&mut space)).map(Block::into_bytes).expect("it was made here");
    };
    let seconds = (0..ROUNDS).map(|round| {
        let order = (0..blocks).map(|number| mixed((round * blocks + number).wrapping_mul(STEP)) % blocks);
        timed(env, || order.for_each(|at| decode(&stored[at as usize]))).1
    });
    median(seconds.collect()) * BLOCK_BYTES as f64 / bytes as f64
}

/// A full block of the keys from a number on, as a cache has it, and how many they are.
fn block(first: u64) -> (Block, u64) {
    let (payload, count) = payload(first);
    (Block::decode(payload).expect("it was built here").indexed(), count)
}

/// The payload of that block.
fn payload(first: u64) -> (ByteBuffer, u64) {
    let (mut builder, mut count) = (BlockBuilder::new(RESTART_INTERVAL), 0);
    loop {
        let key = key(first + count);
        let entry = Entry { key: &key, sequence: Sequence(first + count), kind: EntryKind::Put, value: &VALUE };
        let plan = builder.plan(&entry);
        if count > 0 && plan.payload_bytes > BLOCK_BYTES {
            break;
        }
        builder.add_as(&plan, &entry);
        count += 1;
    }
    let mut payload = ByteBuffer::new();
    builder.finish_into(&mut payload);
    (ByteBuffer::from(&payload[..]), count)
}
