//! Access control: `cpumon login-token` for people and programs, `cpumon key` for the group keys that encrypt datagrams,
//! and `cpumon audit` for the audit log. They use the receiver's state directory and work beside a running receiver,
//! which reads the file of its keys once a second.

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use cpumon_files::{AuditEvent, AuditLog, this_user};
use cpumon_link::group::{GroupError, add_key, read_keys, retire_key};
use cpumon_model::escape;
use cpumon_web::TokenFile;
use serde::Deserialize;

use crate::cli::{AuditArgs, KeyAction, KeyArgs, LoginTokenAction, LoginTokenArgs, OutputFormat};
use crate::exit::{Outcome, say};
use crate::output::write_texts;
use crate::paths::{key_file, own_state_dir, state_dir, store_for_writing};
use crate::when;

/// Path of a file beside the default store.
pub(crate) fn in_state_directory(name: &str) -> PathBuf {
    store_for_writing(None).with_file_name(name)
}

pub(crate) fn tokens(given: Option<&PathBuf>) -> TokenFile {
    TokenFile::new(given.cloned().unwrap_or_else(|| in_state_directory("login-tokens")))
}

pub fn login_token(args: &LoginTokenArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let file = tokens(args.login_tokens.as_ref());
    // Beside the default store, as the tokens are: a receiver with another store reads these tokens too.
    let audit = AuditLog::in_dir(&state_dir(None, None));
    match &args.action {
        LoginTokenAction::Add { label } => {
            let token = file.add(label)?;
            audit.note(AuditEvent::LoginTokenMade, &this_user(), label, "");
            writeln!(out, "{token}").context("cannot write to standard output")?;
        }
        LoginTokenAction::Revoke { label } => {
            if !file.revoke(label)? {
                bail!("{} has no login token {:?}", file.path().display(), escape(label).to_string());
            }
            audit.note(AuditEvent::LoginTokenRevoked, &this_user(), label, "");
        }
        LoginTokenAction::List(format) => {
            let listed = file.list()?;
            if listed.is_empty() {
                say(&format!(
                    "{} has no login token; `cpumon login-token add NAME` makes one",
                    file.path().display()
                ));
            }
            let rows = listed.into_iter().map(|entry| {
                let created_ns = i64::try_from(entry.created_s).unwrap_or(0).saturating_mul(1_000_000_000);
                [escape(&entry.label).to_string(), entry.id, when::show(created_ns)]
            });
            return write_texts(["label", "id", "created"], rows, format.get(), out);
        }
    }
    Ok(Outcome::Done)
}

pub fn key(args: &KeyArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let dir = own_state_dir(args.state.as_deref(), args.store.as_deref())?;
    let path = key_file(args.group_key.as_deref(), &dir);
    let (shown, audit) = (path.display(), AuditLog::in_dir(&dir));
    match &args.action {
        KeyAction::New => {
            let key = add_key(&path)?;
            audit.note(AuditEvent::GroupKeyMade, &this_user(), &key.id().to_string(), "");
            writeln!(
                out,
                "key {} is in {shown}. Copy the file to each device with mode 0600 and start there: cpumon-agent --group-key FILE\n\
                 A receiver with a group key refuses datagrams that are not encrypted, unless it runs with --allow-plain or --allow-v1.",
                key.id()
            )
        }
        KeyAction::List(format) => {
            let keys = match read_keys(&path) {
                // As with login tokens, no file is an empty list.
                Err(nothing @ (GroupError::Missing(_) | GroupError::Empty(_))) => {
                    say(&nothing.to_string());
                    Vec::new()
                }
                keys => keys?,
            };
            let rows = keys.into_iter().enumerate().map(|(at, key)| {
                let used = if at == 0 { "encrypts and decrypts" } else { "decrypts" };
                [key.id().to_string(), used.to_owned()]
            });
            return write_texts(["key", "use"], rows, format.get(), out);
        }
        KeyAction::Retire { id } => {
            let id = retire_key(&path, id)?;
            audit.note(AuditEvent::GroupKeyRetired, &this_user(), &id.to_string(), "");
            writeln!(out, "key {id} is retired: a running receiver refuses datagrams that are encrypted with it within a second")
        }
    }
    .context("cannot write to standard output")?;
    Ok(Outcome::Done)
}

#[derive(Deserialize)]
struct AuditEntry {
    time_ns: i64,
    event: String,
    by: String,
    subject: String,
    detail: String,
    /// Entries like it that were not written before it.
    #[serde(default)]
    left_out: u64,
}

