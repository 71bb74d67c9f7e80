use super::*;
use cpumon_model::{
    HostInfo, Ledger, Moment, ProcessInfo, ProcessInterval, ThreadInterval, Trust, bytes_of_rows,
};

const SECOND_NS: i64 = 1_000_000_000;

fn hub(options: HubOptions) -> Hub {
    let past = Box::new(|_, to| {
        let (Seek::At(ns) | Seek::Before(ns) | Seek::After(ns)) = to;
        let old = Interval { sequence: 999, ..Interval::default() };
        if ns < 0 { Err("no store".to_owned()) } else { Ok((ns < 500).then_some(old)) }
    });
    Hub::new(options, past, Box::new(Status::default))
}

fn host(id: u8, received_s: i64) -> HostStatus {
    let info = HostInfo { host: HostId([id; 16]), hostname: format!("h{id}").into(), ..HostInfo::default() };
    HostStatus { info, received_wall_ns: received_s * SECOND_NS, ..HostStatus::default() }
}

fn interval(second: i64, threads: usize) -> Arc<Interval> {
    let at = |s: i64| Moment { wall_ns: s * SECOND_NS, ..Moment::default() };
    Arc::new(Interval {
        sequence: u64::try_from(second).unwrap(),
        begin: at(second - 1),
        end: at(second),
        threads: vec![ThreadInterval::default(); threads],
        ..Interval::default()
    })
}

#[test]
fn the_newest_and_the_recent_past_are_found() {
    let hub = hub(HubOptions::default());
    let status = host(1, 1);
    for second in 100..110 {
        hub.put(&status, interval(second, 1));
    }
    let id = status.info.host;
    assert_eq!(hub.newest(id).unwrap().interval.sequence, 109);
    let seek = |to: Seek| hub.seek(id, to).map(|found| found.map(|shown| shown.interval.sequence));
    assert_eq!(seek(Seek::At(104 * SECOND_NS + 1)), Ok(Some(105)));
    assert_eq!(seek(Seek::At(104 * SECOND_NS)), Ok(Some(104)), "an end belongs to its interval");
    assert_eq!(seek(Seek::At(200 * SECOND_NS)), Ok(None), "no data then: nothing else in its place");
    assert_eq!(seek(Seek::At(10)), Ok(Some(999)), "older: from the store");
    assert_eq!(seek(Seek::Before(104 * SECOND_NS)), Ok(Some(103)));
    assert_eq!(seek(Seek::After(104 * SECOND_NS)), Ok(Some(105)));
    assert_eq!(seek(Seek::After(109 * SECOND_NS)), Ok(None));
    assert_eq!(seek(Seek::After(50 * SECOND_NS)), Ok(Some(100)), "nothing stored in between");
    assert_eq!(seek(Seek::Before(-5)), Err("no store".to_owned()));
    let serials: Vec<u64> = hub.after_serial(id, 7).iter().map(|shown| shown.serial).collect();
    assert_eq!(serials, [8, 9, 10]);
    hub.put(&host(2, 1), interval(110, 1));
    hub.put(&status, interval(111, 1));
    let numbers = |shown: Option<Shown>| shown.map(|shown| (shown.number, shown.serial));
    assert_eq!(numbers(hub.newer(id, 9)), Some((10, 10)));
    assert_eq!(numbers(hub.newer(id, 10)), Some((11, 12)), "numbers count one host's intervals");
    assert_eq!(numbers(hub.newer(id, 11)), None);
    assert_eq!(hub.recent(id, 108 * SECOND_NS).len(), 2);
    assert_eq!(hub.fleet().len(), 2);
}

#[test]
fn memory_is_bounded_by_bytes_and_by_age() {
    let small = HubOptions { max_bytes: 100_000, max_hosts: 10, ..HubOptions::default() };
    let hub = hub(small);
    let status = HostStatus { trust: Trust::Authenticated, ..host(1, 1) };
    for second in 0..100 {
        hub.put(&status, interval(second, 100));
    }
    let kept = hub.after_serial(status.info.host, 0);
    let bytes: usize = kept.iter().map(|shown| bytes_of_rows(&shown.interval)).sum();
    assert!(!kept.is_empty() && bytes <= small.max_bytes, "{bytes}");

    hub.put(&status, interval(100, 100_000));
    assert_eq!(hub.after_serial(status.info.host, 0).len(), 1, "the newest stays, however large");

    hub.put(&status, interval(101, 0));
    hub.put(&status, interval(101 + 601, 0));
    assert_eq!(hub.after_serial(status.info.host, 0).len(), 1, "older than ten minutes");
}

