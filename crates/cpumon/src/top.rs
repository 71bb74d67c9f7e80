//! `cpumon top`: screens or batch output of this machine, of a host of a receiver, or of recorded data; and [`show_screens`], which runs the
//! screens for all commands that have some.

use std::fmt::Display;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use cpumon_agent::SamplerOptions;
use cpumon_collect::SourceOptions;
use cpumon_export::OutputFile;
use cpumon_model::{HostStatus, Trust, escape};
use cpumon_query::{Answers, Seek};
use cpumon_tui::{
    BatchOptions, CommandLines, Feed, Layout, Options, RowOptions, SortColumn, TuiError, UserFilter, ago,
    find_moment,
};
use signal_hook::consts::{SIGCONT, SIGTSTP};
use signal_hook::{flag, low_level};

use crate::cli::{HTTP_URL, LIVE_PROBES, TopArgs};
use crate::client::{Client, ClientError};
use crate::exit::{Outcome, Signals, Usage, is_hung_up, say};
use crate::feeds::{LOCAL_TIME, LocalFeed, RemoteFeed, ReplayFeed, StoreFeed};
use crate::known_hosts::KnownHosts;
use crate::past::{explained, report_damage_of, report_damage_of_receiver};
use crate::paths::{explain, store_for_reading};
use crate::{recording, when};

/// Most hosts that an error names.
const MAX_NAMED: usize = 8;

pub fn top(args: &TopArgs) -> anyhow::Result<Outcome> {
    check(args)?;
    if is_local(args) {
        check_pids(&args.pid)?;
    }
    let rows = rows(args)?;
    let signals = Signals::install()?;
    let mut source = match source(args) {
        Err(error) if error.is::<Silent>() => return Ok(missing(&error)),
        source => source?,
    };
    if args.batch {
        return batch(args, rows, &signals, &mut source);
    }
    // Before the screens open: they would hide that the moment has no data behind another one.
    if let Some(at) = args.at
        && let Err(nothing) = find_moment(&mut *source.feed, LOCAL_TIME, at.wall_ns)?
    {
        source.report_damage(Outcome::DataMissing);
        return Ok(missing(&nothing));
    }
    let options = Options {
        stop: signals.stop().clone(),
        at_wall_ns: args.at.map(|at| at.wall_ns),
        rows,
        layout: match args.group_by {
            Some(_) => Layout::Groups,
            None if args.tree => Layout::Tree,
            None => Layout::List,
        },
        group_by: args.group_by,
        plot: args.plot.unwrap_or_default(),
        command_lines: command_lines(args),
        no_mouse: args.no_mouse,
        ..Options::default()
    };
    show_screens(source.feed, options)?;
    Ok(signals.outcome())
}

fn check(args: &TopArgs) -> Result<(), Usage> {
    if let Some(at) = args.at.filter(|at| at.wall_ns > cpumon_query::time::now_ns()) {
        return Err(Usage(format!("--at {} is in the future", when::show(at.wall_ns))));
    }
    if args.url.is_some() && args.host.is_none() && args.store.is_none() && args.at.is_none() {
        return Err(Usage("--url needs --host NAME; `cpumon hosts` lists the names".to_owned()));
    }
    let ending = args.output.as_deref().and_then(Path::extension);
    if ending.is_some_and(|ending| ending.eq_ignore_ascii_case("csv")) {
        let text = "`cpumon top` writes text or JSON lines; `cpumon export` writes CSV of recorded data";
        return Err(Usage(text.to_owned()));
    }
    if args.output.is_some() && !args.batch {
        return Err(Usage("--output needs --batch".to_owned()));
    }
    Ok(())
}

fn rows(args: &TopArgs) -> Result<RowOptions, Usage> {
    if args.batch && args.sort == Some(SortColumn::SEEN) {
        let text = "--sort seen is the run time while the screens are open; with --batch sort by cpu";
        return Err(Usage(text.to_owned()));
    }
    Ok(RowOptions {
        pids: args.pid.clone(),
        threads: args.threads,
        sort: args.sort,
        limit: args.limit.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX)),
        active: args.active,
        user: args.user.as_deref().map(|name| user(args, name)).transpose()?,
        filter: args.filter.clone().unwrap_or_default(),
    })
}

