//! The command line: one definition from which parsing, `--help`, man pages and shell completions come.
//! In: arguments and `CPUMON_*` variables. Out: [`Cli`], what the user said; commands turn it into what is done.

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::parser::ValueSource;
use clap::{ArgAction, Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use cpumon_agent::CpuShare;
use cpumon_collect::{SourceChoice, parse_interval, parse_probes};
use cpumon_model::Probes;

use crate::units::{duration, size};
use crate::when::When;

/// Where `serve` answers HTTP and where `top --host`, `hosts` and `status` look for it.
pub const HTTP_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 3080);
/// URL of [`HTTP_ADDRESS`].
pub const HTTP_URL: &str = "http://127.0.0.1:3080";

/// Where did every nanosecond of CPU go? Live and after the fact, on this machine and on others
#[derive(Clone, Debug, Parser)]
#[command(name = "cpumon", version, max_term_width = 100, propagate_version = true, after_help = AFTER_HELP)]
pub struct Cli {
    /// What to do
    #[command(subcommand)]
    pub command: Command,
}

const AFTER_HELP: &str = "Every option can also be given in the environment: --store FILE is CPUMON_STORE=FILE.\n\
    Exit status: 0 ok, 1 failed, 2 wrong usage, 3 finished but data is missing, 130 interrupted.";

/// The commands.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Show where the CPU time goes: this machine, a host of a receiver, or a past moment
    Top(TopArgs),
    /// Receive, measure this machine, store and show, all in one, on loopback only
    Run(RunArgs),
    /// Receive from agents, measure this machine, store, and answer `top --host` and `status`
    Serve(ServeArgs),
    /// Measure this machine and send to a receiver
    Agent(cpumon_agent::AgentArgs),
    /// List the hosts of a receiver, or of a store
    Hosts(HostsArgs),
    /// Tell how a receiver is doing: addresses, losses, rejects, store
    Status(StatusArgs),
    /// Show the books: where the capacity of the CPUs went, and in which intervals they close worst
    Ledger(LedgerArgs),
    /// Write recorded data as CSV or JSON lines
    Export(ExportArgs),
    /// Make, list or revoke the tokens with which people and programs log in to a receiver
    LoginToken(LoginTokenArgs),
    /// Take over a log (`cpumon-agent --log`), or a database of the original cpumon receiver (2012, 2013)
    Import(ImportArgs),
    /// Ask a store in SQL, read-only
    Sql(SqlArgs),
    /// Tell what can be measured here, why not the rest, and how to get it
    Doctor(DoctorArgs),
    /// Compare what the tick sampler, the scheduler's clock and the switches say of each thread's CPU time
    Accuracy(AccuracyArgs),
    /// Write the manual pages
    Man(ManArgs),
    /// Write a shell's completions to standard output
    Completions(CompletionsArgs),
}

