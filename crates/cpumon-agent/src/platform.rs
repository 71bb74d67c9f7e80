//! Picks the operating system's part of this crate: the only file here that may (docs/adr/0023-platform-files.md).

#[cfg(unix)]
#[path = "unix/mod.rs"]
mod system;

#[cfg(windows)]
#[path = "windows/mod.rs"]
mod system;

pub(crate) use system::{
    EVERYTHING_WORKS, HAS_BPF, PROBES_HELP, SOURCE_HELP, SOURCE_NAMES, STATE_HELP, catch_stop, hurry,
    on_window_signal, utc_offset_s,
};
pub use system::{EXAMPLES, Manager, ServiceCommand, WatchdogThread, default_state_dir, signals};
