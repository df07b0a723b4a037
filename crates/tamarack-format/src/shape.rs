//! A tree's policy and shape as the bytes that the manifest keeps: text, so that a person can read them there.
//!
//! ```text
//! leveling:T=10
//! buffer 32MiB
//! level 320MiB in 1 run
//! level 3200MiB in 1 run
//! ```
//!
//! The first line are the words of the policy, which says what the next shapes will be; the others are the shape that the tree has.
//! Both are read by `tamarack-model`. A policy that this version does not know was written by a newer one: that is told apart from damage.

use std::sync::Arc;

use tamarack_model::Shape;
use tamarack_model::policy::{self, Policy};

use crate::edit::ShapeBlob;

/// The only encoding there is.
const KIND_TEXT: u32 = 1;

/// Why a stored shape cannot be used.
#[derive(Debug)]
pub enum ShapeError {
    /// It is damaged.
    Malformed(String),
    /// A newer version wrote it.
    Newer(String),
}

/// The policy and its present shape, as bytes.
pub fn encode(policy: &dyn Policy, shape: &Shape) -> ShapeBlob {
    ShapeBlob { kind: KIND_TEXT, bytes: Arc::from(format!("{policy}\n{shape}").into_bytes()) }
}

/// What [`encode`] was given.
pub fn decode(blob: &ShapeBlob) -> Result<(Arc<dyn Policy>, Shape), ShapeError> {
    if blob.kind != KIND_TEXT {
        return Err(ShapeError::Newer(format!("the tree's shape has encoding {}", blob.kind)));
    }
    let text = std::str::from_utf8(&blob.bytes).map_err(|error| ShapeError::Malformed(error.to_string()))?;
    let (words, shape) = text.split_once('\n').unwrap_or((text, ""));
    let shape = shape.parse().map_err(|error| ShapeError::Malformed(format!("{error}")))?;
    let policy = policy::parse(words).map_err(|error| ShapeError::Newer(format!("the tree's policy: {error}")))?;
    Ok((Arc::from(policy), shape))
}

#[cfg(test)]
mod tests {
    use tamarack_model::Bytes;

    use super::*;

    /// What is stored reads back, for each kind of policy.
    #[test]
    fn reads_back() {
        for words in [
            "leveling:T=10",
            "tiering:T=4",
            "lazy-leveling:T=5",
            "dostoevsky:T=10,K=3,Z=2",
            "garnering:T=2,c=0.8,first=4",
            "moose:last=0.8,k=1",
            "qlsm-bush:T=2,X=2",
        ] {
            let policy = policy::parse(words).expect(words);
            let shape = policy.shape(Bytes(1 << 30), Bytes(1 << 20));
            let (again, same) = decode(&encode(&*policy, &shape)).expect(words);
            assert_eq!((again.to_string(), same), (words.to_owned(), shape));
        }
    }

    /// Damage and what a newer version wrote are told apart.
    #[test]
    fn refusals_say_which() {
        let blob = |kind, text: &str| ShapeBlob { kind, bytes: Arc::from(text.as_bytes()) };
        assert!(matches!(decode(&blob(2, "")), Err(ShapeError::Newer(_))));
        assert!(matches!(decode(&blob(1, "bush:T=2\nbuffer 1\nlevel 4 in 1 run\n")), Err(ShapeError::Newer(_))));
        assert!(matches!(decode(&blob(1, "leveling:T=10\nbuffer 1\n")), Err(ShapeError::Malformed(_))));
        assert!(matches!(decode(&blob(1, "leveling:T=10")), Err(ShapeError::Malformed(_))));
    }
}
