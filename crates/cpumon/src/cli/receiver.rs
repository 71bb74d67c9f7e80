//! Arguments of the commands that receive, measure and store: `serve`, `run`, `login-token`, and the groups that they share.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, Subcommand};
use cpumon_agent::{CpuShare, FlightArgs};
use cpumon_collect::{
    SourceChoice, SourceOptions, ThreadPattern, USUAL_PROBES, parse_interval, parse_probes,
};
use cpumon_model::Probes;
use cpumon_query::metrics::{MetricsBy, MetricsOptions};
use cpumon_receiver::SourceRate;

use super::{FormatArgs, HTTP_ADDRESS};
use crate::units::{count, listen_address, size};

/// Probes for a live view of this machine: all that the ledger needs, and wait reasons.
pub const LIVE_PROBES: Probes = Probes::SCHED.union(Probes::WAITS).union(Probes::IRQ).union(USUAL_PROBES.1);

/// Source and probes.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Measuring")]
pub struct SourceArgs {
    /// What to measure with: bpf (needs root or capabilities), procfs (no privileges), or auto (bpf where permitted)
    #[arg(long, value_name = "SOURCE", default_value_t = SourceChoice::Auto)]
    pub source: SourceChoice,
    /// BPF probes besides threads and exits, separated by commas: sched (context switches), waits (wait reasons), irq (interrupts), hist (histograms of run delay), wakers (who ended each wait of 1 ms and more), or none [default: sched,waits,irq,wakers for `top` and `run`; wakers for `serve`, because the others make the store half as large again]
    #[arg(long, value_name = "LIST", value_parser = parse_probes)]
    pub probes: Option<Probes>,
    /// With --probes hist: also one histogram for each thread of this name (* matches any text) or id; may be repeated
    #[arg(long, value_name = "PATTERN", value_delimiter = ',')]
    pub histogram_threads: Vec<ThreadPattern>,
    /// Also read full command lines, with passwords and tokens redacted
    #[arg(long)]
    pub cmdline: bool,
    /// Name processes after their executable (python3.11) even where they run a script (nightly-report)
    #[arg(long)]
    pub no_script_names: bool,
}

impl SourceArgs {
    /// Options of the source; `probes` is the default of --probes.
    pub fn source_options(&self, interval: Duration, probes: Probes) -> SourceOptions {
        SourceOptions {
            choice: self.source,
            cmdline: self.cmdline,
            script_names: !self.no_script_names,
            probes: self.probes.unwrap_or(probes),
            histogram_threads: self.histogram_threads.clone(),
            interval,
            ..SourceOptions::default()
        }
    }
}

/// How this machine is measured.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Measuring")]
pub struct MeasureArgs {
    /// Time between two snapshots, 100ms to 1h
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_interval)]
    pub interval: Duration,
    /// Source and probes.
    #[command(flatten)]
    pub source: SourceArgs,
    /// Limit measuring and its probes to this share of one CPU, such as 1%; probes that cost too much are switched off for a while, and if that is not enough, snapshots are taken less often; the data records both
    #[arg(long, value_name = "PERCENT")]
    pub max_cpu: Option<CpuShare>,
}

/// How long data is stored.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Store")]
pub struct RetentionArgs {
    /// Delete data after this many days, and sums per minute after 366 days or this many, whichever is more; 0 for no limit
    #[arg(long, value_name = "N", default_value_t = 30)]
    pub retain_days: u32,
    /// Delete the oldest data when the store grows beyond this size; 0 for no limit
    #[arg(long, value_name = "SIZE", default_value = "20GB", value_parser = size)]
    pub retain_bytes: u64,
    /// Store traces of context switches (recorded on request, or by a --flight-recorder here or of enrolled devices) beside the store, up to this size in all; 0 for none
    #[arg(long, value_name = "SIZE", default_value = "2GB", value_parser = size)]
    pub trace_bytes: u64,
}

