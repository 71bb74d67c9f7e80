//! `cpumon trace top`: a trace on the screens of `cpumon top`.

use cpumon_tui::Options;

use super::trace_file::{TraceFile, missing, range};
use crate::cli::TraceTopArgs;
use crate::exit::Outcome;
use crate::feeds::TraceFeed;
use crate::screen;
use crate::signals::Signals;

/// `cpumon trace top`.
pub(crate) fn top(args: &TraceTopArgs) -> anyhow::Result<Outcome> {
    let range = range(args.from, args.to)?;
    let signals = Signals::install()?;
    let title = format!("trace {}", args.file.display());
    let again = TraceFile::open(&args.file)?.trace;
    let mut file = TraceFile::open(&args.file)?;
    let (feed, ending) = file.read(|trace| TraceFeed::open(title, trace, again, range, args.interval))?;
    let options = Options {
        stop: signals.stop().clone(),
        threads: args.threads,
        no_mouse: args.no_mouse,
        ..Options::default()
    };
    screen::show(Box::new(feed), options)?;
    let outcome = missing(&ending, ending.lost);
    Ok(if signals.outcome() == Outcome::Done { outcome } else { signals.outcome() })
}
