//! [`FlightArgs`]: the flags that all flight recorders share; [`FlightSettings`]: the settings in them.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use cpumon_collect::parse_interval;
use cpumon_model::Probes;

use super::ring::FlightDisk;
use super::rule::FlightRule;
use crate::error::FlagsError;
use crate::platform::HAS_BPF;

/// Length and memory of the flight recorder, and its directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlightSettings {
    /// Time.
    pub length: Duration,
    /// Memory for it, bytes.
    pub memory: u64,
    /// Directory of the windows.
    pub dir: PathBuf,
    /// Windows in it; the oldest are deleted.
    pub files: u32,
    /// When to write one.
    pub rules: Vec<FlightRule>,
    /// Limits on disk, to keep the time there; memory then has only the unwritten part.
    pub disk: Option<FlightDisk>,
}

impl FlightSettings {
    /// The time that a window has.
    pub(super) fn window(&self) -> Duration {
        self.disk.map_or(self.length, |disk| disk.window)
    }
}

/// Flags for the memory of the flight recorder and its rules.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Flight recorder")]
pub struct FlightArgs {
    /// Keep the context switches of the last TIME in memory (needs permission to use BPF); SIGUSR1, a rule or a request writes them as a
    /// trace, together with the second after it. `cpumon trace report FILE` reads it
    #[arg(long, hide = !HAS_BPF, value_name = "TIME", env = "CPUMON_FLIGHT_RECORDER", value_parser = flight_length)]
    pub flight_recorder: Option<Duration>,

    /// Memory for the context switches, 1MB or more; what does not fit is dropped, the oldest first
    #[arg(long, hide = !HAS_BPF, value_name = "SIZE", env = "CPUMON_FLIGHT_MEMORY", default_value = "64MB", value_parser = flight_bytes, requires = "flight_recorder")]
    pub flight_memory: u64,

    /// Write a trace when this is true, once a minute at most; may be repeated. `cpu>90%/5s`: all CPUs together, for 5 s.
    /// `process>90%/5s`: any single process, in % of one CPU. `program:NAME>150%/10s`: all processes with this executable or short name together; `container:NAME>…` and `service:NAME>…`: those of a container or service, named as in `cpumon report`. `delay>20ms`: a single run delay (needs --probes sched). `p99>5ms/10s`: the 99th percentile of all run delays (needs --probes hist).
    /// `unattributed>2%/5s`: the ledger does not balance
    #[arg(
        long,
        hide = !HAS_BPF,
        value_name = "RULE",
        env = "CPUMON_FLIGHT_WHEN",
        value_delimiter = ',',
        requires = "flight_recorder"
    )]
    pub flight_when: Vec<FlightRule>,
}

impl FlightArgs {
    /// Checks that the values of the rules are measured.
    ///
    /// # Errors
    /// A rule needs another probe than these.
    pub fn check(&self, probes: Probes) -> Result<(), FlagsError> {
        let needed = self.flight_when.iter().map(FlightRule::needs).fold(Probes::empty(), Probes::union);
        if probes.contains(needed) { Ok(()) } else { Err(FlagsError::RuleWithoutProbe) }
    }

    /// The requested settings, in memory, with windows in `dir`; `None`: no flight recorder.
    pub fn settings(&self, dir: PathBuf, files: u32) -> Option<FlightSettings> {
        let (length, memory, rules) = (self.flight_recorder?, self.flight_memory, self.flight_when.clone());
        Some(FlightSettings { length, memory, dir, files, rules, disk: None })
    }
}

/// Longer than any window that memory holds, and short enough to be counted in ns.
pub(crate) fn flight_length(text: &str) -> Result<Duration, String> {
    let length = parse_interval(text).map_err(|error| error.to_string())?;
    if length < Duration::from_secs(1) { Err("the shortest time is 1s".to_owned()) } else { Ok(length) }
}

pub(crate) fn flight_bytes(text: &str) -> Result<u64, String> {
    const LEAST: u64 = 1_000_000;
    let bytes = crate::size(text)?;
    if bytes < LEAST { Err("the smallest size is 1MB".to_owned()) } else { Ok(bytes) }
}
