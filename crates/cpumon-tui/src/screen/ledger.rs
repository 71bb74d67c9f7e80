//! The ledger on screen: `capacity = threads + exited + … + unattributed`, in the longest form that fits. It shows whether the
//! percentages below account for all CPU time.

use cpumon_model::{Fields, Interval, Ledger, Terms};
use ratatui::style::Style;
use ratatui::text::Line;

use crate::app::App;
use crate::screen::parts::{Part, wrap};
use crate::text::{percent, seconds};
use crate::theme::Theme;

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Length {
    /// Names, seconds and percentages.
    Full,
    /// Names and percentages.
    Medium,
    /// Short names and percentages.
    Short,
    /// The same in one line, without what is a part of another entry.
    Tiny,
}

/// The ledger in at most `max_lines` lines, in the longest form that needs no more than two of them.
pub(crate) fn lines(app: &App, interval: &Interval, columns: usize, max_lines: usize) -> Vec<Line<'static>> {
    if max_lines == 0 {
        return Vec::new();
    }
    let ledger = &interval.ledger;
    if ledger.capacity_ns <= 0 {
        let part = ("ledger: no data (this source does not report CPU times)".to_string(), Theme::dim());
        return wrap(&[part], " ", columns, 1, app);
    }
    for length in [Length::Full, Length::Medium] {
        let lines = wrap(&parts(app, interval, length), " ", columns, usize::MAX, app);
        if lines.len() <= max_lines.min(2) {
            return lines;
        }
    }
    let length = if max_lines == 1 { Length::Tiny } else { Length::Short };
    wrap(&parts(app, interval, length), " ", columns, max_lines.min(3), app)
}

fn parts(app: &App, interval: &Interval, length: Length) -> Vec<Part> {
    let ledger = &interval.ledger;
    let capacity = seconds(ledger.capacity_ns);
    let mut parts: Vec<Part> = vec![match length {
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
