//! A test that cannot run here. In: what it lacks. Out: a line on standard error, which cargo shows although the test passes,
//! and which `make test` counts. With `CI` set it fails: there every test must run.

use std::fmt::Display;
use std::io::{self, Write};

/// Says that this test does not run, or not whole, because it lacks what it needs.
pub fn skip(why: impl Display) {
    assert!(std::env::var_os("CI").is_none(), "this test must run in CI: {why}");
    say_skipped(why);
}

/// Likewise, where CI may lack it too.
pub fn say_skipped(why: impl Display) {
    let thread = std::thread::current();
    let line = format!("skipped: {}: {why}\n", thread.name().unwrap_or("test"));
    // Not `eprintln!`: what it says is kept back while the test passes. One write, so that lines of several tests do not mix.
    let _ = io::stderr().write_all(line.as_bytes());
}