pub fn audit(args: &AuditArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let dir = state_dir(args.place.state.as_deref(), args.place.store.as_deref());
    let (mut entries, damaged) = read_log(&dir)?;
    let since_ns = args.since.map_or(i64::MIN, |since| since.wall_ns);
    entries.retain(|entry| entry.time_ns >= since_ns);
    entries.sort_by_key(|entry| entry.time_ns);
    if entries.is_empty() {
        let of_time = if args.since.is_some() { " of that time" } else { "" };
        say(&format!("the audit log in {} has no entry{of_time}", dir.display()));
    }
    let is_table = args.format.get() == OutputFormat::Table;
    let rows = entries.iter().map(|entry| {
        // Programs get the time in ns and the exact text, which JSON escapes.
        let shown = |text: &str| if is_table { escape(text).to_string() } else { text.to_owned() };
        let time = if is_table { when::show(entry.time_ns) } else { entry.time_ns.to_string() };
        let AuditEntry { event, by, subject, detail, left_out, .. } = entry;
        let more =
            if *left_out > 0 { format!(" ({left_out} before it were left out)") } else { String::new() };
        [time, shown(event), shown(by), shown(subject), shown(detail) + &more]
    });
    write_texts(["time", "event", "by", "subject", "detail"], rows, args.format.get(), out)?;
    if damaged > 0 {
        say(&format!("{damaged} lines of the audit log in {} cannot be read", dir.display()));
        return Ok(Outcome::DataMissing);
    }
    Ok(Outcome::Done)
}

/// All entries in a state directory, and how many lines are none.
fn read_log(dir: &Path) -> anyhow::Result<(Vec<AuditEntry>, usize)> {
    // A directory that cannot be entered is no empty log.
    fs::metadata(dir).with_context(|| {
        format!("cannot read {}; --state DIR or --store FILE names another receiver", dir.display())
    })?;
    let (mut entries, mut damaged) = (Vec::new(), 0);
    for path in AuditLog::in_dir(dir).files() {
        let bytes = match fs::read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            read => read.with_context(|| format!("cannot read {}", path.display()))?,
        };
        let text = String::from_utf8_lossy(&bytes);
        let lines = text.lines().count();
        let before = entries.len();
        entries.extend(text.lines().filter_map(|line| serde_json::from_str::<AuditEntry>(line).ok()));
        damaged += lines - (entries.len() - before);
    }
    Ok((entries, damaged))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::cli::{FormatArgs, StateArgs};

    #[test]
    fn keys_are_made_listed_and_retired_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let run = |action: KeyAction| {
            let (state, store) = (Some(dir.path().to_owned()), None);
            let mut output = Vec::new();
            let done = key(&KeyArgs { action, group_key: None, state, store }, &mut output);
            done.map(|_| String::from_utf8(output).unwrap()).map_err(|error| error.to_string())
        };
        let list = || run(KeyAction::List(FormatArgs::default()));
        assert_eq!(list().unwrap().lines().count(), 1, "only the title");
        let first = run(KeyAction::New).unwrap();
        assert!(first.contains("group.keys") && first.contains("--group-key"));
        let first = first.split(' ').nth(1).unwrap().to_owned();
        run(KeyAction::New).unwrap();
        let listed = list().unwrap();
        assert_eq!(listed.lines().count(), 3);
        assert!(listed.lines().nth(2).unwrap().starts_with(&first), "{listed}");
        assert!(!listed.contains("cpumon-key1"), "a list shows no secret");
        run(KeyAction::Retire { id: first.clone() }).unwrap();
        let listed = list().unwrap();
        assert!(!listed.contains(&first));
        assert!(run(KeyAction::Retire { id: first }).is_err());
        let second = listed.lines().nth(1).unwrap().split(' ').next().unwrap().to_owned();
        run(KeyAction::Retire { id: second }).unwrap();
        assert_eq!(list().unwrap().lines().count(), 1, "only the title");
    }

    fn shown(dir: &Path, format: OutputFormat, since_ns: Option<i64>) -> (String, Outcome) {
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
        let (table, outcome) = shown(dir.path(), OutputFormat::Table, None);
        let lines: Vec<&str> = table.lines().collect();
        assert!(lines[1].contains("refused") && lines[2].contains("evil\\x1b[2J"), "{table}");
        assert_eq!(outcome, Outcome::Done);
        let (lines, _) = shown(dir.path(), OutputFormat::Jsonl, None);
        let last: Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
        assert_eq!((&last["event"], &last["subject"]), (&"enrolled".into(), &"evil\x1b[2J".into()));
        assert_eq!(shown(dir.path(), OutputFormat::Jsonl, Some(i64::MAX)).0, "");
        fs::write(&log.files()[1], "no entry\n").unwrap();
        assert_eq!(shown(dir.path(), OutputFormat::Jsonl, None).1, Outcome::DataMissing);
    }
}
