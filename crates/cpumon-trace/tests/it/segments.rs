//! A recording in several files: each can be read alone, together they are the recording, and missing parts between them are marked.

use std::fs;
use std::io::{Read, Seek, SeekFrom};

use cpumon_model::{BootId, Moment};
use cpumon_sched::{SchedEvent, SchedEventKind};
use cpumon_trace::{
    Compression, CpuAccount, FileHeader, GroupRow, ReportBy, TraceInput, TraceRange, TraceReader,
    TraceSource, TraceWindow, WindowLimits, analyse, segments, summarise,
};

use crate::support::{BEGAN_NS, header, identity, made_up, read};

const LIMITS: WindowLimits = WindowLimits { length_ns: u64::MAX, bytes: 1 << 20 };

fn now() -> Moment {
    Moment { mono_ns: BEGAN_NS + 1_000_000_000, boot_ns: BEGAN_NS + 1_000_000_005, wall_ns: 7_000_000_000 }
}

/// Files of the events, each with several periods. `left_out`: segments whose events are dropped before they are written.
fn recorded(header: FileHeader, events: &[SchedEvent], left_out: &[usize]) -> Vec<Vec<u8>> {
    let mut after_ns = header.began.mono_ns;
    let mut window = TraceWindow::new(header, LIMITS, Compression::Zstd(1)).unwrap();
    for number in 1..20 {
        window.identity(&identity(number, &format!("task-{number}")));
    }
    let mut files = Vec::new();
    for (at, part) in events.chunks(events.len() / 5 + 1).enumerate() {
        for period in part.chunks(300) {
            for cpu in 0..2 {
                period.iter().filter(|event| event.cpu == cpu).for_each(|event| window.event(event));
            }
            window.sync(period.last().unwrap().at_ns + 1, 0).unwrap();
        }
        let mut copy = window.begin_part(Vec::new(), now(), after_ns).unwrap();
        window.extend_copy(&mut copy);
        while window.copy_part(&mut copy).unwrap() {}
        window.drop_copied(&copy);
        assert_eq!(window.span_ns(), (copy.until_ns(), copy.until_ns()), "nothing is left");
        if !left_out.contains(&at) {
            after_ns = copy.until_ns();
            files.push(copy.finish().unwrap().0);
        }
    }
    files
}

/// Events whose times no two share, so that their order is one.
fn events(seed: u64) -> Vec<SchedEvent> {
    let mut events = made_up(seed, 10_000);
    events.dedup_by_key(|event| event.at_ns);
    events
}

fn report(bytes: &[u8]) -> (Vec<GroupRow>, CpuAccount) {
    let mut reader = TraceReader::open(bytes).unwrap();
    let (report, _) = analyse(&mut reader, TraceRange::default()).unwrap();
    (report.rows(ReportBy::Thread, reader.tasks()), report.totals().ledger)
}

#[test]
fn the_parts_of_a_recording_are_one_trace() {
    let events = events(31);
    let files = recorded(header(), &events, &[]);
    assert_eq!(files.len(), 5);
    let (back, ending) = read(&files.concat()).unwrap();
    assert_eq!(back, events);
    assert!(ending.is_whole(), "{ending:?}");
    let summary = summarise(&files.concat()[..]).unwrap().unwrap();
    assert_eq!((summary.events, summary.ended_ns), (events.len() as u64, events.last().unwrap().at_ns + 1));
    assert_eq!(summary.bytes, files.concat().len() as u64);
    // Each can be read alone, with the names of its threads.
    let mut alone = Vec::new();
    for file in &files {
        let (part, ending) = read(file).unwrap();
        assert!(ending.is_whole(), "{ending:?}");
        alone.extend(part);
        assert!(report(file).0.iter().all(|row| row.name.starts_with("task-")));
    }
    assert_eq!(alone, events);
}

#[test]
fn a_part_that_is_not_there_leaves_a_hole() {
    let events = events(32);
    let files = recorded(header(), &events, &[]);
    let holed = [&files[0], &files[1], &files[3], &files[4]].map(|file| &file[..]).concat();
    let (back, ending) = read(&holed).unwrap();
    assert_eq!((ending.holes, ending.damaged_at, ending.is_whole()), (1, None, false));
    let is_mark = |event: &&SchedEvent| matches!(event.kind, SchedEventKind::Lost { .. });
    let marks: Vec<_> = back.iter().filter(is_mark).collect();
    assert_eq!(marks.iter().map(|mark| mark.cpu).collect::<Vec<_>>(), [0, 1]);
    let (whole, ledger) = (report(&files.concat()).1, report(&holed).1);
    assert_eq!(ledger.capacity_ns(), whole.capacity_ns());
    assert!(ledger.unknown_ns > whole.capacity_ns() / 8, "{ledger:?}");
    assert_eq!(summarise(&holed[..]).unwrap().unwrap().events, back.len() as u64 - 2);
}

