//! The event loop: terminal, environment, calls of the feed, the file of an export. The terminal is always restored at the end.

use std::io::{self, IsTerminal, Write};
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use cpumon_model::HostId;
use cpumon_query::report::{Report, ReportQuery};
use cpumon_query::time::{Page, TimeRange};
use cpumon_query::why::{Why, WhyQuery};
use cpumon_query::{Answers, QueryError, Seek, TraceRecord};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, DisableMouseCapture, EnableMouseCapture, Event, KeyEventKind};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{EnterAlternateScreen, enable_raw_mode};

use crate::feed::{FeedError, Subject, find_moment};
use crate::text::safe;
use crate::{App, Feed, Options, Request, TuiError};

/// How long the loop waits for a key before it asks the feed again.
const POLL: Duration = Duration::from_millis(100);
/// Intervals taken from the feed between two drawings, at most, so that a burst cannot keep keys waiting.
const BURST: usize = 64;
/// How often the list of hosts is fetched.
const HOSTS_EVERY: Duration = Duration::from_secs(1);
/// How long a selection must stay before its history is requested: the feed may have to ask a receiver.
const REST: Duration = Duration::from_millis(300);
/// Every time since the UNIX epoch. Receivers refuse a range whose length does not fit into 64 bits.
const ALL_TIME: Range<i64> = 0..i64::MAX;
/// How often the traces of the past on screen are fetched: one that was taken arrives some seconds later.
const TRACES_EVERY: Duration = Duration::from_secs(2);
/// Most files that are named by the same second.
const MAX_FILES: u32 = 100;

/// Shows the screens until the user quits, [`Options::stop`] becomes true or the terminal fails.
/// The terminal is restored at the end, after a panic too.
pub fn run(feed: &mut dyn Feed, options: &Options) -> Result<(), TuiError> {
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        return Err(TuiError::NoTerminal { reason: "standard input or output is not a terminal" });
    }
    if std::env::var_os("TERM").is_some_and(|term| term == "dumb") {
        return Err(TuiError::NoTerminal { reason: "TERM is dumb" });
    }
    let options = with_environment(options);
    let terminal =
        ratatui::try_init().map_err(|source| TuiError::Terminal { operation: "set up", source })?;
    // Named, not `_`: it must live until the loop has ended.
    let _restore = Restore;
    take_mouse(&options).map_err(|source| TuiError::Terminal { operation: "set up", source })?;
    Screens::new(feed, &options).main_loop(terminal)
}

/// Value of an environment variable, if it is set and not empty.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Whether a terminal of this locale shows more than ASCII.
pub fn is_utf8_locale() -> bool {
    // POSIX: the first of these that is set and not empty decides.
    let locale = variable("LC_ALL").or_else(|| variable("LC_CTYPE")).or_else(|| variable("LANG"));
    locale.is_some_and(|locale| {
        let locale = locale.to_ascii_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    })
}

/// Adds the settings of the environment: `NO_COLOR` (no-color.org), a locale without UTF-8.
fn with_environment(options: &Options) -> Options {
    Options {
        no_color: options.no_color || variable("NO_COLOR").is_some(),
        ascii: options.ascii || !is_utf8_locale(),
        ..options.clone()
    }
}

/// Puts the terminal back when the loop ends (a panic goes through the hook that `try_init` sets).
struct Restore;

impl Drop for Restore {
    fn drop(&mut self) {
        give_back();
    }
}

/// Leaves the screens and lets the shell have the terminal.
fn give_back() {
    // A terminal that is gone needs nothing.
    let _ = execute!(io::stdout(), DisableMouseCapture);
    ratatui::restore();
}

fn take_mouse(options: &Options) -> io::Result<()> {
    if options.no_mouse { Ok(()) } else { execute!(io::stdout(), EnableMouseCapture) }
}

/// Sets the terminal up as at the start, after the shell had it.
fn take_again(terminal: &mut DefaultTerminal, options: &Options) -> io::Result<()> {
    enable_raw_mode()?;
    execute!(io::stdout(), EnterAlternateScreen)?;
    take_mouse(options)?;
    terminal.clear()
}

struct Screens<'a> {
    feed: &'a mut dyn Feed,
    options: &'a Options,
    app: App,
    hosts_at: Option<Instant>,
    resting: Option<(Subject, Instant)>,
    traces_at: Option<Instant>,
    is_suspend_wanted: bool,
}

impl<'a> Screens<'a> {
    fn new(feed: &'a mut dyn Feed, options: &'a Options) -> Self {
        Self {
            app: App::new(options),
            feed,
            options,
            hosts_at: None,
            resting: None,
            traces_at: None,
            is_suspend_wanted: false,
        }
    }

