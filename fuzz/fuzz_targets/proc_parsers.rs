//! /proc parsers and the scrubber of command lines on any bytes.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| cpumon_collect::parse::exercise(bytes));
