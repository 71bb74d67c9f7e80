//! `cpumon audit`: the audit log of a receiver, read from its state directory.

use std::io::{ErrorKind, Write};
use std::path::Path;

use anyhow::Context;
use cpumon_files::AuditLog;
use cpumon_model::escape;
use serde_json::Value;

use crate::cli::{AuditArgs, Format};
use crate::exit::Outcome;
use crate::paths::state_dir;
use crate::records::Records;
use crate::when;

/// An entry, as it is shown.
struct Entry {
    time_ns: i64,
    event: String,
    by: String,
    subject: String,
    detail: String,
}

impl Entry {
    /// `None`: the line is no entry.
    fn parse(line: &str) -> Option<Self> {
        let entry: Value = serde_json::from_str(line).ok()?;
        let text = |name: &str| entry[name].as_str().map(str::to_owned);
        let detail = match (text("detail")?, entry["left_out"].as_u64()) {
            (detail, Some(count)) => format!("{detail} ({count} before it were left out)"),
            (detail, None) => detail,
        };
        Some(Self {
            time_ns: entry["time_ns"].as_i64()?,
            event: text("event")?,
            by: text("by")?,
            subject: text("subject")?,
            detail,
        })
    }
}

/// `cpumon audit`.
pub fn audit(args: &AuditArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let dir = state_dir(args.place.state.as_deref(), args.place.store.as_deref());
    let (mut entries, damaged) = read(&dir)?;
    let since_ns = args.since.map_or(i64::MIN, |since| since.wall_ns);
    entries.retain(|entry| entry.time_ns >= since_ns);
    entries.sort_by_key(|entry| entry.time_ns);
    let is_table = args.format.get() == Format::Table;
    let mut records = Records::new(&["time", "event", "by", "subject", "detail"]);
    for entry in &entries {
        // Programs get the time in ns and the exact text, which JSON escapes.
        let shown = |text: &str| if is_table { escape(text).to_string() } else { text.to_owned() };
        let time = if is_table { when::show(entry.time_ns) } else { entry.time_ns.to_string() };
        let Entry { event, by, subject, detail, .. } = entry;
        records.push([time, shown(event), shown(by), shown(subject), shown(detail)]);
    }
    records.write(args.format.get(), out).context("cannot write the audit log")?;
    if damaged > 0 {
        eprintln!("cpumon: {damaged} lines of the audit log in {} cannot be read", dir.display());
        return Ok(Outcome::DataMissing);
    }
    Ok(Outcome::Done)
}

/// All entries in a state directory, and how many lines are none.
fn read(dir: &Path) -> anyhow::Result<(Vec<Entry>, usize)> {
    // A directory that cannot be entered is no empty log.
    std::fs::metadata(dir).with_context(|| {
        format!("cannot read {}; --state DIR or --store FILE names another receiver", dir.display())
    })?;
    let (mut entries, mut damaged) = (Vec::new(), 0);
    for path in AuditLog::in_dir(dir).files() {
        let bytes = match std::fs::read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            read => read.with_context(|| format!("cannot read {}", path.display()))?,
        };
        let text = String::from_utf8_lossy(&bytes);
        let lines = text.lines().count();
        let before = entries.len();
        entries.extend(text.lines().filter_map(Entry::parse));
        damaged += lines - (entries.len() - before);
    }
    Ok((entries, damaged))
}

#[cfg(test)]
mod tests {
    use cpumon_files::AuditEvent;

    use super::*;
    use crate::cli::{FormatArgs, StateArgs};

    fn shown(dir: &Path, format: Format, since_ns: Option<i64>) -> (String, Outcome) {
        let args = AuditArgs {
            since: since_ns.map(|wall_ns| when::When { wall_ns }),
            format: FormatArgs { format: Some(format), ..FormatArgs::default() },
            place: StateArgs { state: Some(dir.to_owned()), store: None },
        };
        let mut out = Vec::new();
        let outcome = audit(&args, &mut out).unwrap();
        (String::from_utf8(out).unwrap(), outcome)
    }

    #[test]
    fn entries_of_both_files_are_listed_by_time_and_are_safe_to_print() {
        let dir = tempfile::tempdir().unwrap();
        let log = AuditLog::in_dir(dir.path());
        log.note(AuditEvent::Refused, "10.0.0.66", "", "first");
        log.note(AuditEvent::Enrolled, "10.0.0.7", "evil\x1b[2J", "second");
        let (table, outcome) = shown(dir.path(), Format::Table, None);
        let lines: Vec<&str> = table.lines().collect();
        assert!(lines[1].contains("refused") && lines[2].contains("evil\\x1b[2J"), "{table}");
        assert_eq!(outcome, Outcome::Done);
        let (lines, _) = shown(dir.path(), Format::Jsonl, None);
        let last: Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
        assert_eq!((&last["event"], &last["subject"]), (&"enrolled".into(), &"evil\x1b[2J".into()));
        assert_eq!(shown(dir.path(), Format::Jsonl, Some(i64::MAX)).0, "");
        std::fs::write(&log.files()[1], "no entry\n").unwrap();
        assert_eq!(shown(dir.path(), Format::Jsonl, None).1, Outcome::DataMissing);
    }
}
