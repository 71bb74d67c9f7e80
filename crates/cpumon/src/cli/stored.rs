//! Arguments of the commands over a store: `report`, `why`, `find`, `gaps`, `ledger`, `import`, `sql`, `store check`; and those that they
//! share: the store or the receiver that is asked, and a range of time.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use cpumon_collect::{SourceChoice, parse_interval, parse_probes};
use cpumon_model::Probes;
use cpumon_query::GroupBy;
use cpumon_query::report::{CompareWith, ReportBy, ReportFilter, ReportSort};
use cpumon_query::time::TimeRange;

use super::{AccessArgs, FormatArgs, HTTP_URL};
use crate::client::Client;
use crate::exit::Usage;
use crate::paths::store_for_reading;
use crate::units::{duration, whole_number};
use crate::when::{self, When};

/// The year 1823; from here to [`FAR_AHEAD_NS`] are no more nanoseconds than a range may have.
const LONG_AGO_NS: i64 = i64::MIN / 2;
/// The year 2116.
const FAR_AHEAD_NS: i64 = i64::MAX / 2;

/// The store to read.
#[derive(Clone, Debug, Args)]
pub struct StoreArgs {
    /// Read this store [default: /var/lib/cpumon/cpumon.db as root, else ~/.local/state/cpumon/cpumon.db]
    #[arg(long, value_name = "FILE")]
    pub store: Option<PathBuf>,
}

impl StoreArgs {
    /// The path of the store: the given one or the default.
    pub fn path(&self) -> PathBuf {
        store_for_reading(self.store.as_deref())
    }
}

/// The source of answers about the past: a store, or a receiver.
#[derive(Clone, Debug, Args)]
pub struct PastArgs {
    /// The store.
    #[command(flatten)]
    pub store: StoreArgs,
    /// Ask the receiver at this address instead of reading a store, such as `http://127.0.0.1:3080`
    #[arg(long, value_name = "URL", conflicts_with = "store")]
    pub url: Option<String>,
    /// Login token and certificate.
    #[command(flatten)]
    pub access: AccessArgs,
}

impl PastArgs {
    /// The receiver of `--url`, if it is given.
    pub fn client(&self) -> Result<Option<Client>, Usage> {
        self.url.as_deref().map(|url| Client::of_past(url, &self.access)).transpose().map_err(Usage)
    }

    /// The receiver of `--url`, else that of this machine.
    pub fn receiver(&self) -> Result<Client, Usage> {
        Client::new(self.url.as_deref().unwrap_or(HTTP_URL), &self.access).map_err(Usage)
    }
}

/// The range of time to read.
#[derive(Clone, Debug, Args)]
pub struct RangeArgs {
    /// Start of the range: `1h`, `-1h` and `1h ago` are an hour ago; also `14:05`, `yesterday 14:05`, `2026-11-20T14:05Z`
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub since: Option<When>,
    /// End of the range, in the same forms
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub until: Option<When>,
}

impl RangeArgs {
    /// Both ends in ns since the UNIX epoch; `None` where an end is not given.
    pub fn range_ns(&self) -> Result<(Option<i64>, Option<i64>), Usage> {
        if let (Some(since), Some(until)) = (self.since, self.until)
            && since >= until
        {
            let (since, until) = (when::show(since.wall_ns), when::show(until.wall_ns));
            return Err(Usage(format!("--since {since} is not before --until {until}")));
        }
        Ok((self.since.map(|since| since.wall_ns), self.until.map(|until| until.wall_ns)))
    }

    /// Both ends; where one is not given, all that is stored.
    pub fn time_range(&self) -> Result<TimeRange, Usage> {
        let (since_ns, until_ns) = self.range_ns()?;
        Ok(TimeRange {
            since_ns: since_ns.map_or(LONG_AGO_NS, |ns| ns.max(LONG_AGO_NS)),
            until_ns: until_ns.map_or(FAR_AHEAD_NS, |ns| ns.min(FAR_AHEAD_NS)),
        })
    }

    /// Whether at least one end is given.
    pub fn is_given(&self) -> bool {
        self.since.is_some() || self.until.is_some()
    }
}

/// `cpumon store`.
#[derive(Clone, Debug, Args)]
pub struct StoreCommandArgs {
    /// The command.
    #[command(subcommand)]
    pub command: StoreCommand,
}

/// The commands of `cpumon store`.
#[derive(Clone, Debug, Subcommand)]
pub enum StoreCommand {
    /// Read a whole store and report damage; the exit code is 3 if there is any
    Check(StoreCheckArgs),
    /// Copy a store as it is at this moment, while a receiver writes it, and check the copy
    Backup(StoreBackupArgs),
}

