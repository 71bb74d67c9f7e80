//! Options of measuring: [`SourceOptions`] and [`ThreadPattern`].

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use cpumon_model::{Comm, Probes};

#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum SourceChoice {
    /// BPF where it is permitted, else procfs.
    #[default]
    Auto,
    /// Reads /proc; needs no privileges.
    Procfs,
    /// BPF task iterator and exit probes; root or `CAP_BPF` and `CAP_PERFMON`.
    Bpf,
    /// Windows: one call of the kernel for all threads; needs no privileges.
    Nt,
    /// Windows: a list of all threads, and a call for each; of those that may be opened.
    Toolhelp,
}

impl std::fmt::Display for SourceChoice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Procfs => "procfs",
            Self::Bpf => "bpf",
            Self::Nt => "nt",
            Self::Toolhelp => "toolhelp",
        })
    }
}

/// Capabilities that outlive the opening of a source.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RetainedCapabilities {
    /// Capability that shows the names of other users' programs (`CAP_SYS_PTRACE`).
    pub names: bool,
    /// Capability to read and write files in other users' directories (`CAP_DAC_OVERRIDE`).
    pub files: bool,
    /// Capabilities to load probes again (`CAP_BPF`, `CAP_PERFMON`), for callers that change the probes later.
    pub probes: bool,
}

impl RetainedCapabilities {
    /// Only the names of other users' programs.
    pub const NAMES: Self = Self { names: true, files: false, probes: false };
    /// Names, and files in other users' directories.
    pub const FILES: Self = Self { names: true, files: true, probes: false };
}

/// Files and ports that a thread needs from now on, beside reading the system's files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowedPaths {
    /// Whether it finds the addresses of names, whose configuration may be anywhere in /etc and /run.
    pub resolves: bool,
    pub read: Vec<PathBuf>,
    /// Files and directories that it reads and writes.
    pub write: Vec<PathBuf>,
    pub connect: Vec<u16>,
    /// TCP ports that it listens on; 0: one that the system picks.
    pub bind: Vec<u16>,
}

/// Which system calls a process needs from now on, beside measuring and sending.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// Whether the process makes and writes files.
    pub writes: bool,
    /// Whether the process loads BPF probes or reads them.
    pub bpf: bool,
    /// Whether the process accepts connections and has a store.
    pub serves: bool,
}

const PROBE_NAMES: [(&str, Probes); 5] = [
    ("sched", Probes::SCHED),
    ("waits", Probes::WAITS),
    ("irq", Probes::IRQ),
    ("hist", Probes::HISTOGRAMS),
    ("wakers", Probes::WAKERS),
];

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not a probe: expected sched, waits, irq, hist, wakers, several of them with commas between, or none"
)]
pub struct ParseProbesError {
    text: String,
}

/// Reads a list of probes: `sched,irq`, or `none`.
///
/// Errors: a name in the list is unknown.
pub fn parse_probes(list: &str) -> Result<Probes, ParseProbesError> {
    if list == "none" {
        return Ok(Probes::empty());
    }
    let find = |name: &str| {
        let known = PROBE_NAMES.iter().find(|(known, _)| *known == name);
        known
            .map(|(_, probe)| *probe)
            .ok_or_else(|| ParseProbesError { text: name.chars().take(64).collect() })
    };
    list.split(',').map(|name| find(name.trim())).collect()
}

/// What to measure, and how: the argument of [`crate::open`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceOptions {
    /// The source to open, or the choice between them.
    pub choice: SourceChoice,
    /// Where procfs is mounted; tests put a tree of their own here.
    pub proc_root: PathBuf,
    /// The root under which `etc/machine-id`, `var/lib/dbus/machine-id` and `boot/config-*` are read.
    pub fs_root: PathBuf,
    /// Read full command lines (secrets scrubbed); off unless the user asks, because they leak.
    pub cmdline: bool,
    /// Name a process that runs a script after that script: only its base name is taken from the command line.
    pub script_names: bool,
    /// On Windows: read the product name in the version resource of each executable on a fixed local disk.
    pub product_names: bool,
    /// Probes of the BPF source beyond threads and exits. [`Probes::EXITS`] is always on; wait reasons, interrupts and
    /// histograms include [`Probes::SCHED`]. [`Probes::WAKERS`] watches the switches too, but alone adds nothing to threads.
    pub probes: Probes,
    /// Threads that get a run-delay histogram of their own, where [`Probes::HISTOGRAMS`] runs.
    pub histogram_threads: Vec<ThreadPattern>,
    /// The interval aimed at; only passed on in [`cpumon_model::HostInfo::interval_ns`].
    pub interval: Duration,
    /// Name and version of the program, passed on in [`cpumon_model::HostInfo::agent`].
    pub agent: String,
}

