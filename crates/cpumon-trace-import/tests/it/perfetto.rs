//! Traces of Perfetto: single events and columns give the events that our own file would have; processes, lost events, interrupts; damage and
//! hostile sizes are found. The way back of our own export is tested in `cpumon-export` (`trace`).

use std::collections::HashSet;
use std::io::Write as _;

use cpumon_sched::{Leaves, SchedEvent, SchedEventKind, TraceTask};
use cpumon_trace::{GroupKey, ReadError, ReportBy, TraceRange, analyse};

use crate::imports::{PREEMPTED, SLEEPS, named, open, read, report_of, show};
use crate::made_events::{BEGAN_NS, made_up};
use crate::made_perfetto::{
    Row, bundle, bytes, clocks, compact, compressed, event, new_task, number, packet, processes, release,
    switch, waking,
};
use crate::seeded_rng::SeededRng;

const DEAD: u64 = 0x10;
const CLONE_THREAD: u64 = 0x10000;

fn us(us: u64) -> u64 {
    BEGAN_NS + us * 1_000
}

fn state(leaves: Leaves) -> u64 {
    if leaves == Leaves::Ready { PREEMPTED } else { SLEEPS }
}

/// Of one CPU, as single events.
fn single(events: &[SchedEvent]) -> Vec<u8> {
    let one = |event: &SchedEvent| match event.kind {
        SchedEventKind::Switch { prev, next, leaves } => {
            let (prev, next) = (named(prev), named(next));
            switch(event.at_ns, (prev.0.into(), &prev.1), state(leaves), (next.0.into(), &next.1))
        }
        SchedEventKind::Waking { task, waker, cpu } => {
            let task = named(task);
            waking(event.at_ns, 20, named(waker).0.into(), (task.0.into(), &task.1), cpu.into())
        }
        other => panic!("{other:?}"),
    };
    events.iter().flat_map(one).collect()
}

