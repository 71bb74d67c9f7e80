//! A spool that a connection empties: what a receiver has is deleted, the rest is sent, whatever happens in between.

use std::path::Path;
use std::time::Duration;

use cpumon_link::Backlog;
use cpumon_link::spool::{Spool, SpoolError, SyncPolicy};
use cpumon_model::HostId;
use cpumon_wire::Datagrams;
use cpumon_wire::spool::{Entry, Origin, decode_record};

use crate::segments::{ORIGIN, held, options};

pub const HOUR: SyncPolicy = SyncPolicy::Every(Duration::from_hours(1));

pub fn open(dir: &Path, max_bytes: u64, sync: SyncPolicy) -> Spool {
    Spool::open_backlog(&options(dir, max_bytes, sync), ORIGIN).unwrap()
}

/// Appends a snapshot whose moment is its number; a full one is four times as long.
pub fn append(spool: &mut Spool, bytes: usize, wants_full: bool) -> (u64, bool) {
    let is_full = wants_full || Backlog::wants_full(spool);
    let wall_ns = i64::try_from(Backlog::next(spool)).unwrap() * 10;
    let frames = Datagrams::from(vec![vec![7; if is_full { 4 * bytes } else { bytes }]]);
    (Backlog::append(spool, is_full, wall_ns, &frames), is_full)
}

pub fn append_many(spool: &mut Spool, count: u64, bytes: usize) {
    for _ in 0..count {
        append(spool, bytes, false);
    }
}

/// Everything from the start on, in words.
fn all(spool: &mut Spool) -> Vec<String> {
    let (mut cursor, mut words) = (spool.start(), Vec::new());
    loop {
        let mut out = Vec::new();
        spool.read(&mut cursor, 5_000, &mut out);
        if out.is_empty() {
            return words;
        }
        for (number, record) in out {
            words.push(match decode_record(&record) {
                Some(Entry::Snapshot(snapshot)) => {
                    assert_eq!(snapshot.number, number);
                    format!("{number}{}", if snapshot.is_full { "F" } else { "" })
                }
                Some(Entry::Gap(gap)) => {
                    format!("gap {}-{} {}..{}", gap.first, gap.last, gap.begin_wall_ns, gap.end_wall_ns)
                }
                other => panic!("{other:?}"),
            });
        }
    }
}

/// The directory as a kill -9 at this moment leaves it.
pub fn killed(dir: &Path) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, copy.path().join(path.file_name().unwrap())).unwrap();
    }
    copy
}

#[test]
fn what_a_receiver_has_is_neither_written_nor_kept() {
    let dir = tempfile::tempdir().unwrap();
    let mut spool = open(dir.path(), 8 << 20, HOUR);
    for _ in 0..3000 {
        let (number, _) = append(&mut spool, 1000, false);
        spool.ack(number);
    }
    let status = spool.status().clone();
    assert_eq!((status.written_bytes, spool.counts().waiting, spool.counts().lost), (0, 0, 0));
    assert!(status.bytes < 2 << 20, "{status:?}");
    assert_eq!(all(&mut spool).last().unwrap(), "3000");
    drop(spool);
    assert_eq!(open(dir.path(), 8 << 20, HOUR).counts().waiting, 0, "known after the end too");
}

#[test]
fn after_a_kill_the_rest_is_sent_and_nothing_is_reported_missing() {
    let dir = tempfile::tempdir().unwrap();
    let mut spool = open(dir.path(), 64 << 20, SyncPolicy::Always);
    append_many(&mut spool, 2000, 1000);
    spool.ack(1500);
    append_many(&mut spool, 10, 1000);
    assert_eq!(spool.status().dropped, 0);
    let copy = killed(dir.path());
    let before = held(copy.path());
    assert!(before.gaps.is_empty(), "an import of it sees no hole either: {:?}", before.gaps);
    let mut spool = open(copy.path(), 64 << 20, SyncPolicy::Always);
    let read = all(&mut spool);
    assert!(read[0].ends_with('F') && !read.iter().any(|word| word.starts_with("gap")), "{:?}", &read[..3]);
    let first: u64 = read[0].trim_end_matches('F').parse().unwrap();
    assert!(first <= 1500, "there is a base for 1501: {first}");
    assert_eq!((read.last().unwrap().as_str(), Backlog::next(&spool)), ("2010", 2011));
    assert_eq!(append(&mut spool, 10, false), (2011, true), "a new run begins with a full one");
}

