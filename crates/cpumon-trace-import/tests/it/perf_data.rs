//! `perf.data` of perf: its events are those that our own file would have, however it is packed; damage and hostile sizes are found.
//! The comparison with perf itself is in `crates/cpumon/tests/it/trace_perf.rs`.

use std::collections::HashSet;

use cpumon_model::{Comm, Snapshot};
use cpumon_sched::{SchedEvent, TraceTask};
use cpumon_trace::{GroupKey, GroupRow, ReadError, ReportBy, TraceRange, TraceSource, analyse, snapshots};

use crate::imports::{DEAD, PREEMPTED, SLEEPS, named, open, read, report_of, show, tracepoint_of};
use crate::made_events::{BEGAN_NS, made_up};
use crate::made_perf::{begun, comm, file, lost, packed, piped, record, round, sample};
use crate::made_tracepoints::{fork, migrate, switch, waking};
use crate::seeded_rng::SeededRng;

fn records_of(events: &[SchedEvent]) -> Vec<Vec<u8>> {
    events.iter().map(|event| sample(event.at_ns, event.cpu.into(), &tracepoint_of(event))).collect()
}

/// As perf reads its buffers: one CPU after the other, in rounds.
fn in_rounds(events: &[SchedEvent]) -> Vec<u8> {
    let mut out = Vec::new();
    for batch in events.chunks(100) {
        for cpu in 0..2 {
            let its: Vec<_> = batch.iter().filter(|event| event.cpu == cpu).copied().collect();
            out.extend(records_of(&its).concat());
        }
        out.extend(round());
    }
    out
}

#[test]
fn events_are_those_of_our_own_file_however_they_are_packed() {
    let events = made_up(7, 5_000);
    let records = in_rounds(&events);
    let name = |task| if task == TraceTask::IDLE { format!("{task:?}") } else { named(task).1 };
    let mut expected: Vec<_> = events.iter().map(|event| show(event, &name)).collect();
    expected.sort();
    for (what, bytes) in [
        ("a file", file(&records)),
        ("a pipe", piped(&records)),
        ("compressed", file(&packed(&records, 3_001))),
        ("compressed, small pieces", piped(&packed(&records, 70))),
    ] {
        let (mut back, ending) = read(&bytes).unwrap();
        assert!(ending.is_whole() && ending.late == 0, "{what}: {ending:?}");
        back.sort();
        assert!(back == expected, "{what}: {:?}", back.iter().zip(&expected).find(|(back, own)| back != own));
    }
}

#[test]
fn a_compressed_record_without_its_end_is_damage() {
    let records = in_rounds(&made_up(7, 500));
    let all = read(&piped(&packed(&records, 300))).unwrap().0.len();
    // Each piece is whole; the last record in them is not. Behind it is the record that ends a round.
    let cut = packed(&records[..records.len() - 20], 300);
    for (what, cut) in [("a file", file(&cut)), ("a pipe", piped(&cut))] {
        let (events, ending) = read(&cut).unwrap();
        assert!(!ending.is_whole(), "{what}: {ending:?}");
        assert!(events.len() < all && events.len() + 3 >= all, "{what}: {} of {all}", events.len());
    }
}

/// Two processes, one with a second thread; thread 300 lives twice.
fn lives() -> Vec<u8> {
    let us = |us: u64| BEGAN_NS + us * 1_000;
    [
        begun(0, (12, 2), 12),
        comm(0, 12, 12, "kworker/0:1"),
        comm(0, 200, 200, "shell"),
        comm(0, 200, 201, "helper"),
        sample(us(0), 0, &switch((0, "swapper/0"), 0, (200, "shell"))),
        begun(us(10), (300, 200), 300),
        sample(us(10), 0, &fork(200, (300, "shell"))),
        sample(us(11), 0, &waking((300, "shell"), 200, 1)),
        sample(us(12), 1, &switch((0, "swapper/1"), 0, (300, "shell"))),
        comm(us(15), 300, 300, "child-1"),
        sample(us(50), 1, &switch((300, "child-1"), DEAD, (0, "swapper/1"))),
        begun(us(60), (300, 200), 300),
        sample(us(60), 0, &fork(200, (300, "shell"))),
        sample(us(61), 0, &waking((300, "shell"), 200, 0)),
        sample(us(62), 0, &migrate(300, 1)),
        sample(us(65), 1, &switch((0, "swapper/1"), 0, (300, "shell"))),
        comm(us(66), 300, 300, "child-2"),
        sample(us(70), 0, &switch((200, "shell"), SLEEPS, (12, "kworker/0:1"))),
        sample(us(75), 0, &switch((12, "kworker/0:1"), SLEEPS, (201, "helper"))),
        sample(us(80), 0, &switch((201, "helper"), 2, (12, "kworker/0:1"))),
        sample(us(85), 1, &switch((300, "child-2"), 0x20, (0, "swapper/1"))),
        sample(us(90), 0, &switch((12, "kworker/0:1"), SLEEPS, (0, "swapper/0"))),
        round(),
    ]
    .concat()
}

