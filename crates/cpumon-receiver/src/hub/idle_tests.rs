//! Rows of idle processes of hosts that send only what changed: at each moment those that were there, within limits of memory.

use std::collections::BTreeMap;

use cpumon_model::{
    BootId, Delta, Flags, HostInfo, Life, Moment, ProcessInfo, ProcessInterval, ProcessKey, Trust,
};

use super::*;

const SECOND_NS: i64 = 1_000_000_000;

fn hub(max_process_bytes: usize) -> Hub {
    let options = HubOptions { max_process_bytes, ..HubOptions::default() };
    Hub::new(options, Box::new(|_, _| Ok(None)), Box::new(Status::default))
}

fn host(id: u8) -> HostStatus {
    let info = HostInfo { host: HostId([id; 16]), hostname: format!("h{id}").into(), ..HostInfo::default() };
    HostStatus { info, ..HostStatus::default() }
}

fn idle(pid: u32) -> IdleProcess {
    let info = Arc::new(ProcessInfo { name: format!("p{pid}").into(), ..ProcessInfo::default() });
    IdleProcess { key: ProcessKey { pid, start_ns: 1 }, info, parent_pid: 1, thread_rows: 2 }
}

/// An interval in which these processes did something or began or ended, and who is there at its end.
fn interval(second: i64, rows: &[(u32, Life)], there: u32) -> Arc<Interval> {
    let at = |s: i64| {
        let wall_ns = s * SECOND_NS;
        Moment { wall_ns, mono_ns: wall_ns.unsigned_abs(), ..Moment::default() }
    };
    let row = |&(pid, life): &(u32, Life)| {
        let delta = Delta { run_ns: 5, ..Delta::default() };
        ProcessInterval { life, delta, ..idle(pid).row() }
    };
    let processes = rows.iter().map(row).collect();
    Arc::new(Interval {
        begin: at(second - 1),
        end: at(second),
        processes,
        process_count: there,
        ..Interval::default()
    })
}

/// The rows of the interval that ends with a second: who, and for how long it ran.
fn rows(hub: &Hub, id: u8, second: i64) -> Vec<(u32, i64)> {
    let host = HostId([id; 16]);
    let shown = hub.seek(host, Seek::At(second * SECOND_NS)).unwrap().unwrap();
    let whole = hub.with_idle(host, &shown);
    assert_eq!((whole.serial, whole.number), (shown.serial, shown.number));
    whole.interval.processes.iter().map(|row| (row.key.pid, row.delta.run_ns)).collect()
}

#[test]
fn each_moment_has_the_processes_that_were_there_then() {
    use Life::{Alive, Born, Ended};
    let (hub, status) = (hub(1 << 20), host(1));
    hub.put(&status, interval(1, &[(3, Alive)], 3));
    hub.put_listed(&status, interval(2, &[(3, Alive)], 3), Some(&[idle(2), idle(7)]));
    hub.put(&status, interval(3, &[], 3));
    hub.put(&status, interval(4, &[(5, Born), (7, Ended)], 3));
    hub.put(&status, interval(5, &[(3, Alive)], 3));
    // The end of 5 was lost: the next list is without it.
    hub.put_listed(&status, interval(6, &[(3, Alive)], 2), Some(&[idle(2)]));
    let of = |second| rows(&hub, 1, second);
    assert_eq!(of(1), [(3, 5)], "nothing is known before the first list");
    assert_eq!(of(2), [(2, 0), (3, 5), (7, 0)]);
    assert_eq!(of(3), [(2, 0), (3, 0), (7, 0)]);
    assert_eq!(of(4), [(2, 0), (3, 0), (5, 5), (7, 5)]);
    assert_eq!(of(5), [(2, 0), (3, 5), (5, 0)]);
    assert_eq!(of(6), [(2, 0), (3, 5)]);
    // Names and numbers of threads come along, and what memory has stays without these rows.
    let shown = hub.newest(HostId([1; 16])).unwrap();
    assert_eq!(shown.interval.processes.len(), 1);
    assert_eq!(hub.with_idle(HostId([1; 16]), &shown).interval.processes[0], idle(2).row());
}

