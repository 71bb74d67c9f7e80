//! A spool whose writer was killed, or whose bytes rotted: nothing panics, nothing wrong is given out, every loss is counted.

use std::path::{Path, PathBuf};

use cpumon_link::spool::{Spool, SpoolError, SyncPolicy};
use cpumon_wire::spool::GapReason;

use crate::logged;
use crate::segments::{ORIGIN, append, assert_all_accounted, assert_as_appended, held, options};

fn segments(dir: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().contains(".segment"))
        .collect();
    paths.sort();
    paths
}

/// Three segments, of 4 snapshots each.
fn three_segments(dir: &Path) {
    for run in 0..3 {
        let mut spool = Spool::open(&options(dir, 1 << 20, SyncPolicy::Always), ORIGIN).unwrap();
        append(&mut spool, run * 4 + 1..=run * 4 + 4, 20);
    }
    assert_eq!(segments(dir).len(), 3);
}

fn copy_of(dir: &Path) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
    }
    copy
}

#[test]
fn a_writer_killed_at_any_byte_costs_the_record_it_was_writing() {
    let dir = tempfile::tempdir().unwrap();
    three_segments(dir.path());
    let last = segments(dir.path()).pop().unwrap();
    let whole = std::fs::read(&last).unwrap();
    for length in 0..whole.len() {
        std::fs::write(&last, &whole[..length]).unwrap();
        let before = held(dir.path());
        assert!((8..12).contains(&before.snapshots.len()), "cut at {length}");
        assert_as_appended(&before);
        // The next writer continues behind the last whole record; numbers that the state remembers are not given out again.
        for has_state in [true, false] {
            let copy = copy_of(dir.path());
            let next = if has_state { 13 } else { before.snapshots.last().unwrap().0 + 1 };
            if !has_state {
                std::fs::remove_file(copy.path().join("state")).unwrap();
            }
            let mut spool = Spool::open(&options(copy.path(), 1 << 20, SyncPolicy::Always), ORIGIN).unwrap();
            assert_eq!(spool.status().damaged_segments, 0, "cut at {length}");
            append(&mut spool, next..=next + 2, 20);
            drop(spool);
            let after = held(copy.path());
            assert_as_appended(&after);
            assert_all_accounted(&after, next + 2);
            assert_eq!((after.report.damaged, after.report.tail_bytes), (0, 0), "cut at {length}");
            assert_eq!(after.snapshots.len(), before.snapshots.len() + 3, "cut at {length}");
            assert_eq!(after.gaps.is_empty(), !has_state, "cut at {length}: {:?}", after.gaps);
        }
    }
}

#[test]
fn a_flipped_bit_anywhere_is_counted_and_never_gives_a_wrong_snapshot() {
    let dir = tempfile::tempdir().unwrap();
    three_segments(dir.path());
    for (index, path) in segments(dir.path()).into_iter().enumerate() {
        let whole = std::fs::read(&path).unwrap();
        for at in 0..whole.len() {
            // Each bit of each byte is flipped where the segments' own reader is tested.
            let mut flipped = whole.clone();
            flipped[at] ^= 1 << (at % 8);
            std::fs::write(&path, &flipped).unwrap();
            let held = held(dir.path());
            assert_as_appended(&held);
            assert!(held.report.damaged > 0 || held.report.tail_bytes > 0, "segment {index}, byte {at}");
            let is_last = index == 2;
            assert!(held.snapshots.len() >= if is_last { 8 } else { 7 }, "segment {index}, byte {at}");
            if !is_last {
                // The number of the next record behind shows how many are missing.
                assert_all_accounted(&held, 12);
            }
        }
        std::fs::write(&path, &whole).unwrap();
    }
}

#[test]
fn a_writer_sets_a_damaged_segment_aside_and_goes_on() {
    for (index, offset) in [(0, 3), (2, 3), (2, 130), (2, 200)] {
        let dir = tempfile::tempdir().unwrap();
        three_segments(dir.path());
        let path = &segments(dir.path())[index];
        let mut bytes = std::fs::read(path).unwrap();
        bytes[offset] ^= 4;
        std::fs::write(path, &bytes).unwrap();
        let mut spool = Spool::open(&options(dir.path(), 1 << 20, SyncPolicy::Always), ORIGIN).unwrap();
        assert_eq!(spool.status().damaged_segments, 1, "segment {index}, byte {offset}");
        append(&mut spool, 13..=14, 20);
        drop(spool);
        let aside: Vec<PathBuf> = segments(dir.path())
            .into_iter()
            .filter(|path| path.to_string_lossy().ends_with(".damaged"))
            .collect();
        assert_eq!(aside.len(), 1, "segment {index}, byte {offset}");
        assert_eq!(std::fs::read(&aside[0]).unwrap(), bytes, "nothing of it is lost");
        let held = held(dir.path());
        assert_as_appended(&held);
        assert_all_accounted(&held, 14);
        assert!(held.gaps.iter().all(|gap| gap.reason == GapReason::Damaged), "{:?}", held.gaps);
        assert!(held.snapshots.iter().any(|row| row.0 == 14));
        // Opened once more, it is not counted again.
        let spool = Spool::open(&options(dir.path(), 1 << 20, SyncPolicy::Always), ORIGIN).unwrap();
        assert_eq!(spool.status().damaged_segments, 0);
    }
}

