//! Integers and byte strings, and a bounds-checked reader.

/// Appends `value` as a varint.
#[inline]
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// The number of bytes that [`put_varint`] appends.
#[inline]
pub fn varint_len(value: u64) -> usize {
    (70 - (value | 1).leading_zeros() as usize) / 7
}

/// The number of a varint of up to eight bytes, which are those of `word`.
#[inline]
pub(crate) fn close_gaps(word: u64) -> u64 {
    let word = word & 0x7F7F_7F7F_7F7F_7F7F;
    // Closes the gaps between the groups of 7 bits: by pairs, fours, and eights.
    let word = word & 0x007F_007F_007F_007F | (word & 0x7F00_7F00_7F00_7F00) >> 1;
    let word = word & 0x0000_3FFF_0000_3FFF | (word & 0x3FFF_0000_3FFF_0000) >> 2;
    word & 0x0FFF_FFFF | (word & 0x0FFF_FFFF_0000_0000) >> 4
}

/// Appends a byte string: its length as a varint, then the bytes.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Reads values from the front of a slice; `None` where the bytes are not such a value.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Makes a reader of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The bytes that were not read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Returns true at the end.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next `length` bytes.
    pub fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(taken)
    }

    /// One byte.
    pub fn u8(&mut self) -> Option<u8> {
        Some(self.take(1)?[0])
    }

    /// Four bytes, little-endian.
    pub fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    /// Eight bytes, little-endian.
    pub fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    /// A varint; `None` also if it does not fit 64 bits or is longer than necessary (one value has
    /// one encoding).
    #[inline]
    pub fn varint(&mut self) -> Option<u64> {
        // Most are lengths below 128. Searches in blocks spend much of their time here.
        match *self.rest {
            [byte @ 0..0x80, ref rest @ ..] => {
                self.rest = rest;
                Some(u64::from(byte))
            }
            _ => self.long_varint(),
        }
    }

    /// A varint of several bytes.
    #[inline]
    fn long_varint(&mut self) -> Option<u64> {
        // Sequences have three bytes and more. Up to eight are taken at once: the first byte
        // without a high bit is the last one.
        let Some(bytes) = self.rest.first_chunk() else { return self.varint_by_bytes() };
        let word = u64::from_le_bytes(*bytes);
        let ends = !word & 0x8080_8080_8080_8080;
        if ends == 0 {
            return self.varint_by_bytes();
        }
        let last = ends.trailing_zeros() / 8;
        if bytes[last as usize] == 0 {
            return None; // longer than needed
        }
        self.rest = &self.rest[last as usize + 1..];
        // Drops what follows.
        Some(close_gaps(word & (u64::MAX >> (56 - 8 * last))))
    }

    #[cold]
    fn varint_by_bytes(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7F);
            if shift == 63 && bits > 1 {
                return None;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return (byte != 0 || shift == 0).then_some(value);
            }
        }
        None
    }

    /// A byte string.
    pub fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.varint()?).ok()?;
        self.take(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_round_trip_at_every_length_whatever_follows() {
        for value in (0..64).flat_map(|shift| [(1u64 << shift) - 1, 1 << shift, u64::MAX >> shift]) {
            for rest in [&[][..], &[0; 9], &[0xFF; 9]] {
                let mut bytes = Vec::new();
                put_varint(&mut bytes, value);
                assert_eq!(bytes.len(), varint_len(value), "{value}");
                bytes.extend_from_slice(rest);
                let mut reader = Reader::new(&bytes);
                assert_eq!(reader.varint(), Some(value));
                assert_eq!(reader.rest(), rest);
            }
        }
    }

    #[test]
    fn varints_that_are_too_long_or_cut_are_refused() {
        let long = |last: u8| [0x81, 0x80, last, 1, 1, 1, 1, 1, 1];
        for bytes in [&[0x80, 0x00][..], &[0xFF; 10], &[0x80; 11], &[0x80], &[], &long(0)] {
            assert_eq!(Reader::new(bytes).varint(), None, "{bytes:?}");
        }
    }
}