#[test]
fn after_a_loss_who_has_no_row_is_no_data_and_after_a_restart_nothing_is_known() {
    let (hub, status) = (hub(1 << 20), host(1));
    hub.put_listed(&status, interval(1, &[(3, Life::Alive)], 2), Some(&[idle(2)]));
    let with = |second, flags| Arc::new(Interval { flags, ..Interval::clone(&interval(second, &[], 2)) });
    hub.put(&status, with(2, Flags::SPANS_LOSS));
    hub.put(&status, with(3, Flags::PARTIAL));
    hub.put(&status, with(4, Flags::empty()));
    hub.put(&status, with(5, Flags::RESTART));
    hub.put(&status, with(6, Flags::empty()));
    let counts: Vec<usize> = (1..=6).map(|second| rows(&hub, 1, second).len()).collect();
    assert_eq!(counts, [2, 0, 0, 2, 0, 0]);
    hub.put_listed(&status, interval(7, &[], 2), Some(&[idle(2), idle(3)]));
    let reboot = Interval { boot: BootId([9; 16]), ..Interval::clone(&interval(8, &[], 2)) };
    hub.put(&status, Arc::new(reboot));
    assert_eq!((rows(&hub, 1, 7).len(), rows(&hub, 1, 8).len()), (2, 0));
}

/// Rows of idle processes in each interval took 60 KB a second of a host with 300 processes: of 250 plain devices on, some had no newest
/// interval.
#[test]
fn lists_of_processes_have_a_limit_of_their_own_and_shorten_no_past() {
    let list: Vec<IdleProcess> = (1..=300).map(idle).collect();
    let one = host(1);
    let unlimited = hub(1 << 30);
    unlimited.put_listed(&one, interval(1, &[], 300), Some(&list));
    let bytes = lock(&unlimited.inner).hosts[&one.info.host].presence.bytes;
    assert!((80_000..160_000).contains(&bytes), "{bytes}");
    // Strangers have half: space for three lists with what the first interval changed, or four without.
    let hub = hub(2 * (3 * bytes + bytes / 2));
    for second in 1..=60 {
        for id in 1..=5 {
            let listed = (second % 50 == 1).then_some(&list[..]);
            hub.put_listed(&host(id), interval(second, &[(7, Life::Alive)], 300), listed);
        }
    }
    let known: Vec<bool> = (1..=5).map(|id| rows(&hub, id, 60).len() == 300).collect();
    assert!((3..5).contains(&known.iter().filter(|is_known| **is_known).count()), "{known:?}");
    let inner = lock(&hub.inner);
    assert!(inner.hosts.values().all(|host| host.recent.len() == 60), "no list makes a past shorter");
    let held: usize = inner.hosts.values().map(|host| host.presence.bytes).sum();
    assert!(held <= 3 * bytes + bytes / 2, "{held}");
    drop(inner);
    // An enrolled host has the other half.
    let trusted = HostStatus { trust: Trust::Authenticated, ..host(9) };
    hub.put_listed(&trusted, interval(61, &[(7, Life::Alive)], 300), Some(&list));
    assert_eq!(rows(&hub, 9, 61).len(), 300);
}

/// A host with many changes would have no list at all, again and again.
#[test]
fn the_past_of_a_list_gives_way_before_the_list() {
    let list: Vec<IdleProcess> = (1..=300).map(idle).collect();
    let unlimited = hub(1 << 30);
    unlimited.put_listed(&host(1), interval(1, &[], 300), Some(&list));
    let bytes = lock(&unlimited.inner).hosts[&host(1).info.host].presence.bytes;
    let hub = hub(2 * (bytes + bytes / 4));
    hub.put_listed(&host(1), interval(1, &[], 300), Some(&list));
    for second in 2..=400 {
        let pid = u32::try_from(second).unwrap() + 1_000;
        hub.put(&host(1), interval(second, &[(pid - 1, Life::Ended), (pid, Life::Born)], 301));
        assert!(rows(&hub, 1, second).len() >= 301, "{second}");
    }
    assert!(lock(&hub.inner).hosts[&host(1).info.host].presence.bytes <= bytes + bytes / 4);
}