    fn main_loop(&mut self, mut terminal: DefaultTerminal) -> Result<(), TuiError> {
        self.refresh_hosts();
        if let Some(wall_ns) = self.options.at_wall_ns {
            self.seek(Seek::At(wall_ns));
        }
        while !self.options.stop.load(Ordering::Relaxed) {
            self.take_intervals();
            self.app.on_playback(self.feed.playback());
            self.refresh_hosts();
            self.refresh_history();
            self.refresh_traces();
            if self.app.take_dirty() {
                let drawn = terminal.draw(|frame| self.app.draw(frame));
                drawn.map_err(|source| TuiError::Terminal { operation: "draw on", source })?;
            }
            if self.handle_events()? {
                break;
            }
            self.suspend_or_continue(&mut terminal)?;
        }
        Ok(())
    }

    /// Stops on Ctrl-Z. The terminal is set up again when the process continues, also where another program stopped it.
    fn suspend_or_continue(&mut self, terminal: &mut DefaultTerminal) -> Result<(), TuiError> {
        if std::mem::take(&mut self.is_suspend_wanted)
            && let Some(suspend) = self.options.suspend
        {
            give_back();
            suspend();
            self.options.continued.store(true, Ordering::Relaxed);
        }
        if self.options.continued.swap(false, Ordering::Relaxed) {
            let taken = take_again(terminal, self.options);
            taken.map_err(|source| TuiError::Terminal { operation: "set up", source })?;
            self.app.on_resize();
        }
        Ok(())
    }

    fn take_intervals(&mut self) {
        for _ in 0..BURST {
            match self.feed.poll() {
                Ok(Some(interval)) => {
                    // A feed may choose its host by itself when it sees the first one.
                    if self.feed.host() != self.app.host {
                        self.hosts_at = None;
                        self.refresh_hosts();
                    }
                    self.app.on_feed_ok();
                    self.app.on_interval(interval);
                }
                Ok(None) => {
                    self.app.on_feed_ok();
                    break;
                }
                Err(error) => {
                    self.app.on_error(&error);
                    break;
                }
            }
        }
        self.app.on_age(self.feed.age());
    }

    fn refresh_hosts(&mut self) {
        if self.hosts_at.is_some_and(|at| at.elapsed() < HOSTS_EVERY) {
            return;
        }
        self.hosts_at = Some(Instant::now());
        self.app.on_hosts(self.feed.title(), self.feed.hosts(), self.feed.host());
    }

    fn refresh_history(&mut self) {
        let Some((of, range)) = self.app.history_wanted() else {
            self.resting = None;
            return;
        };
        match self.resting {
            Some((resting, since)) if resting == of => {
                if since.elapsed() < REST {
                    return;
                }
            }
            _ => {
                self.resting = Some((of, Instant::now()));
                return;
            }
        }
        match self.feed.history(of, range.clone()) {
            Ok(points) => self.app.on_history(of, range, points.unwrap_or_default()),
            Err(error) => {
                // An empty answer is stored too, so that a failed request is not repeated at each turn of the
                // loop.
                self.app.on_history(of, range, Vec::new());
                self.app.on_notice(error.to_string());
            }
        }
    }

    fn refresh_traces(&mut self) {
        let is_old = self.traces_at.is_some_and(|at| at.elapsed() >= TRACES_EVERY);
        let Some(window) = self.app.traces_wanted(is_old) else { return };
        self.traces_at = Some(Instant::now());
        // An empty answer is stored too, so that a failed request is not repeated at each turn of the loop.
        let traces = self.traces(&window).unwrap_or_else(|error| {
            self.app.on_notice(error.to_string());
            Vec::new()
        });
        self.app.on_traces(window, traces);
    }

    fn traces(&self, window: &Range<i64>) -> Result<Vec<TraceRecord>, FeedError> {
        let (Some(host), Some(answers)) = (self.feed.host(), self.feed.past()?) else {
            return Ok(Vec::new());
        };
        let range = TimeRange { since_ns: window.start, until_ns: window.end };
        match answers.traces(&[host.to_string()], range, Page::ALL) {
            Ok(hosts) => Ok(hosts.into_iter().flat_map(|host| host.traces).collect()),
            Err(error) => Err(FeedError(error.to_string())),
        }
    }

    /// Waits for events up to [`POLL`] and hands them on; true when the user wants to quit. Keys that are already there
    /// are taken together, so that a held key does not queue up drawings.
    fn handle_events(&mut self) -> Result<bool, TuiError> {
        let read = |source| TuiError::Terminal { operation: "read", source };
        let mut wait = POLL;
        while event::poll(wait).map_err(read)? {
            wait = Duration::ZERO;
            match event::read().map_err(read)? {
                // Some terminals report the release of a key too; only presses and repeats count.
                Event::Key(key) if key.kind != KeyEventKind::Release => {
                    if let Some(request) = self.app.on_key(key)
                        && self.carry_out(request)
                    {
                        return Ok(true);
                    }
                }
                Event::Mouse(mouse) => {
                    if let Some(request) = self.app.on_mouse(mouse) {
                        self.carry_out(request);
                    }
                }
                Event::Resize(..) => self.app.on_resize(),
                _ => {}
            }
        }
        Ok(false)
    }

