//! Measures the resident memory of processes that use a database in the least friendly ways, beside
//! its memory budget and its own account of memory.
//!
//! ```sh
//! cargo run --release -p tamarack --example resident_memory
//! cargo run --release -p tamarack --example resident_memory -- --json --seconds 10 --check huge
//! ```
//!
//! Each scene (`resident_memory/scenes.rs`) has a process of its own, which is measured from the
//! outside: the resident memory that the operating system counts at the scene's end, and the most
//! that it has counted. The bound is the budget times 1.10, and 64 MiB: the process itself, stacks
//! of threads, and what the allocator keeps.
//!
//! Words limit the scenes to those with such a word in their name; `--seconds` says how long each
//! one may write (1; opening 100,000 iterators takes as long as it takes). With `--check`, the
//! status is 1 if a scene exceeds its bound. Linux only.

#[path = "resident_memory/measure.rs"]
mod measure;
#[path = "resident_memory/scenes.rs"]
mod scenes;

use std::process::{Command, ExitCode};

use measure::{Measured, measure};
use scenes::{SCENES, Scene};

/// Tells a process to run the scene named by the next arguments.
const PLAY: &str = "--play";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (mut seconds, mut json, mut checks, mut words) = (1.0, false, false, Vec::new());
    while let Some(argument) = arguments.next() {
        let mut next = || arguments.next().unwrap_or_else(|| panic!("{argument} needs a value"));
        match argument.as_str() {
            PLAY => {
                let name = next();
                scenes::run(&name, next().parse().expect("a number of seconds")).expect("the scene has no errors");
                return ExitCode::SUCCESS;
            }
            "--seconds" => seconds = next().parse().expect("a number of seconds"),
            "--json" => json = true,
            "--check" => checks = true,
            _ => words.push(argument),
        }
    }
    if !cfg!(target_os = "linux") {
        println!("only Linux counts resident memory in a way that this program knows");
        return ExitCode::SUCCESS;
    }
    if !json {
        println!(
            "{:<26}{:>8}{:>10}{:>10}{:>10}{:>10}{:>8}{:>12}  verdict",
            "scene (MiB)", "budget", "account", "at most", "resident", "at most", "bound", "operations"
        );
    }
    let mut is_exceeded = false;
    let is_wanted = |scene: &&Scene| words.is_empty() || words.iter().any(|word| scene.name.contains(word.as_str()));
    for scene in SCENES.iter().filter(is_wanted) {
        let program = std::env::current_exe().expect("this program has a path");
        let measured = measure(Command::new(program).args([PLAY, scene.name, &seconds.to_string()]));
        if json {
            print_json(scene, &measured)
        } else {
            print_row(scene, &measured)
        }
        is_exceeded |= !measured.is_within(scene);
    }
    ExitCode::from(u8::from(checks && is_exceeded))
}

fn verdict(scene: &Scene, measured: &Measured) -> &'static str {
    if measured.is_within(scene) { "within" } else { "EXCEEDED" }
}

fn print_row(scene: &Scene, measured: &Measured) {
    let mib = |bytes: u64| format!("{:.1}", bytes as f64 / f64::from(1 << 20));
    println!(
        "{:<26}{:>8}{:>10}{:>10}{:>10}{:>10}{:>8}{:>12}  {}",
        scene.name,
        scene.budget_mib,
        mib(measured.account),
        mib(measured.account_max),
        mib(measured.resident),
        mib(measured.resident_max),
        mib(scene.bound_bytes()),
        measured.operations,
        verdict(scene, measured)
    );
}

fn print_json(scene: &Scene, measured: &Measured) {
    println!(
        "{{\"scene\":\"{}\",\"threads\":{},\"budget_bytes\":{},\"account_bytes\":{},\"account_bytes_max\":{},\
         \"resident_bytes\":{},\"resident_bytes_max\":{},\"bound_bytes\":{},\"operations\":{},\"verdict\":\"{}\"}}",
        scene.name,
        scene.threads,
        scene.budget_bytes(),
        measured.account,
        measured.account_max,
        measured.resident,
        measured.resident_max,
        scene.bound_bytes(),
        measured.operations,
        verdict(scene, measured).to_lowercase()
    );
}