/// One process under a name of its own.
fn named(second: i64, name_bytes: usize) -> Arc<Interval> {
    let info = Arc::new(ProcessInfo { cmdline: "n".repeat(name_bytes).into(), ..ProcessInfo::default() });
    let mut one = Arc::unwrap_or_clone(interval(second, 0));
    one.processes.push(ProcessInterval { info, ..ProcessInterval::default() });
    Arc::new(one)
}

#[test]
fn texts_count_once_as_long_as_intervals_share_them() {
    let hub = hub(HubOptions { max_bytes: 1 << 20, max_hosts: 10, ..HubOptions::default() });
    let status = HostStatus { trust: Trust::Authenticated, ..host(1, 1) };
    let bytes = || lock(&hub.inner).hosts.values().map(|host| host.bytes).sum::<usize>();
    for second in 0..100 {
        hub.put(&status, named(second, 60_000));
    }
    let kept = hub.recent(status.info.host, i64::MIN).len();
    assert!((4..=13).contains(&kept) && bytes() <= 1 << 20, "{kept} of 60 kB each, {} bytes", bytes());
    let same = named(100, 60_000);
    for second in 100..400 {
        let mut next = Interval::clone(&same);
        next.end.wall_ns = second * SECOND_NS;
        hub.put(&status, Arc::new(next));
    }
    assert!(hub.recent(status.info.host, i64::MIN).len() >= 300, "they share one text");
    hub.put(&status, interval(2_000, 0));
    assert_eq!(bytes(), bytes_of_rows(&interval(2_000, 0)), "everything else was taken off again");
}

#[test]
fn strangers_take_no_memory_from_hosts_that_are_known() {
    let hub = hub(HubOptions { max_bytes: 4 << 20, max_hosts: 50, ..HubOptions::default() });
    let known = HostStatus { trust: Trust::Authenticated, ..host(1, 1) };
    for second in 0..300 {
        hub.put(&known, interval(second, 10));
    }
    let before = hub.recent(known.info.host, i64::MIN).len();
    // Each has one interval of nearly all that strangers may have together.
    for id in 2..200 {
        hub.put(&host(id, 400), interval(300, 4_000));
    }
    hub.put(&known, interval(300, 10));
    assert_eq!(hub.recent(known.info.host, i64::MIN).len(), before + 1);
    let inner = lock(&hub.inner);
    let strangers = inner.hosts.values().filter(|host| !is_trusted(&host.status));
    let bytes: usize = strangers.map(|host| host.bytes).sum();
    assert!(bytes <= 1 << 20 && inner.hosts.len() <= 50, "{bytes} bytes of {} hosts", inner.hosts.len());
}

#[test]
fn silent_strangers_give_back_what_is_much_and_known_hosts_keep_theirs() {
    let hub = hub(HubOptions { max_bytes: 64 << 20, max_hosts: 50, ..HubOptions::default() });
    let known = HostStatus { trust: Trust::Authenticated, ..host(1, 1) };
    hub.put(&known, interval(1, 20_000));
    for id in 2..6 {
        hub.put(&host(id, i64::from(id)), interval(1, 12_000));
    }
    hub.put(&host(6, 4), interval(1, 10));
    let bytes = |id: u8| lock(&hub.inner).hosts[&HostId([id; 16])].bytes;
    let large = bytes(2);
    hub.forget_silent(51 * SECOND_NS);
    assert_eq!((bytes(2), bytes(5)), (large, large), "not silent for long yet");
    hub.forget_silent(54 * SECOND_NS);
    assert_eq!((bytes(2), bytes(3), bytes(4), bytes(5)), (0, 0, 0, large));
    hub.forget_silent(1_000 * SECOND_NS);
    assert!(bytes(5) == large && bytes(6) > 0 && bytes(1) > large, "what is left is little");
    assert_eq!(hub.hosts().len(), 6, "they are still listed");
}

#[test]
fn hosts_are_bounded_and_the_most_silent_goes() {
    let hub = hub(HubOptions { max_bytes: 1 << 20, max_hosts: 2, ..HubOptions::default() });
    for (id, received_s) in [(1, 10), (2, 5), (3, 20)] {
        hub.put(&host(id, received_s), interval(1, 1));
    }
    let names: Vec<String> = hub.hosts().iter().map(|host| host.info.hostname.to_string()).collect();
    assert_eq!(names, ["h1", "h3"]);
}

