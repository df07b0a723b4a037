//! Calls that must work when the process may open no more files. The only test of its process,
//! since the limit is the process's.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tamarack_env::{Access, OsEnv, Step, TempDir};

const STEP: Step = Step("descriptors: any");

/// A directory that was synced once can be synced again; a file cannot be opened, and the error
/// says why.
#[test]
fn a_directory_is_synced_without_a_free_descriptor() {
    let (env, scratch) = (OsEnv::new(), TempDir::new().unwrap());
    let path = scratch.path().join("file");
    env.create(&path, STEP).unwrap();
    env.sync_dir(scratch.path(), STEP).unwrap();

    let limit = Rlimit { current: Some(64), ..getrlimit(Resource::Nofile) };
    setrlimit(Resource::Nofile, limit).unwrap();
    assert_eq!(env.open_files_max(), Some(64));
    let open = || env.open(&path, Access::Read);
    let mut files = Vec::new();
    let error: io::Error = loop {
        match open() {
            Ok(file) => files.push(file),
            Err(error) => break error,
        }
        assert!(files.len() < 64, "the limit has no effect");
    };
    assert!(tamarack_env::is_out_of_descriptors(&error), "{error}");

    env.remove(&path, STEP).unwrap();
    env.sync_dir(scratch.path(), STEP).unwrap();
    drop(files);
    env.create(&path, STEP).unwrap();
}
