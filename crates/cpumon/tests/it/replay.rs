//! Playing a log: every interval in order, any moment, with the same result as a store that imported it.

use std::sync::Arc;
use std::time::Instant;

use cpumon::feeds::{ReplayFeed, StoreFeed};
use cpumon_model::{BootId, Interval};
use cpumon_query::{Seek, TaskKey};
use cpumon_tui::{Feed, HistoryPoint, Play, Subject};

use crate::made_up::{MadeUp, write_log, write_log_of};
use crate::support::{PATIENCE, ok, run, text};

fn log(snapshots: u64, max_bytes: u64) -> (tempfile::TempDir, std::path::PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    write_log(&path, snapshots, max_bytes);
    (dir, path)
}

/// Everything that a feed hands out until its end.
fn all(feed: &mut ReplayFeed) -> Vec<Arc<Interval>> {
    let mut intervals = Vec::new();
    while !feed.playback().unwrap().is_at_end {
        intervals.extend(feed.poll().unwrap());
    }
    intervals
}

fn run_ns(interval: &Interval) -> i64 {
    interval.processes.iter().map(|row| row.delta.run_ns).sum()
}

#[test]
fn a_log_plays_every_interval_in_order() {
    for (snapshots, max_bytes) in [(400, 2 << 20), (400, 300_000)] {
        let (_dir, path) = log(snapshots, max_bytes);
        let segments = std::fs::read_dir(&path).unwrap().count() - 2;
        assert!(segments >= 2, "{segments}");
        let intervals = all(&mut ReplayFeed::open(&path, false).unwrap());
        assert_eq!(intervals.last().unwrap().sequence, snapshots - 1);
        assert!(intervals.windows(2).all(|pair| {
            pair[0].sequence + 1 == pair[1].sequence
                && pair[0].end == pair[1].begin
                && pair[1].flags.is_empty()
        }));
        assert_eq!(intervals[0].sequence == 1, max_bytes > 1 << 20);
    }
}

#[test]
fn any_moment_shows_what_a_store_shows_that_took_the_log_over() {
    let dir = tempfile::tempdir().unwrap();
    let (path, store) = (dir.path().join("log"), dir.path().join("s.db"));
    // Its intervals begin and end with a ms, as the points of an answer do.
    let source = MadeUp::new(5, BootId([1; 16])).at(4_000_000_000_000_000_000).every(100_000_000);
    write_log_of(source, "made-up", &path, 400, 2 << 20);
    ok(&["import", &path.display().to_string(), "--store", &store.display().to_string()]);
    let mut feed = ReplayFeed::open(&path, false).unwrap();
    let mut kept = StoreFeed::open(&store, None, "").unwrap();
    let intervals = all(&mut ReplayFeed::open(&path, false).unwrap());
    let (first, last) = (intervals[0].begin.wall_ns, intervals.last().unwrap().end.wall_ns);
    let mut moments = vec![first - 1, first, first + 1, last, last + 1, i64::MAX];
    moments.extend(intervals.iter().step_by(37).flat_map(|interval| {
        let end = interval.end.wall_ns;
        [end - 1, end, end + 1, end - interval.duration_ns().cast_signed() / 2]
    }));
    for wall_ns in moments {
        for to in [Seek::At(wall_ns), Seek::Before(wall_ns), Seek::After(wall_ns)] {
            let (played, stored) = (feed.seek(to).unwrap(), kept.seek(to).unwrap());
            let counted = |found: &Option<Arc<Interval>>| {
                found.as_ref().map(|interval| (interval.sequence, run_ns(interval), interval.ledger))
            };
            assert_eq!(counted(&played), counted(&stored), "{to:?}");
        }
    }
    let middle = &intervals[200];
    let task = Subject::Task(TaskKey::Process(
        middle.processes.iter().find(|row| row.delta.run_ns > 0).unwrap().key,
    ));
    let end_ns = middle.end.wall_ns;
    for of in [task, Subject::Host] {
        // The same three intervals: those that end in the one range, and fill the other.
        let played = feed.history(of, end_ns - 299_999_999..end_ns + 1).unwrap();
        assert!(played.as_ref().is_some_and(|points| points.iter().any(|point| point.run_ns > 0)), "{of:?}");
        let sum =
            |points: Option<Vec<HistoryPoint>>| points.unwrap().iter().map(|point| point.run_ns).sum::<i64>();
        assert_eq!(sum(played), sum(kept.history(of, end_ns - 300_000_000..end_ns).unwrap()), "{of:?}");
    }
}

#[test]
fn it_stops_steps_and_goes_on_from_where_it_is() {
    let (_dir, path) = log(50, 64 << 20);
    let mut feed = ReplayFeed::open(&path, false).unwrap();
    let third = (0..3).map(|_| feed.poll().unwrap().unwrap()).last().unwrap();
    assert_eq!(third.sequence, 3);
    feed.play(Play::Toggle);
    assert_eq!(feed.poll().unwrap(), None);
    assert_eq!(feed.seek(Seek::Before(third.end.wall_ns)).unwrap().unwrap().sequence, 2);
    assert_eq!(feed.seek(Seek::After(third.end.wall_ns)).unwrap().unwrap().sequence, 4);
    assert_eq!(feed.poll().unwrap(), None, "going to a moment stops it");
    feed.play(Play::Toggle);
    assert_eq!(feed.poll().unwrap().unwrap().sequence, 5);
    assert_eq!(feed.seek(Seek::Before(i64::MAX)).unwrap().unwrap().sequence, 49);
    assert_eq!(feed.seek(Seek::After(i64::MAX)).unwrap(), None);
}

