//! Arguments of `trace`.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use cpumon_export::Format;
use cpumon_trace::{Compression, DurationOf, ReportBy};

use super::{AccessArgs, FormatArgs, HTTP_URL, PastArgs, RangeArgs, Word, one_of};
use crate::units::{duration, size, whole_number};

/// `cpumon trace`.
#[derive(Clone, Debug, Args)]
pub struct TraceArgs {
    /// Subcommand.
    #[command(subcommand)]
    pub command: TraceCommand,
}

/// The commands of `cpumon trace`.
#[derive(Clone, Debug, Subcommand)]
pub enum TraceCommand {
    /// Record every context switch, wakeup and migration of this machine to a file (needs permission to use BPF)
    Record(TraceRecordArgs),
    /// Show where the time went in a trace: run time, run delay and who ran meanwhile, blocked time by reason, the ledger
    Report(TraceReportArgs),
    /// List the longest waits for a CPU: when, how long, on which CPU, and behind whom
    Delays(TraceDelaysArgs),
    /// Show who wakes whom, and how long the woken wait for a CPU
    Wakers(TraceWakersArgs),
    /// Follow a thread back in time from a moment, through the threads it waited for: its critical path
    Path(TracePathArgs),
    /// Show how long waits or slices last: percentiles and a histogram of each thread
    Histogram(TraceHistogramArgs),
    /// Play a trace in the terminal as if it were live
    ///
    /// Space plays and stops, `[` and `]` go one interval back and forward, + and - change the speed, `b` goes to a moment.
    Top(TraceTopArgs),
    /// Write a trace for Perfetto, or its slices as CSV or Parquet
    Export(TraceExportArgs),
    /// Show a trace in the browser: CPUs and threads over time, from minutes to microseconds
    View(TraceViewArgs),
    /// List the traces that devices sent to a receiver (--flight-recorder of their agents)
    List(TraceListArgs),
    /// Copy a trace out of a store, or from a receiver
    Get(TraceGetArgs),
    /// Ask a device for a trace of its last seconds; it may refuse, and writes at most one a minute
    Take(TraceTakeArgs),
}

/// `cpumon trace list`.
#[derive(Clone, Debug, Args)]
pub struct TraceListArgs {
    /// Only of this host, by name or id
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
    /// Range of time.
    #[command(flatten)]
    pub range: RangeArgs,
    /// The store or the receiver.
    #[command(flatten)]
    pub past: PastArgs,
    /// Output format.
    #[command(flatten)]
    pub format: FormatArgs,
}

/// `cpumon trace get`.
#[derive(Clone, Debug, Args)]
pub struct TraceGetArgs {
    /// The trace, as `cpumon trace list` numbers it
    #[arg(value_name = "ID")]
    pub id: i64,
    /// Write to this file, which appears when it is complete [default: standard output, as with `-`]
    #[arg(short = 'o', long, value_name = "OUT")]
    pub output: Option<PathBuf>,
    /// The store or the receiver.
    #[command(flatten)]
    pub past: PastArgs,
}

/// `cpumon trace take`.
#[derive(Clone, Debug, Args)]
pub struct TraceTakeArgs {
    /// The device, by name or id
    #[arg(long, value_name = "NAME")]
    pub host: String,
    /// The receiver's address
    #[arg(long, value_name = "URL", default_value = HTTP_URL)]
    pub url: String,
    /// Login token and certificate.
    #[command(flatten)]
    pub access: AccessArgs,
}

/// The rows that a trace is exported as; `None`: Perfetto.
pub type TraceExportFormat = Option<Format>;

static EXPORTS: [Word<TraceExportFormat>; 3] = [
    Word(
        "perfetto",
        "Protobuf for ui.perfetto.dev and `trace_processor`: CPUs, states of threads, wakeups",
        None,
    ),
    Word("csv", "A row for each time that a thread was in one state", Some(Format::Csv)),
    Word("parquet", "The same rows, compressed with zstd", Some(Format::Parquet)),
];

/// `cpumon trace export`.
#[derive(Clone, Debug, Args)]
pub struct TraceExportArgs {
    /// A trace of cpumon, or of a recorder whose files `report` reads
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Format
    #[arg(long, value_parser = one_of(&EXPORTS))]
    pub format: TraceExportFormat,
    /// CSV and Parquet only: from this time after the start of the trace: 500ms, 2s
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub from: Option<Duration>,
    /// CSV and Parquet only: to this time after the start of the trace
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub to: Option<Duration>,
    /// Write to this file, which appears when it is complete [default: standard output, as with `-`]
    #[arg(short = 'o', long, value_name = "OUT")]
    pub output: Option<PathBuf>,
}

