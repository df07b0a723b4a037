//! Bytes as a set of digests. See `tamarack_filter::fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tamarack_filter::fuzz::digests(input));