/// `cpumon store backup`.
#[derive(Clone, Debug, Args)]
pub struct StoreBackupArgs {
    /// The store; a receiver may be writing it
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The new file; none is replaced
    #[arg(value_name = "NEW")]
    pub to: PathBuf,
    /// Output format.
    #[command(flatten)]
    pub format: FormatArgs,
}

/// `cpumon store check`.
#[derive(Clone, Debug, Args)]
pub struct StoreCheckArgs {
    /// The store; a receiver may be writing it
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Copy everything that can be read to this new store; each hole becomes a gap
    #[arg(long, value_name = "NEW")]
    pub salvage: Option<PathBuf>,
    /// Output format.
    #[command(flatten)]
    pub format: FormatArgs,
}

/// `--within BY:NAME`: one group of processes.
pub(crate) fn within(text: &str) -> Result<(GroupBy, String), String> {
    let (by, name) =
        text.split_once(':').ok_or_else(|| format!("{text:?} is not BY:NAME, such as user:0"))?;
    let by = ReportFilter::grouping_within(by).map_err(|error| error.to_string())?;
    Ok((by, name.to_owned()))
}

pub(super) const SINCE: &str = "Start of the range: `1h` or `-1h` (an hour ago), `yesterday 14:05`, `2026-11-20T14:05Z` [default: an hour before --until]";
pub(super) const UNTIL: &str = "End of the range, in the same forms [default: the end of the stored data]";

/// `cpumon report`.
#[derive(Clone, Debug, Args)]
#[command(mut_arg("since", |since| since.help(SINCE)), mut_arg("until", |until| until.help(UNTIL)))]
pub struct ReportArgs {
    /// Only what has this in its name: as --filter, by process
    #[arg(value_name = "NAME", conflicts_with = "filter")]
    pub name: Option<String>,
    /// The store or the receiver.
    #[command(flatten)]
    pub past: PastArgs,
    /// The range of time.
    #[command(flatten)]
    pub range: RangeArgs,
    /// Host, by name or id; may be repeated [default: this machine, or the only host of the store]
    #[arg(long, value_name = "NAME")]
    pub host: Vec<String>,
    /// All hosts of the store
    #[arg(long, conflicts_with = "host")]
    pub all_hosts: bool,
    /// What to group by [default: program; with NAME: process]
    #[arg(long, value_enum)]
    pub by: Option<ReportBy>,
    /// Order of the rows [default: cpu; with --compare: change]
    #[arg(long, value_enum)]
    pub sort: Option<ReportSort>,
    /// Number of rows; one more row sums up everything else
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = whole_number::<u32>(1..=u32::MAX.into()))]
    pub limit: u32,
    /// Compare with the range before (`before`), with the same range a day earlier (`yesterday`), or with another range (`3h..2h`)
    #[arg(long, value_name = "WITH", allow_hyphen_values = true, value_parser = compare_with)]
    pub compare: Option<CompareWith>,
    /// Only rows whose name or container contains this text, in upper or lower case, or with this user id or pid; one row sums up everything else
    #[arg(long, value_name = "TEXT")]
    pub filter: Option<String>,
    /// Only processes of one group, such as user:0 or service:cron.service
    #[arg(long, value_name = "BY:NAME", value_parser = within)]
    pub within: Option<(GroupBy, String)>,
    /// Output format.
    #[command(flatten)]
    pub format: FormatArgs,
}

const WHY_SINCE: &str = "Start of the time to explain: `1h` or `-1h` (an hour ago), `yesterday 14:05`, `2026-11-20T14:05Z` [default: five minutes before --until]";

/// `cpumon why`.
#[derive(Clone, Debug, Args)]
#[command(mut_arg("since", |since| since.help(WHY_SINCE)), mut_arg("until", |until| until.help(UNTIL)))]
pub struct WhyArgs {
    /// A program by its name, or by a part of it if only one has that; or a process by its pid [default: the machine]
    #[arg(value_name = "NAME|PID", conflicts_with_all = ["service", "container", "user"])]
    pub name: Option<String>,
    /// The processes of this systemd unit
    #[arg(long, value_name = "UNIT", conflicts_with_all = ["container", "user"])]
    pub service: Option<String>,
    /// The processes of this container or pod
    #[arg(long, value_name = "NAME", conflicts_with = "user")]
    pub container: Option<String>,
    /// The processes of this user, by name or id
    #[arg(long, value_name = "USER")]
    pub user: Option<String>,
    /// The store or the receiver.
    #[command(flatten)]
    pub past: PastArgs,
    /// The range of time.
    #[command(flatten)]
    pub range: RangeArgs,
    /// The minute around this moment, in the same forms
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, conflicts_with_all = ["since", "until"])]
    pub at: Option<When>,
    /// Host, by name or id [default: this machine, or the only host of the store]
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
    /// After the answer, record every context switch of this machine for this time, such as 5s: a trace has each wait
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with_all = ["url", "host"])]
    pub record: Option<Duration>,
    /// Output format.
    #[command(flatten)]
    pub format: FormatArgs,
}

