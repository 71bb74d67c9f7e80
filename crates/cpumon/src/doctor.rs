//! `cpumon doctor`. In: what this machine lets cpumon measure. Out: text that fits the terminal, or JSON. Exit status 3
//! where something is missing.

use std::borrow::Cow;
use std::io::Write;

use anyhow::Context;
use cpumon_collect::{Check, CheckState, Diagnosis, DoctorOptions, Topic, diagnose};
use cpumon_model::escape;
use serde::Serialize;
use unicode_width::UnicodeWidthStr;

use crate::cli::DoctorArgs;
use crate::exit::Outcome;

/// Narrower than this nothing reads well; wider, lines are too long for the eye.
const COLUMNS: std::ops::RangeInclusive<usize> = 40..=120;
/// From this width on, what was found and what it gives stand side by side.
const TWO_TEXTS_FROM: usize = 100;
/// From this width on, the name has a column of its own.
const NAME_COLUMN_FROM: usize = 64;

/// `cpumon doctor`.
pub fn doctor(args: &DoctorArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let options = DoctorOptions {
        proc_root: args.proc_root.clone(),
        sys_root: args.sys_root.clone(),
        load: !args.no_load,
        ..DoctorOptions::default()
    };
    let diagnosis = diagnose(&options);
    if args.json {
        let text = serde_json::to_string_pretty(&Report::from(&diagnosis))?;
        writeln!(out, "{text}").context("cannot write JSON")?;
    } else {
        write_text(&diagnosis, terminal_columns(), out).context("cannot write the findings")?;
    }
    Ok(if diagnosis.is_complete() { Outcome::Done } else { Outcome::DataMissing })
}

/// The JSON form.
#[derive(Serialize)]
struct Report<'a> {
    /// Nothing is missing.
    is_complete: bool,
    checks: Vec<ReportCheck<'a>>,
}

#[derive(Serialize)]
struct ReportCheck<'a> {
    topic: &'static str,
    name: &'a str,
    state: &'static str,
    finding: &'a str,
    gives: &'a str,
    help: &'a str,
}

impl<'a> From<&'a Diagnosis> for Report<'a> {
    fn from(diagnosis: &'a Diagnosis) -> Self {
        let check = |check: &'a Check| ReportCheck {
            topic: check.topic.name(),
            name: &check.name,
            state: check.state.name(),
            finding: &check.finding,
            gives: &check.gives,
            help: &check.help,
        };
        Self { is_complete: diagnosis.is_complete(), checks: diagnosis.checks.iter().map(check).collect() }
    }
}

fn mark(state: CheckState) -> &'static str {
    match state {
        CheckState::Available => "ok",
        CheckState::Missing => "NO",
        CheckState::Unknown => "??",
        CheckState::Note => "--",
    }
}

fn heading(topic: Topic) -> &'static str {
    match topic {
        Topic::Probes => "What cpumon measures with",
        Topic::Rights => "What this process may do",
        Topic::Kernel => "What the kernel can do",
        Topic::Tracepoints => "The kernel's events",
        Topic::Surroundings => "Where the kernel runs",
    }
}

fn write_text(diagnosis: &Diagnosis, columns: usize, out: &mut dyn Write) -> std::io::Result<()> {
    let columns = columns.clamp(*COLUMNS.start(), *COLUMNS.end());
    let name_width = diagnosis.checks.iter().map(|check| check.name.width()).max().unwrap_or(0);
    let mut topic = None;
    for check in &diagnosis.checks {
        if topic != Some(check.topic) {
            let gap = if topic.is_some() { "\n" } else { "" };
            writeln!(out, "{gap}{}", heading(check.topic))?;
            topic = Some(check.topic);
        }
        write_check(check, columns, name_width, out)?;
    }
    let (missing, unknown) = (diagnosis.count(CheckState::Missing), diagnosis.count(CheckState::Unknown));
    let conclusion = if diagnosis.is_complete() {
        "Nothing is missing: every nanosecond can be measured here.".to_owned()
    } else {
        format!(
            "{missing} missing, {unknown} unknown. What is left works; the figures say which source they are from."
        )
    };
    writeln!(out)?;
    wrap(&conclusion, columns).iter().try_for_each(|line| writeln!(out, "{line}"))
}

/// One check: its mark and name, what was found, what it gives, what helps.
fn write_check(check: &Check, columns: usize, name_width: usize, out: &mut dyn Write) -> std::io::Result<()> {
    const MARK_WIDTH: usize = 5;
    let name = escape(&check.name).to_string();
    let lead = format!(" {}  ", mark(check.state));
    let indent = if columns >= NAME_COLUMN_FROM { MARK_WIDTH + name_width + 2 } else { MARK_WIDTH };
    let room = columns - indent;
    let (finding, gives) = (escape(&check.finding).to_string(), escape(&check.gives).to_string());
    let mut lines = if columns >= TWO_TEXTS_FROM {
        side_by_side(&finding, &gives, room)
    } else {
        let mut lines = wrap(&finding, room);
        lines.extend(wrap(&format!("gives: {gives}"), room));
        lines
    };
    if !check.help.is_empty() {
        lines.extend(wrap(&format!("to get it: {}", escape(&check.help)), room));
    }
    let pad = " ".repeat(indent);
    if indent == MARK_WIDTH {
        writeln!(out, "{lead}{name}")?;
    } else {
        let first = if lines.is_empty() { String::new() } else { lines.remove(0) };
        let gap = " ".repeat(indent - MARK_WIDTH - name.width());
        writeln!(out, "{}", format!("{lead}{name}{gap}{first}").trim_end())?;
    }
    lines.iter().try_for_each(|line| writeln!(out, "{pad}{line}"))
}

fn side_by_side(left: &str, right: &str, room: usize) -> Vec<String> {
    const GAP: usize = 2;
    let width = (room - GAP) / 2;
    let (left, right) = (wrap(left, width), wrap(right, room - GAP - width));
    let line = |at: usize| {
        let left = left.get(at).map_or("", String::as_str);
        let right = right.get(at).map_or("", String::as_str);
        format!("{left}{}{right}", " ".repeat(width + GAP - left.width())).trim_end().to_owned()
    };
    (0..left.len().max(right.len())).map(line).collect()
}

/// Lines no longer than `width`.
fn wrap(text: &str, width: usize) -> Vec<String> {
    textwrap::wrap(text, width).into_iter().map(Cow::into_owned).collect()
}

/// Width of the terminal; of `COLUMNS` where output goes elsewhere, else what most terminals have.
pub(crate) fn terminal_columns() -> usize {
    let named = || std::env::var("COLUMNS").ok()?.parse().ok();
    terminal_size::terminal_size().map(|(width, _)| width.0.into()).or_else(named).unwrap_or(80)
}

#[cfg(test)]
#[path = "doctor_tests.rs"]
mod tests;
