//! [`AgentArgs`]: the command line of `cpumon agent` and the slim `cpumon-agent`. Each flag has an environment variable.
//! [`crate::Settings`] holds the same with every default applied.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, ValueEnum};
use cpumon_collect::{SourceChoice, ThreadPattern, USUAL_PROBES, parse_interval, parse_probes};
use cpumon_link::Target;
use cpumon_link::spool::SpoolOptions;
use cpumon_model::{HostId, Probes};
use cpumon_wire::encrypted::OVERHEAD_BYTES;
use cpumon_wire::v2::MIN_DATAGRAM_BYTES;

use crate::error::FlagsError;
use crate::flight::{FlightArgs, flight_bytes, flight_length};
use crate::platform::{HAS_BPF, PROBES_HELP, SOURCE_HELP, SOURCE_NAMES, STATE_HELP};
use crate::{CpuShare, To, whole_number};

/// The flags of the agent.
#[derive(Args, Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
#[allow(rustdoc::broken_intra_doc_links, reason = "the text is the help: [IPV6] is an address")]
#[command(next_help_heading = "Destination", group = ArgGroup::new("on_disk").args(["record", "spool"]).multiple(true))]
pub struct AgentArgs {
    /// Send to this receiver; may be repeated. ADDR[:PORT], [IPV6]:PORT or HOST[:PORT] sends datagrams (default port 3001).
    /// `tls://HOST[:PORT]` opens a TLS connection to a receiver that this machine is enrolled with (default port 3002); of several,
    /// the first that answers is used. `enrolled` means every receiver that this machine is enrolled with
    #[arg(long, value_name = "ADDR:PORT", env = "CPUMON_TO", value_delimiter = ',')]
    pub to: Vec<To>,

    /// Directory of this machine's keys.
    #[arg(long, value_name = "DIR", env = "CPUMON_STATE", help = STATE_HELP)]
    pub state: Option<PathBuf>,

    /// Do not search the subnet for a tls:// receiver whose address has changed
    #[arg(long, env = "CPUMON_NO_DISCOVERY")]
    pub no_discovery: bool,

