//! The names of a spool's files, its segments in order, and whole files within bounds.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::error::{At, SpoolError};

const SEGMENT: &str = ".segment";
const DAMAGED: &str = ".segment.damaged";
/// Digits of a number in a name.
const DIGITS: usize = 20;
/// Longest segment that is read, bytes: twice what a writer makes of the largest snapshot.
pub(super) const MAX_SEGMENT_BYTES: u64 = 128 << 20;

/// A segment's file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SegmentFile {
    /// Number of its first record, by its name.
    pub(super) first: u64,
    /// It was set aside.
    pub(super) is_damaged: bool,
    pub(super) path: PathBuf,
}

/// The path of a segment.
pub(super) fn path_of(dir: &Path, first: u64) -> PathBuf {
    dir.join(format!("{first:0DIGITS$}{SEGMENT}"))
}

/// The path of a segment that is set aside.
pub(super) fn damaged_path_of(dir: &Path, first: u64) -> PathBuf {
    dir.join(format!("{first:0DIGITS$}{DAMAGED}"))
}

/// All segments of a directory, the oldest first. Other files are none of ours.
pub(super) fn list(dir: &Path) -> Result<Vec<SegmentFile>, SpoolError> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).at("list", dir)? {
        let entry = entry.at("list", dir)?;
        if let Some((first, is_damaged)) = entry.file_name().to_str().and_then(parse) {
            files.push(SegmentFile { first, is_damaged, path: entry.path() });
        }
    }
    files.sort_unstable();
    Ok(files)
}

fn parse(name: &str) -> Option<(u64, bool)> {
    let (digits, is_damaged) = match name.strip_suffix(DAMAGED) {
        Some(digits) => (digits, true),
        None => (name.strip_suffix(SEGMENT)?, false),
    };
    let is_number = digits.len() == DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit());
    // `parse` alone would take a leading "+" and fewer digits.
    Some((digits.parse().ok().filter(|_| is_number)?, is_damaged))
}

/// A whole segment, but no more than [`MAX_SEGMENT_BYTES`]: what a longer file holds behind that is no segment of ours.
pub(super) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    let length = file.metadata()?.len().min(MAX_SEGMENT_BYTES);
    let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(0));
    file.take(MAX_SEGMENT_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_segments_have_a_segments_name() {
        assert_eq!(parse("00000000000000000042.segment"), Some((42, false)));
        assert_eq!(parse("00000000000000000042.segment.damaged"), Some((42, true)));
        for name in [
            "42.segment",
            "+0000000000000000042.segment",
            "state",
            "99999999999999999999.segment",
            ".segment",
        ] {
            assert_eq!(parse(name), None, "{name}");
        }
        let path = path_of(Path::new("/d"), 7);
        assert_eq!(parse(path.file_name().unwrap().to_str().unwrap()), Some((7, false)));
    }
}
