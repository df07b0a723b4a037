//! Bytes as a set of the merge operator `SetUnion`. See `tamarack::fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tamarack::fuzz::set(input));