/// A user by id, or by the name that the host calls it. The names of this machine are known before anything is measured.
fn user(args: &TopArgs, name: &str) -> Result<UserFilter, Usage> {
    let filter = UserFilter::new(name);
    if filter.uid().is_some() || !is_local(args) || is_user_here(name) {
        return Ok(filter);
    }
    Err(Usage(format!("this machine has no user {name:?} in /etc/passwd; --user takes a name or an id")))
}

/// Whether passwd(5) has a user of this name.
fn is_user_here(name: &str) -> bool {
    let text = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    text.lines().any(|line| line.split(':').next() == Some(name))
}

/// Whether this machine is measured.
fn is_local(args: &TopArgs) -> bool {
    args.replay.is_none() && args.host.is_none() && args.at.is_none() && args.store.is_none()
}

fn command_lines(args: &TopArgs) -> CommandLines {
    match (is_local(args), args.source.cmdline) {
        (false, _) => CommandLines::OfHosts,
        (true, true) => CommandLines::Read,
        (true, false) => CommandLines::NotRead,
    }
}

/// An empty list without a reason would seem to be an answer.
fn check_pids(pids: &[u32]) -> anyhow::Result<()> {
    let is_there = |pid: &u32| Path::new("/proc").join(pid.to_string()).exists();
    if pids.is_empty() || pids.iter().any(is_there) { Ok(()) } else { Err(no_rows_of(pids)) }
}

fn no_rows_of(pids: &[u32]) -> anyhow::Error {
    let listed: Vec<String> = pids.iter().map(u32::to_string).collect();
    let word = if pids.len() == 1 { "process" } else { "processes" };
    anyhow!("there is no {word} {}; `cpumon top -b` lists the process ids", listed.join(", "))
}

/// What is shown.
struct TopSource {
    feed: Box<dyn Feed + Send>,
    /// The receiver whose past is shown.
    past: Option<Client>,
}

impl TopSource {
    fn new(feed: impl Feed + Send + 'static) -> Self {
        Self { feed: Box::new(feed), past: None }
    }

    /// Reports the parts of a store that could not be read; returns the outcome of a command that was done otherwise.
    fn report_damage(&self, outcome: Outcome) -> Outcome {
        match (&self.past, self.feed.store()) {
            (Some(receiver), _) => report_damage_of_receiver(receiver, outcome),
            (None, Some(store)) => report_damage_of(&self.feed.damage(), &store, outcome),
            (None, None) => outcome,
        }
    }
}

fn source(args: &TopArgs) -> anyhow::Result<TopSource> {
    if let Some(dir) = &args.replay {
        if dir.is_file() {
            return Err(anyhow!(
                "{} is a file, and a recording is a directory; `cpumon trace top` shows a trace, --store a store",
                dir.display()
            ));
        }
        // Programs read batch output, so it is not paced.
        let feed = ReplayFeed::open(dir, !args.batch);
        return Ok(TopSource::new(
            feed.context("cannot replay the recording, which `cpumon-agent --record DIR` writes")?,
        ));
    }
    let host = args.host.as_deref();
    match host {
        Some(name) if args.at.is_none() && args.store.is_none() => remote_or_store(args, name),
        None if is_local(args) => {
            let interval = args.interval.unwrap_or(SourceOptions::default().interval);
            let source = args.source.source_options(interval, LIVE_PROBES);
            let options = SamplerOptions { source, ..SamplerOptions::default() };
            let feed = LocalFeed::start(&options)?;
            if let Some(reason) = feed.what_is_missing().filter(|_| args.batch) {
                say(&reason);
            }
            Ok(TopSource::new(feed))
        }
        // A receiver given by --url is asked for the past too.
        Some(name) if args.url.is_some() && args.store.is_none() => remote_or_store(args, name),
        None if args.url.is_some() && args.store.is_none() => {
            let usual = receiver(args)?.usual_host("a moment").map_err(explained)?;
            remote_or_store(args, &usual.to_string())
        }
        _ => {
            let source = stored(args, &store_for_reading(args.store.as_deref()), "")?;
            if host.is_none() && args.at.is_some() {
                check_which_host(&source.feed.hosts())?;
            }
            Ok(source)
        }
    }
}