/// `cpumon trace view`.
#[derive(Clone, Debug, Args)]
pub struct TraceViewArgs {
    /// A trace of cpumon, or of a recorder whose files `report` reads
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Address of the page, on this machine only; port 0: any free one
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:0", value_parser = loopback)]
    pub http: SocketAddr,
    /// Memory for the trace, about 40 bytes an event; a trace that needs more is shown in parts
    #[arg(long, value_name = "SIZE", default_value = "1GB", value_parser = size)]
    pub memory: u64,
    /// Serve the page from this directory, for those who work on it
    #[arg(long, value_name = "DIR", hide = true)]
    pub web_dir: Option<PathBuf>,
}

/// The level is zstd's own default. Higher ones take more time than they save bytes.
static COMPRESSIONS: [Word<Compression>; 2] = [
    Word("zstd", "zstd", Compression::Zstd(3)),
    Word("none", "No compression: less CPU time, a larger file", Compression::None),
];

/// `cpumon trace record`.
#[derive(Clone, Debug, Args)]
pub struct TraceRecordArgs {
    /// Write to this file, which must not exist; `-` is standard output, and what COMMAND prints goes to standard error then
    #[arg(short = 'o', long, value_name = "FILE", default_value = "cpumon.trace")]
    pub output: PathBuf,
    /// Record for this time: 500ms, 10s, 5m [default: until COMMAND ends, or until Ctrl-C]
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    pub length: Option<Duration>,
    /// Keep only the last TIME, in memory, and write it on Ctrl-C and at the end; each SIGUSR1 also writes it, to FILE, FILE-2, FILE-3 and so on
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub last: Option<Duration>,
    /// With --last: memory for it, 1MB or more; what does not fit is dropped, the oldest first
    #[arg(long, value_name = "SIZE", default_value = "64MB", value_parser = window_bytes, requires = "last")]
    pub memory: u64,
    /// Compression
    #[arg(long, value_parser = one_of(&COMPRESSIONS), default_value = "zstd")]
    pub compression: Compression,
    /// Buffer per CPU for events that are not written yet, 64KB to 512MB; increase it if events are lost
    #[arg(long, value_name = "SIZE", default_value = "8MiB", value_parser = size)]
    pub buffer: u64,
    /// Also record interrupts, and subtract their time from the threads that they interrupt
    #[arg(long)]
    pub irq: bool,
    /// Run this command, and record until it ends; its exit code is passed on
    #[arg(value_name = "COMMAND", last = true)]
    pub command: Vec<OsString>,
}

/// The rows of a trace's report; `None`: CPUs.
pub type TraceRowBy = Option<ReportBy>;

const CONTAINER: &str =
    "All processes in a container: Docker, containerd, CRI-O, Podman, LXC, systemd-nspawn";
static ROWS: [Word<TraceRowBy>; 5] = [
    Word("thread", "A thread", Some(ReportBy::Thread)),
    Word("process", "A process", Some(ReportBy::Process)),
    Word("program", "All processes of one name", Some(ReportBy::Program)),
    Word("container", CONTAINER, Some(ReportBy::Container)),
    Word("cpu", "A CPU", None),
];
static GROUPS: [Word<ReportBy>; 4] = [
    Word("thread", "A thread", ReportBy::Thread),
    Word("process", "A process", ReportBy::Process),
    Word("program", "All processes of one name", ReportBy::Program),
    Word("container", "All processes in a container", ReportBy::Container),
];
static DURATIONS: [Word<DurationOf>; 4] = [
    Word("delay", "Waits for a CPU", DurationOf::Ready),
    Word("blocked", "Waits for anything else, up to the wakeup", DurationOf::Blocked),
    Word("off-cpu", "From leaving a CPU to coming back to one", DurationOf::OffCpu),
    Word("run", "From coming to a CPU to leaving it", DurationOf::Run),
];

/// A trace, the range of interest, and the output.
#[derive(Clone, Debug, Args)]
pub struct TraceInputArgs {
    /// A trace of cpumon (also while it is recorded) or Perfetto, perf.data, trace.dat or .etl
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Only from this time after the start of the trace: 500ms, 2s
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub from: Option<Duration>,
    /// Only to this time after the start of the trace
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub to: Option<Duration>,
    /// Number of rows [default: 20 in a table, else all]
    #[arg(long, value_name = "N", value_parser = whole_number::<u32>(1..=u32::MAX.into()))]
    pub limit: Option<u32>,
    /// Output format.
    #[command(flatten)]
    pub format: FormatArgs,
}

