//! Perfetto derives the states of threads from the events of a file: by its rules, exports of traces that miss any events have the times of
//! cpumon's own slices. `scripts/test-perfetto.sh` asks Perfetto itself.

use std::collections::{BTreeMap, HashMap};

use cpumon_export::{Format, TraceSurvey, trace_perfetto, trace_slices};
use cpumon_model::{Comm, Moment, ProcessKey, ThreadKey, WaitReason};
use cpumon_trace::{
    Compression, FileHeader, Leaves, SchedEvent, SchedEventKind, TraceIdentity, TraceRange, TraceReader,
    TraceTask, TraceWriter,
};
use cpumon_trace_import::UNKNOWN_TID;
use prost::Message;

use super::perfetto_schema::Trace;
use super::seeded_rng::SeededRng;

const BEGAN_NS: u64 = 1_000_000;
const CPUS: u16 = 3;
const TASKS: u32 = 9;

/// State of a task of the made machine.
#[derive(Copy, Clone, PartialEq)]
enum State {
    Unborn,
    Ready,
    Running,
    Blocked,
}

struct Machine {
    rng: SeededRng,
    at_ns: u64,
    states: Vec<State>,
    current: Vec<u32>,
    events: Vec<SchedEvent>,
}

impl Machine {
    fn state(&mut self, task: u32) -> &mut State {
        &mut self.states[task as usize]
    }

    fn cpu(&mut self) -> u16 {
        u16::try_from(self.rng.below(CPUS.into())).unwrap()
    }

    fn any(&mut self, state: State) -> Option<u32> {
        let all: Vec<u32> = (1..=TASKS).filter(|task| *self.state(*task) == state).collect();
        (!all.is_empty()).then(|| all[usize::try_from(self.rng.below(all.len() as u64)).unwrap()])
    }

    fn step(&mut self) {
        self.at_ns += 1 + self.rng.below(2_000);
        let cpu = self.cpu();
        let waker = TraceTask(self.current[usize::from(cpu)]);
        let kind = match self.rng.below(8) {
            0 => {
                let Some(child) = self.any(State::Unborn) else { return };
                *self.state(child) = State::Blocked;
                SchedEventKind::Born { task: TraceTask(child), parent: waker }
            }
            1..=3 => {
                let Some(woken) = self.any(State::Blocked) else { return };
                *self.state(woken) = State::Ready;
                SchedEventKind::Waking { task: TraceTask(woken), waker, cpu: self.cpu() }
            }
            // On its way to sleep.
            4 => {
                let Some(woken) = self.any(State::Running) else { return };
                SchedEventKind::Waking { task: TraceTask(woken), waker, cpu }
            }
            _ => {
                let (prev, next) = (waker.0, self.any(State::Ready).unwrap_or(0));
                let leaves = match self.rng.below(3) {
                    0 => Leaves::Ready,
                    1 => Leaves::Asleep(WaitReason::DISK),
                    _ => Leaves::Asleep(WaitReason::OTHER),
                };
                if next == prev {
                    return;
                }
                *self.state(prev) = if leaves == Leaves::Ready { State::Ready } else { State::Blocked };
                *self.state(next) = State::Running;
                self.current[usize::from(cpu)] = next;
                SchedEventKind::Switch { prev: waker, next: TraceTask(next), leaves }
            }
        };
        self.events.push(SchedEvent { at_ns: self.at_ns, cpu, kind });
    }
}

/// A trace that may lack events.
fn trace(seed: u64, has_holes: bool) -> Vec<u8> {
    let mut machine = Machine {
        rng: SeededRng(seed),
        at_ns: BEGAN_NS,
        states: vec![State::Ready; 1 + TASKS as usize],
        current: vec![0; CPUS.into()],
        events: Vec::new(),
    };
    machine.states[1..4].fill(State::Unborn);
    machine.states[0] = State::Running;
    for _ in 0..400 {
        machine.step();
    }
    let Machine { mut rng, at_ns, mut events, .. } = machine;
    if has_holes {
        events.retain(|event| {
            // The first ones show the state of each CPU before.
            let can_miss =
                event.at_ns > BEGAN_NS + 50_000 && !matches!(event.kind, SchedEventKind::Born { .. });
            !can_miss || rng.below(12) > 0
        });
    }
    let began = Moment { mono_ns: BEGAN_NS, boot_ns: BEGAN_NS, wall_ns: 0 };
    let header = FileHeader { began, cpus: CPUS, ..FileHeader::default() };
    let mut writer = TraceWriter::new(Vec::new(), &header, Compression::None).unwrap();
    for number in 1..=TASKS {
        writer.identity(&TraceIdentity {
            task: TraceTask(number),
            at_ns: 0,
            thread: ThreadKey { tid: number + 100, start_ns: 7 },
            process: ProcessKey { pid: number + 100, start_ns: 7 },
            comm: Comm::from("made"),
            program: b"made".as_slice().into(),
            is_executable: false,
            is_kernel: false,
            group: 0,
        });
    }
    for cpu in 0..CPUS {
        for event in events.iter().filter(|event| event.cpu == cpu) {
            writer.event(event);
        }
    }
    writer.finish(at_ns + 1_000, 0).unwrap().0
}

