//! Numbered fields: the extensible form of a record.
//!
//! ```text
//! fields   number varint │ length varint │ bytes │ number … │ …     ascending, to the record's end
//! ```
//!
//! A field that is zero or empty is left out, so that one value has one encoding. **The parity of a
//! number says how a reader treats an unknown field.** Even: the field is required, and a reader
//! that does not know it refuses the file by name. Odd: the field is optional, and the reader
//! ignores it.
//!
//! Numbers are never reused. Decoding is total. Tests: here, and with the records of this form.

use crate::coding::{Reader, put_bytes, put_varint, varint_len};

/// Collects the fields of a record.
#[derive(Debug, Default)]
pub struct FieldWriter(Vec<(u64, Vec<u8>)>);

impl FieldWriter {
    /// Adds bytes, unless they are empty.
    pub fn bytes(&mut self, number: u64, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.0.push((number, bytes.to_vec()));
        }
    }

    /// Adds a number, unless it is 0.
    pub fn number(&mut self, number: u64, value: u64) {
        if value != 0 {
            let mut bytes = Vec::with_capacity(varint_len(value));
            put_varint(&mut bytes, value);
            self.0.push((number, bytes));
        }
    }

    /// Appends the fields, in the order of their numbers.
    ///
    /// # Panics
    /// If two fields have the same number.
    pub fn finish(mut self, out: &mut Vec<u8>) {
        self.0.sort_unstable_by_key(|(number, _)| *number);
        assert!(self.0.windows(2).all(|pair| pair[0].0 < pair[1].0), "fields with one number: {:?}", self.0);
        for (number, bytes) in self.0 {
            put_varint(out, number);
            put_bytes(out, &bytes);
        }
    }
}

/// The fields of a record, taken in the order of their numbers.
#[derive(Debug)]
pub struct FieldReader<'a> {
    left: Vec<(u64, &'a [u8])>,
}

/// The reason why fields cannot be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FieldError {
    /// The bytes are damaged, or were never fields.
    Malformed,
    /// A newer version wrote the required field with this number.
    Unknown(u64),
}

impl<'a> FieldReader<'a> {
    /// Parses all of `bytes` as fields.
    pub fn new(bytes: &'a [u8]) -> Result<Self, FieldError> {
        let mut reader = Reader::new(bytes);
        let mut left: Vec<(u64, &[u8])> = Vec::new();
        while !reader.is_empty() {
            let field = reader.varint().and_then(|number| Some((number, reader.bytes()?)));
            let (number, bytes) = field.ok_or(FieldError::Malformed)?;
            if bytes.is_empty() || left.last().is_some_and(|(last, _)| *last >= number) {
                return Err(FieldError::Malformed);
            }
            left.push((number, bytes));
        }
        Ok(Self { left })
    }

    /// Takes the bytes of a field; empty if it was left out.
    pub fn bytes(&mut self, number: u64) -> &'a [u8] {
        match self.left.binary_search_by_key(&number, |(number, _)| *number) {
            Ok(at) => self.left.remove(at).1,
            Err(_) => &[],
        }
    }

    /// Takes a number; 0 if it was left out.
    pub fn number(&mut self, number: u64) -> Result<u64, FieldError> {
        let bytes = self.bytes(number);
        if bytes.is_empty() {
            return Ok(0);
        }
        let mut reader = Reader::new(bytes);
        let value = reader.varint().filter(|value| *value != 0 && reader.is_empty());
        value.ok_or(FieldError::Malformed)
    }

    /// Fails if a required field is left over.
    pub fn finish(self) -> Result<(), FieldError> {
        match self.left.iter().find(|(number, _)| number % 2 == 0) {
            Some((number, _)) => Err(FieldError::Unknown(*number)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_optional_fields_are_passed_over_and_required_ones_refused() {
        let fields = |numbers: &[u64]| {
            let mut writer = FieldWriter::default();
            numbers.iter().for_each(|number| writer.number(*number, number + 1000));
            let mut out = Vec::new();
            writer.finish(&mut out);
            out
        };
        let bytes = fields(&[9, 2, 300]);
        let mut reader = FieldReader::new(&bytes).expect("fields");
        assert_eq!((reader.number(2), reader.number(4), reader.number(300)), (Ok(1002), Ok(0), Ok(1300)));
        assert_eq!(reader.finish(), Ok(()));
        let mut reader = FieldReader::new(&bytes).expect("fields");
        assert_eq!(reader.number(2), Ok(1002));
        assert_eq!(reader.finish(), Err(FieldError::Unknown(300)));
        for cut in 1..bytes.len() {
            // Two fields of four bytes each end there.
            let is_whole = [4, 8].contains(&cut);
            assert_eq!(FieldReader::new(&bytes[..cut]).is_ok(), is_whole, "cut at {cut} of {bytes:x?}");
        }
    }

    #[test]
    fn one_value_has_one_encoding() {
        // Zero, empty, out of order, twice.
        for bytes in [&[2, 1, 0][..], &[2, 0], &[4, 1, 1, 2, 1, 1], &[2, 1, 1, 2, 1, 1]] {
            let reader = FieldReader::new(bytes);
            assert!(reader.and_then(|mut reader| reader.number(2)).is_err(), "{bytes:?}");
        }
    }
}
