//! Commands that receive, measure and keep: `serve`, `run`, `login-token`, and the options that they share.
//! In: nothing. Out: what the user may say of them.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, Subcommand};
use cpumon_agent::CpuShare;
use cpumon_collect::{SourceChoice, SourceOptions, ThreadPattern, parse_interval, parse_probes};
use cpumon_model::Probes;
use cpumon_receiver::SourceRate;

use super::HTTP_ADDRESS;
use crate::units::size;

/// What is watched where somebody looks at this machine: all that closes the books and says what threads wait for.
pub const LOOKED_AT: Probes = Probes::SCHED.union(Probes::WAITS).union(Probes::IRQ);

/// What looks at this machine, and at what.
#[derive(Clone, Debug, Args)]
pub struct LookArgs {
    /// What to measure with: auto, procfs or bpf
    #[arg(long, value_name = "SOURCE", default_value_t = SourceChoice::Auto)]
    pub source: SourceChoice,
    /// What BPF watches beside threads and exits: sched (switches), waits (what threads wait for), irq (interrupts), hist (run delays by length), or none [default: sched,waits,irq for `top` and `run`, none for `serve`, whose store would grow by half]
    #[arg(long, value_name = "LIST", value_parser = parse_probes)]
    pub probes: Option<Probes>,
    /// With --probes hist: a histogram of run delays for each thread of this name (* stands for any text) or id too; may be repeated
    #[arg(long, value_name = "PATTERN", value_delimiter = ',')]
    pub histogram_threads: Vec<ThreadPattern>,
    /// Read full command lines too; passwords and tokens in them are blotted out
    #[arg(long)]
    pub cmdline: bool,
}

impl LookArgs {
    /// What a source is opened with; `probes` unless the user chose others.
    #[must_use]
    pub fn source_options(&self, interval: Duration, probes: Probes) -> SourceOptions {
        SourceOptions {
            choice: self.source,
            cmdline: self.cmdline,
            probes: self.probes.unwrap_or(probes),
            histogram_threads: self.histogram_threads.clone(),
            interval,
            ..SourceOptions::default()
        }
    }
}

/// How this machine is measured.
#[derive(Clone, Debug, Args)]
pub struct MeasureArgs {
    /// Time between two snapshots, 100ms to 1h
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_interval)]
    pub interval: Duration,
    /// What looks, and at what
    #[command(flatten)]
    pub look: LookArgs,
    /// Keep to this share of one CPU, probes included: what costs too much is not watched for a while, which is in the data
    #[arg(long, value_name = "PERCENT")]
    pub max_cpu: Option<CpuShare>,
}

/// How long recorded data is kept.
#[derive(Clone, Debug, Args)]
pub struct KeepArgs {
    /// Forget samples after this many days; 0 keeps them for ever
    #[arg(long, value_name = "N", default_value_t = 30)]
    pub retain_days: u32,
    /// Forget the oldest samples when the store grows beyond this size; 0 for no limit
    #[arg(long, value_name = "SIZE", default_value = "20GB", value_parser = size)]
    pub retain_bytes: u64,
}

/// How HTTP is answered, beyond the address.
#[derive(Clone, Debug, Args)]
pub struct WebArgs {
    /// Ask for a login on loopback too; elsewhere it is always asked for
    #[arg(long)]
    pub login: bool,
    /// Tokens to log in with, made by `cpumon login-token` [default: login-tokens in the state directory]
    #[arg(long, value_name = "FILE")]
    pub login_tokens: Option<PathBuf>,
    /// Answer HTTP over TLS with this certificate, PEM [default off loopback: one made in the state directory]
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// The certificate's key, PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// A name of this machine that browsers use; may be given more than once
    #[arg(long, value_name = "NAME", action = ArgAction::Append, value_delimiter = ',')]
    pub http_name: Vec<String>,
    /// Serve the page from this directory, read anew at each request, instead of the embedded one; for work on the page
    #[arg(long, value_name = "DIR")]
    pub web_dir: Option<PathBuf>,
}

/// How to get into a receiver.
#[derive(Clone, Debug, Default, Args)]
pub struct AccessArgs {
    /// Log in to the receiver with this token; other users of this machine do not see it in the environment
    #[arg(long, value_name = "TOKEN")]
    pub login_token: Option<String>,
    /// Trust this certificate of the receiver, PEM; needed for https
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
}

/// `cpumon login-token`.
#[derive(Clone, Debug, Args)]
pub struct LoginTokenArgs {
    /// What to do
    #[command(subcommand)]
    pub action: LoginTokenAction,
    /// The file of tokens [default: login-tokens in the state directory]
    #[arg(long, value_name = "FILE", global = true)]
    pub login_tokens: Option<PathBuf>,
}

