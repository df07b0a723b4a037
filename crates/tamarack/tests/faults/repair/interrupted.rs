//! Repairs that the machine's end interrupts, at each call that changes storage: repaired again,
//! there is what there would have been.

use std::sync::Arc;

use tamarack_env::sim::{Crash, Sector};
use tamarack_env::sync::{Mutex, Rank};
use tamarack_env::{Random, SimEnv};

use super::damage;
use super::scene::{DIR, Scene};

/// How many databases, each with one repair that is interrupted everywhere.
const DATABASES: u64 = 15;

#[test]
fn interrupted_repairs() {
    let mut images_seen = 0;
    for seed in 0..DATABASES {
        let scene = Scene::of(seed);
        let env = scene.env.image(Crash::KeepAll);
        for damage in damage::draw(&Random::for_purpose(seed, 1), &env) {
            damage.inflict(&env);
        }
        let env = env.image(Crash::KeepAll);
        let images: Arc<Mutex<Vec<(String, SimEnv)>>> = Arc::new(Mutex::new(Rank::Test, Vec::new()));
        let seen = images.clone();
        env.set_hook(move |moment| {
            let crashes = [
                Crash::LoseAll,
                Crash::KeepAll,
                Crash::Subset { seed },
                Crash::Torn { seed, sector: Sector::Bytes512 },
            ];
            let step = moment.call.step.map_or("", |step| step.0);
            let images = crashes.map(|crash| (format!("{crash:?} before {step}"), moment.image(crash)));
            seen.lock().extend(images);
        });
        let repaired = scene.options(&env).repair(DIR, &mut |_, _| {});
        env.clear_hook();
        if repaired.is_err() {
            continue;
        }
        let expected = scene.answers(&env).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        let images = std::mem::take(&mut *images.lock());
        images_seen += images.len();
        for (when, image) in images {
            let again = scene.options(&image).repair(DIR, &mut |_, _| {});
            let report = again.unwrap_or_else(|error| panic!("seed {seed}, {when}: {error}"));
            let answers = scene.answers(&image).unwrap_or_else(|why| panic!("seed {seed}, {when}: {why}"));
            assert_eq!(answers, expected, "seed {seed}, {when}: {report:?}");
        }
    }
    println!("{images_seen} images");
    assert!(images_seen > 300, "only {images_seen} images");
}