/// Login, TLS and names of the web page and the API.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Web page and API")]
pub struct WebArgs {
    /// Require a login on loopback too; on other addresses it is always required
    #[arg(long)]
    pub login: bool,
    /// File of login tokens, made by `cpumon login-token` [default: login-tokens beside the default store]
    #[arg(long, value_name = "FILE")]
    pub login_tokens: Option<PathBuf>,
    /// Certificate for HTTPS, PEM [default on other addresses than loopback: one is made beside the default store]
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// Private key of the certificate, PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Name of this machine that browsers use; may be repeated
    #[arg(long, value_name = "NAME", action = ArgAction::Append, value_delimiter = ',')]
    pub http_name: Vec<String>,
    /// Serve the web page from this directory instead of the embedded one, for development
    #[arg(long, value_name = "DIR")]
    pub web_dir: Option<PathBuf>,
}

/// What `/metrics` has.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Web page and API")]
pub struct MetricsArgs {
    /// Count CPU and ready time at /metrics by these too, separated by commas: service, container, user
    #[arg(long, value_name = "GROUPS", action = ArgAction::Append, value_delimiter = ',', hide_possible_values = true)]
    pub metrics_by: Vec<MetricsBy>,
    /// Show blocked time of programs at /metrics
    #[arg(long)]
    pub metrics_blocked: bool,
}

impl MetricsArgs {
    pub fn options(&self) -> MetricsOptions {
        let mut options = MetricsOptions::by(&self.metrics_by);
        options.has_blocked = self.metrics_blocked;
        options
    }
}

/// Login token and certificate for a receiver.
#[derive(Clone, Debug, Default, Args)]
pub struct AccessArgs {
    /// Login token for the receiver; in the environment (`CPUMON_LOGIN_TOKEN`) other users cannot see it
    #[arg(long, value_name = "TOKEN")]
    pub login_token: Option<String>,
    /// The receiver's certificate, PEM; required for https
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
}

/// `cpumon login-token`.
#[derive(Clone, Debug, Args)]
pub struct LoginTokenArgs {
    /// The action.
    #[command(subcommand)]
    pub action: LoginTokenAction,
    /// File of login tokens [default: login-tokens beside the default store]
    #[arg(long, value_name = "FILE", global = true)]
    pub login_tokens: Option<PathBuf>,
}

/// Actions of `cpumon login-token`.
#[derive(Clone, Debug, Subcommand)]
pub enum LoginTokenAction {
    /// Make a login token and print it; only its hash is stored
    Add {
        /// Name of the person or program
        #[arg(value_name = "LABEL")]
        label: String,
    },
    /// List the login tokens
    List(FormatArgs),
    /// Revoke a login token and end the sessions that used it
    Revoke {
        /// Name of the person or program
        #[arg(value_name = "LABEL")]
        label: String,
    },
}

impl LoginTokenAction {
    /// Output format, for commands that print rows.
    pub fn format(&self) -> Option<&FormatArgs> {
        if let Self::List(format) = self { Some(format) } else { None }
    }
}