    /// Carries out a request; true to quit.
    fn carry_out(&mut self, request: Request) -> bool {
        match request {
            Request::Quit => return true,
            Request::Suspend => self.is_suspend_wanted = true,
            Request::Seek(to) => self.seek(to),
            Request::Play(command) => {
                self.feed.play(command);
                self.app.on_playback(self.feed.playback());
            }
            Request::GoTo(text) => match (self.options.time.parse)(&text, self.app.shown_wall_ns()) {
                Ok(wall_ns) => {
                    if let Some(Request::Seek(to)) = self.app.go_to(wall_ns) {
                        self.seek(to);
                    }
                }
                Err(error) => self.app.on_notice(error),
            },
            Request::ShowTrace { id, words } => {
                self.app.on_notice(format!("{}  ({words})", safe(&self.feed.trace_command(id))));
            }
            Request::NewestTrace => match self.traces(&ALL_TIME) {
                Ok(traces) => {
                    if let Some(shown) = self.app.on_all_traces(&traces) {
                        self.carry_out(shown);
                    }
                }
                Err(error) => self.app.on_notice(error.to_string()),
            },
            Request::TakeTrace => {
                let answer = self.feed.take_trace().unwrap_or_else(|error| error.to_string());
                self.app.on_notice(answer);
            }
            Request::Report(wanted) => self.app.on_report(self.report(&wanted)),
            Request::ReportOf(text) => {
                let shown = self.app.shown_wall_ns();
                let until = self.app.newest_wall_ns().or(shown).unwrap_or_default();
                match self.options.time.parse_range(&text, shown, until) {
                    Ok(range) => self.app.on_report(self.report(&self.app.report_query(range))),
                    Err(error) => self.app.on_notice(error),
                }
            }
            Request::Why(wanted) => self.app.on_why(self.why(&wanted)),
            Request::Select(host) => {
                self.feed.select(host);
                self.hosts_at = None;
                self.refresh_hosts();
            }
            Request::Export { stem, csv } => {
                self.app.on_notice(match write_new(&stem, &csv) {
                    Ok(name) => format!("written: {name}"),
                    Err(error) => format!("cannot write {stem}.csv: {error}"),
                });
            }
        }
        false
    }

    fn report(&self, wanted: &ReportQuery) -> Result<Report, FeedError> {
        let (host, answers) = self.stored("add up")?;
        self.answered(answers.report(&[host.to_string()], wanted))
    }

    fn why(&self, wanted: &WhyQuery) -> Result<Why, FeedError> {
        let (host, answers) = self.stored("find a cause in")?;
        self.answered(answers.why(&host.to_string(), wanted))
    }

    /// The selected host, and what answers questions about its past.
    fn stored(&self, purpose: &str) -> Result<(HostId, Box<dyn Answers>), FeedError> {
        let host = self.feed.host().ok_or_else(|| FeedError("no host is selected".to_owned()))?;
        let nothing =
            || FeedError(format!("this source has no stored data to {purpose}; `cpumon serve` stores it"));
        Ok((host, self.feed.answers()?.ok_or_else(nothing)?))
    }

    fn answered<T>(&self, made: Result<T, QueryError>) -> Result<T, FeedError> {
        made.map_err(|error| FeedError(error.with_clock(&self.options.time.show)))
    }

    fn seek(&mut self, to: Seek) {
        let Seek::At(wall_ns) = to else {
            return match (to, self.feed.seek(to)) {
                (Seek::Before(_), Ok(None)) => match self.feed.seek(Seek::After(i64::MIN)) {
                    Ok(Some(first)) => self.app.on_first(Some(first)),
                    none => self.app.on_seek(to, none),
                },
                (to, answer) => self.app.on_seek(to, answer),
            };
        };
        match find_moment(self.feed, self.options.time, wall_ns) {
            Ok(Ok(interval)) => self.app.on_seek(to, Ok(Some(interval))),
            Ok(Err(nothing)) => self.app.on_no_moment(wall_ns, &nothing),
            Err(error) => self.app.on_seek(to, Err(error)),
        }
    }
}

