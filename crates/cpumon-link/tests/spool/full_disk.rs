//! A spool that a connection empties, on a full disk: the newest snapshots are stored, acknowledged ones make space, and the hole says why.

use cpumon_link::Backlog;
use cpumon_link::spool::{Spool, SyncPolicy};
use cpumon_wire::spool::{Entry, GapReason, decode_record};

use crate::backlog::{append_many, killed, open};
use crate::small_disk::SmallDisk;

/// A size that is never the limit here.
const LARGE: u64 = 64 << 20;

/// First, last, begin, end, why.
type Hole = (u64, u64, i64, i64, GapReason);

/// Everything from the start on: numbers of snapshots; holes.
fn all(spool: &mut Spool) -> (Vec<u64>, Vec<Hole>) {
    let (mut cursor, mut snapshots, mut gaps) = (spool.start(), Vec::new(), Vec::new());
    loop {
        let mut out = Vec::new();
        spool.read(&mut cursor, 5_000, &mut out);
        if out.is_empty() {
            return (snapshots, gaps);
        }
        for (number, record) in out {
            match decode_record(&record).unwrap() {
                Entry::Gap(gap) => {
                    gaps.push((gap.first, gap.last, gap.begin_wall_ns, gap.end_wall_ns, gap.reason));
                }
                _ => snapshots.push(number),
            }
        }
    }
}

/// A spool on a full disk of 64 KB, and how many snapshots are on that disk. Snapshots have 1 KB, are ten ns apart, and a receiver has the
/// first 20.
fn fill(dir: &std::path::Path, count: u64) -> (Spool, u64) {
    let mut spool = open(dir, LARGE, SyncPolicy::Always);
    append_many(&mut spool, 20, 1000);
    spool.ack(20);
    append_many(&mut spool, count - 20, 1000);
    assert!(spool.status().trouble.is_some(), "{:?}", spool.status());
    assert_eq!(spool.counts().lost, 0, "it waits in memory");
    let on_disk = count - spool.status().waiting;
    (spool, on_disk)
}

#[test]
fn at_the_end_the_oldest_makes_space_for_the_newest_and_the_hole_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let Some(_disk) = SmallDisk::mount(dir.path(), "64k") else { return };
    let (mut spool, _) = fill(dir.path(), 70);
    let read = all(&mut spool);
    assert_eq!((read.0, read.1.len()), ((1..=70).collect(), 0), "nothing is missing as long as it runs");
    drop(spool);
    let mut spool = open(dir.path(), LARGE, SyncPolicy::Always);
    append_many(&mut spool, 3, 1000);
    let (snapshots, gaps) = all(&mut spool);
    assert_eq!(gaps.len(), 1, "{gaps:?}");
    let (first, last, begin, end, reason) = gaps[0];
    assert_eq!((first, begin, end, reason), (21, 200, 10 * (last + 1).cast_signed(), GapReason::NoSpace));
    assert_eq!(snapshots, (last + 1..=73).collect::<Vec<u64>>());
    assert!(last < 60, "what fits is there: {last}");
    spool.ack(73);
    assert_eq!((spool.counts().waiting, all(&mut spool).1.len()), (0, 0));
}

#[test]
fn what_waited_for_a_full_disk_when_it_was_killed_is_a_hole_that_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let Some(_disk) = SmallDisk::mount(dir.path(), "64k") else { return };
    let (_spool, on_disk) = fill(dir.path(), 70);
    let copy = killed(dir.path());
    let mut spool = open(copy.path(), LARGE, SyncPolicy::Always);
    append_many(&mut spool, 3, 1000);
    let (snapshots, gaps) = all(&mut spool);
    let begin = 10 * on_disk.cast_signed();
    assert_eq!(gaps, [(on_disk + 1, 70, begin, 710, GapReason::NoSpace)]);
    assert_eq!(snapshots, (1..=on_disk).chain(71..=73).collect::<Vec<u64>>());
}

#[test]
fn what_a_receiver_has_makes_space_on_a_full_disk() {
    let dir = tempfile::tempdir().unwrap();
    let Some(_disk) = SmallDisk::mount(dir.path(), "64k") else { return };
    let (mut spool, _) = fill(dir.path(), 70);
    for number in 71..=400 {
        append_many(&mut spool, 1, 1000);
        spool.ack(number - 5);
    }
    assert_eq!((spool.counts().lost, spool.counts().waiting), (0, 5));
    let copy = killed(dir.path());
    let mut next = open(copy.path(), LARGE, SyncPolicy::Always);
    append_many(&mut next, 1, 1000);
    let (snapshots, gaps) = all(&mut next);
    assert_eq!((snapshots.last(), gaps), (Some(&401), Vec::new()), "everything is on the disk again");
}

