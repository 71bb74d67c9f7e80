//! What the user says: [`AgentArgs`], shared by `cpumon agent` and the slim `cpumon-agent`. Each flag has an environment
//! variable. [`crate::Settings`] is what the program makes of it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::ensure;
use clap::{ArgGroup, Args, ValueEnum};
use cpumon_collect::{SourceChoice, ThreadPattern, parse_interval, parse_probes};
use cpumon_link::Target;
use cpumon_model::Probes;

use crate::CpuShare;
use cpumon_link::spool::SpoolOptions;
use cpumon_wire::sealed::OVERHEAD_BYTES;
use cpumon_wire::v2::MIN_DATAGRAM_BYTES;

use crate::To;

/// How long, to whom and by which means to measure and send.
#[derive(Args, Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
#[allow(rustdoc::broken_intra_doc_links, reason = "the text is the help: [IPV6] is an address")]
#[command(next_help_heading = "Where to", group = ArgGroup::new("kept").args(["log", "spool"]).multiple(true))]
pub struct AgentArgs {
    /// Send to this receiver; may be repeated. ADDR, ADDR:PORT, [IPV6]:PORT, HOST or HOST:PORT; the port is 3001 unless given.
    /// tls://ADDR:PORT is the secure stream to a receiver that this machine is enrolled with (port 3002 unless given); of
    /// several, the first that answers. enrolled: the receivers that this machine is enrolled with, where it was
    #[arg(long, value_name = "ADDR:PORT", env = "CPUMON_TO", value_delimiter = ',')]
    pub to: Vec<To>,

    /// Where `enroll` keeps this machine's keys [default: the state directory]
    #[arg(long, value_name = "DIR", env = "CPUMON_STATE")]
    pub state: Option<PathBuf>,

    /// Do not ask the subnet for a receiver of tls:// that is not where it should be (its beacon must be signed by the pinned key)
    #[arg(long, env = "CPUMON_NO_DISCOVERY")]
    pub no_discovery: bool,

    /// Broadcast on every IPv4 subnet of this machine; the default unless another target or --log is given. The port is 3001 unless given
    #[arg(
        long,
        value_name = "PORT",
        env = "CPUMON_BROADCAST",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "3001",
        value_parser = clap::value_parser!(u16).range(1..)
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

    /// Routers that may forward multicast, plus one (time to live); 1 stays on the link
    #[arg(long, value_name = "HOPS", env = "CPUMON_TTL", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..))]
    pub ttl: u8,

    /// Broadcast and multicast on this interface only; may be repeated. Unless given: all that are up, loopback left out
    #[arg(long = "interface", value_name = "NAME", env = "CPUMON_INTERFACE", value_delimiter = ',')]
    pub interfaces: Vec<String>,

    /// Send datagrams that receivers of 2012 and 2013 (cpumonRcv) understand
    #[arg(long, env = "CPUMON_V1")]
    pub v1: bool,

    /// Seal datagrams with the first key in this file (mode 0600), which `cpumon key new` made on the receiver
    #[arg(long, value_name = "FILE", env = "CPUMON_GROUP_KEY", conflicts_with = "v1")]
    pub group_key: Option<PathBuf>,

    /// Longest datagram, bytes. Unless given: 1400, which passes common tunnels; with --v1 32768, the most an original takes
    #[arg(long, value_name = "BYTES", env = "CPUMON_MAX_DATAGRAM", value_parser = clap::value_parser!(u16).range(768..=65000))]
    pub max_datagram: Option<u16>,

    /// Repeat what does not change (names, idle threads) every N snapshots, for receivers that start later or lost some
    #[arg(long, value_name = "N", env = "CPUMON_REFRESH", value_parser = clap::value_parser!(u32).range(1..))]
    pub refresh: Option<u32>,

    /// Keep what is measured in this directory too; alone, it is only kept. `cpumon import DIR` brings it into a store
    #[arg(long, value_name = "DIR", env = "CPUMON_LOG", help_heading = "Log")]
    pub log: Option<PathBuf>,

    /// What no receiver of tls:// has yet waits in this directory instead of in memory: it outlives a restart, and is deleted when
    /// a receiver has it on its disk
    #[arg(long, value_name = "DIR", env = "CPUMON_SPOOL", help_heading = "Log")]
    pub spool: Option<PathBuf>,

