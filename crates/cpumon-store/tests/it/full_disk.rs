//! A disk that is really full: a small tmpfs and a file that fills it. Needs root.

use std::time::{Duration, Instant};

use cpumon_model::Trust;
use cpumon_store::{
    Query, QueueOptions, Reader, StoreOptions, StoreState, TimeRange, Writer, WriterHandle, WriterThread,
};

use crate::data;
use crate::round_trip::read_all;
use crate::small_disk::SmallDisk;

const LONG: Duration = Duration::from_mins(2);

fn wait_for(handle: &WriterHandle, what: impl Fn(&StoreState) -> bool) -> StoreState {
    let begin = Instant::now();
    while !what(&handle.status().state) && begin.elapsed() < LONG {
        std::thread::sleep(Duration::from_millis(10));
    }
    handle.status().state
}

#[test]
fn a_full_disk_stops_storing_and_storing_resumes_when_there_is_space() {
    let dir = tempfile::tempdir().unwrap();
    let Some(_disk) = SmallDisk::mount(dir.path(), "6m") else { return };
    let path = dir.path().join("s.sqlite");
    let info = data::host(1);
    let day = data::day(&info, 1, 3000, 80);
    let queue = QueueOptions {
        commit_every: Duration::from_millis(20),
        retry_every: Duration::from_millis(100),
        ..Default::default()
    };
    let thread = WriterThread::spawn(&path, &StoreOptions::default(), &queue).unwrap();
    let handle = thread.handle();
    let put = |range: std::ops::Range<usize>| {
        for interval in &day[range] {
            handle.try_put(&info, Trust::Local, None, interval);
        }
    };
    put(0..100);
    assert!(handle.flush(LONG));
    let filler = dir.path().join("filler");
    let _ = std::fs::write(&filler, vec![1; 16 << 20]);
    put(100..2900);
    let state = wait_for(&handle, |state| matches!(state, StoreState::Full { .. }));
    assert!(matches!(state, StoreState::Full { .. }), "{state:?}");
    let readable = read_all(&Reader::open(&path).unwrap(), &Query::new(info.host)).len();
    assert!(readable >= 100, "reading goes on: {readable}");
    std::fs::remove_file(&filler).unwrap();
    let state = wait_for(&handle, |state| *state == StoreState::Ok);
    assert_eq!(state, StoreState::Ok);
    put(2900..3000);
    assert!(handle.flush(LONG));
    let status = thread.stop();
    assert!(status.dropped_intervals > 0);
    let reader = Reader::open(&path).unwrap();
    let stored = read_all(&reader, &Query::new(info.host));
    assert_eq!(stored.last(), day.last().map(data::active).as_ref());
    assert_eq!(stored.len() as u64, status.stored_intervals);
    assert_eq!(status.stored_intervals + status.dropped_intervals, 3000);
    let gaps = reader.gaps(info.host, TimeRange::ALL, 1000).unwrap();
    assert_eq!(gaps.iter().map(|gap| gap.intervals).sum::<u64>(), status.dropped_intervals, "{gaps:?}");
}

#[test]
fn a_store_that_does_not_fit_on_the_disk_leaves_no_file_behind() {
    let dir = tempfile::tempdir().unwrap();
    let Some(_disk) = SmallDisk::mount(dir.path(), "64k") else { return };
    let path = dir.path().join("s.sqlite");
    let error = Writer::open(&path, &StoreOptions::default()).unwrap_err();
    assert!(error.is_no_space(), "{error}");
    let left: Vec<_> =
        std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["s.sqlite-writer"], "only the lock, which is always left");
    // What was there before is not removed, whatever it is.
    std::fs::write(&path, "").unwrap();
    assert!(Writer::open(&path, &StoreOptions::default()).is_err());
    assert!(path.exists());
}
