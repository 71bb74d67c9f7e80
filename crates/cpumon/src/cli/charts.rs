//! Arguments of `cpumon export chart`.

use std::path::PathBuf;

use clap::builder::PossibleValue;
use clap::{Args, Subcommand, ValueEnum};
use cpumon_export::chart::{MAX_PIXELS, MIN_PIXELS, Zone};

use super::{RangeArgs, StoreArgs};

/// The subcommand of `cpumon export`.
#[derive(Clone, Debug, Subcommand)]
pub enum ExportPicture {
    /// Draw a chart as SVG or PNG, the same file that the web page saves
    Chart(Box<ChartArgs>),
}

const SINCE: &str = "Begin of the range: `1h` or `-1h` (an hour ago), `yesterday 14:05`, `2026-11-20T14:05Z` [default: an hour before --until]";
const UNTIL: &str = "End of the range, in the same forms [default: the end of the stored data]";

/// `cpumon export chart`.
#[derive(Clone, Debug, Args)]
#[command(mut_arg("since", |since| since.help(SINCE)), mut_arg("until", |until| until.help(UNTIL)))]
pub struct ChartArgs {
    /// View to draw
    #[arg(value_name = "VIEW", value_enum)]
    pub view: ChartView,
    /// The store.
    #[command(flatten)]
    pub store: StoreArgs,
    /// Write to this file, FILE.svg or FILE.png; it gets its name when it is complete [default: SVG to standard output]
    #[arg(short = 'o', long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Host, by name or id; not needed if the store holds only one. For `fleet`: several hosts; may be repeated [default: all]
    #[arg(long, value_name = "NAME")]
    pub host: Vec<String>,
    /// The range of time.
    #[command(flatten)]
    pub range: RangeArgs,
    /// Process, by name, pid, or key PID-STARTNS; for `tasks` up to 32 processes; may be repeated
    #[arg(long, value_name = "NAME|PID|KEY")]
    pub process: Vec<String>,
    /// For `tasks`: thread, by key TID-STARTNS, or faster PID-STARTNS/TID-STARTNS with the key of its process; may be repeated
    #[arg(long, value_name = "KEY")]
    pub thread: Vec<String>,
    /// For `landscape`: one row for each of these
    #[arg(long, value_enum, default_value_t = ChartBy::Name)]
    pub by: ChartBy,
    /// For `landscape` and `threads`: value of a cell, which also orders the rows
    #[arg(long, value_enum, default_value_t = ChartCells::Mean)]
    pub cells: ChartCells,
    /// Rows of a heatmap or hosts of `fleet`, 1 to 200 [default: 60, for threads 200]
    #[arg(long, value_name = "N")]
    pub rows: Option<usize>,
    /// For `fleet`: skip this many hosts
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub offset: usize,
    /// For `fleet`: order of the hosts [default: the order of --host, else by name]
    #[arg(long, value_enum)]
    pub sort: Option<ChartOrder>,
    /// For `fleet`: reverse the order; hosts without data stay last
    #[arg(long)]
    pub reverse: bool,
    /// For `states`: draw blocked time too
    #[arg(long)]
    pub blocked: bool,
    /// Read single intervals instead of sums of a minute, which have no CPU modes; at most 48 hours
    #[arg(long)]
    pub finest: bool,
    /// Scale: 100 % = one CPU or the whole host
    #[arg(long, value_enum, default_value_t = ChartPercent::Cpu)]
    pub percent: ChartPercent,
    /// Width in pixels, 320 to 2400; a PNG has twice as many [default: 1200]
    #[arg(long, value_name = "PIXELS", value_parser = pixels())]
    pub width: Option<u32>,
    /// Height in pixels, 320 to 2400 [default: depends on the view]
    #[arg(long, value_name = "PIXELS", value_parser = pixels())]
    pub height: Option<u32>,
    /// Colour theme
    #[arg(long, value_enum, default_value_t = ChartTheme::Light)]
    pub theme: ChartTheme,
    /// Time zone of the axis: utc, local, a name such as Europe/Berlin, or an offset such as +05:30
    #[arg(long, value_name = "ZONE", default_value = "utc")]
    pub zone: Zone,
}

fn pixels() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(i64::from(MIN_PIXELS)..=i64::from(MAX_PIXELS))
}

/// A value of the export crate, with its help text.
macro_rules! choice {
    ($(#[$doc:meta])* $name:ident of $from:path, $($variant:ident: $help:literal),+ $(,)?) => {
        $(#[$doc])*
        #[derive(Copy, Clone, Debug, PartialEq, Eq)]
        pub enum $name { $(#[doc = $help] $variant),+ }

        impl From<$name> for $from {
            fn from(choice: $name) -> Self {
                match choice { $($name::$variant => Self::$variant),+ }
            }
        }

        impl ValueEnum for $name {
            fn value_variants<'a>() -> &'a [Self] {
                &[$(Self::$variant),+]
            }

            fn to_possible_value(&self) -> Option<PossibleValue> {
                let help = match self { $(Self::$variant => $help),+ };
                Some(PossibleValue::new(<$from>::from(*self).name()).help(help))
            }
        }
    };
}

choice! {
    /// Views of a chart.
    ChartView of cpumon_query::charts::View,
    Cpu: "The host's CPU time by mode, stacked",
    RunQueue: "Tasks running or ready",
    Tasks: "Selected processes and threads, one line each",
    States: "One process: user, system, ready, blocked, stacked",
    Delays: "One process: percentiles of its run delay",
    Threads: "One process: its threads by time, as a heatmap",
    Landscape: "The busiest processes by time, as a heatmap",
    Cpus: "Each CPU of the host by mode, one bar each: the mean of the range",
    Fleet: "CPU use of hosts, one small line each",
}

choice! {
    /// Orders of hosts.
    ChartOrder of cpumon_query::charts::Order,
    Name: "From A to Z",
    Busy: "Busiest first, over the range",
}

choice! {
    /// Rows of the landscape.
    ChartBy of cpumon_query::charts::LandscapeBy,
    Name: "All processes of one name",
    Process: "Each process",
}

choice! {
    /// Cells of a heatmap.
    ChartCells of cpumon_query::charts::Cells,
    Mean: "The mean over the time of a cell; busiest rows first",
    Highest: "The highest interval in a cell, so that a spike of a second shows in a day; highest rows first",
}

choice! {
    /// Scales of percentages.
    ChartPercent of cpumon_query::charts::Percent,
    Cpu: "One CPU",
    Host: "All CPUs",
}

choice! {
    /// Colour themes.
    ChartTheme of cpumon_export::chart::Theme,
    Light: "For paper",
    Dark: "For dark screens",
}
