//! The design and shape of a tree as the manifest stores them: readable text.
//!
//! ```text
//! policy leveling:T=10
//! filter blocked:bits=10,allocation=monkey
//! space 1.5
//! +blocks 16384
//! +decision leveling:T=5 to leveling:T=10: 90 % scans …
//! buffer 32MiB
//! level 320MiB in 1 run
//! level 3200MiB in 1 run
//! ```
//!
//! The **design** consists of the specifications of the policy and of the filters, the upper bound
//! on space amplification (left out: none), the size of blocks of new tables in bytes (left out:
//! that of the options), and the memtable's size, which the shape contains. What the navigator has
//! decided about it stands there as well, in words. The current shape begins at `buffer`.
//!
//! `tamarack-model` parses all specifications. An unknown one was written by a newer version, which
//! is distinguished from damage. A line that begins with `+` may be skipped.

use std::ops::RangeInclusive;
use std::sync::Arc;

use tamarack_model::Shape;
use tamarack_model::bound::SpaceBound;
use tamarack_model::filter::FilterChoice;
use tamarack_model::policy::{self, Policy};

use crate::edit::ShapeBlob;

/// The beginning of the line of a decision. Versions that do not know it pass over it.
const DECISION: &str = "+decision ";

/// The beginning of the line of a size of blocks. Versions that do not know it pass over it, and
/// build tables with blocks of the options' size.
const BLOCKS: &str = "+blocks ";

/// The sizes of blocks that options and designs may have, in bytes.
pub const BLOCK_BYTES: RangeInclusive<u64> = 64..=16 << 20;

/// The only encoding there is.
const KIND_TEXT: u32 = 1;

/// The design of a tree and its current shape.
#[derive(Clone, Debug)]
pub struct TreeDesign {
    /// The policy, which computes the tree's shapes.
    pub policy: Arc<Policy>,
    /// The filters of its tables.
    pub filter: FilterChoice,
    /// The upper bound on space amplification, if there is one.
    pub space_bound: Option<SpaceBound>,
    /// The size of blocks of new tables in bytes, within [`BLOCK_BYTES`], if the navigator has
    /// chosen one.
    pub block_bytes: Option<u64>,
    /// The navigator's last decisions, in the order of time: a line of text each.
    pub decisions: Vec<String>,
    /// The current shape; its buffer is the size of memtables.
    pub shape: Shape,
}

/// The reason why a stored shape cannot be used.
#[derive(Debug)]
pub enum ShapeError {
    /// It is damaged.
    Malformed(String),
    /// A newer version wrote it.
    Newer(String),
}

impl TreeDesign {
    /// Encodes the design.
    pub fn encode(&self) -> ShapeBlob {
        let Self { policy, filter, space_bound, block_bytes, decisions, shape } = self;
        let space = space_bound.map_or_else(String::new, |bound| format!("space {}\n", bound.most()));
        let blocks = block_bytes.map_or_else(String::new, |bytes| format!("{BLOCKS}{bytes}\n"));
        let decisions: String = decisions.iter().flat_map(|words| [DECISION, words, "\n"]).collect();
        let text = format!("policy {policy}\nfilter {filter}\n{space}{blocks}{decisions}{shape}");
        ShapeBlob { kind: KIND_TEXT, bytes: Arc::from(text.into_bytes()) }
    }

    /// Decodes what [`TreeDesign::encode`] encoded.
    ///
    /// # Errors
    /// If the bytes are damaged, or a newer version wrote them.
    pub fn decode(blob: &ShapeBlob) -> Result<Self, ShapeError> {
        if blob.kind != KIND_TEXT {
            return Err(ShapeError::Newer(format!("the tree's design has encoding {}", blob.kind)));
        }
        let text = std::str::from_utf8(&blob.bytes).map_err(|error| ShapeError::Malformed(error.to_string()))?;
        let decisions = text.lines().filter_map(|line| Some(line.strip_prefix(DECISION)?.to_owned())).collect();
        let block_bytes = match text.lines().find_map(|line| line.strip_prefix(BLOCKS)) {
            Some(words) => Some(block_bytes(words)?),
            None => None,
        };
        let mut lines = text.lines().filter(|line| !line.starts_with('+')).peekable();
        let mut line =
            |key: &str| lines.next_if(|line| line.split(' ').next() == Some(key)).map(|line| &line[key.len()..]);
        let missing = |key: &str| ShapeError::Malformed(format!("a design without a line `{key}`"));
        let policy = line("policy").ok_or_else(|| missing("policy"))?.trim_start();
        let policy = policy::parse(policy).map_err(|error| ShapeError::Newer(format!("the tree's policy: {error}")))?;
        let filter = line("filter").ok_or_else(|| missing("filter"))?.trim_start();
        let filter = filter.parse().map_err(|error| ShapeError::Newer(format!("the tree's filter: {error}")))?;
        let space_bound = match line("space").map(|most| most.trim_start().parse().ok().and_then(SpaceBound::new)) {
            Some(None) => return Err(ShapeError::Malformed("a malformed bound on space amplification".to_owned())),
            bound => bound.flatten(),
        };
        if let Some(other) = lines.peek().filter(|line| !line.starts_with("buffer ")) {
            return Err(ShapeError::Newer(format!("the tree's design says `{other}`")));
        }
        let shape: String = lines.flat_map(|line| [line, "\n"]).collect();
        let shape = shape.parse().map_err(|error| ShapeError::Malformed(format!("{error}")))?;
        Ok(Self { policy: Arc::from(policy), filter, space_bound, block_bytes, decisions, shape })
    }
}

