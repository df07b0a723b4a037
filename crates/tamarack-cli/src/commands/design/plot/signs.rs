//! Which designs of a trade-off have names in its plots: those asked for, the stores', and of a
//! long front every so many.

use crate::commands::design::trade_off::{PlacedDesign, Role, TradeOff};

/// Designs of the front that have names. More would hide the marks.
const FRONT_MAX: usize = 12;

/// A design and its sign: `A`, `B` … for those asked for, `1`, `2` … for the stores', `a`, `b` …
/// for the front. Where these end, and for all others, the sign is that of the role.
pub(super) struct SignedDesign<'a> {
    pub(super) design: &'a PlacedDesign,
    pub(super) sign: char,
    pub(super) is_named: bool,
}

/// All designs in the order of the trade-off.
pub(super) fn signed(trade_off: &TradeOff) -> Vec<SignedDesign<'_>> {
    let mut asked = ('A'..='Z').map(Some);
    let mut stores = ('1'..='9').map(Some);
    let front = trade_off.of_role(Role::Front).count();
    let mut letters = named(front, FRONT_MAX).into_iter().scan('a', |next, is_named| {
        let letter = *next;
        if is_named {
            *next = char::from_u32(letter as u32 + 1).unwrap_or('z');
        }
        Some(is_named.then_some(letter))
    });
    let designs = trade_off.designs.iter().map(|design| {
        let (sign, otherwise) = match design.role {
            Role::Asked => (asked.next(), '@'),
            Role::Store => (stores.next(), '#'),
            Role::Front => (letters.next(), 'o'),
            Role::Other => (None, '·'),
        };
        let sign = sign.flatten();
        SignedDesign { design, sign: sign.unwrap_or(otherwise), is_named: sign.is_some() }
    });
    designs.collect()
}

/// Which of so many have names if at most `most` may: the first, the last, and others between them
/// at even distances.
fn named(count: usize, most: usize) -> Vec<bool> {
    let mut is_named = vec![count <= most; count];
    if count > most {
        for nth in 0..most {
            is_named[nth * (count - 1) / (most - 1)] = true;
        }
    }
    is_named
}

/// All have names, or as many as may.
#[test]
fn names_are_spread() {
    assert_eq!(named(3, 4), [true; 3]);
    assert_eq!(named(7, 4), [true, false, true, false, true, false, true]);
    for count in 0..200 {
        let names = named(count, 12);
        assert_eq!(names.iter().filter(|is_named| **is_named).count(), count.min(12), "{count}");
        assert!(names.first() != Some(&false) && names.last() != Some(&false), "{count}");
    }
}
