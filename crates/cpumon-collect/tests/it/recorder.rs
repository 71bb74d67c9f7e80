//! The recorder of switches when it is not read: what does not fit is marked with count and span, and nothing else is lost, round after
//! round through its rings.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::rc::Rc;

use cpumon_collect::{TraceRecorder, TraceRecorderOptions, TraceSink};
use cpumon_model::{SchedEvent, SchedEventKind, TraceGroup, TraceIdentity, TraceTask};

use crate::bpf::turn;
use crate::skip::skip;

/// Events that the smallest ring holds: 8,192 slots, of which 1,024 stay free.
const MOST: usize = 7_168;
const ROUNDS: usize = 5;

#[derive(Default)]
struct Events(Vec<SchedEvent>);

impl TraceSink for Events {
    fn event(&mut self, event: SchedEvent) {
        self.0.push(event);
    }

    fn identity(&mut self, _identity: &TraceIdentity) {}

    fn group(&mut self, _group: &TraceGroup) {}
}

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

/// Switches of a CPU where not the task leaves that came last, though nothing is marked as lost; and by how much a switch is before the one
/// in front at most: the clock of the run queue is as old as its last update.
fn faults(events: &[SchedEvent]) -> (usize, u64) {
    let mut running: HashMap<u16, (TraceTask, u64)> = HashMap::new();
    let (mut breaks, mut early_ns) = (0, 0);
    for event in events {
        match event.kind {
            SchedEventKind::Switch { prev, next, .. } => {
                if let Some((came, at_ns)) = running.insert(event.cpu, (next, event.at_ns)) {
                    breaks += usize::from(came != prev);
                    early_ns = early_ns.max(at_ns.saturating_sub(event.at_ns));
                }
            }
            SchedEventKind::Lost { until_ns, .. } => {
                assert!(until_ns >= event.at_ns && until_ns - event.at_ns < 60_000_000_000, "{event:?}");
                running.remove(&event.cpu);
            }
            _ => {}
        }
    }
    (breaks, early_ns)
}

#[test]
fn what_does_not_fit_is_marked_and_all_else_is_there() {
    let _turn = turn();
    let events = Rc::new(RefCell::new(Events::default()));
    let options = TraceRecorderOptions { buffer_bytes: 0, ..TraceRecorderOptions::default() };
    let mut recorder = match TraceRecorder::open(options, events.clone()) {
        Ok(recorder) => recorder,
        Err(error) => return skip(format!("needs root for BPF: {error}")),
    };
    for _ in 0..ROUNDS {
        ping_pong(4 * MOST);
        assert!(recorder.drain().unwrap() > 0.8, "the ring is full");
        ping_pong(50);
        assert!(recorder.drain().unwrap() < 0.8, "and is not any more");
    }
    recorder.stop().unwrap();
    assert_eq!(recorder.malformed(), 0);
    let events = &events.borrow().0;
    let marked = events.iter().filter_map(|event| match event.kind {
        SchedEventKind::Lost { count, .. } => Some(count),
        _ => None,
    });
    let (marks, lost) = marked.fold((0, 0), |(marks, sum), count| (marks + 1, sum + count));
    assert_eq!(lost, recorder.lost());
    assert!(marks >= ROUNDS && lost > 0, "{marks} marks of {lost} events");
    assert!(events.len() >= ROUNDS * MOST, "{} events", events.len());
    let switches = events.iter().filter(|event| matches!(event.kind, SchedEventKind::Switch { .. })).count();
    let (breaks, early_ns) = faults(events);
    // Some virtual machines hide the switches of the init process.
    assert!(breaks * 100 < switches, "{breaks} breaks in {switches} switches");
    assert!(early_ns < 1_000_000, "{early_ns} ns");
}
