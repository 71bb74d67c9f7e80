//! Traces as files of other programs, read again: Perfetto's by another implementation of protobuf, with the field numbers of its public
//! schema, and slices by a CSV reader.

use std::collections::{BTreeMap, HashMap};
use std::io::Cursor;

use bytes::Bytes;
use cpumon_export::{Format, TraceSurvey, trace_perfetto, trace_slices};
use cpumon_model::{Comm, Moment, ProcessKey, ThreadKey, WaitReason};
use cpumon_trace::{
    Compression, FileHeader, GroupKey, Leaves, ReportBy, SchedEvent, SchedEventKind, TraceIdentity,
    TraceRange, TraceReader, TraceSource, TraceTask, TraceWriter, analyse,
};
use cpumon_trace_import::{AnyTrace, UNKNOWN_TID};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use prost::Message;

use super::perfetto_schema::Trace;

const BEGAN_NS: u64 = 5_000_000;
const BOOT_NS: u64 = 7_000_000;

fn identity(number: u32, pid: u32, comm: &str) -> TraceIdentity {
    TraceIdentity {
        task: TraceTask(number),
        at_ns: BEGAN_NS,
        thread: ThreadKey { tid: number + 100, start_ns: 7_000 },
        process: ProcessKey { pid, start_ns: 7_000 },
        comm: Comm::from(comm),
        program: comm.as_bytes().into(),
        is_executable: false,
        is_kernel: false,
        group: 0,
    }
}

fn event(at_us: u64, cpu: u16, kind: SchedEventKind) -> SchedEvent {
    SchedEvent { at_ns: BEGAN_NS + at_us * 1_000, cpu, kind }
}

fn switch(at_us: u64, cpu: u16, prev: u32, next: u32, leaves: Leaves) -> SchedEvent {
    event(at_us, cpu, SchedEventKind::Switch { prev: TraceTask(prev), next: TraceTask(next), leaves })
}

/// Two CPUs; task 4 is born and ends, 1 µs is a hole, task 9 has no name.
fn trace() -> Vec<u8> {
    const READ: Leaves = Leaves::Asleep(WaitReason::syscall(0));
    let waking =
        |task, waker, cpu| SchedEventKind::Waking { task: TraceTask(task), waker: TraceTask(waker), cpu };
    let events = [
        switch(10, 0, 1, 2, READ),
        switch(15, 1, 0, 3, Leaves::Ready),
        event(20, 0, SchedEventKind::Born { task: TraceTask(4), parent: TraceTask(2) }),
        event(21, 0, waking(4, 2, 1)),
        event(30, 1, waking(1, 3, 0)),
        switch(40, 1, 3, 4, Leaves::Ready),
        switch(50, 0, 2, 1, Leaves::Asleep(WaitReason::DISK)),
        switch(60, 1, 4, 0, Leaves::Dead),
        // Between, another came unseen.
        switch(61, 1, 3, 9, READ),
        switch(70, 0, 1, 0, READ),
    ];
    let began = Moment { mono_ns: BEGAN_NS, boot_ns: BOOT_NS, wall_ns: 1_700_000_000_000_000_000 };
    let header = FileHeader { began, cpus: 2, ..FileHeader::default() };
    let mut writer = TraceWriter::new(Vec::new(), &header, Compression::None).unwrap();
    for (number, pid, name) in
        [(1, 101, "=cmd()"), (2, 102, "two"), (3, 102, "three, \"3\""), (4, 102, "four")]
    {
        writer.identity(&identity(number, pid, name));
    }
    for cpu in 0..2 {
        for event in events.iter().filter(|event| event.cpu == cpu) {
            writer.event(event);
        }
    }
    writer.finish(BEGAN_NS + 80_000, 0).unwrap().0
}

fn survey(bytes: &[u8]) -> TraceSurvey {
    TraceSurvey::new(TraceReader::open(bytes).unwrap()).unwrap()
}

