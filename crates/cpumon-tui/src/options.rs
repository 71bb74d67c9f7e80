//! Options of the screens ([`Options`]) and of batch mode ([`BatchOptions`]), and their errors ([`TuiError`]).

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use cpumon_query::GroupBy;

use crate::columns::SortColumn;
use crate::feed::{FeedError, NoMoment, TimeWords};
use crate::view::{GROUPINGS, Layout, UserFilter, View};

#[derive(Clone, Debug, Default)]
pub struct RowOptions {
    /// Shows only these pids; empty for all.
    pub pids: Vec<u32>,
    /// Lists threads: on the screens the threads of all processes, in batch mode instead of the processes.
    pub threads: bool,
    /// Column to sort by; `None` is CPU.
    pub sort: Option<SortColumn>,
    /// Shows at most this many rows.
    pub limit: Option<usize>,
    /// Leaves out rows that did nothing.
    pub active: bool,
    pub user: Option<UserFilter>,
    /// Shows only rows that hold this text, in any case.
    pub filter: String,
}

impl RowOptions {
    /// The view that a user asked for at the start.
    pub(crate) fn view(&self) -> View {
        View {
            threads: self.threads,
            pids: self.pids.iter().copied().collect(),
            sort: self.sort.map(SortColumn::col).unwrap_or_default(),
            limit: self.limit,
            hide_idle: self.active,
            user: self.user.clone(),
            filter: self.filter.to_ascii_lowercase(),
            group_by: GROUPINGS[0],
            ..View::default()
        }
    }
}

/// The reader of the command lines of processes.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum CommandLines {
    /// The agent of each host, if it was started so. The screens begin with names.
    #[default]
    OfHosts,
    /// This program, because the user asked for them. The screens begin with command lines.
    Read,
    NotRead,
}

#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum PlotOption {
    /// Five minutes, where there is space for it.
    #[default]
    Auto,
    /// Hidden until the user asks for it.
    Off,
    /// Length in minutes, one of [`PLOT_MINUTES`](crate::PLOT_MINUTES), where there is space for the plot.
    Minutes(i64),
}

#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Ends the screens when it becomes true (set it from a handler of SIGTERM and SIGHUP).
    pub stop: Arc<AtomicBool>,
    /// Opens at this moment, ns since the UNIX epoch, instead of live.
    pub at_wall_ns: Option<i64>,
    pub time: TimeWords,
    pub rows: RowOptions,
    pub layout: Layout,
    pub group_by: Option<GroupBy>,
    pub plot: PlotOption,
    pub command_lines: CommandLines,
    /// No colors, whatever the terminal can do. `NO_COLOR` in the environment (not empty) does the same.
    pub no_color: bool,
    /// No mouse: the terminal's own selection of text works without Shift.
    pub no_mouse: bool,
    /// Stops the process until the shell continues it (SIGTSTP), for Ctrl-Z; `None` where there is no job control.
    pub suspend: Option<fn()>,
    /// Becomes true when the process was continued (SIGCONT): the terminal is set up again.
    pub continued: Arc<AtomicBool>,
    /// Memory for intervals to step back to, bytes; `None`: 64 MB. Half as much more is for the plot, an eighth for the totals since the
    /// start. A feed that finds the past by itself needs little.
    pub past_bytes: Option<usize>,
    /// Only ASCII characters: bars and marks without box drawing and braille. Chosen by itself where the locale is not UTF-8.
    pub ascii: bool,
}

#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum BatchFormat {
    /// Columns for people and `awk`.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

#[derive(Clone, Debug, Default)]
pub struct BatchOptions {
    /// Ends batch mode when it becomes true.
    pub stop: Arc<AtomicBool>,
    /// Ends after this many intervals; `None`: never.
    pub iterations: Option<u64>,
    /// Least time between the ends of two printed intervals; those between are counted and not printed. `None`: prints
    /// each. (A local feed is better made with this as its sampling interval: then nothing is left out.)
    pub delay: Option<Duration>,
    /// Prints one interval of the past, the one at this moment (ns since the UNIX epoch), and ends.
    pub at_wall_ns: Option<i64>,
    pub time: TimeWords,
    /// Text has command lines behind the names; JSON always has those that there are.
    pub cmdline: bool,
    pub rows: RowOptions,
    pub format: BatchFormat,
}

#[derive(Debug, thiserror::Error)]
pub enum TuiError {
    /// Standard output is not a terminal, or one that cannot place text (`TERM=dumb`).
    #[error("cannot draw screens: {reason}; batch mode (-b) prints lines instead")]
    NoTerminal { reason: &'static str },
    #[error("cannot {operation} the terminal")]
    Terminal {
        /// Verb for the error text: `set up`, `read` or `draw on`.
        operation: &'static str,
        source: std::io::Error,
    },
    /// Batch mode could not write its output.
    #[error("cannot write the output")]
    Output(#[source] std::io::Error),
    /// Batch mode got no data.
    #[error("cannot read data")]
    Feed(#[source] FeedError),
    /// Batch mode: there is no data for the requested moment.
    #[error(transparent)]
    NoMoment(NoMoment),
}