#[test]
fn each_life_of_a_thread_id_has_its_own_row_and_threads_have_their_process() {
    let (report, rows, ending) = report_of(&file(&lives()), ReportBy::Thread);
    assert!(ending.is_whole(), "{ending:?}");
    let totals = report.totals();
    assert_eq!((totals.length_ns, totals.cpus, totals.ledger.capacity_ns()), (90_000, 2, 180_000));
    // CPU 1 has no event before 12 µs; CPU 0 has its first switch when the trace begins.
    assert_eq!((totals.ledger.unknown_ns, totals.ledger.holes), (12_000, 0));
    let found: Vec<_> = rows
        .iter()
        .map(|row| {
            let GroupKey::Thread(thread, process) = &row.key else { panic!("{row:?}") };
            (
                &*row.name,
                thread.tid,
                process.pid,
                row.totals.run_ns,
                row.totals.ready_woken_ns,
                row.totals.migrations,
            )
        })
        .collect();
    assert_eq!(
        found,
        [
            ("shell", 200, 200, 70_000, 0, 0),
            ("child-1", 300, 300, 38_000, 1_000, 0),
            ("child-2", 300, 300, 20_000, 4_000, 1),
            ("kworker/0:1", 12, 12, 15_000, 0, 0),
            ("helper", 201, 200, 5_000, 0, 0),
        ]
    );
    let reasons: Vec<_> =
        rows.iter().map(|row| row.blocked.longest().map(|(reason, ns)| (reason.name(), ns))).collect();
    let reason = |name: &'static str, ns| Some((name.into(), ns));
    assert_eq!(
        reasons,
        [
            reason("other", 20_000),
            reason("other", 1_000),
            reason("other", 1_000),
            reason("kernel", 5_000),
            reason("disk", 10_000)
        ]
    );
    let (_, rows, _) = report_of(&file(&lives()), ReportBy::Process);
    assert_eq!((&*rows[0].name, rows[0].threads, rows[0].totals.run_ns), ("shell", 2, 75_000));
    let bytes = file(&lives());
    let trace = open(&bytes).unwrap();
    assert_eq!((&*trace.header().host, trace.header().cpus), ("device1", 2));
}

#[test]
fn lost_records_are_unknown_time_of_their_cpu() {
    let us = |us: u64| BEGAN_NS + us * 1_000;
    let records = [
        sample(us(0), 0, &switch((0, "swapper/0"), 0, (200, "a"))),
        sample(us(10), 0, &switch((200, "a"), SLEEPS, (201, "b"))),
        lost(us(60), 0, 7),
        sample(us(80), 0, &switch((202, "c"), SLEEPS, (0, "swapper/0"))),
        round(),
    ]
    .concat();
    let (report, rows, ending) = report_of(&file(&records), ReportBy::Thread);
    let ledger = report.totals().ledger;
    assert_eq!((ending.lost, ledger.lost, ledger.unknown_ns, ledger.run_ns), (7, 7, 50_000, 30_000));
    assert_eq!(
        (&*rows[0].name, rows[0].totals.run_ns),
        ("c", 20_000),
        "after the last lost one nothing happened"
    );
}

#[test]
fn a_file_that_ends_anywhere_is_refused_and_a_pipe_gives_what_came_before() {
    let whole = file(&lives());
    for length in 0..whole.len() {
        assert!(read(&whole[..length]).is_err(), "{length}: the descriptions are last");
    }
    let whole = piped(&in_rounds(&made_up(3, 300)));
    let events: HashSet<_> = read(&whole).unwrap().0.into_iter().collect();
    let (mut most, mut torn) = (0, 0);
    for length in (0..whole.len()).step_by(11).chain([whole.len() - 1]) {
        let Ok((back, ending)) = read(&whole[..length]) else {
            assert_eq!(most, 0, "{length}");
            continue;
        };
        assert!(back.iter().all(|event| events.contains(event)), "{length}");
        most = most.max(back.len());
        torn += usize::from(ending.damaged_at.is_some());
    }
    assert!(most == events.len() && torn > 1_000, "{most} {torn}");
}

