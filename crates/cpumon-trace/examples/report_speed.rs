//! How fast a report and the index of the timeline are made, and in how much memory:
//! `cargo run --release -p cpumon-trace --example report_speed -- [EVENTS [LOAD [FILE | --no-index]]]`; with FILE it only writes the load's
//! trace there. Prints a line of JSON for each load: millions of events a second of CPU time, sizes, and ms of CPU time for what the
//! timeline shows.
//! Makes up the trace of a load while it is read (the time for that is taken off), so a trace of any length needs no disk. Each load is
//! read three times: events only (decode and sort), with the tracker, with the report; and before that into the index of the timeline.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::hint::black_box;
use std::io::Read;

use cpumon_model::{Comm, Moment, ProcessKey, ThreadKey, WaitReason};
use cpumon_sched::{Leaves, SchedEvent, SchedEventKind, TraceIdentity, TraceTask};
use cpumon_trace::{
    Buckets, Compression, CpuSpan, CpuWho, FileHeader, GroupKey, ReportBy, SpanSink, ThreadSpan, Timeline,
    TimelineLimits, TraceRange, TraceReader, TraceSource, TraceWriter, Tracker, analyse,
};

#[path = "../../../testing/seeded_rng.rs"]
mod seeded_rng;
use seeded_rng::SeededRng;

const BEGAN_NS: u64 = 1_000_000_000;
const SYNC_NS: u64 = 250_000_000;
/// Most events of the trace for which `behind` compares report and index.
const MOST_COMPARED: u64 = 1_000_000;
/// Bytes that are made at a time.
const BATCH_BYTES: usize = 4 << 20;

struct Load {
    name: &'static str,
    cpus: u16,
    threads: u32,
    /// A thread goes to sleep so often of 16 times; else it is pushed off.
    sleeps: u64,
    /// Wakeups for each switch, of 16.
    wakes: u64,
    /// A thread ends and another is born so often of 1,024 switches.
    births: u64,
    slice_ns: u64,
}

const LOADS: [Load; 5] = [
    Load { name: "pipe", cpus: 1, threads: 2, sleeps: 16, wakes: 8, births: 0, slice_ns: 1_500 },
    Load { name: "mixed", cpus: 4, threads: 500, sleeps: 12, wakes: 5, births: 0, slice_ns: 60_000 },
    Load { name: "short-lived", cpus: 4, threads: 500, sleeps: 12, wakes: 5, births: 16, slice_ns: 60_000 },
    Load { name: "overloaded", cpus: 2, threads: 80, sleeps: 4, wakes: 8, births: 0, slice_ns: 500_000 },
    Load { name: "large", cpus: 64, threads: 5_000, sleeps: 12, wakes: 5, births: 0, slice_ns: 60_000 },
];

#[derive(Default)]
struct Cpu {
    at_ns: u64,
    current: u32,
    ready: VecDeque<u32>,
}

/// A machine under a load, and its recorder.
struct Machine<'l> {
    load: &'l Load,
    left: u64,
    rng: SeededRng,
    cpus: Vec<Cpu>,
    asleep: Vec<u32>,
    last: u32,
    synced_ns: u64,
    /// `None`: the trace has ended.
    writer: Option<TraceWriter<Vec<u8>>>,
    /// Bytes of the trace to hand out; the first `taken` bytes were handed out.
    bytes: Vec<u8>,
    taken: usize,
    made: u64,
    making_ns: u64,
    /// Threads that were ready when a thread came to a CPU, and such switches.
    ready: (u64, u64),
}

fn header(load: &Load) -> FileHeader {
    let began = Moment { mono_ns: BEGAN_NS, boot_ns: BEGAN_NS, wall_ns: 0 };
    FileHeader { began, cpus: load.cpus, host: load.name.into(), ..FileHeader::default() }
}

impl<'l> Machine<'l> {
    fn new(load: &'l Load, events: u64, compression: Compression) -> Self {
        let writer = TraceWriter::new(Vec::new(), &header(load), compression).expect("a buffer");
        let cpu = || Cpu { at_ns: BEGAN_NS, ..Cpu::default() };
        let mut machine = Self {
            load,
            left: events,
            rng: SeededRng(77),
            cpus: std::iter::repeat_with(cpu).take(load.cpus.into()).collect(),
            asleep: Vec::new(),
            last: 0,
            synced_ns: BEGAN_NS,
            writer: Some(writer),
            bytes: Vec::new(),
            taken: 0,
            made: 0,
            making_ns: 0,
            ready: (0, 0),
        };
        for _ in 0..load.threads {
            let number = machine.introduce();
            machine.asleep.push(number);
        }
        machine
    }

