//! [`ChartQuery`]: which chart to fill, from words of a command line or a URL.

use crate::report::{ReportBy, ReportFilter};
use crate::words;

words! {
    /// Views of a chart.
    View, "chart",
    Cpu = "cpu": "The host's CPU time by mode, stacked",
    Who = "who": "The groups that used the most CPU time, stacked: those of `cpumon report`",
    RunQueue = "run-queue": "Tasks running or ready",
    Tasks = "tasks": "Selected processes and threads, one line each",
    States = "states": "One process: user, system, ready, blocked, stacked",
    Delays = "delays": "One process: percentiles of its run delay",
    Threads = "threads": "One process: its threads by time, as a heatmap",
    Landscape = "landscape": "The busiest processes by time, as a heatmap",
    Cpus = "cpus": "Each CPU of the host by mode, one bar each: the mean of the range",
    Fleet = "fleet": "CPU use of hosts, one small line each",
}

words! {
    /// Scale of percentages: what 100 % is.
    Percent, "percent",
    Cpu = "cpu": "One CPU",
    Host = "host": "All CPUs",
}

words! {
    /// Cells of a heatmap.
    Cells, "cells",
    Mean = "mean": "The mean over the time of a cell; busiest rows first",
    Highest = "highest": "The highest interval in a cell, so that a spike of a second shows in a day; highest rows first",
}

words! {
    /// Order of hosts.
    Order, "order",
    Name = "name": "From A to Z",
    Busy = "busy": "Busiest first, over the range",
}

/// Which chart to fill.
#[derive(Clone, Debug, PartialEq)]
pub struct ChartQuery {
    /// What the chart shows.
    pub view: View,
    /// Names or ids. Empty means all hosts for the fleet, and the only host of the store for any other view.
    pub hosts: Vec<String>,
    /// Start, ns since the UNIX epoch; `None` is an hour before `until_ns`.
    pub since_ns: Option<i64>,
    /// End, ns since the UNIX epoch; `None` is the end of the data.
    pub until_ns: Option<i64>,
    /// Processes: `PID-STARTNS`, a pid, or a name.
    pub processes: Vec<String>,
    /// Threads: `TID-STARTNS`, or with `PID-STARTNS/` in front.
    pub threads: Vec<String>,
    /// What a row of the landscape or an area of [`View::Who`] is; `None` is [`ChartQuery::by`]'s default.
    pub by: Option<ReportBy>,
    /// Which rows have areas in [`View::Who`]; all else is in the area of the others.
    pub filter: ReportFilter,
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
            by: None,
            filter: ReportFilter::default(),
            cells: Cells::Mean,
            rows: None,
            offset: 0,
            order: None,
            is_reverse: false,
            with_blocked: false,
            is_finest: false,
            percent: Percent::Cpu,
        }
    }

    /// The grouping: a landscape's rows are names, the areas of [`View::Who`] are programs, as the page shows them.
    #[must_use]
    pub fn by(&self) -> ReportBy {
        self.by.unwrap_or(if self.view == View::Who { ReportBy::Program } else { ReportBy::Name })
    }
}
