//! The device: a temporary file that is synced, written, and read back.
//!
//! ```text
//! create ─▶ sync small writes ─▶ open for direct reads ─▶ remove name ─▶ write ─▶ read ─▶ close
//!           with its name,                                the file lives while it is open:
//!           as the WAL                                    none is left if the process ends
//! ```
//!
//! How each figure is measured:
//!
//! * **Sync**: after each of many writes of 128 bytes into preallocated space, as of the WAL.
//! * **Append**: such writes without syncs; the system call, which is a part of a put.
//! * **Sequential writes**: pieces of an eighth of the file, as tables are written: in writes of
//!   512 KiB through the page cache whose write-back begins at once, with a sync at the end.
//! * **Sequential reads**: the same pieces, in reads of 1 MiB, two at a time.
//! * **Random read**: reads of 4 KiB, one after the other, which begin in the middle of a page. So
//!   do most blocks of tables: they are not aligned.
//! * **Random reads at a depth**: the same through a read queue that keeps that many in flight.
//!
//! Latencies are means of a round, of which the median round counts: a mean is what operations pay,
//! and a round in which the machine paused is left out.
//!
//! Random reads at all depths take turns in each round, so that all rounds see the same machine.

use std::hint::black_box;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tamarack_env::{Access, Env, File, Random, ReadRequest, Step};
use tamarack_model::device::{RANDOM_READ_BYTES, READ_DEPTHS};

use super::plan::Plan;
use crate::error::{Error, Result};
use crate::format::names::FileName;
use crate::random_reads::{SteadyReads, median, timed};
use crate::step;

/// Shares of the time, in thousandths; the processor has the other 260.
const SYNC_SHARE: u64 = 130;
const WRITE_SHARE: u64 = 30;
const READ_SHARE: u64 = 10;
const RANDOM_SHARE: u64 = 58;

/// Pieces of the file that are written, and read, one after the other.
const PIECES: u64 = 8;

/// Rounds of random reads.
const ROUNDS: u64 = 5;

/// The bytes of a small write: about those of a put of 100 bytes in the WAL.
const RECORD_BYTES: usize = 128;

/// Small writes go around in the first bytes of the file, in pages as those of a WAL segment.
const SYNCED_BYTES: u64 = 256 << 10;

/// Bounds on the number of syncs, whatever their time.
const SYNCS_MIN: u64 = 5;
const SYNCS_MAX: u64 = 1000;

/// Small writes without syncs in a round.
const APPENDS: u64 = 200;

/// The bytes of large writes, as of a table's builder, and of large reads.
const WRITE_BYTES: u64 = 512 << 10;
const READ_BYTES: u64 = 1 << 20;

/// What was measured; times in seconds, rates in bytes and reads per second.
pub(super) struct StorageTimes {
    pub(super) read_seconds: f64,
    pub(super) reads_per_second: [f64; READ_DEPTHS.len()],
    pub(super) read_bytes_per_second: f64,
    pub(super) write_bytes_per_second: f64,
    pub(super) sync_seconds: f64,
    /// A small write without a sync.
    pub(super) append_seconds: f64,
    pub(super) direct_alignment: Option<usize>,
    /// The file, which has no name any more.
    pub(super) file: Arc<dyn File>,
    pub(super) data_bytes: u64,
}

/// Measures the device of `dir` with a file of `data_bytes` or, if it is slow, fewer.
pub(super) fn measure(env: &dyn Env, dir: &Path, data_bytes: u64, plan: &mut Plan<'_>) -> Result<StorageTimes> {
    let mut data = DataFile::create(env, dir)?;
    let sync_seconds = data.sync_small_writes(plan)?;
    let append_seconds = data.append()?;
    plan.advance(SYNC_SHARE);
    // All of it is synced now, and long enough to try what direct reads need.
    let reader = data.open_for_reads()?;
    data.remove_name()?;
    let piece_bytes = data_bytes / PIECES / RANDOM_READ_BYTES as u64 * RANDOM_READ_BYTES as u64;
    let (pieces, write_bytes_per_second) = data.write(piece_bytes, plan)?;
    let blocks = pieces * piece_bytes / RANDOM_READ_BYTES as u64;
    let reads = DataReads { env, file: &reader, path: &data.path, blocks };
    let read_bytes_per_second = reads.sequential(pieces, piece_bytes, plan)?;
    let (read_seconds, reads_per_second) = reads.random(plan)?;
    Ok(StorageTimes {
        read_seconds,
        reads_per_second,
        read_bytes_per_second,
        write_bytes_per_second,
        sync_seconds,
        append_seconds,
        direct_alignment: reader.direct_alignment(),
        file: reader,
        data_bytes: pieces * piece_bytes,
    })
}