#[test]
fn what_was_not_written_before_a_kill_is_no_hole() {
    let dir = tempfile::tempdir().unwrap();
    append_many(&mut open(dir.path(), 64 << 20, SyncPolicy::Always), 1000, 1000);
    let mut spool = open(dir.path(), 64 << 20, HOUR);
    append_many(&mut spool, 30, 1000);
    // Segments go, so the state is written, but not what waits.
    spool.ack(990);
    let copy = killed(dir.path());
    let mut spool = open(copy.path(), 64 << 20, SyncPolicy::Always);
    assert_eq!((spool.counts().acked, Backlog::next(&spool)), (990, 1001));
    append_many(&mut spool, 5, 1000);
    let read = all(&mut spool);
    assert!(!read.iter().any(|word| word.starts_with("gap")) && read.last().unwrap() == "1005", "{read:?}");
}

#[test]
fn reading_begins_at_the_newest_full_snapshot_that_is_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let mut spool = open(dir.path(), 8 << 20, HOUR);
    append_many(&mut spool, 20, 100);
    append(&mut spool, 100, true);
    append_many(&mut spool, 5, 100);
    spool.ack(20);
    assert_eq!(spool.start(), 1);
    spool.ack(23);
    assert_eq!(all(&mut spool), ["21F", "22", "23", "24", "25", "26"]);
}

#[test]
fn what_was_dropped_unsent_is_one_hole_that_survives_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let mut spool = open(dir.path(), 256 << 10, SyncPolicy::Always);
    append_many(&mut spool, 40, 1000);
    spool.ack(30);
    append_many(&mut spool, 500, 1000);
    let read = all(&mut spool);
    let (gap, rest) = read.split_first().unwrap();
    assert!(gap.starts_with("gap 31-") && gap.contains(" 300.."), "the hole begins where 30 was made: {gap}");
    assert!(rest[0].ends_with('F') && rest.last().unwrap() == "540", "{:?}", &rest[..2]);
    let missing = 540 - rest.len() as u64 - 30;
    assert_eq!((spool.counts().lost, spool.counts().waiting), (missing, rest.len() as u64));
    let copy = killed(dir.path());
    let mut spool = open(copy.path(), 256 << 10, SyncPolicy::Always);
    assert_eq!(&all(&mut spool)[0], gap, "the same hole, so that it is stored once");
    spool.ack(540);
    append_many(&mut spool, 2, 1000);
    assert!(all(&mut spool).last().unwrap().starts_with("542"));
}

/// It had the begin of the hole before: a receiver took both for the same hole, and counted the longer one.
#[test]
fn what_is_dropped_after_a_hole_is_acknowledged_is_another_hole() {
    for (behind, is_killed) in [(0, false), (1, false), (1, true), (60, true)] {
        let dir = tempfile::tempdir().unwrap();
        let mut spool = open(dir.path(), 256 << 10, SyncPolicy::Always);
        append_many(&mut spool, 40, 1000);
        spool.ack(30);
        append_many(&mut spool, 500, 1000);
        let read = all(&mut spool);
        let last = read[1].trim_end_matches('F').parse::<u64>().unwrap() - 1;
        assert_eq!(read[0], format!("gap 31-{last} 300..{}", 10 * (last + 1)));
        let acked = last + behind;
        spool.ack(acked);
        let copy = killed(dir.path());
        if is_killed {
            spool = open(copy.path(), 256 << 10, SyncPolicy::Always);
        }
        // Which may be older than what was acknowledged before a kill.
        let noted = spool.counts().acked;
        append_many(&mut spool, 500, 1000);
        let begin_ns = if noted == 30 { 300 } else { 10 * noted.max(last + 1) };
        let gap = all(&mut spool).swap_remove(0);
        assert!(gap.starts_with(&format!("gap {}-", noted + 1)), "{behind}: {gap}");
        assert!(gap.contains(&format!(" {begin_ns}..")), "{behind}: the first one began at 300: {gap}");
    }
}