#[test]
fn damage_ends_the_reading_or_is_counted() {
    let whole = file(&lives());
    let mut rng = SeededRng(99);
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
    let mut records = lives();
    // The size of the tenth record: shorter than its header.
    let mut at = 0;
    for _ in 0..9 {
        at += usize::from(u16::from_le_bytes([records[at + 6], records[at + 7]]));
    }
    records[at + 6..at + 8].copy_from_slice(&[3, 0]);
    let (_, _, ending) = report_of(&file(&records), ReportBy::Thread);
    assert_eq!(ending.damaged_at, Some(192 + at as u64));
}

#[test]
fn sizes_are_not_believed() {
    let sound = file(&lives());
    // Sections of the header, and what the table behind the records announces.
    let table = 192 + lives().len();
    for at in [16, 32, 48, table + 8, table + 24, table + 40] {
        for size in [u64::MAX, u64::MAX / 2, 1 << 40, sound.len() as u64 + 1] {
            let mut hostile = sound.clone();
            hostile[at..at + 8].copy_from_slice(&size.to_le_bytes());
            assert!(read(&hostile).is_err(), "{size} at {at}");
        }
    }
    // 60 kB that unpack to 1 GB.
    let mut packer = zstd::stream::Encoder::new(Vec::new(), 19).unwrap();
    std::io::copy(&mut std::io::Read::take(std::io::repeat(0), 1 << 30), &mut packer).unwrap();
    let bomb = packer.finish().unwrap();
    assert!(bomb.len() < 60_000, "{}", bomb.len());
    let first = sample(BEGAN_NS, 0, &switch((1, "a"), SLEEPS, (2, "b")));
    let (_, ending) = read(&file(&[&first[..], &record(81, &bomb)].concat())).unwrap();
    assert_eq!(ending.damaged_at, Some(192 + first.len() as u64));
}

#[test]
fn what_is_missing_is_named() {
    let unusable = |bytes: &[u8]| match open(bytes) {
        Err(ReadError::Unusable(why)) => why,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it is read"),
    };
    let sound = file(&lives());
    let mut unfinished = sound.clone();
    unfinished[48..56].fill(0);
    assert!(unusable(&unfinished).contains("ended before"), "perf was killed");
    assert!(unusable(&sound[..sound.len() - 900]).contains("ends early"));
    let mut without = sound.clone();
    without[72] &= !2;
    assert!(unusable(&without).contains("perf sched record"));
    let mut cycles = sound;
    cycles[104 + 24] &= !0x80;
    assert!(unusable(&cycles).contains("perf sched record"), "samples without a CPU");
}

/// Through a pipe it was an empty report, and a success.
#[test]
fn a_recording_without_switches_is_refused_however_it_was_written() {
    let why = |bytes: &[u8]| open(bytes).err().map(|error| error.to_string()).unwrap_or_default();
    let names = comm(1, 200, 200, "shell");
    for (what, bytes) in
        [("a file", file(&names)), ("a pipe", piped(&names)), ("packed", piped(&packed(&names, 100)))]
    {
        assert!(why(&bytes).contains("no context switches; record with"), "{what}: {}", why(&bytes));
    }
    let whole = piped(&names);
    assert!(why(&whole[..whole.len() - 3]).contains("in front of its first context switch"));
    // The file `data` in a directory of `perf record --threads`: bit 24 of the features.
    let mut of_directory = file(&names);
    of_directory[72 + 3] |= 1;
    assert!(why(&of_directory).contains("in the files beside it"), "{}", why(&of_directory));
    // As of `perf record` of something else.
    let mut cycles = piped(&names);
    cycles[24 + 24] &= !0x80;
    assert!(why(&cycles).contains("samples lack time, CPU"), "{}", why(&cycles));
    let without = [&whole[..16 + 8 + 64 + 8], &names].concat();
    assert!(why(&without).contains("no tracepoints"), "{}", why(&without));
}

/// As `perf record -e sched:sched_switch COMMAND` records: only switches away from the command's threads. Who came last had the rest.
#[test]
fn who_is_only_switched_to_has_no_time_after_that() {
    let us = |us: u64| BEGAN_NS + us * 1_000;
    let from_mine = |at_us, cpu, next| sample(us(at_us), cpu, &switch((100, "mine"), SLEEPS, next));
    let records = [
        from_mine(10, 0, (200, "other")),
        from_mine(20, 0, (0, "swapper")),
        from_mine(30, 0, (200, "other")),
        from_mine(40, 1, (0, "swapper")),
        from_mine(90, 2, (201, "another")),
    ];
    let (report, rows, _) = report_of(&file(&records.concat()), ReportBy::Thread);
    let run_ns = |name| rows.iter().find(|row| &*row.name == name).map(|row| row.totals.run_ns);
    assert_eq!((run_ns("other"), run_ns("another")), (Some(0), Some(0)));
    let ledger = report.totals().ledger;
    // No CPU is known to be idle or busy: 80 us of CPU 0, 50 of CPU 1 behind its only switch, and all time in front of a first switch.
    assert_eq!((ledger.run_ns, ledger.idle_ns, ledger.unknown_ns), (0, 0, 3 * 80_000));
    // A thread that was seen to leave has its last slice.
    let all = [&records.concat()[..], &sample(us(95), 2, &switch((201, "another"), SLEEPS, (100, "mine")))]
        .concat();
    let more = [&all[..], &sample(us(99), 3, &switch((7, "x"), SLEEPS, (8, "y")))].concat();
    let (_, rows, _) = report_of(&file(&more), ReportBy::Thread);
    let run_ns = |name| rows.iter().find(|row| &*row.name == name).map(|row| row.totals.run_ns);
    assert_eq!((run_ns("another"), run_ns("mine")), (Some(5_000), Some(4_000)));
}

