//! Every fault of the simulator is provoked and seen, each beside a control that must not show it.
//!
//! What draws from seeds prints the seed with what failed, and counting the seeds up from zero
//! replays it.

mod background;
mod calls;
mod crashes;
mod device;
mod faults;

use super::*;
use crate::env::{Progress, read_together};

/// Work made from a closure.
struct Steps<F>(F);

impl<F: Fn() -> Progress + Send + Sync> Work for Steps<F> {
    fn step(&self) -> Progress {
        (self.0)()
    }
}

fn start(env: &SimEnv, name: &str, step: impl Fn() -> Progress + Send + Sync + 'static) -> Arc<dyn Worker> {
    env.start(name, Arc::new(Steps(step))).unwrap()
}

const WRITE: Step = Step("test: write");
const SYNC: Step = Step("test: sync");
const SYNC_DIR: Step = Step("test: sync directory");
const CREATE: Step = Step("test: create");
const CUT: Step = Step("test: cut");
const RENAME: Step = Step("test: rename");
const LINK: Step = Step("test: link");
const REMOVE: Step = Step("test: remove");
const OTHER: Step = Step("test: something else");

/// Creates a file with these bytes; neither they nor the name are synced.
fn create(env: &SimEnv, path: &str, bytes: &[u8]) -> Arc<dyn File> {
    let file = env.create(Path::new(path), CREATE).unwrap();
    file.write_all_at(bytes, 0, WRITE).unwrap();
    file
}

/// Creates a file of which everything is durable.
fn create_durable(env: &SimEnv, path: &str, bytes: &[u8]) -> Arc<dyn File> {
    let file = create(env, path, bytes);
    file.sync(SYNC).unwrap();
    sync_root(env);
    file
}

fn sync_root(env: &SimEnv) {
    env.sync_dir(Path::new("/"), SYNC_DIR).unwrap();
}

/// Images of four hundred crashes of all kinds, each with its crash.
fn images(env: &SimEnv) -> impl Iterator<Item = (Crash, SimEnv)> + '_ {
    let unsynced = env.unsynced_changes();
    (0..400).map(move |seed| Crash::draw(seed, unsynced)).map(|crash| (crash, env.image(crash)))
}

/// What `look` finds in these images, without repetitions, sorted.
fn found<T: Ord>(env: &SimEnv, look: impl Fn(&SimEnv) -> T) -> Vec<T> {
    let mut found: Vec<T> = images(env).map(|(_, image)| look(&image)).collect();
    found.sort();
    found.dedup();
    found
}

/// The content of a file, or `None` if it has no name.
fn content(env: &SimEnv, path: &str) -> Option<Vec<u8>> {
    env.content(path).ok()
}

/// The content as text.
fn text(env: &SimEnv, path: &str) -> String {
    String::from_utf8(env.content(path).unwrap()).unwrap()
}
