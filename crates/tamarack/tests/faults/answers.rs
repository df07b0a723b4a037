//! Everything that can be asked of a database, and whether the answers fit a model.
//!
//! An error is a fit answer anywhere; a wrong key or value never is. A scan that ends with an error
//! must have been right so far.

use tamarack::{Db, Error};

use crate::history::Model;

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;
type Lookup = (Vec<u8>, Result<Option<Vec<u8>>, Error>);
type Lookups = Result<Vec<Option<Vec<u8>>>, Error>;

/// The answers to a lookup of every key, one of all together, and a scan in each direction.
pub(crate) struct Answers {
    lookups: Vec<Lookup>,
    together: Lookups,
    forward: (Pairs, Option<Error>),
    backward: (Pairs, Option<Error>),
}

impl Answers {
    /// Asks everything.
    pub(crate) fn of(db: &Db, keys: &[Vec<u8>]) -> Self {
        let lookup = |key: &Vec<u8>| (key.clone(), db.get(key).map(|value| value.map(|value| value.to_vec())));
        Self {
            together: multi_get(db, keys),
            lookups: keys.iter().map(lookup).collect(),
            forward: collect(db.scan(..)),
            backward: collect(db.scan(..).rev()),
        }
    }

    /// The errors among the answers.
    pub(crate) fn errors(&self) -> impl Iterator<Item = &Error> {
        let lookups = self.lookups.iter().filter_map(|(_, answer)| answer.as_ref().err());
        lookups.chain(self.together.as_ref().err()).chain(&self.forward.1).chain(&self.backward.1)
    }

    /// What in the answers is not what the model says.
    pub(crate) fn contradiction(&self, model: &Model) -> Option<String> {
        let lookup = self.lookups.iter().find_map(|(key, answer)| {
            let wrong = answer.as_ref().is_ok_and(|value| value.as_ref() != model.get(key));
            wrong.then(|| format!("get {} gives {answer:?}", key.escape_ascii()))
        });
        let keys = || self.lookups.iter().map(|(key, _)| key);
        let together = || lookups_contradiction(&self.together, keys(), model);
        let forward = || scan_contradiction(&self.forward, model.iter()).map(|why| format!("scan: {why}"));
        let backward =
            || scan_contradiction(&self.backward, model.iter().rev()).map(|why| format!("reverse scan: {why}"));
        lookup.or_else(together).or_else(forward).or_else(backward)
    }
}

/// The answers to a lookup of all keys together.
pub(crate) fn multi_get(db: &Db, keys: &[Vec<u8>]) -> Lookups {
    Ok(db.multi_get(keys)?.into_iter().map(|value| value.map(|value| value.to_vec())).collect())
}

/// What in the answers to a lookup of many keys is not what the model says.
pub(crate) fn lookups_contradiction<'a>(
    lookups: &Lookups,
    mut keys: impl Iterator<Item = &'a Vec<u8>>,
    model: &Model,
) -> Option<String> {
    let mut values = lookups.as_ref().ok()?.iter();
    let wrong = keys.find(|&key| values.next().is_none_or(|value| value.as_ref() != model.get(key)))?;
    Some(format!("multi_get gives {lookups:?}, which is wrong for {}", wrong.escape_ascii()))
}

/// What a scan delivered, and the error that ended it.
pub(crate) fn collect(scan: impl Iterator<Item = Result<(Vec<u8>, Vec<u8>), Error>>) -> (Pairs, Option<Error>) {
    let mut pairs = Vec::new();
    for delivered in scan {
        match delivered {
            Ok(pair) => pairs.push(pair),
            Err(error) => return (pairs, Some(error)),
        }
    }
    (pairs, None)
}

/// What a scan delivered that it should not have, or the other way round.
pub(crate) fn scan_contradiction<'a>(
    (pairs, error): &(Pairs, Option<Error>),
    mut expected: impl Iterator<Item = (&'a Vec<u8>, &'a Vec<u8>)>,
) -> Option<String> {
    for (key, value) in pairs {
        let wanted = expected.next();
        if wanted != Some((key, value)) {
            let (key, value) = (key.escape_ascii(), value.escape_ascii());
            return Some(format!("delivers {key} = {value}, but {wanted:?} is next"));
        }
    }
    let missing = expected.next().filter(|_| error.is_none())?;
    Some(format!("ends before {missing:?}"))
}