fn perfetto(bytes: &[u8]) -> Trace {
    let mut out = Vec::new();
    let ending = trace_perfetto(&survey(bytes), &mut TraceReader::open(bytes).unwrap(), &mut out).unwrap();
    assert!(ending.is_whole());
    Trace::decode(out.as_slice()).unwrap()
}

/// Switches of each CPU: time, the thread that comes, its name, the state of the one that left.
fn switches(trace: &Trace) -> BTreeMap<u32, Vec<(u64, i32, String, i64)>> {
    let mut cpus: BTreeMap<u32, Vec<_>> = BTreeMap::new();
    for bundle in trace.packet.iter().filter_map(|packet| packet.ftrace_events.as_ref()) {
        let compact = bundle.compact_sched.as_ref().unwrap();
        let mut at_ns = 0;
        for (at, passed_ns) in compact.switch_timestamp.iter().enumerate() {
            at_ns += passed_ns;
            let name = &compact.intern_table[compact.switch_next_comm_index[at] as usize];
            let switch = (at_ns, compact.switch_next_pid[at], name.clone(), compact.switch_prev_state[at]);
            assert_eq!(compact.switch_next_prio[at], 0);
            cpus.entry(bundle.cpu.unwrap()).or_default().push(switch);
        }
    }
    cpus
}

#[test]
fn perfetto_has_the_run_times_of_the_report_and_unknown_time_apart() {
    let bytes = trace();
    let trace = perfetto(&bytes);
    assert!(trace.packet.iter().all(|packet| packet.trusted_packet_sequence_id == Some(1)));
    let release = trace.packet[0].system_info.as_ref().unwrap().utsname.as_ref().unwrap().release();
    assert_eq!(release, "6.0", "without it states are read as those of old kernels");
    let cpus = switches(&trace);
    let us = |ns: u64| (ns - BOOT_NS) / 1_000;
    let of = |cpu: u32| -> Vec<_> {
        cpus[&cpu].iter().map(|(at, tid, name, state)| (us(*at), *tid, name.as_str(), *state)).collect()
    };
    let unknown = (1 << 23) - 1;
    assert_eq!(
        of(0),
        // The first switch of a CPU only shows its current thread.
        [
            (0, 101, "=cmd()", 0),
            (0, 101, "=cmd()", 0),
            (10, 102, "two", 1),
            (50, 101, "=cmd()", 2),
            (70, 0, "swapper", 1),
            (80, 0, "swapper", 0x100),
        ]
    );
    assert_eq!(
        of(1),
        [
            (0, 0, "swapper", 0),
            (0, 0, "swapper", 0),
            (15, 103, "three, \"3\"", 0x100),
            (40, 104, "four", 0x100),
            // Its state is unknown from here until it leaves.
            (60, 103, "three, \"3\"", 0x10),
            (60, unknown, "unknown", 0x40),
            (61, 103, "three, \"3\"", 0x100),
            (61, (1 << 23) + 9, "task 9", 1),
            (80, 0, "swapper", 0x100),
        ]
    );
    let mut sums: HashMap<i32, u64> = HashMap::new();
    for switches in cpus.values() {
        for pair in switches.windows(2) {
            *sums.entry(pair[0].1).or_default() += pair[1].0 - pair[0].0;
        }
    }
    let mut reader = TraceReader::open(bytes.as_slice()).unwrap();
    let (report, _) = analyse(&mut reader, TraceRange::default()).unwrap();
    for row in report.rows(ReportBy::Thread, reader.tasks()) {
        let GroupKey::Thread(thread, _) = row.key else { continue };
        assert_eq!(
            sums.get(&thread.tid.try_into().unwrap()).copied().unwrap_or(0),
            row.totals.run_ns,
            "{}",
            row.name
        );
    }
    assert_eq!(sums[&unknown], report.totals().ledger.unknown_ns);
}

/// Times by thread, process and name.
type ThreadTimes = BTreeMap<(u32, u32, String), u64>;

