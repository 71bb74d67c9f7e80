//! Copies of programs, to run them under another name or where other users can.

use std::path::Path;
use std::process::Command;

/// Copies a program by `cp`. Copied by this process, its file would be open for writing in every child that another test starts at
/// this moment, and then running it fails (`ETXTBSY`, execve(2)).
pub fn copy_program(from: impl AsRef<Path>, to: impl AsRef<Path>) {
    let copied = Command::new("cp").arg(from.as_ref()).arg(to.as_ref()).status().unwrap();
    assert!(copied.success(), "cp of {}: {copied}", from.as_ref().display());
}
