//! [`App`]: the state of the screens. It has no terminal, clock or feed, so tests can drive it: keys and intervals go in, drawings
//! and [`Request`]s come out.

mod cursor;
mod plot;

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use cpumon_model::{HostId, HostStatus, Interval};
use cpumon_query::Seek;
use cpumon_query::report::{Report, ReportQuery};
use cpumon_query::why::{Why, WhyQuery};
use ratatui::layout::Rect;

use self::cursor::GridCursor;
pub(crate) use self::cursor::{ReportScreen, moved};
use crate::columns::ColumnPlace;
use crate::feed::{FeedError, NoMoment, Play, Playback, TimeWords};
use crate::history::{LossHistory, PAST_BYTES, PlotState, Recent, RunHistory, RunTotals};
use crate::options::{CommandLines, Options, PlotOption};
use crate::rows::{RowId, RowList};
use crate::text;
use crate::theme::Theme;
use crate::view::{Col, GROUPINGS, View};

/// State of all screens.
#[derive(Debug)]
pub struct App {
    pub(crate) theme: Theme,
    pub(crate) view: View,
    pub(crate) command_lines: CommandLines,
    pub(crate) command: CommandPart,
    pub(crate) title: String,
    pub(crate) hosts: Vec<HostStatus>,
    pub(crate) host: Option<HostId>,
    pub(crate) age: Option<Duration>,
    pub(crate) newest: Option<Arc<Interval>>,
    pub(crate) shown: Option<Arc<Interval>>,
    pub(crate) clock: Clock,
    /// How the recording on screen is played, if it is one.
    pub(crate) playback: Option<Playback>,
    pub(crate) rows: RowList,
    pub(crate) cursor: GridCursor,
    pub(crate) mode: ScreenMode,
    pub(crate) search: String,
    pub(crate) notice: Option<String>,
    pub(crate) problem: Option<String>,
    pub(crate) pane: Pane,
    pub(crate) plot: PlotState,
    /// Where the grid was drawn, its line of titles first, and its columns: for the mouse.
    pub(crate) grid: (Rect, Vec<ColumnPlace>),
    pub(crate) report: Option<ReportScreen>,
    /// The answer in the window of [`ScreenMode::Why`].
    pub(crate) why: Option<Why>,
    pub(crate) seen_history: RunHistory,
    pub(crate) recent: Recent,
    pub(crate) counts: LossHistory,
    pub(crate) seen: RunTotals,
    /// Memory for past intervals, bytes.
    past_bytes: usize,
    pub(crate) time: TimeWords,
    pub(crate) is_pane_drawn: bool,
    /// The selected task with the name it had when it was seen last.
    pub(crate) subject: Option<(RowId, String)>,
    is_dirty: bool,
}

impl App {
    pub fn new(options: &Options) -> Self {
        let view = View {
            cmdline: options.command_lines == CommandLines::Read,
            layout: options.layout,
            group_by: options.group_by.unwrap_or(GROUPINGS[0]),
            ..options.rows.view()
        };
        let past_bytes = options.past_bytes.unwrap_or(PAST_BYTES);
        Self {
            command_lines: options.command_lines,
            command: CommandPart::default(),
            theme: Theme { color: !options.no_color, ascii: options.ascii },
            view,
            title: String::new(),
            hosts: Vec::new(),
            host: None,
            age: None,
            newest: None,
            shown: None,
            clock: Clock::Live,
            playback: None,
            rows: RowList::default(),
            cursor: GridCursor::default(),
            mode: ScreenMode::Grid,
            search: String::new(),
            notice: None,
            problem: None,
            pane: if options.plot == PlotOption::Off { Pane::Hidden } else { Pane::Auto },
            plot: PlotState::new(options.plot),
            grid: (Rect::default(), Vec::new()),
            report: None,
            why: None,
            seen_history: RunHistory::new(past_bytes),
            recent: Recent::new(past_bytes),
            counts: LossHistory::default(),
            seen: RunTotals::new(past_bytes),
            past_bytes,
            time: options.time,
            is_pane_drawn: false,
            subject: None,
            is_dirty: true,
        }
    }

