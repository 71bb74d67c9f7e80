//! The header: the moment and the host, problems, CPU bars, the ledger. Its height depends on the size of the window and
//! on keys only, so that the table below never moves by itself.

use cpumon_model::{CpuTimes, Fields, Interval, Trust, WRONG_BEYOND_NS, flag_names};
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use crate::app::{App, Clock};
use crate::screen::cpu_time::{bars, busy_pct, ledger, sum};
use crate::screen::health::{hidden_processes, losses_now, no_bpf, own_cost, run_queue, used_up_quota};
use crate::text::{ago, clip, percent, safe, seconds, width};
use crate::theme::{StyledPart, Theme};
use crate::view::Layout;

/// Up to this height the header has two lines, and the plot is drawn only if the user asks for it.
pub(crate) const SMALL_HEIGHT: u16 = 30;

pub(crate) fn lines(app: &App, area: Rect) -> Vec<Line<'static>> {
    let columns = usize::from(area.width);
    if area.height <= SMALL_HEIGHT {
        return small(app, columns, area.height);
    }
    let mut lines = vec![clock_line(app, columns, &[])];
    let Some(shown) = &app.shown else { return lines };
    let facts: Vec<StyledPart> =
        [problems(app, shown), filters(app), limits(app, shown), facts(app, shown)].concat();
    push_padded(
        &mut lines,
        app.theme.wrap(&facts, app.theme.dot(), columns, fact_lines(columns)),
        fact_lines(columns),
    );
    // A bar for each CPU may take up to half of the screen.
    let bar_lines = if app.view.per_cpu { usize::from(area.height / 2) } else { 1 };
    lines.extend(bars(app, shown, columns, bar_lines));
    let count = ledger_lines(columns);
    push_padded(&mut lines, ledger(app, shown, columns, count), count);
    lines
}

fn fact_lines(columns: usize) -> usize {
    if columns >= 110 { 1 } else { 2 }
}

fn ledger_lines(columns: usize) -> usize {
    match columns {
        0..80 => 3,
        80..200 => 2,
        _ => 1,
    }
}

fn push_padded(lines: &mut Vec<Line<'static>>, block: Vec<Line<'static>>, count: usize) {
    let end = lines.len() + count;
    lines.extend(block);
    lines.resize(end, Line::default());
}

/// Two lines: the moment with plain facts; problems, and the ledger.
fn small(app: &App, columns: usize, height: u16) -> Vec<Line<'static>> {
    let Some(shown) = &app.shown else { return vec![clock_line(app, columns, &[])] };
    let mut lines = vec![clock_line(app, columns, &[filters(app), short_facts(app, shown)].concat())];
    if height < 8 {
        return lines;
    }
    let (wrong, separator) = ([problems(app, shown), limits(app, shown)].concat(), app.theme.dot());
    let taken = wrong.iter().map(|part| width(&part.0) + width(separator)).sum::<usize>();
    let mut line = app.theme.wrap(&wrong, separator, columns, 1).pop().unwrap_or_default();
    let left = columns.saturating_sub(taken);
    if left >= 10 {
        if !wrong.is_empty() {
            line.push_span(Span::styled(separator.to_owned(), Theme::dim()));
        }
        line.extend(ledger(app, shown, left, 1).pop().unwrap_or_default().spans);
    }
    lines.push(line);
    if app.view.per_cpu {
        lines.extend(bars(app, shown, columns, usize::from(height / 3)));
    }
    lines
}

/// LIVE, PAUSED or PAST, the host, the moment, facts if there are any, else the interval's length and the origin of the data.
fn clock_line(app: &App, columns: usize, facts: &[StyledPart]) -> Line<'static> {
    let (label, style) = clock_label(app);
    let host = app.status().map_or_else(|| "no host".to_string(), |status| safe(&status.info.hostname));
    let mut spans = vec![Span::styled(format!(" {label} "), style), Span::raw(" ")];
    let mut left = columns.saturating_sub(width(&label) + 3);
    let time = app.shown.as_ref().map_or(String::new(), |shown| app.time_text(shown.end.wall_ns));
    // On a narrow screen the date is left out first: the name of the host needs ten columns to be distinct from others.
    // Of a moment in the past the day matters more than the figures behind it.
    let behind = match (facts.is_empty(), app.clock) {
        (true, _) => 12,
        (false, Clock::Past) => 36,
        (false, _) => 64,
    };
    let wanted = width(&time) + behind;
    let time = if wanted > left {
        time.split_once(' ').map_or(time.clone(), |parts| parts.1.to_string())
    } else {
        time
    };
    let host = clip(&host, left.saturating_sub(width(&time) + 1).max(8).min(left), app.theme.cut());
    left = left.saturating_sub(width(&host) + width(&time) + 1);
    spans.push(Span::styled(host, Theme::bold()));
    spans.push(Span::raw(format!(" {time}")));
    let length = app.shown.as_ref().map_or(String::new(), |shown| format!("{} s", seconds(duration(shown))));
    let gap = width(app.theme.dot());
    if facts.is_empty() {
        if !length.is_empty() && width(&length) + gap <= left {
            left -= width(&length) + gap;
            spans.push(Span::styled(format!("{}{length}", app.theme.dot()), Theme::dim()));
        }
        let title = clip(&safe(&app.title), left.saturating_sub(2), app.theme.cut());
        if left > 10 {
            spans.push(Span::styled(format!("{}{title}", " ".repeat(left - width(&title))), Theme::dim()));
        }
    } else if left > gap + 8 {
        spans.push(Span::styled(app.theme.dot(), Theme::dim()));
        spans.extend(app.theme.wrap(facts, app.theme.dot(), left - gap, 1).pop().unwrap_or_default().spans);
    }
    Line::from(spans)
}