#[test]
fn nothing_is_missing_if_a_receiver_has_what_a_full_disk_did_not_take() {
    for acked in [70, 65] {
        let dir = tempfile::tempdir().unwrap();
        let Some(_disk) = SmallDisk::mount(dir.path(), "64k") else { return };
        let (mut spool, on_disk) = fill(dir.path(), 70);
        assert!(on_disk < acked);
        spool.ack(acked);
        let copy = killed(dir.path());
        let mut spool = open(copy.path(), LARGE, SyncPolicy::Always);
        append_many(&mut spool, 2, 1000);
        let (snapshots, gaps) = all(&mut spool);
        let (first, begin) = (acked + 1, 10 * acked.cast_signed());
        let hole = (acked < 70).then_some((first, 70, begin, 710, GapReason::NoSpace));
        assert_eq!((snapshots, gaps), (vec![71, 72], hole.into_iter().collect()));
    }
}

#[test]
fn without_memory_for_what_a_full_disk_does_not_take_the_oldest_goes() {
    let dir = tempfile::tempdir().unwrap();
    let Some(_disk) = SmallDisk::mount(dir.path(), "64k") else { return };
    // A quarter of this size may wait in memory.
    let mut spool = open(dir.path(), 256 << 10, SyncPolicy::Always);
    append_many(&mut spool, 20, 1000);
    spool.ack(20);
    append_many(&mut spool, 300, 1000);
    let (snapshots, gaps) = all(&mut spool);
    let (first, last, begin, _, reason) = gaps[0];
    assert_eq!((gaps.len(), first, begin, reason), (1, 21, 200, GapReason::NoSpace));
    assert_eq!(snapshots, (last + 1..=320).collect::<Vec<u64>>());
    assert_eq!((spool.counts().lost, spool.counts().waiting), (last - 20, 320 - last));
    assert!(last < 260, "disk and memory are used: {last}");
}

#[test]
fn a_hole_that_goes_with_what_follows_keeps_its_begin() {
    let dir = tempfile::tempdir().unwrap();
    let Some(_disk) = SmallDisk::mount(dir.path(), "64k") else { return };
    let (_spool, on_disk) = fill(dir.path(), 70);
    let copy = killed(dir.path());
    open(copy.path(), LARGE, SyncPolicy::Always).ack(on_disk);
    // Nothing is left but the hole in the state.
    let mut spool = open(copy.path(), 64 << 10, SyncPolicy::Always);
    assert_eq!(spool.status().segments, 0);
    append_many(&mut spool, 100, 1000);
    let (snapshots, gaps) = all(&mut spool);
    let last = snapshots[0] - 1;
    let hole =
        (on_disk + 1, last, 10 * on_disk.cast_signed(), 10 * (last + 1).cast_signed(), GapReason::Dropped);
    assert_eq!(gaps, [hole]);
}

/// It had the reason of the hole before it.
#[test]
fn a_hole_directly_behind_an_acknowledged_one_has_a_reason_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let Some(_disk) = SmallDisk::mount(dir.path(), "512k") else { return };
    let others = dir.path().join("others");
    std::fs::write(&others, vec![0; 400 << 10]).unwrap();
    let mut spool = open(dir.path(), 256 << 10, SyncPolicy::Always);
    append_many(&mut spool, 20, 1000);
    spool.ack(20);
    while spool.counts().lost == 0 {
        append_many(&mut spool, 1, 1000);
    }
    let (_, gaps) = all(&mut spool);
    let (first, last, begin, end, reason) = gaps[0];
    assert_eq!((gaps.len(), first, begin, reason), (1, 21, 200, GapReason::NoSpace));
    spool.ack(last);
    // Now the spool is full before the disk is.
    std::fs::remove_file(others).unwrap();
    append_many(&mut spool, 600, 1000);
    let (_, gaps) = all(&mut spool);
    let (first, _, begin, _, reason) = gaps[0];
    assert_eq!((gaps.len(), first, begin, reason), (1, last + 1, end, GapReason::Dropped));
}
