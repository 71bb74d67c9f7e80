//! `trace.dat` of trace-cmd: its events are those that our own file would have, in both versions and however it is packed; damage and hostile
//! sizes are found. The comparison with trace-cmd itself is in `crates/cpumon/tests/it/trace_cmd.rs`.

use cpumon_sched::{SchedEvent, TraceTask};
use cpumon_trace::{GroupKey, ReadError, ReportBy, TraceRange, TraceSource, analyse};

use crate::imports::{DEAD, SLEEPS, named, open, read, report_of, show, tracepoint_of};
use crate::made_events::{BEGAN_NS, made_up};
use crate::made_trace_dat::{
    PAGE_BYTES, page, pages, tsc, version_6, version_6_named, version_7, version_7_named,
};
use crate::made_tracepoints::{fork, new_task, softirq, switch, waking};
use crate::seeded_rng::SeededRng;

const CLONE_THREAD: u64 = 0x10000;

/// The pages of both CPUs.
fn pages_of(events: &[SchedEvent]) -> Vec<Vec<u8>> {
    let of = |cpu| {
        let its = events.iter().filter(|event| event.cpu == cpu);
        pages(&its.map(|event| (event.at_ns, tracepoint_of(event))).collect::<Vec<_>>())
    };
    vec![of(0), of(1)]
}

/// Ways to pack the same.
fn variants(cpus: &[Vec<u8>]) -> [(&'static str, Vec<u8>); 3] {
    let buffers = [cpus.to_vec()];
    [
        ("version 6", version_6(&buffers, "[local] global mono")),
        ("version 7", version_7(&buffers, "local", false, &[])),
        ("version 7 with zstd", version_7(&buffers, "mono", true, &[])),
    ]
}

#[test]
fn events_are_those_of_our_own_file_in_both_versions() {
    // Gaps of more than 27 bits need records of their own.
    let events: Vec<_> = made_up(7, 5_000)
        .into_iter()
        .map(|event| SchedEvent {
            at_ns: event.at_ns + u64::from(event.at_ns > BEGAN_NS * 2) * (1 << 40),
            ..event
        })
        .collect();
    let name = |task| if task == TraceTask::IDLE { format!("{task:?}") } else { named(task).1 };
    let mut expected: Vec<_> = events.iter().map(|event| show(event, &name)).collect();
    expected.sort();
    for (what, bytes) in variants(&pages_of(&events)) {
        let (mut back, ending) = read(&bytes).unwrap();
        assert!(ending.is_whole() && ending.late == 0, "{what}: {ending:?}");
        back.sort();
        assert!(back == expected, "{what}: {:?}", back.iter().zip(&expected).find(|(back, own)| back != own));
        let trace = open(&bytes).unwrap();
        assert_eq!(&*trace.header().host, "device1", "{what}");
    }
}

fn us(us: u64) -> u64 {
    BEGAN_NS + us * 1_000
}

/// A process begins a thread and another process; a soft interrupt comes while the thread runs.
fn lives() -> Vec<Vec<u8>> {
    let first = [
        (us(0), switch((0, "swapper/0"), 0, (200, "shell"))),
        (us(10), new_task(200, (300, "shell"), CLONE_THREAD)),
        (us(11), fork(200, (300, "shell"))),
        (us(12), waking((300, "shell"), 200, 1)),
        (us(20), new_task(200, (400, "shell"), 0)),
        (us(21), waking((400, "shell"), 200, 0)),
        (us(30), switch((200, "shell"), SLEEPS, (400, "shell"))),
        (us(90), switch((400, "other"), DEAD, (0, "swapper/0"))),
    ];
    let second = [
        (us(13), switch((0, "swapper/1"), 0, (300, "shell"))),
        (us(40), softirq(true, 300, 3)),
        (us(45), softirq(false, 300, 3)),
        (us(80), switch((300, "worker"), DEAD, (0, "swapper/1"))),
    ];
    vec![pages(&first), pages(&second)]
}

#[test]
fn threads_have_their_process_and_interrupts_their_time() {
    for (what, bytes) in variants(&lives()) {
        let (report, rows, ending) = report_of(&bytes, ReportBy::Thread);
        assert!(ending.is_whole() && report.has_interrupts, "{what}: {ending:?}");
        let found: Vec<_> = rows
            .iter()
            .map(|row| {
                let GroupKey::Thread(thread, process) = &row.key else { panic!("{row:?}") };
                (&*row.name, thread.tid, process.pid, row.totals.run_ns, row.totals.softirq_ns)
            })
            .collect();
        assert_eq!(
            found,
            [
                ("worker", 300, 200, 62_000, 5_000),
                ("other", 400, 400, 60_000, 0),
                ("shell", 200, 200, 30_000, 0)
            ],
            "{what}"
        );
    }
}

#[test]
fn an_interrupt_before_the_first_switch_is_of_no_thread() {
    let first = [(us(0), switch((0, "swapper/0"), 0, (200, "a")))];
    let second = [
        (us(5), softirq(true, 300, 3)),
        (us(9), softirq(false, 300, 3)),
        (us(20), switch((300, "b"), 0, (301, "c"))),
        (us(50), switch((301, "c"), DEAD, (300, "b"))),
        (us(60), switch((300, "b"), DEAD, (0, "swapper/1"))),
    ];
    for (what, bytes) in variants(&[pages(&first), pages(&second)]) {
        let (report, rows, _) = report_of(&bytes, ReportBy::Thread);
        let ledger = report.totals().ledger;
        let run_ns: u64 = rows.iter().map(|row| row.totals.run_ns).sum();
        assert_eq!((run_ns, ledger.run_ns), (100_000, 100_000), "{what}");
        assert_eq!((ledger.softirq_ns, ledger.unknown_ns), (4_000, 16_000), "{what}");
        assert!(rows.iter().all(|row| row.totals.interrupts_ns() == 0), "{what}");
    }
}

#[test]
fn lost_events_are_unknown_time_of_their_cpu() {
    let before =
        [(us(0), switch((0, "swapper/0"), 0, (200, "a"))), (us(10), switch((200, "a"), SLEEPS, (201, "b")))];
    let behind = [(us(60), waking((200, "a"), 0, 0)), (us(80), switch((202, "c"), SLEEPS, (0, "swapper/0")))];
    // What was lost in front of the first event is no part of the trace.
    let cpu = [page(&before, Some(99)), page(&behind, Some(7))].concat();
    for (what, bytes) in variants(&[cpu, Vec::new()]) {
        let (report, rows, ending) = report_of(&bytes, ReportBy::Thread);
        let ledger = report.totals().ledger;
        assert_eq!(
            (ending.lost, ledger.lost, ledger.unknown_ns, ledger.run_ns),
            (7, 7, 50_000, 30_000),
            "{what}"
        );
        assert_eq!((&*rows[0].name, rows[0].totals.run_ns), ("c", 20_000), "{what}");
    }
}

/// Why a file cannot be read.
fn why(bytes: &[u8]) -> &'static str {
    match open(bytes) {
        Err(ReadError::Unusable(why)) => why,
        other => panic!("{:?}", other.err()),
    }
}

