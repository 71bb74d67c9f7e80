//! The writer thread: what fits is stored, what does not is counted, whatever the disk does.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use cpumon_model::{BootId, Interval, LossCounts, Trust};
use cpumon_store::{
    Gap, Query, QueueOptions, Queued, Reader, Receipt, ReceiptRequest, StoreOptions, StoreState, TimeRange,
    WriterThread,
};
use rusqlite::Connection;

use crate::data;
use crate::round_trip::read_all;

const LONG: Duration = Duration::from_mins(2);

#[test]
fn what_is_queued_is_stored() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sqlite");
    let info = data::host(1);
    let day = data::day(&info, 1, 300, 40);
    let thread = WriterThread::spawn(&path, &StoreOptions::default(), &QueueOptions::default()).unwrap();
    let handle = thread.handle();
    for interval in day.iter().chain(&day[..5]) {
        assert_eq!(handle.try_put(&info, Trust::Local, Some(&data::loss(1)), interval), Queued::Yes);
    }
    assert!(handle.flush(LONG));
    let expected: Vec<Interval> = day.iter().map(data::active).collect();
    assert_eq!(read_all(&Reader::open(&path).unwrap(), &Query::new(info.host)), expected);
    let status = thread.stop();
    assert_eq!((status.stored_intervals, status.duplicate_intervals, status.dropped_intervals), (300, 5, 0));
    assert_eq!(
        status.stored_thread_rows,
        expected.iter().map(|interval| interval.threads.len() as u64).sum::<u64>()
    );
    let queued = handle.try_put(&info, Trust::Local, None, &day[0]);
    assert_eq!(queued, Queued::NoSpace, "a stopped writer takes nothing");
}

#[test]
fn while_the_disk_is_slow_receiving_goes_on_and_drops_are_counted_and_become_a_gap() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sqlite");
    let info = data::host(1);
    let day = data::day(&info, 1, 200, 40);
    let queue =
        QueueOptions { max_intervals: 50, commit_every: Duration::from_millis(20), ..Default::default() };
    let thread = WriterThread::spawn(&path, &StoreOptions::default(), &queue).unwrap();
    let handle = thread.handle();
    // Another program's transaction: the writer waits for it as it would for a disk.
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    // This ends although the other transaction does not: putting does not wait for the store.
    let put = |interval: &&Interval| handle.try_put(&info, Trust::Local, None, interval) == Queued::Yes;
    let taken = day.iter().filter(put).count();
    assert!((50..150).contains(&taken), "{taken}");
    let dropped = u64::try_from(day.len() - taken).unwrap();
    assert_eq!(handle.dropped(info.host), dropped);
    other.execute_batch("ROLLBACK").unwrap();
    assert!(handle.flush(LONG));
    let status = thread.stop();
    assert_eq!(status.state, StoreState::Ok);
    assert_eq!((status.stored_intervals, status.dropped_intervals), (taken as u64, dropped));
    let gaps: i64 = other.query_row("SELECT sum(intervals) FROM gap", [], |row| row.get(0)).unwrap();
    assert_eq!(gaps.cast_unsigned(), dropped);
}

#[test]
fn a_full_store_stops_storing_says_so_and_resumes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sqlite");
    let info = data::host(1);
    let day = data::day(&info, 1, 400, 200);
    let queue = QueueOptions {
        commit_every: Duration::from_millis(10),
        retry_every: Duration::from_millis(50),
        ..Default::default()
    };
    let small = StoreOptions { max_page_count: Some(60), ..StoreOptions::default() };
    let thread = WriterThread::spawn(&path, &small, &queue).unwrap();
    let handle = thread.handle();
    for interval in &day {
        handle.try_put(&info, Trust::Local, None, interval);
    }
    assert!(handle.flush(LONG));
    let begin = Instant::now();
    while handle.status().dropped_intervals == 0 && begin.elapsed() < LONG {
        std::thread::sleep(Duration::from_millis(5));
    }
    let full = handle.status();
    assert!(full.dropped_intervals > 0, "{full:?}");
    // Space is freed: some rows go, and a few intervals fit again.
    let other = Connection::open(&path).unwrap();
    other.busy_timeout(LONG).unwrap();
    other.execute_batch("DELETE FROM interval WHERE id % 2 = 0").unwrap();
    // One interval after the other, until one is stored: in between, compaction may fill the store again.
    let later = data::day(&info, 1, 1_000, 200).split_off(400);
    let is_stored = |interval: &Interval| {
        let count = "SELECT count(*) FROM interval WHERE sequence = ?1";
        other.query_row(count, [interval.sequence.cast_signed()], |row| row.get::<_, i64>(0)).unwrap() == 1
    };
    let put = later.iter().position(|interval| {
        std::thread::sleep(Duration::from_millis(5));
        handle.try_put(&info, Trust::Local, None, interval);
        assert!(handle.flush(LONG));
        is_stored(interval)
    });
    let status = thread.stop();
    let put = put.unwrap_or_else(|| panic!("nothing is stored any more: {status:?}")) as u64 + 1;
    let gaps: i64 = other.query_row("SELECT sum(intervals) FROM gap", [], |row| row.get(0)).unwrap();
    assert_eq!(gaps.cast_unsigned(), status.dropped_intervals);
    assert_eq!(status.stored_intervals + status.dropped_intervals, 400 + put);
}

/// Remembers each call.
#[derive(Debug, Default)]
struct Notices(Mutex<Vec<(u64, bool)>>);