    /// Broadcast on every IPv4 subnet of this machine [default without another target or --record; default port: 3001]
    #[arg(
        long,
        value_name = "PORT",
        env = "CPUMON_BROADCAST",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "3001",
        value_parser = whole_number::<u16>(1..=65_535)
    )]
    pub broadcast: Option<u16>,

    /// Send to this multicast group; may be repeated
    #[arg(
        long,
        value_name = "GROUP:PORT",
        env = "CPUMON_MULTICAST",
        value_delimiter = ',',
        value_parser = parse_group
    )]
    pub multicast: Vec<Target>,

    /// Time to live of multicast datagrams; 1 keeps them on the link
    #[arg(long, value_name = "HOPS", env = "CPUMON_TTL", default_value_t = 1, value_parser = whole_number::<u8>(1..=255))]
    pub ttl: u8,

    /// Broadcast and multicast on this interface only; may be repeated [default: all that are up, except loopback]
    #[arg(long = "interface", value_name = "NAME", env = "CPUMON_INTERFACE", value_delimiter = ',')]
    pub interfaces: Vec<String>,

    /// Send datagrams in version 1 of the protocol, for receivers of 2012 and 2013 (cpumonRcv): each process in each set, idle ones
    /// with zeros; an apostrophe in a name as U+2019
    #[arg(long, env = "CPUMON_V1")]
    pub v1: bool,

    /// Encrypt datagrams with the first group key in this file (mode 0600), made by `cpumon key new` on the receiver
    #[arg(long, value_name = "FILE", env = "CPUMON_GROUP_KEY", conflicts_with = "v1")]
    pub group_key: Option<PathBuf>,

    /// Longest datagram in bytes [default: 1400, which fits common tunnels; with --v1 32768, the most the original accepts]
    #[arg(long, value_name = "BYTES", env = "CPUMON_MAX_DATAGRAM", value_parser = whole_number::<u16>(768..=65_000))]
    pub max_datagram: Option<u16>,

    /// Repeat names and idle threads every N snapshots, for receivers that start later or lost datagrams
    #[arg(long, value_name = "N", env = "CPUMON_REFRESH", value_parser = whole_number::<u32>(1..=u32::MAX.into()))]
    pub refresh: Option<u32>,

    /// Also write all snapshots to this directory; without a target nothing is sent. `cpumon import DIR` reads it into a store
    #[arg(long, alias = "log", value_name = "DIR", env = "CPUMON_RECORD", help_heading = "Recording")]
    pub record: Option<PathBuf>,

    /// Queue snapshots for tls:// receivers in this directory instead of in memory, so that they survive a restart; a snapshot is
    /// deleted when a receiver has stored it
    #[arg(long, value_name = "DIR", env = "CPUMON_SPOOL", help_heading = "Recording")]
    pub spool: Option<PathBuf>,

    /// Largest size of the recording, and of the spool, 64KiB or more; the oldest snapshots are deleted first, and counted
    #[arg(long, value_name = "SIZE", env = "CPUMON_SPOOL_BYTES", default_value = "256MiB", value_parser = spool_bytes, requires = "on_disk", help_heading = "Recording")]
    pub spool_bytes: u64,

    /// When the recording and the spool are written to the disk
    #[arg(
        long,
        value_name = "WHEN",
        env = "CPUMON_SPOOL_SYNC",
        value_enum,
        default_value_t,
        requires = "on_disk",
        help_heading = "Recording"
    )]
    pub spool_sync: SpoolSync,

    /// With --spool-sync interval: the time between two writes, and so how much data a kill or a power cut can cost
    #[arg(long, value_name = "TIME", env = "CPUMON_SPOOL_INTERVAL", default_value = "10s", value_parser = parse_interval, requires = "on_disk", help_heading = "Recording")]
    pub spool_interval: Duration,

    /// The flight recorder.
    #[command(flatten)]
    pub flight: FlightArgs,

    /// Directory of the traces that --flight-recorder writes
    #[arg(
        long,
        hide = !HAS_BPF,
        value_name = "DIR",
        env = "CPUMON_FLIGHT_DIR",
        requires = "flight_recorder",
        help_heading = "Flight recorder"
    )]
    pub flight_dir: Option<PathBuf>,

    /// Traces to leave in the directory; the oldest are deleted first
    #[arg(long, hide = !HAS_BPF, value_name = "N", env = "CPUMON_FLIGHT_FILES", default_value_t = 20, value_parser = whole_number::<u32>(1..=u32::MAX.into()), requires = "flight_recorder", help_heading = "Flight recorder")]
    pub flight_files: u32,

    /// Keep the context switches on disk instead, in segments in the directory; with the traces they take at most this, 1MB or more.
    /// --flight-recorder may then be hours, and `cpumon trace report DIR` reads all of it
    #[arg(long, hide = !HAS_BPF, value_name = "SIZE", env = "CPUMON_FLIGHT_BYTES", value_parser = flight_bytes, requires = "flight_recorder", help_heading = "Flight recorder")]
    pub flight_bytes: Option<u64>,

    /// With --flight-bytes: the time before its moment that a trace has at least
    #[arg(long, hide = !HAS_BPF, value_name = "TIME", env = "CPUMON_FLIGHT_WINDOW", default_value = "30s", value_parser = flight_length, requires = "flight_bytes", help_heading = "Flight recorder")]
    pub flight_window: Duration,

    /// Time between two snapshots, 100ms to 1h [default: 1s; with --v1 3s]
    #[arg(long, value_name = "TIME", env = "CPUMON_INTERVAL", value_parser = parse_interval, help_heading = "Measuring")]
    pub interval: Option<Duration>,

    /// What to measure with.
    #[arg(
        long,
        help = SOURCE_HELP,
        value_name = SOURCE_NAMES,
        env = "CPUMON_SOURCE",
        default_value_t,
        help_heading = "Measuring"
    )]
    pub source: SourceChoice,

    /// What to watch beside the lists of threads.
    #[arg(
        long,
        help = PROBES_HELP,
        value_name = "LIST",
        env = "CPUMON_PROBES",
        default_value = USUAL_PROBES.0,
        value_parser = parse_probes,
        help_heading = "Measuring"
    )]
    pub probes: Probes,

    /// With --probes hist: also one histogram for each thread of this name (* matches any text) or id; may be repeated
    #[arg(
        long,
        hide = !HAS_BPF,
        value_name = "PATTERN",
        env = "CPUMON_HISTOGRAM_THREADS",
        value_delimiter = ',',
        help_heading = "Measuring"
    )]
    pub histogram_threads: Vec<ThreadPattern>,

    /// Limit the agent and its probes to this share of one CPU, such as 1%; probes that cost too much are switched off for a while, and if that is not enough, snapshots are taken less often; the data records both
    #[arg(long, value_name = "PERCENT", env = "CPUMON_MAX_CPU", help_heading = "Measuring")]
    pub max_cpu: Option<CpuShare>,

    /// Also send full command lines, with passwords and tokens redacted [default: program names only]
    #[arg(long, env = "CPUMON_CMDLINE", help_heading = "Measuring")]
    pub cmdline: bool,

    /// Name processes after their executable (python3.11) even where they run a script (nightly-report); no command line is read then
    #[arg(long, hide = !HAS_BPF, env = "CPUMON_NO_SCRIPT_NAMES", conflicts_with = "cmdline", help_heading = "Measuring")]
    pub no_script_names: bool,

    /// Do not open executables to read the product names in them (those on fixed local disks, each once)
    #[arg(long, hide = HAS_BPF, env = "CPUMON_NO_PRODUCT_NAMES", help_heading = "Measuring")]
    pub no_product_names: bool,

    /// Report this host name instead of the machine's own
    #[arg(long, value_name = "NAME", env = "CPUMON_HOST_NAME", value_parser = parse_host_name, help_heading = "Measuring")]
    pub host_name: Option<String>,

    /// Directory where procfs is mounted, for containers that see the host's procfs elsewhere
    #[arg(
        long,
        hide = !HAS_BPF,
        value_name = "DIR",
        env = "CPUMON_PROC_ROOT",
        default_value = "/proc",
        help_heading = "Measuring"
    )]
    pub proc_root: PathBuf,

    /// Stop after N snapshots
    #[arg(long, value_name = "N", env = "CPUMON_COUNT", value_parser = whole_number::<u64>(1..=u64::MAX), help_heading = "Measuring")]
    pub count: Option<u64>,

    /// Log the size and cost of each snapshot
    #[arg(short, long, env = "CPUMON_VERBOSE", help_heading = "Messages")]
    pub verbose: bool,

    /// Log warnings and errors only
    #[arg(short, long, env = "CPUMON_QUIET", conflicts_with = "verbose", help_heading = "Messages")]
    pub quiet: bool,
}

