//! Damages of files at rest, drawn from a seed.

use std::fmt;
use std::path::PathBuf;

use tamarack_env::{Env, Random, SimEnv, Step};

/// Something that happened to a file.
#[derive(Clone, Debug)]
pub(crate) enum Damage {
    Flip { path: PathBuf, offset: u64, bit: u64 },
    Cut { path: PathBuf, length: u64 },
    Overwrite { path: PathBuf, offset: u64, bytes: Vec<u8>, how: &'static str },
    Exchange { path: PathBuf, a: u64, b: u64, bytes: u64 },
    Remove { path: PathBuf },
    Replace { path: PathBuf, by: PathBuf },
}

/// One damage, or a few.
pub(crate) fn draw(random: &Random, env: &SimEnv) -> Vec<Damage> {
    let mut files: Vec<(PathBuf, u64)> = env.files();
    files.retain(|(path, _)| !path.ends_with("LOCK"));
    let count = if random.eighths(4) { 1 } else { 2 + random.below(4) };
    (0..count).map(|_| one(random, env, &files)).collect()
}

fn one(random: &Random, env: &SimEnv, files: &[(PathBuf, u64)]) -> Damage {
    let any = || files[random.below(files.len() as u64) as usize].clone();
    let (path, length) = any();
    if length == 0 || random.below(12) == 0 {
        return Damage::Remove { path };
    }
    // Reserved space is large, and means nothing.
    let used =
        env.content(&path).expect("it is there").iter().rposition(|byte| *byte != 0).map_or(1, |last| last as u64 + 1);
    let bound = if random.eighths(1) { length } else { used };
    let offset = random.below(bound);
    let bytes = 1 + random.below((length - offset).min([8, 200, 4000][random.below(3) as usize]));
    match random.below(9) {
        0..=2 => Damage::Flip { path, offset, bit: random.below(8) },
        3 => Damage::Cut { path, length: offset },
        4 => Damage::Overwrite { path, offset, bytes: vec![0; bytes as usize], how: "zeroed" },
        5 => {
            let noise = (0..bytes).map(|_| random.next() as u8).collect();
            Damage::Overwrite { path, offset, bytes: noise, how: "overwritten" }
        }
        6 => Damage::Exchange { path, a: offset, b: random.below(length - bytes + 1), bytes },
        7 => Damage::Replace { path, by: any().0 },
        _ => {
            let garbage = (0..1 + random.below(300)).map(|_| random.next() as u8).collect();
            Damage::Overwrite { path, offset: length, bytes: garbage, how: "appended" }
        }
    }
}

impl Damage {
    /// Does it. A file that an earlier damage removed stays away.
    pub(crate) fn inflict(&self, env: &SimEnv) {
        let is_there = |path: &PathBuf| env.content(path).is_ok();
        let inflicted = match self {
            Self::Flip { path, offset, bit } if is_there(path) => env.flip_bit(path, *offset, *bit),
            Self::Cut { path, length } if is_there(path) => env.truncate(path, *length),
            Self::Overwrite { path, offset, bytes, .. } if is_there(path) => env.overwrite(path, *offset, bytes),
            Self::Exchange { path, a, b, bytes } if is_there(path) => {
                let mut content = env.content(path).expect("it is there");
                content.resize(content.len().max((a.max(b) + bytes) as usize), 0);
                let part = |at: u64| content[at as usize..(at + bytes) as usize].to_vec();
                let (first, second) = (part(*a), part(*b));
                env.overwrite(path, *a, &second).and_then(|()| env.overwrite(path, *b, &first))
            }
            Self::Remove { path } if is_there(path) => env.remove(path, Step("test: remove")),
            Self::Replace { path, by } if is_there(path) && is_there(by) => {
                let content = env.content(by).expect("it is there");
                env.truncate(path, 0).and_then(|()| env.overwrite(path, 0, &content))
            }
            _ => Ok(()),
        };
        inflicted.unwrap_or_else(|error| panic!("{self}: {error}"));
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flip { path, offset, bit } => write!(f, "bit {bit} of byte {offset} of {} flipped", path.display()),
            Self::Cut { path, length } => write!(f, "{} cut to {length} bytes", path.display()),
            Self::Overwrite { path, offset, bytes, how } => {
                write!(f, "{} bytes of {} {how} at {offset}", bytes.len(), path.display())
            }
            Self::Exchange { path, a, b, bytes } => {
                write!(f, "{bytes} bytes of {} exchanged at {a} and {b}", path.display())
            }
            Self::Remove { path } => write!(f, "{} removed", path.display()),
            Self::Replace { path, by } => write!(f, "{} replaced by {}", path.display(), by.display()),
        }
    }
}