/// How this machine is measured.
#[derive(Clone, Debug, Args)]
pub struct MeasureArgs {
    /// Time between two snapshots, 100ms to 1h
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_interval)]
    pub interval: Duration,
    /// What to measure with: auto, procfs or bpf
    #[arg(long, value_name = "SOURCE", default_value_t = SourceChoice::Auto)]
    pub source: SourceChoice,
    /// What BPF watches beside threads and exits: sched (switches), waits (what threads wait for), irq (interrupts), or none
    #[arg(long, value_name = "LIST", default_value = "none", value_parser = parse_probes)]
    pub probes: Probes,
    /// Read full command lines too; passwords and tokens in them are blotted out
    #[arg(long)]
    pub cmdline: bool,
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
    /// Speak TLS with this certificate, PEM [default off loopback: one made in the state directory]
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
#[allow(rustdoc::broken_intra_doc_links, reason = "the text is the help: [::]:3001 is an address")]
pub struct ServeArgs {
    /// Take datagrams here; may be given more than once [default: 0.0.0.0:3001 and, if possible, [::]:3001]
    #[arg(long, value_name = "ADDR:PORT", action = ArgAction::Append, value_delimiter = ',')]
    pub udp: Vec<SocketAddr>,
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
    #[arg(long)]
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
    #[arg(short = 'n', long, value_name = "N")]
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

/// `cpumon top`.
#[derive(Clone, Debug, Args)]
pub struct TopArgs {
    /// Show this host of a receiver (or, with --at, of a store) instead of this machine
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
    /// The receiver's address [default with --host: the one on this machine]
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,
    /// How to get in
    #[command(flatten)]
    pub access: AccessArgs,
    /// Read recorded data from this file [default with --at: the state directory]
    #[arg(long, value_name = "FILE")]
    pub store: Option<PathBuf>,
    /// Show this moment of the store, or of the log with --replay: `yesterday 14:05`, `3m ago`, `2026-11-20 14:05`
    #[arg(long, value_name = "TIME")]
    pub at: Option<When>,
    /// Play a log (`cpumon-agent --log DIR`) like a tape: Space plays and stops, `[` and `]` step, + and - change the speed
    #[arg(long, value_name = "DIR", conflicts_with_all = ["host", "url", "store"])]
    pub replay: Option<PathBuf>,
    /// Print plain text instead of a screen
    #[arg(short = 'b', long)]
    pub batch: bool,
    /// Stop after this many intervals
    #[arg(short = 'n', long, value_name = "N")]
    pub iterations: Option<u64>,
    /// Time between two screens, 100ms to 1h; a bare number is seconds
    #[arg(short = 'd', long, value_name = "TIME", value_parser = parse_interval)]
    pub delay: Option<Duration>,
    /// Only these process ids, separated by commas
    #[arg(short = 'p', long, value_name = "PID", value_delimiter = ',')]
    pub pid: Vec<u32>,
    /// A row for each thread
    #[arg(short = 'H', long)]
    pub threads: bool,
    /// Form of the batch output
    #[arg(short = 'o', long, value_name = "FORM", value_enum, default_value_t = BatchForm::Text)]
    pub output: BatchForm,
    /// What to measure with: auto, procfs or bpf
    #[arg(long, value_name = "SOURCE", default_value_t = SourceChoice::Auto)]
    pub source: SourceChoice,
    /// What BPF watches beside threads and exits: sched (switches), waits (what threads wait for), irq (interrupts), or none
    #[arg(long, value_name = "LIST", default_value = "none", value_parser = parse_probes)]
    pub probes: Probes,
    /// Read full command lines too; passwords and tokens in them are blotted out
    #[arg(long)]
    pub cmdline: bool,
}

/// Form of `top -b`.
#[derive(Copy, Clone, Debug, PartialEq, Eq, ValueEnum)]
pub enum BatchForm {
    /// Aligned columns
    Text,
    /// One JSON document a line, one line an interval
    Json,
}

/// `cpumon hosts`.
#[derive(Clone, Debug, Args)]
pub struct HostsArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// The receiver's address
    #[arg(long, value_name = "URL", default_value = HTTP_URL)]
    pub url: String,
    /// How to get in
    #[command(flatten)]
    pub access: AccessArgs,
    /// List the hosts of this store instead of a receiver's
    #[arg(long, value_name = "FILE")]
    pub store: Option<PathBuf>,
}

/// `cpumon status`.
#[derive(Clone, Debug, Args)]
pub struct StatusArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// The receiver's address
    #[arg(long, value_name = "URL", default_value = HTTP_URL)]
    pub url: String,
    /// How to get in
    #[command(flatten)]
    pub access: AccessArgs,
}

/// `cpumon export`.
#[derive(Clone, Debug, Args)]
pub struct ExportArgs {
    /// What to write
    #[arg(value_name = "KIND", value_enum)]
    pub kind: ExportKind,
    /// Read this file [default: the state directory]
    #[arg(long, value_name = "FILE")]
    pub store: Option<PathBuf>,
    /// Write to this file instead of standard output; it appears under its name only when it is complete
    #[arg(short = 'o', long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// CSV (RFC 4180) or one JSON object a line
    #[arg(long, value_enum, default_value_t = ExportForm::Csv)]
    pub format: ExportForm,
    /// The layout of the original receiver instead, byte for byte
    #[arg(long, value_enum, value_name = "YEAR")]
    pub legacy: Option<LegacyYear>,
    /// Only this host, by name or id
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
    /// From this moment on: `3h ago`, `yesterday 14:05`, `2026-11-20T14:05Z`
    #[arg(long, value_name = "TIME")]
    pub since: Option<When>,
    /// Up to this moment
    #[arg(long, value_name = "TIME")]
    pub until: Option<When>,
    /// Only processes of this name, or this process id
    #[arg(long, value_name = "NAME|PID")]
    pub process: Option<String>,
    /// Sum up over this long instead of each interval: 10s, 1m, 1h
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub interval: Option<Duration>,
    /// A pivot's columns
    #[arg(long, value_enum, default_value_t = PivotBy::Name)]
    pub by: PivotBy,
    /// A pivot's values
    #[arg(long, value_enum, default_value_t = PivotValue::User)]
    pub value: PivotValue,
}

