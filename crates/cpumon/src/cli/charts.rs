//! `cpumon export chart`. In: nothing. Out: what the user may say of a picture.

use std::path::PathBuf;

use clap::builder::PossibleValue;
use clap::{Args, Subcommand, ValueEnum};
use cpumon_export::chart::{MAX_PIXELS, MIN_PIXELS, Zone};

use super::{RangeArgs, StoreArgs};

/// What `cpumon export` writes that is no table.
#[derive(Clone, Debug, Subcommand)]
pub enum ExportPicture {
    /// Draw a chart of a host, or of several, as SVG or PNG: the file that the page saves
    Chart(Box<ChartArgs>),
}

const SINCE: &str =
    "From this moment on: `3h ago`, `yesterday 14:05`, `2026-11-20T14:05Z` [default: an hour before --until]";
const UNTIL: &str = "Up to this moment [default: the end of what is kept]";

/// `cpumon export chart`.
#[derive(Clone, Debug, Args)]
#[command(mut_arg("since", |since| since.help(SINCE)), mut_arg("until", |until| until.help(UNTIL)))]
pub struct ChartArgs {
    /// What it is of
    #[arg(value_name = "VIEW", value_enum)]
    pub view: ChartView,
    /// Which store
    #[command(flatten)]
    pub store: StoreArgs,
    /// Write to this file, FILE.svg or FILE.png; it appears under its name only when it is complete [default: SVG to standard output]
    #[arg(short = 'o', long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// This host, by name or id; not needed if the store holds only one. Of `fleet` several, one option each [default there: all]
    #[arg(long, value_name = "NAME")]
    pub host: Vec<String>,
    /// Which range
    #[command(flatten)]
    pub range: RangeArgs,
    /// This process, by name, pid, or key PID-STARTNS; of `tasks` up to 32, one option each
    #[arg(long, value_name = "NAME|PID|KEY")]
    pub process: Vec<String>,
    /// Of `tasks`: this thread, by key TID-STARTNS, faster with its process in front: PID-STARTNS/TID-STARTNS
    #[arg(long, value_name = "KEY")]
    pub thread: Vec<String>,
    /// Of `landscape`: what makes a row
    #[arg(long, value_enum, default_value_t = ChartBy::Name)]
    pub by: ChartBy,
    /// Of `landscape` and `threads`: what a colour tells, and by what the rows are ordered
    #[arg(long, value_enum, default_value_t = ChartCells::Mean)]
    pub cells: ChartCells,
    /// Rows of a heatmap, hosts of `fleet`, 1 to 200 [default: 60, 200 threads]
    #[arg(long, value_name = "N")]
    pub rows: Option<usize>,
    /// Of `fleet`: leave out so many hosts at the beginning
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub offset: usize,
    /// Of `fleet`: in which order [default: as they are named, else by name]
    #[arg(long, value_enum)]
    pub sort: Option<ChartOrder>,
    /// Of `fleet`: the other way round; what has no data stays last
    #[arg(long)]
    pub reverse: bool,
    /// Of `states`: blocked time too
    #[arg(long)]
    pub blocked: bool,
    /// Read single intervals where sums of a minute would do: they have the CPU modes; 48 hours at most
    #[arg(long)]
    pub finest: bool,
    /// What 100 percent are
    #[arg(long, value_enum, default_value_t = ChartPercent::Cpu)]
    pub percent: ChartPercent,
    /// Width in pixels, 320 to 2400; a PNG has two for each [default: 1200]
    #[arg(long, value_name = "PIXELS", value_parser = pixels())]
    pub width: Option<u32>,
    /// Height in pixels, 320 to 2400 [default: what suits the chart]
    #[arg(long, value_name = "PIXELS", value_parser = pixels())]
    pub height: Option<u32>,
    /// Colours
    #[arg(long, value_enum, default_value_t = ChartTheme::Light)]
    pub theme: ChartTheme,
    /// Zone of the times: utc, local, a name as Europe/Berlin, or an offset as +05:30
    #[arg(long, value_name = "ZONE", default_value = "utc")]
    pub zone: Zone,
}

fn pixels() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(i64::from(MIN_PIXELS)..=i64::from(MAX_PIXELS))
}

/// A word of the library with its help.
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
    ChartView of cpumon_export::chart::View,
    Cpu: "The host's CPU time by mode, stacked",
    RunQueue: "Tasks running or ready",
    Tasks: "Chosen processes and threads, a line each",
    States: "One process: user, system, ready, blocked, stacked",
    Delays: "One process: percentiles of its run delay",
    Threads: "One process: its threads by time, as a heatmap",
    Landscape: "The busiest processes by time, as a heatmap",
    Cpus: "Each CPU of the host by mode, a bar each: the mean of the range",
    Fleet: "CPU use of all hosts or of some, a small line each",
}

choice! {
    /// Orders of hosts.
    ChartOrder of cpumon_export::chart::Order,
    Name: "From A to Z",
    Busy: "Busiest first, over the range",
}

choice! {
    /// Rows of the landscape.
    ChartBy of cpumon_export::chart::By,
    Name: "All processes of a name",
    Process: "Each process",
}

choice! {
    /// Cells of a heatmap.
    ChartCells of cpumon_export::chart::Cells,
    Mean: "The mean of the time in a cell; the busiest rows first",
    Highest: "The highest single interval in a cell: a spike of a second is seen in a day; the highest rows first",
}

choice! {
    /// What 100 percent are.
    ChartPercent of cpumon_export::chart::Percent,
    Cpu: "One CPU",
    Host: "All CPUs",
}

choice! {
    /// Colours.
    ChartTheme of cpumon_export::chart::Theme,
    Light: "For paper",
    Dark: "For dark screens",
}
