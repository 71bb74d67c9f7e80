//! Traces for tests.

use std::collections::BTreeMap;

use cpumon_model::{Comm, Moment, ProcessKey, ThreadKey};
use cpumon_sched::{SchedEvent, TraceIdentity, TraceTask};
use cpumon_trace::{
    Compression, CpuSpan, CpuState, Ending, FileHeader, ReadError, SpanSink, ThreadSpan, ThreadState,
    TraceFacts, TraceReader, TraceSource, TraceWriter, Tracker,
};

pub use crate::made_events::{BEGAN_NS, made_up};

/// Events as a trace that is read.
pub struct Made<'e> {
    events: &'e [SchedEvent],
    facts: TraceFacts,
    end_ns: u64,
}

impl<'e> Made<'e> {
    pub fn new(events: &'e [SchedEvent], began_ns: u64, end_ns: u64) -> Self {
        let began = Moment { mono_ns: began_ns, ..Moment::default() };
        let header = FileHeader { began, ..header() };
        let facts = TraceFacts { header, is_watched_from_begin: true, ..TraceFacts::default() };
        Self { events, facts, end_ns }
    }
}

impl TraceSource for Made<'_> {
    fn facts(&self) -> &TraceFacts {
        &self.facts
    }

    fn facts_mut(&mut self) -> &mut TraceFacts {
        &mut self.facts
    }

    fn read(&mut self, out: &mut impl FnMut(SchedEvent)) -> Result<Ending, ReadError> {
        self.events.iter().copied().for_each(out);
        Ok(Ending { ended_ns: Some(self.end_ns), known_until_ns: self.end_ns, ..Ending::default() })
    }
}

pub fn header() -> FileHeader {
    let began = Moment { mono_ns: BEGAN_NS, boot_ns: BEGAN_NS + 5, wall_ns: 1_700_000_000_000_000_000 };
    FileHeader { began, cpus: 2, host: "device1".into(), ..FileHeader::default() }
}

/// Of a process of its own.
pub fn identity(number: u32, comm: &str) -> TraceIdentity {
    TraceIdentity {
        task: TraceTask(number),
        at_ns: BEGAN_NS,
        thread: ThreadKey { tid: number + 100, start_ns: 7_000 },
        process: ProcessKey { pid: number + 100, start_ns: 7_000 },
        group: 0,
        comm: Comm::from(comm),
        program: comm.as_bytes().into(),
        is_executable: false,
        is_kernel: false,
    }
}

/// A file of these events, with a mark after every `every`.
pub fn write(events: &[SchedEvent], compression: Compression, every: usize) -> Vec<u8> {
    write_programs(events, compression, every, &|number| format!("task-{number}"))
}

/// Likewise; `program` names those of the tasks.
pub fn write_programs(
    events: &[SchedEvent],
    compression: Compression,
    every: usize,
    program: &dyn Fn(u32) -> String,
) -> Vec<u8> {
    let mut writer = TraceWriter::new(Vec::new(), &header(), compression).unwrap();
    for number in 1..20 {
        let names = identity(number, &format!("task-{number}"));
        writer.identity(&TraceIdentity { program: program(number).as_bytes().into(), ..names });
    }
    for batch in events.chunks(every) {
        // As ring buffers are read: one CPU after the other.
        for cpu in 0..2 {
            for event in batch.iter().filter(|event| event.cpu == cpu) {
                writer.event(event);
            }
        }
        writer.sync(batch.last().unwrap().at_ns).unwrap();
    }
    writer.finish(end_ns(events), 0).unwrap().0
}

pub fn end_ns(events: &[SchedEvent]) -> u64 {
    events.last().map_or(BEGAN_NS, |event| event.at_ns) + 1_000
}

pub fn read(bytes: &[u8]) -> Result<(Vec<SchedEvent>, Ending), ReadError> {
    let mut events = Vec::new();
    let ending = TraceReader::open(bytes)?.read(&mut |event| events.push(event))?;
    Ok((events, ending))
}

/// Times of all threads by task and state, and of the CPUs, ns.
#[derive(Default)]
pub struct Sums {
    pub known: BTreeMap<(TraceTask, &'static str), u64>,
    pub unknown_ns: u64,
    pub cpu_ns: u64,
    pub cpu_unknown_ns: u64,
    /// Of threads.
    pub spans: usize,
}

impl SpanSink for Sums {
    fn thread(&mut self, span: &ThreadSpan) {
        self.spans += 1;
        let state = match span.state {
            ThreadState::Unknown | ThreadState::Dead => {
                self.unknown_ns += span.until_ns - span.from_ns;
                return;
            }
            ThreadState::Running => "running",
            ThreadState::ReadyWoken | ThreadState::ReadyPreempted => "ready",
            ThreadState::Blocked(_) => "blocked",
        };
        *self.known.entry((span.task, state)).or_default() += span.until_ns - span.from_ns;
    }

    fn cpu(&mut self, span: &CpuSpan) {
        self.cpu_ns += span.until_ns - span.from_ns;
        if span.state == CpuState::Unknown {
            self.cpu_unknown_ns += span.until_ns - span.from_ns;
        }
    }

    fn bytes(&self, _threads: usize) -> usize {
        0
    }
}

pub fn sums(bytes: &[u8]) -> (Sums, Ending) {
    let mut reader = TraceReader::open(bytes).unwrap();
    let mut tracker = Tracker::new(BEGAN_NS, Sums::default());
    let ending = reader.read(&mut |event| tracker.event(&event)).unwrap();
    (tracker.finish(ending.known_until_ns), ending)
}