/// The same as columns.
fn columns(events: &[SchedEvent]) -> Vec<u8> {
    let mut names: Vec<String> = Vec::new();
    let mut place = |task| {
        let name = named(task).1;
        let at = names.iter().position(|known| *known == name).unwrap_or_else(|| {
            names.push(name);
            names.len() - 1
        });
        at as u64
    };
    let (mut switches, mut wakings): (Vec<Row>, Vec<Row>) = Default::default();
    for event in events {
        match event.kind {
            SchedEventKind::Switch { next, leaves, .. } => {
                switches.push([event.at_ns, named(next).0.into(), place(next), state(leaves)]);
            }
            SchedEventKind::Waking { task, cpu, .. } => {
                wakings.push([event.at_ns, named(task).0.into(), place(task), cpu.into()]);
            }
            other => panic!("{other:?}"),
        }
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    compact(&names, &switches, &wakings)
}

/// One CPU after the other, in rounds.
fn in_bundles(events: &[SchedEvent], content: impl Fn(&[SchedEvent]) -> Vec<u8>) -> Vec<u8> {
    let mut out = clocks(BEGAN_NS, 1_700_000_000_000_000_000);
    for batch in events.chunks(100) {
        for cpu in 0..2 {
            let its: Vec<_> = batch.iter().filter(|event| event.cpu == cpu).copied().collect();
            out.extend(bundle(cpu.into(), false, &content(&its)));
        }
    }
    out
}

/// Two events at one time have no order in columns.
fn apart(count: usize) -> Vec<SchedEvent> {
    let events = made_up(7, count);
    let apart = events.into_iter().enumerate();
    apart.map(|(number, event)| SchedEvent { at_ns: event.at_ns + number as u64, ..event }).collect()
}

#[test]
fn events_are_those_of_our_own_file_single_or_in_columns() {
    let events = apart(5_000);
    let name = |task| if task == TraceTask::IDLE { format!("{task:?}") } else { named(task).1 };
    let mut expected: Vec<_> = events.iter().map(|event| show(event, &name)).collect();
    expected.sort();
    let whole = in_bundles(&events, single);
    for (what, bytes) in [("single", whole.clone()), ("compressed", compressed(&whole))] {
        let (mut back, ending) = read(&bytes).unwrap();
        assert!(ending.is_whole() && ending.late == 0, "{what}: {ending:?}");
        back.sort();
        assert!(back == expected, "{what}: {:?}", back.iter().zip(&expected).find(|(back, own)| back != own));
    }
    let (mut back, ending) = read(&in_bundles(&events, columns)).unwrap();
    assert!(ending.is_whole(), "{ending:?}");
    back.sort();
    // Columns do not say who was there before the first switch of a CPU.
    let different: Vec<_> = back.iter().zip(&expected).filter(|(back, own)| back != own).collect();
    assert!(back.len() == expected.len() && different.len() <= 8, "{different:?}");
    assert!(
        different.iter().all(|(back, _)| back.contains(&format!("{:?}", TraceTask::UNKNOWN))),
        "{different:?}"
    );
}

/// A process with three threads (200, 201 and the new 300), a thread of the kernel, and a soft interrupt.
fn lives() -> Vec<u8> {
    let first = [
        switch(us(0), (0, "swapper/0"), 0, (200, "shell")),
        new_task(us(10), 200, (300, "shell"), CLONE_THREAD),
        waking(us(12), 114, 200, (300, "shell"), 1),
        switch(us(30), (200, "shell"), SLEEPS, (12, "kworker/0:1")),
        switch(us(40), (12, "kworker/0:1"), 0x80, (201, "helper")),
        switch(us(60), (201, "helper"), 2, (0, "swapper/0")),
        event(us(70), 0, 491, &[number(2, 201), number(5, 1)].concat()),
    ];
    let second = [
        switch(us(13), (0, "swapper/1"), 0, (300, "shell")),
        event(us(20), 300, 236, &[number(1, 300), bytes(2, b"shell"), bytes(3, b"worker")].concat()),
        event(us(40), 300, 24, &number(1, 3)),
        event(us(42), 300, 36, &number(1, 17)),
        event(us(43), 300, 37, &number(1, 17)),
        event(us(45), 300, 25, &number(1, 3)),
        event(us(79), 300, 238, &number(2, 300)),
        switch(us(80), (300, "worker"), DEAD, (0, "swapper/1")),
    ];
    let tree = processes(
        us(50),
        &[(2, 0, "kthreadd"), (12, 2, "kworker/0:1"), (200, 1, "/usr/bin/shell-1.0"), (900, 1, "/bin/quiet")],
        &[(201, 200, "helper"), (901, 900, "thread")],
    );
    [
        clocks(us(0) - 500, 1_700_000_000_000_000_000),
        release("6.1.0-13-amd64"),
        bundle(0, false, &first.concat()),
        bundle(1, false, &second.concat()),
        tree,
    ]
    .concat()
}

#[test]
fn threads_have_their_process_reason_and_interrupts() {
    let (report, rows, ending) = report_of(&lives(), ReportBy::Thread);
    assert!(ending.is_whole() && report.has_interrupts, "{ending:?}");
    let found: Vec<_> = rows
        .iter()
        .map(|row| {
            let GroupKey::Thread(thread, process) = &row.key else { panic!("{row:?}") };
            let interrupts = row.totals.irq_ns + row.totals.softirq_ns;
            let reason = row.blocked.longest().map(|(reason, _)| reason.name().into_owned());
            (
                row.name.to_string(),
                thread.tid,
                process.pid,
                row.totals.run_ns,
                interrupts,
                reason.unwrap_or_default(),
            )
        })
        .collect();
    let row = |name: &str, tid, pid, run_ns, interrupts, reason: &str| {
        (name.to_owned(), tid, pid, run_ns, interrupts, reason.to_owned())
    };
    assert_eq!(
        found,
        [
            row("worker", 300, 200, 62_000, 5_000, "other"),
            row("shell", 200, 200, 30_000, 0, "other"),
            row("helper", 201, 200, 20_000, 0, "disk"),
            row("kworker/0:1", 12, 12, 10_000, 0, "kernel"),
        ]
    );
    let (_, rows, _) = report_of(&lives(), ReportBy::Process);
    assert_eq!((&*rows[0].name, rows[0].threads, rows[0].totals.run_ns), ("shell", 3, 112_000));
}

/// The title was the name, cut to 15 bytes, or the part of it behind its last slash.
#[test]
fn arguments_in_a_title_are_no_part_of_a_name() {
    for (title, name) in [("my job -phunter2", "my"), ("/srv/worker --url=/hunter2", "worker")] {
        let tree = processes(us(0), &[(900, 1, title)], &[(901, 900, "thread")]);
        let events =
            [switch(us(10), (0, ""), 0, (901, "thread")), switch(us(30), (901, "thread"), SLEEPS, (0, ""))];
        let whole = [release("6.1.0"), tree, bundle(0, false, &events.concat())].concat();
        let (_, rows, _) = report_of(&whole, ReportBy::Program);
        assert_eq!(rows.iter().map(|row| &*row.name).collect::<Vec<_>>(), [name], "{title}");
    }
}

#[test]
fn states_of_old_kernels_have_other_bits() {
    let events = [switch(us(0), (0, ""), 0, (7, "a")), switch(us(5), (7, "a"), 0x40, (0, ""))].concat();
    let ends = |version: &str| {
        let bytes = [release(version), bundle(0, false, &events)].concat();
        read(&bytes).unwrap().0.iter().any(|event| event.contains("Dead"))
    };
    assert!(ends("4.9.1-android") && !ends("4.14.2") && !ends("6.18"));
}

#[test]
fn lost_events_are_unknown_time_of_their_cpu() {
    let before =
        [switch(us(0), (0, ""), 0, (200, "a")), switch(us(10), (200, "a"), SLEEPS, (201, "b"))].concat();
    let single = [waking(us(60), 20, 0, (200, "a"), 0), switch(us(80), (202, "c"), SLEEPS, (0, ""))].concat();
    let columns =
        compact(&["", "c"], &[[us(80), 202, 1, SLEEPS], [us(100), 0, 0, SLEEPS]], &[[us(60), 200, 0, 0]]);
    let unknown_ns = |behind: &[u8]| {
        // What was lost in front of the first event is no part of the trace.
        let bytes = [bundle(0, true, &before), bundle(0, true, behind)].concat();
        let (report, rows, ending) = report_of(&bytes, ReportBy::Thread);
        assert_eq!((ending.lost, report.totals().ledger.lost), (1, 1));
        let run_of = |name| rows.iter().find(|row| &*row.name == name).map_or(0, |row| row.totals.run_ns);
        assert_eq!((run_of("a"), run_of("c")), (10_000, 20_000));
        report.totals().ledger.unknown_ns
    };
    assert_eq!(unknown_ns(&single), 50_000);
    // Columns do not say who was there.
    assert_eq!(unknown_ns(&columns), 70_000);
}

#[test]
fn a_torn_trace_gives_what_came_before() {
    let whole = in_bundles(&made_up(3, 300), single);
    let all: HashSet<_> = read(&whole).unwrap().0.into_iter().collect();
    let mut most = 0;
    for length in (0..whole.len()).step_by(23) {
        let Ok((back, ending)) = read(&whole[..length]) else {
            assert_eq!(most, 0, "{length}");
            continue;
        };
        assert!(back.iter().all(|event| all.contains(event)), "{length}");
        assert!(back.len() >= most && back.len() <= all.len());
        most = back.len();
        assert!(ending.damaged_at.is_some() || ending.is_whole());
    }
    assert!(most > all.len() / 2, "{most}");
}

/// 8 kB of zlib that become 8 MB, again and again.
#[test]
fn what_unpacks_to_far_more_than_any_recorder_packs_is_not_unpacked() {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(&packet(&bytes(99, &vec![0; 8 << 20]))).unwrap();
    let part = packet(&bytes(50, &encoder.finish().unwrap()));
    assert!(part.len() < 12 << 10, "{}", part.len());
    let (events, whole) = read(&[lives(), part.clone()].concat()).unwrap();
    assert_eq!(whole.malformed, 0);
    let (again, ending) = read(&[lives(), part.repeat(5)].concat()).unwrap();
    assert!(ending.malformed >= 1 && !ending.is_whole(), "{ending:?}");
    assert_eq!(again, events);
}

#[test]
fn damage_is_marked_or_refused() {
    let mut rng = SeededRng(99);
    for whole in [lives(), compressed(&lives()), in_bundles(&apart(60), columns)] {
        for _ in 0..3_000 {
            let mut damaged = whole.clone();
            for _ in 0..=rng.below(3) {
                let at = usize::try_from(rng.below(whole.len() as u64)).unwrap();
                damaged[at] ^= 1 << rng.below(8);
            }
            let Ok(mut trace) = open(&damaged) else { continue };
            let Ok((report, _)) = analyse(&mut trace, TraceRange::default()) else { continue };
            let totals = report.totals();
            assert!(totals.ledger.capacity_ns() <= totals.length_ns.saturating_mul(totals.cpus));
        }
    }
}

#[test]
fn sizes_are_not_believed_and_other_files_are_foreign() {
    // 100 kB that unpack to 100 MB.
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::copy(&mut std::io::Read::take(std::io::repeat(0), 100 << 20), &mut encoder).unwrap();
    let bomb = packet(&bytes(50, &encoder.finish().unwrap()));
    let (back, ending) = read(&[lives(), bomb.clone()].concat()).unwrap();
    assert!(!back.is_empty() && ending.malformed == 1, "{ending:?}");
    // A compressed packet in a compressed one.
    let (_, ending) = read(&[lives(), compressed(&compressed(&lives()))].concat()).unwrap();
    assert_eq!(ending.malformed, 1);
    // One of 3 GB that is not there.
    let (_, ending) = read(&[lives(), vec![0x0a, 0xff, 0xff, 0xff, 0xff, 0x0b, 1]].concat()).unwrap();
    assert!(ending.damaged_at == Some(lives().len() as u64), "{ending:?}");
    // Many more events than their bytes: two bytes each.
    let tiny = bytes(2, &bytes(4, &[])).repeat((1 << 20) + 1);
    let (_, ending) = read(&[lives(), bundle(0, false, &tiny)].concat()).unwrap();
    assert_eq!(ending.malformed, 1);
    // Many threads in a process tree, two bytes each.
    let tree = packet(&bytes(2, &bytes(2, &[]).repeat((1 << 18) + 1)));
    let (_, ending) = read(&[lives(), tree].concat()).unwrap();
    assert_eq!(ending.malformed, 1);
    let why = |bytes: &[u8]| match open(bytes) {
        Err(ReadError::Unusable(why)) => why,
        other => panic!("{:?}", other.err()),
    };
    assert!(why(&clocks(5, 6)).contains("linux.ftrace"));
    // The packet behind the clocks is cut off.
    assert!(why(&[clocks(5, 6), vec![0x0a, 0xff, 0x01, 1]].concat()).contains("it is damaged, or ends"));
    for foreign in [&b"\n\nsome text"[..], b"\n", b"\n\x05ab", b"\n\xff\xff\xff\xff\xff\xff"] {
        assert!(matches!(open(foreign), Err(ReadError::Foreign)), "{foreign:?}");
    }
}