/// Run time of each thread, and the states of each CPU.
fn times<S: TraceSource>(mut trace: S) -> (ThreadTimes, Vec<[u64; 3]>) {
    let (report, ending) = analyse(&mut trace, TraceRange::default()).unwrap();
    assert!(ending.is_whole(), "{ending:?}");
    let rows = report.rows(ReportBy::Thread, trace.tasks());
    let named = rows.iter().filter_map(|row| match &row.key {
        GroupKey::Thread(thread, process) if !row.name.is_empty() && thread.tid < UNKNOWN_TID => {
            Some(((thread.tid, process.pid, row.name.to_string()), row.totals.run_ns))
        }
        _ => None,
    });
    let cpus = report.cpus().map(|cpu| [cpu.run_ns, cpu.idle_ns, cpu.unknown_ns]).collect();
    (named.collect(), cpus)
}

#[test]
fn a_trace_that_comes_back_from_perfetto_has_the_same_times() {
    let bytes = trace();
    let mut out = Vec::new();
    trace_perfetto(&survey(&bytes), &mut TraceReader::open(&bytes[..]).unwrap(), &mut out).unwrap();
    let (threads, cpus) = times(TraceReader::open(&bytes[..]).unwrap());
    let back = AnyTrace::open(Cursor::new(out)).unwrap();
    let began = back.header().began;
    assert_eq!((began.mono_ns, began.wall_ns), (BOOT_NS, 1_700_000_000_000_000_000));
    let (threads_back, cpus_back) = times(back);
    assert_eq!(threads.len(), 4, "{threads:?}");
    assert_eq!((threads_back, cpus_back), (threads, cpus));
}

/// Where no CPU runs anything at the end, nothing is switched there, and the time since the last switch was lost.
#[test]
fn the_idle_end_of_a_trace_comes_back_from_perfetto() {
    let began = Moment { mono_ns: BEGAN_NS, boot_ns: BOOT_NS, wall_ns: 1_700_000_000_000_000_000 };
    let header = FileHeader { began, cpus: 2, ..FileHeader::default() };
    let mut writer = TraceWriter::new(Vec::new(), &header, Compression::None).unwrap();
    let sleeps = Leaves::Asleep(WaitReason::OTHER);
    for event in [switch(0, 0, 0, 1, Leaves::Ready), switch(30, 0, 1, 0, sleeps), switch(0, 1, 2, 0, sleeps)]
    {
        writer.event(&event);
    }
    let bytes = writer.finish(BEGAN_NS + 90_000, 0).unwrap().0;
    let mut out = Vec::new();
    trace_perfetto(&survey(&bytes), &mut TraceReader::open(&bytes[..]).unwrap(), &mut out).unwrap();
    let (_, cpus) = times(AnyTrace::open(Cursor::new(out)).unwrap());
    assert_eq!(cpus, [[30_000, 60_000, 0], [0, 90_000, 0]]);
}

#[test]
fn perfetto_knows_processes_births_and_wakeups() {
    let trace = perfetto(&trace());
    let tree = trace.packet.iter().find_map(|packet| packet.process_tree.as_ref()).unwrap();
    let threads: Vec<_> =
        tree.threads.iter().map(|thread| (thread.tid(), thread.tgid(), thread.name())).collect();
    assert_eq!(
        threads,
        [(101, 101, "=cmd()"), (102, 102, "two"), (103, 102, "three, \"3\"")],
        "four is born later"
    );
    let bundles: Vec<_> = trace.packet.iter().filter_map(|packet| packet.ftrace_events.as_ref()).collect();
    let born: Vec<_> = bundles.iter().flat_map(|bundle| &bundle.event).collect();
    let new = born[0].task_newtask.as_ref().unwrap();
    assert_eq!(
        (born.len(), born[0].timestamp(), born[0].pid()),
        (1, BOOT_NS + 20_999, 102),
        "when it is woken"
    );
    assert_eq!((new.pid(), new.comm(), new.clone_flags()), (104, "four", 0x10000));
    let wakings: Vec<_> = bundles
        .iter()
        .filter_map(|bundle| bundle.compact_sched.as_ref())
        .map(|compact| {
            let name = &compact.intern_table[compact.waking_comm_index[0] as usize];
            (
                compact.waking_timestamp[0] - BOOT_NS,
                compact.waking_pid[0],
                compact.waking_target_cpu[0],
                name.as_str(),
            )
        })
        .collect();
    assert_eq!(wakings, [(21_000, 104, 1, "four"), (30_000, 101, 0, "=cmd()")]);
}

