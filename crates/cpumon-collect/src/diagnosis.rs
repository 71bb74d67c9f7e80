//! What cpumon can measure on this machine, as data: [`Diagnosis`]. The platform's doctor makes the checks, and every
//! frontend prints them in the same words.

use std::path::PathBuf;

/// Roots of the files that the doctor reads, and whether it may load probes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DoctorOptions {
    /// Where procfs is mounted; tests put a tree of their own here.
    pub proc_root: PathBuf,
    pub sys_root: PathBuf,
    /// The root under which the files that reveal a container are read.
    pub fs_root: PathBuf,
    /// Load each probe for a moment: the only sure answer. Without it the files alone are read.
    pub load: bool,
}

impl Default for DoctorOptions {
    fn default() -> Self {
        Self { proc_root: "/proc".into(), sys_root: "/sys".into(), fs_root: "/".into(), load: true }
    }
}

/// All checks, in the order in which they are read best.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnosis {
    /// Grouped by topic.
    pub checks: Vec<Check>,
}

impl Diagnosis {
    /// Whether no check is `Missing` or `Unknown`.
    pub fn is_complete(&self) -> bool {
        !self.checks.iter().any(|check| matches!(check.state, CheckState::Missing | CheckState::Unknown))
    }

    pub fn count(&self, state: CheckState) -> usize {
        self.checks.iter().filter(|check| check.state == state).count()
    }
}

/// One thing that measuring needs or is shaped by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    pub topic: Topic,
    /// Name of the probe, tracepoint, capability or file.
    pub name: String,
    pub state: CheckState,
    pub finding: String,
    /// The data that it provides, or would provide.
    pub gives: String,
    /// How to get it; empty where nothing is missing or nothing helps.
    pub help: String,
    /// A sentence that belongs beside the conclusion although nothing is missing; mostly empty.
    pub caveat: String,
}

impl Check {
    pub(crate) fn new(topic: Topic, name: impl Into<String>, gives: impl Into<String>) -> Self {
        Self {
            topic,
            name: name.into(),
            state: CheckState::Unknown,
            finding: String::new(),
            gives: gives.into(),
            help: String::new(),
            caveat: String::new(),
        }
    }

    pub(crate) fn found(mut self, state: CheckState, finding: impl Into<String>) -> Self {
        (self.state, self.finding) = (state, finding.into());
        self
    }

    pub(crate) fn available(self, finding: impl Into<String>) -> Self {
        self.found(CheckState::Available, finding)
    }

    pub(crate) fn missing(self, finding: impl Into<String>, help: impl Into<String>) -> Self {
        let mut check = self.found(CheckState::Missing, finding);
        check.help = help.into();
        check
    }

    pub(crate) fn note(self, finding: impl Into<String>) -> Self {
        self.found(CheckState::Note, finding)
    }
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Topic {
    /// The BPF programs that cpumon loads, by probe.
    Probes,
    /// Permissions of this process.
    Rights,
    /// Features of the kernel.
    Kernel,
    /// The kernel's events that the probes attach to.
    Tracepoints,
    /// Where the kernel runs, and its effect on the figures.
    Surroundings,
}

impl Topic {
    /// The stable name, as in JSON output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Probes => "probes",
            Self::Rights => "rights",
            Self::Kernel => "kernel",
            Self::Tracepoints => "tracepoints",
            Self::Surroundings => "surroundings",
        }
    }
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum CheckState {
    Available,
    /// Absent, and full measuring needs it.
    Missing,
    Unknown,
    /// Neither good nor bad: a fact that shapes the meaning of figures.
    Note,
}

impl CheckState {
    /// The stable name, as in JSON output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Available => "available",
            Self::Missing => "missing",
            Self::Unknown => "unknown",
            Self::Note => "note",
        }
    }
}
