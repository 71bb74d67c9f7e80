//! [`ChartQuery`]: which chart to fill, from words of a command line or a URL; the hosts and processes that it names are looked up, and
//! its limits checked.

use std::cell::OnceCell;

use cpumon_model::{HostStatus, ProcessInterval, ProcessKey};

use crate::error::ProcessChoice;
use crate::history::{History, HostSeries, Lines, Selection};
use crate::hosts::{asked_range, hosts, only_host};
use crate::keys::parse_process_key;
use crate::report::{ReportBy, ReportFilter};
use crate::time::{Available, HOUR_NS, PlotRange, TimeRange};
use crate::{QueryError, history, words};

words! {
    /// Which view a chart shows.
    #[derive(Default)]
    View, "chart",
    #[default]
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
    /// Scale of percentages: what counts as 100 %.
    #[derive(Default)]
    Percent, "percent",
    #[default]
    Cpu = "cpu": "One CPU",
    Host = "host": "All CPUs",
}

words! {
    /// Which value the cells of a heatmap show.
    #[derive(Default, serde::Serialize, utoipa::ToSchema)]
    #[serde(rename_all = "snake_case")]
    Cells, "cells",
    #[default]
    Mean = "mean": "The mean over the time of a cell; busiest rows first",
    Highest = "highest": "The highest interval in a cell, so that a spike of a second shows in a day; highest rows first",
}

words! {
    /// Order of hosts.
    Order, "order",
    Name = "name": "From A to Z",
    Busy = "busy": "Busiest first, over the range",
}

/// A chart to fill, with its options.
#[derive(Clone, Debug, Default, PartialEq)]
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
    /// Threads: `TID-STARTNS`, or `PID-STARTNS/TID-STARTNS`.
    pub threads: Vec<String>,
    /// What a row of the landscape or an area of [`View::Who`] is; `None` is [`ChartQuery::by`]'s default.
    pub by: Option<ReportBy>,
    /// Which rows have areas in [`View::Who`]; all else is in the others. A landscape has rows whose names contain each word of its text.
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
    /// Reads single intervals even where sums would suffice.
    pub is_finest: bool,
    /// Points of a line and columns of a heatmap; `None` is what suits the view.
    pub points: Option<usize>,
    /// Scale of the percentages.
    pub percent: Percent,
}

impl ChartQuery {
    /// A view with every option at its default.
    pub fn new(view: View) -> Self {
        Self { view, ..Self::default() }
    }

    /// The grouping: a landscape's rows are names, the areas of [`View::Who`] are programs, as the page shows them.
    pub fn by(&self) -> ReportBy {
        self.by.unwrap_or(if self.view == View::Who { ReportBy::Program } else { ReportBy::Name })
    }
}

/// Threads are read one by one: their ranges are no longer than this.
pub const MAX_THREAD_RANGE_NS: i64 = 24 * HOUR_NS;
/// Longest range over which a query may read intervals where sums would do, ns.
pub const MAX_FINEST_RANGE_NS: i64 = 48 * HOUR_NS;
/// Rows of a picture at most: more are too low to be seen.
pub(super) const MAX_ROWS: usize = 200;

/// Refuses to read intervals instead of sums over a range longer than [`MAX_FINEST_RANGE_NS`].
pub(super) fn check_finest(query: &ChartQuery, range: TimeRange) -> Result<(), QueryError> {
    if query.is_finest && range.length_ns() > MAX_FINEST_RANGE_NS {
        return Err(QueryError::FinestRangeTooLong);
    }
    Ok(())
}

/// Refuses ranges over which single CPUs cannot be read in reasonable time.
pub(super) fn check_cpu_range(range: TimeRange) -> Result<(), QueryError> {
    if range.length_ns() > MAX_FINEST_RANGE_NS { Err(QueryError::CpuRangeTooLong) } else { Ok(()) }
}

/// Refuses ranges over which threads cannot be read in reasonable time.
pub fn check_thread_range(range: TimeRange) -> Result<(), QueryError> {
    if range.length_ns() > MAX_THREAD_RANGE_NS { Err(QueryError::ThreadRangeTooLong) } else { Ok(()) }
}

pub(super) fn rows_of(query: &ChartQuery, usual: usize) -> Result<usize, QueryError> {
    match query.rows.unwrap_or(usual) {
        rows if (1..=MAX_ROWS).contains(&rows) => Ok(rows),
        rows => Err(QueryError::RowCount { rows, most: MAX_ROWS }),
    }
}

/// A query about one host with all that is needed to answer it.
pub(super) struct ChartRequest<'a> {
    pub(super) history: &'a History,
    pub(super) host: &'a HostStatus,
    pub(super) query: ChartQuery,
    pub(super) range: TimeRange,
    pub(super) available: Option<Available>,
    /// The host over time, once a chart needed it.
    pub(super) series: OnceCell<HostSeries>,
    /// Title and lines of the one process, once a chart needed them.
    pub(super) process: OnceCell<(String, Lines)>,
}