/// `cpumon trace report`.
#[derive(Clone, Debug, Args)]
pub struct TraceReportArgs {
    /// Trace, range and output.
    #[command(flatten)]
    pub input: TraceInputArgs,
    /// What to group by
    #[arg(long, value_parser = one_of(&ROWS), default_value = "thread")]
    pub by: TraceRowBy,
    /// Show the rows over time, in intervals of this length: 1ms or more. With --by cpu also how many threads wait for each CPU
    #[arg(long, value_name = "TIME", value_parser = interval)]
    pub every: Option<Duration>,
}

/// `cpumon trace wakers`.
#[derive(Clone, Debug, Args)]
pub struct TraceWakersArgs {
    /// Trace, range and output.
    #[command(flatten)]
    pub input: TraceInputArgs,
    /// What to group wakers and woken by
    #[arg(long, value_parser = one_of(&GROUPS), default_value = "thread")]
    pub by: ReportBy,
}

/// `cpumon trace delays`.
#[derive(Clone, Debug, Args)]
#[command(mut_arg("limit", |limit| {
    limit.help("Number of waits").default_value("20").value_parser(whole_number::<u32>(1..=100_000))
}))]
pub struct TraceDelaysArgs {
    /// Trace, range and output.
    #[command(flatten)]
    pub input: TraceInputArgs,
}

/// `cpumon trace path`.
#[derive(Clone, Debug, Args)]
pub struct TracePathArgs {
    /// A trace of cpumon (also while it is recorded) or Perfetto, perf.data, trace.dat or .etl
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Thread, by id, or by name if only one thread has it
    #[arg(long, value_name = "TID|NAME", required_unless_present = "process")]
    pub thread: Option<String>,
    /// All threads of a process by its pid, or of all processes with a name: whose time it was, without single steps
    #[arg(long, value_name = "PID|NAME", conflicts_with = "thread")]
    pub process: Option<String>,
    /// What to sum the path by
    #[arg(long, value_parser = one_of(&GROUPS), default_value = "program")]
    pub by: ReportBy,
    /// Go back from this time after the start of the trace: 2.5s [default: the thread's last moment]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub at: Option<Duration>,
    /// Go back to this time after the start of the trace
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub from: Option<Duration>,
    /// Number of steps, with --process of rows; sums are of all steps [default: 20 in a table, else 100000]
    #[arg(long, value_name = "N", value_parser = whole_number::<u32>(1..=1_000_000))]
    pub limit: Option<u32>,
    /// Output format.
    #[command(flatten)]
    pub format: FormatArgs,
}

/// `cpumon trace top`.
#[derive(Clone, Debug, Args)]
pub struct TraceTopArgs {
    /// A trace of cpumon, or of a recorder whose files `report` reads
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Time between two screens, 1ms or more; each has the rows of that time
    #[arg(short = 'd', long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    pub interval: Duration,
    /// Only from this time after the start of the trace: 500ms, 2s
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub from: Option<Duration>,
    /// Only to this time after the start of the trace
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub to: Option<Duration>,
    /// Show a row for each thread
    #[arg(short = 'H', long)]
    pub threads: bool,
    /// Leave the mouse to the terminal: its selection of text then works without Shift
    #[arg(long)]
    pub no_mouse: bool,
}

/// `cpumon trace histogram`.
#[derive(Clone, Debug, Args)]
pub struct TraceHistogramArgs {
    /// Trace, range and output.
    #[command(flatten)]
    pub input: TraceInputArgs,
    /// What to measure
    #[arg(long, value_parser = one_of(&DURATIONS), default_value = "delay")]
    pub of: DurationOf,
    /// What to group by
    #[arg(long, value_parser = one_of(&GROUPS), default_value = "thread")]
    pub by: ReportBy,
}

fn interval(text: &str) -> Result<Duration, String> {
    let length = duration(text)?;
    if length < Duration::from_millis(1) {
        Err("the shortest interval is 1ms".to_owned())
    } else {
        Ok(length)
    }
}

fn loopback(text: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr =
        text.parse().map_err(|_| "an address has the form 127.0.0.1:3080".to_owned())?;
    if address.ip().is_loopback() {
        Ok(address)
    } else {
        Err("the page of a trace is served on this machine only; use a loopback address".to_owned())
    }
}

fn window_bytes(text: &str) -> Result<u64, String> {
    const LEAST: u64 = 1_000_000;
    let bytes = size(text)?;
    if bytes < LEAST { Err("the smallest memory is 1MB".to_owned()) } else { Ok(bytes) }
}
