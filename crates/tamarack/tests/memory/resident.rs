//! The resident memory of processes, from the outside: scenes of the example `resident_memory`,
//! each in a process of its own, which is this test once more with a variable that names the scene.
//! What the allocator keeps, stacks, and the program itself count here, as they do for a user.
//!
//! `cargo run --release -p tamarack --example resident_memory` runs all scenes, for longer.

#[path = "../../examples/resident_memory/measure.rs"]
mod measure;
#[path = "../../examples/resident_memory/scenes.rs"]
mod scenes;

use std::process::Command;

use measure::measure;
use scenes::SCENES;

/// Names the scene that this process is to run.
const SCENE: &str = "TAMARACK_RESIDENT_SCENE";

/// Those that exceeded their bound most before large buffers gave back their pages, large reads and
/// writes took turns, scans released large blocks and rested, and the allocator was trimmed; and
/// one of each other kind.
const CHOSEN: [&str; 10] = [
    "huge values mixed",
    "huge values direct I/O",
    "huge values tiering",
    "64 threads huge values",
    "values of all sizes 256",
    "open iterators tiering",
    "fewer open iterators",
    "idle iterators",
    "deletes only",
    "tiny entries",
];

#[test]
fn resident_memory_stays_within_its_bound() {
    if let Ok(name) = std::env::var(SCENE) {
        scenes::run(&name, 1.5).expect("the scene has no errors");
        return;
    }
    let _alone = super::alone();
    for scene in SCENES.iter().filter(|scene| CHOSEN.contains(&scene.name)) {
        let program = std::env::current_exe().expect("this program has a path");
        let arguments = ["resident::resident_memory_stays_within_its_bound", "--exact", "--nocapture"];
        let measured = measure(Command::new(program).args(arguments).env(SCENE, scene.name));
        let mib = |bytes: u64| bytes >> 20;
        let (account, resident_max) = (mib(measured.account_max), mib(measured.resident_max));
        let (resident, operations) = (mib(measured.resident), measured.operations);
        let what = format!(
            "{}: {resident_max} MiB resident at most, {resident} at the end; {account} in the account at most; \
             budget {}, bound {}; {operations} operations",
            scene.name,
            scene.budget_mib,
            mib(scene.bound_bytes()),
        );
        println!("{what}");
        assert!(operations > 10 && measured.account > 0, "{what}");
        assert!(measured.is_within(scene), "{what}");
    }
}
