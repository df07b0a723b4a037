//! Tests: the cache finds what was inserted, keeps to its capacity, and counts; what is used stays;
//! blocks go with their table; a cached entry answers for its own key and for readers who may see
//! it, also through flushes and ingests; admission follows the rules.

use tamarack_env::ByteBuffer;
use tamarack_testing::{Random, seeds};

use super::*;
use crate::entry::{EntryKind, Sequence};
use crate::format::block::{Block, BlockBuilder};
use crate::format::fences::FIRST_PLACE;
use crate::format::stored::BlockHandle;
use crate::format::table::fence_entry;
use crate::memory::{Account, Budget, Charged, MemoryPart};

fn entry<'a>(key: &'a str, sequence: u64, value: &'a [u8]) -> Entry<'a> {
    Entry { key: key.as_bytes(), sequence: Sequence(sequence), kind: EntryKind::Put, value }
}

fn query(key: &str, sequence: u64) -> Query<'_> {
    Query::new(key.as_bytes(), Sequence(sequence))
}

fn decoded(mut builder: BlockBuilder) -> Block {
    let mut payload = ByteBuffer::new();
    builder.finish_into(&mut payload);
    Block::decode(payload).expect("what the builder made")
}

fn block_on(value_bytes: usize, account: Option<&Arc<Account>>) -> SharedBlock {
    let mut builder = BlockBuilder::new(1);
    builder.add(&entry("k", 1, &vec![0; value_bytes]));
    Charged::share(decoded(builder), Block::memory_bytes, account, MemoryPart::Blocks)
}

fn block(value_bytes: usize) -> SharedBlock {
    block_on(value_bytes, None)
}

/// A lower index block of `table` with so many fences.
fn lower(cache: &BlockCache, table: u64, fences: usize) -> SharedLower {
    let mut builder = BlockBuilder::new(4);
    for at in 0..fences {
        let mut handle = Vec::new();
        BlockHandle { offset: 4096 * at as u64, bytes: 4096, checksum: 0 }.encode(&mut handle);
        let key = if at == 0 { Vec::new() } else { (at as u32).to_be_bytes().to_vec() };
        builder.add(&fence_entry(&key, Sequence::MAX, &handle));
    }
    let fences = Fences::decode(&decoded(builder), FIRST_PLACE).expect("in order");
    let lower = cache.lower_block(TableId(table), 0, fences);
    Charged::share(lower, LowerBlock::memory_bytes, None, MemoryPart::Blocks)
}

/// A cache that is smaller than the data.
fn small_cache() -> BlockCache {
    let cache = BlockCache::new(1 << 20);
    cache.table_opened(2 << 20);
    cache
}

/// The block was read for the entry.
fn admit(cache: &BlockCache, place: (&SharedLower, usize), block: &SharedBlock, entry: Entry<'_>) {
    cache.admit(place, block, &Query::new(entry.key, Sequence(100)), Some(entry));
}

#[test]
fn blocks_are_found_by_their_fences() {
    let cache = BlockCache::new(1 << 20);
    let (one, two) = (lower(&cache, 1, 3), lower(&cache, 2, 3));
    for lower in [&one, &two] {
        cache.insert(lower, 0, block(100));
        cache.insert(lower, 1, block(200));
    }
    let found = |lower: &SharedLower, at| lower.cached(at).map(|block| block.bytes().len());
    assert!(found(&one, 0) < found(&one, 1) && found(&one, 2).is_none());
    assert_eq!((found(&two, 0), found(&two, 1), found(&two, 2)), (found(&one, 0), found(&one, 1), None));
    // The first one to come stays: lookups may use it.
    cache.insert(&one, 0, block(200));
    assert_eq!(found(&one, 0), found(&two, 0));
    for found in [true, true, false] {
        cache.count(1, found);
    }
    assert_eq!((cache.hits(), cache.misses()), (2, 1));
}