fn compare_with(text: &str) -> Result<CompareWith, String> {
    match text {
        "before" => Ok(CompareWith::Before),
        "yesterday" => Ok(CompareWith::Yesterday),
        _ if text.contains("..") => when::between(text).map(CompareWith::Range),
        _ => Err(format!("{text:?} is none of: before, yesterday, TIME..TIME (such as 3h..2h)")),
    }
}

/// `cpumon find`.
#[derive(Clone, Debug, Args)]
pub struct FindArgs {
    /// Part of the name of a program, user, service, container or pod, in upper or lower case, or a user id
    #[arg(value_name = "TEXT")]
    pub text: String,
    /// The store or the receiver.
    #[command(flatten)]
    pub past: PastArgs,
    /// Only this host, by name or id; may be repeated [default: all]
    #[arg(long, value_name = "NAME")]
    pub host: Vec<String>,
    /// Output format.
    #[command(flatten)]
    pub format: FormatArgs,
}

/// `cpumon gaps`.
#[derive(Clone, Debug, Args)]
pub struct GapsArgs {
    /// The store or the receiver.
    #[command(flatten)]
    pub past: PastArgs,
    /// Only this host, by name or id; may be repeated [default: all]
    #[arg(long, value_name = "NAME")]
    pub host: Vec<String>,
    /// The range of time.
    #[command(flatten)]
    pub range: RangeArgs,
    /// Output format.
    #[command(flatten)]
    pub format: FormatArgs,
}

const LEDGER_URL: &str = "Ask the receiver at this address instead of reading a store [default with --live and --host: http://127.0.0.1:3080]";

/// `cpumon ledger`.
#[derive(Clone, Debug, Args)]
#[command(mut_arg("url", |url| url.help(LEDGER_URL)))]
pub struct LedgerArgs {
    /// The store or the receiver.
    #[command(flatten)]
    pub past: PastArgs,
    /// Measure for this time instead of reading a store: 10s, 1m. With --host: receive the intervals of a live host of a receiver
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with_all = ["store", "since", "until"])]
    pub live: Option<Duration>,
    /// Only this host, by name or id
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
    /// The range of time.
    #[command(flatten)]
    pub range: RangeArgs,
    /// Number of intervals to show with the largest unattributed share, worst first
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub worst: usize,
    /// Output format.
    #[command(flatten)]
    pub format: FormatArgs,
    /// With --live: time between two snapshots, 100ms to 1h
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_interval)]
    pub interval: Duration,
    /// With --live: what to measure with: auto, procfs or bpf
    #[arg(long, value_name = "SOURCE", default_value_t = SourceChoice::Auto)]
    pub source: SourceChoice,
    /// With --live: BPF probes, separated by commas: sched (context switches), waits, irq (interrupts), hist, or none (some lines are then sampled at the clock tick)
    #[arg(long, value_name = "LIST", default_value = "sched,irq", value_parser = parse_probes)]
    pub probes: Probes,
}

/// `cpumon import`.
#[derive(Clone, Debug, Args)]
pub struct ImportArgs {
    /// Directory of a recording, or a database such as ProcessUsage.sqlite; it is only read. Importing twice changes nothing
    #[arg(value_name = "DIR|FILE")]
    pub file: PathBuf,
    /// Import into this store [default: /var/lib/cpumon/cpumon.db as root, else ~/.local/state/cpumon/cpumon.db]
    #[arg(long, value_name = "FILE")]
    pub store: Option<PathBuf>,
    /// For databases only: name of the device [default: its address; in a database of 2012, the file's name, or `device` for ProcessUsage.sqlite]
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
    /// For databases only: time zone of its times, such as Europe/Berlin or +02:00 [default: UTC]
    #[arg(long, value_name = "TZ")]
    pub time_zone: Option<String>,
}

/// `cpumon sql`.
#[derive(Clone, Debug, Args)]
pub struct SqlArgs {
    /// SQL statement, in quotes
    #[arg(value_name = "QUERY")]
    pub query: String,
    /// The store.
    #[command(flatten)]
    pub store: StoreArgs,
    /// Output format.
    #[command(flatten)]
    pub format: FormatArgs,
}
