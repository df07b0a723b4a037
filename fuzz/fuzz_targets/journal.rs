//! Bytes as files of a journal: the WAL or a manifest. See `tamarack::fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tamarack::fuzz::journal(input));