#[test]
fn lower_index_blocks_are_found_by_their_fences() {
    let cache = BlockCache::new(1 << 20);
    let slots = cache.lower_slots(TableId(1), 2);
    let (first, late) = (lower(&cache, 1, 3), lower(&cache, 1, 3));
    assert!(slots.cached(0).is_none());
    assert!(Arc::ptr_eq(&cache.insert_lower(&slots, 0, first.clone()), &first));
    assert!(Arc::ptr_eq(&cache.insert_lower(&slots, 0, late), &first), "the one that lookups find");
    assert!(slots.cached(0).is_some_and(|cached| Arc::ptr_eq(&cached, &first)) && slots.cached(1).is_none());
}

/// Closing a table frees its blocks at once, and the cache has space for others; a block that
/// somebody uses lives on.
#[test]
fn blocks_go_with_their_table() {
    let account = Account::new(Budget::unlimited());
    let charged = || account.bytes(MemoryPart::Blocks);
    let cache = BlockCache::new(1 << 20);
    let slots = cache.lower_slots(TableId(1), 2);
    let resident = lower(&cache, 1, 300);
    let cached = cache.insert_lower(&slots, 0, lower(&cache, 1, 300));
    for at in 0..100 {
        cache.insert(&resident, at, block_on(1000, Some(&account)));
        cache.insert(&cached, at, block_on(1000, Some(&account)));
    }
    let (used, all) = (cache.used_bytes(), charged());
    assert!(used > 200_000 && all > 200_000, "{used}");
    let pinned = (*resident.cached(7).expect("it is there")).clone();
    drop((resident, cached));
    assert!(cache.used_bytes() < used * 6 / 10, "{} of {used}", cache.used_bytes());
    assert!(charged() < all * 6 / 10, "{} of {all}", charged());
    drop(slots);
    assert_eq!((cache.used_bytes(), cache.block_bytes()), (0, 0));
    assert!(charged() == pinned.memory_bytes() as u64 && pinned.bytes().len() > 1000, "{}", charged());
    // What the queues still have is not counted for space, and goes.
    let other = lower(&cache, 2, 2000);
    (0..450).for_each(|at| cache.insert(&other, at, block(1000)));
    assert!((0..450).all(|at| other.has_cached(at)), "there is space for all");
    (450..2000).for_each(|at| cache.insert(&other, at, block(1000)));
    assert!(cache.used_bytes() <= 1 << 20);
    assert_eq!(cache.usage.orphans(), 0);
}

/// Where everything fits, nothing is evicted, so what the queues have of closed tables has to go
/// otherwise.
#[test]
fn queues_do_not_grow_with_tables_that_come_and_go() {
    let cache = BlockCache::new(64 << 20);
    for table in 0..1000 {
        let lower = lower(&cache, table, 100);
        (0..100).for_each(|at| cache.insert(&lower, at, block(100)));
    }
    assert!(cache.other_bytes() < 1 << 20, "{} bytes", cache.other_bytes());
}

#[test]
fn a_cached_entry_is_what_was_copied() {
    let key = "k".repeat(65_536);
    for (key, kind, value) in
        [("", EntryKind::Put, &b""[..]), ("k", EntryKind::Delete, b""), (&key, EntryKind::Put, b"value")]
    {
        let entry = Entry { key: key.as_bytes(), sequence: Sequence::MAX, kind, value };
        let cached = CachedEntry::new(7, &entry, Sequence(7));
        let read = cached.read();
        assert_eq!((read.entry(), read.value(), read.key(), read.name()), (Some(entry), value, key.as_bytes(), 7));
        assert_eq!(cached.memory_bytes(), CachedEntry::memory_bytes_of(&entry));
    }
}

fn found(cache: &BlockCache, key: &str, sequence: u64) -> Option<Vec<u8>> {
    cache.entry(&query(key, sequence)).map(|cached| cached.read().value().to_vec())
}

