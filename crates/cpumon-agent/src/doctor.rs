//! What a machine lets cpumon measure, in words. In: a [`Diagnosis`]. Out: text that fits the terminal. Why in the agent: a device
//! with nothing but the slim agent says the same as the desk.

use std::borrow::Cow;
use std::io::Write;

use cpumon_collect::{Check, CheckState, Diagnosis, Topic};
use cpumon_model::escape;
use unicode_width::UnicodeWidthStr;

/// Narrower than this nothing reads well; wider, lines are too long for the eye.
const COLUMNS: std::ops::RangeInclusive<usize> = 40..=120;
/// From this width on, what was found and what it gives stand side by side.
const TWO_TEXTS_FROM: usize = 100;
/// From this width on, the name has a column of its own.
const NAME_COLUMN_FROM: usize = 64;

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

/// Writes every check by topic: whether it is there, why not, what it gives and how to get it; then the conclusion.
pub fn write_text(diagnosis: &Diagnosis, columns: usize, out: &mut dyn Write) -> std::io::Result<()> {
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

#[cfg(test)]
#[path = "doctor_tests.rs"]
mod tests;
