//! Every truncation and every flipped bit of a small database's manifest and `CURRENT`.

use std::path::Path;
use std::sync::Arc;

use tamarack_env::{Env, Random, SimEnv};

use super::model::{Model, no_files};
use crate::error::Error;
use crate::format::checksum::FileKind;
use crate::format::edit::{Change, Edit};
use crate::format::names::FileName;
use crate::format::record::{FileHeader, RECORD_HEAD_BYTES};
use crate::journal::Tail;
use crate::journal::{Growth, Record, RecordScan};
use crate::step;
use crate::tree::manifest::{Manifest, Recovered};

pub(super) fn dir() -> &'static Path {
    Path::new("/db")
}

/// A small database and the states it went through, and the records of its manifest.
pub(super) struct Small {
    pub(super) env: SimEnv,
    pub(super) states: Vec<Edit>,
    pub(super) records: Vec<Record>,
}

pub(super) fn small() -> Small {
    let sim = SimEnv::new(1);
    let env: Arc<dyn Env> = Arc::new(sim.clone());
    env.create_dir(dir(), step::DATABASE_CREATE).expect("no faults");
    let manifest = Manifest::create(&env, dir(), no_files()).expect("no faults");
    let (mut model, random) = (Model::new(), Random::new(11));
    let mut states = vec![manifest.version().state_edit()];
    for number in 0..7 {
        let changes = if number == 6 { vec![Change::WalEnd { position: 77 }] } else { model.change(&random) };
        let version = manifest.commit(changes).expect("no faults");
        states.push(version.state_edit());
    }
    let bytes = manifest_bytes(&sim);
    let header = FileHeader::decode(&bytes, FileKind::Manifest, 1).expect("no faults");
    let records = RecordScan::of(&bytes, header.place(), Growth::Keeps).records;
    Small { env: sim, states, records }
}

impl Small {
    /// From where to where the padding of each edit's record goes, the base's included.
    fn paddings(&self) -> Vec<std::ops::RangeInclusive<usize>> {
        let edits = self.records.iter().filter(|record| !record.head.is_mark());
        let payload_end =
            |record: &Record| record.offset as usize + RECORD_HEAD_BYTES + record.head.payload_bytes as usize;
        edits.map(|record| payload_end(record)..=record.end() as usize).collect()
    }
}

fn manifest_bytes(env: &SimEnv) -> Vec<u8> {
    env.content(FileName::Manifest(1).path(dir())).expect("it is there")
}

fn recover(env: &SimEnv, tail: Tail) -> Result<Option<Recovered>, Error> {
    let env: Arc<dyn Env> = Arc::new(env.clone());
    Manifest::recover(&env, dir(), tail, no_files())
}

fn assert_names(error: &Error, name: FileName) {
    match error {
        Error::Corruption { path, .. } => assert_eq!(*path, name.path(dir()), "{error}"),
        _ => panic!("{error} is no corruption"),
    }
}

/// Shows that a manifest which ends anywhere opens with the last edit that is whole, and says so
/// unless it ends right after one; and that nothing is dropped where that is not wanted. Without
/// its base it is an error.
#[test]
fn every_truncation_leaves_a_prefix_or_an_error() {
    let small = small();
    let paddings = small.paddings();
    assert_eq!(paddings.len(), small.states.len());
    for length in 0..manifest_bytes(&small.env).len() {
        for tail in [Tail::MayBeTorn, Tail::Strict] {
            let env = small.env.process_image();
            env.truncate(FileName::Manifest(1).path(dir()), length as u64).expect("it is there");
            let found = recover(&env, tail);
            let Some(last) = paddings.iter().rposition(|padding| *padding.start() <= length) else {
                assert_names(&found.expect_err("the base is damaged"), FileName::Manifest(1));
                continue;
            };
            // Each edit ends before the mark that follows it; the base has no mark.
            let mark_end = paddings[last].end() + RECORD_HEAD_BYTES;
            let is_clean = paddings[last].contains(&length) || last > 0 && length == mark_end;
            if tail == Tail::Strict && !is_clean {
                assert_names(&found.expect_err("the tail is torn"), FileName::Manifest(1));
                assert_eq!(manifest_bytes(&env).len(), length, "and nothing was changed");
                continue;
            }
            let Recovered { manifest, dropped } = found.expect("the rest is whole").expect("it is there");
            assert_eq!(manifest.version().state_edit(), small.states[last], "cut at {length}");
            assert_eq!(dropped.is_none(), is_clean, "cut at {length}");
            if let Some(dropped) = dropped {
                assert_eq!(dropped.offset + dropped.bytes, length as u64);
                assert_eq!(manifest_bytes(&env).len() as u64, dropped.offset);
            }
            assert_eq!(recover(&env, Tail::Strict).expect("it is clean now").expect("it is there").dropped, None);
        }
    }
}

/// Shows that a flipped bit is an error that names the manifest, also in the last edit; in the mark
/// after it nothing is lost.
#[test]
fn every_flipped_bit_is_an_error_or_changes_nothing() {
    let small = small();
    let length = manifest_bytes(&small.env).len() as u64;
    let mark_start = length - RECORD_HEAD_BYTES as u64;
    let all = small.states.last().expect("there are states");
    for bit in 0..length * 8 {
        let env = small.env.process_image();
        env.flip_bit(FileName::Manifest(1).path(dir()), 0, bit).expect("it is there");
        match recover(&env, Tail::MayBeTorn) {
            Ok(found) => {
                assert!(bit / 8 >= mark_start, "bit {bit} was not noticed");
                let Recovered { manifest, dropped } = found.expect("it is there");
                assert_eq!(manifest.version().state_edit(), *all);
                assert_eq!(dropped.map(|dropped| dropped.offset), Some(mark_start));
            }
            Err(error) => assert_names(&error, FileName::Manifest(1)),
        }
    }
}

/// Shows the same for `CURRENT`, where every flipped bit and every truncation is an error.
#[test]
fn a_damaged_current_is_an_error() {
    let small = small();
    let path = FileName::Current.path(dir());
    let length = small.env.content(&path).expect("it is there").len() as u64;
    for bit in 0..length * 8 {
        let env = small.env.process_image();
        env.flip_bit(&path, 0, bit).expect("it is there");
        assert_names(&recover(&env, Tail::MayBeTorn).expect_err("it is damaged"), FileName::Current);
    }
    for cut in 0..length {
        let env = small.env.process_image();
        env.truncate(&path, cut).expect("it is there");
        assert_names(&recover(&env, Tail::MayBeTorn).expect_err("it is damaged"), FileName::Current);
    }
}

/// Shows that files which exchange their content, and a manifest that is gone, are noticed.
#[test]
fn files_in_the_wrong_place_are_an_error() {
    let small = small();
    let (current, manifest) = (FileName::Current.path(dir()), FileName::Manifest(1).path(dir()));
    let env = small.env.process_image();
    env.swap(&current, &manifest).expect("they are there");
    assert_names(&recover(&env, Tail::MayBeTorn).expect_err("it is damaged"), FileName::Current);
    let env = small.env.process_image();
    env.remove(&manifest, step::MANIFEST_REMOVE).expect("it is there");
    assert_names(&recover(&env, Tail::MayBeTorn).expect_err("it is gone"), FileName::Manifest(1));
}
