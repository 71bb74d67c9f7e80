//! Waits of threads, also of resting ones that send no rows: the receiver's processes have waited as long as the threads on the device, and
//! run, ready and blocked time of a thread make up the time that passed.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

use cpumon_model::{
    Counters, Fields, Flags, HostInfo, IdleProcess, Interval, Life, Moment, ProcessInfo, ProcessKey,
    ProcessSample, SchedTimes, ThreadInterval, Trust, WaitReason,
};
use cpumon_receiver::{Demux, DemuxOptions};
use cpumon_store::{Query, Reader, StoreOptions, Writer};
use cpumon_wire::Datagrams;
use cpumon_wire::v2::{Encoder, EncoderOptions};
use proptest::prelude::*;

use crate::sleepers::{BOOT, Device, FUTEX, HOST, NAP, REASONS, SECOND_NS, Second, US, process_of};

const FROM: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 4000);
/// What a row may wait longer than its interval: the clocks of counters and snapshots differ a little.
const SLACK_NS: u64 = 1_010 * US;

/// A thread that works a little.
const BUSY: Second = Second { run_us: 10, ready_us: 1, then: WaitReason::NONE, ends: false };

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
    link.device.snapshot.fields -= Fields::WAITS;
    for _ in 0..5 {
        link.step(&BTreeMap::new(), true);
    }
    let rows = link.received.iter().skip(2).flat_map(|one| &one.processes);
    assert!(rows.clone().all(|row| row.sched.blocked_ns == 0), "{:?}", rows.collect::<Vec<_>>());
}

/// A device without wait reasons, and its processes as the receiver knows them.
struct Plain {
    link: Link,
    /// As someone has them who follows the lists.
    there: BTreeMap<ProcessKey, IdleProcess>,
}

impl Plain {
    fn new(pids: &[u32], refresh_snapshots: u32) -> Self {
        let mut link = Link::new(pids, refresh_snapshots);
        link.device.snapshot.fields -= Fields::SCHED | Fields::WAITS;
        for thread in &mut link.device.snapshot.threads {
            thread.sched = SchedTimes::default();
        }
        Self { link, there: BTreeMap::new() }
    }

    /// Who worked (tid), and whether that thread ended; compares with what the device itself sees.
    fn step(&mut self, active: &[(u32, bool)], arrives: bool) -> Interval {
        let second = |ends| Second { ends, ..BUSY };
        let seconds = active.iter().map(|&(tid, ends)| (tid, second(ends))).collect();
        let expected = self.link.step(&seconds, arrives);
        if !arrives {
            return expected;
        }
        let here = self.link.received.last().unwrap();
        if let Some(listed) = here.idle_processes.as_ref().filter(|_| here.knows_all_processes()) {
            assert!(listed.is_sorted_by_key(|one| one.key));
            self.there.retain(|key, _| here.process(*key).is_some());
            self.there.extend(listed.iter().map(|one| (one.key, one.clone())));
        }
        for (key, after) in here.processes_after() {
            match after {
                Some(one) => drop(self.there.insert(key, one)),
                None => drop(self.there.remove(&key)),
            }
        }
        expected
    }

    /// The last interval with rows of idle processes: who, how many threads, and run time.
    fn rows(&self) -> Vec<(u32, u32, i64)> {
        let mut whole = self.link.received.last().unwrap().clone();
        whole.add_idle(self.there.values());
        rows_of(&whole)
    }
}

fn rows_of(interval: &Interval) -> Vec<(u32, u32, i64)> {
    interval.processes.iter().map(|row| (row.key.pid, row.thread_rows, row.delta.run_ns)).collect()
}

