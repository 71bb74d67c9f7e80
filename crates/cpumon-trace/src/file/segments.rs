//! The segments of a flight recorder on disk: files that each can be read alone, and together are one trace.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// In front of their names: other files in the directory are left alone.
const PREFIX: &str = "ring-";
const SUFFIX: &str = ".trace";
/// Least digits of a segment's number, so that the names of the first million segments sort.
const DIGITS: usize = 6;

/// A file of a recording that is kept in several.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Segment {
    /// The recording that it is of: when that began, as in file names.
    pub recording: String,
    /// Position of the segment in the recording.
    pub number: u32,
    pub path: PathBuf,
    pub bytes: u64,
}

pub fn name_of(recording: &str, number: u32) -> String {
    format!("{PREFIX}{recording}-{number:0DIGITS$}{SUFFIX}")
}

/// Recording and number of a segment with this name.
fn parse(name: &str) -> Option<(&str, u32)> {
    let (recording, number) = name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?.rsplit_once('-')?;
    let is_ours = !recording.is_empty()
        && recording.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'.')
        && number.len() >= DIGITS
        && number.bytes().all(|byte| byte.is_ascii_digit());
    is_ours.then(|| Some((recording, number.parse().ok()?)))?
}

/// The segments in a directory, by recording and number; the names sort by time.
///
/// # Errors
/// The directory cannot be read.
pub fn list(dir: &Path) -> io::Result<Vec<Segment>> {
    let mut segments = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some((recording, number)) = name.to_str().and_then(parse) else { continue };
        let about = match entry.metadata() {
            // It was deleted meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            about => about?,
        };
        if about.is_file() {
            let recording = recording.to_owned();
            segments.push(Segment { recording, number, path: entry.path(), bytes: about.len() });
        }
    }
    segments.sort();
    Ok(segments)
}

fn refused(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, why)
}

/// The bytes of a trace: a file, or the segments of one recording, one behind the other.
#[derive(Debug)]
pub struct TraceInput {
    /// Files, each with the offset in the trace at which it begins.
    files: Vec<(PathBuf, u64)>,
    at: u64,
    /// The one that is being read. A recording may have more than a process may open.
    open: Option<(usize, File)>,
    /// Where the position of that file has to be set.
    is_moved: bool,
    /// Paths of other recordings in the directory; empty if a file was opened.
    pub others: Vec<PathBuf>,
}

impl TraceInput {
    /// Opens a file; the segments of the newest recording in a directory; or those of the recording whose segments begin with this path.
    ///
    /// # Errors
    /// It cannot be opened, is no file, or has no segments.
    pub fn open(path: &Path) -> io::Result<Self> {
        let name = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_prefix(PREFIX));
        if path == Path::new("-") && !path.exists() {
            return Err(refused("standard input is not read; name a file"));
        }
        match fs::metadata(path).map(|about| about.file_type()) {
            Ok(kind) if kind.is_dir() => return Self::of_recording(path, None),
            // Opening a pipe would wait for who writes to it.
            Ok(kind) if !kind.is_file() => {
                let why =
                    "it is a pipe or a device, and a trace is read back and forth; copy it into a file first";
                return Err(refused(why));
            }
            _ => {}
        }
        match (path.parent(), name) {
            (Some(dir), Some(recording)) if !path.exists() => {
                let here = Path::new(".");
                Self::of_recording(if dir.as_os_str().is_empty() { here } else { dir }, Some(recording))
            }
            _ => File::open(path).map(Self::from),
        }
    }

    fn of_recording(dir: &Path, wanted: Option<&str>) -> io::Result<Self> {
        let segments = list(dir)?;
        let newest = segments.last().map(|segment| segment.recording.clone());
        let recording = wanted.map(ToOwned::to_owned).or(newest).unwrap_or_default();
        let (mut files, mut others, mut bytes) = (Vec::new(), Vec::new(), 0);
        for segment in segments {
            if segment.recording == recording {
                files.push((segment.path, bytes));
                bytes += segment.bytes;
            } else {
                others.push(dir.join(format!("{PREFIX}{}", segment.recording)));
            }
        }
        others.dedup();
        if files.is_empty() && dir.join("data.0").is_file() && dir.join("data").is_file() {
            let why =
                "it is a recording of `perf record --threads`, which is not read; record without --threads";
            return Err(refused(why));
        }
        if files.is_empty() {
            let text = "no segments of a flight recorder (ring-….trace) are there; name a file";
            return Err(io::Error::new(io::ErrorKind::NotFound, text));
        }
        Ok(Self { files, at: 0, open: None, is_moved: true, others })
    }

    /// The file that has the next byte, and where the one behind it begins. `None`: there is none.
    fn current(&mut self) -> io::Result<Option<(&mut File, Option<u64>)>> {
        loop {
            let next = self.files.partition_point(|(_, begin)| *begin <= self.at);
            let Some(index) = next.checked_sub(1) else { return Ok(None) };
            let end = self.files.get(next).map(|(_, begin)| *begin);
            let (path, begin) = &self.files[index];
            if self.open.as_ref().is_none_or(|(open, _)| *open != index) {
                match (File::open(path), end) {
                    // The recorder has deleted it meanwhile: the reader finds a hole.
                    (Err(error), Some(end)) if error.kind() == io::ErrorKind::NotFound => {
                        self.at = end;
                        continue;
                    }
                    (opened, _) => self.open = Some((index, opened?)),
                }
                self.is_moved = true;
            }
            let offset = self.at - begin;
            let Some((_, file)) = &mut self.open else { return Ok(None) };
            if std::mem::take(&mut self.is_moved) {
                file.seek(SeekFrom::Start(offset))?;
            }
            return Ok(Some((file, end)));
        }
    }
}

impl From<File> for TraceInput {
    fn from(file: File) -> Self {
        let files = vec![(PathBuf::new(), 0)];
        Self { files, at: 0, open: Some((0, file)), is_moved: false, others: Vec::new() }
    }
}

impl Read for TraceInput {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            let at = self.at;
            let Some((file, end)) = self.current()? else { return Ok(0) };
            let left = usize::try_from(end.unwrap_or(u64::MAX) - at).unwrap_or(usize::MAX);
            let most = left.min(buffer.len());
            let read = file.read(&mut buffer[..most])?;
            match end {
                // It became shorter.
                Some(end) if read == 0 => self.at = end,
                _ => {
                    self.at += read as u64;
                    return Ok(read);
                }
            }
        }
    }
}

impl Seek for TraceInput {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
            SeekFrom::End(by) => {
                let begin = self.files.last().map_or(0, |(_, begin)| *begin);
                // So that the last one is open.
                self.at = self.at.max(begin);
                let bytes = match self.current()? {
                    Some((file, _)) => file.metadata()?.len(),
                    None => 0,
                };
                (begin + bytes).checked_add_signed(by)
            }
        };
        self.at = at.ok_or(io::ErrorKind::InvalidInput)?;
        self.is_moved = true;
        Ok(self.at)
    }
}