/// `cpumon ledger`.
#[derive(Clone, Debug, Args)]
pub struct LedgerArgs {
    /// Read this file [default: the state directory]
    #[arg(long, value_name = "FILE", conflicts_with = "live")]
    pub store: Option<PathBuf>,
    /// Measure this machine for so long instead of reading a store: 10s, 1m
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub live: Option<Duration>,
    /// Only this host, by name or id
    #[arg(long, value_name = "NAME", conflicts_with = "live")]
    pub host: Option<String>,
    /// From this moment on: `3h ago`, `yesterday 14:05`, `2026-11-20T14:05Z`
    #[arg(long, value_name = "TIME", conflicts_with = "live")]
    pub since: Option<When>,
    /// Up to this moment
    #[arg(long, value_name = "TIME", conflicts_with = "live")]
    pub until: Option<When>,
    /// Show so many of the intervals in which the largest share has no owner, the worst first
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub worst: usize,
    /// A table, CSV (RFC 4180) or one JSON object a line
    #[arg(long, value_enum, default_value_t = LedgerForm::Table)]
    pub format: LedgerForm,
    /// With --live: time between two snapshots, 100ms to 1h
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_interval)]
    pub interval: Duration,
    /// With --live: what to measure with: auto, procfs or bpf
    #[arg(long, value_name = "SOURCE", default_value_t = SourceChoice::Auto)]
    pub source: SourceChoice,
}

/// Forms of `cpumon ledger`.
#[derive(Copy, Clone, Debug, PartialEq, Eq, ValueEnum)]
pub enum LedgerForm {
    /// For people: sums, each CPU, the worst intervals, and how each line is known
    Table,
    /// RFC 4180
    Csv,
    /// One JSON object a line
    Jsonl,
}

/// Kinds of export.
#[derive(Copy, Clone, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExportKind {
    /// A row for each process and interval
    Processes,
    /// A row for each thread and interval
    Threads,
    /// A row for each moment, a column for each process
    Pivot,
    /// A row for each interval: where the whole machine's CPU time went
    Ledger,
}

/// Forms of export.
#[derive(Copy, Clone, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExportForm {
    /// RFC 4180, UTF-8; text that a spreadsheet would run as a formula is defused
    Csv,
    /// One JSON object a line
    Jsonl,
}

/// Layouts of the original receiver.
#[derive(Copy, Clone, Debug, PartialEq, Eq, ValueEnum)]
pub enum LegacyYear {
    /// One device
    #[value(name = "2012")]
    Y2012,
    /// With the device's address
    #[value(name = "2013")]
    Y2013,
}

/// What a column of a pivot stands for.
#[derive(Copy, Clone, Debug, PartialEq, Eq, ValueEnum)]
pub enum PivotBy {
    /// All processes of a name
    Name,
    /// One process, pid and start time
    Process,
    /// As name, kernel threads of one family together (kworker/0:1 is kworker)
    Program,
}

/// What stands in a pivot.
#[derive(Copy, Clone, Debug, PartialEq, Eq, ValueEnum)]
pub enum PivotValue {
    /// User time
    User,
    /// System time
    System,
    /// Run time
    Run,
    /// Run time in percent of one CPU
    Pct,
}

/// `cpumon import`.
#[derive(Clone, Debug, Args)]
pub struct ImportArgs {
    /// The log's directory, or the database, e.g. ProcessUsage.sqlite; it is only read. Twice is as good as once
    #[arg(value_name = "DIR|FILE")]
    pub file: PathBuf,
    /// Import into this file [default: the state directory]
    #[arg(long, value_name = "FILE")]
    pub store: Option<PathBuf>,
    /// Of a database: name of the device that recorded it [default: its address; for a 2012 database, which has none, the
    /// file's name without its ending]
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
    /// Of a database: time zone of its times, e.g. Europe/Berlin or +02:00 [default: UTC]
    #[arg(long, value_name = "TZ")]
    pub time_zone: Option<String>,
}