/// No switch is followed by another one on its CPU: the thread that came last had all time, and the recorded one was ready as long.
#[test]
fn one_switch_on_each_cpu_leaves_the_time_between_them_unknown() {
    let us = |us: u64| BEGAN_NS + us * 1_000;
    let (mine, other) = ((100, "mine"), (200, "other"));
    let moved = [
        sample(us(0), 0, &switch(mine, PREEMPTED, other)),
        sample(us(100), 1, &switch(mine, PREEMPTED, (201, "another"))),
    ];
    let woken = [
        sample(us(0), 0, &waking((101, "child"), 100, 1)),
        sample(us(0), 0, &switch(mine, SLEEPS, other)),
        sample(us(100), 1, &switch((101, "child"), SLEEPS, (0, "swapper/1"))),
    ];
    for (what, records) in [("a thread that moved", moved.concat()), ("a woken one", woken.concat())] {
        let (report, rows, _) = report_of(&file(&records), ReportBy::Thread);
        let ledger = report.totals().ledger;
        assert_eq!((ledger.run_ns, ledger.idle_ns, ledger.unknown_ns), (0, 0, 2 * 100_000), "{what}");
        let sum = |of: fn(&GroupRow) -> u64| rows.iter().map(of).sum::<u64>();
        assert_eq!((sum(|row| row.totals.run_ns), sum(|row| row.totals.ready_ns())), (0, 0), "{what}");
    }
}

/// As `perf sched record -a` has a CPU that is offline at the end: its last event is the switch to the thread that stops it, which had the
/// rest of the recording as run time.
#[test]
fn a_cpu_that_went_offline_is_unknown_from_its_last_event() {
    let us = |us: u64| BEGAN_NS + us * 1_000;
    let switched = |at_us, cpu, prev, next| sample(us(at_us), cpu, &switch(prev, SLEEPS, next));
    let (idle, work, stops) = ((0, "swapper/1"), (100, "work"), (20, "migration/1"));
    let up_to = |end_us| {
        let records = [
            switched(0, 0, (101, "other"), (0, "swapper/0")),
            switched(0, 1, idle, work),
            switched(5_000, 1, work, stops),
            sample(us(5_007), 1, &migrate(100, 0)),
            switched(end_us, 0, (0, "swapper/0"), (101, "other")),
        ];
        file(&records.concat())
    };
    // Of CPU 0 all is known: 100 ms idle.
    for (end_us, run_us, unknown_us) in [(100_000, 7, 100_000 - 5_007), (9_000, 4_000, 0)] {
        let bytes = up_to(end_us);
        let (report, rows, _) = report_of(&bytes, ReportBy::Thread);
        let of = |name| rows.iter().find(|row| &*row.name == name).map(|row| row.totals.run_ns / 1_000);
        assert_eq!((of("migration/1"), of("work")), (Some(run_us), Some(5_000)), "{end_us}");
        let ledger = report.totals().ledger;
        let is = [ledger.run_ns, ledger.idle_ns, ledger.unknown_ns].map(|ns| ns / 1_000);
        assert_eq!(is, [5_000 + run_us, end_us, unknown_us], "{end_us}");
        // As the live views show it, a snapshot each 10 ms.
        let (mut last, mut stopped_ns) = (Snapshot::default(), None);
        snapshots(
            &mut open(&bytes).unwrap(),
            &mut open(&bytes).unwrap(),
            TraceRange::default(),
            10_000_000,
            &mut |it| {
                let thread = it.threads.iter().find(|thread| thread.comm == Comm::from("migration/1"));
                stopped_ns = thread.map(|thread| thread.counters.run_ns / 1_000);
                last = it;
                true
            },
        )
        .unwrap();
        assert_eq!(stopped_ns, Some(run_us), "{end_us}: {last:?}");
    }
}
