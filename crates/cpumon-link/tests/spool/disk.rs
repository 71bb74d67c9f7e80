//! A spool on a disk that is full or refuses, and comes back: it continues, and the numbers show the loss. A read-only disk is an error at
//! the start.

use cpumon_link::spool::{Spool, SpoolError, SyncPolicy};
use cpumon_wire::spool::GapReason;

use crate::segments::{ORIGIN, append, assert_all_accounted, assert_as_appended, held, options};
use crate::small_disk::SmallDisk;

#[test]
fn on_a_full_disk_it_waits_then_counts_and_resumes_when_there_is_space() {
    let dir = tempfile::tempdir().unwrap();
    let Some(_disk) = SmallDisk::mount(dir.path(), "1m") else { return };
    let spool_dir = dir.path().join("spool");
    let options = options(&spool_dir, 800_000, SyncPolicy::Always);
    let mut spool = Spool::open(&options, ORIGIN).unwrap();
    append(&mut spool, 1..=100, 500);
    let filler = dir.path().join("filler");
    // It takes all that is left.
    let _ = std::fs::write(&filler, vec![1; 2 << 20]);
    let lost = append(&mut spool, 101..=130, 500);
    assert_eq!(lost, 0, "a short while costs nothing: it waits in memory");
    assert!(spool.status().waiting > 0 && spool.status().trouble.is_some(), "{:?}", spool.status());
    let lost = append(&mut spool, 131..=1_000, 500);
    assert!(lost > 100, "{lost}");
    assert_eq!(spool.status().lost_reason, GapReason::NoSpace);
    std::fs::remove_file(&filler).unwrap();
    assert_eq!(append(&mut spool, 1_001..=1_100, 500), 0);
    let status = spool.close();
    assert_eq!((status.lost, status.trouble, status.waiting), (lost, None, 0));
    let held = held(&spool_dir);
    assert_as_appended(&held);
    assert_all_accounted(&held, 1_100);
    let full = held.gaps.iter().find(|gap| gap.reason == GapReason::NoSpace).unwrap();
    assert_eq!(full.count(), lost);
    assert_eq!(full.begin_wall_ns, 1_000 * (full.first.cast_signed() - 1));
    assert_eq!(full.end_wall_ns, 1_000 * (full.last.cast_signed() + 1));
}

#[test]
fn what_was_lost_on_a_full_disk_is_known_after_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let Some(_disk) = SmallDisk::mount(dir.path(), "1m") else { return };
    let spool_dir = dir.path().join("spool");
    let options = options(&spool_dir, 800_000, SyncPolicy::Always);
    let mut spool = Spool::open(&options, ORIGIN).unwrap();
    append(&mut spool, 1..=100, 500);
    let filler = dir.path().join("filler");
    let _ = std::fs::write(&filler, vec![1; 2 << 20]);
    let lost = append(&mut spool, 101..=1_000, 500);
    assert!(lost > 100);
    // What a kill leaves: the files as they are now.
    let copy = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(&spool_dir).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
    }
    let options = crate::segments::options(copy.path(), 800_000, SyncPolicy::Always);
    let mut next = Spool::open(&options, ORIGIN).unwrap();
    append(&mut next, 1_001..=1_010, 500);
    drop(next);
    let held = held(copy.path());
    assert_as_appended(&held);
    // All 900 are in the hole or there; those that waited in memory died with the writer.
    assert_all_accounted(&held, 1_010);
    let [gap] = held.gaps.as_slice() else { panic!("{:?}", held.gaps) };
    assert!(gap.reason == GapReason::NoSpace && gap.last == 1_000 && gap.count() > lost, "{gap:?}");
}

#[test]
fn what_waits_for_a_full_disk_is_a_hole_after_a_kill_and_after_an_end() {
    for is_killed in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let Some(_disk) = SmallDisk::mount(dir.path(), "1m") else { return };
        let options = options(&dir.path().join("spool"), 800_000, SyncPolicy::Always);
        let mut spool = Spool::open(&options, ORIGIN).unwrap();
        append(&mut spool, 1..=100, 500);
        let filler = dir.path().join("filler");
        let _ = std::fs::write(&filler, vec![1; 2 << 20]);
        assert_eq!(append(&mut spool, 101..=130, 500), 0);
        assert!(spool.status().waiting > 0, "in memory, and nowhere else");
        let copy = tempfile::tempdir().unwrap();
        let after = if is_killed { copy.path().into() } else { options.dir.clone() };
        if is_killed {
            for entry in std::fs::read_dir(&options.dir).unwrap() {
                let entry = entry.unwrap();
                std::fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
            }
        } else {
            drop(spool);
        }
        std::fs::remove_file(&filler).unwrap();
        let options = crate::segments::options(&after, 800_000, SyncPolicy::Always);
        let mut next = Spool::open(&options, ORIGIN).unwrap();
        append(&mut next, 131..=140, 500);
        drop(next);
        let held = held(&after);
        assert_as_appended(&held);
        assert_all_accounted(&held, 140);
        let [gap] = held.gaps.as_slice() else { panic!("killed: {is_killed}: {:?}", held.gaps) };
        assert_eq!((gap.last, gap.reason), (130, GapReason::NoSpace), "killed: {is_killed}");
    }
}

#[test]
fn a_disk_that_is_full_from_the_start_is_no_reason_not_to_start() {
    let dir = tempfile::tempdir().unwrap();
    let Some(_disk) = SmallDisk::mount(dir.path(), "1m") else { return };
    let filler = dir.path().join("filler");
    let _ = std::fs::write(&filler, vec![1; 2 << 20]);
    let spool_dir = dir.path().join("spool");
    let mut spool = Spool::open(&options(&spool_dir, 800_000, SyncPolicy::Always), ORIGIN).unwrap();
    append(&mut spool, 1..=10, 100);
    assert!(spool.status().trouble.is_some());
    std::fs::remove_file(&filler).unwrap();
    append(&mut spool, 11..=20, 100);
    assert_eq!(spool.close().lost, 0);
    assert_eq!(held(&spool_dir).snapshots.len(), 20);
}

#[test]
fn a_directory_that_cannot_be_written_is_reported_at_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let Some(_disk) = SmallDisk::mount(dir.path(), "1m,ro") else { return };
    let options = options(&dir.path().join("spool"), 800_000, SyncPolicy::Always);
    let error = Spool::open(&options, ORIGIN).unwrap_err();
    assert!(matches!(error, SpoolError::Io { .. }) && error.to_string().contains("Read-only"), "{error}");
}

#[test]
fn a_disk_that_refuses_is_survived() {
    let dir = tempfile::tempdir().unwrap();
    let options = options(dir.path(), 400_000, SyncPolicy::Every(std::time::Duration::from_millis(1)));
    let mut spool = Spool::open(&options, ORIGIN).unwrap();
    append(&mut spool, 1..=100, 500);
    drop(spool);
    let mut spool = Spool::open(&options, ORIGIN).unwrap();
    // Something else is where the next segment is to be.
    let aside = dir.path().join("00000000000000000101.segment");
    std::fs::create_dir(&aside).unwrap();
    assert!(append(&mut spool, 101..=600, 500) > 100, "{:?}", spool.status());
    assert_eq!(spool.status().lost_reason, GapReason::DiskFailed);
    std::fs::remove_dir(&aside).unwrap();
    assert_eq!(append(&mut spool, 601..=700, 500), 0);
    let status = spool.close();
    assert_eq!(status.trouble, None);
    let held = held(dir.path());
    assert_as_appended(&held);
    assert_all_accounted(&held, 700);
}