/// Writes a file that was not there before, into the current directory.
fn write_new(stem: &str, text: &str) -> io::Result<String> {
    for number in 1..=MAX_FILES {
        let name = if number == 1 { format!("{stem}.csv") } else { format!("{stem}-{number}.csv") };
        // `create_new` neither follows a link nor replaces a file that appears meanwhile.
        match cpumon_files::create_new(name.as_ref()) {
            Ok(mut file) => return file.write_all(text.as_bytes()).map(|()| name),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::new(io::ErrorKind::AlreadyExists, "too many files of that name"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use cpumon_model::{HostStatus, Interval};
    use cpumon_query::history::{HostSeries, Lines};
    use cpumon_query::json::{Gaps, TraceList};
    use cpumon_query::ledger::LedgerSum;
    use cpumon_query::report::Findings;
    use cpumon_query::time::PlotRange;
    use cpumon_query::why::WhySubject;
    use cpumon_query::{HostRecord, TaskKey};
    use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

    use super::*;
    use crate::app::ScreenMode;

    /// A feed whose store knows of nothing but why the machine is slow.
    struct Past {
        has_store: bool,
    }

    struct OnlyWhy;

    impl Answers for OnlyWhy {
        fn hosts(&self) -> Result<Vec<HostRecord>, QueryError> {
            Err(QueryError::NoHost)
        }
        fn report(&self, _: &[String], _: &ReportQuery) -> Result<Report, QueryError> {
            Err(QueryError::NoHost)
        }
        fn find(&self, _: &[String], _: &str, _: Page) -> Result<Findings, QueryError> {
            Err(QueryError::NoHost)
        }
        fn why(&self, host: &str, query: &WhyQuery) -> Result<Why, QueryError> {
            assert_eq!(host, HostId([7; 16]).to_string());
            if query.subject != WhySubject::Machine {
                return Err(QueryError::NoProcess { process: "7".into() });
            }
            let split = r#"{"range": {"since_ns": "1", "until_ns": "2"}, "measured_ns": 1, "total_ns": 1, "states": []}"#;
            let text = format!(
                r#"{{"host": "{host}", "host_name": "build-7", "subject": {{"name": "build-7", "processes": 3}},
                "since_ns": "1", "until_ns": "2", "causes": [], "summary": ["Nothing is short."], "action": "Nothing here.",
                "time": {split}, "sure": {{"level": "high", "rests_on": [], "not_measured": [], "sentences": []}}, "more": []}}"#
            );
            Ok(serde_json::from_str(&text).unwrap())
        }
        fn ledger(&self, _: &[String], _: TimeRange, _: usize) -> Result<Vec<LedgerSum>, QueryError> {
            Err(QueryError::NoHost)
        }
        fn gaps(&self, _: &[String], _: TimeRange, _: Page) -> Result<Vec<Gaps>, QueryError> {
            Err(QueryError::NoHost)
        }
        fn traces(&self, _: &[String], _: TimeRange, _: Page) -> Result<Vec<TraceList>, QueryError> {
            Err(QueryError::NoHost)
        }
        fn series(&self, _: HostId, _: PlotRange, _: &[String]) -> Result<HostSeries, QueryError> {
            Err(QueryError::NoHost)
        }
        fn line(&self, _: HostId, _: TaskKey, _: PlotRange, _: &[String]) -> Result<Lines, QueryError> {
            Err(QueryError::NoHost)
        }
    }

    impl Feed for Past {
        fn title(&self) -> String {
            String::new()
        }
        fn hosts(&self) -> Vec<HostStatus> {
            Vec::new()
        }
        fn host(&self) -> Option<HostId> {
            Some(HostId([7; 16]))
        }
        fn poll(&mut self) -> Result<Option<Arc<Interval>>, FeedError> {
            Ok(None)
        }
        fn answers(&self) -> Result<Option<Box<dyn Answers>>, FeedError> {
            Ok(self.has_store.then(|| Box::new(OnlyWhy) as Box<dyn Answers>))
        }
    }

    #[test]
    fn the_cause_is_asked_of_the_store_and_without_one_the_remedy_is_named() {
        let options = Options::default();
        let mut feed = Past { has_store: false };
        let mut screens = Screens::new(&mut feed, &options);
        let request = screens.app.on_key(KeyEvent::new(KeyCode::Char('y'), KeyModifiers::NONE)).unwrap();
        screens.carry_out(request.clone());
        let missing = "this source has no stored data to find a cause in; `cpumon serve` stores it";
        assert_eq!((screens.app.notice.as_deref(), &screens.app.mode), (Some(missing), &ScreenMode::Grid));
        let mut feed = Past { has_store: true };
        let mut screens = Screens::new(&mut feed, &options);
        screens.carry_out(request);
        assert_eq!((screens.app.notice.as_deref(), &screens.app.mode), (None, &ScreenMode::Why(0)));
        let of_process = WhyQuery { subject: WhySubject::Named("7".into()), ..WhyQuery::default() };
        screens.carry_out(Request::Why(of_process));
        assert_eq!(screens.app.notice.as_deref(), Some("no process 7 did anything in this range"));
    }
}
