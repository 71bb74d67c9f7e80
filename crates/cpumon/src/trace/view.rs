//! A trace elsewhere. `cpumon trace view`: the page for one trace, on this machine, until it is stopped. `cpumon trace top`: on the screens
//! of `cpumon top`. `cpumon trace export`: as a file of other programs.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use anyhow::{Context, anyhow};
use cpumon_export::{Format, TraceSurvey, trace_perfetto, trace_slices};
use cpumon_query::status::Status;
use cpumon_query::time::now_ns;
use cpumon_query::traces::{Timelines, Traces};
use cpumon_receiver::hub::{Hub, HubOptions};
use cpumon_trace::{TraceInput, TraceSource};
use cpumon_tui::{Options, RowOptions};
use cpumon_web::{HttpServer, WebOptions, random_key};

use super::{TraceFile, input, missing, nothing, open, range};
use crate::cli::{TraceExportArgs, TraceTopArgs, TraceViewArgs, file_of};
use crate::exit::{Outcome, Signals, Usage, say};
use crate::feeds::{ReplayFeed, TraceFeedError};
use crate::output::{needs_file, to_file_or};
use crate::top::show_screens;

/// The id of the one trace.
const ID: &str = "file";
const POLL: Duration = Duration::from_millis(100);

/// A file as the only trace.
#[derive(Debug)]
struct OneFile(PathBuf);

impl Traces for OneFile {
    fn open(&self, id: &str) -> io::Result<Option<TraceInput>> {
        if id == ID { TraceInput::open(&self.0).map(Some) } else { Ok(None) }
    }
}

/// A receiver without any host: the page asks how it is doing.
fn no_hosts() -> Hub {
    let started_wall_ns = now_ns();
    let status = move || Status {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
        started_wall_ns,
        now_wall_ns: now_ns(),
        ..Status::default()
    };
    Hub::new(HubOptions::default(), Box::new(|_, _| Ok(None)), Box::new(status))
}

pub(crate) fn view(args: &TraceViewArgs) -> anyhow::Result<Outcome> {
    let signals = Signals::install()?;
    drop(input(&args.file)?);
    let traces: Arc<dyn Traces> = Arc::new(OneFile(args.file.clone()));
    let bytes = usize::try_from(args.memory).unwrap_or(usize::MAX);
    // Read once before the page opens: an unreadable file is reported here, and the first picture does not wait.
    let timelines = Arc::new(Timelines::new(traces, bytes));
    let timeline = timelines.get(ID, 0, &Arc::default());
    let timeline = timeline.with_context(|| format!("cannot show {}", args.file.display()))?;
    if timeline.cpus().next().is_none() {
        return nothing(&timeline.ending, anyhow!("{} has no event", args.file.display()));
    }
    drop(timeline);
    // Other users of this machine reach the port, and may not be allowed to read the file.
    let key = random_key().context("cannot make a key")?;
    let web = WebOptions {
        timelines: Some(timelines),
        web_dir: args.web_dir.clone(),
        key: Some(key.clone()),
        ..WebOptions::default()
    };
    let server = HttpServer::bind(args.http, web).map_err(|error| anyhow!("{error}"))?;
    let (address, shutdown) = (server.local_addr(), server.shutdown());
    let running =
        thread::Builder::new().name("http".to_owned()).spawn(move || server.run(Arc::new(no_hosts())));
    let running = running.context("cannot start the HTTP server")?;
    // Standard output may be closed: the page is there all the same.
    let _ = writeln!(io::stdout(), "http://{address}/trace/{ID}?key={key}");
    say("the trace is shown at this address, to those who have its key, until Ctrl-C");
    while !signals.stop().load(Ordering::Relaxed) && !running.is_finished() {
        thread::sleep(POLL);
    }
    shutdown.stop();
    running.join().map_err(|_| anyhow!("the HTTP server panicked"))??;
    Ok(signals.outcome())
}

pub(crate) fn top(args: &TraceTopArgs) -> anyhow::Result<Outcome> {
    let range = range(args.from, args.to)?;
    let signals = Signals::install()?;
    let title = format!("trace {}", args.file.display());
    let mut again = TraceFile::open(&args.file)?.trace;
    let mut file = TraceFile::open(&args.file)?;
    let made =
        file.read(|trace| match ReplayFeed::of_trace(title, trace, &mut again, range, args.interval) {
            Err(TraceFeedError::Empty(ending)) => Ok(Err(ending)),
            made => made.map(Ok),
        })?;
    let (feed, ending) = match made {
        Ok(made) => made,
        Err(ending) => {
            return nothing(&ending, anyhow!("{} has no event in this part of it", args.file.display()));
        }
    };
    let options = Options {
        stop: signals.stop().clone(),
        rows: RowOptions { threads: args.threads, ..RowOptions::default() },
        no_mouse: args.no_mouse,
        ..Options::default()
    };
    show_screens(Box::new(feed), options)?;
    let outcome = missing(&ending, ending.lost);
    Ok(if signals.outcome() == Outcome::Done { outcome } else { signals.outcome() })
}

pub(crate) fn export(args: &TraceExportArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let output = file_of(args.output.as_deref());
    if args.format != Some(Format::Csv) {
        needs_file(output, "this format")?;
    }
    if args.format.is_none() && (args.from.is_some() || args.to.is_some()) {
        return Err(Usage("--from and --to are for --format csv and parquet".to_owned()).into());
    }
    let range = range(args.from, args.to)?;
    let survey = TraceSurvey::new(open(&args.file)?)
        .with_context(|| format!("cannot read {}", args.file.display()))?;
    let mut trace = open(&args.file)?;
    let length_ns = survey.ending.known_until_ns.saturating_sub(trace.header().began.mono_ns);
    if survey.events == 0 || range.from_ns > length_ns {
        let why = anyhow!("{} has no event, or none behind --from", args.file.display());
        return nothing(&survey.ending, why);
    }
    let mut write = |out: &mut dyn Write| match args.format {
        None => trace_perfetto(&survey, &mut trace, out),
        Some(format) => trace_slices(format, &survey, &mut trace, range, out),
    };
    let ending = to_file_or(output, out, |out| write(out).map_err(anyhow::Error::from))?;
    out.flush()?;
    Ok(missing(&ending, ending.lost))
}
