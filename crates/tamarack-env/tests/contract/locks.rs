//! Lock files: one holder at a time, within a process too.

use std::io::ErrorKind;

use crate::{Place, bytes_of};

pub(crate) fn a_lock_excludes_every_other(place: &Place) {
    let held = place.env.lock(&place.path("LOCK")).unwrap();
    for _ in 0..2 {
        assert_eq!(place.env.lock(&place.path("LOCK")).unwrap_err().kind(), ErrorKind::WouldBlock);
    }
    drop(held);
}

/// Also when it was refused in between; and the file is there afterwards, which means nothing.
pub(crate) fn a_lock_ends_with_its_value(place: &Place) {
    for _ in 0..3 {
        let _held = place.env.lock(&place.path("LOCK")).unwrap();
        assert!(place.env.lock(&place.path("LOCK")).is_err());
    }
    assert_eq!(place.env.list(&place.dir).unwrap(), ["LOCK"]);
}

/// A file that was there before can be locked, and keeps its bytes.
pub(crate) fn locks_of_other_files_are_free(place: &Place) {
    let file = place.create("one", b"kept");
    let _one = place.env.lock(&place.path("one")).unwrap();
    let _two = place.env.lock(&place.path("two")).unwrap();
    assert_eq!(bytes_of(&*file), b"kept");
}
