//! The directory in which an enrolled device stores its keys.

use std::path::PathBuf;

/// The directory of identities if the user names none: `%ProgramData%\cpumon\identities` for administrators and services,
/// `%LOCALAPPDATA%\cpumon\identities` for others.
#[must_use]
pub fn default_state_dir() -> PathBuf {
    let variable = if cpumon_files::is_privileged() { "ProgramData" } else { "LOCALAPPDATA" };
    let base = std::env::var_os(variable).map(PathBuf::from).filter(|dir| dir.is_absolute());
    base.map_or_else(|| PathBuf::from("identities"), |dir| dir.join("cpumon").join("identities"))
}