/// When a recording or a spool reaches the disk.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum SpoolSync {
    /// Every --spool-interval, which spares flash memory
    #[default]
    Interval,
    /// After each snapshot
    Always,
    /// When the agent ends; until then a kill or a power cut costs everything
    Exit,
}

impl AgentArgs {
    /// Checks combinations of flags that clap cannot check.
    ///
    /// # Errors
    /// Names the flags that contradict each other, and what to give instead.
    pub fn check(&self) -> Result<(), FlagsError> {
        let has_tls = self.to.iter().any(|to| matches!(to, To::Tls(_) | To::Enrolled));
        let has_datagrams = self.broadcast.is_some()
            || !self.multicast.is_empty()
            || self.to.iter().any(|to| matches!(to, To::Udp(_)))
            || (!has_tls && self.record.is_none());
        let least = MIN_DATAGRAM_BYTES + OVERHEAD_BYTES;
        let of_other_system = self.no_product_names.then_some("--no-product-names");
        if let Some(flag) = if HAS_BPF { of_other_system } else { self.needs_bpf() } {
            return Err(FlagsError::NotHere { flag });
        }
        if self.to.contains(&To::Enrolled) && self.to.iter().any(|to| matches!(to, To::Tls(_))) {
            return Err(FlagsError::EnrolledAndTls);
        }
        if self.spool.is_some() && !has_tls {
            return Err(FlagsError::SpoolWithoutTls);
        }
        if self.spool.is_some() && self.spool == self.record {
            return Err(FlagsError::SpoolIsRecording);
        }
        if self.flight.flight_recorder.is_some() && self.flight_dir.is_none() {
            return Err(FlagsError::FlightWithoutDir);
        }
        self.flight.check(self.probes)?;
        if self.group_key.is_some() && !has_datagrams {
            return Err(FlagsError::KeyWithoutDatagrams);
        }
        if self.group_key.is_some() && self.max_datagram.is_some_and(|bytes| usize::from(bytes) < least) {
            return Err(FlagsError::ShortDatagrams);
        }
        Ok(())
    }

