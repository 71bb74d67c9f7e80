//! The binary: nothing but the library's entry.

use std::process::ExitCode;

fn main() -> ExitCode {
    cpumon::main(std::env::args_os())
}
