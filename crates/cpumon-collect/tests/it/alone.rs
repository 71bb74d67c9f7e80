//! A test in a process of its own, where no other test runs beside it.

use std::process::Command;

/// Set in that process.
const ALONE: &str = "CPUMON_IT_ALONE";

pub fn is_alone() -> bool {
    std::env::var_os(ALONE).is_some()
}

/// Runs a test in a process of its own, behind a line for the shell.
pub fn run_alone(before: &str, test: &str) {
    let script = format!("{before}\nexec \"$0\" --exact \"$1\"");
    let this = std::env::current_exe().unwrap();
    let child =
        Command::new("sh").args(["-ec", &script]).arg(this).arg(test).env(ALONE, "1").output().unwrap();
    let message = String::from_utf8_lossy(&child.stdout).into_owned();
    assert!(child.status.success() && message.contains("1 passed"), "{message}");
}
