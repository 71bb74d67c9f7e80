//! What can be asked for. In: words. Out: [`ChartQuery`].

use std::str::FromStr;

use super::{PictureForm, RenderOptions};
use crate::ExportError;

/// Least and most pixels of a side.
pub const MIN_PIXELS: u32 = 320;
/// Most pixels of a side: a PNG has twice as many.
pub const MAX_PIXELS: u32 = 2400;

/// Makes an enum from words.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident, $what:literal, $($(#[$variant_doc:meta])* $variant:ident = $word:literal),+ $(,)?) => {
        $(#[$doc])*
        #[derive(Copy, Clone, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$variant_doc])* $variant),+ }

        impl $name {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// The word for it.
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
    /// What a chart is of.
    View, "chart",
    /// A host's CPU time by mode, stacked.
    Cpu = "cpu",
    /// Tasks running or ready.
    RunQueue = "run-queue",
    /// Chosen processes and threads, a line each.
    Tasks = "tasks",
    /// One process: user, system, ready, blocked, stacked.
    States = "states",
    /// One process: percentiles of its run delay.
    Delays = "delays",
    /// One process: its threads by time, as a heatmap.
    Threads = "threads",
    /// The busiest processes by time, as a heatmap.
    Landscape = "landscape",
    /// Each CPU of a host by mode, a bar each.
    Cpus = "cpus",
    /// CPU use of several hosts, a small line each.
    Fleet = "fleet",
}

words! {
    /// Colours.
    #[derive(Default)]
    Theme, "theme",
    /// For paper.
    #[default]
    Light = "light",
    /// For dark screens.
    Dark = "dark",
}

words! {
    /// What 100 percent are.
    Percent, "percent",
    /// One CPU.
    Cpu = "cpu",
    /// All CPUs.
    Host = "host",
}

words! {
    /// What makes a row of the landscape.
    By, "row",
    /// Processes of a name together.
    Name = "name",
    /// Each process.
    Process = "process",
}

words! {
    /// What the colour of a heatmap's cell tells, and by what its rows are ordered.
    Cells, "cells",
    /// The mean of the time in the cell; the busiest rows first.
    Mean = "mean",
    /// The highest single interval in it; the rows with the highest first.
    Highest = "highest",
}

words! {
    /// How hosts are ordered.
    Order, "order",
    /// From A to Z.
    Name = "name",
    /// Busiest first, over the range.
    Busy = "busy",
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
                what: "form of a picture",
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

/// What a chart is asked for with.
#[derive(Clone, Debug, PartialEq)]
pub struct ChartQuery {
    /// What it is of.
    pub view: View,
    /// By name or id. Of one host: none is the only one there is. Of the fleet: none is all.
    pub hosts: Vec<String>,
    /// ns since the UNIX epoch; `None`: an hour before `until_ns`.
    pub since_ns: Option<i64>,
    /// `None`: the end of what is kept.
    pub until_ns: Option<i64>,
    /// Processes: `PID-STARTNS`, a pid, or a name.
    pub processes: Vec<String>,
    /// Threads: `TID-STARTNS`, or with `PID-STARTNS/` in front.
    pub threads: Vec<String>,
    /// What makes a row of the landscape.
    pub by: By,
    /// Of heatmaps.
    pub cells: Cells,
    /// Rows of a heatmap, hosts of the fleet at most; `None`: 60, but 200 threads.
    pub rows: Option<usize>,
    /// Hosts of the fleet that are left out at the beginning.
    pub offset: usize,
    /// Order of hosts; `None`: as they are named, else by name.
    pub order: Option<Order>,
    /// The other way round.
    pub is_reverse: bool,
    /// Blocked time is part of the states.
    pub with_blocked: bool,
    /// Single intervals are read where sums would do.
    pub is_finest: bool,
    /// What 100 percent are.
    pub percent: Percent,
    /// How it looks.
    pub options: RenderOptions,
    /// SVG or PNG.
    pub form: PictureForm,
}

impl ChartQuery {
    /// The plain chart of a view.
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