impl<'a> ChartRequest<'a> {
    pub(super) fn new(
        history: &'a History,
        host: &'a HostStatus,
        query: &ChartQuery,
    ) -> Result<Self, QueryError> {
        let available = history.available(host.info.host)?;
        let range = asked_range(history, std::slice::from_ref(host), query.since_ns, query.until_ns)?;
        let (query, series, process) = (query.clone(), OnceCell::new(), OnceCell::new());
        Ok(Self { history, host, query, range, available, series, process })
    }

    /// The range with `usual` points, unless the query has a number of points.
    pub(super) fn plot(&self, usual: usize) -> PlotRange {
        let TimeRange { since_ns, until_ns } = self.range;
        PlotRange { since_ns, until_ns, points: self.query.points.unwrap_or(usual) }
    }

    /// The same, if threads can be read over it.
    pub(super) fn thread_plot(&self, points: usize) -> Result<PlotRange, QueryError> {
        check_thread_range(self.range)?;
        Ok(self.plot(points))
    }
}

/// Most names and keys in an error.
const MAX_NAMED: usize = 8;
/// Most characters of a command line in an error.
const MAX_COMMAND: usize = 60;

/// The host that a chart of one is of; without a name, the only one there is.
pub(super) fn host_of(history: &History, query: &ChartQuery) -> Result<HostStatus, QueryError> {
    match query.hosts.as_slice() {
        [] => {}
        [one] => return history.host(one),
        several => {
            return Err(QueryError::ManyHosts { view: query.view.name().into(), count: several.len() });
        }
    }
    // By its id once more: of a host that reports, the receiver knows more than the record says.
    history.host(&only_host("a chart", &history.stored()?)?.info.host.to_string())
}

/// The hosts of a fleet chart; for any other view the one host.
pub(super) fn hosts_of(history: &History, query: &ChartQuery) -> Result<Vec<HostStatus>, QueryError> {
    if query.view == View::Fleet {
        return hosts(history, &query.hosts);
    }
    Ok(vec![host_of(history, query)?])
}

impl ChartRequest<'_> {
    /// The only process of the query; an error if it names none or several.
    pub(super) fn one_process(&self) -> Result<ProcessKey, QueryError> {
        match self.query.processes.as_slice() {
            [one] => self.process(one),
            _ => Err(QueryError::NotOneProcess { view: self.query.view.name().into() }),
        }
    }

    /// `PID-STARTNS`; or a pid or a name that only one process of the range has.
    fn process(&self, text: &str) -> Result<ProcessKey, QueryError> {
        if let Ok(key) = parse_process_key(text) {
            return Ok(key);
        }
        let pid: Option<u32> = text.parse().ok();
        // A sum of the range, not a plot: a plot also looks up when each process began and ended.
        let mut processes = history::sum(self.history, self.host, self.range, false)?.interval.processes;
        processes.retain(|row| pid.map_or_else(|| *row.info.name == *text, |pid| row.key.pid == pid));
        let process = cpumon_model::escape(text).to_string();
        match processes.as_slice() {
            [one] => Ok(one.key),
            [] => Err(QueryError::NoProcess { process }),
            _ => self.which(process, processes),
        }
    }

    /// The error that lists the newest of several matching processes.
    fn which(&self, process: String, mut several: Vec<ProcessInterval>) -> Result<ProcessKey, QueryError> {
        let count = several.len();
        // Only theirs are looked up: a shell may have run 10,000 times.
        several.sort_by_key(|row| std::cmp::Reverse(row.key.start_ns));
        several.truncate(MAX_NAMED);
        // The boots of a range count as one here.
        let wanted = several.iter().map(|row| (row.key, None)).collect();
        let began = self.history.ask(|reader| reader.began(self.host.info.host, &wanted))?;
        let choice = |row: &ProcessInterval| ProcessChoice {
            key: row.key,
            began_ns: began.get(&row.key).copied(),
            run_ns: row.delta.run_ns,
            command: row.info.cmdline.chars().take(MAX_COMMAND).collect(),
        };
        let mut newest: Vec<_> = several.iter().map(choice).collect();
        newest.sort_by_key(|one| std::cmp::Reverse((one.began_ns, one.run_ns)));
        Err(QueryError::WhichProcess { process, count, newest })
    }

    /// A process as a line: a key, the one of this pid, or all of a name together.
    pub(super) fn selection(&self, text: &str) -> Result<Selection, QueryError> {
        if parse_process_key(text).is_ok() || text.parse::<u32>().is_ok() {
            return self.process(text).map(Selection::Process);
        }
        Ok(Selection::Name(text.to_owned()))
    }

    /// `web (pid 20)`.
    pub(super) fn process_title(&self, key: ProcessKey) -> Result<String, QueryError> {
        let known = self.history.process(self.host.info.host, key)?;
        let (info, _) = known.ok_or(QueryError::UnknownProcess)?;
        Ok(format!("{} (pid {})", info.name, key.pid))
    }
}
