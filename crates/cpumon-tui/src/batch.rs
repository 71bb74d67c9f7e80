//! Batch mode: prints intervals as they come, with the same values as the screens, as lines with stable columns for people and `awk`, or as
//! JSON.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use cpumon_model::{Fields, HostStatus, Interval, Terms, Trust, flag_names};

use crate::cells::Cells;
use crate::export::write_json;
use crate::feed::{Feed, FeedError, TimeWords, find_moment};
use crate::history::RunTotals;
use crate::options::{BatchFormat, BatchOptions, TuiError};
use crate::rows::{Item, RowList};
use crate::screen::losses_of_agent;
use crate::text::{safe, seconds, width};
use crate::theme::Theme;
use crate::view::{Col, View, no_such_user};

/// Time between two polls of an idle feed.
const POLL: Duration = Duration::from_millis(20);
/// How long a failing feed is asked again before batch mode gives up.
const PATIENCE: Duration = Duration::from_secs(10);

/// Prints intervals as they come until [`BatchOptions`] says it is enough. Returns how many rows they had.
pub fn batch(feed: &mut dyn Feed, options: &BatchOptions, out: &mut dyn Write) -> Result<usize, TuiError> {
    if let Some(wall_ns) = options.at_wall_ns {
        let found = find_moment(feed, options.time, wall_ns).map_err(TuiError::Feed)?;
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

/// Waits for the next interval; `None` if batch mode has to stop.
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
    let view = View { wait_names: true, cmdline: options.cmdline, ..options.rows.view() };
    let rows = RowList::build(interval, &view, &RunTotals::default());
    let status = feed.hosts().into_iter().find(|status| status.info.host == interval.host);
    match options.format {
        BatchFormat::Json => write_json(interval, status.as_ref(), &rows, left_out, out)?,
        BatchFormat::Text => {
            let status = status.as_ref();
            let listing =
                Listing { interval, status, time: options.time, view: &view, rows: &rows, left_out };
            write_text(&listing, out)?;
        }
    }
    out.flush()?;
    Ok(rows.rows.len())
}

struct Listing<'a> {
    interval: &'a Interval,
    /// `None` if the feed does not know the interval's host.
    status: Option<&'a HostStatus>,
    time: TimeWords,
    view: &'a View,
    rows: &'a RowList,
    /// Intervals since the last printed one that were not printed.
    left_out: u64,
}

fn write_text(listing: &Listing<'_>, out: &mut dyn Write) -> io::Result<()> {
    write_head(listing, out)?;
    let Listing { interval, view, rows, .. } = *listing;
    let [lost, _] = losses_of_agent(&interval.health);
    if !lost.is_empty() {
        writeln!(out, "# lost since the agent's start: {}", lost.join(", "))?;
    }
    if let Some(hint) = view.user.as_ref().and_then(|user| no_such_user(interval, user)) {
        writeln!(out, "# {hint}")?;
    }
    let cells = Cells::new(interval, view, Theme { color: false, ascii: true }, None);
    // Each title is one word, for tools that split lines at spaces.
    let titles =
        |col: Col| if col == Col::Marks { "MARK".to_string() } else { col.title(view).replace(' ', "") };
    let items = || rows.rows.iter().filter_map(|row| rows.item(interval, row));
    let columns = widened(columns(view), items(), &cells);
    write_line(&columns, titles, out)?;
    for item in items() {
        write_line(&columns, |col| cell(&cells, &item, col), out)?;
    }
    writeln!(out)
}

fn columns(view: &View) -> Vec<(Col, usize)> {
    let threads = view.is_flat_threads();
    let is_shown = |col: &Col| match col {
        Col::Owner => threads,
        Col::Threads => !threads,
        _ => true,
    };
    Col::of_batch().filter(|(col, _)| is_shown(col)).collect()
}

