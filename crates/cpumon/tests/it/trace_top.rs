//! `cpumon trace top`: a trace as if it were live, by its numbers and on the screen.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cpumon::feeds::{ReplayFeed, TraceFeedError};
use cpumon_model::{Comm, Interval, ProcessKey, ThreadKey};
use cpumon_query::Seek;
use cpumon_trace::{
    Compression, FileHeader, Leaves, ReadError, ReportBy, SchedEvent, SchedEventKind, TraceIdentity,
    TraceRange, TraceReader, TraceSource, TraceTask, TraceWriter, analyse,
};
use cpumon_tui::{Feed, Play};

use crate::terminal::Tmux;
use crate::trace_analyses::write;

fn open(file: &Path, every: Duration) -> Result<ReplayFeed, TraceFeedError> {
    let reader = || TraceReader::open(std::fs::File::open(file).unwrap()).unwrap();
    ReplayFeed::of_trace("trace".to_owned(), &mut reader(), &mut reader(), TraceRange::default(), every)
        .map(|(feed, _)| feed)
}

/// Every interval, by steps.
fn all(feed: &mut ReplayFeed) -> Vec<Arc<Interval>> {
    let mut intervals: Vec<Arc<Interval>> = Vec::new();
    let mut at = feed.seek(Seek::After(i64::MIN)).unwrap();
    while let Some(interval) = at {
        at = feed.seek(Seek::After(interval.end.wall_ns)).unwrap();
        intervals.push(interval);
    }
    intervals
}

#[test]
fn its_intervals_are_those_of_the_differ_and_add_up_to_the_report() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("story.trace");
    write(&file);
    let mut reader = TraceReader::open(std::fs::File::open(&file).unwrap()).unwrap();
    let (report, _) = analyse(&mut reader, TraceRange::default()).unwrap();
    let ledger = report.totals().ledger;
    for every_us in [700, 1_000, 2_000, 50_000] {
        let intervals = all(&mut open(&file, Duration::from_micros(every_us)).unwrap());
        assert_eq!(intervals.len() as u64, 6_000_u64.div_ceil(every_us));
        for interval in &intervals {
            let its = &interval.ledger;
            assert_eq!(its.capacity_ns, 2 * interval.duration_ns().cast_signed(), "{interval:?}");
            assert_eq!(its.unattributed_ns(), its.unknown_ns, "{interval:?}");
            let longest = interval.cpus.iter().map(|cpu| cpu.sched.run_queue_max).max();
            assert!(longest.is_some_and(|longest| (1..=4).contains(&longest)), "{longest:?}");
        }
        let sum = |of: &dyn Fn(&Interval) -> i64| intervals.iter().map(|interval| of(interval)).sum::<i64>();
        let run_ns = sum(&|interval| interval.ledger.threads_ns + interval.ledger.exited_ns);
        assert_eq!(run_ns.unsigned_abs(), ledger.run_ns);
        assert_eq!(sum(&|interval| interval.ledger.softirq_ns).unsigned_abs(), ledger.softirq_ns);
        assert_eq!(sum(&|interval| interval.ledger.idle_ns).unsigned_abs(), ledger.idle_ns);
        for row in report.rows(ReportBy::Process, reader.tasks()) {
            let of = |interval: &Interval| {
                let rows = interval.processes.iter().filter(|its| *its.info.name == *row.name);
                rows.map(|its| its.delta.run_delay_ns).sum::<i64>()
            };
            let ready_ns = row.totals.ready_woken_ns + row.totals.ready_preempted_ns;
            assert_eq!(sum(&of).unsigned_abs(), ready_ns, "{} every {every_us}", row.name);
        }
    }
}

#[test]
fn it_plays_stops_and_steps() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("story.trace");
    write(&file);
    let mut feed = open(&file, Duration::from_millis(1)).unwrap();
    let first = feed.poll().unwrap().expect("the first is there at once");
    assert_eq!(first.sequence, 1);
    feed.play(Play::Toggle);
    assert!(feed.poll().unwrap().is_none() && !feed.playback().unwrap().is_playing);
    let third = feed.seek(Seek::At(first.end.wall_ns + 1_500_000)).unwrap().unwrap();
    assert_eq!(third.sequence, 3);
    assert_eq!(feed.seek(Seek::Before(third.end.wall_ns)).unwrap().unwrap().sequence, 2);
    assert!(feed.seek(Seek::Before(first.end.wall_ns)).unwrap().is_none());
    feed.play(Play::Toggle);
    feed.play(Play::Faster);
    let mut seen = Vec::new();
    while !feed.playback().unwrap().is_at_end {
        seen.extend(feed.poll().unwrap().map(|interval| interval.sequence));
    }
    assert_eq!(seen, [3, 4, 5, 6], "on from where it was");
}

/// A trace of one switch that names `threads` threads and is `seconds` long.
fn write_long(path: &Path, threads: u32, seconds: u64) {
    let mut writer = TraceWriter::new(Vec::new(), &FileHeader::default(), Compression::None).unwrap();
    for number in 1..=threads {
        writer.identity(&TraceIdentity {
            task: TraceTask(number),
            at_ns: 0,
            thread: ThreadKey { tid: number, start_ns: 0 },
            process: ProcessKey { pid: number, start_ns: 0 },
            group: 0,
            comm: Comm::from("idle"),
            program: "idle".as_bytes().into(),
            is_executable: false,
            is_kernel: false,
        });
    }
    let kind = SchedEventKind::Switch { prev: TraceTask::IDLE, next: TraceTask(1), leaves: Leaves::Ready };
    writer.event(&SchedEvent { at_ns: 1_000, cpu: 0, kind });
    std::fs::write(path, writer.finish(seconds * 1_000_000_000, 0).unwrap().0).unwrap();
}

/// Only rows were counted: a file of 170 bytes took 5 GB.
#[test]
fn intervals_without_rows_are_limited() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("long.trace");
    write_long(&file, 1, 30_000);
    let opened = open(&file, Duration::from_millis(100));
    assert!(matches!(opened, Err(TraceFeedError::TooMany)), "{:?}", opened.err());
    assert_eq!(all(&mut open(&file, Duration::from_secs(10)).unwrap()).len(), 3_000);
}

#[test]
fn threads_that_all_intervals_would_read_are_limited() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("threads.trace");
    write_long(&file, 30_000, 3_000);
    let error = open(&file, Duration::from_millis(100)).err().unwrap();
    // And one CPU.
    let expected = ReadError::TooManySnapshots { snapshots: 30_001, threads: 30_001 };
    assert_eq!(error.to_string(), expected.to_string());
    assert_eq!(all(&mut open(&file, Duration::from_mins(25)).unwrap()).len(), 2);
}

#[test]
fn the_screen_shows_it() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("story.trace");
    write(&file);
    let top = format!("{} trace top {} -d 2ms", env!("CARGO_BIN_EXE_cpumon"), file.display());
    let Some(tmux) = Tmux::start(&top) else { return };
    // At the end spin and the last program ran half of the time and more.
    let screen = tmux.wait_for("the end of the trace", |screen| {
        screen.contains("device1") && screen.contains("END") && screen.contains("spin")
    });
    assert!(screen.contains("story.trace") && !screen.contains('\u{1b}'), "{screen}");
    tmux.keys(&["["]);
    tmux.wait_for("the interval before", |screen| screen.contains("STOPPED") && screen.contains("spin"));
    tmux.keys(&["q"]);
}
