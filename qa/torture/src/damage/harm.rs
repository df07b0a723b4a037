//! Ways to damage the files of a database.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tamarack_testing::Random;

/// The kinds of damage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Harm {
    FlippedBit,
    FlippedBits,
    /// A range of random bytes.
    Noise,
    /// A range that reads as zeros, as of a sector that was never written.
    Zeros,
    CutShort,
    Emptied,
    GarbageAppended,
    ZerosAppended,
    /// A part of the file in the place of another part.
    MovedWithin,
    /// Two files of the same kind have each other's bytes.
    Swapped,
    /// A file has the bytes of another one of its kind.
    Replaced,
    Removed,
    /// The next number has a copy of the file.
    CopiedToNextName,
}

pub(crate) const HARMS: &[Harm] = &[
    Harm::FlippedBit,
    Harm::FlippedBits,
    Harm::Noise,
    Harm::Zeros,
    Harm::CutShort,
    Harm::Emptied,
    Harm::GarbageAppended,
    Harm::ZerosAppended,
    Harm::MovedWithin,
    Harm::Swapped,
    Harm::Replaced,
    Harm::Removed,
    Harm::CopiedToNextName,
];

/// The ending of a file's name, or the name if it has none: the kind of file.
pub(crate) fn kind(path: &Path) -> String {
    let name = path.extension().or(path.file_name()).unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// The files of a database, sorted.
pub(crate) fn files(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = fs::read_dir(dir)?.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<Vec<_>>>()?;
    files.sort();
    Ok(files)
}

/// Copies a database.
pub(crate) fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir(to)?;
    for file in files(from)? {
        fs::copy(&file, to.join(file.file_name().expect("a file has a name")))?;
    }
    Ok(())
}

/// Damages one file of a kind drawn at random; returns the kind of file and what was done, or
/// `None` if nothing changed.
pub(crate) fn harm(dir: &Path, random: &mut Random) -> io::Result<Option<(String, Harm)>> {
    let all = files(dir)?;
    let mut kinds: Vec<String> = all.iter().map(|path| kind(path)).collect();
    kinds.sort();
    kinds.dedup();
    let chosen = random.pick(&kinds).clone();
    let alike: Vec<&PathBuf> = all.iter().filter(|path| kind(path) == chosen).collect();
    let file = *random.pick(&alike);
    let harm = *random.pick(HARMS);
    let before = fs::read(file)?;
    let other = *random.pick(&alike);
    match harm {
        Harm::Swapped => {
            let others = fs::read(other)?;
            fs::write(file, &others)?;
            fs::write(other, &before)?;
            return Ok((others != before).then_some((chosen, harm)));
        }
        Harm::Replaced => {
            fs::copy(other, file).map(drop).or_else(|error| if other == file { Ok(()) } else { Err(error) })?;
        }
        Harm::Removed => {
            fs::remove_file(file)?;
            return Ok(Some((chosen, harm)));
        }
        Harm::CopiedToNextName => {
            let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let Ok(number) = stem.parse::<u64>() else { return Ok(None) };
            let next = dir.join(format!("{:010}.{chosen}", number + 1 + random.below(3)));
            if next.exists() {
                return Ok(None);
            }
            fs::copy(file, next)?;
            return Ok(Some((chosen, harm)));
        }
        _ => fs::write(file, changed(before.clone(), harm, random))?,
    }
    Ok((fs::read(file)? != before).then_some((chosen, harm)))
}

/// The bytes of a file after damage to it alone.
fn changed(mut bytes: Vec<u8>, harm: Harm, random: &mut Random) -> Vec<u8> {
    let length = bytes.len() as u64;
    if length == 0 {
        return bytes;
    }
    let at = random.below(length) as usize;
    let to = at + 1 + random.below((length - at as u64).min(5000)) as usize;
    let to = to.min(bytes.len());
    match harm {
        Harm::FlippedBit => bytes[at] ^= 1 << random.below(8),
        Harm::FlippedBits => {
            for _ in 0..2 + random.below(30) {
                bytes[random.below(length) as usize] ^= 1 << random.below(8);
            }
        }
        Harm::Noise => bytes[at..to].iter_mut().for_each(|byte| *byte = random.next() as u8),
        Harm::Zeros => bytes[at / 512 * 512..to].fill(0),
        Harm::CutShort => bytes.truncate(at),
        Harm::Emptied => bytes.clear(),
        Harm::GarbageAppended => bytes.extend(random.bytes(1 + at as u64 % 3000)),
        Harm::ZerosAppended => bytes.resize(bytes.len() + 1 + at % 3000, 0),
        Harm::MovedWithin => {
            let part = bytes[at..to].to_vec();
            let place = random.below(length - (part.len() as u64 - 1)) as usize;
            bytes[place..place + part.len()].copy_from_slice(&part);
        }
        Harm::Swapped | Harm::Replaced | Harm::Removed | Harm::CopiedToNextName => {}
    }
    bytes
}
