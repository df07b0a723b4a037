//! What only the operating system's files can show.

#![expect(clippy::disallowed_methods, reason = "others change the directory, too")]

use std::io::ErrorKind;
use std::sync::{Arc, OnceLock};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::getpriority_process;
use tamarack_env::{Access, Event, Progress, Work, is_not_regular};

use crate::{Place, STEP};

/// Opening a FIFO would wait for its other end; a device that never ends could be read for ever.
pub(crate) fn what_is_not_regular_is_not_opened(place: &Place) {
    let (fifo, device) = (place.path("fifo"), place.path("device"));
    mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    std::os::unix::fs::symlink("/dev/zero", &device).unwrap();
    for path in [fifo, device] {
        for access in [Access::Read, Access::ReadRandom, Access::ReadWrite, Access::ReadDirect] {
            let error = place.env.open(&path, access).unwrap_err();
            assert!(is_not_regular(&error), "{} {access:?}: {error}", path.display());
        }
        for lock in [place.env.lock(&path), place.env.lock_shared(&path)] {
            assert!(is_not_regular(&lock.unwrap_err()), "{}", path.display());
        }
    }
}

/// A directory that takes the place of a synced one is synced instead of it: its descriptor is not
/// that of the old one.
pub(crate) fn sync_dir_follows_the_name(place: &Place) {
    let dir = place.path("dir");
    for round in 0..10 {
        place.env.create_dir(&dir, STEP).unwrap();
        place.env.sync_dir(&dir, STEP).unwrap();
        std::fs::rename(&dir, place.path(format!("old-{round}"))).unwrap();
        assert_eq!(place.env.sync_dir(&dir, STEP).unwrap_err().kind(), ErrorKind::NotFound);
    }
}

/// Keeps the niceness of the thread that calls it.
#[derive(Default)]
struct Look {
    niceness: OnceLock<i32>,
    looked: Event,
}

impl Work for Look {
    fn step(&self) -> Progress {
        self.niceness.get_or_init(|| getpriority_process(None).unwrap());
        self.looked.notify();
        Progress::Done
    }
}

/// A worker's thread has a lower priority than the thread that starts it, which keeps its own.
pub(crate) fn workers_give_way(place: &Place) {
    let (before, look) = (getpriority_process(None).unwrap(), Arc::new(Look::default()));
    let worker = place.env.start("look", look.clone()).unwrap();
    assert!(place.env.wait(&look.looked, None, &mut || look.niceness.get().is_some()));
    worker.stop();
    assert_eq!(look.niceness.get(), Some(&(before + 5).min(19)));
    assert_eq!(getpriority_process(None).unwrap(), before);
}