#[test]
fn a_host_that_only_sent_a_status_is_updated_not_invented() {
    let hub = hub(HubOptions::default());
    hub.put_status(&host(1, 1));
    assert!(hub.hosts().is_empty());
    hub.put(&host(1, 1), interval(1, 1));
    hub.put_status(&host(1, 7));
    assert_eq!(hub.hosts()[0].received_wall_ns, 7 * SECOND_NS);
}

#[test]
fn a_host_has_its_stored_name_until_it_sends_one() {
    let record = |id: u8, trust| HostRecord {
        info: HostInfo { interval_ns: 7, ..host(id, 0).info },
        trust,
        first_wall_ns: None,
        last_wall_ns: Some(5),
    };
    let stored = vec![
        record(1, Trust::Authenticated),
        record(2, Trust::Authenticated),
        record(3, Trust::Unauthenticated),
    ];
    let hub = hub(HubOptions::default()).with_stored(stored);
    let nameless = |id: u8, trust| {
        let info = HostInfo { host: HostId([id; 16]), ..HostInfo::default() };
        HostStatus { info, trust, ..HostStatus::default() }
    };
    hub.put(&nameless(1, Trust::Authenticated), interval(1, 1));
    // Anyone may give the id of an enrolled host.
    hub.put(&nameless(2, Trust::Unauthenticated), interval(1, 1));
    // Of datagrams, a host goes by its id until it sent a name.
    let mut by_id = nameless(3, Trust::Unauthenticated);
    by_id.info.hostname = by_id.info.host.to_string().into();
    hub.put(&by_id, interval(3, 1));
    let of = |id: u8| hub.host(HostId([id; 16])).unwrap().info;
    assert_eq!((&*of(1).hostname, of(1).interval_ns, &*of(2).hostname), ("h1", 7, ""));
    assert_eq!(&*of(3).hostname, "h3");
    let renamed = HostInfo { hostname: "new".into(), ..nameless(1, Trust::Authenticated).info };
    hub.put_status(&HostStatus { info: renamed, trust: Trust::Authenticated, ..HostStatus::default() });
    assert_eq!(&*of(1).hostname, "new");
}

/// A second of host 1 with an idle CPU.
fn idle_second(at: u64) -> Arc<Interval> {
    let moment = |at: u64| Moment { mono_ns: at * SECOND_NS.unsigned_abs(), ..Moment::default() };
    let ledger = Ledger { capacity_ns: SECOND_NS, idle_ns: SECOND_NS, ..Ledger::default() };
    let (host, begin, end) = (HostId([1; 16]), moment(at - 1), moment(at));
    Arc::new(Interval { host, begin, end, ledger, ..Interval::default() })
}

#[test]
fn nothing_is_counted_before_the_first_scrape() {
    let hub = hub(HubOptions::default());
    let capacity = |at: u64| {
        hub.put(&host(1, 1), idle_second(at));
        let text = hub.metrics(MetricsFormat::Text, None).unwrap();
        let line =
            text.lines().find(|line| line.starts_with("cpumon_host_capacity_seconds_total{host=\"h1\"}"));
        line.map(|line| line.rsplit(' ').next().unwrap().to_owned())
    };
    assert_eq!([capacity(5), capacity(6)], [None, Some("1.000000000".to_owned())]);
}

#[test]
fn each_interval_is_counted_once_also_what_came_later() {
    let hub = hub(HubOptions { max_hosts: 1, ..HubOptions::default() });
    assert!(hub.metrics(MetricsFormat::Text, None).is_some(), "from here on it is counted");
    hub.put_past(&idle_second(1));
    for at in [5, 6, 9] {
        hub.put(&host(1, 1), idle_second(at));
    }
    for at in [4, 5, 6, 7, 8, 9, 7] {
        hub.put_past(&idle_second(at));
    }
    let text = hub.metrics(MetricsFormat::Text, None).unwrap();
    assert!(text.contains("cpumon_host_capacity_seconds_total{host=\"h1\"} 6.000000000\n"), "{text}");
    // A host that gives way takes its series along.
    hub.put(&host(2, 2), idle_second(1));
    let text = hub.metrics(MetricsFormat::OpenMetrics, Some("h2")).unwrap();
    assert!(!text.contains("h1") && hub.metrics(MetricsFormat::Text, Some("h1")).is_none(), "{text}");
}
