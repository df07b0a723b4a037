//! Files with the names of a database's files that it has not made.

use std::path::Path;
use std::sync::Arc;

use tamarack::{AdvancedOptions, Options, Result};
use tamarack_env::{Env, SimEnv, Step};

const STEP: Step = Step("test: any");

fn options(sim: &SimEnv) -> Options {
    Options::new().advanced(AdvancedOptions::new().env(Arc::new(sim.clone())).memtable_bytes(4096))
}

/// Files whose numbers the database cannot have given are ignored, stay, and are reported; one that
/// a crash may have left is removed. The numbers of new tables go on where they were: none is used
/// up, and none can wrap.
#[test]
fn absurd_numbers_are_left_alone() -> Result<()> {
    let sim = SimEnv::new(1);
    let dir = Path::new("/db");
    let put = |from: u64| -> Result<()> {
        let db = options(&sim).open(dir)?;
        (from..from + 200).try_for_each(|key| db.put(format!("{key:06}"), [b'v'; 100]))?;
        db.compact()?;
        db.close()
    };
    put(0)?;
    let foreign = ["18446744073709551614.sst", "18446744073709551615.wal", "281474976710655.sst", "9999999999999.sst"];
    for name in foreign.iter().chain(&["0000999999.sst"]) {
        sim.create(&dir.join(name), STEP).expect("a new name");
    }
    let report = options(&sim).verify(dir, &mut |_, _| ())?;
    assert!(report.is_ok(), "{:?}", report.problems);
    let names = |paths: &[std::path::PathBuf]| -> Vec<String> {
        paths.iter().map(|path| path.file_name().expect("a name").to_string_lossy().into_owned()).collect()
    };
    let mut expected = foreign.map(str::to_owned).to_vec();
    expected.sort();
    assert_eq!(names(&report.foreign), expected);
    assert_eq!(names(&report.unnamed), ["0000999999.sst"]);

    put(200)?;
    let listed: Vec<_> =
        sim.list(dir).expect("it is there").iter().map(|name| name.to_string_lossy().into_owned()).collect();
    assert!(foreign.iter().all(|name| listed.iter().any(|other| other == name)), "{listed:?}");
    assert!(!listed.iter().any(|name| name == "0000999999.sst"), "{listed:?}");
    let own = listed.iter().filter(|name| name.ends_with(".sst") && !foreign.contains(&name.as_str()));
    let numbers: Vec<u64> = own.map(|name| name[..name.len() - 4].parse().expect("a number")).collect();
    assert!(numbers.iter().all(|number| (1_000_000..1_001_000).contains(number)), "after the orphan: {numbers:?}");
    let db = options(&sim).open(dir)?;
    assert_eq!(db.scan(..).count(), 400);
    Ok(())
}
