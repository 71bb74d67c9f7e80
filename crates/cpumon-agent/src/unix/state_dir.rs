//! The directory in which an enrolled device stores its keys.

use std::path::PathBuf;

/// The directory of identities if the user names none: systemd's state directory, `/var/lib/cpumon-agent/identities` for
/// root, `~/.local/state/cpumon-agent/identities` for others.
#[must_use]
pub fn default_state_dir() -> PathBuf {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(listed) = variable("STATE_DIRECTORY") {
        // systemd.exec(5): several directories are separated by colons.
        return std::env::split_paths(&listed).next().unwrap_or_default().join("identities");
    }
    if cpumon_files::is_privileged() {
        return PathBuf::from("/var/lib/cpumon-agent/identities");
    }
    // The XDG Base Directory Specification says to ignore a relative path.
    let xdg = variable("XDG_STATE_HOME").filter(|dir| dir.is_absolute());
    let home = || variable("HOME").map(|home| home.join(".local/state"));
    xdg.or_else(home).map_or_else(|| PathBuf::from("identities"), |dir| dir.join("cpumon-agent/identities"))
}