impl Default for SourceOptions {
    fn default() -> Self {
        Self {
            choice: SourceChoice::Auto,
            proc_root: PathBuf::from("/proc"),
            fs_root: PathBuf::from("/"),
            cmdline: false,
            script_names: true,
            product_names: true,
            probes: Probes::empty(),
            histogram_threads: Vec::new(),
            interval: Duration::from_secs(1),
            agent: concat!("cpumon ", env!("CARGO_PKG_VERSION")).to_owned(),
        }
    }
}

// [`ThreadPattern`]: the threads that a user selects on the command line. It is no regular expression,
// because thread names have fifteen bytes: `*` is all that is needed, and costs no dependency.

/// Names threads: a thread id, or a name in which `*` matches any text, the empty one too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadPattern {
    text: String,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a thread's name (15 bytes at most, * matches any text) or its id")]
pub struct ParseThreadPatternError;

/// Longest pattern, bytes: twice a name, for its stars.
const MAX_BYTES: usize = 30;

impl FromStr for ThreadPattern {
    type Err = ParseThreadPatternError;

    fn from_str(text: &str) -> Result<Self, ParseThreadPatternError> {
        let literal = text.bytes().filter(|&byte| byte != b'*').count();
        let is_one = !text.is_empty() && text.len() <= MAX_BYTES && literal <= 15;
        if is_one { Ok(Self { text: text.to_owned() }) } else { Err(ParseThreadPatternError) }
    }
}

impl std::fmt::Display for ThreadPattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl ThreadPattern {
    pub fn matches(&self, tid: u32, name: &Comm) -> bool {
        // A thread may have a number for a name, so both are tried.
        self.text.parse() == Ok(tid) || is_match(self.text.as_bytes(), name.as_bytes())
    }
}

/// Goes back to the last star when the text behind it does not fit.
fn is_match(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut from, mut star) = (0, 0, None);
    while from < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, from));
                at += 1;
            }
            Some(byte) if *byte == name[from] => (at, from) = (at + 1, from + 1),
            _ => {
                let Some((star_at, taken)) = star else { return false };
                star = Some((star_at, taken + 1));
                (at, from) = (star_at + 1, taken + 1);
            }
        }
    }
    pattern.get(at..).is_none_or(|rest| rest.iter().all(|&byte| byte == b'*'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_are_named() {
        assert_eq!(parse_probes("none"), Ok(Probes::empty()));
        assert_eq!(parse_probes("sched, irq"), Ok(Probes::SCHED | Probes::IRQ));
        assert_eq!(parse_probes("hist"), Ok(Probes::HISTOGRAMS));
        for wrong in ["", "sched,", "all", "exits"] {
            assert!(parse_probes(wrong).unwrap_err().to_string().contains("is not a probe"), "{wrong}");
        }
    }

    #[test]
    fn names_and_ids() {
        let named = |pattern: &str, name: &str| {
            pattern.parse::<ThreadPattern>().unwrap().matches(77, &Comm::from(name))
        };
        for (pattern, name) in [
            ("nginx", "nginx"),
            ("tokio*", "tokio-runtime-w"),
            ("*w", "tokio-runtime-w"),
            ("*", ""),
            ("k*r*/1", "kworker/1"),
            ("77", "any"),
            ("*aab", "aaab"),
        ] {
            assert!(named(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in
            [("nginx", "nginx2"), ("nginx", ""), ("78", "any"), ("a*b", "abc"), ("*x*", "abc")]
        {
            assert!(!named(pattern, name), "{pattern} {name}");
        }
        for wrong in ["", "a-name-of-16-byte", &"*".repeat(31)] {
            assert_eq!(wrong.parse::<ThreadPattern>(), Err(ParseThreadPatternError), "{wrong}");
        }
    }
}