/// The list was copied while no interval of any host could come in.
#[test]
fn what_a_reader_has_is_shared_and_does_not_change() {
    let (hub, status) = (hub(64 << 20), host(1));
    let id = HostId([1; 16]);
    hub.put_listed(&status, interval(1, &[(3, Life::Alive)], 3), Some(&[idle(1), idle(2)]));
    hub.put(&status, interval(2, &[(2, Life::Ended)], 2));
    let at = |hub: &Hub, after| lock(&hub.inner).hosts[&id].presence.at(after).unwrap();
    let pids =
        |there: &BTreeMap<ProcessKey, IdleProcess>| there.keys().map(|key| key.pid).collect::<Vec<_>>();
    let (newest, again, earlier) = (at(&hub, 0).processes(), at(&hub, 0).processes(), at(&hub, 1));
    assert!(Arc::ptr_eq(&newest, &again), "no copy is made");
    drop(again);
    hub.put(&status, interval(3, &[(1, Life::Ended), (9, Life::Born)], 2));
    assert_eq!((pids(&newest), pids(&earlier.processes())), (vec![1, 3], vec![1, 2, 3]));
    assert_eq!(pids(&at(&hub, 0).processes()), [3, 9]);
    assert_eq!([1, 2, 3].map(|second| rows(&hub, 1, second).len()), [3, 3, 3]);
}

#[test]
fn after_an_interval_that_did_not_arrive_the_next_list_counts() {
    let (hub, status) = (hub(64 << 20), host(1));
    hub.put_listed(&status, interval(1, &[], 2), Some(&[idle(1), idle(2)]));
    hub.put(&status, interval(2, &[], 2));
    hub.put(&status, interval(4, &[], 2));
    let counts: Vec<usize> = [1, 2, 4].map(|second| rows(&hub, 1, second).len()).into();
    assert_eq!(counts, [2, 2, 0]);
}

#[test]
fn memory_of_lists_goes_with_the_intervals_and_is_that_of_the_processes_that_are_there() {
    let (hub, status) = (hub(64 << 20), host(1));
    let bytes = |hub: &Hub| lock(&hub.inner).hosts[&HostId([1; 16])].presence.bytes;
    hub.put_listed(&status, interval(1, &[(1, Life::Alive)], 2), Some(&[idle(2)]));
    let two = bytes(&hub);
    // A process begins and ends in each second, for longer than intervals stay in memory.
    for second in 2..=1_500 {
        let pid = u32::try_from(second).unwrap() + 10;
        hub.put(&status, interval(second, &[(pid - 1, Life::Ended), (pid, Life::Born)], 3));
    }
    let full = bytes(&hub);
    for second in 1_501..=3_000 {
        let pid = u32::try_from(second).unwrap() + 10;
        hub.put(&status, interval(second, &[(pid - 1, Life::Ended), (pid, Life::Born)], 3));
    }
    assert!(bytes(&hub).abs_diff(full) < 4_000 && full < two + 601 * 1_000, "{two} {full} {}", bytes(&hub));
    let begin = interval(3_000, &[], 3).end;
    hub.put(&status, Arc::new(Interval { begin, ..Interval::clone(&interval(9_000, &[], 3)) }));
    assert!(bytes(&hub) < two * 2, "{two} {}", bytes(&hub));
    assert_eq!(rows(&hub, 1, 9_000), [(1, 0), (2, 0), (3_010, 0)]);
}
