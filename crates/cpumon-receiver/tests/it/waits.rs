//! What threads wait for, those included of which nothing is sent because they rest: the receiver's processes have waited as long as the
//! threads on the device, and run, ready and blocked time of a thread make up the time that passed.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use cpumon_model::{
    Comm, Counters, CpuSample, ExitSample, Flags, HostInfo, Interval, Life, Moment, ProcessInfo, ProcessKey,
    ProcessSample, SchedTimes, Snapshot, TaskState, ThreadInterval, ThreadKey, ThreadSample, WaitReason,
};
use cpumon_receiver::{Demux, DemuxOptions};
use cpumon_wire::Datagrams;
use cpumon_wire::v2::{Encoder, EncoderOptions};
use proptest::prelude::*;

use crate::machine::CARRIED;

const FROM: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 4000);
const SECOND_NS: u64 = 1_000_000_000;
const US: u64 = 1_000;
/// What a row may wait longer than its interval: the clocks of counters and snapshots differ a little.
const SLACK_NS: u64 = 1_010 * US;
const FUTEX: WaitReason = WaitReason::syscall(202);
const NAP: WaitReason = WaitReason::syscall(230);
const REASONS: [WaitReason; 4] = [FUTEX, NAP, WaitReason::DISK, WaitReason::syscall(232)];

/// What a thread does in a second in which it does not rest: it wakes in the middle, runs, waits for a CPU, and then waits for this.
#[derive(Clone, Copy, Debug)]
struct Second {
    run_us: u64,
    ready_us: u64,
    then: WaitReason,
    ends: bool,
}

/// A host whose threads of a script come to these times.
#[derive(Clone)]
struct Device {
    host: HostInfo,
    snapshot: Snapshot,
}

fn process_of(pid: u32) -> ProcessKey {
    ProcessKey { pid, start_ns: 5 * SECOND_NS }
}

fn moment(second: u64) -> Moment {
    let ns = (1_000 + second) * SECOND_NS;
    Moment { mono_ns: ns, boot_ns: ns, wall_ns: ns.cast_signed() }
}

impl Device {
    /// A thread in each of these processes, all of which wait for a lock.
    fn new(pids: &[u32]) -> Self {
        let host = HostInfo { hostname: "sleepers".into(), ..HostInfo::default() };
        let mut snapshot = Snapshot {
            fields: CARRIED,
            is_complete: true,
            begin: moment(0),
            end: moment(0),
            cpus: vec![CpuSample::default()],
            ..Snapshot::default()
        };
        for (tid, &pid) in (pids.len() as u64..).zip(pids) {
            let mut sched = SchedTimes { open_wait: FUTEX, blocked_ns: 9 * US, ..SchedTimes::default() };
            sched.waits.add(FUTEX, 9 * US);
            snapshot.threads.push(ThreadSample {
                key: ThreadKey { tid: 100 * pid + u32::try_from(tid).unwrap(), start_ns: 5 * SECOND_NS },
                process: process_of(pid),
                comm: Comm::from("sleeper"),
                state: TaskState(b'S'),
                sched,
                ..ThreadSample::default()
            });
        }
        let mut pids = pids.to_vec();
        pids.sort_unstable();
        pids.dedup();
        for pid in pids {
            let info = Arc::new(ProcessInfo { name: format!("p{pid}").into(), ..ProcessInfo::default() });
            snapshot.processes.push(ProcessSample { key: process_of(pid), info, ..ProcessSample::default() });
        }
        let mut device = Self { host, snapshot };
        device.count();
        device
    }

    fn count(&mut self) {
        self.snapshot.sort();
        self.snapshot.thread_count = u32::try_from(self.snapshot.threads.len()).unwrap();
        self.snapshot.process_count = u32::try_from(self.snapshot.processes.len()).unwrap();
    }

    /// The next second; threads whose `seconds` has nothing rest in it.
    fn step(&mut self, seconds: &BTreeMap<u32, Second>) {
        let snapshot = &mut self.snapshot;
        snapshot.sequence += 1;
        snapshot.exits.clear();
        (snapshot.begin, snapshot.end) = (moment(snapshot.sequence), moment(snapshot.sequence));
        for thread in &mut snapshot.threads {
            let Some(second) = seconds.get(&thread.key.tid) else {
                thread.sched.go_on_waiting(SECOND_NS);
                continue;
            };
            let half_ns = SECOND_NS / 2;
            thread.sched.go_on_waiting(half_ns);
            let Counters { run_ns, user_ns, run_delay_ns, voluntary_switches, .. } = &mut thread.counters;
            *run_ns += second.run_us * US;
            *user_ns += second.run_us * US;
            *run_delay_ns += second.ready_us * US;
            *voluntary_switches += 1;
            thread.sched.wakeups += 1;
            thread.sched.open_wait = second.then;
            thread.sched.go_on_waiting(half_ns - (second.run_us + second.ready_us) * US);
        }
        let has_ended =
            |thread: &ThreadSample| seconds.get(&thread.key.tid).is_some_and(|second| second.ends);
        let ended: Vec<ThreadSample> = snapshot.threads.extract_if(.., |thread| has_ended(thread)).collect();
        for mut thread in ended {
            let is_alive = |other: &ThreadSample| other.process == thread.process;
            let ends_process = !snapshot.threads.iter().any(is_alive);
            snapshot.processes.retain(|process| !ends_process || process.key != thread.process);
            thread.sched.open_wait = WaitReason::NONE;
            snapshot.exited_total += &thread.counters;
            let end_ns = snapshot.end.boot_ns - 1;
            snapshot.exits.push(ExitSample { thread, end_ns, ends_process, ..ExitSample::default() });
        }
        self.count();
    }
}

