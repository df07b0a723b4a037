//! Bytes as the edits of a manifest. See `tamarack::fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tamarack::fuzz::manifest(input));