impl Receipt for Notices {
    fn notify(&self, number: u64, is_stored: bool) {
        self.0.lock().unwrap().push((number, is_stored));
    }
}

#[test]
fn a_receipt_comes_after_the_commit_also_for_what_was_there_already() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sqlite");
    let info = data::host(1);
    let day = data::day(&info, 1, 3, 4);
    let slow = QueueOptions { commit_every: Duration::from_hours(1), ..QueueOptions::default() };
    let thread = WriterThread::spawn(&path, &StoreOptions::default(), &slow).unwrap();
    let (handle, notices) = (thread.handle(), Arc::new(Notices::default()));
    let put = |interval: &Interval, number: u64| {
        let receipt: Arc<dyn Receipt> = notices.clone();
        assert!(handle.try_put_with_receipt(
            &info,
            Trust::Local,
            &LossCounts::default(),
            interval,
            ReceiptRequest { receipt, number }
        ));
    };
    put(&day[0], 1);
    put(&day[1], 2);
    put(&day[0], 3);
    for _ in 0..2 {
        let gap = Gap {
            begin_wall_ns: 5,
            end_wall_ns: 9,
            wall_shift_ns: 0,
            intervals: 4,
            reason: "lost there".into(),
        };
        let receipt: Arc<dyn Receipt> = notices.clone();
        assert!(handle.try_put_gap(&info, Trust::Local, gap, ReceiptRequest { receipt, number: 4 }));
    }
    std::thread::sleep(Duration::from_millis(50));
    assert!(notices.0.lock().unwrap().is_empty(), "nothing is committed yet");
    assert!(handle.flush(LONG));
    assert_eq!(*notices.0.lock().unwrap(), [(1, true), (2, true), (3, true), (4, true), (4, true)]);
    assert_eq!(thread.stop().duplicate_intervals, 1);
    let gaps = Reader::open(&path).unwrap().gaps(info.host, TimeRange::new(0, 100), 10).unwrap();
    assert_eq!(gaps.iter().map(|gap| gap.intervals).collect::<Vec<_>>(), [4], "the same gap once");
}

#[test]
fn what_fails_and_has_a_receipt_is_no_loss_because_it_comes_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sqlite");
    let info = data::host(1);
    let day = data::day(&info, 1, 400, 300);
    let small = StoreOptions { max_page_count: Some(80), ..StoreOptions::default() };
    let often = QueueOptions { commit_every: Duration::from_millis(10), ..QueueOptions::default() };
    let thread = WriterThread::spawn(&path, &small, &often).unwrap();
    let (handle, notices) = (thread.handle(), Arc::new(Notices::default()));
    for (number, interval) in (0..).zip(&day) {
        let receipt: Arc<dyn Receipt> = notices.clone();
        let taken = handle.try_put_with_receipt(
            &info,
            Trust::Local,
            &LossCounts::default(),
            interval,
            ReceiptRequest { receipt, number },
        );
        assert!(taken);
    }
    assert!(handle.flush(LONG));
    let status = thread.stop();
    let notices = notices.0.lock().unwrap().clone();
    assert_eq!(notices.len(), day.len(), "each is notified once");
    let stored = notices.iter().filter(|one| one.1).count() as u64;
    assert!(stored < 400, "{status:?}");
    assert_eq!((status.stored_intervals, status.dropped_intervals), (stored, 0));
    let reader = Reader::open(&path).unwrap();
    assert_eq!(read_all(&reader, &Query::new(info.host)).len() as u64, stored);
    let all = TimeRange::ALL;
    assert!(reader.gaps(info.host, all, 10).unwrap().iter().all(|gap| gap.intervals == 0));
}

#[test]
fn a_flood_of_new_boots_takes_nothing_from_an_enrolled_device() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sqlite");
    let (device, mut stranger) = (data::host(1), data::host(2));
    let day = data::day(&device, 1, 250, 20);
    let mut forged = data::day(&stranger, 1, 1, 4).remove(0);
    let thread = WriterThread::spawn(&path, &StoreOptions::default(), &QueueOptions::default()).unwrap();
    let (handle, notices, begin) = (thread.handle(), Arc::new(Notices::default()), Instant::now());
    for (number, interval) in (0_u64..).zip(&day) {
        for boot in 0..100 {
            (stranger.boot, forged.boot) =
                (BootId(u128::from(number * 100 + boot).to_le_bytes()), stranger.boot);
            handle.try_put(&stranger, Trust::Unauthenticated, Some(&LossCounts::default()), &forged);
        }
        let receipt: Arc<dyn Receipt> = notices.clone();
        let request = ReceiptRequest { receipt, number };
        let loss = LossCounts::default();
        assert!(handle.try_put_with_receipt(&device, Trust::Authenticated, &loss, interval, request));
    }
    assert!(handle.flush(LONG));
    let status = thread.stop();
    assert_eq!(*notices.0.lock().unwrap(), (0..250).map(|number| (number, true)).collect::<Vec<_>>());
    let boots = data::number(&path, "SELECT count(*) FROM boot").cast_unsigned() - 1;
    // Four at once and one a second, of 25,000.
    assert!((1..=5 + begin.elapsed().as_secs()).contains(&boots), "{boots}");
    assert_eq!((status.refused_intervals + boots, status.dropped_intervals), (25_000, 0));
    let reader = Reader::open(&path).unwrap();
    assert_eq!(read_all(&reader, &Query::new(device.host)).len(), 250);
    assert_eq!(data::number(&path, "SELECT count(*) FROM gap"), 0, "a flood fills no table of gaps either");
}