/// Without a name, a moment is of this machine, or of the only host there is.
fn check_which_host(hosts: &[HostStatus]) -> Result<(), Usage> {
    if hosts.len() <= 1 || hosts.iter().any(|host| host.trust == Trust::Local) {
        return Ok(());
    }
    let names: Vec<String> =
        hosts.iter().take(MAX_NAMED).map(|host| escape(&host.info.hostname).to_string()).collect();
    let more = if hosts.len() > MAX_NAMED { ", …" } else { "" };
    Err(Usage(format!(
        "the store has no data of this machine, but of others: {}{more}; choose one with --host",
        names.join(", ")
    )))
}

fn stored(args: &TopArgs, path: &Path, note: &str) -> anyhow::Result<TopSource> {
    let mut source = TopSource::new(StoreFeed::open(path, args.host.as_deref(), note).map_err(explain)?);
    if source.feed.host().is_none() {
        return Err(anyhow!("store {} holds no data yet", path.display()));
    }
    // Else it would wait for the newest interval, and never show one.
    if args.at.is_none()
        && source.feed.seek(Seek::Before(i64::MAX))?.is_none()
        && source.report_damage(Outcome::Done) != Outcome::Done
    {
        return Err(Silent(format!("no interval of the host in {} can be read", path.display())).into());
    }
    Ok(source)
}

/// The receiver of --url, or the one of this machine.
fn receiver(args: &TopArgs) -> Result<Client, Usage> {
    Client::new(args.url.as_deref().unwrap_or(HTTP_URL), &args.access).map_err(Usage)
}

/// The receiver; if none answers at the default address, its store.
fn remote_or_store(args: &TopArgs, name: &str) -> anyhow::Result<TopSource> {
    let client = receiver(args)?;
    let found = KnownHosts::read(&client).and_then(|known| {
        let host = known.find(&client, name)?;
        Ok((host, known))
    });
    match found {
        // The screens show its last interval, and since when there is nothing newer.
        Ok((host, known)) if args.batch && args.at.is_none() && known.is_silent(&host) => {
            Err(Silent::new(args, &host, known.age(&host)).into())
        }
        Ok((host, _)) => {
            let past = args.at.is_some().then(|| client.clone());
            Ok(TopSource { past, ..TopSource::new(RemoteFeed::start(client, host.info.host)?) })
        }
        // A receiver that the user named must not be replaced by another source.
        Err(error @ ClientError::Unreachable { .. }) if args.url.is_none() => {
            let path = store_for_reading(None);
            if !path.exists() {
                return Err(error.into());
            }
            say(&format!("no receiver answers at {HTTP_URL}; showing the store {}", path.display()));
            stored(args, &path, " (the receiver does not answer)")
        }
        Err(error) => Err(error.into()),
    }
}

/// Why nothing can be shown: the host no longer reports, or its data is damaged.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Silent(String);

impl Silent {
    fn new(args: &TopArgs, host: &HostStatus, age: Duration) -> Self {
        let name = &*host.info.hostname;
        let is_plain = !name.is_empty()
            && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '@' | '-'));
        let word =
            if is_plain && !name.starts_with('-') { name.to_owned() } else { host.info.host.to_string() };
        let url = args.url.as_ref().map_or_else(String::new, |url| format!(" --url {}", escape(url)));
        Self(format!(
            "{} does not report: its last data came {} ago, at {}; to see it: cpumon top{url} --host {word} --at {}",
            escape(name),
            ago(age.as_secs()),
            when::show(host.received_wall_ns),
            when::show_utc(host.last.wall_ns)
        ))
    }
}

/// Reports the missing data, and where the nearest data is.
fn missing(nothing: &dyn Display) -> Outcome {
    say(&nothing.to_string());
    Outcome::DataMissing
}

