//! Every fault of the simulator is provoked and seen, each beside a control that must not show it.

use super::*;

const W: Step = Step("test: write");
const S: Step = Step("test: sync");
const D: Step = Step("test: sync directory");
const C: Step = Step("test: create");

/// A file `f` whose name is durable and that holds `bytes`, synced.
fn with_durable_file(seed: u64, bytes: &[u8]) -> (SimEnv, Arc<dyn File>) {
    let env = SimEnv::new(seed);
    let file = env.create(Path::new("f"), C).unwrap();
    file.write_all_at(bytes, 0, W).unwrap();
    file.sync(S).unwrap();
    env.sync_dir(Path::new("/"), D).unwrap();
    (env, file)
}

/// Two hundred crashes of all kinds, for a disk with so many unsynced changes.
fn many_crashes(unsynced: usize) -> impl Iterator<Item = Crash> {
    (0..200).map(move |seed| Crash::draw(seed, unsynced))
}

#[test]
fn an_unsynced_write_is_lost_in_some_image_and_a_synced_one_in_none() {
    let (env, file) = with_durable_file(1, b"old");
    file.write_all_at(b"new", 0, W).unwrap();
    let contents = |env: &SimEnv| -> Vec<Vec<u8>> {
        many_crashes(env.unsynced_changes()).map(|crash| env.image(crash).content("f").unwrap()).collect()
    };
    let unsynced = contents(&env);
    assert!(unsynced.contains(&b"old".to_vec()) && unsynced.contains(&b"new".to_vec()));
    file.sync(S).unwrap();
    assert!(contents(&env).iter().all(|content| content == b"new"));
}
