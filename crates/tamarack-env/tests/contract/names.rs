//! Names and directories: what creates, replaces, lists and removes them, and the errors for what
//! is taken or missing.

use std::io::ErrorKind;
use std::path::Path;

use tamarack_env::{Access, is_not_regular, is_unlinkable};

use crate::{Place, STEP, bytes_of};

pub(crate) fn create_makes_an_empty_file(place: &Place) {
    let file = place.env.create(&place.path("new"), STEP).unwrap();
    assert!(file.is_empty().unwrap());
    assert_eq!(place.env.list(&place.dir).unwrap(), ["new"]);
    file.write_all_at(b"both ways", 0, STEP).unwrap();
    assert_eq!(bytes_of(&*file), b"both ways");
}

/// Neither a file nor a directory gives its name away, and the file keeps its bytes.
pub(crate) fn create_refuses_a_taken_name(place: &Place) {
    let file = place.create("file", b"kept");
    place.env.create_dir(&place.path("dir"), STEP).unwrap();
    for name in ["file", "dir"] {
        assert_eq!(place.env.create(&place.path(name), STEP).unwrap_err().kind(), ErrorKind::AlreadyExists, "{name}");
        assert_eq!(
            place.env.create_dir(&place.path(name), STEP).unwrap_err().kind(),
            ErrorKind::AlreadyExists,
            "{name}"
        );
    }
    assert_eq!(bytes_of(&*file), b"kept");
}

