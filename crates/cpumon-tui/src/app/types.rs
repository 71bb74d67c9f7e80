//! What the state is made of: the clock, the window over the grid, what the event loop has to do.

use cpumon_model::HostId;
use cpumon_query::Seek;
use cpumon_query::report::ReportQuery;

use crate::feed::Play;

/// What the event loop has to do for the state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Ends the screens.
    Quit,
    /// Gives the terminal back and stops until the shell continues the process.
    Suspend,
    /// Shows another moment: call [`Feed::seek`](crate::Feed::seek), then [`App::on_seek`](crate::App::on_seek).
    Seek(Seek),
    /// Plays a recording, or stops it, or changes its speed: call [`Feed::play`](crate::Feed::play), then [`App::on_playback`](crate::App::on_playback).
    Play(Play),
    /// Goes to the moment that this text means: call [`Feed::parse_time`](crate::Feed::parse_time), then [`App::go_to`](crate::App::go_to).
    GoTo(String),
    /// Adds up a range of time: call [`Feed::report`](crate::Feed::report), then [`App::on_report`](crate::App::on_report).
    Report(ReportQuery),
    /// The same for the range that this text means: call [`Feed::parse_range`](crate::Feed::parse_range) first.
    ReportOf(String),
    /// Has the host traced: call [`Feed::take_trace`](crate::Feed::take_trace), then [`App::on_notice`](crate::App::on_notice).
    TakeTrace,
    /// Shows another host: call [`Feed::select`](crate::Feed::select).
    Select(HostId),
    /// Writes a file into the current directory, never over another one, then [`App::on_notice`](crate::App::on_notice).
    Export {
        /// File name without `.csv`; safe for any file system.
        stem: String,
        /// The file's text.
        csv: String,
    },
}

/// Which moment is on screen.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Clock {
    /// The newest interval, whenever one arrives.
    Live,
    /// The interval that was the newest when the user stopped.
    Paused,
    /// An interval that the user went to.
    Past,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Grid,
    /// The help, scrolled down by some lines.
    Help(u16),
    /// The list of hosts, at one of them.
    Hosts(usize),
    /// The users of the interval on screen, at one of them; 0 is everyone.
    Users(usize),
    /// Who used the CPU in a range, see [`ReportScreen`](crate::app::ReportScreen).
    Report,
    /// A line of text.
    Prompt(Prompt, String),
}

/// What a line of text is for.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Prompt {
    Search,
    Filter,
    GoTo,
    Range,
}

/// Which part of the command lines is in view.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CommandPart {
    /// Terminal columns to the left of it.
    pub from: usize,
    /// One of the rows in view has more to the right, as drawn last.
    pub has_more: bool,
}

/// Whether the plot and the details are shown below the grid.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Pane {
    /// Shown if it fits.
    Auto,
    Shown,
    Hidden,
}