/// Each buffer unpacked to 16 MiB more: one of 1.7 kB took half a second.
#[test]
fn the_search_for_switches_unpacks_no_more_than_reading() {
    let quiet = |pages| page(&[], None).repeat(pages);
    let last = vec![[quiet(60), lives()[0].clone()].concat()];
    let with = |count| [vec![vec![quiet(2_000)]; count], vec![last.clone()]].concat();
    assert!(open(&version_7(&with(1), "local", true, &[])).is_ok());
    // 32 MB of a file of some 100 kB.
    let many = version_7(&with(4), "local", true, &[]);
    assert!(many.len() < 150_000, "{}", many.len());
    assert!(why(&many).contains("in front of its first"), "{}", why(&many));
}

#[test]
fn the_first_buffer_with_switches_is_read() {
    let quiet = vec![page(&[(us(1), waking((200, "a"), 0, 0))], None), Vec::new()];
    let other = vec![pages(&[(us(5), switch((0, "swapper/0"), 0, (9, "elsewhere")))]), Vec::new()];
    let buffers = [quiet.clone(), lives(), other];
    for bytes in [version_6(&buffers, "local"), version_7(&buffers, "local", true, &[])] {
        let (events, ending) = read(&bytes).unwrap();
        assert!(ending.is_whole(), "{ending:?}");
        assert!(events.len() == 11 && !events.iter().any(|event| event.contains("elsewhere")), "{events:?}");
    }
    assert!(why(&version_6(&[quiet], "local")).contains("-e sched"));
    assert!(why(&version_7(&[lives()], "counter", false, &[])).contains("-C mono"));
    // It "had no sched_switch events".
    let whole = version_6(&[lives()], "local");
    let data_at = whole.len() - lives().concat().len();
    assert!(why(&whole[..data_at + 8]).contains("it is damaged, or ends"));
}

