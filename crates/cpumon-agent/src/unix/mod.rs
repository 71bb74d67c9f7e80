//! The agent on Unix: it handles signals, reports its state to the service manager by `sd_notify(3)`, keeps its files in the directories of
//! the XDG rules, and reads the local time that v1 datagrams carry.

mod manager;

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::error::ErrorKind;
use clap::{ArgMatches, Command, Error, FromArgMatches, Subcommand};
use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1};
use signal_hook::flag;

pub use self::manager::{Manager, WatchdogThread};

/// Signals that wake a thread.
pub mod signals {
    use std::io;
    use std::sync::Arc;

    use cpumon_collect::RetainedCapabilities;
    use cpumon_model::SourceKind;
    use signal_hook::consts::SIGXFSZ;

    const SIGNAL_STACK_BYTES: usize = 64 << 10;

    /// From now on a write beyond the limit of a file's size (`ulimit -f`) fails with EFBIG, as it fails on a full disk; SIGXFSZ would end the
    /// process without a word. A handler and not `SIG_IGN`, which programs that this one starts would inherit.
    ///
    /// # Errors
    /// The system refuses a handler.
    pub fn survive_file_limit() -> io::Result<()> {
        signal_hook::flag::register(SIGXFSZ, Arc::default()).map(drop)
    }

    /// From now on each of these signals unparks the calling thread. Register flags that a signal sets before this call.
    ///
    /// A thread of its own waits for the signals, so that a [`Sampler`](crate::Sampler) need not wake up to check its flag. A signal
    /// handler alone is not enough: it can only set a flag, which a sleep that is about to begin would miss.
    ///
    /// # Errors
    /// The system refuses a handler or a thread.
    pub fn wake_on(signals: &[i32]) -> io::Result<()> {
        let mut caught = signal_hook::iterator::Signals::new(signals)?;
        let sleeper = std::thread::current();
        let wake = move || {
            // The thread inherited the capabilities of its parent, and needs none.
            if let Err(error) =
                cpumon_collect::drop_capabilities(SourceKind::Unknown, RetainedCapabilities::NAMES)
            {
                log::debug!("the signal thread could not give up its capabilities: {error}");
            }
            caught.forever().for_each(|_| sleeper.unpark());
        };
        std::thread::Builder::new().name("signals".to_owned()).stack_size(SIGNAL_STACK_BYTES).spawn(wake)?;
        Ok(())
    }
}

pub(crate) const HAS_BPF: bool = true;
pub(crate) const PROBES_HELP: &str = "\
BPF probes besides threads and exits, separated by commas: sched (context switches), waits (wait reasons), irq (interrupts), hist \
(histograms of run delay), wakers (who ended each wait of 1 ms and more), or none";
/// The conclusion of `doctor` where nothing is missing.
pub(crate) const EVERYTHING_WORKS: &str =
    "Everything works: every nanosecond of CPU time can be measured here.";
/// `--help` of `--state`, after the purpose of the directory.
pub(crate) const STATE_HELP: &str = "\
Directory of this machine's keys, which `enroll` stores [default: /var/lib/cpumon-agent/identities for root, else \
~/.local/state/cpumon-agent/identities]";
pub(crate) const SOURCE_NAMES: &str = "auto|procfs|bpf";
pub(crate) const SOURCE_HELP: &str = "\
What to measure with: bpf (needs root or capabilities), procfs (no privileges), or auto (bpf where permitted)";
pub const EXAMPLES: &str = "\
EXAMPLES:
  Broadcast on the subnet, where `cpumon serve` receives it:
    cpumon-agent
  Send to one receiver, with all probes:
    cpumon-agent --to 10.77.0.1 --probes sched,waits,irq
  Send over TLS after `cpumon-agent enroll`; queue on disk while the receiver is away:
    cpumon-agent --to enrolled --spool /var/lib/cpumon-agent/spool
  Record without a network, at most 1 GB:
    cpumon-agent --record /var/tmp/cpumon --spool-bytes 1GB";

/// The exit code of a shell for a program that Ctrl-C ended.
const INTERRUPTED: i32 = 130;

/// From now on SIGINT and SIGTERM set `stop` and wake the calling thread, SIGINT sets `interrupted` too, and a second one ends the process.
pub(crate) fn catch_stop(stop: &Arc<AtomicBool>, interrupted: &Arc<AtomicBool>) -> io::Result<()> {
    for signal in [SIGINT, SIGTERM] {
        // Handlers run in the order of registration: at the first signal the flag is not set yet, at the
        // second it is.
        flag::register_conditional_shutdown(signal, INTERRUPTED, Arc::clone(stop))?;
        flag::register(signal, Arc::clone(stop))?;
    }
    flag::register(SIGINT, Arc::clone(interrupted))?;
    signals::wake_on(&[SIGINT, SIGTERM])
}

/// Makes SIGUSR1 set `flag`.
pub(crate) fn on_window_signal(flag: &Arc<AtomicBool>) -> io::Result<()> {
    flag::register(SIGUSR1, Arc::clone(flag)).map(|_| ())
}

/// Raises the calling thread's priority: where every CPU is busy, a reader that waits for its turn loses events. Without the right to
/// it, nothing changes.
pub(crate) fn hurry() {
    // setpriority(2): of the calling thread, whatever the function is called.
    if let Err(error) = rustix::process::setpriority_process(None, -20) {
        log::debug!("cannot raise the priority: {error}");
    }
}

/// The directory of identities if the user names none: systemd's state directory, `/var/lib/cpumon-agent/identities` for
/// root, `~/.local/state/cpumon-agent/identities` for others.
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

/// Local time less UTC at a moment (ns since the UNIX epoch), seconds, by the system's time zone (`TZ`, /etc/localtime);
/// 0 if the system does not know it. Only v1 datagrams need it, they carry local time without a zone.
#[expect(unsafe_code, reason = "localtime_r(3) has no safe wrapper in the standard library")]
pub fn utc_offset_s(wall_ns: i64) -> i32 {
    // A `time_t`, whose name is deprecated for musl.
    let seconds = wall_ns.div_euclid(1_000_000_000);
    // SAFETY: all-zero bytes are a valid `tm` (integers and a null pointer).
    let mut local: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to values on this stack; localtime_r keeps neither.
    let result = unsafe { libc::localtime_r(&raw const seconds, &raw mut local) };
    if result.is_null() { 0 } else { i32::try_from(local.tm_gmtoff).unwrap_or(0) }
}

/// None: unix has no command of its own; the units of systemd start the agent as it is.
#[derive(Clone, Copy, Debug)]
pub enum ServiceCommand {}

impl ServiceCommand {
    pub fn run(&self, _program: &'static str) -> ExitCode {
        match *self {}
    }
}

impl FromArgMatches for ServiceCommand {
    fn from_arg_matches(_matches: &ArgMatches) -> Result<Self, Error> {
        Err(Error::new(ErrorKind::InvalidSubcommand))
    }

    fn update_from_arg_matches(&mut self, _matches: &ArgMatches) -> Result<(), Error> {
        match *self {}
    }
}

impl Subcommand for ServiceCommand {
    fn augment_subcommands(command: Command) -> Command {
        command
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        command
    }

    fn has_subcommand(_name: &str) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offset_is_one_that_exists() {
        for wall_ns in [0, 1_792_000_000_000_000_000, i64::MIN, i64::MAX] {
            let offset = utc_offset_s(wall_ns);
            assert!((-15 * 3600..=15 * 3600).contains(&offset), "{offset}");
        }
    }
}