/// A device, its encoder and a receiver.
struct Link {
    device: Device,
    encoder: Encoder,
    demux: Demux,
    received: Vec<Interval>,
}

impl Link {
    fn new(pids: &[u32], refresh_snapshots: u32) -> Self {
        let options = EncoderOptions { refresh_snapshots, ..EncoderOptions::default() };
        let mut link = Self {
            device: Device::new(pids),
            encoder: Encoder::new(options),
            demux: Demux::new(DemuxOptions::default()),
            received: Vec::new(),
        };
        link.send(&Interval::default(), true);
        link
    }

    /// The next second; what the device itself sees.
    fn step(&mut self, seconds: &BTreeMap<u32, Second>, arrives: bool) -> Interval {
        let before = self.device.snapshot.clone();
        self.device.step(seconds);
        let there = Interval::between(&before, &self.device.snapshot);
        self.send(&there, arrives);
        there
    }

    fn send(&mut self, interval: &Interval, arrives: bool) {
        let mut datagrams = Datagrams::new();
        self.encoder.encode(&self.device.host, &self.device.snapshot, interval, &mut datagrams);
        let received = Moment { mono_ns: self.device.snapshot.end.mono_ns, ..Moment::default() };
        for datagram in datagrams.as_slice().iter().filter(|_| arrives) {
            let keep = &mut |_: &_, interval: &Interval| self.received.push(interval.clone());
            self.demux.accept(datagram, FROM, received, keep).unwrap();
        }
    }
}

/// Run, ready and blocked time.
fn time_ns(row: &ThreadInterval) -> i64 {
    row.delta.run_ns + row.delta.run_delay_ns + row.sched.blocked_ns
}

/// Each process waited as its threads did on the device, to 1 µs a thread and reason: that is how waits are sent.
fn assert_waited_alike(here: &Interval, there: &Interval) {
    for expected in &there.processes {
        let row = here.process(expected.key).unwrap_or_else(|| panic!("no row of {:?}", expected.key));
        let slack = u64::from(expected.thread_rows) * 2 * US;
        assert_eq!(row.thread_rows, expected.thread_rows, "{:?}", row.key);
        for reason in REASONS {
            let (here, there) = (row.sched.waits.of(reason), expected.sched.waits.of(reason));
            assert!(here.abs_diff(there) <= slack, "{} of {:?}: {here} {there}", reason.name(), row.key);
        }
        assert!(row.sched.blocked_ns.abs_diff(expected.sched.blocked_ns) <= slack, "{row:?} {expected:?}");
    }
}

#[test]
fn a_process_whose_only_thread_sleeps_is_blocked_all_the_time() {
    let mut link = Link::new(&[3, 7, 7, 7], 60_000);
    for second in 1..=45 {
        // One thread of process 7 works and naps, two wait for a lock all the time, as does the one of process 3.
        let tid = link.device.snapshot.threads.last().unwrap().key.tid;
        let work = Second { run_us: 10, ready_us: 1, then: NAP, ends: false };
        let there = link.step(&BTreeMap::from([(tid, work)]), true);
        let here = link.received.last().unwrap();
        assert_waited_alike(here, &there);
        let sleeper = here.process(process_of(3)).unwrap();
        assert_eq!((sleeper.sched.blocked_ns, sleeper.delta.is_zero()), (1_000_000_000, true));
        assert_eq!(&*sleeper.info.name, "p3");
        let mixed = here.process(process_of(7)).unwrap();
        let futex = mixed.sched.waits.of(FUTEX);
        assert!((2 * SECOND_NS..=2 * SECOND_NS + SECOND_NS / 2).contains(&futex), "{second}: {mixed:?}");
    }
    let futex_ns: u64 =
        link.received.iter().map(|one| one.process(process_of(7)).unwrap().sched.waits.of(FUTEX)).sum();
    // Two of three threads for 45 s, and half of the first second of the third one.
    assert!(futex_ns.abs_diff(90_500_000_000) < 1_000_000, "{futex_ns}");
}