pub(crate) fn what_is_missing_is_not_found(place: &Place) {
    let (env, missing, inside) = (&place.env, &place.path("missing"), &place.path("missing/inside"));
    for access in [Access::Read, Access::ReadRandom, Access::ReadWrite, Access::ReadDirect] {
        assert_eq!(env.open(missing, access).unwrap_err().kind(), ErrorKind::NotFound, "{access:?}");
    }
    assert_eq!(env.remove(missing, STEP).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(env.rename(missing, &place.path("other"), STEP).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(env.list(missing).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(env.sync_dir(missing, STEP).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(env.create(inside, STEP).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(env.create_dir(inside, STEP).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(env.lock(inside).unwrap_err().kind(), ErrorKind::NotFound);
    assert!(env.list(&place.dir).unwrap().is_empty(), "none of these created anything");
}

/// Directories are listed as files are; what lies in them is not. Neighbours whose names begin
/// alike are kept apart.
pub(crate) fn list_is_sorted_and_shows_one_directory(place: &Place) {
    for dir in ["m", "m-2"] {
        place.env.create_dir(&place.path(dir), STEP).unwrap();
        place.create(&format!("{dir}/inside-{dir}"), b"");
    }
    for name in ["z", "a", "B", "10", "9"] {
        place.create(name, b"");
    }
    assert_eq!(place.env.list(&place.dir).unwrap(), ["10", "9", "B", "a", "m", "m-2", "z"]);
    assert_eq!(place.env.list(&place.path("m")).unwrap(), ["inside-m"]);
}

/// The name leads to the renamed file; whoever had the replaced one open still reads it.
pub(crate) fn rename_replaces(place: &Place) {
    place.create("new", b"new bytes");
    let replaced = place.create("name", b"old");
    place.env.rename(&place.path("new"), &place.path("name"), STEP).unwrap();
    assert_eq!(place.env.list(&place.dir).unwrap(), ["name"]);
    assert_eq!(bytes_of(&*place.env.open(&place.path("name"), Access::Read).unwrap()), b"new bytes");
    assert_eq!(bytes_of(&*replaced), b"old");

    place.env.rename(&place.path("name"), &place.path("free"), STEP).unwrap();
    assert_eq!(place.env.list(&place.dir).unwrap(), ["free"]);
}

/// The name is free at once, and a new file under it has nothing to do with the removed one.
pub(crate) fn removed_files_stay_readable(place: &Place) {
    let removed = place.create("name", b"removed");
    let reader = place.env.open(&place.path("name"), Access::Read).unwrap();
    place.env.remove(&place.path("name"), STEP).unwrap();
    assert!(place.env.list(&place.dir).unwrap().is_empty());
    let other = place.create("name", b"other");
    removed.write_all_at(b"R", 0, STEP).unwrap();
    assert_eq!(bytes_of(&*reader), b"Removed");
    assert_eq!(bytes_of(&*other), b"other");
}

/// Both names are the file's: written under one, read under the other, there until both are gone.
pub(crate) fn a_link_is_another_name(place: &Place) {
    let (here, there) = (place.path("here"), place.path("dir/there"));
    place.env.create_dir(&place.path("dir"), STEP).unwrap();
    let file = place.create("here", b"bytes");
    place.env.hard_link(&here, &there, STEP).unwrap();
    assert_eq!(place.env.list(&place.path("dir")).unwrap(), ["there"]);
    let other = place.env.open(&there, Access::ReadWrite).unwrap();
    other.write_all_at(b"B", 0, STEP).unwrap();
    assert_eq!(bytes_of(&*file), b"Bytes");
    other.sync(STEP).unwrap();
    place.env.sync_dir(&place.path("dir"), STEP).unwrap();

    place.env.remove(&here, STEP).unwrap();
    assert_eq!(place.env.open(&here, Access::Read).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(bytes_of(&*place.env.open(&there, Access::Read).unwrap()), b"Bytes");
    // A rename moves the one name and not the other.
    place.env.hard_link(&there, &here, STEP).unwrap();
    place.env.rename(&here, &place.path("elsewhere"), STEP).unwrap();
    assert_eq!(place.env.list(&place.dir).unwrap(), ["dir", "elsewhere"]);
    place.env.remove(&there, STEP).unwrap();
    assert_eq!(bytes_of(&*place.env.open(&place.path("elsewhere"), Access::Read).unwrap()), b"Bytes");
}

pub(crate) fn a_link_needs_a_free_name_and_a_file(place: &Place) {
    place.env.create_dir(&place.path("dir"), STEP).unwrap();
    place.create("file", b"kept");
    place.create("dir/taken", b"kept as well");
    let link = |from: &str, to: &str| place.env.hard_link(&place.path(from), &place.path(to), STEP).unwrap_err();
    assert_eq!(link("file", "dir/taken").kind(), ErrorKind::AlreadyExists);
    assert_eq!(link("missing", "dir/name").kind(), ErrorKind::NotFound);
    assert_eq!(link("file", "missing/name").kind(), ErrorKind::NotFound);
    assert!(!is_unlinkable(&link("file", "dir/taken")), "a copy would not help either");
    assert_eq!(bytes_of(&*place.env.open(&place.path("dir/taken"), Access::Read).unwrap()), b"kept as well");
    assert_eq!(place.env.list(&place.path("dir")).unwrap(), ["taken"]);
}

/// What is written through one handle is read through all, at once.
pub(crate) fn handles_share_one_file(place: &Place) {
    let creator = place.create("file", b"first");
    let writer = place.env.open(&place.path("file"), Access::ReadWrite).unwrap();
    let reader = place.env.open(&place.path("./file"), Access::Read).unwrap();
    writer.write_all_at(b"second", 5, STEP).unwrap();
    assert_eq!(bytes_of(&*reader), b"firstsecond");
    creator.set_len(3, STEP).unwrap();
    assert_eq!(bytes_of(&*reader), b"fir");
    writer.sync(STEP).unwrap();
    let direct = place.env.open(Path::new(&place.path("file")), Access::ReadDirect).unwrap();
    assert_eq!(bytes_of(&*direct), b"fir");
}

pub(crate) fn sync_dir_accepts_a_directory(place: &Place) {
    place.create("file", b"");
    place.env.sync_dir(&place.dir, STEP).unwrap();
    assert!(place.env.sync_dir(&place.path("file"), STEP).is_err(), "a file is no directory");
}

pub(crate) fn a_directory_is_not_opened(place: &Place) {
    place.env.create_dir(&place.path("dir"), STEP).unwrap();
    for access in [Access::Read, Access::ReadRandom, Access::ReadWrite, Access::ReadDirect] {
        let error = place.env.open(&place.path("dir"), access).unwrap_err();
        assert!(is_not_regular(&error), "{access:?}: {error}");
    }
}

/// There is no more free than there is.
pub(crate) fn space_is_what_it_says(place: &Place) {
    if let Some(space) = place.env.space(&place.dir).unwrap() {
        assert!(space.free_bytes <= space.total_bytes && space.total_bytes > 0, "{space:?}");
    }
}
