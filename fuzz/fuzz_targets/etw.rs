//! A live session of Windows: any events in any order, lists of the system between them, snapshots out.
#![no_main]

use cpumon_collect::etw::{Record, SessionAccounts};
use cpumon_sched::windows::TickClock;
use cpumon_model::{
    Counters, CpuSample, Interval, Moment, Probes, ProcessKey, ProcessSample, SchedTimes, Snapshot, ThreadKey, ThreadSample,
    WaitReason,
};

const PROCESS: [u8; 16] = [0xd0, 0xa8, 0x6f, 0x3d, 0x05, 0xfe, 0xd0, 0x11, 0x9d, 0xda, 0x00, 0xc0, 0x4f, 0xd7, 0xba, 0x7c];
const THREAD: [u8; 16] = [0xd1, 0xa8, 0x6f, 0x3d, 0x05, 0xfe, 0xd0, 0x11, 0x9d, 0xda, 0x00, 0xc0, 0x4f, 0xd7, 0xba, 0x7c];
const PERF_INFO: [u8; 16] = [0xb4, 0xdf, 0x1d, 0xce, 0x7e, 0x13, 0xa6, 0x4d, 0x87, 0xb0, 0x3f, 0x59, 0xaa, 0x10, 0x2c, 0xbc];
const LOST: [u8; 16] = [0xe0, 0x9a, 0x39, 0x6a, 0xc6, 0x4b, 0xe9, 0x4d, 0x87, 0x0b, 0x36, 0x57, 0xf8, 0x94, 0x7e, 0x7e];
const ALL: Probes = Probes::SCHED.union(Probes::WAITS).union(Probes::IRQ);

/// The listed threads have the ids that the events use.
fn list(seed: u8, tick: u64, run: &mut [u64; 8], into: &mut Snapshot) {
    into.clear();
    into.is_complete = true;
    for pid in 0..2_u32 {
        let key = ProcessKey { pid: pid * 4 + 4, start_ns: 1 };
        into.processes.push(ProcessSample { key, ..ProcessSample::default() });
        for tid in (0..4_u32).filter(|tid| seed >> (pid * 4 + tid) & 1 == 0) {
            let ran = &mut run[(pid * 4 + tid) as usize];
            *ran += u64::from(seed);
            into.threads.push(ThreadSample {
                key: ThreadKey { tid: pid * 4 + tid, start_ns: tick % 3 * 1_000 },
                process: key,
                counters: Counters { user_ns: *ran, run_ns: *ran, ..Counters::default() },
                sched: SchedTimes { open_wait: WaitReason::windows(seed % 43), ..SchedTimes::default() },
                ..ThreadSample::default()
            });
        }
    }
    into.cpus.extend((0..2).map(|cpu| CpuSample { cpu, ..CpuSample::default() }));
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some(clock) = TickClock::new(10_000_000, 0) else { return };
    let mut session = SessionAccounts::new(clock, 1_000, 2);
    let (mut ticks, mut rest) = (1_000_u64, bytes);
    let at = |ticks: u64| Moment { mono_ns: ticks * 100, boot_ns: ticks * 100 + 5_000_000_000, wall_ns: 0 };
    let (mut previous, mut before, mut into) = (at(ticks), Snapshot::default(), Snapshot::default());
    let (mut has_before, mut cut, mut run) = (false, 1_000, [0; 8]);
    while let Some((&[what, step, opcode, length], behind)) = rest.split_first_chunk() {
        ticks = (ticks + u64::from(step)).max(cut);
        let (payload, behind) = behind.split_at(behind.len().min(usize::from(length % 64)));
        rest = behind;
        if what % 8 == 7 {
            cut = ticks;
            session.cut(at(ticks).mono_ns);
            session.set_lost(u64::from(opcode / 64));
            list(opcode, ticks, &mut run, &mut into);
            (into.begin, into.end) = (at(ticks), at(ticks));
            session.complete(at(ticks), previous, ALL, &mut into);
            previous = at(ticks);
            assert!(into.threads.is_sorted_by_key(|thread| thread.key));
            for thread in into.threads.iter().filter(|thread| thread.sched.is_watched()) {
                assert_eq!(thread.counters.user_ns + thread.counters.system_ns, thread.counters.run_ns);
            }
            if has_before {
                let interval = Interval::between(&before, &into);
                assert!(interval.cpus.iter().all(|cpu| !cpu.went_back));
            }
            (before, has_before) = (into.clone(), true);
            continue;
        }
        let (provider, opcode) = match what % 8 {
            0 | 1 => (THREAD, 36),
            2 => (THREAD, 50),
            3 => (PERF_INFO, 66 + opcode % 4),
            4 => (THREAD, opcode),
            5 => (PROCESS, opcode),
            _ if length == 0 => (LOST, 32),
            _ => (THREAD, 1 + opcode % 4),
        };
        // Now and then an earlier one.
        let event_ticks = if what & 0x80 != 0 { ticks.saturating_sub(100) } else { ticks };
        let (version, pointer_bytes) = (what >> 4, if what & 8 == 0 { 8 } else { 4 });
        session.take(&Record { ticks: event_ticks, cpu: u16::from(step & 1), provider, opcode, version, pointer_bytes, payload });
    }
});