/// Live views of such a host lacked every process that did nothing in the last interval.
#[test]
fn processes_that_rest_are_listed_now_and_then_with_their_threads() {
    let mut plain = Plain::new(&[3, 7, 7, 7, 9, 9], 60_000);
    let tids: Vec<u32> = plain.link.device.snapshot.threads.iter().map(|row| row.key.tid).collect();
    plain.step(&[], true);
    let mut lists = 0;
    for second in 0..120 {
        let expected = plain.step(&[(tids[second % 6], false)], true);
        let here = plain.link.received.last().unwrap();
        // Now and then one is sent in its turn.
        assert!(here.threads.len() == 1 && here.processes.len() <= 2, "what rests has no row: {here:?}");
        assert!(here.idle_processes.is_none() || here.knows_all_processes(), "{here:?}");
        lists += usize::from(here.idle_processes.is_some());
        assert_eq!(plain.rows(), rows_of(&expected), "{second}");
        assert_eq!(plain.there[&process_of(3)].info.name, "p3".into());
    }
    assert_eq!(lists, 3, "with the first one, and fifty between two");
    // One thread of 7 ends, and counts in that interval only; then the only one of 3.
    let expected = plain.step(&[(tids[2], true)], true);
    assert_eq!(plain.rows(), rows_of(&expected));
    let expected = plain.step(&[(tids[5], false)], true);
    assert_eq!(plain.rows(), rows_of(&expected), "7 has no row, and one thread less");
    let expected = plain.step(&[(tids[1], false)], true);
    assert_eq!(plain.rows(), rows_of(&expected));
    let expected = plain.step(&[(tids[0], true)], true);
    assert_eq!(plain.rows(), rows_of(&expected));
    let expected = plain.step(&[(tids[1], false)], true);
    let left: Vec<(u32, u32)> = plain.rows().iter().map(|row| (row.0, row.1)).collect();
    assert_eq!(left, [(7, 2), (9, 2)], "what ended is gone");
    assert_eq!(plain.rows(), rows_of(&expected));
}

/// Its row had no threads until the next list, and none while any thread had a row.
#[test]
fn a_process_that_arrives_after_its_threads_has_them_at_once() {
    let mut plain = Plain::new(&[3, 7, 7, 7, 9, 9], 20);
    let tids: Vec<u32> = plain.link.device.snapshot.threads.iter().map(|row| row.key.tid).collect();
    for _ in 0..3 {
        plain.link.step(&BTreeMap::new(), true);
    }
    // A receiver that starts later knows only repeated rows.
    plain.link.demux = Demux::new(DemuxOptions::default());
    plain.link.received.clear();
    let (mut received, mut late) = (BTreeMap::<ProcessKey, BTreeSet<u32>>::new(), 0);
    for second in 0..60 {
        let expected = plain.link.step(&BTreeMap::from([(tids[second % 6], BUSY)]), true);
        let Some(here) = plain.link.received.last() else { continue };
        let known: Vec<ProcessKey> = received.keys().copied().collect();
        for thread in &here.threads {
            received.entry(thread.process).or_default().insert(thread.key.tid);
        }
        for row in &here.processes {
            late += usize::from(!row.info.name.is_empty() && known.contains(&row.key) && second < 25);
            let there = expected.process(row.key).unwrap().thread_rows;
            let least = u32::try_from(received.get(&row.key).map_or(0, BTreeSet::len)).unwrap();
            assert!((least..=there).contains(&row.thread_rows), "{second}: {least} {there} {row:?}");
        }
    }
    assert!(late > 0, "no process came after its threads");
}

/// A row of sums would have stayed as a process that is idle.
#[test]
fn sums_of_exits_are_not_listed_as_processes() {
    let mut plain = Plain::new(&[3, 7, 9], 60_000);
    plain.link.device.snapshot.fields |= Fields::EXITS;
    let info = Arc::new(ProcessInfo { name: "children of sh (summed)".into(), ..ProcessInfo::default() });
    let key = ProcessKey { pid: 0, start_ns: 5 };
    let sum = ProcessSample { key, parent_pid: 0, info, ended_threads: Counters::default() };
    plain.link.device.snapshot.processes.insert(0, sum);
    let tids: Vec<u32> = plain.link.device.snapshot.threads.iter().map(|row| row.key.tid).collect();
    for _ in 0..60 {
        plain.step(&[(tids[0], false)], true);
    }
    let lists: Vec<_> = plain.link.received.iter().filter_map(|one| one.idle_processes.as_ref()).collect();
    assert!(lists.len() == 2 && lists.iter().all(|list| list.len() == 2), "{lists:?}");
    assert!(plain.rows().iter().all(|row| row.0 > 0), "{:?}", plain.rows());
}