/// `cpumon serve`.
#[derive(Clone, Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
#[allow(rustdoc::broken_intra_doc_links, reason = "the text is the help: [::]:3001 is an address")]
pub struct ServeArgs {
    /// Receive datagrams on this address; may be repeated [default: 0.0.0.0:3001 and, if possible, [::]:3001]
    #[arg(long, help_heading = "Receiving", value_name = "ADDR:PORT", action = ArgAction::Append, value_delimiter = ',', value_parser = listen_address)]
    pub udp: Vec<SocketAddr>,
    /// Receive no datagrams
    #[arg(
        long,
        help_heading = "Receiving",
        conflicts_with_all = ["udp", "multicast", "group_key", "allow_plain", "allow_v1"]
    )]
    pub no_udp: bool,
    /// Accept TLS connections of enrolled devices on this address, such as 0.0.0.0:3002 [default: off]
    #[arg(long, help_heading = "Receiving", value_name = "ADDR:PORT", conflicts_with = "no_store", value_parser = listen_address)]
    pub tls: Option<SocketAddr>,
    /// Answer devices that search the subnet for a receiver (DNS-SD), and accept requests for enrolment, which
    /// `cpumon hosts accept` grants
    #[arg(long, alias = "beacon", help_heading = "Receiving", requires = "tls")]
    pub discovery: bool,
    /// Directory with the receiver's identity and enrolled hosts [default: the store's path with .identity added]
    #[arg(long, help_heading = "Receiving", value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// File of group keys to decrypt datagrams with [default: group.keys in --state, if `cpumon key new` has made it]
    #[arg(long, help_heading = "Receiving", value_name = "FILE")]
    pub group_key: Option<PathBuf>,
    /// Accept datagrams that are not encrypted [default: only while there is no group key, and with --tls only if --udp or --multicast is given]
    #[arg(
        long,
        help_heading = "Receiving",
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true"
    )]
    pub allow_plain: Option<bool>,
    /// Accept datagrams in version 1 of the protocol, which cannot be encrypted [default: as --allow-plain]
    #[arg(
        long,
        help_heading = "Receiving",
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true"
    )]
    pub allow_v1: Option<bool>,
    /// Accept at most this many datagrams per second from one IPv4 address or IPv6 /64 network, with bursts of twice as many; 0 for no limit
    #[arg(long, help_heading = "Receiving", value_name = "N", default_value_t = SourceRate::default().datagrams_per_s)]
    pub source_datagrams: u64,
    /// Accept at most this many bytes per second from one IPv4 address or IPv6 /64 network, with bursts of twice as many; 0 for no limit
    #[arg(long, help_heading = "Receiving", value_name = "SIZE", default_value = "64MB", value_parser = size)]
    pub source_bytes: u64,
    /// Join this multicast group; may be repeated
    #[arg(long, help_heading = "Receiving", value_name = "GROUP", action = ArgAction::Append, value_delimiter = ',')]
    pub multicast: Vec<IpAddr>,
    /// Serve the web page and the API on this address; on other addresses than loopback with login and TLS
    #[arg(long, help_heading = "Web page and API", value_name = "ADDR:PORT", default_value_t = HTTP_ADDRESS, value_parser = listen_address)]
    pub http: SocketAddr,
    /// Store data in this file [default: /var/lib/cpumon/cpumon.db as root, else ~/.local/state/cpumon/cpumon.db]
    #[arg(long, help_heading = "Store", value_name = "FILE")]
    pub store: Option<PathBuf>,
    /// Store nothing; only live data is shown
    #[arg(long, help_heading = "Store", conflicts_with = "store")]
    pub no_store: bool,
    /// Do not measure this machine
    #[arg(long, help_heading = "Measuring")]
    pub no_agent: bool,
    /// Log one line per second: datagrams, intervals, losses, store
    #[arg(long, help_heading = "Messages")]
    pub log_each_second: bool,
    /// Login, TLS and names.
    #[command(flatten)]
    pub web: WebArgs,
    /// Metrics for Prometheus.
    #[command(flatten)]
    pub metrics: MetricsArgs,
    /// Limits of the store.
    #[command(flatten)]
    pub retention: RetentionArgs,
    /// Interval, source and probes.
    #[command(flatten)]
    pub measure: MeasureArgs,
    /// The last seconds of this machine.
    #[command(flatten)]
    pub flight: FlightArgs,
}

/// `cpumon run`.
#[derive(Clone, Debug, Args)]
pub struct RunArgs {
    /// Receive datagrams on this loopback address
    #[arg(long, help_heading = "Receiving", value_name = "ADDR:PORT", default_value = "127.0.0.1:3001", value_parser = listen_address)]
    pub udp: SocketAddr,
    /// Serve the web page and the API on this loopback address
    #[arg(long, help_heading = "Web page and API", value_name = "ADDR:PORT", default_value_t = HTTP_ADDRESS, value_parser = listen_address)]
    pub http: SocketAddr,
    /// Store data in this file [default: /var/lib/cpumon/cpumon.db as root, else ~/.local/state/cpumon/cpumon.db]
    #[arg(long, help_heading = "Store", value_name = "FILE")]
    pub store: Option<PathBuf>,
    /// Stop after this many intervals
    #[arg(short = 'n', long, value_name = "N", value_parser = count)]
    pub iterations: Option<u64>,
    /// Login, TLS and names.
    #[command(flatten)]
    pub web: WebArgs,
    /// Metrics for Prometheus.
    #[command(flatten)]
    pub metrics: MetricsArgs,
    /// Limits of the store.
    #[command(flatten)]
    pub retention: RetentionArgs,
    /// Interval, source and probes.
    #[command(flatten)]
    pub measure: MeasureArgs,
    /// The last seconds of this machine.
    #[command(flatten)]
    pub flight: FlightArgs,
}
