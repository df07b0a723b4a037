//! Bytes as the payload of a block. See `tamarack_format::fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tamarack_format::fuzz::block(input));