/// No list has them, so none is to be corrected when one is over: on a host with many it would have made a list each time.
#[test]
fn a_sum_of_exits_that_is_over_brings_no_list() {
    let mut plain = Plain::new(&[3, 7, 9], 4);
    plain.link.device.snapshot.fields |= Fields::EXITS;
    let tids: Vec<u32> = plain.link.device.snapshot.threads.iter().map(|row| row.key.tid).collect();
    for second in 0..80 {
        let key = ProcessKey { pid: 0, start_ns: 5 };
        let processes = &mut plain.link.device.snapshot.processes;
        processes.retain(|process| process.key != key);
        if second < 10 {
            processes.insert(0, ProcessSample { key, ..ProcessSample::default() });
        }
        plain.step(&[(tids[0], false)], true);
    }
    let lists = plain.link.received.iter().filter(|one| one.idle_processes.is_some()).count();
    assert_eq!((lists, plain.link.received.iter().filter(|one| one.corrects_lists).count()), (2, 0));
}

/// A lost datagram made rows of zeros of processes that ran.
#[test]
fn after_a_loss_no_list_comes_until_an_interval_has_all() {
    let mut plain = Plain::new(&[3, 7, 9], 60_000);
    let tids: Vec<u32> = plain.link.device.snapshot.threads.iter().map(|row| row.key.tid).collect();
    for _ in 0..2 {
        plain.step(&[(tids[0], false)], true);
    }
    assert!(plain.link.received.last().unwrap().idle_processes.is_some());
    for _ in 0..52 {
        plain.step(&[(tids[1], false)], false);
    }
    plain.step(&[(tids[0], false)], true);
    let after = plain.link.received.last().unwrap().clone();
    assert!(after.flags.contains(Flags::SPANS_LOSS) && after.idle_processes.is_none(), "{after:?}");
    assert!(!after.is_idle_without_row(), "9 did nothing, but of 7 nothing is known");
    for _ in 0..51 {
        plain.step(&[(tids[0], false)], true);
    }
    assert_eq!(plain.rows().iter().map(|row| row.0).collect::<Vec<_>>(), [3, 7, 9]);
    assert_eq!(plain.link.received.iter().filter(|one| one.idle_processes.is_some()).count(), 2);
}

/// A list with a process that had ended counted as complete, and the store did not take the one that corrected it before its turn.
#[test]
fn no_list_has_a_process_whose_end_was_lost() {
    let mut plain = Plain::new(&[3, 7, 9, 11], 4);
    let tids: Vec<u32> = plain.link.device.snapshot.threads.iter().map(|row| row.key.tid).collect();
    for _ in 0..12 {
        plain.step(&[(tids[0], false)], true);
    }
    // The end of 7, and the one time that it is repeated.
    plain.step(&[(tids[1], true)], false);
    plain.step(&[(tids[0], false)], false);
    let mut corrections = 0;
    for _ in 0..60 {
        let expected = plain.step(&[(tids[0], false)], true);
        let here = plain.link.received.last().unwrap();
        if here.knows_all_processes() {
            let idle = here.idle_processes.as_deref().unwrap_or_default();
            assert_eq!(here.processes.len() + idle.len(), 3, "{here:?}");
        }
        corrections += usize::from(here.corrects_lists);
        if corrections > 0 {
            assert_eq!(plain.rows(), rows_of(&expected));
        }
    }
    assert_eq!(corrections, 1);
}

