//! Monkey's navigation of its design space: merge policy, size ratio, and the split of main memory
//! between memtable and filters, for the least cost of an operation (section 4.5; Appendices C, I
//! and K).
//!
//! ```text
//! MonkeySetting: entries, workload, ┐
//! block, memory, device             ├─▶ ratios ─▶ split for each policy and ratio ─▶ MonkeyChoice:
//! CostBounds: Z and W at most       ┘                                                least θ
//! ```
//!
//! | question | function | paper |
//! |---|---|---|
//! | the cost of a design | [`MonkeySetting::price`] | Eq. 21 to 23 |
//! | how much memory for filters, as printed | [`algorithm_5`] | Algorithm 5 |
//! | the same for few bits, too | [`best_split`] | Eq. 24, 18 to 20 |
//! | the same with bounds on lookups and updates | [`best_split_within`] | section 4.5, SLAs |
//! | the best design | [`holistic`] | Algorithm 1 |
//! | the best design with such bounds | [`holistic_within`] | section 4.5, SLAs |
//! | the effect of another workload, data size or memory | [`what_if()`] | section 1 |
//! | the memory of fence pointers | [`fence_pointers()`] | Appendix I |
//! | default designs of other stores | [`defaults`] | Table 4, Appendix K |
//!
//! # The costs
//!
//! All are closed forms of [`cost::monkey`](crate::cost::monkey), in block reads:
//!
//! - `Z`, [`MonkeyTree::mixed`](crate::cost::monkey::MonkeyTree::mixed): Eq. 19 and 20 with the
//!   `L_u` of Eq. 18, and never more than the cost without filters. The limit for many levels: with
//!   few of them it is too high.
//! - `Q`, Eq. 11, and `W`, Eq. 10. A write costs φ reads.
//! - `L` is a real number of at least 1, in all three: Eq. 38 without rounding up, since a step
//!   would hide the gain of a larger memtable. The paper leaves the lower limit out, so that data
//!   that fits into the memtable has a negative cost there.
//!
//! Sizes are real numbers too: a ratio of 3.7 is a design here. For a tree that exists, round the
//! ratio, and price the two neighbours.
//!
//! Tests: `tests/suite/navigator_monkey.rs` compares splits and designs with dense searches over
//! costs that come from the rates of single levels, without the closed forms.

mod choice;
pub mod defaults;
mod fence_pointers;
mod setting;
mod split;
mod what_if;

pub use choice::{BoundsUnmet, UnmetBound, best_of, finer_ratios, holistic, holistic_within, ratios};
pub use fence_pointers::{fence_pointers, without_fence_pointers};
pub use setting::{BOUND_TOLERANCE, CostBounds, MonkeyChoice, MonkeyCost, MonkeyDesign, MonkeySetting};
pub use split::{algorithm_5, best_split, best_split_within};
pub use what_if::{WhatIf, what_if};