#[test]
fn after_a_restart_of_the_agent_nothing_is_charged_for_the_time_between() {
    let mut link = Link::new(&[3], 60_000);
    link.step(&BTreeMap::new(), true);
    for _ in 0..20 {
        link.step(&BTreeMap::new(), false);
    }
    link.encoder = Encoder::new(EncoderOptions { agent_start: 99, ..EncoderOptions::default() });
    link.step(&BTreeMap::new(), true);
    link.step(&BTreeMap::new(), true);
    let (mut blocked_ns, mut restarts) = (0, 0);
    for interval in &link.received {
        blocked_ns += interval.process(process_of(3)).map_or(0, |row| row.sched.blocked_ns);
        restarts += u32::from(interval.flags.contains(Flags::RESTART));
    }
    assert_eq!((blocked_ns, restarts), (2_000_000_000, 1));
}

#[test]
fn without_wait_reasons_a_resting_thread_is_no_data() {
    let mut link = Link::new(&[3, 7], 60_000);
    link.device.snapshot.fields -= cpumon_model::Fields::WAITS;
    for _ in 0..5 {
        link.step(&BTreeMap::new(), true);
    }
    let rows = link.received.iter().skip(2).flat_map(|one| &one.processes);
    assert!(rows.clone().all(|row| row.sched.blocked_ns == 0), "{:?}", rows.collect::<Vec<_>>());
}

fn any_second() -> impl Strategy<Value = Second> {
    let reason = (0..REASONS.len()).prop_map(|at| REASONS[at]);
    (0_u64..200_000, 0_u64..200_000, reason, 0_u32..9).prop_map(|(run_us, ready_us, then, number)| Second {
        run_us,
        ready_us,
        then,
        ends: number == 0,
    })
}

/// For each second which of the threads do what; the rest of them rest.
fn any_script() -> impl Strategy<Value = Vec<Vec<(usize, Second)>>> {
    prop::collection::vec(prop::collection::vec((0_usize..8, any_second()), 0..4), 4..20)
}

fn by_tid(device: &Device, seconds: &[(usize, Second)]) -> BTreeMap<u32, Second> {
    let tid = |nth: usize| device.snapshot.threads.get(nth).map(|thread| thread.key.tid);
    seconds.iter().filter_map(|&(nth, second)| Some((tid(nth)?, second))).collect()
}

proptest! {
    /// On the device and at the receiver, whatever is sent again unchanged or ends.
    #[test]
    fn run_ready_and_blocked_time_make_up_the_time_that_passed(script in any_script(), refresh in 2_u32..40) {
        let mut link = Link::new(&[1, 1, 1, 2, 2, 3, 4, 4], refresh);
        for (at, seconds) in script.iter().enumerate() {
            let there = link.step(&by_tid(&link.device, seconds), true);
            let length_ns = there.duration_ns().cast_signed();
            for row in &there.threads {
                let time_ns = time_ns(row);
                prop_assert!(time_ns == length_ns || (time_ns < length_ns && row.life != Life::Alive), "{row:?}");
            }
            let here = link.received.get(at).unwrap();
            assert_waited_alike(here, &there);
            for row in &here.threads {
                prop_assert!(time_ns(row).abs_diff(length_ns) <= 6 * US || row.life != Life::Alive, "{row:?}");
            }
        }
    }

    /// What is lost may be put down to another reason, but no process waits longer than its threads were there.
    #[test]
    fn under_loss_no_process_waits_longer_than_its_threads_were_there(
        script in any_script(),
        arrives in prop::collection::vec(any::<bool>(), 20),
        refresh in 2_u32..40,
    ) {
        let mut link = Link::new(&[1, 1, 1, 2, 2, 3, 4, 4], refresh);
        for (seconds, arrives) in script.iter().zip(arrives) {
            link.step(&by_tid(&link.device, seconds), arrives);
        }
        for interval in &link.received {
            for row in &interval.threads {
                let most_ns = interval.duration_ns().cast_signed() + SLACK_NS.cast_signed();
                prop_assert!(row.sched.blocked_ns <= most_ns, "{row:?} in {most_ns}");
                let waits_ns = row.sched.waits.total_ns();
                prop_assert!(waits_ns <= row.sched.blocked_ns.unsigned_abs(), "{row:?} {waits_ns}");
            }
            for row in &interval.processes {
                let most_ns = (interval.duration_ns() + SLACK_NS) * u64::from(row.thread_rows);
                prop_assert!(row.sched.blocked_ns.unsigned_abs() <= most_ns, "{row:?} in {most_ns}");
                prop_assert_eq!(row.sched.waits.total_ns(), row.sched.blocked_ns.unsigned_abs());
            }
        }
    }
}