#[test]
fn an_entry_answers_for_its_key_to_those_who_may_see_it() {
    let cache = small_cache();
    let place = lower(&cache, 1, 3);
    admit(&cache, (&place, 0), &block(4000), entry("k", 5, b"value"));
    assert_eq!(found(&cache, "k", 5), Some(b"value".to_vec()));
    assert_eq!(found(&cache, "k", 600), Some(b"value".to_vec()));
    assert_eq!(found(&cache, "k", 4), None, "it is younger than the reader");
    assert_eq!(found(&cache, "other", 5), None);
    assert!(!place.has_cached(0), "the block was not kept");
    // Another key with the same digest: a hash collision.
    cache.admit((&place, 0), &block(4000), &query("k", 5), Some(entry("other", 5, b"value")));
    assert_eq!(found(&cache, "k", 5), None, "it has the same digest");
}

/// A block that a lookup reads once is not worth an index of its entries.
#[test]
fn blocks_are_indexed_when_they_are_cached() {
    let cache = small_cache();
    let place = lower(&cache, 1, 3);
    let (once, kept) = (block(4000), block(4000));
    admit(&cache, (&place, 0), &once, entry("k", 5, b"value"));
    assert!(!place.has_cached(0) && !once.is_indexed());
    cache.insert(&place, 1, kept.clone());
    assert!(place.has_cached(1) && kept.is_indexed());
}

#[test]
fn an_absence_answers_those_who_are_as_young_as_its_finder() {
    let cache = small_cache();
    cache.admit_absent(&query("k", 7));
    assert!(cache.entry(&query("k", 6)).is_none(), "a compaction may have dropped what this one sees");
    let absent = cache.entry(&query("k", 7)).expect("it is known");
    assert_eq!(absent.read().entry(), None);
}

/// A flush renews what is cached of its keys, and nothing older comes in afterwards.
#[test]
fn a_flush_renews_entries() {
    let cache = small_cache();
    let place = lower(&cache, 1, 3);
    let put = |key, sequence, value| entry(key, sequence, value);
    admit(&cache, (&place, 0), &block(4000), put("k", 5, b"old"));
    cache.admit_absent(&query("new", 100));
    cache.flush_begins(Sequence(120));
    for (key, is_hot) in [("k", false), ("new", false), ("not cached", false), ("hot", true)] {
        cache.renew(&put(key, 115, b"young"), is_hot, Sequence(120));
    }
    assert_eq!(found(&cache, "hot", 120), Some(b"young".to_vec()), "it was looked up in the memtable");
    assert_eq!(found(&cache, "k", 120), Some(b"young".to_vec()));
    assert_eq!(found(&cache, "new", 120), Some(b"young".to_vec()));
    assert_eq!(found(&cache, "k", 114), None, "who does not see it searches the tables");
    assert_eq!(found(&cache, "not cached", 120), None);
    // A lookup from before the flush has found the older version.
    cache.admit((&place, 1), &block(4000), &query("not cached", 119), Some(put("not cached", 5, b"old")));
    cache.admit_absent(&query("nor this", 119));
    assert!(found(&cache, "not cached", 200).is_none() && cache.entry(&query("nor this", 200)).is_none());
    assert!(place.has_cached(1), "but its block stays right");
    cache.admit((&place, 2), &block(4000), &query("not cached", 120), Some(put("not cached", 110, b"new")));
    assert_eq!(found(&cache, "not cached", 120), Some(b"new".to_vec()));
    // A version that is too large to be cached does not leave the older one behind.
    cache.flush_begins(Sequence(130));
    let large = vec![0; 1 << 20];
    cache.renew(&put("k", 125, &large), false, Sequence(130));
    cache.renew(&put("large", 125, &large), true, Sequence(130));
    assert!(cache.entry(&query("k", 130)).is_none() && cache.entry(&query("large", 130)).is_none());
    // Where everything fits, its block will be cached.
    cache.table_closed(2 << 20);
    cache.renew(&put("block", 125, b"value"), true, Sequence(130));
    assert!(cache.entry(&query("block", 130)).is_none());
}