    /// Takes in a newer interval of the selected host. While paused or in the past it is stored but not shown.
    pub fn on_interval(&mut self, interval: Arc<Interval>) {
        self.forget_if_rewound(&interval);
        self.seen_history.push(&interval);
        self.seen.push(&interval);
        self.recent.push(Arc::clone(&interval));
        let loss = self.status().map(|status| status.loss).unwrap_or_default();
        self.counts.push(&interval, loss);
        self.newest = Some(Arc::clone(&interval));
        if self.clock == Clock::Live {
            self.show(interval);
        }
        self.is_dirty = true;
    }

    pub fn on_hosts(&mut self, title: String, hosts: Vec<HostStatus>, host: Option<HostId>) {
        if host != self.host {
            self.forget();
            self.host = host;
        }
        self.title = title;
        self.hosts = hosts;
        self.is_dirty = true;
    }

    /// Takes in how long ago the newest interval arrived.
    pub fn on_age(&mut self, age: Option<Duration>) {
        let seconds = |age: Option<Duration>| age.map(|age| age.as_secs());
        // The header shows the age of stale data only, and in whole seconds: other changes need no drawing.
        self.is_dirty |= self.is_stale() && seconds(age) != seconds(self.age);
        let was_stale = self.is_stale();
        self.age = age;
        self.is_dirty |= was_stale != self.is_stale();
    }

    /// Takes in a failure of the feed; it stays in the status line until [`App::on_feed_ok`].
    pub fn on_error(&mut self, error: &FeedError) {
        // A feed that fails returns the same error at each poll; one drawing is enough.
        self.is_dirty |= self.problem.as_deref() != Some(&error.0);
        self.problem = Some(error.0.clone());
    }

    /// Called when the feed works; clears its error.
    pub fn on_feed_ok(&mut self) {
        self.is_dirty |= self.problem.take().is_some();
    }

    pub fn on_playback(&mut self, playback: Option<Playback>) {
        self.is_dirty |= self.playback != playback;
        let is_playing = |playback: Option<Playback>| playback.is_some_and(|playback| playback.is_playing);
        // Playing shows the recording, wherever the user was before.
        if is_playing(playback) && !is_playing(self.playback) {
            self.clock = Clock::Live;
        }
        self.playback = playback;
    }

    /// A recording that was wound back starts over, so that its intervals are not counted twice.
    fn forget_if_rewound(&mut self, interval: &Interval) {
        let is_later = |newest: &Arc<Interval>| newest.end.wall_ns >= interval.end.wall_ns;
        if self.playback.is_some() && self.newest.as_ref().is_some_and(is_later) {
            self.seen_history = RunHistory::new(self.past_bytes);
            self.recent = Recent::new(self.past_bytes);
            self.seen = RunTotals::new(self.past_bytes);
        }
    }

    /// Shows a message to the user until the next key.
    pub fn on_notice(&mut self, text: String) {
        self.notice = Some(text);
        self.is_dirty = true;
    }

    /// The answer to [`Request::Report`].
    pub fn on_report(&mut self, answer: Result<Report, FeedError>) {
        match answer {
            Ok(report) => {
                self.report = Some(ReportScreen::new(report));
                self.mode = ScreenMode::Report;
                self.is_dirty = true;
            }
            Err(error) => self.on_notice(error.0),
        }
    }

    /// The answer to [`Request::Why`].
    pub fn on_why(&mut self, answer: Result<Why, FeedError>) {
        match answer {
            Ok(why) => {
                self.why = Some(why);
                self.mode = ScreenMode::Why(0);
                self.is_dirty = true;
            }
            Err(error) => self.on_notice(error.0),
        }
    }

    /// The answer to [`Request::Seek`].
    pub fn on_seek(&mut self, to: Seek, answer: Result<Option<Arc<Interval>>, FeedError>) {
        match (answer, to) {
            (Ok(Some(interval)), _) => self.show_past(interval),
            (Ok(None), Seek::At(wall_ns)) => {
                self.on_notice(format!("no data for {}", self.time_text(wall_ns)));
            }
            (Ok(None), Seek::After(_)) if self.playback.is_some() => {
                self.on_notice("this is the end of the recording".into());
            }
            (Ok(None), Seek::Before(_)) => self.on_first(None),
            (Ok(None), Seek::After(_)) => {
                self.go_live();
                self.on_notice("no later data: back to live".into());
            }
            (Err(error), _) => self.on_notice(error.0),
        }
    }