#[test]
fn a_bit_that_flips_costs_a_counted_hole_up_to_the_next_full_snapshot() {
    let dir = tempfile::tempdir().unwrap();
    let mut spool = open(dir.path(), 8 << 20, SyncPolicy::Always);
    append_many(&mut spool, 5, 100);
    append(&mut spool, 100, true);
    append_many(&mut spool, 5, 100);
    let mut paths = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path());
    let path = paths.find(|path| path.extension().is_some_and(|ending| ending == "segment")).unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    // In the payload of number 2: the header, the full one of 400, its head and length, and a little.
    bytes[88 + 32 + 404 + 32 + 50] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    let read = all(&mut spool);
    assert_eq!(&read[..3], ["1F", "gap 2-5 10..60", "6F"]);
    assert_eq!(read.len(), 2 + 6);
    // Damage behind which nothing full follows: the next snapshot has to be full.
    bytes[88 + 32 + 404 + 4 * (32 + 104) + 32 + 404 + 32 + 50] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    assert_eq!(all(&mut spool).last().unwrap(), "6F");
    assert_eq!(append(&mut spool, 100, false), (12, true));
    assert_eq!(&all(&mut spool)[3..], ["gap 7-11 60..120", "12F"]);
}

/// The segments of a directory, the oldest first.
pub fn segments(dir: &Path) -> Vec<std::path::PathBuf> {
    let paths = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<_> = paths.filter(|path| path.to_str().unwrap().ends_with(".segment")).collect();
    paths.sort();
    paths
}

/// A directory with segments 1 to 4 and 5 to 7, the second one damaged by `damage`; behind them 8 to 9.
fn damaged_second(damage: impl FnOnce(&mut Vec<u8>)) -> (tempfile::TempDir, Spool) {
    let dir = tempfile::tempdir().unwrap();
    for count in [4, 3] {
        append_many(&mut open(dir.path(), 8 << 20, SyncPolicy::Always), count, 100);
    }
    let path = &segments(dir.path())[1];
    let mut bytes = std::fs::read(path).unwrap();
    damage(&mut bytes);
    std::fs::write(path, bytes).unwrap();
    // A kill leaves one that knows less.
    std::fs::remove_file(dir.path().join("state")).unwrap();
    let mut spool = open(dir.path(), 8 << 20, SyncPolicy::Always);
    append_many(&mut spool, 2, 100);
    (dir, spool)
}

/// Where the first record of a segment ends: the header, the head, a frame of 400 with its length.
const FIRST_END: usize = 88 + 32 + 404;

#[test]
fn damage_at_a_segments_begin_is_a_hole_over_the_time_of_what_is_lost() {
    for at in [40, 88 + 3, 88 + 32 + 50] {
        let (_dir, mut spool) = damaged_second(|bytes| bytes[at] ^= 1);
        let read = all(&mut spool);
        assert_eq!(read, ["1F", "2", "3", "4", "gap 5-7 40..80", "8F", "9"], "byte {at}");
        // A receiver that has everything before the damage gets the same hole.
        spool.ack(4);
        assert_eq!(all(&mut spool)[..5], read[..5], "byte {at}");
        spool.ack(5);
        let read = all(&mut spool);
        assert_eq!(read, ["gap 6-7 50..80", "8F", "9"], "byte {at}");
    }
}

/// It was given out as damage at once, and deleted as soon as a receiver had acknowledged that.
#[test]
fn a_segment_that_cannot_be_read_for_a_while_is_no_hole() {
    let (dir, mut spool) = damaged_second(|_| {});
    let whole = ["1F", "2", "3", "4", "5F", "6", "7", "8F", "9"];
    let path = &segments(dir.path())[1];
    let aside = dir.path().join("aside");
    std::fs::rename(path, &aside).unwrap();
    // A directory opens, and cannot be read.
    std::fs::create_dir(path).unwrap();
    assert_eq!(all(&mut spool), whole[..4]);
    spool.ack(4);
    std::fs::remove_dir(path).unwrap();
    std::fs::rename(&aside, path).unwrap();
    assert_eq!(all(&mut spool), whole);
    // For good it is a hole, so that it does not hold up what follows.
    std::fs::remove_file(path).unwrap();
    std::fs::create_dir(path).unwrap();
    let with_hole = ["1F", "2", "3", "4", "gap 5-7 40..80", "8F", "9"];
    assert!((0..1_000).all(|_| all(&mut spool).len() == 4), "a busy connection tries often");
    append_many(&mut spool, 600, 10);
    assert_eq!(all(&mut spool)[..with_hole.len()], with_hole);
    // A file that is gone does not come back.
    let (dir, mut spool) = damaged_second(|_| {});
    std::fs::remove_file(&segments(dir.path())[1]).unwrap();
    assert_eq!(all(&mut spool), with_hole);
}