#[test]
fn an_ingest_voids_entries() {
    let cache = small_cache();
    let place = lower(&cache, 1, 3);
    admit(&cache, (&place, 0), &block(4000), entry("k", 5, b"value"));
    cache.ingest_begins(Sequence(150));
    assert_eq!(found(&cache, "k", 200), None, "the ingest may have the key");
    admit(&cache, (&place, 0), &block(4000), entry("k", 5, b"value"));
    assert_eq!(found(&cache, "k", 200), None, "this lookup did not see it");
    cache.admit((&place, 0), &block(4000), &query("k", 150), Some(entry("k", 150, b"new")));
    assert_eq!(found(&cache, "k", 200), Some(b"new".to_vec()));
}

#[test]
fn what_is_kept_is_what_is_worth_more() {
    let large = block(4000);
    let (one, other) = (entry("one", 1, b"value"), entry("other", 1, b"value"));
    let keeps_block = |cache: &BlockCache, entries: &[Entry<'_>]| {
        let place = lower(cache, 1, 3);
        entries.iter().for_each(|&entry| admit(cache, (&place, 0), &large, entry));
        place.has_cached(0)
    };
    let half = large.memory_bytes() / 2;
    assert!(!keeps_block(&small_cache(), &[one, one, one]), "always the same entry");
    assert!(keeps_block(&small_cache(), &[one, one, one, other]), "another entry of it");
    let most = vec![0; half - 100];
    assert!(!keeps_block(&small_cache(), &[entry("one", 1, &most)]), "a large entry, but less than half of it");
    let most = vec![0; half];
    assert!(keeps_block(&small_cache(), &[entry("one", 1, &most)]), "an entry that is more than half of it");
    let cache = small_cache();
    cache.table_closed(1 << 20);
    assert!(keeps_block(&cache, &[one]), "everything fits");

    let cache = small_cache();
    let place = lower(&cache, 1, 3);
    cache.admit((&place, 0), &large, &query("one", 5), None);
    assert!(!place.has_cached(0), "nothing was there");
    cache.admit((&place, 0), &large, &query("other", 5), None);
    assert!(place.has_cached(0), "another absent key of it");
    cache.flush_begins(Sequence(7));
    cache.admit((&place, 1), &large, &query("one", 6), Some(one));
    assert!(place.has_cached(1) && found(&cache, "one", 9).is_none(), "perhaps an older version");
}

/// Random blocks and entries of all sizes, at capacities that change: never more than the capacity,
/// and near it once there is enough.
#[test]
fn the_cache_keeps_to_its_capacity() {
    for seed in seeds(20) {
        let mut random = Random::new(seed);
        let mut capacity = [0, 10_000, 300_000, 1 << 20][random.below(4) as usize];
        let cache = BlockCache::new(capacity);
        cache.table_opened(u64::MAX / 2);
        let mut lowers: Vec<_> = (0..4).map(|table| lower(&cache, table, 2000)).collect();
        for step in 0..3000 {
            let place = random.below(4) as usize;
            match random.below(100) {
                0 => {
                    capacity = [0, 10_000, 300_000, 1 << 20][random.below(4) as usize];
                    cache.set_capacity(capacity);
                }
                1 => lowers[place] = lower(&cache, 5 + step, 2000),
                2..50 => {
                    let bytes = [10, 1000, 4000, 4000, 100_000][random.below(5) as usize];
                    cache.insert(&lowers[place], random.below(2000) as usize, block(bytes));
                }
                50..70 => drop(lowers[place].cached(random.below(2000) as usize)),
                _ => {
                    let key = random.below(3000).to_string();
                    if cache.entry(&query(&key, 9)).is_none() {
                        let value = vec![0; random.below(1500) as usize];
                        let name = entry_name(query(&key, 9).digest());
                        cache.insert_entry(CachedEntry::new(name, &entry(&key, 1, &value), Sequence(9)), Sequence(9));
                    }
                }
            }
            let (used, entries) = (cache.used_bytes(), cache.entry_bytes());
            // The slots of a lower index block stay as long as that does.
            let most = capacity.max(cache.usage.slot_bytes());
            assert!(entries <= used && used <= most, "seed {seed}: {entries} of {used} of {capacity}");
        }
        (0..2000).for_each(|at| cache.insert(&lowers[0], at, block(1000)));
        assert!(capacity < 300_000 || cache.used_bytes() > capacity - 110_000, "seed {seed}: it is full");
    }
}

