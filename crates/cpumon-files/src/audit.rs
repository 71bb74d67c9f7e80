//! The audit log of a receiver: enrolments, refusals, logins and exports. JSON lines in its state directory, appended by
//! every program that acts there, and bounded: a full file becomes `.1`, and the `.1` before it is deleted. Entries that
//! others can cause at will have files of their own.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::lock::{LockError, LockFile};
use crate::open_for_owner;
use crate::platform::{Owner, create_dir_for, has_other_names};

/// Largest file, bytes. With the file before it that holds about 40,000 entries.
const MAX_FILE_BYTES: u64 = 4 << 20;
/// Longest text of an entry, characters: names come from other machines.
const MAX_CHARS: usize = 200;
const DONE: &str = "audit.jsonl";
/// Refusals have a file of their own: strangers who are refused repeatedly must not push out the rest.
const REFUSED: &str = "audit-refused.jsonl";
/// Exports and requests for traces have one, too: anyone who may use the API can cause any number.
const EXPORTED: &str = "audit-exports.jsonl";
/// Refusals that are written within one [`WITHIN`], and exports; the rest is counted.
const MAX_WITHIN: usize = 60;
const WITHIN: Duration = Duration::from_mins(1);

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum AuditEvent {
    TokenMade,
    Enrolled,
    RequestAccepted,
    RequestRejected,
    /// A host was revoked.
    Revoked,
    LoginTokenMade,
    LoginTokenRevoked,
    /// A person or a program logged in.
    LoggedIn,
    GroupKeyMade,
    GroupKeyRetired,
    /// A host was removed from a store, with all of its data.
    HostForgotten,
    TraceAsked,
    Exported,
    /// A device, a login or a request was refused.
    Refused,
}

impl AuditEvent {
    pub fn name(self) -> &'static str {
        match self {
            Self::TokenMade => "token made",
            Self::Enrolled => "enrolled",
            Self::RequestAccepted => "request accepted",
            Self::RequestRejected => "request rejected",
            Self::Revoked => "revoked",
            Self::LoginTokenMade => "login token made",
            Self::LoginTokenRevoked => "login token revoked",
            Self::LoggedIn => "logged in",
            Self::GroupKeyMade => "group key made",
            Self::GroupKeyRetired => "group key retired",
            Self::HostForgotten => "host forgotten",
            Self::TraceAsked => "trace asked",
            Self::Exported => "exported",
            Self::Refused => "refused",
        }
    }
}

#[derive(Debug)]
pub struct AuditLog {
    dir: PathBuf,
    refusals: Mutex<Limited>,
    exports: Mutex<Limited>,
    has_failed: AtomicBool,
}

/// Bounds the entries of a kind that are written.
#[derive(Debug, Default)]
struct Limited {
    since: Option<Instant>,
    written: Vec<String>,
    left_out: u64,
}

impl Limited {
    /// How many were left out before this one; `None`: this one is left out too, because there were too many, or as a repeat.
    fn admit(&mut self, now: Instant, entry: String, may_repeat: bool) -> Option<u64> {
        if self.since.is_none_or(|since| now.duration_since(since) >= WITHIN) {
            self.since = Some(now);
            self.written.clear();
        }
        if self.written.len() >= MAX_WITHIN || (!may_repeat && self.written.contains(&entry)) {
            self.left_out += 1;
            return None;
        }
        self.written.push(entry);
        Some(std::mem::take(&mut self.left_out))
    }
}

impl AuditLog {
    /// The log in a state directory, which is made with the first entry.
    pub fn in_dir(dir: &Path) -> Self {
        Self {
            dir: dir.to_owned(),
            refusals: Mutex::default(),
            exports: Mutex::default(),
            has_failed: AtomicBool::new(false),
        }
    }