    /// Stops where data begins. `stored`: the oldest interval that the feed can find.
    pub fn on_first(&mut self, stored: Option<Arc<Interval>>) {
        // A feed without a past has the intervals since the screens opened.
        let oldest = [stored, self.recent.oldest()].into_iter().flatten().min_by_key(|one| one.end.wall_ns);
        let Some(oldest) = oldest else { return self.on_notice("no data yet".into()) };
        let began = self.time_text(oldest.begin.wall_ns);
        self.show_past(oldest);
        self.on_notice(format!("the first data is of {began}"));
    }

    /// Shows that there is no data at this moment.
    pub fn on_no_moment(&mut self, wall_ns: i64, nothing: &NoMoment) {
        // A feed without a past has no data; the screens have the intervals that they received.
        let first =
            self.recent.oldest().filter(|oldest| !nothing.has_nearest() && wall_ns <= oldest.begin.wall_ns);
        let first =
            first.map(|oldest| format!("; the first data is of {}", self.time_text(oldest.begin.wall_ns)));
        self.on_notice(format!("{nothing}{}", first.unwrap_or_default()));
    }

    /// Goes to a moment, ns since the UNIX epoch; returns a request if the intervals in memory do not reach it.
    pub fn go_to(&mut self, wall_ns: i64) -> Option<Request> {
        // A recording must seek in the feed: its position there is where playing continues.
        match self.recent.at(wall_ns).filter(|_| self.playback.is_none()) {
            Some(interval) => {
                self.show_past(interval);
                None
            }
            None => Some(Request::Seek(Seek::At(wall_ns))),
        }
    }

    /// The end of the interval on screen, ns since the UNIX epoch.
    pub fn shown_wall_ns(&self) -> Option<i64> {
        self.shown.as_ref().map(|interval| interval.end.wall_ns)
    }

    /// The end of the newest interval, ns since the UNIX epoch.
    pub fn newest_wall_ns(&self) -> Option<i64> {
        self.newest.as_ref().map(|interval| interval.end.wall_ns)
    }

    /// A moment with its day and time zone.
    pub(crate) fn time_text(&self, wall_ns: i64) -> String {
        text::safe(&(self.time.show)(wall_ns))
    }

    /// The time that the plot shows. For a past moment it includes some time after it.
    pub(crate) fn plot_window(&self) -> Option<Range<i64>> {
        let end = self.shown_wall_ns()?;
        match &self.plot.past {
            Some(window) if self.clock == Clock::Past => Some(window.clone()),
            _ => Some(end.saturating_sub(self.plot.length_ns())..end),
        }
    }

    pub(crate) fn status(&self) -> Option<&HostStatus> {
        self.hosts.iter().find(|status| Some(status.info.host) == self.host)
    }

    /// Whether the newest interval is older than it should be.
    pub(crate) fn is_stale(&self) -> bool {
        let length = self.newest.as_ref().map_or(0, |interval| interval.duration_ns());
        // A single late interval must not mark the data as old; 3 s covers short intervals.
        let patience = Duration::from_nanos(length.saturating_mul(3)).max(Duration::from_secs(3));
        self.age.is_some_and(|age| age > patience)
    }

    /// Whether something changed since the last call: if not, a drawing would be the same.
    pub fn take_dirty(&mut self) -> bool {
        std::mem::take(&mut self.is_dirty)
    }

    pub fn on_resize(&mut self) {
        self.is_dirty = true;
    }

    pub(crate) fn mark_dirty(&mut self) {
        self.is_dirty = true;
    }

    pub(crate) fn go_live(&mut self) {
        self.clock = Clock::Live;
        if let Some(newest) = self.newest.clone() {
            self.show(newest);
        }
    }

