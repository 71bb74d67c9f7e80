//! A spool on a sound disk: what was accepted is read back, in order, across restarts; the size holds; holes are reported.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use cpumon_link::spool::{ReadReport, Spool, SpoolError, SpoolEvent, SpoolOptions, SpoolReader, SyncPolicy};
use cpumon_model::{BootId, HostId};
use cpumon_wire::spool::{Gap, GapReason, Origin};
use proptest::prelude::*;

pub const ORIGIN: Origin = Origin { host: HostId([1; 16]), boot: BootId([2; 16]) };

/// What a spool holds: number, moment and frames of each snapshot; holes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    pub snapshots: Vec<(u64, i64, Vec<Vec<u8>>)>,
    pub gaps: Vec<Gap>,
    pub report: ReadReport,
}

pub fn held(dir: &Path) -> Held {
    let mut held = Held::default();
    let read = SpoolReader::open(dir).unwrap().read(&mut |event| {
        match event {
            SpoolEvent::Segment(header) => assert_eq!(header.origin, ORIGIN),
            SpoolEvent::Snapshot(snapshot) => held.snapshots.push((
                snapshot.number,
                snapshot.wall_ns,
                snapshot.frames().map(<[u8]>::to_vec).collect(),
            )),
            SpoolEvent::Gap(gap) => held.gaps.push(gap),
        }
        ControlFlow::Continue(())
    });
    held.report = read.unwrap();
    held
}

/// The numbers of the snapshots and of the holes together are 1, 2, 3, … without exception.
pub fn assert_all_accounted(held: &Held, last: u64) {
    let mut ranges: Vec<(u64, u64)> = held.snapshots.iter().map(|row| (row.0, row.0)).collect();
    ranges.extend(held.gaps.iter().map(|gap| (gap.first, gap.last)));
    ranges.sort_unstable();
    let mut next = 1;
    for (first, end) in ranges {
        assert_eq!(first, next, "{:?}", held.gaps);
        next = end + 1;
    }
    assert_eq!(next, last + 1, "{:?}", held.gaps);
}

pub fn options(dir: &Path, max_bytes: u64, sync: SyncPolicy) -> SpoolOptions {
    SpoolOptions { dir: dir.into(), max_bytes, sync, interval: Duration::from_millis(1) }
}

/// Snapshot number `number`: its moment, and a frame that holds both.
pub fn frame(number: u64, bytes: usize) -> (i64, Vec<u8>) {
    let mut frame = number.to_le_bytes().to_vec();
    frame.resize(bytes.max(8), number.to_le_bytes()[0]);
    (1_000 * number.cast_signed(), frame)
}

/// Appends snapshots; a full one is ten times as long.
pub fn append(spool: &mut Spool, numbers: std::ops::RangeInclusive<u64>, bytes: usize) -> u64 {
    let mut lost = 0;
    for number in numbers {
        let is_full = spool.wants_full();
        let (wall_ns, frame) = frame(number, if is_full { bytes * 10 } else { bytes });
        lost += u64::from(spool.append(wall_ns, is_full, &[frame]).is_err());
    }
    lost
}