    /// Adds an entry: `by` is the actor (a user of this machine or an address), `subject` the host, token or data. A log
    /// that cannot be written is reported once; the action is carried out all the same.
    pub fn note(&self, event: AuditEvent, by: &str, subject: &str, detail: &str) {
        let entry = entry_of(event, by, subject, detail);
        let (name, limited) = match event {
            AuditEvent::Refused => (REFUSED, Some(&self.refusals)),
            AuditEvent::Exported | AuditEvent::TraceAsked => (EXPORTED, Some(&self.exports)),
            _ => (DONE, None),
        };
        let left_out = match limited {
            Some(limited) => {
                let mut limited = limited.lock().unwrap_or_else(PoisonError::into_inner);
                match limited.admit(Instant::now(), entry.clone(), event == AuditEvent::Refused) {
                    Some(left_out) => left_out,
                    None => return,
                }
            }
            None => 0,
        };
        let line = line_of(&entry, left_out);
        if let Err(error) = self.append(name, &line, event != AuditEvent::Exported) {
            // Anyone who can read a store can export it, also without rights in its state directory.
            let level = if event == AuditEvent::Exported { log::Level::Debug } else { log::Level::Warn };
            if !self.has_failed.swap(true, Ordering::Relaxed) {
                log::log!(level, "cannot write the audit log in {}: {error}", self.dir.display());
            }
        }
    }

    /// The entries' files, the older ones first. Some or all may be missing.
    pub fn files(&self) -> [PathBuf; 6] {
        [old(DONE), DONE.into(), old(REFUSED), REFUSED.into(), old(EXPORTED), EXPORTED.into()]
            .map(|name| self.dir.join(name))
    }

    fn append(&self, name: &str, line: &str, makes_dir: bool) -> io::Result<()> {
        if makes_dir {
            create_dir_for(&self.dir, self.dir.parent().and_then(Owner::of))?;
        }
        // Not the lock of the file itself, which gets another name below.
        let turn = LockFile::wait(&self.dir.join("audit.lock"));
        let _turn = turn.map_err(|error| match error {
            LockError::Io { error, .. } => error,
            held @ LockError::Held { .. } => io::Error::other(held),
        })?;
        let path = self.dir.join(name);
        let mut file = open_own(&path)?;
        if file.metadata()?.len() + line.len() as u64 > MAX_FILE_BYTES {
            std::fs::rename(&path, self.dir.join(old(name)))?;
            file = open_own(&path)?;
        }
        let begins_line = ends_with_line(&mut file)?;
        file.seek(SeekFrom::End(0))?;
        // One write: a process that is killed leaves a whole entry or none.
        file.write_all(format!("{}{line}", if begins_line { "" } else { "\n" }).as_bytes())
    }
}

fn open_own(path: &Path) -> io::Result<File> {
    let file = open_for_owner(path)?;
    if has_other_names(&file)? {
        return Err(io::Error::other("it has another name, too"));
    }
    Ok(file)
}

/// Whether the file is empty or its last line is complete: a power cut may have cut it.
fn ends_with_line(file: &mut File) -> io::Result<bool> {
    if file.metadata()?.len() == 0 {
        return Ok(true);
    }
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last == *b"\n")
}

fn old(name: &str) -> String {
    format!("{name}.1")
}

/// All of an entry but its time and the number of omitted ones.
fn entry_of(event: AuditEvent, by: &str, subject: &str, detail: &str) -> String {
    let mut entry = format!("\"event\":\"{}\"", event.name());
    for (name, text) in [("by", by), ("subject", subject), ("detail", detail)] {
        entry.push_str(",\"");
        entry.push_str(name);
        entry.push_str("\":\"");
        push_escaped(text, &mut entry);
        entry.push('"');
    }
    entry
}

fn line_of(entry: &str, left_out: u64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let left_out = if left_out > 0 { format!(",\"left_out\":{left_out}") } else { String::new() };
    format!("{{\"time_ns\":{},{entry}{left_out}}}\n", now.as_nanos())
}

