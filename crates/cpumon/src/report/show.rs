//! The head and the notes of a report for people.

use std::borrow::Cow;
use std::io::{self, Write};

use cpumon_model::escape;
use cpumon_query::report::{Report, ReportSort, RowKind};
use cpumon_query::text::{decimal, name_text, seconds};

use crate::table::paragraph;
use crate::when;

/// Hosts of which a line is shown each.
const SHOWN_HOSTS: usize = 4;

pub(super) fn head(report: &Report, columns: usize, out: &mut dyn Write) -> io::Result<()> {
    for part in report.hosts.iter().take(SHOWN_HOSTS) {
        let text = format!(
            "{}: {} to {}, {} s measured, {} s of CPU time",
            name_text(&part.name),
            when::show(part.range.since_ns),
            when::show(part.range.until_ns),
            decimal(part.covered_ns as f64 / 1e9, 1),
            seconds(part.used_ns)
        );
        paragraph(&text, columns, out)?;
    }
    let more = report.hosts.len().saturating_sub(SHOWN_HOSTS);
    if more > 0 {
        let all = seconds(report.used_ns);
        paragraph(&format!("and {more} more hosts; {all} s of CPU time on all hosts"), columns, out)?;
    }
    if let Some(before) = report.before {
        let text =
            format!("compared with {} to {}", when::show(before.since_ns), when::show(before.until_ns));
        paragraph(&text, columns, out)?;
    }
    writeln!(out)
}

pub(super) fn notes(report: &Report, columns: usize, out: &mut dyn Write) -> io::Result<()> {
    let mut notes: Vec<Cow<'_, str>> = Vec::new();
    let has_groups = report.rows.iter().any(|row| row.kind.is_group());
    if let Some(text) = report.query.filter.text.as_deref().filter(|_| !has_groups) {
        notes.push(format!("Nothing in this range matches {}.", escape(text)).into());
    }
    if report.rows.iter().any(|row| row.before.is_some_and(|before| before.duration_ns.is_none())) {
        notes.push("No data for the range to compare with.".into());
    }
    if report.query.sort == ReportSort::Ready || report.query.sort == ReportSort::Blocked {
        notes.push("READY, BLOCKED: threads ready or blocked on average.".into());
    }
    if report.rows.iter().any(|row| row.peak.is_some_and(|peak| !peak.is_exact)) {
        notes.push("PEAK %: >= marks a lower bound, where only sums of many processes are left.".into());
    }
    if report.rows.iter().any(|row| row.kind == RowKind::Unattributed) {
        notes.push("(not attributed): CPU time in the ledger that belongs to no row.".into());
    }
    if notes.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    notes.iter().try_for_each(|note| paragraph(note, columns, out))
}