    fn introduce(&mut self) -> u32 {
        self.last += 1;
        let process = ProcessKey { pid: self.last / 4, start_ns: 1 };
        let program = format!("program-{}", self.last % 50);
        let identity = TraceIdentity {
            task: TraceTask(self.last),
            at_ns: self.synced_ns,
            thread: ThreadKey { tid: self.last, start_ns: 1 },
            process,
            group: 0,
            comm: Comm::from(program.as_str()),
            program: program.as_bytes().into(),
            is_executable: false,
            is_kernel: false,
        };
        self.writer.as_mut().expect("it goes on").identity(&identity);
        self.last
    }

    fn event(&mut self, cpu: usize, kind: SchedEventKind) {
        let at_ns = self.cpus[cpu].at_ns;
        let cpu = u16::try_from(cpu).expect("a CPU");
        self.writer.as_mut().expect("it goes on").event(&SchedEvent { at_ns, cpu, kind });
        self.left = self.left.saturating_sub(1);
    }

    /// One slice of the CPU that is behind the others.
    fn step(&mut self) {
        let at = (0..self.cpus.len()).min_by_key(|&at| self.cpus[at].at_ns).expect("a CPU");
        if self.cpus[at].at_ns > self.synced_ns + SYNC_NS {
            self.synced_ns = self.cpus[at].at_ns;
            self.writer.as_mut().expect("it goes on").sync(self.synced_ns).expect("a buffer");
        }
        let prev = self.cpus[at].current;
        self.cpus[at].at_ns += 200 + self.rng.below(self.load.slice_ns);
        while self.rng.below(16) < self.load.wakes && !self.asleep.is_empty() {
            let place = usize::try_from(self.rng.below(self.asleep.len() as u64)).expect("a place");
            let task = self.asleep.swap_remove(place);
            let waker = TraceTask(prev);
            // Some to another CPU, which is ahead.
            let to = if self.rng.below(4) == 0 { self.rng.below(self.cpus.len() as u64) } else { at as u64 };
            let cpu = u16::try_from(to).expect("a CPU");
            self.event(at, SchedEventKind::Waking { task: TraceTask(task), waker, cpu });
            self.cpus[usize::from(cpu)].ready.push_back(task);
            self.cpus[at].at_ns += 150;
            if self.load.wakes < 16 && self.load.threads == 2 {
                break;
            }
        }
        self.switch(at, prev);
    }

    fn switch(&mut self, at: usize, prev: u32) {
        let waiting = self.cpus[at].ready.len() as u64;
        self.ready = (self.ready.0 + waiting, self.ready.1 + u64::from(waiting > 0));
        let next = self.cpus[at].ready.pop_front().unwrap_or(0);
        let is_asleep = prev == 0 || self.rng.below(16) < self.load.sleeps;
        if next == prev || (next == 0 && !is_asleep) {
            return;
        }
        let mut leaves = Leaves::Ready;
        if prev != 0 && self.rng.below(1_024) < self.load.births {
            leaves = Leaves::Dead;
            let born = self.introduce();
            self.event(at, SchedEventKind::Born { task: TraceTask(born), parent: TraceTask(prev) });
            self.event(at, SchedEventKind::Exit { task: TraceTask(prev) });
            self.asleep.push(born);
        } else if prev != 0 && is_asleep {
            leaves = Leaves::Asleep(WaitReason::syscall(u16::try_from(self.rng.below(5)).expect("few")));
            self.asleep.push(prev);
        } else if prev != 0 {
            self.cpus[at].ready.push_back(prev);
        }
        self.event(at, SchedEventKind::Switch { prev: TraceTask(prev), next: TraceTask(next), leaves });
        self.cpus[at].current = next;
    }

    fn written(&mut self) -> &mut Vec<u8> {
        self.writer.as_mut().expect("it goes on").written()
    }

    fn make(&mut self) {
        let began_ns = cpu_ns();
        self.bytes.clear();
        self.taken = 0;
        while self.left > 0 && self.written().len() < BATCH_BYTES {
            self.step();
        }
        self.bytes = if self.left == 0 {
            let end_ns = self.cpus.iter().map(|cpu| cpu.at_ns).max().expect("a CPU");
            self.writer.take().expect("it goes on").finish(end_ns, 0).expect("a buffer").0
        } else {
            std::mem::take(self.written())
        };
        self.made += self.bytes.len() as u64;
        self.making_ns += cpu_ns() - began_ns;
    }
}