    /// Most bytes of the log and of the spool, 64KiB or more; the oldest snapshots go first, and are counted
    #[arg(long, value_name = "SIZE", env = "CPUMON_SPOOL_BYTES", default_value = "256MiB", value_parser = spool_bytes, requires = "kept", help_heading = "Log")]
    pub spool_bytes: u64,

    /// When log and spool are written to the disk
    #[arg(
        long,
        value_name = "WHEN",
        env = "CPUMON_SPOOL_SYNC",
        value_enum,
        default_value_t,
        requires = "kept",
        help_heading = "Log"
    )]
    pub spool_sync: SpoolSync,

    /// With --spool-sync interval: how much of them a kill or a power cut may cost; what a receiver has is not written
    #[arg(long, value_name = "TIME", env = "CPUMON_SPOOL_INTERVAL", default_value = "10s", value_parser = parse_interval, requires = "kept", help_heading = "Log")]
    pub spool_interval: Duration,

    /// Time between two snapshots, 100ms to 1h. Unless given: 1s; with --v1 3s, as the original
    #[arg(long, value_name = "TIME", env = "CPUMON_INTERVAL", value_parser = parse_interval, help_heading = "What")]
    pub interval: Option<Duration>,

    /// How to measure: bpf (needs root or capabilities), procfs (no privileges), or auto: bpf where permitted
    #[arg(
        long,
        value_name = "auto|procfs|bpf",
        env = "CPUMON_SOURCE",
        default_value_t,
        help_heading = "What"
    )]
    pub source: SourceChoice,

    /// What BPF watches beside threads and exits: sched (switches), waits (what threads wait for), irq (interrupts), hist (run delays by length), or none
    #[arg(
        long,
        value_name = "LIST",
        env = "CPUMON_PROBES",
        default_value = "none",
        value_parser = parse_probes,
        help_heading = "What"
    )]
    pub probes: Probes,

    /// With --probes hist: a histogram of run delays for each thread of this name (* stands for any text) or id too; may be repeated
    #[arg(
        long,
        value_name = "PATTERN",
        env = "CPUMON_HISTOGRAM_THREADS",
        value_delimiter = ',',
        help_heading = "What"
    )]
    pub histogram_threads: Vec<ThreadPattern>,

    /// Keep to this share of one CPU, probes included: what costs too much is not watched for a while, which is in the data
    #[arg(long, value_name = "PERCENT", env = "CPUMON_MAX_CPU", help_heading = "What")]
    pub max_cpu: Option<CpuShare>,

    /// Send full command lines too, with secrets scrubbed; without it only program names leave this machine
    #[arg(long, env = "CPUMON_CMDLINE", help_heading = "What")]
    pub cmdline: bool,

    /// Report this name instead of the machine's own
    #[arg(long, value_name = "NAME", env = "CPUMON_HOST_NAME", value_parser = parse_host_name, help_heading = "What")]
    pub host_name: Option<String>,

    /// Where procfs is mounted, for containers that see the host's elsewhere
    #[arg(
        long,
        value_name = "DIR",
        env = "CPUMON_PROC_ROOT",
        default_value = "/proc",
        help_heading = "What"
    )]
    pub proc_root: PathBuf,

    /// Stop after N snapshots
    #[arg(long, value_name = "N", env = "CPUMON_COUNT", value_parser = clap::value_parser!(u64).range(1..), help_heading = "What")]
    pub count: Option<u64>,

    /// Say what each snapshot held and cost
    #[arg(short, long, env = "CPUMON_VERBOSE", help_heading = "Messages")]
    pub verbose: bool,

    /// Say only what goes wrong
    #[arg(short, long, env = "CPUMON_QUIET", conflicts_with = "verbose", help_heading = "Messages")]
    pub quiet: bool,
}

/// When a log reaches the disk.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum SpoolSync {
    /// Together, each --spool-interval: spares flash
    #[default]
    Interval,
    /// Each snapshot at once, and the disk has it before the next one
    Always,
    /// When the agent ends: until then the log is in memory, and a kill or a power cut costs all of it
    Exit,
}

