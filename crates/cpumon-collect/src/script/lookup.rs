//! Which executables are interpreters: by their names, whatever the version or the processor behind them.

use super::interpreter::Interpreter;
use super::table::INTERPRETERS;

/// The interpreter of this name; `python3.11`, `python3.13t` and `ruby3.1` are versions.
pub(super) fn find(executable: &str) -> Option<&'static Interpreter> {
    INTERPRETERS.iter().find(|interpreter| {
        let is_loader = interpreter.names.iter().any(|name| is_loader(name, executable));
        is_loader
            || interpreter.names.iter().any(|name| executable.strip_prefix(name).is_some_and(is_version))
    })
}

/// Their names, without versions.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    INTERPRETERS.iter().flat_map(|interpreter| interpreter.names.iter().copied())
}

/// A version, with a letter for the kind of build.
fn is_version(rest: &str) -> bool {
    let number = rest.trim_end_matches(['d', 'm', 't', 'u']);
    (rest.is_empty() || number.ends_with(|c: char| c.is_ascii_digit()))
        && number.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'-'))
}

/// `ld-linux-x86-64.so.2`, `ld-musl-aarch64.so.1`, `ld-2.31.so`: behind the name comes the processor or the version.
fn is_loader(name: &str, executable: &str) -> bool {
    let rest = name.starts_with("ld").then(|| executable.strip_prefix(name)).flatten();
    rest.is_some_and(|rest| rest.contains(".so"))
}
