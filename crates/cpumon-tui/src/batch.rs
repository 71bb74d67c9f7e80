//! Batch mode. In: a [`Feed`]. Out: lines with stable columns, or one JSON object an interval.
//! Why: scripts read the same figures that the screens show; rates divide by the measured length.

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use cpumon_model::{Fields, HostStatus, Interval, flag_names};

use crate::batch_json::write_json;
use crate::cells::Cells;
use crate::columns::Col;
use crate::feed::Seek;
use crate::history::RunTotals;
use crate::options::BatchFormat;
use crate::rows::{Item, Rows};
use crate::text::{safe, seconds, width};
use crate::theme::Theme;
use crate::view::View;
use crate::{BatchOptions, Feed, FeedError, TuiError};

/// How often an idle feed is asked again.
const POLL: Duration = Duration::from_millis(20);
/// How long a failing feed is asked again before batch mode gives up.
const PATIENCE: Duration = Duration::from_secs(10);

/// Columns of a text line with their widths, the name last.
const COLUMNS: [(Col, usize); 20] = [
    (Col::Owner, 7),
    (Col::Id, 7),
    (Col::User, 8),
    (Col::State, 1),
    (Col::Nice, 3),
    (Col::LastCpu, 4),
    (Col::Cpu, 6),
    (Col::User100, 6),
    (Col::System100, 6),
    (Col::Ready, 6),
    (Col::LongestDelay, 6),
    (Col::DelayP99, 10),
    (Col::Blocked, 6),
    (Col::Wait, 12),
    (Col::Switches, 7),
    (Col::Voluntary, 7),
    (Col::Involuntary, 7),
    (Col::Threads, 5),
    (Col::Marks, 4),
    (Col::Name, 0),
];

/// Prints intervals as they come until [`BatchOptions`] says it is enough.
pub fn batch(feed: &mut dyn Feed, options: &BatchOptions, out: &mut dyn Write) -> Result<(), TuiError> {
    if let Some(wall_ns) = options.at_wall_ns {
        let found = feed.seek(Seek::At(wall_ns)).map_err(TuiError::Feed)?;
        let interval = found.ok_or_else(|| TuiError::NothingThen(feed.format_time(wall_ns)))?;
        return print(feed, &interval, options, 0, out).map_err(TuiError::Output);
    }
    let delay_ns = options.delay.map_or(0, |delay| i64::try_from(delay.as_nanos()).unwrap_or(i64::MAX));
    let (mut printed, mut left_out) = (0_u64, 0_u64);
    let mut last_end: Option<i64> = None;
    while options.iterations.is_none_or(|most| printed < most) {
        let Some(interval) = wait(feed, options)? else { break };
        // A tenth of tolerance: interval lengths are measured, not wished for.
        let end = interval.end.wall_ns;
        if last_end.is_some_and(|last| end.saturating_sub(last).saturating_add(delay_ns / 10) < delay_ns) {
            left_out += 1;
            continue;
        }
        print(feed, &interval, options, left_out, out).map_err(TuiError::Output)?;
        (last_end, left_out) = (Some(end), 0);
        printed += 1;
    }
    Ok(())
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
) -> io::Result<()> {
    let view =
        View { threads: options.threads, pids: options.pids.iter().copied().collect(), ..View::default() };
    let rows = Rows::build(interval, &view, &RunTotals::default());
    let status = feed.hosts().into_iter().find(|status| status.info.host == interval.host);
    match options.format {
        BatchFormat::Json => write_json(interval, status.as_ref(), &rows, left_out, out)?,
        BatchFormat::Text => write_text(feed, interval, status.as_ref(), (&view, &rows), left_out, out)?,
    }
    out.flush()
}

fn write_text(
    feed: &dyn Feed,
    interval: &Interval,
    status: Option<&HostStatus>,
    (view, rows): (&View, &Rows),
    left_out: u64,
    out: &mut dyn Write,
) -> io::Result<()> {
    write_head(feed, interval, status, left_out, out)?;
    let uids: HashMap<u32, Option<String>> = interval
        .processes
        .iter()
        .map(|row| row.info.uid)
        .collect::<std::collections::HashSet<u32>>()
        .into_iter()
        .map(|uid| (uid, feed.user_name(uid).map(|name| name.replace(char::is_whitespace, "_"))))
        .collect();
    let cells = Cells::new(interval, view, Theme { color: false, ascii: true }, &uids, None);
    // One word each, for tools that cut lines at spaces.
    let titles =
        |col: Col| if col == Col::Marks { "MARK".to_string() } else { col.title(view).replace(' ', "") };
    write_line(view, titles, out)?;
    for item in rows.rows.iter().filter_map(|row| rows.item(interval, row)) {
        write_line(view, |col| cell(&cells, &item, col), out)?;
    }
    writeln!(out)
}

/// No cell is empty and none but the last has a space, so that `awk` counts right.
fn cell(cells: &Cells<'_>, item: &Item<'_>, col: Col) -> String {
    let text = cells.text(item, col);
    let text = match col {
        Col::Marks => text.replace(' ', ""),
        Col::Wait => text.replace(' ', "_"),
        _ => text,
    };
    if text.is_empty() { "-".into() } else { text }
}

fn write_line(view: &View, text: impl Fn(Col) -> String, out: &mut dyn Write) -> io::Result<()> {
    let threads = view.is_flat_threads();
    let shown = COLUMNS.into_iter().filter(|(col, _)| match col {
        Col::Owner => threads,
        Col::Threads => !threads,
        _ => true,
    });
    for (nth, (col, room)) in shown.enumerate() {
        let text = text(col);
        if nth > 0 {
            out.write_all(b" ")?;
        }
        if col.is_number() {
            write!(out, "{}{text}", " ".repeat(room.saturating_sub(width(&text))))?;
        } else {
            write!(out, "{text}{}", " ".repeat(room.saturating_sub(width(&text))))?;
        }
    }
    writeln!(out)
}

/// Host, moment, measured length, source, trust, the ledger; each of these lines begins with `#`.
fn write_head(
    feed: &dyn Feed,
    interval: &Interval,
    status: Option<&HostStatus>,
    left_out: u64,
    out: &mut dyn Write,
) -> io::Result<()> {
    let host = status.map_or_else(|| "-".to_string(), |status| safe(&status.info.hostname));
    let trust = status.map_or("-", |status| status.trust.name());
    let length = seconds(i64::try_from(interval.duration_ns()).unwrap_or(i64::MAX));
    write!(
        out,
        "# host {host}  time {}  interval {length} s  source {}  trust {trust}  processes {}  threads {}",
        safe(&feed.format_time(interval.end.wall_ns)),
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
    writeln!(
        out,
        "# ledger capacity {} s = threads {} + exited {} + irq {} + softirq {} + steal {} + idle {} + unattributed {}{}{}",
        seconds(ledger.capacity_ns),
        seconds(ledger.threads_ns),
        seconds(ledger.exited_ns),
        seconds(ledger.irq_ns),
        seconds(ledger.softirq_ns),
        seconds(ledger.steal_ns),
        seconds(ledger.idle_ns),
        seconds(ledger.unattributed_ns()),
        unknown(interval),
        if ledger.irq_in_run_time { "  (irq and softirq inside threads)" } else { "" },
    )
}

/// The part of what is unattributed that has a counted cause, where it is measured.
fn unknown(interval: &Interval) -> String {
    if interval.fields.contains(Fields::SCHED) {
        format!(" (of it unknown {})", seconds(interval.ledger.unknown_ns))
    } else {
        String::new()
    }
}