/// Columns as wide as their widest cell: one of ten digits would shift the following columns. Cells are made twice,
/// because those of a large host would take much memory at once.
fn widened<'a>(
    mut columns: Vec<(Col, usize)>,
    items: impl Iterator<Item = Item<'a>>,
    cells: &Cells<'_>,
) -> Vec<(Col, usize)> {
    for item in items {
        for (col, columns) in columns.iter_mut().filter(|(col, _)| *col != Col::Name) {
            *columns = (*columns).max(width(&cell(cells, &item, *col)));
        }
    }
    columns
}

/// No cell is empty and only the last one has spaces, so that `awk` finds the columns.
fn cell(cells: &Cells<'_>, item: &Item<'_>, col: Col) -> String {
    let text = cells.text(item, col);
    let text = match col {
        Col::Marks => text.replace(' ', ""),
        Col::Limit | Col::Throttled if text.is_empty() => "none".into(),
        Col::Wait | Col::User => text.replace(char::is_whitespace, "_"),
        Col::Name => match cells.command(item) {
            Some(command) if !command.is_empty() => format!("{text} {}", safe(command)),
            _ => text,
        },
        _ => text,
    };
    if text.is_empty() { "-".into() } else { text }
}

fn write_line(columns: &[(Col, usize)], text: impl Fn(Col) -> String, out: &mut dyn Write) -> io::Result<()> {
    for (nth, &(col, columns)) in columns.iter().enumerate() {
        let text = text(col);
        if nth > 0 {
            out.write_all(b" ")?;
        }
        if col.is_number() {
            write!(out, "{}{text}", " ".repeat(columns.saturating_sub(width(&text))))?;
        } else {
            write!(out, "{text}{}", " ".repeat(columns.saturating_sub(width(&text))))?;
        }
    }
    writeln!(out)
}

/// Host, moment, measured length, source, trust, the ledger; each of these lines begins with `#`.
fn write_head(listing: &Listing<'_>, out: &mut dyn Write) -> io::Result<()> {
    let Listing { interval, status, time, left_out, .. } = *listing;
    let host = status.map_or_else(|| "-".to_string(), |status| safe(&status.info.hostname));
    let trust = interval.trust.or(status.map(|status| status.trust)).map_or("-", Trust::name);
    let length = seconds(i64::try_from(interval.duration_ns()).unwrap_or(i64::MAX));
    write!(
        out,
        "# host {host}  time {}  interval {length} s  source {}  trust {trust}  processes {}  threads {}",
        safe(&(time.show)(interval.end.wall_ns)),
        interval.source.name(),
        interval.process_count,
        interval.thread_count,
    )?;
    if !interval.flags.is_empty() {
        write!(out, "  flags {}", flag_names(interval.flags))?;
    }
    if left_out > 0 {
        write!(out, "  not_printed {left_out}")?;
    }
    writeln!(out)?;
    let ledger = &interval.ledger;
    if ledger.capacity_ns <= 0 {
        return writeln!(out, "# ledger no data");
    }
    let Terms { irq, softirq } = Terms::of(interval.source);
    let (irq, softirq) = (irq.label, softirq.label);
    writeln!(
        out,
        "# ledger capacity {} s = threads {} + exited {} + {irq} {} + {softirq} {} + steal {} + idle {} + unattributed {}{}{}",
        seconds(ledger.capacity_ns),
        seconds(ledger.threads_ns),
        seconds(ledger.exited_ns),
        seconds(ledger.irq_ns),
        seconds(ledger.softirq_ns),
        seconds(ledger.steal_ns),
        seconds(ledger.idle_ns),
        seconds(ledger.unattributed_ns()),
        unknown(interval),
        if ledger.irq_in_run_time {
            format!("  ({irq} and {softirq} inside threads)")
        } else {
            String::new()
        },
    )
}

/// The unattributed time with a known cause, if the source measures it.
fn unknown(interval: &Interval) -> String {
    if interval.fields.contains(Fields::SCHED) {
        format!(" (of which unknown {})", seconds(interval.ledger.unknown_ns))
    } else {
        String::new()
    }
}
