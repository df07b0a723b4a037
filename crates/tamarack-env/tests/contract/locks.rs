//! Lock files: one holder at a time, or many that share it; within a process too.

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

/// Many share a lock; who wants it alone gets it when the last of them has let go, and keeps them
/// away then.
pub(crate) fn shares_exclude_only_those_who_want_it_alone(place: &Place) {
    let path = place.path("LOCK");
    drop(place.env.lock(&path).unwrap());
    let mut shares: Vec<_> = (0..3).map(|_| place.env.lock_shared(&path).unwrap()).collect();
    while shares.pop().is_some() {
        let alone = place.env.lock(&path);
        assert_eq!(
            alone.as_ref().err().map(std::io::Error::kind),
            (!shares.is_empty()).then_some(ErrorKind::WouldBlock)
        );
    }
    let alone = place.env.lock(&path).unwrap();
    assert_eq!(place.env.lock_shared(&path).unwrap_err().kind(), ErrorKind::WouldBlock);
    drop(alone);
    let _share = place.env.lock_shared(&path).unwrap();
    let _another = place.env.lock_shared(&path).unwrap();
}

/// It makes no file, and leaves one that is there as it is.
pub(crate) fn sharing_changes_nothing(place: &Place) {
    assert_eq!(place.env.lock_shared(&place.path("LOCK")).unwrap_err().kind(), ErrorKind::NotFound);
    assert!(place.env.list(&place.dir).unwrap().is_empty());
    let file = place.create("one", b"kept");
    let _share = place.env.lock_shared(&place.path("one")).unwrap();
    assert_eq!(bytes_of(&*file), b"kept");
}