/// What is used again and again stays when more than fits is read once, as in a long scan.
#[test]
fn what_is_used_stays_through_a_scan() {
    let cache = BlockCache::new(2 << 20);
    cache.table_opened(u64::MAX / 2);
    let place = lower(&cache, 1, 20_000);
    let hot = 0..100;
    let mut missed = 0;
    for at in 100..20_000 {
        // Each hot block about once in the reads of a hundred others.
        let wanted = at % 100;
        if place.cached(wanted).is_none() {
            cache.insert(&place, wanted, block(4000));
            missed += usize::from(at > 5000);
        }
        cache.insert(&place, at, block(4000));
    }
    assert!(hot.clone().all(|at| place.has_cached(at)), "{missed} misses");
    assert_eq!(missed, 0);
}

/// The cache's estimate of its memory for entries of that size is not far from the weight that it
/// gives them.
#[test]
fn weights_are_what_items_take() {
    for value_bytes in [1000, 100, 8] {
        let cache = BlockCache::new(16 << 20);
        cache.table_opened(1 << 30);
        let place = lower(&cache, 1, 3);
        for number in 0..400_000 / (1 + value_bytes / 100) as u64 {
            // The blocks differ, so that none is wanted twice.
            let other = lower(&cache, 2 + number, 1);
            let place = if number % 2 == 0 { &other } else { &place };
            let value = vec![0; value_bytes];
            let key = number.to_string();
            cache.admit((place, 0), &block(4000), &query(&key, 9), Some(entry(&key, 1, &value)));
        }
        let taken = cache.block_bytes() + cache.other_bytes();
        let used = cache.used_bytes();
        assert!(used > 15 << 20, "{used}");
        assert!((used / 100 * 75..used / 100 * 145).contains(&taken), "{taken} of {used} for {value_bytes}");
    }
}

/// Threads that insert, look up, evict and close tables at once: counts are right at the end.
#[test]
fn threads_share_the_cache() {
    let cache = BlockCache::new(200_000);
    cache.table_opened(u64::MAX / 2);
    let tables: Vec<_> = (0..4).map(|table| Mutex::new(Rank::Test, lower(&cache, table, 100))).collect();
    let next = AtomicU64::new(4);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (cache, tables, next) = (&cache, &tables, &next);
            scope.spawn(move || {
                let mut random = Random::new(thread);
                for _ in 0..3000 {
                    let table = &tables[random.below(4) as usize];
                    let place = table.lock().clone();
                    let at = random.below(100) as usize;
                    match random.below(50) {
                        0 => {
                            let other = lower(cache, next.fetch_add(1, Ordering::Relaxed), 100);
                            *table.lock() = other;
                        }
                        1..25 => cache.insert(&place, at, block(1000 + 10 * at)),
                        _ => {
                            if let Some(found) = place.cached(at) {
                                assert!(found.bytes().len() > 1000 + 10 * at, "the block of its fence");
                            }
                        }
                    }
                }
            });
        }
    });
    assert!(cache.used_bytes() <= 200_000);
    let inside: u64 = tables
        .iter()
        .flat_map(|table| {
            let place = table.lock().clone();
            (0..100).filter_map(move |at| place.cached(at).map(|block| block.memory_bytes() as u64))
        })
        .sum();
    assert_eq!(cache.block_bytes(), inside);
    drop(tables);
    assert_eq!(cache.used_bytes(), 0);
}
