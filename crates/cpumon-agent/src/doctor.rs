//! The report of `doctor`, as text that fits the terminal: what cpumon can measure on a machine. It is in the agent so
//! that the slim binary can print it too.

use std::borrow::Cow;
use std::io::Write;

use cpumon_collect::{Check, CheckState, Diagnosis, Topic};
use cpumon_model::escape;
use unicode_width::UnicodeWidthStr;

use crate::platform::EVERYTHING_WORKS;

/// The report uses at least and at most this many columns.
const COLUMNS: std::ops::RangeInclusive<usize> = 40..=120;
/// From this width on, finding and use are printed side by side.
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

/// Writes the conclusion, and the command that gets the missing data.
pub fn write_summary(diagnosis: &Diagnosis, columns: usize, out: &mut dyn Write) -> std::io::Result<()> {
    let columns = columns.clamp(*COLUMNS.start(), *COLUMNS.end());
    wrap(&conclusion(diagnosis), columns).iter().try_for_each(|line| writeln!(out, "{line}"))?;
    for help in remedies(diagnosis) {
        writeln!(out)?;
        let help = escape(help).to_string();
        if let Some((way, command)) = help.split_once(": setcap ") {
            // Not wrapped: a command must stay on one line to be copied.
            writeln!(out, "To get it, {way}:\n    setcap {}", command.replacen("; ", "\n", 1))?;
        } else {
            let text = format!("To get it: {help}");
            wrap(&text, columns).iter().try_for_each(|line| writeln!(out, "{line}"))?;
        }
    }
    for (state, label) in [(CheckState::Missing, "Missing"), (CheckState::Unknown, "Unknown")] {
        let checks = diagnosis.checks.iter().filter(|check| check.state == state);
        let names: Vec<String> = checks.map(|check| escape(&check.name).to_string()).collect();
        if !names.is_empty() {
            let text = format!("{label}: {}", names.join(", "));
            writeln!(out)?;
            wrap(&text, columns).iter().try_for_each(|line| writeln!(out, "{line}"))?;
        }
    }
    let count = diagnosis.checks.len();
    let more =
        format!("`doctor -v` shows all {count} checks: what was found, what each gives, how to get it.");
    writeln!(out)?;
    wrap(&more, columns).iter().try_for_each(|line| writeln!(out, "{line}"))
}

/// The remedies, each once. Of several grants of capabilities the largest is enough.
fn remedies(diagnosis: &Diagnosis) -> Vec<&str> {
    let missing = diagnosis.checks.iter().filter(|check| check.state == CheckState::Missing);
    // The probes only say that the rights are missing, which have a check of their own.
    let mut helps: Vec<&str> = missing
        .map(|check| check.help.as_str())
        .filter(|help| !help.is_empty() && !help.ends_with("see below"))
        .collect();
    helps.sort_by_key(|help| std::cmp::Reverse(if is_grant(help) { help.len() } else { 0 }));
    let mut seen: Vec<&str> = Vec::new();
    helps.retain(|help| {
        let is_new = !seen.iter().any(|known| known == help || is_grant(known) && is_grant(help));
        seen.push(help);
        is_new
    });
    helps
}

fn is_grant(help: &str) -> bool {
    help.contains(": setcap ")
}

fn conclusion(diagnosis: &Diagnosis) -> String {
    let mut text = if diagnosis.is_complete() {
        EVERYTHING_WORKS.to_owned()
    } else {
        let (missing, unknown) = (diagnosis.count(CheckState::Missing), diagnosis.count(CheckState::Unknown));
        format!("{missing} missing, {unknown} unknown. The rest works; each figure names its source.")
    };
    for check in diagnosis.checks.iter().filter(|check| !check.caveat.is_empty()) {
        text.push(' ');
        text.push_str(&escape(&check.caveat).to_string());
    }
    text
}

/// Writes the summary, and every check by topic: its state, the reason, its use and how to get it.
pub fn write_details(diagnosis: &Diagnosis, columns: usize, out: &mut dyn Write) -> std::io::Result<()> {
    let columns = columns.clamp(*COLUMNS.start(), *COLUMNS.end());
    wrap(&conclusion(diagnosis), columns).iter().try_for_each(|line| writeln!(out, "{line}"))?;
    writeln!(out)?;
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
    Ok(())
}

/// Writes one check: mark, name, finding, use and remedy.
fn write_check(check: &Check, columns: usize, name_width: usize, out: &mut dyn Write) -> std::io::Result<()> {
    const MARK_WIDTH: usize = 5;
    let name = escape(&check.name).to_string();
    let lead = format!(" {}  ", mark(check.state));
    let indent = if columns >= NAME_COLUMN_FROM { MARK_WIDTH + name_width + 2 } else { MARK_WIDTH };
    let width = columns - indent;
    let (finding, gives) = (escape(&check.finding).to_string(), escape(&check.gives).to_string());
    let mut lines = if columns >= TWO_TEXTS_FROM {
        side_by_side(&finding, &gives, width)
    } else {
        let mut lines = wrap(&finding, width);
        lines.extend(wrap(&format!("gives: {gives}"), width));
        lines
    };
    if !check.help.is_empty() {
        lines.extend(wrap(&format!("to get it: {}", escape(&check.help)), width));
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

fn side_by_side(left: &str, right: &str, width: usize) -> Vec<String> {
    const GAP: usize = 2;
    let left_width = (width - GAP) / 2;
    let (left, right) = (wrap(left, left_width), wrap(right, width - GAP - left_width));
    let line = |at: usize| {
        let left = left.get(at).map_or("", String::as_str);
        let right = right.get(at).map_or("", String::as_str);
        format!("{left}{}{right}", " ".repeat(left_width + GAP - left.width())).trim_end().to_owned()
    };
    (0..left.len().max(right.len())).map(line).collect()
}

/// Splits a text into lines of at most `width` columns.
fn wrap(text: &str, width: usize) -> Vec<String> {
    textwrap::wrap(text, width).into_iter().map(Cow::into_owned).collect()
}

#[cfg(test)]
#[path = "doctor_tests.rs"]
mod tests;
