//! The ring of segments on real directories, with made-up switches: retention, deletion, and the cost of a disk that refuses.

use cpumon_collect::now;
use cpumon_link::attachments::TraceRequests;
use cpumon_trace::{
    Compression, FileHeader, Leaves, SchedEvent, SchedEventKind, TraceInput, TraceReader, TraceSource,
    TraceTask, TraceWindow, WindowLimits, summarise,
};

use super::*;
use crate::small_disk::SmallDisk;

const DISK: FlightDisk = FlightDisk { bytes: 4 << 20, window: Duration::from_secs(5) };
const LENGTH: Duration = Duration::from_hours(1);

/// A recording: the window, the ring, and when its last event was.
struct Made {
    window: TraceWindow,
    ring: DiskRing,
    at_ns: u64,
}

fn made(dir: &Path, disk: FlightDisk) -> Made {
    let header = FileHeader { began: now(), cpus: 2, ..FileHeader::default() };
    let at_ns = header.began.mono_ns;
    let limits = WindowLimits { length_ns: u64::MAX, bytes: 1 << 20 };
    // Not packed, so that sizes are known.
    let window = TraceWindow::new(header, limits, Compression::None).unwrap();
    Made { window, ring: DiskRing::open(dir, disk, LENGTH, at_ns).unwrap(), at_ns }
}

impl Made {
    /// Switches of a period, about 4 bytes each.
    fn record(&mut self, switches: u32) {
        for number in 0..switches {
            self.at_ns += 2_000;
            let (prev, next) = (TraceTask(1 + number % 2), TraceTask(1 + (number + 1) % 2));
            let kind = SchedEventKind::Switch { prev, leaves: Leaves::Ready, next };
            self.window.event(&SchedEvent { at_ns: self.at_ns, cpu: 0, kind });
        }
        self.window.sync(self.at_ns + 1, 0).unwrap();
        while self.ring.write(&mut self.window) {}
    }
}

fn bytes_in(dir: &Path) -> u64 {
    dir.read_dir().unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
}

/// Reads a directory: the number of events, the spans marked as lost, and whether it is whole.
fn read(path: &Path) -> (usize, Vec<(u64, u64)>, bool) {
    let mut reader = TraceReader::open(TraceInput::open(path).unwrap()).unwrap();
    let (mut events, mut lost) = (0, Vec::new());
    let ending = reader.read(&mut |event| match event.kind {
        SchedEventKind::Lost { until_ns, .. } if event.cpu == 0 && until_ns > event.at_ns => {
            lost.push((event.at_ns, until_ns));
        }
        SchedEventKind::Lost { .. } => {}
        _ => events += 1,
    });
    (events, lost, ending.unwrap().is_whole())
}

#[test]
fn what_is_on_the_disk_is_the_last_of_the_recording_and_within_its_limit() {
    let dir = tempfile::tempdir().unwrap();
    let mut made = made(dir.path(), DISK);
    for _ in 0..300 {
        made.record(10_000);
        assert!(bytes_in(dir.path()) <= DISK.bytes);
    }
    let (at_ns, began_ns) = (made.at_ns, made.ring.closed[0].end_ns);
    drop(made);
    let (events, lost, is_whole) = read(dir.path());
    assert!(is_whole && lost.is_empty(), "{lost:?}");
    let kept = usize::try_from((at_ns.cast_signed() - began_ns) / 2_000).unwrap();
    assert!((kept..kept + 100_000).contains(&events), "{events} events, {kept} behind the first segment");
    assert!(bytes_in(dir.path()) > DISK.bytes * 3 / 4, "all of it is used");
}

#[test]
fn segments_of_earlier_recordings_go_first_and_other_files_stay() {
    let dir = tempfile::tempdir().unwrap();
    // A segment is no longer than a window, by the real clock too: the last one must still be open.
    let mut first = made(dir.path(), FlightDisk { window: LENGTH, ..DISK });
    for _ in 0..50 {
        first.record(10_000);
    }
    // Killed in a write: its last segment has no end, and its last part is cut. The file is closed, as the system does for a killed
    // process: on Windows its name would stay otherwise.
    let last = first.ring.open.take().unwrap().path;
    drop(first);
    let last = File::options().write(true).open(last).unwrap();
    last.set_len(last.metadata().unwrap().len() - 3).unwrap();
    drop(last);
    std::fs::write(dir.path().join("mine.trace"), vec![0; 10_000]).unwrap();
    std::fs::write(dir.path().join("ring-notes.txt"), "mine").unwrap();
    let earlier = segments::list(dir.path()).unwrap();
    assert!(earlier.len() > 3);
    let mut second = made(dir.path(), DISK);
    second.record(10_000);
    let both = TraceInput::open(dir.path()).unwrap();
    assert_eq!(both.others, [dir.path().join(format!("ring-{}", earlier[0].recording))]);
    assert!(read(&both.others[0]).0 >= 490_000, "the killed one can be read");
    for _ in 0..150 {
        second.record(10_000);
        assert!(bytes_in(dir.path()) <= DISK.bytes + 10_000 + 4, "with what is not ours");
    }
    assert!(earlier.iter().all(|segment| !segment.path.exists()));
    assert!(dir.path().join("mine.trace").exists() && dir.path().join("ring-notes.txt").exists());
}

