//! Bytes as a table file. See `tamarack::fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tamarack::fuzz::table(input));