/// Checks that each held snapshot is as it was appended.
pub fn assert_as_appended(held: &Held) {
    for (number, wall_ns, frames) in &held.snapshots {
        assert_eq!(*wall_ns, frame(*number, 0).0);
        assert_eq!(frames.len(), 1);
        assert!(frames[0].starts_with(&number.to_le_bytes()), "{number}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn what_was_accepted_is_read_back_over_any_number_of_restarts(
        runs in prop::collection::vec((1..40_u64, 0..3_u8), 1..6)
    ) {
        let dir = tempfile::tempdir().unwrap();
        let mut next = 1;
        for (count, policy) in runs {
            let sync = match policy {
                0 => SyncPolicy::Always,
                1 => SyncPolicy::Every(Duration::from_hours(1)),
                _ => SyncPolicy::AtEnd,
            };
            let mut spool = Spool::open(&options(dir.path(), 1 << 20, sync), ORIGIN).unwrap();
            append(&mut spool, next..=next + count - 1, 50);
            next += count;
            prop_assert_eq!(spool.close().stored, count);
        }
        let held = held(dir.path());
        prop_assert_eq!(held.snapshots.len() as u64, next - 1);
        prop_assert!(held.gaps.is_empty() && held.report.damaged == 0 && held.report.tail_bytes == 0);
        assert_as_appended(&held);
    }
}

fn bytes_on_disk(dir: &Path) -> u64 {
    std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
}

#[test]
fn the_size_holds_and_what_was_dropped_is_a_hole_at_the_begin() {
    for sync in [SyncPolicy::Always, SyncPolicy::AtEnd, SyncPolicy::Every(Duration::from_millis(5))] {
        let dir = tempfile::tempdir().unwrap();
        let options = options(dir.path(), 100_000, sync);
        let mut spool = Spool::open(&options, ORIGIN).unwrap();
        for number in 1..=3_000 {
            append(&mut spool, number..=number, 200);
            assert!(spool.status().bytes <= 100_000);
            // The state and the lock are small and do not grow.
            assert!(bytes_on_disk(dir.path()) <= 100_000 + 1_100);
        }
        let status = spool.close();
        assert_eq!((status.stored, status.lost), (3_000, 0));
        assert!(status.dropped > 1_000, "{status:?}");
        let held = held(dir.path());
        assert_all_accounted(&held, 3_000);
        assert_as_appended(&held);
        let [gap] = held.gaps[..] else { panic!("{:?}", held.gaps) };
        assert_eq!((gap.first, gap.last, gap.reason), (1, status.dropped, GapReason::Dropped));
        assert_eq!((gap.begin_wall_ns, gap.end_wall_ns), (1_000, held.snapshots[0].1));
        assert!(held.snapshots.len() > 200, "most of the size is used: {}", held.snapshots.len());
    }
}

#[test]
fn a_smaller_size_takes_effect_when_the_spool_is_opened() {
    let dir = tempfile::tempdir().unwrap();
    let mut spool = Spool::open(&options(dir.path(), 1 << 20, SyncPolicy::Always), ORIGIN).unwrap();
    append(&mut spool, 1..=3_000, 200);
    drop(spool);
    assert!(bytes_on_disk(dir.path()) > 500_000);
    drop(Spool::open(&options(dir.path(), 200_000, SyncPolicy::Always), ORIGIN).unwrap());
    assert!(bytes_on_disk(dir.path()) < 202_000);
}

#[test]
fn nothing_is_written_before_the_end_where_the_disk_is_to_be_spared() {
    let dir = tempfile::tempdir().unwrap();
    let mut spool = Spool::open(&options(dir.path(), 100_000, SyncPolicy::AtEnd), ORIGIN).unwrap();
    append(&mut spool, 1..=500, 100);
    let mut names = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(!names.any(|name| name.to_string_lossy().contains("segment")));
    assert_eq!((spool.status().written_bytes, spool.status().writes), (0, 0));
    assert!(spool.status().waiting > 300);
    let status = spool.close();
    assert_eq!((status.waiting, held(dir.path()).snapshots.len() as u64), (0, 500 - status.dropped));
}

#[test]
fn writes_are_gathered() {
    let dir = tempfile::tempdir().unwrap();
    let every = SyncPolicy::Every(Duration::from_hours(1));
    let mut spool = Spool::open(&options(dir.path(), 10 << 20, every), ORIGIN).unwrap();
    append(&mut spool, 1..=500, 100);
    assert_eq!(spool.status().writes, 0);
    let status = spool.close();
    assert_eq!((status.writes, status.stored), (1, 500));
}

#[test]
fn a_second_writer_gets_the_pid_of_the_first() {
    let dir = tempfile::tempdir().unwrap();
    let options = options(dir.path(), 100_000, SyncPolicy::Always);
    let first = Spool::open(&options, ORIGIN).unwrap();
    let error = Spool::open(&options, ORIGIN).unwrap_err();
    assert!(matches!(error, SpoolError::Locked { .. }), "{error}");
    assert!(
        error.to_string().ends_with(&format!("is being written by pid {}", std::process::id())),
        "{error}"
    );
    drop(first);
    assert!(Spool::open(&options, ORIGIN).is_ok());
}

#[test]
fn a_reader_beside_the_writer_sees_what_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let mut spool = Spool::open(&options(dir.path(), 1 << 20, SyncPolicy::Always), ORIGIN).unwrap();
    for number in 1..=30 {
        append(&mut spool, number..=number, 100);
        assert_eq!(held(dir.path()).snapshots.len() as u64, number);
    }
}

