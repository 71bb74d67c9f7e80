//! Command lines made of the interpreters' options with a token in them, which no name may have, and any bytes.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| cpumon_collect::script::exercise(bytes));
