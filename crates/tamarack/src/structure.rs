//! [`Stats`]: what a database looks like, as plain numbers.

use crate::engine::Engine;
use crate::format::meta::TreeId;
use crate::tree::run::Run;

/// What a database looks like and what it did since it was opened.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// The buffers, the one that takes writes first, then the sealed ones, young to old.
    pub buffers: Vec<BufferStats>,
    /// The levels, level 1 (young) first.
    pub levels: Vec<LevelStats>,
    /// Log segments on storage.
    pub log_segments: usize,
    /// Bytes in the log since the oldest segment's begin.
    pub log_bytes: u64,
    /// The youngest sequence that readers see: the number of entries ever written.
    pub visible_sequence: u64,
    /// Snapshots and iterators that are held.
    pub snapshots: usize,
    /// Size of the block cache's content, in bytes.
    pub cache_bytes: u64,
    /// Blocks found in the cache.
    pub cache_hits: u64,
    /// Blocks that had to be read.
    pub cache_misses: u64,
    /// Entries committed since opening.
    pub entries_written: u64,
    /// Raw bytes of these entries.
    pub raw_bytes_written: u64,
    /// Commit groups since opening: writes to the log.
    pub commit_groups: u64,
    /// Buffers flushed since opening.
    pub flushes: u64,
    /// Bytes of tables that flushes wrote since opening.
    pub flush_bytes: u64,
    /// Flushes that failed since opening.
    pub flush_failures: u64,
    /// Merges that ended since opening.
    pub merges: u64,
    /// Bytes of tables that merges wrote since opening.
    pub merge_bytes: u64,
    /// Merges that failed since opening.
    pub merge_failures: u64,
    /// Raw bytes of entries that flushes and merges wrote into each level since opening, level 1 first.
    pub written_raw_bytes: Vec<u64>,
    /// Runs that went to another level as they were, since opening.
    pub moves: u64,
    /// Changes of shape since opening, growth included.
    pub reshapes: u64,
    /// Times a writer waited for flushes since opening.
    pub write_stalls: u64,
    /// How long writers waited for flushes since opening, in seconds.
    pub write_stall_seconds: f64,
}

/// A buffer.
#[derive(Clone, Debug, Default)]
pub struct BufferStats {
    /// Entries, all versions and tombstones included.
    pub entries: u64,
    /// Raw bytes of its entries.
    pub raw_bytes: u64,
    /// Memory it takes, in bytes.
    pub memory_bytes: u64,
}

/// A level.
#[derive(Clone, Debug, Default)]
pub struct LevelStats {
    /// Its runs, young to old.
    pub runs: Vec<RunStats>,
}

/// A run.
#[derive(Clone, Debug, Default)]
pub struct RunStats {
    /// Tables that its slices belong to.
    pub tables: u64,
    /// Entries of these tables, all versions and tombstones included.
    pub entries: u64,
    /// Tombstones among them.
    pub tombstones: u64,
    /// Raw bytes of the entries.
    pub raw_bytes: u64,
    /// Bytes of the files.
    pub file_bytes: u64,
}

impl Stats {
    pub(crate) fn of(engine: &Engine) -> Self {
        let state = engine.tree.pin();
        let buffers = std::iter::once(&state.active).chain(state.sealed.iter().map(|sealed| &sealed.buffer));
        let levels = state.version.tree(TreeId(0)).into_iter().flat_map(|tree| tree.levels());
        let counters = &engine.counters;
        Self {
            buffers: buffers
                .map(|buffer| BufferStats {
                    entries: buffer.entries(),
                    raw_bytes: buffer.raw_bytes(),
                    memory_bytes: buffer.memory_bytes(),
                })
                .collect(),
            levels: levels
                .map(|level| LevelStats { runs: level.runs().iter().map(|run| RunStats::of(run)).collect() })
                .collect(),
            log_segments: engine.log.segments().len(),
            log_bytes: engine.log.segments().iter().map(|segment| segment.bytes).sum(),
            visible_sequence: engine.tree.visible.sequence().0,
            snapshots: engine.tree.visible.snapshots(),
            cache_bytes: engine.cache.used_bytes(),
            cache_hits: engine.cache.hits(),
            cache_misses: engine.cache.misses(),
            entries_written: counters.entries_written.get(),
            raw_bytes_written: counters.raw_bytes_written.get(),
            commit_groups: counters.commit_groups.get(),
            flushes: counters.flushes.get(),
            flush_bytes: counters.flush_bytes.get(),
            flush_failures: counters.flush_failures.get(),
            merges: counters.merges.get(),
            merge_bytes: counters.merge_bytes.get(),
            merge_failures: counters.merge_failures.get(),
            written_raw_bytes: counters.level_bytes.get(),
            moves: counters.moves.get(),
            reshapes: counters.reshapes.get(),
            write_stalls: counters.write_stalls.get(),
            write_stall_seconds: counters.write_stall_ns.get() as f64 / 1e9,
        }
    }
}

impl RunStats {
    fn of(run: &Run) -> Self {
        run.slices().iter().fold(Self::default(), |sum, slice| {
            let meta = slice.table().meta();
            Self {
                tables: sum.tables + 1,
                entries: sum.entries + meta.entries,
                tombstones: sum.tombstones + meta.tombstones,
                raw_bytes: sum.raw_bytes + meta.raw_bytes,
                file_bytes: sum.file_bytes + meta.file_bytes,
            }
        })
    }
}