/// With losses without end there would be no list at all, and no idle process would be seen.
#[test]
fn where_ends_stay_lost_lists_come_later_and_with_what_ended() {
    let mut plain = Plain::new(&[3, 7, 9, 11], 60_000);
    let tids: Vec<u32> = plain.link.device.snapshot.threads.iter().map(|row| row.key.tid).collect();
    for _ in 0..12 {
        plain.step(&[(tids[0], false)], true);
    }
    plain.step(&[(tids[1], true)], false);
    plain.step(&[(tids[0], false)], false);
    let before = plain.link.received.len();
    for _ in 0..200 {
        plain.step(&[(tids[0], false)], true);
    }
    let lists = plain.link.received[before..].iter().filter(|one| one.idle_processes.is_some());
    let lists: Vec<_> = lists.map(|one| (one.knows_all_processes(), one.corrects_lists)).collect();
    assert_eq!(lists, [(true, false)]);
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

/// For each second the active threads, by index, with their activity; the others rest.
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

    /// Lost time may be put down to another reason, but no process waits longer than its threads were there.
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

/// After losses the thread was forgotten. Later only rows without a name came, without its old waits: its end brought all waits.
#[test]
fn the_end_of_a_thread_brings_no_waits_of_before_it_was_known() {
    let mut link = Link::new(&[1, 1, 1, 2, 2, 3, 4, 4], 3);
    let nap = Second { run_us: 0, ready_us: 0, then: NAP, ends: false };
    let end = Second { then: FUTEX, ends: true, ..nap };
    link.step(&BTreeMap::from([(108, end)]), false);
    for second in 2..=16 {
        let seconds = match second {
            11 | 15 => BTreeMap::from([(211, nap)]),
            16 => BTreeMap::from([(211, end)]),
            _ => BTreeMap::new(),
        };
        link.step(&seconds, second == 14 || second == 15);
    }
    link.step(&BTreeMap::new(), true);
    let last = link.received.last().unwrap();
    let row = last.threads.iter().find(|row| row.key.tid == 211 && row.life == Life::Ended).unwrap();
    assert!(row.sched.blocked_ns.abs_diff(1_000_000_000) < US, "it lived on for a second: {row:?}");
}

/// What a store has of what a receiver gave out.
fn stored(intervals: &[Interval]) -> Vec<Interval> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.db");
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    let info = HostInfo { host: HOST, boot: BOOT, ..HostInfo::default() };
    for one in intervals {
        writer.put_received(&info, Trust::Encrypted, None, one, one.end.wall_ns).unwrap();
    }
    writer.commit().unwrap();
    writer.compact_host(HOST).unwrap();
    let mut read = Vec::new();
    let reader = Reader::open(&path).unwrap();
    let mut reading = reader.intervals(&Query::new(HOST)).unwrap();
    while let Some(stored) = reading.read().unwrap() {
        read.push(stored.interval.clone());
    }
    read
}

#[test]
fn a_store_has_the_threads_of_a_device_of_which_nothing_was_sent() {
    let mut link = Link::new(&[3, 7, 7, 7], 60_000);
    let mut there = Vec::new();
    for _ in 0..400 {
        let tid = link.device.snapshot.threads.last().unwrap().key.tid;
        let work = Second { run_us: 10, ready_us: 1, then: NAP, ends: false };
        there.push(link.step(&BTreeMap::from([(tid, work)]), true));
    }
    assert_eq!(link.received.iter().filter(|one| one.resting.is_some()).count(), 8, "every 51st has a list");
    let stored = stored(&link.received);
    assert_eq!(stored.len(), 400);
    for (here, there) in stored.iter().zip(&there) {
        assert_waited_alike(here, there);
        let keys = |one: &Interval| one.threads.iter().map(|row| row.key).collect::<Vec<_>>();
        assert_eq!(keys(here), keys(there));
        for (row, expected) in here.threads.iter().zip(&there.threads) {
            assert!(time_ns(row).abs_diff(time_ns(expected)) <= 6 * US, "{row:?} {expected:?}");
        }
    }
}
