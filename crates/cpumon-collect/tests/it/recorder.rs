//! The recorder of switches when it is not read: events that do not fit are marked with count and span, and nothing else
//! is lost, round after round through its rings.

use std::collections::{HashMap, HashSet};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use cpumon_collect::{TraceItem, TraceRecorder, TraceRecorderOptions};
use cpumon_sched::{Leaves, SchedEvent, SchedEventKind, TraceTask};

use crate::bpf::turn;
use crate::eventually::eventually;
use crate::skip::skip;

/// Events that the smallest ring holds: 8,192 slots less 1,024 that stay free.
const MOST: usize = 7_168;
const ROUNDS: usize = 5;

/// Two threads that wake each other so often.
fn ping_pong(times: usize) {
    let (mut here, mut there) = UnixStream::pair().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut byte = [0];
            while there.read(&mut byte).unwrap() == 1 {
                there.write_all(&byte).unwrap();
            }
        });
        for _ in 0..times {
            here.write_all(b"x").unwrap();
            here.read_exact(&mut [0]).unwrap();
        }
        drop(here);
    });
}

/// Switches of a CPU where another task leaves than came last, though nothing is marked as lost; and events with a time
/// before the preceding one on their CPU.
fn faults(events: &[SchedEvent]) -> (usize, usize) {
    let mut running: HashMap<u16, TraceTask> = HashMap::new();
    let mut last: HashMap<u16, u64> = HashMap::new();
    let (mut breaks, mut early) = (0, 0);
    for event in events {
        let before_ns = last.insert(event.cpu, event.at_ns).unwrap_or(0);
        early += usize::from(event.at_ns < before_ns);
        match event.kind {
            SchedEventKind::Switch { prev, next, .. } => {
                breaks += usize::from(running.insert(event.cpu, next).is_some_and(|came| came != prev));
            }
            SchedEventKind::Lost { until_ns, .. } => {
                assert!(until_ns >= event.at_ns && until_ns - event.at_ns < 60_000_000_000, "{event:?}");
                running.remove(&event.cpu);
            }
            _ => {}
        }
    }
    (breaks, early)
}

/// Threads that came to a CPU, and among them those that had gone to sleep and not been woken, by the order of time of all CPUs.
fn arrivals(events: &[SchedEvent]) -> (usize, usize) {
    let mut events = events.to_vec();
    events.sort_by_key(|event| event.at_ns);
    let (mut asleep, mut lossy_until_ns) = (HashSet::new(), 0);
    // On their way to sleep.
    let mut woken_early = HashSet::new();
    let (mut all, mut not_woken) = (0, 0);
    for event in events {
        match event.kind {
            SchedEventKind::Lost { until_ns, .. } => {
                lossy_until_ns = lossy_until_ns.max(until_ns);
                asleep.clear();
            }
            _ if event.at_ns <= lossy_until_ns => {}
            SchedEventKind::Waking { task, .. } if asleep.remove(&task) => {}
            SchedEventKind::Waking { task, .. } => {
                woken_early.insert(task);
            }
            SchedEventKind::Switch { prev, next, leaves } => {
                if !woken_early.remove(&prev) && prev.is_thread() && matches!(leaves, Leaves::Asleep(_)) {
                    asleep.insert(prev);
                }
                woken_early.remove(&next);
                all += usize::from(next.is_thread());
                not_woken += usize::from(asleep.remove(&next));
            }
            _ => {}
        }
    }
    (all, not_woken)
}

#[test]
fn what_does_not_fit_is_marked_and_all_else_is_there() {
    let _turn = turn();
    let options = TraceRecorderOptions { buffer_bytes: 0, ..TraceRecorderOptions::default() };
    let mut recorder = match TraceRecorder::open(options) {
        Ok(recorder) => recorder,
        Err(error) => return skip(format!("needs root for BPF: {error}")),
    };
    let mut events = Vec::new();
    let mut take = |item| {
        if let TraceItem::Event(event) = item {
            events.push(event);
        }
    };
    for _ in 0..ROUNDS {
        ping_pong(4 * MOST);
        assert!(recorder.drain(&mut take).unwrap() > 0.8, "the ring is full");
        // Other programs switch too while this one gets no CPU.
        eventually("the ring is not full any more", || {
            ping_pong(50);
            (recorder.drain(&mut take).unwrap() < 0.8).then_some(())
        });
    }
    recorder.stop(&mut take).unwrap();
    assert_eq!(recorder.malformed(), 0);
    let marked = events.iter().filter_map(|event| match event.kind {
        SchedEventKind::Lost { count, .. } => Some(count),
        _ => None,
    });
    let (marks, lost) = marked.fold((0, 0), |(marks, sum), count| (marks + 1, sum + count));
    assert_eq!(lost, recorder.lost());
    assert!(marks >= ROUNDS && lost > 0, "{marks} marks of {lost} events");
    assert!(events.len() >= ROUNDS * MOST, "{} events", events.len());
    let switches = events.iter().filter(|event| matches!(event.kind, SchedEventKind::Switch { .. })).count();
    let (breaks, early) = faults(&events);
    // Some virtual machines hide the switches of the init process.
    assert!(breaks * 100 < switches, "{breaks} breaks in {switches} switches");
    assert_eq!(early, 0, "of {} events", events.len());
    let (all, not_woken) = arrivals(&events);
    assert!(not_woken * 1_000 < all, "{not_woken} of {all} threads came to a CPU without a wakeup");
}