fn batch(
    args: &TopArgs,
    rows: RowOptions,
    signals: &Signals,
    source: &mut TopSource,
) -> anyhow::Result<Outcome> {
    let (format, path) = args.batch_output();
    let options = BatchOptions {
        stop: signals.stop().clone(),
        iterations: args.iterations,
        delay: args.interval,
        at_wall_ns: args.at.map(|at| at.wall_ns),
        time: LOCAL_TIME,
        cmdline: args.source.cmdline,
        rows,
        format,
    };
    let to: Box<dyn Write> = match path {
        Some(path) => {
            // In place: a batch may run without end, and others read the file meanwhile.
            Box::new(OutputFile::in_place(path)?)
        }
        None => Box::new(io::stdout().lock()),
    };
    let mut out = BufWriter::new(to);
    let printed = cpumon_tui::batch(&mut *source.feed, &options, &mut out)
        .and_then(|rows| out.flush().map(|()| rows).map_err(TuiError::Output));
    let mut outcome = source.report_damage(signals.outcome());
    // What `-n` and `--at` found is all that was asked for.
    let is_at_end = source.feed.playback().is_some_and(|playback| playback.is_at_end);
    if let Some(dir) = args.replay.as_deref()
        && (is_at_end || matches!(printed, Err(TuiError::NoMoment(_))))
    {
        outcome = recording::report_missing(dir, outcome)?;
    }
    match printed {
        Err(TuiError::NoMoment(nothing)) => Ok(missing(&nothing)),
        Ok(0) if !args.pid.is_empty() => Err(no_rows_of(&args.pid)),
        Ok(0) if args.user.is_some() => Err(anyhow!(
            "no row is of user {:?}; `cpumon top -b` shows the users of each host without --user",
            args.user.as_deref().unwrap_or_default()
        )),
        Ok(0) if !options.rows.filter.is_empty() => {
            let filter = &options.rows.filter;
            Err(anyhow!("no row matches {filter:?}; `cpumon top -b` shows all rows without --filter"))
        }
        ended => ended.map(|_| outcome).map_err(Into::into),
    }
}

/// Time between two checks of the stop flag.
const CHECK_EVERY: Duration = Duration::from_millis(100);
/// Time that the screens have to end after a request to stop.
const GRACE: Duration = Duration::from_secs(1);

/// Shows the screens until the user quits, `options.stop` is set or the terminal fails.
///
/// They run in a thread of their own. When a terminal goes away (its window is closed), the library that reads keys loops on the end of
/// file for ever (crossterm 0.29, `UnixInternalEventSource::try_read`) and ignores every flag. The process then ends without that
/// thread.
pub(crate) fn show_screens(mut feed: Box<dyn Feed + Send>, options: Options) -> anyhow::Result<()> {
    let options = Options { suspend: Some(suspend), time: LOCAL_TIME, ..options };
    flag::register(SIGCONT, options.continued.clone()).context("cannot handle signals")?;
    let stop = options.stop.clone();
    let (send, ended) = mpsc::channel();
    thread::Builder::new()
        .name("screen".to_owned())
        .spawn(move || {
            // Messages would overwrite the screens, whose title line shows the important ones.
            let level = log::max_level();
            log::set_max_level(log::LevelFilter::Off);
            let result = cpumon_tui::run(&mut *feed, &options);
            log::set_max_level(level);
            // The feed's threads must end before the main thread ends the process.
            drop(feed);
            // The receiving end is gone if the grace period is over.
            let _ = send.send(result);
        })
        .context("cannot start the screen's thread")?;
    let mut deadline = None;
    loop {
        match ended.recv_timeout(CHECK_EVERY) {
            Ok(result) => return result.map_err(Into::into),
            Err(RecvTimeoutError::Disconnected) => return Err(anyhow!("the screen thread panicked")),
            Err(RecvTimeoutError::Timeout) => {}
        }
        // A program without a controlling terminal, as `su -c` starts it, gets no SIGHUP when its terminal is closed.
        if (stop.load(Ordering::Relaxed) || is_hung_up(&io::stdin()))
            && Instant::now() > *deadline.get_or_insert_with(|| Instant::now() + GRACE)
        {
            return Ok(());
        }
    }
}

/// Stops all threads until the shell continues them. Without a shell that could, the kernel ignores the signal.
fn suspend() {
    // It fails for no signal that exists.
    let _ = low_level::raise(SIGTSTP);
}
