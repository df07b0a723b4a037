//! The log alone: who is told that something is durable, and when. And the syncs that deadlines cause.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tamarack::internals::Database;
use tamarack::internals::IntervalSync;
use tamarack::internals::Log;
use tamarack::internals::TableFiles;
use tamarack::internals::TableStorage;
use tamarack::internals::Version;
use tamarack::step;
use tamarack::{Error, Result};
use tamarack_env::Env;
use tamarack_env::sync::{Mutex, thread};
use tamarack_format::entry::{EntryKind, Sequence};
use tamarack_format::meta::{EditNumber, TreeId};
use tamarack_format::record::Group;

use crate::commits::new_log;
use crate::explore;
use crate::watched::WatchedEnv;

const DIR: &str = "/db";

/// Threads that append and then ask for a sync share syncs; each returns only when its own bytes are durable.
#[test]
fn syncs_are_shared() {
    explore(2000, || {
        let log = Watched::new();
        let threads = ["a", "b", "c"].map(|key| {
            let log = log.clone();
            thread::spawn(move || {
                log.append_and_sync(key).unwrap();
                assert!(log.env.is_durable("wal", key), "{key} is not durable yet");
            })
        });
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

/// The same while the log goes on in new segments: what stands in older ones is durable first.
#[test]
fn syncs_reach_older_segments() {
    explore(2000, || {
        let log = Watched::new();
        let threads = ["a", "b"].map(|key| {
            let log = log.clone();
            thread::spawn(move || {
                log.append_and_sync(key).unwrap();
                assert!(log.env.is_durable("wal", key), "{key} is not durable yet");
            })
        });
        log.rotate();
        log.append_and_sync("c").unwrap();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(log.env.unsynced("wal"), Vec::<std::path::PathBuf>::new());
    });
}

/// A failed sync is told to all who waited for it, and to all who come later. Nobody is told that something was durable that was not.
#[test]
fn a_failed_sync_is_told_to_all() {
    explore(2000, || {
        let log = Watched::new();
        log.env.fail(step::LOG_SYNC, 2);
        let threads = ["a", "b", "c"].map(|key| {
            let log = log.clone();
            thread::spawn(move || match log.append_and_sync(key) {
                Ok(()) => assert!(log.env.is_durable("wal", key), "{key} is not durable yet"),
                Err(error) => assert!(matches!(error, Error::Stopped { .. }), "{error}"),
            })
        });
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

/// A log that is closed while others append and rotate is durable as a whole, up to the end that it tells.
#[test]
fn a_closed_log_is_durable() {
    explore(2000, || {
        let log = Watched::new();
        let writer = {
            let log = log.clone();
            thread::spawn(move || {
                // Until it is closed.
                let _ = log.append("a");
                log.rotate();
                let _ = log.append("b");
            })
        };
        let end = log.log.close().unwrap();
        assert_eq!(log.env.unsynced("wal"), Vec::<std::path::PathBuf>::new());
        writer.join().unwrap();
        assert_eq!(log.log.end(), end, "written after it was closed");
    });
}

/// Whatever asked for a sync within some time is durable some time, although no call waits for it.
#[test]
fn deadlines_are_kept() {
    explore(2000, || {
        let log = Watched::new();
        let env: Arc<dyn Env> = log.env.clone();
        let files = TableFiles::new(TableStorage::buffered(env.clone(), 0), Path::new(DIR));
        let version = Version::new(7, files);
        let lock = env.lock(&Path::new(DIR).join("LOCK")).unwrap();
        let database = Database::new(Sequence::ZERO, version.edit_number(), Arc::default(), lock);
        let interval = Arc::new(IntervalSync::new(env.clone(), log.log.clone(), Arc::new(database)));
        let worker = env.start("sync", interval.clone()).unwrap();
        interval.set_worker(worker.clone());
        let threads = [("a", 5), ("b", 1)].map(|(key, milliseconds)| {
            let (log, interval) = (log.clone(), interval.clone());
            thread::spawn(move || {
                log.append(key).unwrap();
                interval.sync_within(Duration::from_millis(milliseconds));
                while !log.env.is_durable("wal", key) {
                    thread::yield_now();
                }
            })
        });
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        worker.stop();
    });
}

/// A log, and what was appended to it.
struct Watched {
    env: Arc<WatchedEnv>,
    log: Arc<Log>,
    /// Appending takes one thread at a time, which knows the next sequence.
    next: Mutex<Sequence>,
}

impl Watched {
    fn new() -> Arc<Self> {
        let watched = WatchedEnv::new();
        let env: Arc<dyn Env> = watched.clone();
        env.create_dir(Path::new(DIR), step::DATABASE_CREATE).unwrap();
        Arc::new(Self { log: Arc::new(new_log(&env)), env: watched, next: Mutex::new(Sequence(1)) })
    }

    fn append(&self, key: &str) -> Result<tamarack::internals::Position> {
        let mut next = self.next.lock();
        let mut group = Group::new();
        group.push_entry(TreeId::DEFAULT, EntryKind::Put, key.as_bytes(), b"");
        let end = self.log.append(&mut group, *next)?;
        *next = next.next();
        Ok(end)
    }

    fn append_and_sync(&self, key: &str) -> Result<()> {
        self.log.sync_to(self.append(key)?)
    }

    /// Fails only if the log was closed.
    fn rotate(&self) {
        let next = self.next.lock();
        if let Err(error) = self.log.rotate(*next, EditNumber(1)) {
            assert!(matches!(error, Error::Stopped { .. }), "{error}");
        }
    }
}