/// The temporary file. Its name goes with the value.
struct DataFile<'a> {
    env: &'a dyn Env,
    path: PathBuf,
    file: Arc<dyn File>,
    has_name: bool,
    /// Bytes that no device can compress.
    noise: Vec<u8>,
}

impl<'a> DataFile<'a> {
    fn create(env: &'a dyn Env, dir: &Path) -> Result<Self> {
        let path = FileName::CalibrationNew.path(dir);
        let step = step::CALIBRATION_CREATE_DATA;
        let file = env.create(&path, step).map_err(|error| Error::io(step.0, &path, error))?;
        let random = Random::new(env.random());
        let noise = (0..WRITE_BYTES / 8).flat_map(|_| random.next().to_le_bytes()).collect();
        Ok(Self { env, path, file, has_name: true, noise })
    }

    fn done<T>(&self, step: Step, outcome: io::Result<T>) -> Result<T> {
        outcome.map_err(|error| Error::io(step.0, &self.path, error))
    }

    fn sync(&self) -> Result<()> {
        self.done(step::CALIBRATION_SYNC_DATA, self.file.sync(step::CALIBRATION_SYNC_DATA))
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        let step = step::CALIBRATION_WRITE_DATA;
        self.done(step, self.file.write_all_at(bytes, offset, step))
    }

    /// Writes small record `number`.
    fn write_record(&self, number: u64) -> Result<()> {
        self.write_at(&self.noise[..RECORD_BYTES], number * RECORD_BYTES as u64 % SYNCED_BYTES)
    }

    /// The seconds of a sync.
    fn sync_small_writes(&self, plan: &Plan<'_>) -> Result<f64> {
        let step = step::CALIBRATION_ALLOCATE_DATA;
        self.done(step, self.file.allocate(SYNCED_BYTES, step))?;
        self.sync()?;
        let (until, mut times) = (plan.end_of(SYNC_SHARE as f64), Vec::new());
        for number in 0..SYNCS_MAX {
            self.write_record(number)?;
            let (synced, seconds) = timed(self.env, || self.sync());
            synced?;
            times.push(seconds);
            if number + 1 >= SYNCS_MIN && self.env.now() >= until {
                break;
            }
        }
        Ok(median(times))
    }

    /// The seconds of a small write.
    fn append(&self) -> Result<f64> {
        let round = |round| {
            let writes = || (0..APPENDS).try_for_each(|number| self.write_record(round * APPENDS + number));
            let (written, seconds) = timed(self.env, writes);
            written.map(|()| seconds / APPENDS as f64)
        };
        let seconds = (0..ROUNDS).map(round).collect::<Result<Vec<f64>>>()?;
        self.sync()?;
        Ok(median(seconds))
    }

    fn open_for_reads(&self) -> Result<Arc<dyn File>> {
        let opened = self.env.open(&self.path, Access::ReadDirect);
        opened.map_err(|error| Error::io("calibration: open data file", &self.path, error))
    }

    fn remove_name(&mut self) -> Result<()> {
        let step = step::CALIBRATION_REMOVE;
        self.has_name = false;
        self.done(step, self.env.remove(&self.path, step))
    }

    /// Writes pieces while there is time, at least one; their number, and bytes per second.
    fn write(&self, piece_bytes: u64, plan: &mut Plan<'_>) -> Result<(u64, f64)> {
        let (until, mut rates) = (plan.end_of((PIECES * WRITE_SHARE) as f64), Vec::new());
        for piece in 0..PIECES {
            let (written, seconds) = timed(self.env, || self.write_piece(piece * piece_bytes, piece_bytes));
            written?;
            rates.push(piece_bytes as f64 / seconds);
            plan.advance(WRITE_SHARE);
            if self.env.now() >= until && piece + 1 < PIECES {
                plan.advance((PIECES - piece - 1) * WRITE_SHARE);
                break;
            }
        }
        Ok((rates.len() as u64, median(rates)))
    }

    fn write_piece(&self, from: u64, bytes: u64) -> Result<()> {
        let mut at = from;
        while at < from + bytes {
            let length = WRITE_BYTES.min(from + bytes - at);
            self.write_at(&self.noise[..length as usize], at)?;
            self.file.start_writeback(at, length);
            at += length;
        }
        self.sync()
    }
}

