//! Where the CPU time went: a bar for all CPUs together or one for each, and the ledger, `capacity = threads + exited + … +
//! unattributed`, in the longest form that fits. The parts of a bar are the letters of the modes, so they can be read without color;
//! the ledger shows whether the percentages below account for all CPU time.

use cpumon_model::{CpuInterval, CpuTimes, Fields, Interval, Ledger, Terms};
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use crate::app::App;
use crate::text::{percent, seconds};
use crate::theme::{BarMode, MODES, StyledPart, Theme};

/// Least width of a bar with its label and percentage.
const MIN_CELL: usize = 19;
/// Greatest width of a bar, so that those of many CPUs are side by side on wide screens.
const MAX_CELL: usize = 50;

pub(super) fn bars(app: &App, interval: &Interval, columns: usize, max_lines: usize) -> Vec<Line<'static>> {
    if max_lines == 0 {
        return Vec::new();
    }
    if interval.cpus.is_empty() {
        return vec![Line::styled("CPU  no data (this source does not report CPU modes)", Theme::dim())];
    }
    if !app.view.per_cpu || max_lines < 2 {
        let label = format!("{} CPU{}", interval.cpus.len(), if interval.cpus.len() == 1 { "" } else { "s" });
        let sum = sum(&interval.cpus);
        let is_odd = interval.cpus.iter().any(|cpu| cpu.went_back);
        return vec![Line::from(cell(app.theme, &label, &sum, is_odd, columns))];
    }
    per_cpu(app, &interval.cpus, columns, max_lines)
}

fn per_cpu(app: &App, cpus: &[CpuInterval], columns: usize, max_lines: usize) -> Vec<Line<'static>> {
    let most = (columns / MIN_CELL).max(1);
    // As few bars in a line as possible: longer bars show more.
    let fewest = (columns / MAX_CELL).max(1).min(most);
    let across = (fewest..most).find(|across| cpus.len().div_ceil(*across) <= max_lines).unwrap_or(most);
    let is_cut = cpus.len().div_ceil(across) > max_lines;
    let rows = if is_cut { max_lines - 1 } else { max_lines };
    let width = columns / across;
    let mut lines: Vec<Line<'static>> = Vec::new();
    for row in cpus.chunks(across).take(rows) {
        let mut spans = Vec::new();
        for (nth, cpu) in row.iter().enumerate() {
            let gap = usize::from(nth + 1 < row.len());
            let label = format!("{:>3}", cpu.cpu);
            spans.extend(cell(app.theme, &label, &cpu.times, cpu.went_back, width - gap));
            spans.push(Span::raw(" ".repeat(gap)));
        }
        lines.push(Line::from(spans));
    }
    if is_cut {
        let hidden = cpus.len().saturating_sub(rows * across);
        lines
            .push(Line::styled(format!("and {hidden} more CPUs (make the window larger)"), app.theme.warn()));
    }
    lines
}

/// The share of the time that was not idle, stolen or waiting for I/O; `None` if nothing is known.
pub(super) fn busy_pct(times: &CpuTimes) -> Option<f64> {
    // Times come from other machines: their sum may not fit into 64 bits.
    let total: u128 = MODES.iter().map(|mode| u128::from((mode.ns)(times))).sum();
    let is_busy = |mode: &&BarMode| !matches!(mode.letter, 't' | 'w' | '.');
    let busy: u128 = MODES.iter().filter(is_busy).map(|mode| u128::from((mode.ns)(times))).sum();
    (total > 0).then(|| busy as f64 * 100.0 / total as f64)
}

/// Label, bar, and the share of the time that was not idle, stolen or waiting for I/O.
fn cell(theme: Theme, label: &str, times: &CpuTimes, is_odd: bool, columns: usize) -> Vec<Span<'static>> {
    let busy = busy_pct(times).map_or_else(|| "-".to_string(), |busy| percent(busy, false));
    let width = columns.saturating_sub(label.len() + 10);
    let mut spans = vec![Span::styled(format!("{label} ["), Theme::bold())];
    spans.extend(bar(theme, times, width));
    let odd = if is_odd { "!" } else { "%" };
    spans.push(Span::styled(format!("] {busy:>5}{odd}"), Theme::bold()));
    spans
}

/// `columns` letters. The borders between modes are rounded, not the lengths, so the letters always fill the bar.
fn bar(theme: Theme, times: &CpuTimes, columns: usize) -> Vec<Span<'static>> {
    let total: u128 = MODES.iter().map(|mode| u128::from((mode.ns)(times))).sum();
    if total == 0 {
        return vec![Span::styled("?".repeat(columns), Theme::dim())];
    }
    let (mut passed, mut drawn) = (0_u128, 0_usize);
    let mut spans = Vec::with_capacity(MODES.len());
    for mode in &MODES {
        passed += u128::from((mode.ns)(times));
        // Doubled and shifted by half: integer division then rounds to the nearest column.
        let border = usize::try_from((passed * columns as u128 * 2 + total) / (total * 2)).unwrap_or(columns);
        if border > drawn {
            spans.push(Span::styled(mode.letter.to_string().repeat(border - drawn), theme.mode(mode)));
            drawn = border;
        }
    }
    spans
}