#[test]
fn counts_of_a_time_stamp_counter_become_ns() {
    let (mut back, _) = read(&version_7(&[lives()], "x86-tsc", true, &tsc(3, 1))).unwrap();
    let (own, _) = read(&version_7(&[lives()], "local", true, &[])).unwrap();
    let expected = own.iter().map(|event| {
        let (at, what) = event.split_once(' ').unwrap();
        format!("{} {what}", at.parse::<u64>().unwrap() * 3 / 2)
    });
    // An interrupt has its length with it.
    back.retain(|event| !event.contains("Interrupt"));
    assert_eq!(back, expected.filter(|event| !event.contains("Interrupt")).collect::<Vec<_>>());
}

/// Those behind the 262,144th were left out without a word.
#[test]
fn names_that_are_left_out_are_counted() {
    for left_out in [0, 3] {
        let names = b"500 x\n".repeat((1 << 18) + left_out);
        let sixth = version_6_named(&names, &[lives()], "local");
        let seventh = version_7_named(&names, &[lives()], "local", false, &[]);
        for bytes in [sixth, seventh] {
            let (events, ending) = read(&bytes).unwrap();
            assert_eq!((events.len(), ending.unnamed), (11, left_out as u64), "{ending:?}");
            assert_eq!(ending.is_whole(), left_out == 0, "{ending:?}");
        }
    }
}

#[test]
fn a_torn_file_is_refused_or_gives_what_came_before() {
    let events = made_up(3, 1_000);
    let whole = version_6(&[pages_of(&events)], "local");
    let data_at = whole.len() - pages_of(&events).concat().len();
    let all = read(&whole).unwrap().0.len();
    for length in (0..whole.len()).step_by(97) {
        let Ok((back, ending)) = read(&whole[..length]) else { continue };
        assert!(length > data_at && ending.damaged_at.is_some() && back.len() <= all, "{length}: {ending:?}");
    }
    // The second CPU has no data: the report has only the first CPU.
    let first_bytes = pages_of(&events)[0].len();
    let (report, _, ending) = report_of(&whole[..data_at + first_bytes], ReportBy::Thread);
    assert_eq!((ending.damaged_at, report.totals().cpus), (Some((data_at + first_bytes) as u64), 1));
    // The last page of the second CPU has an impossible length: its time from there on is unknown.
    let last_page = pages_of(&events)[1].len() - PAGE_BYTES;
    let mut damaged = whole;
    let at = data_at + first_bytes + last_page;
    damaged[at + 8..at + 12].copy_from_slice(&0x00ff_ffff_u32.to_le_bytes());
    let (report, _, ending) = report_of(&damaged, ReportBy::Thread);
    let ledger = report.totals().ledger;
    assert!(ending.malformed == 1 && ledger.lost == 1 && ledger.unknown_ns > 0, "{ending:?} {ledger:?}");
}

#[test]
fn damage_is_marked_or_refused() {
    let mut rng = SeededRng(99);
    for (_, whole) in variants(&lives()) {
        for _ in 0..1_500 {
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
fn sizes_are_not_believed() {
    for (what, sound) in variants(&lives()) {
        for size in [u64::MAX, u64::MAX / 2, 1 << 40] {
            for at in (10..sound.len() - 8).step_by(7) {
                let mut hostile = sound.clone();
                hostile[at..at + 8].copy_from_slice(&size.to_le_bytes());
                let Ok(mut trace) = open(&hostile) else { continue };
                let _ = trace.read(&mut |_| ());
            }
        }
        assert!(read(&sound[..40]).is_err(), "{what}");
    }
    // A chunk that claims to unpack to 1 GB.
    let zeros = vec![0; PAGE_BYTES];
    let mut bomb = version_7(&[vec![zeros]], "local", true, &[]);
    let at = bomb.windows(4).rposition(|bytes| bytes == 4_096_u32.to_le_bytes()).unwrap();
    bomb[at..at + 4].copy_from_slice(&(1_u32 << 30).to_le_bytes());
    assert!(read(&bomb).is_err());
}

/// Of 64 buffers each could list 65,536 CPUs: 0.78 MB took 167 MB.
#[test]
fn all_buffers_list_no_more_cpus_than_a_machine_has() {
    let mut first = lives();
    first.resize(30_000, Vec::new());
    let with = |others| [vec![first.clone()], vec![vec![vec![0]; 30_000]; others]].concat();
    let sixth = |others| version_6(&with(others), "local");
    let seventh = |others| version_7(&with(others), "local", false, &[]);
    for [few, many] in [[2, 3].map(sixth), [2, 3].map(seventh)] {
        assert!(open(&few).is_ok());
        assert!(matches!(open(&many), Err(ReadError::Header)));
    }
}
