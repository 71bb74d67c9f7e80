//! `.etl` of Windows: its events are those that our own file would have, whatever header they have and however the buffers are packed and
//! ordered; lost or damaged events are unknown time. Payloads that a kernel wrote are in the unit tests of the decoder.

use std::io::Cursor;

use cpumon_model::WaitReason;
use cpumon_sched::{Leaves, SchedEvent, SchedEventKind, TraceTask};
use cpumon_trace::{
    Ending, GroupKey, GroupRow, ReadError, Report, ReportBy, TraceRange, TraceSource, analyse,
};
use cpumon_trace_import::AnyTrace;

use crate::made_etl::{
    BEGAN_NS, BEGAN_WALL_NS, BUFFER_BYTES, BufferOptions, DPC, EVENTS_LOST, IS_DEAD, IS_READY, ISR, LAYOUTS,
    LZNT1, Layout, PLAIN, PROCESS_DC_END, PROCESS_DC_START, PROCESS_START, READY, SESSION, SET_NAME, SWITCH,
    SessionOptions, THREAD_DC_END, THREAD_DC_START, THREAD_END, THREAD_START, USER_REQUEST, WAITS, WR_QUEUE,
    XPRESS, XPRESS_HUFFMAN, buffer, buffers, event, file, interrupt, log_header, perf, process, ready,
    renamed, switch, thread,
};
use crate::made_events::made_up;

fn open(bytes: &[u8]) -> Result<AnyTrace<'_>, ReadError> {
    AnyTrace::open(Cursor::new(bytes))
}

fn report_of(bytes: &[u8], by: ReportBy) -> (Report, Vec<GroupRow>, Ending) {
    let mut trace = open(bytes).unwrap();
    let (report, ending) = analyse(&mut trace, TraceRange::default()).unwrap();
    let rows = report.rows(by, trace.tasks());
    (report, rows, ending)
}

fn tid(task: TraceTask) -> u32 {
    if task == TraceTask::IDLE { 0 } else { task.0 + 100 }
}

fn payload(kind: &SchedEventKind) -> (u16, Vec<u8>, u32) {
    match *kind {
        SchedEventKind::Switch { prev, next, leaves } => {
            let state = if leaves == Leaves::Ready { IS_READY } else { WAITS };
            (SWITCH, switch(tid(prev), tid(next), state, WR_QUEUE), tid(prev))
        }
        SchedEventKind::Waking { task, waker, .. } => (READY, ready(tid(task)), tid(waker)),
        ref other => panic!("{other:?}"),
    }
}

/// By thread ids. A header without a thread says nothing of the waker before the CPU's first switch.
fn show(event: &SchedEvent, id: &dyn Fn(TraceTask) -> u32, knows_waker: bool) -> String {
    let what = match event.kind {
        SchedEventKind::Switch { prev, next, leaves } => {
            // The idle thread waits for nothing.
            let waits = matches!(leaves, Leaves::Asleep(_)) && prev != TraceTask::IDLE;
            format!("{} {waits} {}", id(prev), id(next))
        }
        SchedEventKind::Waking { task, waker, cpu } => {
            let waker = if knows_waker { id(waker) } else { u32::MAX };
            format!("{waker} wakes {} on {cpu}", id(task))
        }
        other => format!("{other:?}"),
    };
    format!("{} {} {what}", event.at_ns, event.cpu)
}

fn shown(events: &[SchedEvent], id: &dyn Fn(TraceTask) -> u32, has_tids: bool) -> Vec<String> {
    let mut has_switched = [false; 2];
    let one = |event: &SchedEvent| {
        let switched = &mut has_switched[usize::from(event.cpu)];
        *switched |= matches!(event.kind, SchedEventKind::Switch { .. });
        show(event, id, has_tids || *switched)
    };
    events.iter().map(one).collect()
}

