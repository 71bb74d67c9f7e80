//! Batch mode: prints intervals as they come, with the same values as the screens.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use cpumon_model::Interval;

use crate::batch::json::write_json;
use crate::batch::listing::Listing;
use crate::batch::text::write_text;
use crate::history::RunTotals;
use crate::moment::find_moment;
use crate::options::BatchFormat;
use crate::rows::RowList;
use crate::view::View;
use crate::{BatchOptions, Feed, FeedError, TuiError};

/// How often an idle feed is asked again.
const POLL: Duration = Duration::from_millis(20);
/// How long a failing feed is asked again before batch mode gives up.
const PATIENCE: Duration = Duration::from_secs(10);

/// Prints intervals as they come until [`BatchOptions`] says it is enough. Returns how many rows they had.
pub fn batch(feed: &mut dyn Feed, options: &BatchOptions, out: &mut dyn Write) -> Result<usize, TuiError> {
    if let Some(wall_ns) = options.at_wall_ns {
        let found = find_moment(feed, wall_ns).map_err(TuiError::Feed)?;
        let interval = found.map_err(TuiError::NoMoment)?;
        return print(feed, &interval, options, 0, out).map_err(TuiError::Output);
    }
    let delay_ns = options.delay.map_or(0, |delay| i64::try_from(delay.as_nanos()).unwrap_or(i64::MAX));
    let (mut printed, mut left_out, mut rows) = (0_u64, 0_u64, 0);
    let mut last_end: Option<i64> = None;
    while options.iterations.is_none_or(|most| printed < most) {
        let Some(interval) = wait(feed, options)? else { break };
        // Measured lengths differ a little from the requested one: without a tolerance of a tenth, every second interval
        // would be left out.
        let end = interval.end.wall_ns;
        if last_end.is_some_and(|last| end.saturating_sub(last).saturating_add(delay_ns / 10) < delay_ns) {
            left_out += 1;
            continue;
        }
        rows += print(feed, &interval, options, left_out, out).map_err(TuiError::Output)?;
        (last_end, left_out) = (Some(end), 0);
        printed += 1;
    }
    Ok(rows)
}

/// The next interval; `None` when asked to stop.
fn wait(feed: &mut dyn Feed, options: &BatchOptions) -> Result<Option<Arc<Interval>>, TuiError> {
    let mut failing_since: Option<(Instant, FeedError)> = None;
    while !options.stop.load(Ordering::Relaxed) {
        match (feed.poll(), failing_since.take()) {
            (Ok(Some(interval)), _) => return Ok(Some(interval)),
            (Ok(None), _) if feed.playback().is_some_and(|playback| playback.is_at_end) => return Ok(None),
            (Ok(None), _) => {}
            (Err(error), Some((since, _))) if since.elapsed() > PATIENCE => {
                return Err(TuiError::Feed(error));
            }
            (Err(error), Some((since, _))) => failing_since = Some((since, error)),
            (Err(error), None) => failing_since = Some((Instant::now(), error)),
        }
        std::thread::sleep(POLL);
    }
    Ok(None)
}

fn print(
    feed: &dyn Feed,
    interval: &Interval,
    options: &BatchOptions,
    left_out: u64,
    out: &mut dyn Write,
) -> io::Result<usize> {
    let view = View {
        wait_names: true,
        cmdline: options.cmdline,
        ..options.rows.view(options.threads, &options.pids)
    };
    let rows = RowList::build(interval, &view, &RunTotals::default());
    let status = feed.hosts().into_iter().find(|status| status.info.host == interval.host);
    let listing = Listing { interval, status: status.as_ref(), view: &view, rows: &rows, left_out };
    match options.format {
        BatchFormat::Json => write_json(&listing, out)?,
        BatchFormat::Text => write_text(feed, &listing, out)?,
    }
    out.flush()?;
    Ok(rows.rows.len())
}
