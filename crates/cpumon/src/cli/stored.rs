//! Arguments that the commands over a store share: the store and a range of time.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use cpumon_query::GroupBy;
use cpumon_query::report::ReportFilter;
use cpumon_query::time::TimeRange;

use super::{AccessArgs, FormatArgs, HTTP_URL};
use crate::client::Client;
use crate::exit::Usage;
use crate::paths::store_for_reading;
use crate::when::{self, When};

/// The year 1824; from here to [`FAR_AHEAD_NS`] are no more nanoseconds than a range may have.
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
    #[must_use]
    pub fn path(&self) -> PathBuf {
        store_for_reading(self.store.as_deref())
    }
}

/// Who is asked about the past: a store, or a receiver.
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
    #[must_use]
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