#[test]
fn a_lost_segment_in_the_middle_is_a_hole_of_its_size() {
    let dir = tempfile::tempdir().unwrap();
    three_segments(dir.path());
    std::fs::remove_file(&segments(dir.path())[1]).unwrap();
    let held = held(dir.path());
    assert_all_accounted(&held, 12);
    assert_eq!(held.gaps.iter().map(|gap| (gap.first, gap.last)).collect::<Vec<_>>(), [(5, 8)]);
}

/// It was renamed, as if it were damaged.
#[test]
fn a_segment_that_cannot_be_read_at_the_start_stays_as_it_is() {
    logged::keep();
    let dir = tempfile::tempdir().unwrap();
    three_segments(dir.path());
    let options = options(dir.path(), 1 << 20, SyncPolicy::Always);
    let paths = segments(dir.path());
    let aside = dir.path().join("aside");
    std::fs::rename(&paths[0], &aside).unwrap();
    // A directory opens, and cannot be read.
    std::fs::create_dir(&paths[0]).unwrap();
    assert_eq!(Spool::open(&options, ORIGIN).unwrap().status().damaged_segments, 0);
    let lines = logged::about(&paths[0]);
    assert!(lines.len() == 1 && lines[0].starts_with("cannot read the segment"), "{lines:?}");
    std::fs::remove_dir(&paths[0]).unwrap();
    // A link to itself cannot be opened.
    std::os::unix::fs::symlink(&paths[0], &paths[0]).unwrap();
    let error = Spool::open(&options, ORIGIN).unwrap_err();
    assert!(matches!(&error, SpoolError::Io { operation: "open", path, .. } if *path == paths[0]), "{error}");
    std::fs::rename(&aside, &paths[0]).unwrap();
    let held = held(dir.path());
    assert_all_accounted(&held, 12);
    assert_eq!(held.snapshots.len(), 12);
}

/// The next segment had the same name.
#[test]
fn the_newest_segment_is_not_overwritten_if_it_cannot_be_read() {
    let dir = tempfile::tempdir().unwrap();
    three_segments(dir.path());
    // What a kill leaves knows less.
    std::fs::remove_file(dir.path().join("state")).unwrap();
    let newest = &segments(dir.path())[2];
    std::fs::remove_file(newest).unwrap();
    std::fs::create_dir(newest).unwrap();
    let mut spool = Spool::open(&options(dir.path(), 1 << 20, SyncPolicy::Always), ORIGIN).unwrap();
    assert_eq!(append(&mut spool, 10..=12, 20), 0);
    assert_eq!(spool.status().trouble, None);
    assert!(newest.is_dir() && segments(dir.path()).len() == 4);
}

/// A receiver got everything again, and the log had nothing about it.
#[test]
fn a_state_that_cannot_be_used_is_in_the_log() {
    logged::keep();
    for (bytes, is_damaged) in [(vec![0xa5; 1024], true), (vec![0; 1024], false), (Vec::new(), false)] {
        let dir = tempfile::tempdir().unwrap();
        three_segments(dir.path());
        std::fs::write(dir.path().join("state"), bytes).unwrap();
        drop(Spool::open(&options(dir.path(), 1 << 20, SyncPolicy::Always), ORIGIN).unwrap());
        let lines = logged::about(dir.path());
        assert_eq!(lines.iter().any(|line| line.contains("state is damaged: ")), is_damaged, "{lines:?}");
    }
    let dir = tempfile::tempdir().unwrap();
    three_segments(dir.path());
    std::fs::remove_file(dir.path().join("state")).unwrap();
    std::fs::create_dir(dir.path().join("state")).unwrap();
    assert_eq!(held(dir.path()).snapshots.len(), 12);
    let lines = logged::about(dir.path());
    assert!(lines.len() == 1 && lines[0].contains("state cannot be read ("), "{lines:?}");
}
