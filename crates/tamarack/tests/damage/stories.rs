//! What these tests found, each as a small test that tells the story.

use tamarack::Error;
use tamarack_env::SimEnv;

use crate::message::path_of;
use crate::scene::{DIR, Scene, options};

/// The last segment of the log.
const LAST: &str = "/db/0000000006.log";

fn open_error(env: &SimEnv) -> Error {
    options(env).open(DIR).expect_err("the damage is noticed")
}

/// Closing a database notes in the manifest where the log ends, but opening it did not look there. So a log that had lost its last records
/// was taken for a torn one, or even for whole, and what had been durable was gone without a word.
#[test]
fn a_closed_log_has_a_known_end() {
    let scene = Scene::closed();
    let env = scene.machine();
    let last = scene.records.last().expect("there are several");
    env.truncate(LAST, last.start).expect("it is there");
    let error = open_error(&env);
    assert!(matches!(&error, Error::Corruption { path, .. } if path == &last.path), "{error}");
}

/// A segment without a whole header and without whole records was taken for one that was being made when the machine stopped, and removed.
/// But it may be anything: here a table. Only zeros can be left of a segment in which nothing ever stood.
#[test]
fn what_is_no_segment_is_not_removed_as_an_unborn_one() {
    let scene = Scene::killed();
    let env = scene.machine();
    env.swap(LAST, "/db/0000000001.table").expect("both are there");
    let before = env.identity();
    let error = open_error(&env);
    assert_eq!(path_of(&error).and_then(|path| path.to_str()), Some(LAST), "{error}");
    assert_eq!(env.identity(), before, "nothing is changed");
}

/// A flipped bit made the segment's version a high number, and the user was told to look for a newer program.
#[test]
fn a_damaged_version_is_damage() {
    let env = Scene::killed().machine();
    env.flip_bit(LAST, 8, 4).expect("it is there");
    let error = open_error(&env);
    assert!(matches!(error, Error::Corruption { .. }), "{error}");
}