#[test]
fn it_plays_in_its_own_time_and_faster() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    // At the lowest speed it takes minutes until the second interval, and at the highest the whole takes less than a second.
    let source = MadeUp::new(5, BootId([1; 16])).every(10_000_000_000);
    write_log_of(source, "made-up", &path, 40, 64 << 20);
    let mut feed = ReplayFeed::open(&path, true).unwrap();
    for _ in 0..8 {
        feed.play(Play::Slower);
    }
    assert!(feed.playback().unwrap().speed >= 0.05);
    assert!(feed.poll().unwrap().is_some(), "the first at once");
    assert_eq!(feed.poll().unwrap(), None, "the next one in its time");
    for _ in 0..30 {
        feed.play(Play::Faster);
    }
    assert!((1_000.0..2_000.0).contains(&feed.playback().unwrap().speed));
    let begin = Instant::now();
    let mut count = 1;
    while !feed.playback().unwrap().is_at_end && begin.elapsed() < PATIENCE {
        count += feed.poll().unwrap().iter().count();
    }
    assert_eq!(count, 39);
}

#[test]
fn what_is_written_meanwhile_is_played_too() {
    let (_dir, path) = log(10, 64 << 20);
    let mut feed = ReplayFeed::open(&path, false).unwrap();
    assert_eq!(all(&mut feed).len(), 9);
    write_log(&path, 5, 64 << 20);
    let begin = Instant::now();
    let mut more = Vec::new();
    while more.len() < 5 && begin.elapsed() < PATIENCE {
        more.extend(feed.poll().unwrap());
    }
    // The agent was restarted: one interval without length says so.
    assert_eq!(
        more.iter().map(|interval| interval.duration_ns() > 0).collect::<Vec<_>>(),
        [false, true, true, true, true]
    );
}

#[test]
fn batch_mode_prints_a_log_to_its_end() {
    let (_dir, path) = log(12, 64 << 20);
    let path = path.display().to_string();
    let lines = ok(&["top", "-b", "-o", "json", "--replay", &path]);
    assert_eq!(lines.lines().count(), 11);
    assert_eq!(ok(&["top", "-b", "-o", "json", "-n", "3", "--replay", &path]).lines().count(), 3);
    let wrong = run(&["top", "-b", "--replay", &path, "--host", "x"]);
    assert_eq!(wrong.status.code(), Some(2), "{}", text(&wrong.stderr));
    let file = run(&["top", "-b", "--replay", "/proc/self/stat"]);
    assert!(file.status.code() == Some(1) && text(&file.stderr).contains("is a file, and"), "{file:?}");
    let none = run(&["top", "-b", "--replay", "/nonexistent"]);
    assert!(none.status.code() == Some(1) && text(&none.stderr).contains("/nonexistent"));
}

/// All of them ended with code 0 and without a word, and all but the last without a row.
#[test]
fn a_replay_reports_what_of_the_log_cannot_be_read() {
    const ONLY: &str = "00000000000000000001.segment";
    const HOLE: &str = "1 damaged parts were skipped";
    type Change = fn(&mut Vec<u8>);
    let cases: [(u64, Change, usize, &[&str]); 4] = [
        (12, Vec::clear, 0, &[HOLE, "no interval in "]),
        (12, |bytes| *bytes = vec![0x5a; 3_000], 0, &[HOLE, "no interval in "]),
        (1, |_| {}, 0, &["no interval in ", "and it has 1 that can be read"]),
        // The last snapshot.
        (40, |bytes| *bytes.last_mut().unwrap() ^= 0x40, 38, &[HOLE, "1 snapshot is missing"]),
    ];
    for (snapshots, change, printed, words) in cases {
        let (_dir, path) = log(snapshots, 64 << 20);
        let mut bytes = std::fs::read(path.join(ONLY)).unwrap();
        change(&mut bytes);
        std::fs::write(path.join(ONLY), bytes).unwrap();
        for format in ["text", "json"] {
            let ended = run(&["top", "-b", "--format", format, "--replay", path.to_str().unwrap()]);
            let errors = text(&ended.stderr);
            assert_eq!(ended.status.code(), Some(3), "{snapshots}: {errors}");
            assert!(words.iter().all(|word| errors.contains(word)), "{snapshots}: {errors}");
            let begin = if format == "text" { "# host " } else { "{" };
            let count = text(&ended.stdout).lines().filter(|line| line.starts_with(begin)).count();
            assert_eq!(count, printed, "{snapshots}: {errors}");
        }
        if printed > 0 {
            let some = run(&["top", "-b", "-n", "3", "--replay", path.to_str().unwrap()]);
            assert_eq!((some.status.code(), &*text(&some.stderr)), (Some(0), ""), "all that was asked for");
        }
    }
}
