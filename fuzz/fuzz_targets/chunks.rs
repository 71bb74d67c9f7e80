//! Blocks of the store: any bytes as each kind of block, and as the sections of a chunk.
#![no_main]

mod cost;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| cost::within(bytes.len(), || cpumon_store::exercise(bytes)));
