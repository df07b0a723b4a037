//! Chucky: the buckets of one cuckoo filter over the whole tree (Dayan and Twitto, *Chucky: A
//! Succinct Cuckoo Filter for LSM-Tree*, SIGMOD 2021).
//!
//! The filter maps each key to the runs that hold it. Its buckets have 64 bits each, and a few
//! slots. A slot holds a fingerprint of a key and the *level ID* (LID) of a run that has the key.
//! Large runs hold most keys, so LIDs are coded by how frequent they are, all those of a bucket
//! together, and what the code saves lengthens the fingerprints (§4 of the paper):
//!
//! ```text
//! 63                                                                    0
//! │ codeword of all LIDs of the bucket │ fingerprints, by class, by LID │
//! ```
//!
//! **Classes.** A tree has few run sizes. LIDs of runs of about the same size are a *class*: they
//! are equally frequent, and their fingerprints are equally long.
//!
//! **Groups.** Buckets whose LIDs are of the same classes, a multiset of them, are a *group*.
//! Their fingerprints add up to the same bits, so their codewords are equally long. The paper
//! codes each *combination* of LIDs; here each group is an interval of consecutive codewords, and
//! a combination is a number within it (`combinations`). A tree of 274 runs has 2.4·10⁸
//! combinations of four LIDs in three classes, and 15 groups.
//!
//! **Frequent and rare.** The codeword of a *frequent* group leaves exactly the bits that its
//! fingerprints need, so nothing of a bucket is lost. All other buckets are *rare*, one in ten
//! thousand or fewer: their codeword fills the bucket, and their fingerprints are kept elsewhere
//! ([`Encoded::Rare`]).
//!
//! **Empty slots** count as entries with LID 0, of the class of the largest runs, and a
//! fingerprint of zeros. No key has that fingerprint ([`Code::fingerprint`]).
//!
//! ```
//! use tamarack_filter::Digest;
//! use tamarack_filter::chucky::{Bucket, Code, Encoded, Shares, BucketSlot};
//!
//! // A tree of two levels: one run with a tenth of the entries, one with the others.
//! let code = Code::new(4, &[1, 1], &[Shares::new(vec![0.9, 0.1])])?;
//! let (large, small) = (0, 1);
//! let apple = code.fingerprint(Digest::of(b"apple"));
//! let pear = code.fingerprint(Digest::of(b"pear"));
//!
//! let mut bucket = Bucket::empty(4);
//! bucket.insert(code.slot(large, apple));
//! bucket.insert(code.slot(small, pear));
//! let Encoded::Frequent(bits) = code.encode(&bucket) else { panic!("the group is frequent") };
//!
//! assert_eq!(code.decode(bits), Some(bucket));
//! let matches = code.matches(bits, pear).expect("the bucket is not rare");
//! assert!(code.lids(bits, matches).any(|lid| lid == small));
//! # Ok::<(), tamarack_filter::chucky::CodeError>(())
//! ```
//!
//! # Map
//!
//! High to low: `code` (encoding and decoding of buckets), `combinations` (numbers of
//! combinations), `fingerprint`. Which groups are frequent, and how long fingerprints are, belongs
//! to the model (`tamarack_model::filter::chucky`), which predicts false positives by it. The
//! module knows no tree and no threads.

mod code;
mod combinations;
mod fingerprint;
mod place;

pub use code::{Bucket, BucketSlot, Code, CodeError, Encoded, Matches};
pub use fingerprint::{FINGERPRINT_BITS_MAX, FINGERPRINT_BITS_MIN, Fingerprint};
pub use place::{Offsets, first_bucket, partition_of};
pub use tamarack_model::filter::chucky::CLASSES_MAX;
pub use tamarack_model::filter::chucky::groups::{SLOTS_MAX, Shares};

#[cfg(test)]
mod tests;