/// Decodes the size of blocks.
fn block_bytes(words: &str) -> Result<u64, ShapeError> {
    let bytes = words.parse().ok().filter(|bytes| BLOCK_BYTES.contains(bytes));
    let (least, most) = (BLOCK_BYTES.start(), BLOCK_BYTES.end());
    bytes.ok_or_else(|| ShapeError::Malformed(format!("blocks of `{words}`, which is no size from {least} to {most}")))
}

#[cfg(test)]
mod tests {
    use tamarack_model::Bytes;

    use super::*;

    /// Each kind of policy reads back, with and without a bound on space amplification.
    #[test]
    fn reads_back() {
        for (specification, filter, space) in [
            ("leveling:T=10", "none", None),
            ("tiering:T=4", "bloom:bits=7.5", Some(1.01)),
            ("lazy-leveling:T=5", "blocked:bits=10,allocation=monkey", None),
            ("dostoevsky:T=10,K=3,Z=2", "bloom:bits=5,allocation=monkey-general,v=3", Some(1.1)),
            ("garnering:T=2,c=0.8,first=4", "bloom:bits=5,allocation=observed", Some(4.0 / 3.0)),
            ("moose:last=0.8,k=1", "elastic:bits=10", Some(1e9)),
            ("qlsm-bush:T=2,X=2", "none", None),
            ("auto:qlsm-bush:T=2,X=2", "none", Some(2.0)),
        ] {
            let policy: Arc<Policy> = Arc::new(policy::parse(specification).expect(specification));
            let shape = policy.shape(Bytes(1 << 30), Bytes(1 << 20));
            let (filter, space_bound) = (filter.parse().expect(filter), space.and_then(SpaceBound::new));
            let decisions = match space_bound {
                Some(_) => vec!["first: 10 % → 5 %".to_owned(), "second".to_owned()],
                None => Vec::new(),
            };
            // Those with a bound on space have chosen blocks as well.
            let block_bytes = space_bound.map(|_| 16 << 10);
            let (decided, shape_before) = (decisions.clone(), shape.clone());
            let blob = TreeDesign { policy, filter, space_bound, block_bytes, decisions: decided, shape: shape_before }
                .encode();
            let again = TreeDesign::decode(&blob).expect(specification);
            assert_eq!((again.policy.to_string(), &again.shape), (specification.to_owned(), &shape));
            assert_eq!((again.filter, again.space_bound.map(|bound| bound.most())), (filter, space));
            assert_eq!((&again.decisions, again.block_bytes), (&decisions, block_bytes));
            assert_eq!(again.encode(), blob);
        }
    }

    /// Damage and the data of newer versions are distinguished.
    #[test]
    fn refusals_say_which() {
        let decode = |kind, text: &str| TreeDesign::decode(&ShapeBlob { kind, bytes: Arc::from(text.as_bytes()) });
        let shape = "buffer 1\nlevel 4 in 1 run\n";
        let newer = |found| assert!(matches!(found, Err(ShapeError::Newer(_))), "{found:?}");
        let damaged = |found| assert!(matches!(found, Err(ShapeError::Malformed(_))), "{found:?}");
        newer(decode(2, ""));
        newer(decode(1, &format!("policy bush:T=2\nfilter none\n{shape}")));
        newer(decode(1, &format!("policy leveling:T=10\nfilter sieve\n{shape}")));
        newer(decode(1, &format!("policy leveling:T=10\nfilter none\nspeed 3\n{shape}")));
        damaged(decode(1, "policy leveling:T=10\nfilter none\nbuffer 1\n"));
        damaged(decode(1, &format!("policy leveling:T=10\nfilter none\nspace 0.5\n{shape}")));
        damaged(decode(1, &format!("policy leveling:T=10\n{shape}")));
        damaged(decode(1, "leveling:T=10"));
        assert!(decode(1, &format!("policy leveling:T=10\n+later 3\nfilter none\n{shape}")).is_ok());
        let with_blocks =
            |words: &str| decode(1, &format!("policy auto:leveling:T=10\nfilter none\n+blocks {words}\n{shape}"));
        for words in ["0", "63", "16777217", "-4096", "4096 B", "many", "", " 4096"] {
            damaged(with_blocks(words));
        }
        for bytes in [64, 8192, 16 << 20] {
            assert_eq!(with_blocks(&bytes.to_string()).expect("a size").block_bytes, Some(bytes));
        }
    }
}
