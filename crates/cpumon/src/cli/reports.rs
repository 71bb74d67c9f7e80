//! Arguments of `report` and `find`.

use clap::Args;
use cpumon_query::GroupBy;
use cpumon_query::report::{CompareWith, ReportBy, ReportSort};
use cpumon_query::time::TimeRange;

use super::{FormatArgs, PastArgs, RangeArgs, within};
use crate::units::whole_number;
use crate::when;

const SINCE: &str = "Start of the range: `1h` or `-1h` (an hour ago), `yesterday 14:05`, `2026-11-20T14:05Z` [default: an hour before --until]";
const UNTIL: &str = "End of the range, in the same forms [default: the end of the stored data]";

/// `cpumon report`.
#[derive(Clone, Debug, Args)]
#[command(mut_arg("since", |since| since.help(SINCE)), mut_arg("until", |until| until.help(UNTIL)))]
pub struct ReportArgs {
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
    /// What to group by
    #[arg(long, value_enum, default_value_t = ReportBy::Program)]
    pub by: ReportBy,
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

fn compare_with(text: &str) -> Result<CompareWith, String> {
    match text {
        "before" => Ok(CompareWith::Before),
        "yesterday" => Ok(CompareWith::Yesterday),
        _ if text.contains("..") => {
            let when::Between { since, until } = when::between(text)?;
            Ok(CompareWith::Range(TimeRange::new(since.wall_ns, until.wall_ns)))
        }
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
