//! Skips a test that cannot run here. It writes the reason to standard error, where cargo shows it although the test passes and where
//! `make test` counts it. With `CI` set the test fails, because in CI every test must run.

use std::fmt::Display;
use std::io::{self, Write};

/// Reports that this test is skipped, or runs in part, because something is missing.
pub fn skip(why: impl Display) {
    assert!(std::env::var_os("CI").is_none(), "this test must run in CI: {why}");
    say_skipped(why);
}

/// As [`skip`], for something that CI may lack too.
pub fn say_skipped(why: impl Display) {
    let thread = std::thread::current();
    let line = format!("skipped: {}: {why}\n", thread.name().unwrap_or("test"));
    // Not `eprintln!`: cargo hides its output while the test passes. One write, so that lines of several tests do not mix.
    let _ = io::stderr().write_all(line.as_bytes());
}