/// `cpumon sql`.
#[derive(Clone, Debug, Args)]
pub struct SqlArgs {
    /// The question, in quotes
    #[arg(value_name = "QUERY")]
    pub query: String,
    /// Read this file [default: the state directory]
    #[arg(long, value_name = "FILE")]
    pub store: Option<PathBuf>,
    /// Form of the answer
    #[arg(long, value_enum, default_value_t = SqlForm::Table)]
    pub format: SqlForm,
}

/// Forms of an SQL answer.
#[derive(Copy, Clone, Debug, PartialEq, Eq, ValueEnum)]
pub enum SqlForm {
    /// Aligned columns
    Table,
    /// RFC 4180
    Csv,
    /// One JSON object a line
    Jsonl,
}

/// `cpumon doctor`.
#[derive(Clone, Debug, Args)]
pub struct DoctorArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Only read files; do not load the probes to see whether they do
    #[arg(long)]
    pub no_load: bool,
    /// Where procfs is mounted, for containers that see the host's elsewhere
    #[arg(long, value_name = "DIR", default_value = "/proc")]
    pub proc_root: PathBuf,
    /// Where sysfs is mounted
    #[arg(long, value_name = "DIR", default_value = "/sys")]
    pub sys_root: PathBuf,
}

/// `cpumon accuracy`.
#[derive(Clone, Debug, Args)]
pub struct AccuracyArgs {
    /// Length of the comparison
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub seconds: u32,
    /// Only these process ids, separated by commas
    #[arg(short = 'p', long, value_name = "PID", value_delimiter = ',')]
    pub pid: Vec<u32>,
    /// Only threads of this name
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Every thread, not just those with the largest errors
    #[arg(long)]
    pub all: bool,
    /// Form of the answer; CSV and JSON have every thread
    #[arg(long, value_enum, default_value_t = AccuracyForm::Text)]
    pub format: AccuracyForm,
}

/// Forms of a comparison.
#[derive(Copy, Clone, Debug, PartialEq, Eq, ValueEnum)]
pub enum AccuracyForm {
    /// Aligned columns and a summary in words
    Text,
    /// RFC 4180
    Csv,
    /// One JSON document
    Json,
}

/// `cpumon man`.
#[derive(Clone, Debug, Args)]
pub struct ManArgs {
    /// Write one file a command into this directory; without it, cpumon(1) to standard output
    #[arg(value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

/// `cpumon completions`.
#[derive(Clone, Debug, Args)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL", value_enum)]
    pub shell: clap_complete::Shell,
}

/// The definition, each option with its variable: `--retain-days` is `CPUMON_RETAIN_DAYS`.
#[must_use]
pub fn command() -> clap::Command {
    Cli::command().mut_subcommands(|command| command.mut_args(with_variable))
}

fn with_variable(arg: clap::Arg) -> clap::Arg {
    let Some(long) = arg.get_long().map(str::to_owned) else { return arg };
    let is_flag = matches!(arg.get_action(), ArgAction::SetTrue);
    let variable = format!("CPUMON_{}", long.to_ascii_uppercase().replace('-', "_"));
    // One sentence in the help says it for all; the manual pages name each.
    let arg = arg.env(variable).hide_env(true).hide_env_values(true);
    if is_flag { arg.value_parser(clap::builder::FalseyValueParser::new()) } else { arg }
}

/// Reads a command line, the program's name first.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Cli, clap::Error> {
    let matches = command().try_get_matches_from(args)?;
    let mut cli = Cli::from_arg_matches(&matches)?;
    if let (Command::Top(top), Some(("top", given))) = (&mut cli.command, matches.subcommand()) {
        // CPUMON_STORE alone tells where recorded data is; it does not make `top` show the past.
        let from_environment = given.value_source("store") == Some(ValueSource::EnvVariable);
        if from_environment && top.at.is_none() && top.host.is_none() {
            top.store = None;
        }
    }
    Ok(cli)
}

#[cfg(test)]
#[path = "cli_tests.rs"]
mod tests;