impl Read for Machine<'_> {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        if self.taken == self.bytes.len() {
            if self.writer.is_none() {
                return Ok(0);
            }
            self.make();
        }
        let read = (&self.bytes[self.taken..]).read(to)?;
        self.taken += read;
        Ok(read)
    }
}

/// Takes the spans, and nothing else.
#[derive(Default)]
struct Spans(u64);

impl SpanSink for Spans {
    fn thread(&mut self, span: &ThreadSpan) {
        self.0 += black_box(span).until_ns & 1;
    }

    fn cpu(&mut self, span: &CpuSpan) {
        self.0 += black_box(span).until_ns & 1;
    }

    fn bytes(&self, _threads: usize) -> usize {
        0
    }
}

struct Measured {
    events: u64,
    bytes: u64,
    time_ns: u64,
    ready: (u64, u64),
}

fn measure(load: &Load, events: u64, read: &dyn Fn(&mut TraceReader<&mut Machine<'_>>) -> u64) -> Measured {
    let mut machine = Machine::new(load, events, Compression::Zstd(3));
    let began_ns = cpu_ns();
    let mut reader = TraceReader::open(&mut machine).expect("a trace");
    let events = read(&mut reader);
    let time_ns = cpu_ns() - began_ns;
    Measured {
        events,
        bytes: machine.made,
        time_ns: time_ns.saturating_sub(machine.making_ns),
        ready: machine.ready,
    }
}

fn decode(reader: &mut TraceReader<&mut Machine<'_>>) -> u64 {
    let mut events = 0;
    reader
        .read(&mut |event| {
            black_box(event);
            events += 1;
        })
        .expect("a trace");
    events
}

fn track(reader: &mut TraceReader<&mut Machine<'_>>) -> u64 {
    let (mut events, mut tracker) = (0, Tracker::new(BEGAN_NS, Spans::default()));
    reader
        .read(&mut |event| {
            events += 1;
            tracker.event(&event);
        })
        .expect("a trace");
    black_box(tracker.finish(0).0);
    events
}

fn report(reader: &mut TraceReader<&mut Machine<'_>>) -> u64 {
    let (report, ending) = analyse(reader, TraceRange::default()).expect("a trace");
    assert!(ending.is_whole(), "{ending:?}");
    let totals = report.totals();
    assert_eq!(totals.ledger.capacity_ns(), totals.length_ns * totals.cpus);
    black_box(report.rows(ReportBy::Thread, reader.tasks()).len());
    totals.events
}

/// Makes the index, and pictures of its parts at the width of a screen.
fn index(reader: &mut TraceReader<&mut Machine<'_>>, figures: &RefCell<serde_json::Value>) -> u64 {
    let limits = TimelineLimits { bytes: usize::MAX, from_ns: 0 };
    let timeline = Timeline::read(reader, limits).expect("a trace");
    let (_, until_ns) = timeline.covers();
    let mut pictures = Vec::new();
    for part in [1, 30, 1_000, 30_000] {
        let (from_ns, count) = (until_ns / 3, 1_440);
        let bucket_ns = until_ns / part / count as u64;
        let buckets = Buckets { from_ns, bucket_ns, count, parts: 2_000 };
        let began_ns = cpu_ns();
        let cpus = timeline.cpus().take(16).filter_map(|cpu| timeline.cpu_track(cpu, buckets)).count();
        let cpus_ns = cpu_ns() - began_ns;
        let mut reasons = Vec::new();
        let threads = (0..20).filter_map(|place| timeline.thread_track(place, buckets, &mut reasons)).count();
        let threads_ns = cpu_ns() - began_ns - cpus_ns;
        let rows = timeline.thread_rows(from_ns, from_ns + until_ns / part);
        black_box(timeline.sums(from_ns, from_ns + until_ns / part, &|_| true, &rows));
        let sums_ns = cpu_ns() - began_ns - cpus_ns - threads_ns;
        pictures.push(serde_json::json!({
            "part": part, "cpus": cpus, "cpus_ms": ms(cpus_ns), "threads": threads, "threads_ms": ms(threads_ns),
            "summed_threads": rows.len(), "sums_ms": ms(sums_ns),
        }));
    }
    let began_ns = cpu_ns();
    black_box(timeline.overload(0, until_ns));
    *figures.borrow_mut() = serde_json::json!({
        "index_bytes": timeline.bytes as f64 / timeline.events as f64,
        "idle_while_overloaded_ms": ms(cpu_ns() - began_ns),
        "pictures": pictures,
    });
    timeline.events
}

/// Compares, for each thread that waited, the longest time behind one program: by the report, and exact by the index. Returns the
/// share of threads for which both are equal, and the mean of the report's time divided by the exact one.
fn behind(load: &Load, events: u64) -> (f64, f64) {
    let mut machine = Machine::new(load, events, Compression::Zstd(3));
    let limits = TimelineLimits { bytes: usize::MAX, from_ns: 0 };
    let timeline =
        Timeline::read(&mut TraceReader::open(&mut machine).expect("a trace"), limits).expect("a trace");
    let mut machine = Machine::new(load, events, Compression::Zstd(3));
    let mut reader = TraceReader::open(&mut machine).expect("a trace");
    let (report, _) = analyse(&mut reader, TraceRange::default()).expect("a trace");
    let mut by_report = HashMap::new();
    for row in report.rows(ReportBy::Thread, reader.tasks()) {
        if let (GroupKey::Thread(thread, _), Some((_, ns))) = (&row.key, row.behind.first()) {
            by_report.insert(thread.tid, *ns);
        }
    }
    let (mut threads, mut equal, mut parts) = (0_u32, 0_u32, 0.0);
    for place in (0..).take(timeline.threads().len()) {
        let mut by_program: HashMap<Box<str>, u64> = HashMap::new();
        for (who, ns) in timeline.behind_thread(place, 0, u64::MAX).by {
            *by_program.entry(timeline.named(who).program).or_default() += ns;
        }
        let Some(exact_ns) = by_program.values().max() else { continue };
        let tid = timeline.named(CpuWho::Thread(place)).tid;
        let ns = tid.and_then(|tid| by_report.get(&tid)).copied().unwrap_or(0);
        threads += 1;
        equal += u32::from(ns == *exact_ns);
        parts += ns as f64 / *exact_ns as f64;
    }
    (f64::from(equal) / f64::from(threads), parts / f64::from(threads))
}

fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

fn write(load: &Load, events: u64, path: &str) -> std::io::Result<()> {
    let mut machine = Machine::new(load, events, Compression::Zstd(3));
    let bytes = std::io::copy(&mut machine, &mut std::fs::File::create(path)?)?;
    println!("{path}: {bytes} bytes");
    Ok(())
}

/// CPU time of this thread: what runs beside does not count.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("procfs");
    text.split(' ').next().and_then(|ns| ns.parse().ok()).expect("a number")
}