    pub(crate) fn show_past(&mut self, interval: Arc<Interval>) {
        self.plot.go_to(interval.end.wall_ns, self.plot_window());
        self.clock = Clock::Past;
        self.show(interval);
    }

    fn show(&mut self, interval: Arc<Interval>) {
        self.shown = Some(interval);
        self.rebuild();
    }

    /// The sort column on screen: for the past, SEEN has no values.
    pub(crate) fn sorted_by(&self) -> Col {
        if self.view.sort == Col::Seen && self.clock != Clock::Live { Col::Cpu } else { self.view.sort }
    }

    /// Arranges the rows again; the selection stays with its task.
    pub(crate) fn rebuild(&mut self) {
        self.is_dirty = true;
        let sorted_by = self.sorted_by();
        let Some(shown) = &self.shown else { return };
        self.view.known = shown.fields;
        self.view.has_limits = shown.has_limits();
        let chosen = std::mem::replace(&mut self.view.sort, sorted_by);
        self.rows = RowList::build(shown, &self.view, &self.seen);
        self.view.sort = chosen;
        self.cursor.after_rebuild(&self.rows, shown);
    }

    /// Clears everything that belongs to the previous host.
    fn forget(&mut self) {
        self.newest = None;
        self.shown = None;
        self.clock = Clock::Live;
        self.rows = RowList::default();
        // Following is a choice of the user, which holds for every host.
        self.cursor = GridCursor { follow: self.cursor.follow, ..GridCursor::default() };
        self.view.open.clear();
        self.view.closed.clear();
        self.seen_history = RunHistory::new(self.past_bytes);
        self.recent = Recent::new(self.past_bytes);
        self.counts = LossHistory::default();
        self.seen = RunTotals::new(self.past_bytes);
        self.plot.forget();
        self.command = CommandPart::default();
        self.report = None;
        self.why = None;
    }
}

/// Work that the state requests from the event loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    Quit,
    /// Gives the terminal back and stops until the shell continues the process.
    Suspend,
    /// Shows another moment: call [`Feed::seek`](crate::Feed::seek), then [`App::on_seek`].
    Seek(Seek),
    /// Plays a recording, or stops it, or changes its speed: call [`Feed::play`](crate::Feed::play), then [`App::on_playback`].
    Play(Play),
    /// Goes to the moment that this text means: parse it with [`TimeWords`](crate::TimeWords), then [`App::go_to`].
    GoTo(String),
    /// Adds up a range of time: ask [`Feed::answers`](crate::Feed::answers), then [`App::on_report`].
    Report(ReportQuery),
    /// The same for a range as text: parse it first.
    ReportOf(String),
    /// Finds why something is slow: ask [`Feed::answers`](crate::Feed::answers), then [`App::on_why`].
    Why(WhyQuery),
    /// Names the command that shows a trace: call [`Feed::trace_command`](crate::Feed::trace_command), then [`App::on_notice`].
    ShowTrace {
        id: i64,
        /// When and why it was written; safe on a terminal.
        words: String,
    },
    /// Finds the newest trace of the host: ask [`Feed::answers`](crate::Feed::answers) for all, then [`App::on_all_traces`].
    NewestTrace,
    /// Has the host traced: call [`Feed::take_trace`](crate::Feed::take_trace), then [`App::on_notice`].
    TakeTrace,
    /// Shows another host: call [`Feed::select`](crate::Feed::select).
    Select(HostId),
    /// Writes a file into the current directory, never over another one, then [`App::on_notice`].
    Export {
        /// File name without `.csv`; safe for any file system.
        stem: String,
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
pub(crate) enum ScreenMode {
    Grid,
    /// The help, scrolled down by this number of lines.
    Help(u16),
    /// Why something is slow, scrolled likewise.
    Why(u16),
    /// The list of hosts, with the selected one.
    Hosts(usize),
    /// The users of the interval on screen, with the selected one; 0 is everyone.
    Users(usize),
    /// The report of a range, see [`ReportScreen`].
    Report,
    /// A line of text that the user types.
    Prompt(Prompt, String),
}

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
    /// Terminal columns to the left of the part.
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