#[test]
fn a_damaged_head_in_the_last_segment_takes_its_numbers_with_it() {
    let second = FIRST_END + 1;
    let (_dir, mut spool) = damaged_second(|bytes| bytes[second] ^= 1);
    assert_eq!(all(&mut spool), ["1F", "2", "3", "4", "5F", "gap 6-7 50..80", "8F", "9"]);
    // Nothing behind it can be made out: it is one at least.
    let (_dir, mut spool) = damaged_second(|bytes| bytes[second..].fill(0xa5));
    assert_eq!(all(&mut spool), ["1F", "2", "3", "4", "5F", "gap 6-6 50..70", "7F", "8"]);
}

#[test]
fn damage_in_what_was_given_out_before_costs_nothing_more() {
    let (_dir, mut spool) = damaged_second(|bytes| bytes[FIRST_END + 32 + 50] ^= 1);
    let (mut cursor, mut out) = (7, Vec::new());
    spool.read(&mut cursor, 1 << 20, &mut out);
    let is_snapshot = |record: &[u8]| matches!(decode_record(record), Some(Entry::Snapshot(_)));
    let read: Vec<u64> = out.iter().filter(|one| is_snapshot(&one.1)).map(|one| one.0).collect();
    assert_eq!(read, [7, 8, 9]);
}

#[test]
fn dropping_what_the_next_one_is_compared_with_is_a_hole_too() {
    let dir = tempfile::tempdir().unwrap();
    let mut spool = open(dir.path(), 64 << 10, SyncPolicy::Always);
    // Up to the end of a segment; a receiver has the whole segment.
    while spool.status().segments < 2 {
        append_many(&mut spool, 1, 500);
    }
    let last = Backlog::next(&spool) - 2;
    spool.ack(last);
    assert_eq!(all(&mut spool)[0], "1F");
    while spool.start() == 1 {
        append_many(&mut spool, 1, 500);
    }
    assert_eq!((spool.counts().lost, spool.status().dropped), (0, 0), "nothing unsent was dropped");
    let reported = |spool: &mut Spool| all(spool)[..2].to_vec();
    let (first, begin) = (last + 1, 10 * last);
    let expected = [format!("gap {first}-{last} {begin}..{}", 10 * first), format!("{first}F")];
    assert_eq!(reported(&mut spool), expected, "an empty hole: it has nothing to be compared with");
    let copy = killed(dir.path());
    assert_eq!(reported(&mut open(copy.path(), 64 << 10, SyncPolicy::Always)), expected);
    let mut cursor = first;
    let mut out = Vec::new();
    spool.read(&mut cursor, 1, &mut out);
    assert_eq!(out[0].0, first, "who has read up to there misses nothing");
    spool.ack(first);
    assert_eq!(all(&mut spool)[0], format!("{first}F"));
}

#[test]
fn snapshots_of_another_machine_are_not_sent_in_this_ones_name() {
    let dir = tempfile::tempdir().unwrap();
    let mut spool = open(dir.path(), 8 << 20, HOUR);
    append_many(&mut spool, 5, 100);
    drop(spool);
    let other = Origin { host: HostId([9; 16]), ..ORIGIN };
    let refused = Spool::open_backlog(&options(dir.path(), 8 << 20, HOUR), other);
    assert!(matches!(refused, Err(SpoolError::Foreign { .. })), "{refused:?}");
}

#[test]
fn a_snapshot_that_no_message_can_carry_is_a_hole() {
    let dir = tempfile::tempdir().unwrap();
    let mut spool = open(dir.path(), 256 << 20, HOUR);
    append_many(&mut spool, 2, 100);
    append(&mut spool, 5 << 20, true);
    append_many(&mut spool, 2, 100);
    assert_eq!(all(&mut spool), ["1F", "2", "gap 3-3 20..40", "4F", "5"]);
    assert_eq!((spool.counts().lost, spool.counts().waiting), (1, 5));
}