    /// The first flag given for which Windows has nothing.
    fn needs_bpf(&self) -> Option<&'static str> {
        let given = [
            (self.flight.flight_recorder.is_some(), "--flight-recorder"),
            (self.probes.contains(Probes::HISTOGRAMS), "--probes hist"),
            (!self.histogram_threads.is_empty(), "--histogram-threads"),
            (self.no_script_names, "--no-script-names"),
            (self.proc_root != *"/proc", "--proc-root"),
        ];
        given.into_iter().find(|(is_given, _)| *is_given).map(|(_, flag)| flag)
    }

    /// The level of messages that `-v` and `-q` ask for.
    pub fn log_level(&self) -> log::LevelFilter {
        match (self.quiet, self.verbose) {
            (true, _) => log::LevelFilter::Warn,
            (false, true) => log::LevelFilter::Debug,
            (false, false) => log::LevelFilter::Info,
        }
    }
}

fn parse_group(text: &str) -> Result<Target, String> {
    let target: Target = text.parse().map_err(|error: cpumon_link::ParseTargetError| error.to_string())?;
    match target {
        group @ Target::Multicast { .. } => Ok(group),
        other => Err(format!("{other} is not a multicast group, such as 239.77.0.1:3001 or [ff02::1]:3001")),
    }
}

fn spool_bytes(text: &str) -> Result<u64, String> {
    let least = SpoolOptions::MIN_BYTES;
    let bytes = crate::size(text)?;
    if bytes < least { Err(format!("the smallest size is {} KiB", least >> 10)) } else { Ok(bytes) }
}

/// Refuses control characters, because receivers print the name on terminals.
fn parse_host_name(text: &str) -> Result<String, String> {
    const MAX_BYTES: usize = 255;
    if text.is_empty() || text.len() > MAX_BYTES {
        return Err(format!("a host name has 1 to {MAX_BYTES} bytes"));
    }
    if text.chars().any(char::is_control) {
        return Err("a host name must not contain control characters".to_owned());
    }
    if text.parse::<HostId>().is_ok() {
        return Err("a host name must not be a host id: receivers would rename the host".to_owned());
    }
    Ok(text.to_owned())
}