impl Drop for DataFile<'_> {
    fn drop(&mut self) {
        if self.has_name
            && let Err(error) = self.remove_name()
        {
            tracing::warn!(%error, "removal of the file of a calibration failed");
        }
    }
}

/// Reads of the written file.
struct DataReads<'a> {
    env: &'a dyn Env,
    file: &'a Arc<dyn File>,
    path: &'a Path,
    /// Blocks of [`RANDOM_READ_BYTES`] in it.
    blocks: u64,
}

impl DataReads<'_> {
    fn done<T>(&self, outcome: io::Result<T>) -> Result<T> {
        outcome.map_err(|error| Error::io("calibration: read data", self.path, error))
    }

    /// Bytes per second of reads in the order of the file.
    fn sequential(&self, pieces: u64, piece_bytes: u64, plan: &mut Plan<'_>) -> Result<f64> {
        let (until, mut rates) = (plan.end_of((PIECES * READ_SHARE) as f64), Vec::new());
        for piece in 0..pieces {
            let read_bytes = READ_BYTES.min(piece_bytes / 4);
            let count = piece_bytes / read_bytes;
            let next = |number| (number < count).then(|| piece * piece_bytes + number * read_bytes);
            let (read, seconds) = timed(self.env, || self.queue(2, read_bytes as usize, &next));
            rates.push((read? * read_bytes) as f64 / seconds);
            if self.env.now() >= until {
                break;
            }
        }
        plan.advance(PIECES * READ_SHARE);
        Ok(median(rates))
    }

    /// Seconds of a random read, and reads per second at each depth.
    fn random(&self, plan: &mut Plan<'_>) -> Result<(f64, [f64; READ_DEPTHS.len()])> {
        let random = Random::new(self.env.random());
        let mut rates = [const { Vec::new() }; READ_DEPTHS.len()];
        for _ in 0..ROUNDS {
            for (depth, rates) in READ_DEPTHS.into_iter().zip(&mut rates) {
                let until = plan.end_of(RANDOM_SHARE as f64 / READ_DEPTHS.len() as f64);
                rates.push(match depth {
                    1 => self.random_one_by_one(until, &random)?,
                    _ => self.random_at_depth(depth, until, &random)?,
                });
            }
            plan.advance(RANDOM_SHARE);
        }
        let rates = rates.map(median);
        Ok((1.0 / rates[0], rates))
    }

    /// True if a round is to go on after so many reads.
    fn goes_on(&self, reads: u64, depth: u32, until: Duration) -> bool {
        let (least, most) = (2 * u64::from(depth), self.blocks / ROUNDS);
        reads < least || (reads < most && self.env.now() < until)
    }

    /// In the middle of a page, and not in the last one.
    fn random_offset(&self, random: &Random) -> u64 {
        let bytes = RANDOM_READ_BYTES as u64;
        random.below((self.blocks - 1).max(1)) * bytes + if self.blocks > 1 { bytes / 2 } else { 0 }
    }

    /// Reads per second of one after the other, without a queue.
    fn random_one_by_one(&self, until: Duration, random: &Random) -> Result<f64> {
        let (mut block, mut reads) = (vec![0; RANDOM_READ_BYTES], 0);
        let (read, seconds) = timed(self.env, || {
            while self.goes_on(reads, 1, until) {
                self.file.read_exact_at(&mut block, self.random_offset(random))?;
                black_box(&block);
                reads += 1;
            }
            Ok::<(), io::Error>(())
        });
        self.done(read)?;
        Ok(reads as f64 / seconds)
    }

    /// Reads per second with `depth` reads in flight.
    fn random_at_depth(&self, depth: u32, until: Duration, random: &Random) -> Result<f64> {
        let next = |number| self.goes_on(number, depth, until).then(|| self.random_offset(random));
        let (read, seconds) = timed(self.env, || self.queue(depth, RANDOM_READ_BYTES, &next));
        Ok(read? as f64 / seconds)
    }

    /// Carries out reads of so many bytes, `depth` at any time: that of each number begins where
    /// `offset` says, until there is none. Returns how many there were.
    fn queue(&self, depth: u32, bytes: usize, offset: &dyn Fn(u64) -> Option<u64>) -> Result<u64> {
        let request = |number| Some(ReadRequest { file: self.file.clone(), offset: offset(number)?, bytes });
        let mut reads = SteadyReads::new(depth, &request);
        self.env.read_queue(&mut reads);
        self.done(reads.ended())
    }
}