#[test]
fn what_is_left_of_earlier_goes_by_the_time_that_passes() {
    let dir = tempfile::tempdir().unwrap();
    let old = dir.path().join(segments::name_of("20200101T000000.000Z", 0));
    std::fs::write(&old, "").unwrap();
    let years_ago = SystemTime::now() - Duration::from_hours(50_000);
    File::options().write(true).open(&old).unwrap().set_modified(years_ago).unwrap();
    let mut made = made(dir.path(), DISK);
    made.record(10);
    assert!(old.exists(), "the clock may be wrong");
    made.ring.length = Duration::ZERO;
    made.ring.evict(0);
    assert!(!old.exists());
}

#[test]
fn a_window_is_the_last_segments_as_one_trace() {
    let dir = tempfile::tempdir().unwrap();
    let requests = Arc::new(TraceRequests::new(PAUSE));
    // 250,000 switches.
    let window = Duration::from_millis(500);
    let mut made = made(dir.path(), FlightDisk { window, ..DISK });
    let paths = [1, 2, 3].map(|number| dir.path().join(format!("flight-{number}.trace")));
    let why = || Why { wall_ns: 7, reason: "cpu>90%".to_owned() };
    for path in &paths {
        for _ in 0..40 {
            made.record(10_000);
        }
        made.ring.save(&mut made.window, path.clone(), why(), &requests).unwrap();
        made.ring.work.0.drain(..).for_each(|thread| thread.join().unwrap());
        let summary = summarise(File::open(path).unwrap()).unwrap().expect("whole, as a receiver wants it");
        assert!(
            (250_000..400_000).contains(&summary.events) && summary.ended_ns == made.at_ns + 1,
            "{summary:?}"
        );
        assert!(bytes_in(dir.path()) <= DISK.bytes);
    }
    // They take half of the space at most, and the oldest go first.
    let windows: u64 = windows_in(dir.path()).unwrap().files.iter().map(|(_, bytes)| bytes).sum();
    assert!(windows <= DISK.bytes / 2);
    assert!(!paths[0].exists() && paths[2].exists());
    // One that does not fit is refused, and costs nothing.
    made.ring.disk.bytes = 1 << 20;
    let error = made.ring.save(&mut made.window, dir.path().join("flight-4.trace"), why(), &requests);
    assert!(error.unwrap_err().error.to_string().contains("--flight-bytes"));
    assert!(paths[2].exists());
}

#[test]
fn a_directory_that_is_gone_costs_only_its_time() {
    let dir = tempfile::tempdir().unwrap();
    let flights = dir.path().join("flights");
    std::fs::create_dir(&flights).unwrap();
    let mut made = made(&flights, DISK);
    made.record(1_000);
    made.ring.close().unwrap();
    let from_ns = made.at_ns + 1;
    std::fs::rename(&flights, dir.path().join("away")).unwrap();
    made.record(1_000);
    assert!(made.ring.paused.is_some());
    assert_eq!(made.ring.warnings.left_out, 1, "it could not be listed, and no segment could begin");
    // Memory is full meanwhile.
    for _ in 0..50 {
        made.record(10_000);
    }
    std::fs::rename(dir.path().join("away"), &flights).unwrap();
    let until_ns = made.window.span_ns().0;
    made.ring.paused = None;
    made.record(1_000);
    drop(made);
    let (events, lost, is_whole) = read(&flights);
    assert_eq!((lost, is_whole), (vec![(from_ns, until_ns)], true));
    assert!(events > 200_000, "{events}");
}

/// Only what could not be deleted by age or size was reported.
#[test]
fn a_segment_that_cannot_be_cut_or_deleted_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let mut made = made(dir.path(), DISK);
    // Neither can be opened to be written, nor deleted as a file, not even by root.
    let path = dir.path().join("ring-directory");
    std::fs::create_dir(&path).unwrap();
    made.ring.cut(&path, 100, 5);
    assert!(made.ring.closed.is_empty());
    assert!(made.ring.warnings.at.is_some());
    assert_eq!(made.ring.warnings.left_out, 1, "of both, the second one waits for the next warning");
}

#[test]
fn a_full_disk_costs_the_oldest_segments() {
    let dir = tempfile::tempdir().unwrap();
    let Some(_disk) = SmallDisk::mount(dir.path(), "2m,mode=700") else { return };
    let mut made = made(dir.path(), FlightDisk { bytes: 8 << 20, ..DISK });
    // Segments of 512 KiB: four fit.
    for _ in 0..200 {
        made.record(10_000);
    }
    assert!(made.ring.warnings.at.is_some(), "it was full");
    let at_ns = made.at_ns;
    drop(made);
    let (events, lost, _) = read(dir.path());
    assert!(events > 100_000, "{events} events, {lost:?}");
    let lost_ns: u64 = lost.iter().map(|(from_ns, until_ns)| until_ns - from_ns).sum();
    // A period that half fits is written again to the next segment.
    assert_eq!(lost_ns, 0, "{lost:?}");
    let newest = segments::list(dir.path()).unwrap().pop().unwrap();
    assert!(
        summarise(File::open(newest.path).unwrap())
            .unwrap()
            .is_none_or(|newest| newest.ended_ns == at_ns + 1)
    );
}