/// The targets and their current addresses, for the start line.
pub(crate) fn describe_targets(targets: &[Target], now: impl Iterator<Item = SocketAddr>) -> String {
    let named: Vec<String> = targets.iter().map(ToString::to_string).collect();
    let addresses: Vec<String> = now.map(|address| address.to_string()).collect();
    if addresses.is_empty() {
        format!("{} (no address now)", named.join(", "))
    } else if addresses == named {
        named.join(", ")
    } else {
        format!("{} ({})", named.join(", "), addresses.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        agent: AgentArgs,
    }

    fn parse(arguments: &str) -> Result<AgentArgs, String> {
        let words = std::iter::once("agent").chain(arguments.split_whitespace());
        Cli::try_parse_from(words).map(|cli| cli.agent).map_err(|error| error.to_string())
    }

    #[test]
    fn targets_of_every_kind() {
        let args = parse("--to 10.0.0.1 --to [::1]:9 --broadcast --multicast [ff02::1]:7").unwrap();
        assert_eq!(args.to, ["10.0.0.1:3001".parse().unwrap(), "[::1]:9".parse().unwrap()]);
        assert_eq!(args.broadcast, Some(3001));
        assert_eq!(args.multicast, ["[ff02::1]:7".parse().unwrap()]);
        assert_eq!(parse("--broadcast=4000").unwrap().broadcast, Some(4000));
        assert_eq!(parse("").unwrap().broadcast, None);
    }

    #[test]
    fn a_spool_needs_a_receiver_that_acknowledges() {
        let check = |arguments: &str| parse(arguments).unwrap().check().map_err(|error| error.to_string());
        assert!(check("--spool d").unwrap_err().contains("--to tls://"));
        assert!(check("--spool d --to 10.0.0.1").is_err() && check("--to 10.0.0.1").is_ok());
        assert!(check("--spool d --to tls://receiver --spool-bytes 1MiB").is_ok());
        assert!(
            check("--spool d --record d --to tls://receiver")
                .unwrap_err()
                .contains("two different directories")
        );
    }

    #[test]
    fn a_group_key_needs_datagrams() {
        let check = |arguments: &str| parse(arguments).unwrap().check().map_err(|error| error.to_string());
        for good in ["", "--broadcast", "--to 10.0.0.1", "--to tls://d,10.0.0.1", "--record d --broadcast"] {
            check(&format!("{good} --group-key k")).unwrap();
        }
        for bad in ["--to tls://d", "--record d"] {
            assert!(check(&format!("{bad} --group-key k")).unwrap_err().contains("none are sent"));
        }
        assert!(check("--group-key k --max-datagram 800").unwrap_err().contains("at least 826"));
        assert!(parse("--group-key k --v1").unwrap_err().contains("cannot be used with"));
    }

    #[test]
    fn a_flag_for_another_system_is_refused() {
        let flag = if HAS_BPF { "--no-product-names" } else { "--no-script-names" };
        let refused = parse(flag).unwrap().check().unwrap_err().to_string();
        assert_eq!(refused, format!("{flag}: not available on this operating system"));
    }

    #[test]
    fn errors_name_the_flag_and_the_reason() {
        for (arguments, expected) in [
            ("--to 10.0.0.1:0", "the port is not a number"),
            ("--multicast 10.0.0.1:5", "not a multicast group"),
            ("--broadcast=0", "not a whole number from 1 to 65535"),
            ("--interval 5ms", "100ms to 1h"),
            ("--source ebpf", "is not a source: expected auto, "),
            ("--host-name \u{1b}[2J", "control characters"),
            ("--max-datagram 100", "not a whole number from 768 to 65000"),
            ("--spool-sync always", "required"),
            ("--record d --spool-bytes 10k", "64 KiB"),
            ("--record d --spool-sync never", "invalid value"),
            ("--spool-sync always", "--record"),
            ("-q -v", "cannot be used with"),
        ] {
            let error = parse(arguments).unwrap_err();
            assert!(error.contains(expected), "{arguments}: {error}");
        }
    }

    #[test]
    fn every_flag_has_an_environment_variable() {
        use clap::CommandFactory;
        for argument in Cli::command().get_arguments().filter(|argument| argument.get_id() != "help") {
            let env = argument.get_env().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            let long = argument.get_long().unwrap_or_default();
            assert_eq!(env, format!("CPUMON_{}", long.to_uppercase().replace('-', "_")));
        }
    }

    #[test]
    fn the_old_name_of_record_is_understood() {
        assert_eq!(parse("--log d").unwrap().record, Some(PathBuf::from("d")));
    }

    #[test]
    fn messages_grow_and_shrink() {
        let level = |arguments: &str| parse(arguments).unwrap().log_level();
        assert!(level("-q") < level("") && level("") < level("-v"));
    }
}