fn duration(interval: &Interval) -> i64 {
    i64::try_from(interval.duration_ns()).unwrap_or(i64::MAX)
}

fn clock_label(app: &App) -> (String, Style) {
    match app.playback {
        Some(playback) if playback.is_at_end => return ("END".into(), app.theme.not_live()),
        Some(playback) if playback.is_playing => {
            return (format!("PLAYING {}x", playback.speed), app.theme.live());
        }
        Some(_) => return ("STOPPED".into(), app.theme.not_live()),
        None => {}
    }
    match (app.clock, app.age) {
        (Clock::Paused, _) => ("PAUSED".into(), app.theme.not_live()),
        (Clock::Past, _) => ("PAST".into(), app.theme.not_live()),
        (Clock::Live, Some(age)) if app.is_stale() => {
            (format!("NO DATA since {}", ago(age.as_secs())), app.theme.not_live())
        }
        (Clock::Live, _) if app.shown.is_none() => ("WAITING".into(), app.theme.not_live()),
        (Clock::Live, _) => ("LIVE".into(), app.theme.live()),
    }
}

/// Problems that affect the figures: they come first, so that a narrow screen cuts them last.
fn problems(app: &App, shown: &Interval) -> Vec<StyledPart> {
    let mut texts: Vec<String> = Vec::new();
    // Trust of the interval, because a host may have been enrolled since.
    if let Some(status) = app.status()
        && shown.trust.unwrap_or(status.trust) == Trust::Unauthenticated
    {
        texts.push(format!("UNAUTHENTICATED {}", safe(&status.address)));
    }
    texts.extend(hidden_processes(app));
    texts.extend(no_bpf(app, shown));
    texts.extend(wrong_clock(shown));
    if !shown.flags.is_empty() {
        texts.push(format!("interval {}", flag_names(shown.flags).replace('|', ", ")));
    }
    texts.extend(losses_now(app, shown));
    texts.into_iter().map(|text| (text, app.theme.warn())).collect()
}

/// A CPU limit that was reached: the figures are correct, but do not show why the tasks are slow.
fn limits(app: &App, shown: &Interval) -> Vec<StyledPart> {
    used_up_quota(shown, app.theme.cut()).map(|text| (text, Theme::bold())).into_iter().collect()
}

/// Filters: without them a user would miss rows and not know why.
fn filters(app: &App) -> Vec<StyledPart> {
    let mut texts: Vec<String> = Vec::new();
    if !app.view.filter.is_empty() {
        texts.push(format!("filter {}", safe(&app.view.filter)));
    }
    if let Some(user) = &app.view.user {
        texts.push(format!("user {}", safe(user.text())));
    }
    if let Some(limit) = app.view.limit {
        texts.push(format!("first {limit} rows"));
    }
    if app.view.layout == Layout::Groups {
        texts.push(format!("by {}", app.view.group_by.name()));
    }
    let mut pids = app.view.pids.iter();
    match (pids.next(), pids.len()) {
        (None, _) => {}
        (Some(pid), 0) => texts.push(format!("only pid {pid}")),
        (Some(_), others) => texts.push(format!("only {} pids", others + 1)),
    }
    if app.view.hide_idle {
        texts.push("idle rows hidden".to_string());
    }
    if app.cursor.follow {
        texts.push("following".to_string());
    }
    texts.into_iter().map(|text| (text, Theme::bold())).collect()
}

/// Trust, the source, the number of tasks, the cost of measuring.
fn facts(app: &App, shown: &Interval) -> Vec<StyledPart> {
    let mut texts: Vec<String> = Vec::new();
    let trust = app.status().map(|status| shown.trust.unwrap_or(status.trust));
    texts
        .extend(trust.filter(|trust| *trust != Trust::Unauthenticated).map(|trust| trust.name().to_string()));
    texts.push(shown.source.name().to_string());
    texts.push(format!("{} processes", shown.process_count));
    texts.push(format!("{} threads", shown.thread_count));
    if shown.fields.contains(Fields::SCHED) {
        texts.push(run_queue(shown));
    }
    texts.extend(own_cost(app, shown));
    texts.into_iter().map(|text| (text, Style::new())).collect()
}

/// The short form for a small screen, with the utilization that a bar would show.
fn short_facts(app: &App, shown: &Interval) -> Vec<StyledPart> {
    let mut parts: Vec<StyledPart> = Vec::new();
    let sum: CpuTimes = sum(&shown.cpus);
    if let Some(busy) = busy_pct(&sum) {
        let count = shown.cpus.len();
        let plural = if count == 1 { "" } else { "s" };
        parts.push((format!("{}% of {count} CPU{plural}", percent(busy, false)), Theme::bold()));
    }
    let mut texts: Vec<String> = Vec::new();
    if let Some(mean) = shown.run_queue_mean().filter(|_| shown.fields.contains(Fields::SCHED)) {
        texts.push(format!("queue {mean:.2}"));
    }
    texts.push(format!("{} proc {} thr", shown.process_count, shown.thread_count));
    texts.push(shown.source.name().to_string());
    texts.push(format!("{} s", seconds(duration(shown))));
    texts.push(safe(&app.title));
    parts.extend(texts.into_iter().map(|text| (text, Style::new())));
    parts
}

/// The error of the device's clock, if the receiver moved the interval because the clock is wrong.
fn wrong_clock(shown: &Interval) -> Option<String> {
    let way = if shown.wall_shift_ns < 0 { "behind" } else { "ahead" };
    let off = shown.wall_shift_ns.unsigned_abs();
    (off > WRONG_BEYOND_NS.unsigned_abs()).then(|| format!("device clock {} {way}", ago(off / 1_000_000_000)))
}
