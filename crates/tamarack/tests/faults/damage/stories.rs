//! What these tests found, each as a small test that tells the story.

use tamarack::Error;
use tamarack_env::SimEnv;

use super::scene::{DIR, Scene, options};
use crate::message::path_of;

fn open_error(env: &SimEnv) -> Error {
    options(env).open(DIR).expect_err("the damage is noticed")
}

/// Closing a database notes in the manifest where the WAL ends, but opening it did not look there.
/// So a WAL that had lost its last records was taken for a torn one, or even for whole, and what
/// had been durable was gone without a word.
#[test]
fn a_closed_wal_has_a_known_end() {
    let scene = Scene::closed();
    let env = scene.machine();
    let last = scene.records.last().expect("there are several");
    env.truncate(&last.path, last.start).expect("it is there");
    let error = open_error(&env);
    assert!(matches!(&error, Error::Corruption { path, .. } if path == &last.path), "{error}");
}

/// A segment without a whole header and without whole records was taken for one that was being made
/// when the machine stopped, and removed. But it may be anything: here a table. Only zeros can be
/// left of a segment in which nothing ever stood.
#[test]
fn what_is_no_segment_is_not_removed_as_an_unborn_one() {
    let scene = Scene::killed();
    let (env, last) = (scene.machine(), scene.last_segment());
    let mut files = scene.files.iter().map(|(path, _)| path);
    let table = files.find(|path| path.extension().is_some_and(|kind| kind == "sst")).expect("there are several");
    env.swap(last, table).expect("both are there");
    let before = env.identity();
    let error = open_error(&env);
    assert_eq!(path_of(&error), Some(last), "{error}");
    assert_eq!(env.identity(), before, "nothing is changed");
}

/// A flipped bit made the segment's version a high number, and the user was told to look for a
/// newer program.
#[test]
fn a_damaged_version_is_damage() {
    let scene = Scene::killed();
    let env = scene.machine();
    env.flip_bit(scene.last_segment(), 8, 4).expect("it is there");
    let error = open_error(&env);
    assert!(matches!(error, Error::Corruption { .. }), "{error}");
}
