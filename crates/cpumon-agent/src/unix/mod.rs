//! unix: signals, the service manager of `sd_notify(3)`, directories by the XDG rules.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1};
use signal_hook::flag;

mod commands;
mod local_time;
mod manager;
pub mod signals;
mod state_dir;

pub use self::commands::ServiceCommand;
pub(crate) use self::local_time::utc_offset_s;
pub use self::manager::{Manager, Watch};
pub use self::state_dir::default_state_dir;

/// BPF probes and /proc exist here.
pub(crate) const HAS_BPF: bool = true;
/// `--help` of `--probes`.
pub(crate) const PROBES_HELP: &str = "\
BPF probes besides threads and exits, separated by commas: sched (context switches), waits (wait reasons), irq (interrupts), hist \
(histograms of run delay), or none";
/// The conclusion of `doctor` where nothing is missing.
pub(crate) const EVERYTHING_WORKS: &str =
    "Everything works: every nanosecond of CPU time can be measured here.";
/// `--help` of `--state`, after what the directory is for.
pub(crate) const STATE_HELP: &str = "\
Directory of this machine's keys, which `enroll` stores [default: /var/lib/cpumon-agent/identities for root, else \
~/.local/state/cpumon-agent/identities]";
/// The names of sources, for `--help`.
pub(crate) const SOURCE_NAMES: &str = "auto|procfs|bpf";
/// `--help` of `--source`.
pub(crate) const SOURCE_HELP: &str = "\
What to measure with: bpf (needs root or capabilities), procfs (no privileges), or auto (bpf where permitted)";
/// The end of `cpumon-agent --help`.
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

/// The exit code of a shell for what Ctrl-C ended.
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

/// From now on SIGUSR1 sets this flag.
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