/// Everything but letters, digits and visible ASCII as a JSON escape, so that the file is safe to print.
fn push_escaped(text: &str, line: &mut String) {
    for c in text.chars().take(MAX_CHARS) {
        match c {
            '"' | '\\' => line.extend(['\\', c]),
            c if c.is_alphanumeric() || c.is_ascii_graphic() || c == ' ' => line.push(c),
            c => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    let _ = write!(line, "\\u{unit:04x}");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(log: &AuditLog, at: usize) -> Vec<String> {
        let text = std::fs::read_to_string(&log.files()[at]).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn an_entry_is_one_line_whatever_its_names_hold_and_private() {
        let dir = tempfile::tempdir().unwrap();
        let log = AuditLog::in_dir(&dir.path().join("state"));
        log.note(AuditEvent::Enrolled, "10.0.0.7", "evil\n\x1b[2J\"\\\u{202e}日", &"x".repeat(500));
        let written = lines(&log, 1);
        assert_eq!(written.len(), 1);
        let expected = format!(
            "\"event\":\"enrolled\",\"by\":\"10.0.0.7\",\"subject\":\"evil\\u000a\\u001b[2J\\\"\\\\\\u202e日\",\"detail\":\"{}\"}}",
            "x".repeat(200)
        );
        assert!(written[0].ends_with(&expected), "{}", written[0]);
        assert!(crate::open_private(&log.files()[1]).is_ok());
    }

    #[test]
    fn refusals_push_nothing_out_and_those_left_out_are_counted() {
        let dir = tempfile::tempdir().unwrap();
        let log = AuditLog::in_dir(dir.path());
        log.note(AuditEvent::Revoked, "uid 0", "web1", "");
        for _ in 0..100 {
            log.note(AuditEvent::Refused, "10.0.0.66", "", "the token is not known here");
        }
        assert_eq!((lines(&log, 1).len(), lines(&log, 3).len()), (1, 60));
        let mut refusals = log.refusals.lock().unwrap();
        assert_eq!(refusals.admit(Instant::now() + WITHIN, String::new(), true), Some(40));
    }

    #[test]
    fn exports_push_nothing_out_and_repeats_are_counted() {
        let dir = tempfile::tempdir().unwrap();
        let log = AuditLog::in_dir(dir.path());
        log.note(AuditEvent::Enrolled, "10.0.0.7", "web1", "");
        for _ in 0..100 {
            log.note(AuditEvent::Exported, "10.0.0.66", "trace", "7");
        }
        log.note(AuditEvent::TraceAsked, "10.0.0.66", "web1", "");
        let exports = lines(&log, 5);
        assert_eq!((lines(&log, 1).len(), exports.len()), (1, 2));
        assert!(
            exports[1].contains("trace asked") && exports[1].ends_with(",\"left_out\":99}"),
            "{}",
            exports[1]
        );
        for number in 0..100 {
            log.note(AuditEvent::Exported, "10.0.0.66", "trace", &number.to_string());
        }
        assert_eq!((lines(&log, 1).len(), lines(&log, 5).len()), (1, 60));
        let mut exports = log.exports.lock().unwrap();
        let again = "\"event\":\"exported\",\"by\":\"10.0.0.66\",\"subject\":\"trace\",\"detail\":\"7\"";
        assert_eq!(exports.admit(Instant::now(), again.to_owned(), false), None);
        assert_eq!(exports.admit(Instant::now() + WITHIN, again.to_owned(), false), Some(42));
    }

    #[test]
    fn the_log_is_bounded_and_an_unfinished_line_spoils_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let log = AuditLog::in_dir(dir.path());
        let bytes = usize::try_from(MAX_FILE_BYTES).unwrap();
        std::fs::write(&log.files()[1], "x".repeat(bytes - 1000)).unwrap();
        for _ in 0..10 {
            log.note(AuditEvent::Enrolled, "a", "b", &"d".repeat(200));
        }
        assert!(lines(&log, 0).len() > 2 && lines(&log, 0)[1].starts_with("{\"time_ns\":"));
        assert_eq!(lines(&log, 0).len() - 1 + lines(&log, 1).len(), 10);
        assert!(
            log.files()
                .iter()
                .filter_map(|path| path.metadata().ok())
                .all(|meta| meta.len() <= MAX_FILE_BYTES)
        );
    }

    #[test]
    fn an_export_makes_no_state_directory() {
        let dir = tempfile::tempdir().unwrap();
        let log = AuditLog::in_dir(&dir.path().join("none"));
        log.note(AuditEvent::Exported, "uid 0", "processes", "");
        assert!(!dir.path().join("none").exists());
    }
}
