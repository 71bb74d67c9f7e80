//! [`ChartQuery`]: which chart to fill, from words of a command line or a URL.

use crate::words;

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
    /// Scale: 100 % = one CPU or the whole host.
    Percent, "percent",
    /// 100 % is one CPU.
    Cpu = "cpu",
    /// 100 % is the whole host.
    Host = "host",
}

words! {
    /// What a row of the landscape is.
    LandscapeBy, "row",
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

/// Which chart to fill.
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
    pub by: LandscapeBy,
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
            by: LandscapeBy::Name,
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
}
