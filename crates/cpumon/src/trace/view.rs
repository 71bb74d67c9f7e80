//! `cpumon trace view`: the page for one trace, on this machine, until it is stopped.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use cpumon_query::status::Status;
use cpumon_query::time::now_ns;
use cpumon_query::traces::{Timelines, Traces};
use cpumon_receiver::hub::{Hub, HubOptions};
use cpumon_trace::TraceInput;
use cpumon_web::{HttpServer, WebOptions, random_key};

use crate::cli::TraceViewArgs;
use crate::exit::Outcome;
use crate::signals::Signals;

/// The id of the one trace.
const ID: &str = "file";
const POLL: Duration = Duration::from_millis(100);

/// One file.
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

/// `cpumon trace view`.
pub(crate) fn view(args: &TraceViewArgs) -> anyhow::Result<Outcome> {
    let signals = Signals::install()?;
    let traces: Arc<dyn Traces> = Arc::new(OneFile(args.file.clone()));
    let bytes = usize::try_from(args.memory).unwrap_or(usize::MAX);
    // Read once before the page opens: what cannot be read is reported here, and the first picture does not wait.
    let timelines = Arc::new(Timelines::new(traces, bytes));
    let timeline = timelines.get(ID, 0, &Arc::default());
    let timeline = timeline.with_context(|| format!("cannot show {}", args.file.display()))?;
    if timeline.cpus().next().is_none() {
        bail!("{} has no event", args.file.display());
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
        std::thread::Builder::new().name("http".to_owned()).spawn(move || server.run(Arc::new(no_hosts())));
    let running = running.context("cannot start the HTTP server")?;
    // Standard output may be closed: the page is there all the same.
    let _ = writeln!(io::stdout(), "http://{address}/trace/{ID}?key={key}");
    let _ = writeln!(
        io::stderr(),
        "cpumon: the trace is shown at this address, to those who have its key, until Ctrl-C"
    );
    while !signals.stop().load(Ordering::Relaxed) && !running.is_finished() {
        std::thread::sleep(POLL);
    }
    shutdown.stop();
    running.join().map_err(|_| anyhow!("the HTTP server panicked"))??;
    Ok(signals.outcome())
}
