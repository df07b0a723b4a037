//! Bytes as the payload of a block. See `tamarack::fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tamarack::fuzz::block(input));
