//! [`ChartQuery`]: which chart to draw, from words of a command line or a URL.

use std::str::FromStr;

use super::zone::Zone;
use crate::ExportError;

/// Least pixels of a side.
pub const MIN_PIXELS: u32 = 320;
/// Most pixels of a side: a PNG has twice as many.
pub const MAX_PIXELS: u32 = 2400;

/// An enum whose variants are words of the command line and the API.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident, $what:literal, $($(#[$variant_doc:meta])* $variant:ident = $word:literal),+ $(,)?) => {
        $(#[$doc])*
        #[derive(Copy, Clone, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$variant_doc])* $variant),+ }

        impl $name {
            /// All variants.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// The word that [`FromStr`] takes.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }

        impl FromStr for $name {
            type Err = ExportError;

            fn from_str(text: &str) -> Result<Self, ExportError> {
                let found = Self::ALL.iter().find(|one| one.name() == text).copied();
                found.ok_or_else(|| ExportError::Choice {
                    what: $what,
                    text: text.chars().take(64).collect(),
                    choices: [$($word),+].join(", "),
                })
            }
        }
    };
}

words! {
    /// The subject of a chart.
    View, "chart",
    /// A host's CPU time by mode, stacked.
    Cpu = "cpu",
    /// Tasks running or ready.
    RunQueue = "run-queue",
    /// Selected processes and threads, one line each.
    Tasks = "tasks",
    /// One process: user, system, ready, blocked, stacked.
    States = "states",
    /// One process: percentiles of its run delay.
    Delays = "delays",
    /// One process: its threads by time, as a heatmap.
    Threads = "threads",
    /// The busiest processes by time, as a heatmap.
    Landscape = "landscape",
    /// Each CPU of a host by mode, one bar each.
    Cpus = "cpus",
    /// CPU use of several hosts, one small line each.
    Fleet = "fleet",
}

words! {
    /// Light or dark colours.
    #[derive(Default)]
    Theme, "theme",
    /// A light background, for paper.
    #[default]
    Light = "light",
    /// A dark background.
    Dark = "dark",
}

words! {
    /// Scale: 100 % = one CPU or the whole host.
    Percent, "percent",
    /// 100 % is one CPU.
    Cpu = "cpu",
    /// 100 % is the whole host.
    Host = "host",
}

words! {
    /// What a row of the landscape is.
    By, "row",
    /// All processes of one name.
    Name = "name",
    /// A single process.
    Process = "process",
}

words! {
    /// What the colour of a heatmap's cell shows, and how its rows are ordered.
    Cells, "cells",
    /// The mean of the time in the cell; the busiest rows first.
    Mean = "mean",
    /// The highest single interval in it; the rows with the highest first.
    Highest = "highest",
}

words! {
    /// Order of hosts.
    Order, "order",
    /// By name.
    Name = "name",
    /// Busiest first, over the range.
    Busy = "busy",
}

/// File format of a picture.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum PictureForm {
    /// Sharp at any size.
    #[default]
    Svg,
    /// Two pixels for each of the chart's own.
    Png,
}

/// Size, colours and time zone of a picture.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RenderOptions {
    /// Width in pixels; `None` is 1200.
    pub width: Option<u32>,
    /// Height in pixels; `None` depends on the chart.
    pub height: Option<u32>,
    /// Light or dark colours.
    pub theme: Theme,
    /// Time zone of the labels.
    pub zone: Zone,
}

impl Theme {
    pub(super) fn nth(self) -> usize {
        usize::from(self == Self::Dark)
    }
}

impl FromStr for PictureForm {
    type Err = ExportError;

    fn from_str(text: &str) -> Result<Self, ExportError> {
        match text {
            "svg" => Ok(Self::Svg),
            "png" => Ok(Self::Png),
            _ => Err(ExportError::Choice {
                what: "picture format",
                text: text.chars().take(64).collect(),
                choices: "svg, png".to_owned(),
            }),
        }
    }
}

impl PictureForm {
    /// `svg`, `png`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Svg => "svg",
            Self::Png => "png",
        }
    }
}

/// Which chart to draw, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct ChartQuery {
    /// What the chart shows.
    pub view: View,
    /// Names or ids. Empty means all hosts for the fleet, and the only host of the store for any other view.
    pub hosts: Vec<String>,
    /// Begin, ns since the UNIX epoch; `None` is an hour before `until_ns`.
    pub since_ns: Option<i64>,
    /// End, ns since the UNIX epoch; `None` is the end of the data.
    pub until_ns: Option<i64>,
    /// Processes: `PID-STARTNS`, a pid, or a name.
    pub processes: Vec<String>,
    /// Threads: `TID-STARTNS`, or with `PID-STARTNS/` in front.
    pub threads: Vec<String>,
    /// What a row of the landscape is.
    pub by: By,
    /// What the cells of a heatmap show.
    pub cells: Cells,
    /// Most rows of a heatmap or hosts of the fleet; `None` is 60, for threads 200.
    pub rows: Option<usize>,
    /// Hosts of the fleet to skip at the beginning.
    pub offset: usize,
    /// Order of hosts; `None` is the order of `hosts`, or by name if that is empty.
    pub order: Option<Order>,
    /// Reverses the order of hosts.
    pub is_reverse: bool,
    /// Adds blocked time to the states.
    pub with_blocked: bool,
    /// Reads single intervals where sums would do.
    pub is_finest: bool,
    /// Scale of the percentages.
    pub percent: Percent,
    /// Size, colours and time zone.
    pub options: RenderOptions,
    /// SVG or PNG, the format of the file.
    pub form: PictureForm,
}

impl ChartQuery {
    /// A view with every option at its default.
    #[must_use]
    pub fn new(view: View) -> Self {
        Self {
            view,
            hosts: Vec::new(),
            since_ns: None,
            until_ns: None,
            processes: Vec::new(),
            threads: Vec::new(),
            by: By::Name,
            cells: Cells::Mean,
            rows: None,
            offset: 0,
            order: None,
            is_reverse: false,
            with_blocked: false,
            is_finest: false,
            percent: Percent::Cpu,
            options: RenderOptions::default(),
            form: PictureForm::Svg,
        }
    }
}
