//! The last part of a recording: it is what the whole file has for that time, in bounded memory, and can be copied while it moves on.

use cpumon_model::Moment;
use cpumon_sched::{Leaves, SchedEvent, SchedEventKind, TraceGroup, TraceTask};
use cpumon_trace::{
    Compression, TraceReader, TraceSource, TraceWindow, WindowCopy, WindowLimits, WriteError,
};

use crate::support::{BEGAN_NS, header, identity, made_up, read};

const ALWAYS: WindowLimits = WindowLimits { length_ns: u64::MAX, bytes: 1 << 20 };

fn window(limits: WindowLimits) -> TraceWindow {
    TraceWindow::new(header(), limits, Compression::Zstd(1)).unwrap()
}

/// In periods of `every` events, as ring buffers are read: one CPU after the other.
fn feed(window: &mut TraceWindow, events: &[SchedEvent], every: usize) {
    for period in events.chunk_by(|a, b| a.at_ns == b.at_ns).collect::<Vec<_>>().chunks(every) {
        let period: Vec<_> = period.iter().copied().flatten().collect();
        for cpu in 0..2 {
            period.iter().filter(|event| event.cpu == cpu).for_each(|event| window.event(event));
        }
        window.sync(period.last().unwrap().at_ns + 1, 0).unwrap();
    }
}

fn now() -> Moment {
    Moment { mono_ns: BEGAN_NS + 1_000_000_000, boot_ns: BEGAN_NS + 1_000_000_005, wall_ns: 7_000_000_000 }
}

fn begin(window: &TraceWindow) -> WindowCopy<Vec<u8>> {
    window.begin_copy(Vec::new(), now()).unwrap()
}

fn copy(window: &TraceWindow) -> Vec<u8> {
    let mut copy = begin(window);
    while window.copy_part(&mut copy).unwrap() {}
    copy.finish().unwrap().0
}

#[test]
fn a_copy_has_the_events_of_the_window_and_no_others() {
    let events = made_up(11, 20_000);
    for (length_ns, bytes) in [(u64::MAX, 1 << 20), (10_000_000, 1 << 20), (u64::MAX, 20_000)] {
        let mut window = window(WindowLimits { length_ns, bytes });
        feed(&mut window, &events, 300);
        let (from_ns, until_ns) = window.span_ns();
        let file = copy(&window);
        let (back, ending) = read(&file).unwrap();
        let mut expected: Vec<_> = events.iter().filter(|event| event.at_ns >= from_ns).copied().collect();
        expected.sort_by_key(|event| event.at_ns);
        assert_eq!(back.len(), expected.len());
        assert!(back.iter().zip(&expected).all(|(a, b)| a.at_ns == b.at_ns));
        assert_eq!((ending.ended_ns, ending.late, ending.malformed), (Some(until_ns), 0, 0));
        assert!(file.len() <= bytes + 1_000, "{} bytes", file.len());
        match length_ns {
            u64::MAX if bytes == 1 << 20 => assert_eq!(expected.len(), events.len()),
            u64::MAX => assert!(expected.len() < events.len() / 2),
            // A period longer at most.
            _ => assert!((10_000_000..12_000_000).contains(&(until_ns - from_ns)), "{from_ns} {until_ns}"),
        }
        let began = TraceReader::open(file.as_slice()).unwrap().header().began;
        assert_eq!(began.mono_ns, from_ns);
        assert_eq!(began.wall_ns - 7_000_000_000, i64::try_from(from_ns).unwrap() - 1_001_000_000);
        assert_eq!(began.boot_ns, from_ns + 5);
    }
}

#[test]
fn the_recording_goes_on_while_a_copy_is_written() {
    let events = made_up(12, 20_000);
    let (first, second) = events.split_at(10_000);
    let mut window = window(ALWAYS);
    feed(&mut window, first, 100);
    let before = copy(&window);
    let mut copy = begin(&window);
    for part in second.chunks(500) {
        window.copy_part(&mut copy).unwrap();
        feed(&mut window, part, 100);
    }
    while window.copy_part(&mut copy).unwrap() {}
    assert_eq!(read(&copy.finish().unwrap().0).unwrap(), read(&before).unwrap());
}

#[test]
fn a_copy_that_is_recorded_over_says_so() {
    let events = made_up(13, 20_000);
    let (first, second) = events.split_at(10_000);
    let mut window = window(WindowLimits { length_ns: u64::MAX, bytes: 10_000 });
    feed(&mut window, first, 100);
    let mut copy = begin(&window);
    assert!(window.copy_part(&mut copy).unwrap());
    feed(&mut window, second, 100);
    let error: WriteError = window.copy_part(&mut copy).unwrap_err();
    assert!(error.error.to_string().contains("the disk is too slow"), "{error:?}");
}

#[test]
fn a_period_that_is_larger_than_all_memory_begins_the_window_again() {
    let events = made_up(14, 20_000);
    let mut window = window(WindowLimits { length_ns: u64::MAX, bytes: 5_000 });
    feed(&mut window, &events, 20_000);
    let (from_ns, until_ns) = window.span_ns();
    assert_eq!(from_ns, until_ns);
    assert!(read(&copy(&window)).unwrap().0.is_empty());
}

#[test]
fn who_lives_or_ended_in_the_window_has_a_name() {
    let mut window = window(WindowLimits { length_ns: 1_000, bytes: 1 << 20 });
    let at = |at_ns, prev, leaves| SchedEvent {
        at_ns: BEGAN_NS + at_ns,
        cpu: 0,
        kind: SchedEventKind::Switch { prev: TraceTask(prev), next: TraceTask::IDLE, leaves },
    };
    for number in 1..=3 {
        window.identity(&identity(number, &format!("task-{number}")));
    }
    window.event(&at(10, 1, Leaves::Dead));
    window.sync(BEGAN_NS + 500, 0).unwrap();
    for passed in 1..20 {
        window.sync(BEGAN_NS + 500 + passed * 300, passed).unwrap();
    }
    window.event(&at(6_300, 2, Leaves::Dead));
    window.sync(BEGAN_NS + 6_400, 20).unwrap();
    let file = copy(&window);
    let mut reader = TraceReader::open(file.as_slice()).unwrap();
    let ending = reader.read(&mut |_| ()).unwrap();
    let names: Vec<_> = (1..=3)
        .map(|number| reader.tasks().find(TraceTask(number)).map(|names| names.comm.into_owned()))
        .collect();
    assert_eq!(names, [None, Some("task-2".to_owned()), Some("task-3".to_owned())]);
    assert_eq!(ending.lost, 4, "those of the window");
}

#[test]
fn a_copy_names_tasks_and_groups_in_one_order() {
    let made = || {
        let mut window = window(ALWAYS);
        for number in (1..100).rev() {
            window.identity(&identity(number, &format!("task-{number}")));
            let group = u64::from(number);
            window.group(&TraceGroup {
                group,
                parent: group + 1,
                name: group.to_string().into_bytes().into(),
            });
        }
        window.sync(BEGAN_NS + 500, 0).unwrap();
        copy(&window)
    };
    assert_eq!(made(), made());
}
