//! `mutants`: mutation testing of the engine's crates.
//!
//! All mutants are compiled at once, into one copy of the repository; an environment variable
//! switches one on. So a mutant costs a run of the tests that reach it, and no build.
//!
//! | module | what it is |
//! |---|---|
//! | `report` | the tables |
//! | `trial`, `process` | which tests reach and kill which mutants; one test in one process |
//! | `compile`, `copy` | the build, and what the compiler rejects; the copy of the repository |
//! | `rewrite`, `operators`, `site` | a file with its mutants in it; finding them; one of them |
//! | `switch` | the module that is added to mutated crates |
//! | `args` | the command line |

mod args;
mod compile;
mod copy;
mod operators;
mod process;
mod report;
mod rewrite;
mod site;
#[cfg(test)]
mod tests;
mod trial;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use tamarack_testing::Random;

use args::Args;
use compile::{Built, CompileError, Program};
use report::Report;
use rewrite::Rewritten;
use site::Mutant;
use trial::Fate;

const USAGE: &str = "\
Usage: mutants FILES... --test 'ARGUMENTS OF cargo test' [OPTIONS]

FILES are sources of the repository, or directories of them.

Options:
  --test ARGS      tests to kill them with, such as '-p tamarack-model --lib';
                   what follows a -- chooses some by name; may be repeated
  --list           list the mutants and end
  --only N         only the mutant with this number; may be repeated
  --sample K       only K mutants, chosen by --seed
  --seed S         [default: 1]
  --slowest SEC    leave out tests that take longer without a mutant [default: 60]
  --jobs N         so many mutants at a time [default: number of cores]
  --goal PERCENT   least percentage of viable mutants to be killed [default: 90]
  --dir DIR        where the mutated copy is built, kept between runs, below the
                   repository's root [default: target/mutants]
  --json           print the report as one JSON object

Status: 0 goal reached; 1 goal missed; 2 wrong arguments, or no trial was possible.";

/// Each build drops at least one mutant; one that needs more is not worth the time.
const BUILDS_MAX: usize = 60;

