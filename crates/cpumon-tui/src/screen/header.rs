//! The header: the moment and the host, trust, losses, CPU bars, the ledger.

use cpumon_model::{Fields, Interval, Trust, WRONG_BEYOND_NS, flag_names};
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use crate::app::{App, Clock};
use crate::screen::health::{losses, own_cost, run_queue};
use crate::screen::parts::{Part, wrap};
use crate::screen::{bars, ledger};
use crate::text::{ago, clip, safe, seconds, width};
use crate::theme::Theme;

/// The lines of the header, at most `max_lines`.
pub(crate) fn lines(app: &App, columns: u16, max_lines: usize) -> Vec<Line<'static>> {
    let columns = usize::from(columns);
    let mut lines = vec![clock_line(app, columns)];
    let Some(shown) = &app.shown else { return lines };
    // On a small screen, the line of trust and losses is left out last: it says what may be wrong with all others.
    lines.extend(wrap(&facts(app, shown), app.theme.dot(), columns, if max_lines > 5 { 2 } else { 1 }, app));
    let left = max_lines.saturating_sub(lines.len());
    let ledger = ledger::lines(app, shown, columns, left.saturating_sub(1));
    let bar_lines = left.saturating_sub(ledger.len());
    lines.extend(bars::lines(app, shown, columns, bar_lines));
    lines.extend(ledger);
    lines.truncate(max_lines.max(1));
    lines
}

/// LIVE, PAUSED or PAST, the host, the moment, the interval's length; the origin of the data at the right.
fn clock_line(app: &App, columns: usize) -> Line<'static> {
    let (label, style) = clock_label(app);
    let host = app.status().map_or_else(|| "no host".to_string(), |status| safe(&status.info.hostname));
    let mut spans = vec![Span::styled(format!(" {label} "), style), Span::raw(" ")];
    let mut left = columns.saturating_sub(width(&label) + 3);
    let (time, length) = app.shown.as_ref().map_or((String::new(), String::new()), |shown| {
        (app.time_text(shown.end.wall_ns), format!("{} s", seconds(duration(shown))))
    });
    // On a narrow screen the date is left out first: the name of the host needs ten columns to be distinct from others.
    let time = if width(&time) + 12 > left {
        time.split_once(' ').map_or(time.clone(), |parts| parts.1.to_string())
    } else {
        time
    };
    let host = clip(&host, left.saturating_sub(width(&time) + 1).max(8).min(left), app.theme.cut());
    left = left.saturating_sub(width(&host) + width(&time) + 1);
    spans.push(Span::styled(host, Theme::bold()));
    spans.push(Span::raw(format!(" {time}")));
    if width(&length) + app.theme.dot().chars().count() <= left && !length.is_empty() {
        left -= width(&length) + app.theme.dot().chars().count();
        spans.push(Span::styled(format!("{}{length}", app.theme.dot()), Theme::dim()));
    }
    let title = clip(&safe(&app.title), left.saturating_sub(2), app.theme.cut());
    if left > 10 {
        let gap = left - width(&title);
        spans.push(Span::styled(format!("{}{title}", " ".repeat(gap)), Theme::dim()));
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

/// Trust, losses, filters, the source, the number of tasks.
fn facts(app: &App, shown: &Interval) -> Vec<Part> {
    let theme = app.theme;
    let mut parts: Vec<Part> = Vec::new();
    if let Some(status) = app.status() {
        // Of the past: a host may have been enrolled since.
        match shown.trust.unwrap_or(status.trust) {
            Trust::Unauthenticated => {
                parts.push((format!("UNAUTHENTICATED {}", safe(&status.address)), theme.warn()));
            }
            trust => parts.push((trust.name().to_string(), Style::new())),
        }
    }
    parts.extend(wrong_clock(shown).map(|text| (text, theme.warn())));
    // Problems come first: on a narrow screen the rest may be cut.
    if !shown.flags.is_empty() {
        parts.push((format!("interval {}", flag_names(shown.flags).replace('|', ", ")), theme.warn()));
    }
    let lost = losses(app.status().map(|status| &status.loss), &shown.health);
    let has_loss = !lost.is_empty();
    parts.extend(lost.into_iter().map(|text| (text, theme.warn())));
    // Filters come before plain facts: without them a user would miss rows and not know why.
    if !app.view.filter.is_empty() {
        parts.push((format!("filter {}", safe(&app.view.filter)), Theme::bold()));
    }
    if !app.view.pids.is_empty() {
        parts.push((format!("only {} pids", app.view.pids.len()), Theme::bold()));
    }
    if app.view.hide_idle {
        parts.push(("idle rows hidden".to_string(), Theme::bold()));
    }
    parts.push((shown.source.name().to_string(), Style::new()));
    if !has_loss {
        parts.push(("no loss".to_string(), Style::new()));
    }
    parts.push((format!("{} processes", shown.process_count), Style::new()));
    parts.push((format!("{} threads", shown.thread_count), Style::new()));
    if shown.fields.contains(Fields::SCHED) {
        parts.push((run_queue(shown), Style::new()));
    }
    parts.extend(own_cost(app, shown).map(|text| (text, Style::new())));
    if app.cursor.follow {
        parts.push(("following".to_string(), Theme::bold()));
    }
    parts
}

/// The error of the device's clock, if the receiver moved the interval because of it.
fn wrong_clock(shown: &Interval) -> Option<String> {
    let way = if shown.wall_shift_ns < 0 { "behind" } else { "ahead" };
    let off = shown.wall_shift_ns.unsigned_abs();
    (off > WRONG_BEYOND_NS.unsigned_abs()).then(|| format!("device clock {} {way}", ago(off / 1_000_000_000)))
}
