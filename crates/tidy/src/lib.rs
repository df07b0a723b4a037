//! The rules of this repository that the compiler does not check, as ordinary tests.
//!
//! Each rule is one test whose failure names file and line and says what to write instead. Nothing
//! here is linked into any product.
//!
//! * `order`: which module may import which, and which crate may depend on which; no cycles, no
//!   dead files.
//! * `text`: module docs, file lengths, words that must not be committed, where `unsafe` may stand.
//! * `steps`: every name of a place that changes storage is used, and none is made in passing.
//! * `hidden`: public modules that the documentation hides are few, and behind features.
//! * `locks`: the order of locks is documented as it is checked, and every rank has its lock.
//! * `digests`: where keys may be hashed.
//! * `documents`: documents are reachable, and their links lead somewhere.
//! * `glossary`: the field's terms, and words that are not used; `homonyms`: types that share a
//!   name.
//! * `ratchet`: violations of rules that do not hold everywhere yet may only become fewer;
//!   `finding` is a violation.
//! * `packages`: published crates have metadata, licences and READMEs.
//! * `tree`: reads the files that the rules look at; `rust` blanks out comments and strings and
//!   finds imports; `verdict` reports.
//!
//! The rules read text, not syntax trees: a full parser would be the largest dependency of the
//! whole repository. What that costs is stated where it matters (macros that write imports are not
//! seen).

#[cfg(test)]
mod digests;
#[cfg(test)]
mod documents;
#[cfg(test)]
mod finding;
#[cfg(test)]
mod glossary;
#[cfg(test)]
mod hidden;
#[cfg(test)]
mod homonyms;
#[cfg(test)]
mod locks;
#[cfg(test)]
mod order;
#[cfg(test)]
mod packages;
#[cfg(test)]
mod ratchet;
#[cfg(test)]
mod rust;
#[cfg(test)]
mod steps;
#[cfg(test)]
mod text;
#[cfg(test)]
mod tree;
#[cfg(test)]
mod verdict;