/// What `cpumon login-token` does.
#[derive(Clone, Debug, Subcommand)]
pub enum LoginTokenAction {
    /// Make a token and print it, once: only its hash is kept
    Add {
        /// Whose it is
        #[arg(value_name = "LABEL")]
        label: String,
    },
    /// List the tokens
    List,
    /// Take a token back; whoever logged in with it is out
    Revoke {
        /// Whose it is
        #[arg(value_name = "LABEL")]
        label: String,
    },
}

/// `cpumon serve`.
#[derive(Clone, Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
#[allow(rustdoc::broken_intra_doc_links, reason = "the text is the help: [::]:3001 is an address")]
pub struct ServeArgs {
    /// Take datagrams here; may be given more than once [default: 0.0.0.0:3001 and, if possible, [::]:3001]
    #[arg(long, value_name = "ADDR:PORT", action = ArgAction::Append, value_delimiter = ',')]
    pub udp: Vec<SocketAddr>,
    /// Take the secure stream of enrolled devices here, e.g. 0.0.0.0:3002; off unless given
    #[arg(long, value_name = "ADDR:PORT", conflicts_with = "no_store")]
    pub tls: Option<SocketAddr>,
    /// Answer devices that search the subnet for a receiver (DNS-SD), and accept their requests for enrolment, on which
    /// `cpumon hosts accept` decides. Not on loopback
    #[arg(long, alias = "beacon", requires = "tls")]
    pub discovery: bool,
    /// Keep identity and enrolled hosts here [default: beside the store, its name with .identity]
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// Open sealed datagrams with the keys in this file [default: group.keys in --state, once `cpumon key new` has made it]
    #[arg(long, value_name = "FILE")]
    pub group_key: Option<PathBuf>,
    /// Take v2 datagrams that are not sealed [default: only while there is no key]
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true"
    )]
    pub allow_plain: Option<bool>,
    /// Take datagrams of the original's protocol, which cannot be sealed [default: only while there is no key]
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true"
    )]
    pub allow_v1: Option<bool>,
    /// Take at most so many datagrams a second of one source address, and twice as many at once; 0: any number
    #[arg(long, value_name = "N", default_value_t = SourceRate::default().datagrams_per_s)]
    pub source_datagrams: u64,
    /// Take at most so many bytes a second of one source address, and twice as many at once; 0: any number
    #[arg(long, value_name = "SIZE", default_value = "64MB", value_parser = size)]
    pub source_bytes: u64,
    /// Join this multicast group; may be given more than once
    #[arg(long, value_name = "GROUP", action = ArgAction::Append, value_delimiter = ',')]
    pub multicast: Vec<IpAddr>,
    /// Answer HTTP here; off loopback with login and TLS
    #[arg(long, value_name = "ADDR:PORT", default_value_t = HTTP_ADDRESS)]
    pub http: SocketAddr,
    /// Keep data in this file [default: the state directory]
    #[arg(long, value_name = "FILE")]
    pub store: Option<PathBuf>,
    /// Keep nothing: show only what is live
    #[arg(long, conflicts_with = "store")]
    pub no_store: bool,
    /// Do not measure this machine
    #[arg(long)]
    pub no_agent: bool,
    /// Log one line a second: datagrams, intervals, losses, store
    #[arg(long)]
    pub log_each_second: bool,
    /// How HTTP is answered
    #[command(flatten)]
    pub web: WebArgs,
    /// How long to keep
    #[command(flatten)]
    pub keep: KeepArgs,
    /// How to measure
    #[command(flatten)]
    pub measure: MeasureArgs,
}

/// `cpumon run`.
#[derive(Clone, Debug, Args)]
pub struct RunArgs {
    /// Take datagrams here, a loopback address
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:3001")]
    pub udp: SocketAddr,
    /// Answer HTTP here
    #[arg(long, value_name = "ADDR:PORT", default_value_t = HTTP_ADDRESS)]
    pub http: SocketAddr,
    /// Keep data in this file [default: the state directory]
    #[arg(long, value_name = "FILE")]
    pub store: Option<PathBuf>,
    /// Stop after this many intervals
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub iterations: Option<u64>,
    /// How HTTP is answered
    #[command(flatten)]
    pub web: WebArgs,
    /// How long to keep
    #[command(flatten)]
    pub keep: KeepArgs,
    /// How to measure
    #[command(flatten)]
    pub measure: MeasureArgs,
}
