//! The directory of files that a device sends beside its snapshots. It is the queue itself: a file is there from when it is
//! complete until a receiver has stored it, so nothing else must survive a restart.
//!
//! Beside `NAME.trace` is `NAME.why`: when what the file shows happened, ns since the UNIX epoch, and why it was written, a line each.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use cpumon_files::{LockError, LockFile};
use cpumon_wire::connection::TraceAnswer;

/// Start of the names of files that are sent: others in the directory are left alone.
pub const PREFIX: &str = "flight-";
pub const SUFFIX: &str = ".trace";
/// Replaces [`SUFFIX`] in the name of the file with the reason.
const WHY_SUFFIX: &str = ".why";
/// Follows [`SUFFIX`] in the name of a file that is being written.
const PART: &str = ".part";
const LOCK: &str = "flight.lock";
/// Longest part of a `.why` file that is read, bytes.
const WHY_BYTES: u64 = 1024;

pub fn is_attachment(name: &str) -> bool {
    name.starts_with(PREFIX) && name.ends_with(SUFFIX)
}

/// The name under which the file is written before it is complete.
pub fn part_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(PART);
    name.into()
}

/// When and why an attached file was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Why {
    /// When the recorded event happened, ns since the UNIX epoch.
    pub wall_ns: i64,
    pub reason: String,
}

/// Takes the directory for this process, until the lock is dropped.
///
/// # Errors
/// Another process has it, or its lock file cannot be written.
pub fn lock(dir: &Path) -> Result<LockFile, LockError> {
    LockFile::take(&dir.join(LOCK))
}

/// Ends the writing of a file: what was written to [`part_of`] it gets its name, with its reason beside it.
pub fn complete(path: &Path, why: &Why) -> io::Result<()> {
    let text = format!("{}\n{}\n", why.wall_ns, why.reason.replace(['\n', '\r'], " "));
    // It may have the name of a program, which is the owner's only.
    let mut file = cpumon_files::open_to_write(&path.with_extension(&WHY_SUFFIX[1..]))?;
    file.set_len(0)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    // The reason first: the name says that both are there.
    // Windows writes to the disk only what was opened for writing.
    File::options().write(true).open(part_of(path))?.sync_all()?;
    fs::rename(part_of(path), path)
}

/// Deletes a file and the file with its reason.
pub fn remove(path: &Path) -> io::Result<()> {
    cpumon_files::remove(path)?;
    cpumon_files::remove(&path.with_extension(&WHY_SUFFIX[1..]))
}

/// Deletes what a process left that was killed while it wrote. What cannot be deleted or read stays, and hides nothing of the rest.
///
/// # Errors
/// The first one, when all else is deleted.
pub fn remove_parts(dir: &Path) -> io::Result<()> {
    let removed = cpumon_files::entries(dir)?.map(|entry| {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let is_part = name.strip_suffix(PART).is_some_and(is_attachment);
        let is_alone = name.starts_with(PREFIX)
            && name.ends_with(WHY_SUFFIX)
            && !path.with_extension(&SUFFIX[1..]).exists();
        if is_part || is_alone { cpumon_files::remove(&path) } else { Ok(()) }
    });
    removed.fold(Ok(()), Result::and)
}

/// The files of a directory that wait for a receiver.
#[derive(Debug)]
pub struct Attachments {
    dir: PathBuf,
    /// Those that a receiver refused; after a restart they are offered again.
    refused: HashSet<PathBuf>,
    /// The last one that a receiver put off: it is not its turn before all others had theirs.
    postponed: Option<PathBuf>,
}

impl Attachments {
    pub fn new(dir: PathBuf) -> Self {
        Self { dir, refused: HashSet::new(), postponed: None }
    }

    /// The oldest that waits; after one that was put off, the next one behind it, and after the last the oldest again.
    pub fn next(&self) -> Option<PathBuf> {
        let entries = cpumon_files::entries(&self.dir).ok()?;
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let paths = names.filter(|name| is_attachment(name)).map(|name| self.dir.join(name));
        // Names begin with the time.
        let had_its_turn = |path: &PathBuf| self.postponed.as_ref().is_some_and(|last| path <= last);
        let waiting = paths.filter(|path| !self.refused.contains(path));
        waiting.min_by(|a, b| (had_its_turn(a), a).cmp(&(had_its_turn(b), b)))
    }

    /// A receiver does not take a file now: others have their turn first.
    pub fn postpone(&mut self, path: PathBuf) {
        self.postponed = Some(path);
    }

