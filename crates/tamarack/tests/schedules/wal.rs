//! The WAL alone: who is told that something is durable, and when. And the syncs that deadlines
//! cause.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tamarack::internals::Database;
use tamarack::internals::IntervalSync;
use tamarack::internals::TableFiles;
use tamarack::internals::TableStorage;
use tamarack::internals::Version;
use tamarack::internals::Wal;
use tamarack::step;
use tamarack::{Error, Result};
use tamarack_env::Env;
use tamarack_env::sync::{Mutex, Rank, thread};
use tamarack_format::entry::{EntryKind, Sequence};
use tamarack_format::group::Group;
use tamarack_format::meta::{EditNumber, TreeId};
use tamarack_format::record::Position;

use crate::commits::new_wal;
use crate::explore;
use crate::watched::{WatchedEnv, watched_env};

const DIR: &str = "/db";

/// Threads that append and then ask for a sync share syncs; each returns only when its own bytes
/// are durable.
#[test]
fn syncs_are_shared() {
    explore(2000, || {
        let wal = Watched::new();
        let threads = ["a", "b", "c"].map(|key| {
            let wal = wal.clone();
            thread::spawn(move || {
                wal.append_and_sync(key).unwrap();
                assert!(wal.env.hook().is_durable("wal", key), "{key} is not durable yet");
            })
        });
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

/// The same while the WAL goes on in new segments: what stands in older ones is durable first.
#[test]
fn syncs_reach_older_segments() {
    explore(2000, || {
        let wal = Watched::new();
        let threads = ["a", "b"].map(|key| {
            let wal = wal.clone();
            thread::spawn(move || {
                wal.append_and_sync(key).unwrap();
                assert!(wal.env.hook().is_durable("wal", key), "{key} is not durable yet");
            })
        });
        wal.rotate();
        wal.append_and_sync("c").unwrap();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(wal.env.hook().unsynced("wal"), Vec::<std::path::PathBuf>::new());
    });
}

/// A failed sync is told to all who waited for it, and to all who come later. Nobody is told that
/// something was durable that was not.
#[test]
fn a_failed_sync_is_told_to_all() {
    explore(2000, || {
        let wal = Watched::new();
        wal.env.hook().fail(step::WAL_SYNC, 2);
        let threads = ["a", "b", "c"].map(|key| {
            let wal = wal.clone();
            thread::spawn(move || match wal.append_and_sync(key) {
                Ok(()) => assert!(wal.env.hook().is_durable("wal", key), "{key} is not durable yet"),
                Err(error) => assert!(matches!(error, Error::Stopped { .. }), "{error}"),
            })
        });
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

/// A WAL that is closed while others append and rotate is durable as a whole, up to the end that it
/// tells.
#[test]
fn a_closed_wal_is_durable() {
    explore(2000, || {
        let wal = Watched::new();
        let writer = {
            let wal = wal.clone();
            thread::spawn(move || {
                // Until it is closed.
                let _ = wal.append("a");
                wal.rotate();
                let _ = wal.append("b");
            })
        };
        let end = wal.wal.close().unwrap();
        assert_eq!(wal.env.hook().unsynced("wal"), Vec::<std::path::PathBuf>::new());
        writer.join().unwrap();
        assert_eq!(wal.wal.end(), end, "written after it was closed");
    });
}

/// Whatever asked for a sync within some time is durable some time, although no call waits for it.
#[test]
fn deadlines_are_kept() {
    explore(2000, || {
        let wal = Watched::new();
        let env: Arc<dyn Env> = wal.env.clone();
        let files = TableFiles::new(TableStorage::buffered(env.clone(), 0), Path::new(DIR));
        let version = Version::new(7, files);
        let lock = env.lock(&Path::new(DIR).join("LOCK")).unwrap();
        let database = Database::new(Sequence::ZERO, version.edit_number(), Arc::default(), lock);
        let interval = Arc::new(IntervalSync::new(env.clone(), wal.wal.clone(), Arc::new(database)));
        let worker = env.start("sync", interval.clone()).unwrap();
        interval.set_worker(worker.clone());
        let threads = [("a", 5), ("b", 1)].map(|(key, milliseconds)| {
            let (wal, interval) = (wal.clone(), interval.clone());
            thread::spawn(move || {
                wal.append(key).unwrap();
                interval.sync_within(Duration::from_millis(milliseconds));
                while !wal.env.hook().is_durable("wal", key) {
                    thread::yield_now();
                }
            })
        });
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        worker.stop();
    });
}

/// A WAL, and what was appended to it.
struct Watched {
    env: Arc<WatchedEnv>,
    wal: Arc<Wal>,
    /// Appending takes one thread at a time, which knows the next sequence.
    next: Mutex<Sequence>,
}

impl Watched {
    fn new() -> Arc<Self> {
        let watched = watched_env();
        let env: Arc<dyn Env> = watched.clone();
        env.create_dir(Path::new(DIR), step::DATABASE_CREATE).unwrap();
        Arc::new(Self { wal: Arc::new(new_wal(&env)), env: watched, next: Mutex::new(Rank::Test, Sequence(1)) })
    }

    fn append(&self, key: &str) -> Result<Position> {
        let mut next = self.next.lock();
        let mut group = Group::new();
        group.push_entry(TreeId::DEFAULT, EntryKind::Put, key.as_bytes(), b"");
        let end = self.wal.append(&mut group, *next)?;
        *next = next.next();
        Ok(end)
    }

    fn append_and_sync(&self, key: &str) -> Result<()> {
        self.wal.sync_to(self.append(key)?)
    }

    /// Fails only if the WAL was closed.
    fn rotate(&self) {
        let next = self.next.lock();
        if let Err(error) = self.wal.rotate(*next, EditNumber(1)) {
            assert!(matches!(error, Error::Stopped { .. }), "{error}");
        }
    }
}