/// The buffers of both CPUs in an order in which no session writes them.
fn shuffled(session: SessionOptions, layout: Layout, events: &[SchedEvent]) -> Vec<u8> {
    let mut parts = Vec::new();
    for cpu in 0..2 {
        let its = events.iter().filter(|event| event.cpu == cpu).map(|one| {
            let (hook, payload, here) = payload(&one.kind);
            event(layout, hook, (one.at_ns, here), &payload)
        });
        let its: Vec<_> = its.collect();
        let options = BufferOptions { cpu, packing: session.packing, ..BufferOptions::default() };
        parts.extend(buffers(options, &its));
    }
    parts.sort_by_key(|(sequence, _)| sequence.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    parts.into_iter().fold(log_header(session), |file, (_, part)| [file, part].concat())
}

#[test]
fn events_are_those_of_our_own_file_whatever_the_headers_and_however_packed() {
    let events = made_up(7, 3_000);
    for (packing, layout) in [PLAIN, LZNT1, XPRESS, XPRESS_HUFFMAN]
        .into_iter()
        .flat_map(|packing| LAYOUTS.map(|layout| (packing, layout)))
    {
        let bytes = shuffled(SessionOptions { packing, ..SESSION }, layout, &events);
        let mut trace = open(&bytes).unwrap();
        let mut back = Vec::new();
        let ending = trace.read(&mut |event| back.push(event)).unwrap();
        assert!(
            ending.is_whole() && ending.late == 0 && ending.gaps == 0,
            "{packing} {layout:?}: {ending:?}"
        );
        let has_tids = !matches!(layout, Layout::PerfInfo | Layout::PerfInfoWithCounters);
        let id = |task: TraceTask| trace.tasks().find(task).map_or(0, |names| names.thread.tid);
        let (mut back, mut expected) = (shown(&back, &id, has_tids), shown(&events, &tid, has_tids));
        back.sort();
        expected.sort();
        let other = back.iter().zip(&expected).find(|(back, own)| back != own);
        assert!(back == expected, "{packing} {layout:?}: {other:?}");
    }
}

fn us(us: u64) -> u64 {
    BEGAN_NS + us * 1_000
}

/// A service with two threads, the kernel, and a process that begins; thread 300 lives twice. Process ids are no thread ids.
fn lives() -> Vec<u8> {
    let first = [
        perf(PROCESS_DC_START, us(0), &process(4, "System")),
        perf(THREAD_DC_START, us(0), &thread(4, 8, "")),
        perf(PROCESS_DC_START, us(0), &process(900, "SearchIndexer-with-a-long-name.exe")),
        perf(THREAD_DC_START, us(0), &thread(900, 904, "")),
        perf(THREAD_DC_START, us(0), &thread(900, 908, "Wörker")),
        perf(SWITCH, us(100), &switch(0, 904, IS_READY, 0)),
        perf(SWITCH, us(200), &switch(904, 908, WAITS, USER_REQUEST)),
        perf(SET_NAME, us(210), &renamed(900, 908, "Pool")),
        perf(READY, us(250), &ready(904)),
        perf(SWITCH, us(300), &switch(908, 8, IS_READY, 31)),
        perf(PROCESS_START, us(310), &process(1200, "run.exe")),
        perf(THREAD_START, us(320), &thread(1200, 300, "")),
        perf(READY, us(330), &ready(300)),
        perf(SWITCH, us(400), &switch(8, 300, WAITS, WR_QUEUE)),
        perf(THREAD_END, us(490), &thread(1200, 300, "")),
        perf(SWITCH, us(500), &switch(300, 908, IS_DEAD, 0)),
        perf(THREAD_START, us(520), &thread(900, 300, "again")),
        perf(READY, us(530), &ready(300)),
        perf(SWITCH, us(600), &switch(908, 300, WAITS, USER_REQUEST)),
        perf(SWITCH, us(700), &switch(300, 0, WAITS, WR_QUEUE)),
    ];
    // Thread 904 moves here; the process of 2000 is known from the end only.
    let second = [
        perf(SWITCH, us(350), &switch(0, 904, IS_READY, 0)),
        perf(SWITCH, us(650), &switch(904, 0, WAITS, USER_REQUEST)),
        perf(SWITCH, us(700), &switch(0, 2000, IS_READY, 0)),
        perf(SWITCH, us(800), &switch(2000, 0, WAITS, 0)),
        perf(SET_NAME, us(790), &renamed(1996, 2000, "Late")),
        perf(PROCESS_DC_END, us(900), &process(1996, "late.exe")),
        perf(THREAD_DC_END, us(900), &thread(1996, 2000, "")),
    ];
    file(&[&first, &second])
}

#[test]
fn threads_processes_and_their_names_are_those_of_the_rundown() {
    let bytes = lives();
    let (report, rows, ending) = report_of(&bytes, ReportBy::Thread);
    assert!(ending.is_whole() && ending.lost == 0, "{ending:?}");
    let find = |name: &str, tid: u32| {
        let is_it = |row: &&GroupRow| {
            *row.name == *name && matches!(row.key, GroupKey::Thread(thread, _) if thread.tid == tid)
        };
        rows.iter().find(is_it).unwrap_or_else(|| panic!("{name} {tid}: {rows:?}"))
    };
    for (name, tid, run_us) in [
        // Those without a name are called as their program.
        ("SearchIndexer-with-a-long-name.exe", 904, 100 + 300),
        ("Pool", 908, 100 + 100),
        ("System", 8, 100),
        // Two lives.
        ("run.exe", 300, 100),
        ("again", 300, 100),
        ("Late", 2000, 100),
    ] {
        assert_eq!(find(name, tid).totals.run_ns, run_us * 1_000, "{name}");
    }
    let indexer = find("SearchIndexer-with-a-long-name.exe", 904);
    assert_eq!(indexer.totals.migrations, 1);
    assert_eq!(indexer.blocked.of(WaitReason::windows(USER_REQUEST)), 50_000 + 150_000);
    assert_eq!((indexer.totals.ready_woken_ns, indexer.totals.ready_preempted_ns), (100_000, 0));
    assert_eq!(find("Pool", 908).totals.ready_preempted_ns, 200_000);
    assert_eq!(report.totals().ledger.capacity_ns(), 2 * 700_000);

    let (_, rows, _) = report_of(&bytes, ReportBy::Process);
    let of = |row: &GroupRow| match row.key {
        GroupKey::Process(process) => {
            (process.pid, process.start_ns, row.name.to_string(), row.totals.run_ns / 1_000)
        }
        ref other => panic!("{other:?}"),
    };
    let mut of: Vec<_> = rows.iter().map(of).collect();
    of.sort_unstable();
    let expected = [
        (4, 0, "System", 100),
        (900, 0, "SearchIndexer-with-a-long-name.exe", 700),
        (1200, us(310), "run.exe", 100),
        (1996, 0, "late.exe", 100),
    ];
    assert_eq!(of, expected.map(|(pid, start_ns, name, run_us)| (pid, start_ns, name.to_owned(), run_us)));
}

#[test]
fn interrupts_are_taken_out_of_what_they_interrupt() {
    let events = [
        perf(SWITCH, us(0), &switch(0, 904, IS_READY, 0)),
        // An ISR of 10 µs within a DPC of 50.
        perf(ISR, us(130), &interrupt(ISR, us(120))),
        perf(DPC, us(150), &interrupt(DPC, us(100))),
        perf(SWITCH, us(200), &switch(904, 0, WAITS, WR_QUEUE)),
        perf(ISR, us(230), &interrupt(ISR, us(225))),
        perf(SWITCH, us(300), &switch(0, 904, IS_READY, 0)),
    ];
    let (report, rows, _) = report_of(&file(&[&events]), ReportBy::Thread);
    assert_eq!(*rows[0].name, *"(no name)", "there is no rundown");
    assert_eq!(
        (rows[0].totals.run_ns, rows[0].totals.irq_ns, rows[0].totals.softirq_ns),
        (150_000, 10_000, 40_000)
    );
    let ledger = report.totals().ledger;
    assert_eq!((ledger.irq_ns, ledger.softirq_ns, ledger.idle_ns), (15_000, 40_000, 95_000));
    assert_eq!((ledger.unknown_ns, ledger.capacity_ns()), (0, 300_000));
}

/// A thread runs for 100 µs again and again; three buffers.
fn three(flags: [u16; 3]) -> [Vec<u8>; 4] {
    let slice = |at: u64| {
        let begins = perf(SWITCH, us(at), &switch(0, 904, IS_READY, 0));
        [begins, perf(SWITCH, us(at + 100), &switch(904, 0, WAITS, WR_QUEUE))].concat()
    };
    let part = |sequence: u64, at: u64, flags| {
        let options = BufferOptions { sequence, flags, ..BufferOptions::default() };
        buffer(options, &[slice(at), slice(at + 200)].concat())
    };
    [log_header(SESSION), part(1, 0, flags[0]), part(2, 1_000, flags[1]), part(3, 2_000, flags[2])]
}

fn idle_and_unknown(bytes: &[u8]) -> (u64, u64, Ending) {
    let (report, _, ending) = report_of(bytes, ReportBy::Thread);
    let ledger = report.totals().ledger;
    assert_eq!(ledger.capacity_ns(), report.totals().length_ns, "{ledger:?}");
    (ledger.idle_ns / 1_000, ledger.unknown_ns / 1_000, ending)
}

#[test]
fn lost_events_and_missing_buffers_are_unknown_time() {
    let whole = three([0; 3]);
    let (idle, unknown, ending) = idle_and_unknown(&whole.concat());
    assert_eq!((idle, unknown), (100 + 700 + 100 + 700 + 100, 0));
    assert!(ending.is_whole(), "{ending:?}");
    // On both sides of the flagged buffer: from the last event in front of the buffer, and up to the first event behind it.
    let (idle, unknown, _) = idle_and_unknown(&three([0, EVENTS_LOST, 0]).concat());
    assert_eq!((idle, unknown), (300, 1_400));
    let (idle, unknown, _) = idle_and_unknown(&three([0, 0, EVENTS_LOST]).concat());
    assert_eq!((idle, unknown), (1_000, 700));
    // Nothing is known of what was in front of the first one.
    let (idle, unknown, _) = idle_and_unknown(&three([EVENTS_LOST, 0, 0]).concat());
    assert_eq!((idle, unknown), (1_000, 700));
    // A buffer is not there at all: its number is missing.
    let [header, first, _, third] = three([0; 3]);
    let (idle, unknown, ending) = idle_and_unknown(&[header, first, third].concat());
    assert_eq!((idle, unknown), (200, 1_700));
    assert!(ending.is_whole() && ending.gaps == 0, "{ending:?}");
    let (_, _, ending) = report_of(&whole.concat(), ReportBy::Thread);
    let mut lossy = whole;
    lossy[0] = log_header(SessionOptions { events_lost: 77, ..SESSION });
    assert_eq!([ending.lost, report_of(&lossy.concat(), ReportBy::Thread).2.lost], [0, 77]);
}

#[test]
fn damaged_buffers_are_unknown_time_and_the_others_are_read() {
    let whole = three([0; 3]).concat();
    let second = 2 * BUFFER_BYTES;
    let damage = |at: usize, byte: u8| {
        let mut bytes = whole.clone();
        bytes[at] = byte;
        bytes
    };
    // The size of a buffer; its number of used bytes; the marker of its second event (it has four).
    for (at, byte, idle, unknown) in
        [(second, 0x47, 200, 1_700), (second + 5, 0xf0, 200, 1_700), (second + 72 + 40 + 3, 0, 900, 1_000)]
    {
        let (known, lost, ending) = idle_and_unknown(&damage(at, byte));
        assert_eq!((known, lost), (idle, unknown), "{at}");
        assert_eq!((ending.damaged_at, ending.gaps), (Some(second as u64), 1), "{at}");
        assert!(ending.ended_ns.is_some() && !ending.is_whole(), "{ending:?}");
    }
    // Cut in a buffer: the buffers in front are read.
    for length in [second + 10, second + 72 + 130, whole.len() - 1] {
        let (report, _, ending) = report_of(&whole[..length], ReportBy::Thread);
        assert_eq!(report.totals().ledger.lost, 0, "the session lost nothing");
        let expected = length / BUFFER_BYTES * BUFFER_BYTES;
        assert_eq!(ending.damaged_at, Some(expected as u64), "{length}: {ending:?}");
    }
    // What the session has not used yet is no damage.
    let mut unused = whole.clone();
    unused.extend([0; 2 * BUFFER_BYTES]);
    assert!(report_of(&unused, ReportBy::Thread).2.is_whole());
    // A payload that is too short costs that event alone.
    let short = file(&[&[
        perf(SWITCH, us(0), &switch(0, 904, IS_READY, 0)),
        perf(SWITCH, us(100), &[0; 8]),
        perf(SWITCH, us(200), &switch(904, 0, WAITS, WR_QUEUE)),
    ]]);
    let (_, rows, ending) = report_of(&short, ReportBy::Thread);
    assert_eq!((ending.malformed, ending.gaps, rows[0].totals.run_ns), (1, 0, 200_000));
}

#[test]
fn packed_buffers_that_cannot_be_unpacked_are_damaged() {
    for packing in [LZNT1, XPRESS, XPRESS_HUFFMAN] {
        let events = made_up(3, 400);
        let whole = shuffled(SessionOptions { packing, ..SESSION }, Layout::PerfInfo, &events);
        assert_eq!(open(&whole).unwrap().read(&mut |_| {}).unwrap().gaps, 0);
        // Every algorithm needs the bytes that are cut off.
        let ending = open(&whole[..whole.len() - 40]).unwrap().read(&mut |_| {}).unwrap();
        assert_eq!(ending.gaps, 1, "{packing}: {ending:?}");
        // The first buffer names an algorithm that does not exist.
        let mut unknown = whole.clone();
        unknown[44] = 9;
        let read = open(&unknown).and_then(|mut trace| trace.read(&mut |_| {}));
        let is_refused = matches!(&read, Err(ReadError::Unusable(what)) if what.contains("packed in a way"));
        assert!(is_refused, "{packing}: {read:?}");
    }
}

#[test]
fn clocks_of_all_kinds_are_ns_since_boot_and_have_the_time_of_day() {
    let boot_ns = u64::try_from(BEGAN_WALL_NS).unwrap() - BEGAN_NS;
    let filetime = |ns: u64| (boot_ns + ns) / 100 + 116_444_736_000_000_000;
    let kinds: [(SessionOptions, &dyn Fn(u64) -> u64); 4] = [
        (SESSION, &|ns| ns),
        (SessionOptions { ticks_a_second: 10_000_000, ..SESSION }, &|ns| ns / 100),
        (SessionOptions { clock: 2, ..SESSION }, &filetime),
        (SessionOptions { clock: 3, mhz: 2_000, ..SESSION }, &|ns| ns * 2),
    ];
    for (session, ticks) in kinds {
        let session = SessionOptions { ticks: ticks(BEGAN_NS), ..session };
        let events = [
            perf(SWITCH, ticks(us(500)), &switch(0, 904, IS_READY, 0)),
            perf(DPC, ticks(us(530)), &interrupt(DPC, ticks(us(520)))),
            perf(SWITCH, ticks(us(600)), &switch(904, 0, WAITS, WR_QUEUE)),
        ];
        let bytes = [log_header(session), buffer(BufferOptions::default(), &events.concat())].concat();
        let mut trace = open(&bytes).unwrap();
        let began = trace.header().began;
        assert_eq!((began.mono_ns, began.boot_ns), (us(500), us(500)), "{session:?}");
        assert_eq!(began.wall_ns, BEGAN_WALL_NS + 500_000, "{session:?}");
        let mut back = Vec::new();
        trace.read(&mut |event| back.push((event.at_ns, event.kind))).unwrap();
        assert_eq!([back[0].0, back[2].0], [us(500), us(600)]);
        assert!(matches!(back[1].1, SchedEventKind::Interrupt { ran_ns: 10_000, .. }), "{session:?}");
    }
}

#[test]
fn files_without_a_trace_are_refused_with_the_reason() {
    let reason =
        |bytes: &[u8]| open(bytes).and_then(|mut trace| trace.read(&mut |_| {})).unwrap_err().to_string();
    let rundown = [
        perf(PROCESS_DC_START, us(0), &process(4, "System")),
        perf(THREAD_DC_START, us(0), &thread(4, 8, "")),
    ];
    for bytes in [log_header(SESSION), file(&[&rundown])] {
        let reason = reason(&bytes);
        assert!(reason.contains("no context switches; record with"), "{reason}");
    }
    let packed = reason(&file(&[&[perf(0x0525, us(0), &[1, 2, 3, 4])]]));
    assert!(packed.contains("layout is not public"), "{packed}");
    for session in [
        SessionOptions { ticks_a_second: 0, ..SESSION },
        SessionOptions { ticks_a_second: u64::MAX, ..SESSION },
        SessionOptions { clock: 3, mhz: 0, ..SESSION },
    ] {
        assert!(reason(&log_header(session)).contains("impossible frequency"), "{session:?}");
    }
    // Cut within the first event, and within its header.
    let header = log_header(SESSION);
    assert!(reason(&header[..300]).contains("header of the trace"), "{}", reason(&header[..300]));
    assert!(reason(&header[..70]).contains("is no trace file"), "{}", reason(&header[..70]));
}

#[test]
fn any_bit_may_be_wrong() {
    let events = made_up(5, 60);
    for packing in [PLAIN, LZNT1, XPRESS, XPRESS_HUFFMAN] {
        let whole = shuffled(SessionOptions { packing, ..SESSION }, Layout::PerfInfo, &events);
        for at in (0..whole.len()).step_by(3) {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << (at % 8);
            let Ok(mut trace) = open(&bytes) else { continue };
            let Ok((report, _)) = analyse(&mut trace, TraceRange::default()) else { continue };
            let totals = report.totals();
            let most = totals.length_ns.saturating_mul(totals.cpus);
            assert!(totals.ledger.capacity_ns() <= most, "{packing} {at}");
        }
    }
}