pub(super) fn sum(cpus: &[CpuInterval]) -> CpuTimes {
    let mut sum = CpuTimes::default();
    for cpu in cpus {
        sum += &cpu.times;
    }
    sum
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Length {
    /// Names, seconds and percentages.
    Full,
    /// Names and percentages.
    Medium,
    /// Short names and percentages.
    Short,
    /// The short form in one line, without entries that are part of another one.
    Tiny,
}

/// The ledger in at most `max_lines` lines, in the longest form that fits two.
pub(super) fn ledger(app: &App, interval: &Interval, columns: usize, max_lines: usize) -> Vec<Line<'static>> {
    if max_lines == 0 {
        return Vec::new();
    }
    let ledger = &interval.ledger;
    if ledger.capacity_ns <= 0 {
        let part = ("ledger: no data (this source does not report CPU times)".to_string(), Theme::dim());
        return app.theme.wrap(&[part], " ", columns, 1);
    }
    for length in [Length::Full, Length::Medium] {
        let lines = app.theme.wrap(&parts(app, interval, length), " ", columns, usize::MAX);
        if lines.len() <= max_lines.min(2) {
            return lines;
        }
    }
    let length = if max_lines == 1 { Length::Tiny } else { Length::Short };
    app.theme.wrap(&parts(app, interval, length), " ", columns, max_lines.min(3))
}

fn parts(app: &App, interval: &Interval, length: Length) -> Vec<StyledPart> {
    let ledger = &interval.ledger;
    let capacity = seconds(ledger.capacity_ns);
    let mut parts: Vec<StyledPart> = vec![match length {
        Length::Short => (format!("% of {capacity} s:"), Theme::bold()),
        Length::Tiny => ("CPU time %:".into(), Theme::bold()),
        _ => (format!("capacity {capacity} s ="), Theme::bold()),
    }];
    let is_short = matches!(length, Length::Short | Length::Tiny);
    let entries = entries(ledger, Terms::of(interval.source), is_short);
    for (nth, (name, ns)) in entries.into_iter().enumerate() {
        let plus = if nth == 0 || is_short { "" } else { "+ " };
        let Some(ns) = ns else {
            parts.push((format!("{plus}{name}"), Theme::dim()));
            continue;
        };
        let share = percent(ns as f64 * 100.0 / ledger.capacity_ns as f64, false);
        let text = match length {
            Length::Full => format!("{plus}{name} {} s {share}%", seconds(ns)),
            Length::Medium => format!("{plus}{name} {share}%"),
            Length::Short | Length::Tiny => format!("{name} {share}"),
        };
        parts.push((text, style(app, ledger, name)));
    }
    if interval.fields.contains(Fields::SCHED) && length != Length::Tiny {
        let ns = ledger.unknown_ns;
        let share = percent(ns as f64 * 100.0 / ledger.capacity_ns as f64, false);
        parts.push(match length {
            Length::Full => (format!("(of which unknown {} s {share}%)", seconds(ns)), Style::new()),
            Length::Medium => (format!("(of which unknown {share}%)"), Style::new()),
            Length::Short | Length::Tiny => (format!("(unk {share})"), Style::new()),
        });
    }
    parts
}

/// The lines of the ledger. A line without a value is included in another one.
fn entries(ledger: &Ledger, terms: Terms, is_short: bool) -> Vec<(&'static str, Option<i64>)> {
    let name = |long, short| if is_short { short } else { long };
    let mut entries = vec![
        (name("threads", "thr"), Some(ledger.threads_ns)),
        (name("exited", "exit"), Some(ledger.exited_ns)),
    ];
    if ledger.irq_in_run_time {
        let label = match terms {
            Terms::WINDOWS => name("(ISR and DPC in threads)", "(ISR in thr)"),
            _ => name("(irq and softirq in threads)", "(irq in thr)"),
        };
        entries.push((label, None));
    } else {
        entries.push((name(terms.irq.label, terms.irq.short), Some(ledger.irq_ns)));
        entries.push((name(terms.softirq.label, terms.softirq.short), Some(ledger.softirq_ns)));
    }
    entries.push(("steal", Some(ledger.steal_ns)));
    entries.push(("idle", Some(ledger.idle_ns)));
    entries.push((name("unattributed", "unattr"), Some(ledger.unattributed_ns())));
    entries
}

/// A warning if more than 1 % of the capacity is unattributed.
fn style(app: &App, ledger: &Ledger, name: &str) -> Style {
    if name.starts_with("unattr") && ledger.unattributed_ratio().abs() > 0.01 {
        app.theme.warn()
    } else {
        Style::new()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(times: &CpuTimes, columns: usize) -> String {
        let theme = Theme { color: false, ascii: true };
        bar(theme, times, columns).iter().map(|span| span.content.clone().into_owned()).collect()
    }

    #[test]
    fn a_bar_reads_without_color() {
        let times = CpuTimes { user_ns: 30, system_ns: 20, irq_ns: 10, idle_ns: 40, ..CpuTimes::default() };
        assert_eq!(text(&times, 10), "uuussi....");
        assert_eq!(text(&CpuTimes::default(), 4), "????");
    }

    proptest! {
        #[test]
        fn a_bar_is_always_full(modes in any::<[u32; 10]>(), columns in 0_usize..200) {
            let times = CpuTimes::from_array(modes.map(u64::from));
            prop_assert_eq!(text(&times, columns).len(), columns);
        }
    }
}