/// Time, and the number of spans in it.
type Times = BTreeMap<(i32, &'static str), (u64, u64)>;

fn add(times: &mut Times, tid: i32, state: &'static str, total_ns: u64) {
    let sum = times.entry((tid, state)).or_default();
    *sum = (sum.0 + total_ns, sum.1 + 1);
}

enum Event {
    Switch { cpu: u32, next: i32, prev_state: i64 },
    Waking(i32),
    Born(i32),
}

/// The events of a file, by time. In a packet switches come first, then wakeups, then the others.
fn events(trace: &Trace) -> Vec<(u64, Event)> {
    let mut events = Vec::new();
    for bundle in trace.packet.iter().filter_map(|packet| packet.ftrace_events.as_ref()) {
        let compact = bundle.compact_sched.as_ref().unwrap();
        let (mut at_ns, cpu) = (0, bundle.cpu.unwrap());
        for (at, passed_ns) in compact.switch_timestamp.iter().enumerate() {
            at_ns += passed_ns;
            let (next, prev_state) = (compact.switch_next_pid[at], compact.switch_prev_state[at]);
            events.push((at_ns, Event::Switch { cpu, next, prev_state }));
        }
        at_ns = 0;
        for (passed_ns, tid) in compact.waking_timestamp.iter().zip(&compact.waking_pid) {
            at_ns += passed_ns;
            events.push((at_ns, Event::Waking(*tid)));
        }
        for event in &bundle.event {
            let kind = match (&event.sched_waking, &event.task_newtask) {
                (Some(waking), _) => Event::Waking(waking.pid()),
                (_, Some(new)) => Event::Born(new.pid()),
                _ => panic!("{event:?}"),
            };
            events.push((event.timestamp(), kind));
        }
    }
    events.sort_by_key(|(at_ns, _)| *at_ns);
    events
}

/// The states that Perfetto has of threads, and since when it has any.
fn theirs(trace: &Trace) -> (Times, HashMap<i32, u64>) {
    let (mut times, mut since) = (Times::new(), HashMap::new());
    let (mut states, mut current) = (HashMap::<i32, (&str, u64)>::new(), HashMap::new());
    let events = events(trace);
    let end_ns = events.last().unwrap().0;
    let mut enter = |states: &mut HashMap<i32, (&'static str, u64)>, tid: i32, state, at_ns: u64| {
        since.entry(tid).or_insert(at_ns - BEGAN_NS);
        if let Some((before, since_ns)) = states.insert(tid, (state, at_ns)) {
            add(&mut times, tid, before, at_ns - since_ns);
        }
    };
    for (at_ns, event) in events {
        match event {
            Event::Switch { cpu, next, prev_state } => {
                let Some(prev) = current.insert(cpu, next) else { continue };
                let state = match prev_state {
                    0 | 0x100 => "ready",
                    0x10 => "dead",
                    0x40 => "unknown",
                    _ => "blocked",
                };
                enter(&mut states, prev, state, at_ns);
                enter(&mut states, next, "running", at_ns);
            }
            Event::Waking(tid) => {
                if !states.get(&tid).is_some_and(|(state, _)| matches!(*state, "running" | "ready")) {
                    enter(&mut states, tid, "ready", at_ns);
                }
            }
            Event::Born(tid) => {
                assert!(!states.contains_key(&tid), "{tid} is new at {at_ns}");
                enter(&mut states, tid, "ready", at_ns);
            }
        }
    }
    for tid in states.keys().copied().collect::<Vec<_>>() {
        enter(&mut states, tid, "", end_ns);
    }
    (times, since)
}

/// Times in cpumon's slices since then.
fn ours(slices: &[u8], since: &HashMap<i32, u64>) -> Times {
    let mut times = Times::new();
    for row in csv::Reader::from_reader(slices).records() {
        let row = row.unwrap();
        let number = |at: usize| row[at].parse::<u64>().unwrap();
        let (from_ns, until_ns, tid) = (number(0), number(1), row[3].parse().unwrap());
        let state = match &row[8] {
            "running" => "running",
            "ready" | "preempted" => "ready",
            "blocked" => "blocked",
            "unknown" => "unknown",
            other => panic!("{other}"),
        };
        if since.get(&tid).is_some_and(|since_ns| until_ns > *since_ns + 1) {
            add(&mut times, tid, state, until_ns - from_ns);
        } else {
            assert!(matches!(state, "blocked" | "unknown"), "{tid} {state}: {from_ns} to {until_ns} ns");
        }
    }
    times
}

#[test]
fn perfetto_has_the_times_of_the_slices_also_where_events_are_missing() {
    let (mut spans, mut unknown_ns) = (0, 0);
    for seed in 1..200 {
        let bytes = trace(seed, seed % 2 == 0);
        let open = || TraceReader::open(bytes.as_slice()).unwrap();
        let survey = TraceSurvey::new(open()).unwrap();
        let (mut file, mut slices) = (Vec::new(), Vec::new());
        trace_perfetto(&survey, &mut open(), &mut file).unwrap();
        trace_slices(Format::Csv, &survey, &mut open(), TraceRange::default(), &mut slices).unwrap();
        let (theirs, since) = theirs(&Trace::decode(file.as_slice()).unwrap());
        let ours = ours(&slices, &since);
        let unknown_tid = i32::try_from(UNKNOWN_TID).unwrap();
        for (tid, state) in ours.keys().chain(theirs.keys()).copied() {
            if tid == 0 || tid == unknown_tid || matches!(state, "dead" | "") {
                continue;
            }
            let of = |times: &Times| times.get(&(tid, state)).copied().unwrap_or_default();
            let ((our_ns, our_spans), (their_ns, their_spans)) = (of(&ours), of(&theirs));
            // Where the order of one time counts they are 1 ns apart.
            assert!(
                our_ns.abs_diff(their_ns) <= our_spans + their_spans,
                "seed {seed}, {tid} {state}: Perfetto {their_ns} ns, cpumon {our_ns} ns"
            );
            spans += our_spans;
            unknown_ns += if state == "unknown" { their_ns } else { 0 };
        }
    }
    assert!(spans > 50_000 && unknown_ns > 1_000_000, "{spans} {unknown_ns}");
}