const SLICE_COLUMNS: [&str; 13] = [
    "start_ns",
    "end_ns",
    "cpu",
    "tid",
    "thread_start_ns",
    "pid",
    "name",
    "program",
    "state",
    "reason",
    "woken_by_tid",
    "woken_by",
    "is_over",
];

#[test]
fn slices_are_rows_with_who_woke_the_thread_and_no_formulas() {
    let bytes = trace();
    let mut out = Vec::new();
    trace_slices(
        Format::Csv,
        &survey(&bytes),
        &mut TraceReader::open(bytes.as_slice()).unwrap(),
        TraceRange::default(),
        &mut out,
    )
    .unwrap();
    let mut reader = csv::Reader::from_reader(out.as_slice());
    assert_eq!(reader.headers().unwrap().iter().collect::<Vec<_>>(), SLICE_COLUMNS);
    let rows: Vec<Vec<String>> =
        reader.records().map(|row| row.unwrap().iter().map(str::to_owned).collect()).collect();
    let of = |tid: &str| -> Vec<String> {
        let its = rows.iter().filter(|row| row[3] == tid);
        its.map(|row| [0, 1, 2, 8, 9, 10, 11].map(|at| row[at].as_str()).join(" ")).collect()
    };
    assert_eq!(
        of("101"),
        [
            "0 10000 0 running   ",
            "10000 30000 0 blocked read  ",
            "30000 50000 0 ready  103 three, \"3\"",
            "50000 70000 0 running   ",
            "70000 80000 0 blocked read  ",
        ]
    );
    assert_eq!(of("104")[1..], ["21000 40000 1 ready  102 two", "40000 60000 1 running   "]);
    assert!(rows.iter().filter(|row| row[3] == "101").all(|row| row[6] == "'=cmd()"));
    let text = String::from_utf8(out.clone()).unwrap();
    assert!(text.contains("\"three, \"\"3\"\"\"") && !text.contains("\"=cmd()"), "{text}");
}

#[test]
fn slices_in_parquet_are_those_of_csv() {
    let bytes = trace();
    let (survey, open) = (survey(&bytes), || TraceReader::open(bytes.as_slice()).unwrap());
    let (mut csv, mut parquet) = (Vec::new(), Vec::new());
    trace_slices(Format::Csv, &survey, &mut open(), TraceRange::default(), &mut csv).unwrap();
    trace_slices(Format::Parquet, &survey, &mut open(), TraceRange::default(), &mut parquet).unwrap();
    let reader = SerializedFileReader::new(Bytes::from(parquet)).unwrap();
    let mut rows = reader.get_row_iter(None).unwrap().map(Result::unwrap);
    for expected in csv::Reader::from_reader(csv.as_slice()).records() {
        let row = rows.next().unwrap();
        let cells: Vec<_> = row
            .get_column_iter()
            .map(|(_, field)| match field {
                Field::Null => String::new(),
                Field::Long(number) => number.to_string(),
                // CSV guards names that a spreadsheet would run.
                Field::Str(text) if text.starts_with('=') => format!("'{text}"),
                Field::Str(text) => text.clone(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(cells, expected.unwrap().iter().collect::<Vec<_>>());
        let names: Vec<_> = row.get_column_iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, SLICE_COLUMNS);
    }
    assert!(rows.next().is_none() && reader.metadata().file_metadata().num_rows() > 10);
}
