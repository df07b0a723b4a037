//! [`database_of`]: the database that the files in a directory belong to, when no manifest says so.
//!
//! Every checksum is seeded with the database's random id, so that nothing can be checked without
//! it. Each file names an id, and its own checksum shows whether the id is right. A file that was
//! copied from elsewhere fits too, so the files vote.

use std::collections::BTreeMap;
use std::path::Path;

use tamarack_env::{Access, Env};

use crate::error::{Error, Result};
use crate::format::claims::{self, Claim};
use crate::format::names::FileName;
use crate::format::record::{FILE_HEADER_BYTES, FileHeader};
use crate::format::table::FOOTER_BYTES;
use crate::table::Table;
use crate::tree::manifest;
use crate::wal;

/// The id that most files prove, or else that most of them claim; `None` if nobody names one.
pub(super) fn database_of(env: &dyn Env, dir: &Path, names: &[FileName]) -> Result<Option<u64>> {
    let mut votes: BTreeMap<u64, (usize, usize)> = BTreeMap::new();
    for name in names {
        let path = name.path(dir);
        let (claim, is_proven) = match name {
            FileName::Manifest(number) | FileName::Wal(number) => {
                let kind = if name.wal().is_some() { wal::PROFILE.kind } else { manifest::PROFILE.kind };
                let head = ends(env, &path, FILE_HEADER_BYTES as usize)?.0;
                (claims::of_journal(&head, kind), FileHeader::decode(&head, kind, *number).is_ok())
            }
            FileName::Table(_) => {
                let claim = claims::of_table(&ends(env, &path, FOOTER_BYTES)?.1);
                let is_proven = claim.is_some_and(|claim| Table::read_meta(env, &path, claim.database).is_ok());
                (claim, is_proven)
            }
            _ => continue,
        };
        if let Some(Claim { database, is_marked: true, .. }) = claim {
            let (proofs, claims) = votes.entry(database).or_default();
            *proofs += usize::from(is_proven);
            *claims += 1;
        }
    }
    Ok(votes.into_iter().max_by_key(|(_, votes)| *votes).map(|(database, _)| database))
}

/// The first and the last bytes of a file.
fn ends(env: &dyn Env, path: &Path, bytes: usize) -> Result<(Vec<u8>, Vec<u8>)> {
    let read = || {
        let file = env.open(path, Access::Read)?;
        let length = file.len()?;
        let bytes = length.min(bytes as u64);
        let (mut head, mut tail) = (vec![0; bytes as usize], vec![0; bytes as usize]);
        file.read_exact_at(&mut head, 0)?;
        file.read_exact_at(&mut tail, length - bytes)?;
        Ok((head, tail))
    };
    read().map_err(|error| Error::io("database: read", path, error))
}