impl AgentArgs {
    /// What the user asked for and cannot have.
    ///
    /// # Errors
    /// Says what.
    pub fn check(&self) -> anyhow::Result<()> {
        let has_stream = self.to.iter().any(|to| matches!(to, To::Stream(_) | To::Enrolled));
        ensure!(
            !self.to.contains(&To::Enrolled) || !self.to.iter().any(|to| matches!(to, To::Stream(_))),
            "--to enrolled names every receiver already: tls:// beside it would name one twice"
        );
        ensure!(
            has_stream || self.spool.is_none(),
            "--spool needs a receiver that acknowledges: --to tls://ADDR:PORT; without one, --log DIR keeps a recording"
        );
        ensure!(
            self.spool.is_none() || self.spool != self.log,
            "--spool and --log need two directories: one is emptied, the other is kept"
        );
        let has_datagrams = self.broadcast.is_some()
            || !self.multicast.is_empty()
            || self.to.iter().any(|to| matches!(to, To::Udp(_)))
            || (!has_stream && self.log.is_none());
        ensure!(
            self.group_key.is_none() || has_datagrams,
            "--group-key seals datagrams, and none are sent: tls:// has keys of its own, a log has none"
        );
        let least = MIN_DATAGRAM_BYTES + OVERHEAD_BYTES;
        ensure!(
            self.group_key.is_none() || self.max_datagram.is_none_or(|bytes| usize::from(bytes) >= least),
            "--max-datagram is at least {least} with --group-key: the seal takes {OVERHEAD_BYTES} bytes"
        );
        Ok(())
    }

    /// The level of messages that `-v` and `-q` ask for.
    #[must_use]
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
    if bytes < least { Err(format!("a log has at least {} KiB", least >> 10)) } else { Ok(bytes) }
}

/// A host name is a label for people, but it travels: short, and nothing that moves a cursor.
fn parse_host_name(text: &str) -> Result<String, String> {
    const MAX_BYTES: usize = 255;
    if text.is_empty() || text.len() > MAX_BYTES {
        return Err(format!("a name has 1 to {MAX_BYTES} bytes"));
    }
    if text.chars().any(char::is_control) {
        return Err("a name has no control characters".to_owned());
    }
    Ok(text.to_owned())
}

/// The targets in words, for one line.
pub(crate) fn in_words(targets: &[Target], now: impl Iterator<Item = SocketAddr>) -> String {
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
    fn a_spool_needs_somebody_who_empties_it() {
        let check = |arguments: &str| parse(arguments).unwrap().check().map_err(|error| error.to_string());
        assert!(check("--spool d").unwrap_err().contains("--to tls://"));
        assert!(check("--spool d --to 10.0.0.1").is_err() && check("--to 10.0.0.1").is_ok());
        assert!(check("--spool d --to tls://desk --spool-bytes 1MiB").is_ok());
        assert!(check("--spool d --log d --to tls://desk").unwrap_err().contains("two directories"));
    }

    #[test]
    fn a_key_needs_datagrams_to_seal() {
        let check = |arguments: &str| parse(arguments).unwrap().check().map_err(|error| error.to_string());
        for good in ["", "--broadcast", "--to 10.0.0.1", "--to tls://d,10.0.0.1", "--log d --broadcast"] {
            check(&format!("{good} --group-key k")).unwrap();
        }
        for bad in ["--to tls://d", "--log d"] {
            assert!(check(&format!("{bad} --group-key k")).unwrap_err().contains("none are sent"));
        }
        assert!(check("--group-key k --max-datagram 800").unwrap_err().contains("at least 826"));
        assert!(parse("--group-key k --v1").unwrap_err().contains("cannot be used with"));
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (arguments, said) in [
            ("--to 10.0.0.1:0", "the port is not a number"),
            ("--multicast 10.0.0.1:5", "not a multicast group"),
            ("--broadcast=0", "0 is not in 1..=65535"),
            ("--interval 5ms", "100ms to 1h"),
            ("--source ebpf", "expected auto, procfs or bpf"),
            ("--host-name \u{1b}[2J", "control characters"),
            ("--max-datagram 100", "100 is not in"),
            ("--spool-sync always", "required"),
            ("--log d --spool-bytes 10k", "at least 64 KiB"),
            ("--log d --spool-sync never", "invalid value"),
            ("--spool-sync always", "--log"),
            ("-q -v", "cannot be used with"),
        ] {
            let error = parse(arguments).unwrap_err();
            assert!(error.contains(said), "{arguments}: {error}");
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
    fn messages_grow_and_shrink() {
        let level = |arguments: &str| parse(arguments).unwrap().log_level();
        assert!(level("-q") < level("") && level("") < level("-v"));
    }
}