fn main() -> ExitCode {
    let args = match Args::parse(std::env::args().skip(1)) {
        Ok(args) => args,
        Err(error) => {
            eprintln!("{error}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match root().and_then(|root| run(&args, &root)) {
        Ok(Some(report)) => {
            print!("{}", if args.json { report.json() + "\n" } else { report.text() });
            ExitCode::from(u8::from(report.total().percent() < args.goal))
        }
        Ok(None) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

/// The root of the repository that the current directory is in.
fn root() -> Result<PathBuf, String> {
    let output = Command::new("git").args(["rev-parse", "--show-toplevel"]).output();
    let output = output.map_err(|error| format!("git: {error}"))?;
    let path = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if path.is_empty() { Err("this is no git repository".into()) } else { Ok(path.into()) }
}

fn run(args: &Args, root: &Path) -> Result<Option<Report>, String> {
    let began = Instant::now();
    let names = copy::names(root)?;
    let project = Project::read(root, &args.files, &names)?;
    if args.list {
        for mutant in &project.mutants {
            println!("{}: {}", mutant.number, project.row(mutant));
        }
        return Ok(None);
    }
    let dir = root.join(&args.dir);
    let (programs, rejected) = project.build(root, &dir, &names, &args.tests)?;
    let count = project.mutants.len();
    eprintln!("{count} mutants, {} viable, {:.0?}", count - rejected.len(), began.elapsed());
    let (tests, slow) = trial::without_mutant(&programs, &dir, Duration::from_secs_f64(args.slowest), args.jobs)?;
    if tests.is_empty() {
        return Err("these arguments of cargo test name no test".into());
    }
    for name in &slow {
        eprintln!("left out: {name} takes more than {} s", args.slowest);
    }
    eprintln!("{} tests pass without a mutant, {:.0?}", tests.len(), began.elapsed());

    let chosen = choose(args, &project.mutants, &rejected);
    let shown = Mutex::new(Instant::now());
    let after = |done: usize, number: u32, fate: &Fate| {
        let mut shown = shown.lock().expect("no panic");
        if shown.elapsed() > Duration::from_secs(10) || !fate.is_killed() || !args.only.is_empty() {
            *shown = Instant::now();
            eprintln!("{done} of {}, {:.0?}: mutant {number}: {fate:?}", chosen.len(), began.elapsed());
        }
    };
    let fates = trial::with_mutants(&chosen, &tests, &dir, args.jobs, after)?;
    let mut mutants: Vec<(Mutant, Fate)> = Vec::new();
    for mutant in project.mutants {
        let fate = fates.iter().find(|(number, _)| *number == mutant.number).map(|(_, fate)| fate.clone());
        let fate = fate.or_else(|| rejected.contains(&mutant.number).then_some(Fate::NotViable));
        mutants.extend(fate.map(|fate| (mutant, fate)));
    }
    Ok(Some(Report { files: project.files.into_iter().map(|file| file.name).collect(), mutants }))
}

/// The mutants to run.
fn choose(args: &Args, mutants: &[Mutant], rejected: &BTreeSet<u32>) -> Vec<u32> {
    let viable = mutants.iter().map(|mutant| mutant.number).filter(|number| !rejected.contains(number));
    let mut chosen: Vec<u32> = viable.filter(|number| args.only.is_empty() || args.only.contains(number)).collect();
    if let Some(sample) = args.sample {
        let mut random = Random::new(args.seed);
        while chosen.len() > sample {
            chosen.remove(random.below(chosen.len() as u64) as usize);
        }
    }
    chosen
}

/// A source file.
struct Source {
    /// From the root of the repository.
    name: String,
    text: String,
}

/// The chosen files and their mutants.
struct Project {
    files: Vec<Source>,
    mutants: Vec<Mutant>,
}

impl Project {
    fn read(root: &Path, wanted: &[String], names: &[String]) -> Result<Self, String> {
        let mut project = Self { files: Vec::new(), mutants: Vec::new() };
        for wanted in wanted {
            let directory = format!("{}/", wanted.trim_end_matches('/'));
            let is_wanted = |name: &&String| *name == wanted || name.starts_with(&directory) && name.ends_with(".rs");
            let before = project.files.len();
            for name in names.iter().filter(is_wanted) {
                project.add(root, name)?;
            }
            if project.files.len() == before {
                return Err(format!("{wanted} is no source of the repository"));
            }
        }
        Ok(project)
    }

    fn add(&mut self, root: &Path, name: &str) -> Result<(), String> {
        let text = fs::read_to_string(root.join(name)).map_err(|error| format!("{name}: {error}"))?;
        let sites = operators::sites(&text).map_err(|error| format!("{name}: {error}"))?;
        let first = self.mutants.len() as u32 + 1;
        self.mutants.extend(site::number(&text, self.files.len(), first, sites));
        self.files.push(Source { name: name.to_owned(), text });
        Ok(())
    }

    /// Builds the copy until it compiles. Returns the programs of tests, and the mutants that the
    /// compiler rejects.
    fn build(
        &self,
        root: &Path,
        dir: &Path,
        names: &[String],
        tests: &[String],
    ) -> Result<(Vec<Program>, BTreeSet<u32>), String> {
        let known = dir.join("rejected");
        let mut rejected = self.rejected_before(&known);
        for _ in 0..BUILDS_MAX {
            let rewritten = self.rewrite(&rejected);
            let mut changed = self.with_switches(root)?;
            for (file, rewritten) in self.files.iter().zip(&rewritten) {
                match changed.iter_mut().find(|(name, _)| *name == file.name) {
                    // The root of a crate: the declaration of the switch stays at its end.
                    Some((_, text)) => *text = rewritten.text.clone() + SWITCH_DECLARATION,
                    None => changed.push((file.name.clone(), rewritten.text.clone())),
                }
            }
            copy::copy(root, &dir.join("tree"), names, &changed)?;
            match compile::build(&dir.join("tree"), &dir.join("target"), tests)? {
                Built::Programs(programs) => {
                    let rows = self.mutants.iter().filter(|mutant| rejected.contains(&mutant.number));
                    let rows: Vec<String> = rows.map(|mutant| self.row(mutant)).collect();
                    fs::write(&known, rows.join("\n")).map_err(|error| format!("{}: {error}", known.display()))?;
                    return Ok((programs, rejected));
                }
                Built::Errors(errors) => {
                    let found = self.rejected_by(&errors, &rewritten);
                    if found.is_empty() {
                        let texts: Vec<&str> = errors.iter().map(|error| error.text.as_str()).collect();
                        return Err(format!("not because of a mutant:\n{}", texts.join("\n")));
                    }
                    eprintln!("the compiler rejects {} mutants: {} errors", found.len(), errors.len());
                    rejected.extend(found);
                }
            }
        }
        Err(format!("mutants that do not compile are left after {BUILDS_MAX} builds"))
    }

    /// The mutants that the compiler rejected in the run before, which spares their build.
    fn rejected_before(&self, known: &Path) -> BTreeSet<u32> {
        let rows = fs::read_to_string(known).unwrap_or_default(); // there was none
        let rows: BTreeSet<&str> = rows.lines().collect();
        let is_known = |mutant: &&Mutant| rows.contains(self.row(mutant).as_str());
        self.mutants.iter().filter(is_known).map(|mutant| mutant.number).collect()
    }

    /// A mutant as one line.
    fn row(&self, mutant: &Mutant) -> String {
        format!("{}:{}:{}: {}", self.files[mutant.file].name, mutant.line, mutant.column, mutant.site.description)
    }

    fn rewrite(&self, rejected: &BTreeSet<u32>) -> Vec<Rewritten> {
        let files = self.files.iter().enumerate().map(|(file, source)| {
            let is_its = |mutant: &&Mutant| mutant.file == file && !rejected.contains(&mutant.number);
            rewrite::rewrite(&source.text, &self.mutants.iter().filter(is_its).collect::<Vec<_>>())
        });
        files.collect()
    }

    /// The files that give each crate its switch.
    fn with_switches(&self, root: &Path) -> Result<Vec<(String, String)>, String> {
        let mut changed = Vec::new();
        let directories: BTreeSet<&str> = self
            .files
            .iter()
            .filter_map(|file| file.name.rfind("src/").map(|at| &file.name[..at + "src/".len()]))
            .collect();
        for directory in directories {
            let name = format!("{directory}lib.rs");
            let text = fs::read_to_string(root.join(&name)).map_err(|error| format!("{name}: {error}"))?;
            changed.push((format!("{directory}__mutant.rs"), include_str!("switch.rs").to_owned()));
            changed.push((name, text + SWITCH_DECLARATION));
        }
        Ok(changed)
    }

    fn rejected_by(&self, errors: &[CompileError], rewritten: &[Rewritten]) -> BTreeSet<u32> {
        let mutants = |error: &CompileError| {
            let found = error.places.iter().find_map(|(name, span)| {
                let file = self.files.iter().position(|file| file.name == *name)?;
                let found = rewritten[file].mutants_at(span);
                (!found.is_empty()).then_some(found)
            });
            found.unwrap_or_default()
        };
        errors.iter().flat_map(mutants).collect()
    }
}

const SWITCH_DECLARATION: &str = "\nmod __mutant;\n";