    /// Skips this file from now on, until a restart.
    pub fn refuse(&mut self, path: PathBuf) {
        // Files that are gone need no entry.
        self.refused.retain(|path| path.exists());
        self.refused.insert(path);
    }

    /// What a file is about; without a reason for a file that has none.
    pub fn why(path: &Path) -> Why {
        let mut text = String::new();
        let read = File::open(path.with_extension(&WHY_SUFFIX[1..]))
            .and_then(|file| file.take(WHY_BYTES).read_to_string(&mut text));
        let (wall_ns, reason) = text.split_once('\n').unwrap_or_default();
        let reason = reason.trim_end().to_owned();
        if read.is_err() { Why::default() } else { Why { wall_ns: wall_ns.parse().unwrap_or(0), reason } }
    }
}

/// What the thread that writes files and the one that sends them share.
#[derive(Debug, Default)]
pub struct TraceRequests {
    /// Time from one file by request to the next.
    pause: Duration,
    /// When a receiver asked last and was not refused.
    asked: Mutex<Option<Instant>>,
    is_wanted: AtomicBool,
    is_new: AtomicBool,
}

impl TraceRequests {
    /// A receiver may ask for a file once in `pause`.
    pub fn new(pause: Duration) -> Self {
        Self { pause, ..Self::default() }
    }

    /// Notes a receiver's request for a file; `TooSoon` within `pause` after the last one.
    pub fn ask(&self) -> TraceAnswer {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if asked.is_some_and(|asked| asked.elapsed() < self.pause) {
            return TraceAnswer::TooSoon;
        }
        *asked = Some(Instant::now());
        self.is_wanted.store(true, Ordering::Relaxed);
        TraceAnswer::Writing
    }

    /// Whether one was asked for since the last call.
    pub fn take(&self) -> bool {
        self.is_wanted.swap(false, Ordering::Relaxed)
    }

    pub fn notify_new(&self) {
        self.is_new.store(true, Ordering::Relaxed);
    }

    /// Whether a file has become complete since the last call.
    pub fn take_new(&self) -> bool {
        self.is_new.swap(false, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_wait_in_the_order_of_their_names_until_they_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["flight-2.trace", "flight-1.trace", "mine.trace", "flight-0.trace.part"] {
            fs::write(dir.path().join(name), name).unwrap();
        }
        let mut queue = Attachments::new(dir.path().to_owned());
        let first = dir.path().join("flight-1.trace");
        assert_eq!(queue.next(), Some(first.clone()));
        assert_eq!(Attachments::why(&first), Why::default());
        queue.refuse(first.clone());
        assert_eq!(queue.next(), Some(dir.path().join("flight-2.trace")));
        assert_eq!(
            Attachments::new(dir.path().to_owned()).next(),
            Some(first),
            "asked again after a restart"
        );
        queue.postpone(dir.path().join("flight-2.trace"));
        assert_eq!(queue.next(), Some(dir.path().join("flight-2.trace")), "there is no other");
        let third = dir.path().join("flight-3.trace");
        fs::write(part_of(&third), "3").unwrap();
        let why = Why { wall_ns: -7, reason: "program:a\nb>5%".to_owned() };
        complete(&third, &why).unwrap();
        assert_eq!(queue.next(), Some(third.clone()), "the next one");
        queue.postpone(third.clone());
        assert_eq!(queue.next(), Some(dir.path().join("flight-2.trace")), "the oldest again");
        assert_eq!(Attachments::why(&third), Why { reason: "program:a b>5%".to_owned(), ..why });
        remove(&third).unwrap();
        remove(&third).unwrap();
        fs::write(dir.path().join("flight-9.why"), "").unwrap();
        // A directory cannot be deleted as a file.
        fs::create_dir(dir.path().join("flight-8.trace.part")).unwrap();
        assert!(remove_parts(dir.path()).is_err());
        fs::remove_dir(dir.path().join("flight-8.trace.part")).unwrap();
        let mut left: Vec<_> =
            fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["flight-1.trace", "flight-2.trace", "mine.trace"]);
    }

    #[test]
    fn requests_come_one_in_a_pause() {
        let requests = TraceRequests::new(Duration::from_hours(1));
        assert!(!requests.take());
        assert_eq!([requests.ask(), requests.ask()], [TraceAnswer::Writing, TraceAnswer::TooSoon]);
        assert_eq!([requests.take(), requests.take()], [true, false]);
        requests.notify_new();
        assert_eq!([requests.take_new(), requests.take_new()], [true, false]);
    }
}