/// The most memory that this process had so far, MB.
fn peak_mb() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kib: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1.024e-3)
}

fn main() {
    let mut args = std::env::args().skip(1);
    let events = args.next().map_or(10_000_000, |count| count.parse().expect("a number of events"));
    let (only, more) = (args.next(), args.next());
    for load in LOADS.iter().filter(|load| only.as_deref().is_none_or(|only| only == load.name)) {
        let mut figures = RefCell::new(serde_json::json!({}));
        match more.as_deref() {
            Some("--no-index") => {}
            Some(path) => return write(load, events, path).expect("a writable file"),
            None => {
                let indexed = measure(load, events, &|reader| index(reader, &figures));
                figures.get_mut()["index_s"] = (ms(indexed.time_ns) / 1e3).into();
                let (equal, part) = behind(load, events.min(MOST_COMPARED));
                figures.get_mut()["behind_equal"] = equal.into();
                figures.get_mut()["behind_part"] = part.into();
            }
        }
        let passes =
            [measure(load, events, &decode), measure(load, events, &track), measure(load, events, &report)];
        let figures = figures.get_mut();
        for (name, pass) in ["decode", "states", "report"].into_iter().zip(&passes) {
            figures[name] = (pass.events as f64 * 1e3 / pass.time_ns as f64).into();
        }
        let [_, _, pass] = &passes;
        figures["load"] = load.name.into();
        figures["events"] = pass.events.into();
        figures["cpus"] = load.cpus.into();
        figures["bytes_an_event"] = (pass.bytes as f64 / pass.events as f64).into();
        figures["ready"] = (pass.ready.0 as f64 / pass.ready.1 as f64).into();
        figures["peak_mb"] = peak_mb().into();
        println!("{figures}");
    }
}