/// The disk was full, say: the recorder continues in a new part that marks the missing time itself.
#[test]
fn what_a_recorder_could_not_write_is_marked_in_the_next_part() {
    let events = events(33);
    let files = recorded(header(), &events, &[2]);
    let (back, ending) = read(&files.concat()).unwrap();
    assert!(ending.is_whole(), "the parts follow each other: {ending:?}");
    let lost: Vec<_> = back
        .iter()
        .filter_map(|event| match event.kind {
            SchedEventKind::Lost { count: 0, until_ns } => Some((event.at_ns, until_ns)),
            _ => None,
        })
        .collect();
    let part = events.len() / 5 + 1;
    let span = (events[2 * part - 1].at_ns + 1, events[3 * part - 1].at_ns + 1);
    assert_eq!(lost, [span, span]);
}

#[test]
fn a_recording_after_another_one_is_not_mixed_into_it() {
    let mut later = header();
    later.began.mono_ns += 500;
    let elsewhere = FileHeader { boot: BootId([7; 16]), ..header() };
    let files = recorded(header(), &events(34), &[]);
    let first = files.concat();
    for other in [later, elsewhere] {
        let other = recorded(other, &events(35), &[]).concat();
        for cut in [0, 5] {
            // Cut: its end is damaged, and hides the header of what follows.
            let bytes = [&first[..first.len() - cut], &other[..]].concat();
            let (back, ending) = read(&bytes).unwrap();
            assert!(ending.other_at.is_some_and(|at| at + 400 > first.len() as u64), "{ending:?}");
            assert_eq!(back.len(), read(&first).unwrap().0.len());
            assert_eq!(summarise(&bytes[..]).unwrap(), None);
        }
    }
    // A plain trace is no part of anything.
    let plain = crate::support::write(&events(36), Compression::None, 100);
    let (_, ending) = read(&[&plain[..], &plain[..]].concat()).unwrap();
    assert_eq!(ending.other_at, Some(plain.len() as u64));
}

#[test]
fn a_directory_is_its_newest_recording() {
    let dir = tempfile::tempdir().unwrap();
    let (old, new) = (recorded(header(), &events(37), &[]), recorded(header(), &events(38), &[]));
    for (recording, files) in [("20261124T100000.000Z", &old), ("20261124T110000.000Z", &new)] {
        for (number, file) in files.iter().enumerate() {
            let name = segments::name_of(recording, u32::try_from(number).unwrap() + 999_998);
            fs::write(dir.path().join(name), file).unwrap();
        }
    }
    for name in ["ring-1.trace", "ring-x-1.trace", "ring-a/b", "ring--000001.trace", "flight-1.trace"] {
        let _ = fs::write(dir.path().join(name), "mine");
    }
    let listed = segments::list(dir.path()).unwrap();
    assert_eq!(listed.len(), 10);
    assert_eq!(listed.last().unwrap().number, 1_000_002, "by number, not by name");
    let mut input = TraceInput::open(dir.path()).unwrap();
    let first = dir.path().join("ring-20261124T100000.000Z");
    assert_eq!(input.others, std::slice::from_ref(&first));
    let mut bytes = Vec::new();
    input.read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes, new.concat());
    // From any place on.
    for at in [0, 1, new[0].len(), new[0].len() + 7, bytes.len() - 1, bytes.len(), bytes.len() + 9] {
        input.seek(SeekFrom::Start(at as u64)).unwrap();
        let mut rest = Vec::new();
        input.read_to_end(&mut rest).unwrap();
        assert_eq!(rest, bytes.get(at..).unwrap_or_default());
    }
    bytes.clear();
    TraceInput::open(&first).unwrap().read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes, old.concat());
    let empty = tempfile::tempdir().unwrap();
    for nothing in [empty.path().to_owned(), empty.path().join("ring-20261124T100000.000Z")] {
        let error = TraceInput::open(&nothing).unwrap_err().to_string();
        assert!(error.contains("no segments"), "{error}");
    }
}

/// A directory that may be listed and not entered "had no segments".
#[cfg(unix)]
#[test]
fn segments_that_may_not_be_read_are_an_error() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let segment = dir.path().join(segments::name_of("20261124T100000.000Z", 1));
    fs::write(&segment, "mine").unwrap();
    let with_mode = |mode| fs::set_permissions(dir.path(), fs::Permissions::from_mode(mode)).unwrap();
    with_mode(0o400);
    // Root may enter it.
    let may_enter = fs::metadata(&segment).is_ok();
    let listed = segments::list(dir.path()).map_err(|error| error.kind());
    with_mode(0o700);
    assert!(may_enter || listed == Err(std::io::ErrorKind::PermissionDenied), "{listed:?}");
}