#[test]
fn a_snapshot_that_fits_nowhere_is_lost_and_the_next_one_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let mut spool = Spool::open(&options(dir.path(), 100_000, SyncPolicy::Always), ORIGIN).unwrap();
    append(&mut spool, 1..=3, 100);
    assert_eq!(spool.append(4_000, false, &[vec![0; 120_000]]), Err(GapReason::NoSpace));
    assert!(spool.wants_full());
    append(&mut spool, 5..=6, 100);
    assert_eq!(spool.close().lost, 1);
    let held = held(dir.path());
    assert_all_accounted(&held, 6);
    // It went when space was needed: the hole takes in what was before it.
    assert_eq!(held.gaps.last().map(|gap| gap.last), Some(4), "{:?}", held.gaps);
}

#[test]
fn an_empty_directory_is_no_recording() {
    let dir = tempfile::tempdir().unwrap();
    assert!(matches!(SpoolReader::open(dir.path()), Err(SpoolError::Empty { .. })));
    assert!(SpoolReader::open(&dir.path().join("none")).unwrap_err().to_string().contains("none"));
    let error = Spool::open(&options(dir.path(), 1_000, SyncPolicy::Always), ORIGIN).unwrap_err();
    assert!(error.to_string().contains("too small"), "{error}");
}

#[test]
fn another_machine_in_the_same_directory_is_another_spool() {
    let dir = tempfile::tempdir().unwrap();
    let options = options(dir.path(), 1 << 20, SyncPolicy::Always);
    let mut spool = Spool::open(&options, ORIGIN).unwrap();
    append(&mut spool, 1..=3, 100);
    drop(spool);
    let other = Origin { host: HostId([9; 16]), ..ORIGIN };
    let mut spool = Spool::open(&options, other).unwrap();
    append(&mut spool, 4..=6, 100);
    drop(spool);
    let reader = SpoolReader::open(dir.path()).unwrap();
    let (first, second) = (reader.header(0).unwrap(), reader.header(1).unwrap());
    assert_ne!(first.spool, second.spool);
    assert_eq!((first.origin.host, second.origin.host), (ORIGIN.host, other.host));
    let (mut numbers, mut gaps) = (Vec::new(), 0);
    let read = reader.read(&mut |event| {
        match event {
            SpoolEvent::Snapshot(snapshot) => numbers.push(snapshot.number),
            SpoolEvent::Gap(_) => gaps += 1,
            SpoolEvent::Segment(_) => {}
        }
        ControlFlow::Continue(())
    });
    assert_eq!((read.unwrap().damaged, gaps, numbers), (0, 0, vec![1, 2, 3, 4, 5, 6]));
}

#[test]
fn a_recording_is_readable_by_its_owner_only() {
    use std::os::unix::fs::MetadataExt;
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("recording");
    let mut spool = Spool::open(&options(&dir, 1 << 20, SyncPolicy::Always), ORIGIN).unwrap();
    append(&mut spool, 1..=3, 50);
    let _ = spool.close();
    let files = std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path());
    let mut modes: Vec<u32> = files.map(|path| path.metadata().unwrap().mode() & 0o777).collect();
    modes.push(dir.metadata().unwrap().mode() & 0o777);
    assert_eq!(modes, [0o600, 0o600, 0o600, 0o700], "segment, state, lock, directory");
}

/// Root's recording in a directory of another user was written to files that this user had made.
#[test]
fn a_file_planted_as_the_next_segment_gets_no_data() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let dir = tempfile::tempdir().unwrap();
    let mut spool = Spool::open(&options(dir.path(), 1 << 20, SyncPolicy::AtEnd), ORIGIN).unwrap();
    let segment = dir.path().join("00000000000000000001.segment");
    std::fs::write(&segment, "").unwrap();
    std::fs::set_permissions(&segment, PermissionsExt::from_mode(0o666)).unwrap();
    let planted = std::fs::File::open(&segment).unwrap();
    assert_eq!(append(&mut spool, 1..=3, 50), 0);
    assert_eq!(spool.close().lost, 0);
    assert_eq!(planted.metadata().unwrap().len(), 0);
    assert_eq!(segment.metadata().unwrap().mode() & 0o777, 0o600);
    assert_eq!(held(dir.path()).snapshots.len(), 3);
}

#[test]
fn links_planted_under_the_names_of_a_spool_keep_their_targets_unchanged() {
    for name in ["lock", "state", "00000000000000000001.segment"] {
        let (dir, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let victim = outside.path().join("victim");
        std::fs::write(&victim, "precious").unwrap();
        std::os::unix::fs::symlink(&victim, dir.path().join(name)).unwrap();
        if let Ok(mut spool) = Spool::open(&options(dir.path(), 1 << 20, SyncPolicy::Always), ORIGIN) {
            append(&mut spool, 1..=3, 50);
            let _ = spool.close();
        }
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious", "{name}");
    }
}
