//! What a scrape reads: sums are the ledger's to the nanosecond, no series falls, and neither series nor memory grow beyond their limits.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex};

use cpumon_model::{
    BootId, CgroupInterval, CpuInterval, CpuLimit, DelayHistogram, DelayOf, Delays, Delta, Fields, HostId,
    HostInfo, HostStatus, Interval, Ledger, Moment, ProcessInfo, ProcessInterval, ProcessKey, SourceKind,
    Throttle, Trust, delay_bucket,
};

use super::*;
use crate::held_memory::taken_by;
use crate::seeded_rng::SeededRng;
use crate::status::{Receiver, Status, Store};

const SECOND_NS: u64 = 1_000_000_000;

/// Samples by name and labels; values in units of the last digit, ns for seconds.
type Samples = BTreeMap<String, u128>;

fn host_status(id: u8, name: &str) -> HostStatus {
    let info = HostInfo {
        host: HostId([id; 16]),
        hostname: name.into(),
        interval_ns: SECOND_NS,
        ..HostInfo::default()
    };
    HostStatus { info, trust: Trust::Local, ..HostStatus::default() }
}

fn counted(metrics: &Metrics, status: HostStatus) -> CountedHost {
    (status, Arc::new(Mutex::new(metrics.host())))
}

fn add(host: &CountedHost, interval: &Interval) {
    host.1.lock().unwrap().add(&host.0, interval);
}

fn text(metrics: &Metrics, hosts: &[CountedHost]) -> String {
    metrics.write(hosts, &Status::default(), MetricsFormat::Text, None).unwrap()
}

/// Reads the text as Prometheus does: each series once, each family in one piece.
fn samples(text: &str) -> Samples {
    let (mut samples, mut families, mut family) = (Samples::new(), HashSet::new(), "");
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            family = rest.split(' ').next().unwrap();
            assert!(families.insert(family), "{family} comes twice");
        } else if !line.starts_with('#') {
            let (series, value) = line.rsplit_once(' ').unwrap();
            assert!(series.starts_with(family), "{line:?} is not of {family}");
            let value = match value.split_once('.') {
                Some((whole, rest)) if rest.len() == 9 => format!("{whole}{rest}").parse().unwrap(),
                _ => value.split('.').next().unwrap().parse().unwrap(),
            };
            assert_eq!(samples.insert(series.to_owned(), value), None, "{series} comes twice");
        }
    }
    samples
}

/// Sum of the series of a family with all these labels.
fn sum(samples: &Samples, family: &str, labels: &[&str]) -> u128 {
    let is = |series: &str| {
        let name = series.split('{').next();
        name == Some(family) && labels.iter().all(|label| series.contains(label))
    };
    samples.iter().filter(|(series, _)| is(series)).map(|(_, value)| value).sum()
}

fn process(pid: u32, name: &str, delta: Delta) -> ProcessInterval {
    let info = ProcessInfo { name: name.into(), comm: name.into(), ..ProcessInfo::default() };
    ProcessInterval { delta, ..ProcessInterval::new(ProcessKey { pid, start_ns: 1 }, 1, Arc::new(info)) }
}

fn ran(run_ns: i64, run_delay_ns: i64) -> Delta {
    Delta { run_ns, run_delay_ns, user_ns: run_ns / 2, system_ns: run_ns / 2, ..Delta::default() }
}

/// An interval that ends `at` seconds after its boot and has these rows.
fn interval(at: u64, seconds: u64, processes: Vec<ProcessInterval>) -> Interval {
    let moment = |at: u64| Moment { mono_ns: at * SECOND_NS, ..Moment::default() };
    let threads_ns = processes.iter().map(|row| row.delta.run_ns).sum();
    let capacity_ns = i64::try_from(4 * seconds * SECOND_NS).unwrap();
    Interval {
        boot: BootId([1; 16]),
        begin: moment(at - seconds),
        end: moment(at),
        source: SourceKind::Procfs,
        fields: Fields::COUNTERS | Fields::EXITS,
        ledger: Ledger { capacity_ns, threads_ns, idle_ns: capacity_ns / 2, ..Ledger::default() },
        processes,
        ..Interval::default()
    }
}

#[test]
fn sums_are_the_ledgers_over_a_storm_of_names_and_no_series_falls() {
    let metrics =
        Metrics::new(MetricsOptions { has_blocked: true, ..MetricsOptions::by(&[MetricsBy::User]) });
    let host = [counted(&metrics, host_status(1, "web"))];
    let mut rng = SeededRng(7);
    let (mut ledger, mut ready, mut parts_sum) = (0_u128, 0_u128, 0_i128);
    // The newest value of a series, and when it was last there.
    let mut known: BTreeMap<String, (u128, u64)> = BTreeMap::new();
    let (mut ended, mut changes) = (0, HashSet::new());
    for step in 1..=600_u64 {
        let minute = 60;
        // Which programs are busy changes all the time; most names come once.
        let rows = 5 + rng.below(120);
        let rows = (0..rows).map(|nth| {
            let name = match rng.below(3) {
                0 => format!("job-{}", rng.below(1 << 40)),
                1 => format!("busy-{}", step / 40 * 8 + rng.below(12)),
                _ => format!("daemon-{}", rng.below(30)),
            };
            let most = if name.starts_with("busy") { 900_000_000 } else { 9_000_000 };
            let run_ns = i64::try_from(rng.below(most)).unwrap();
            process(u32::try_from(nth).unwrap() + 2, &name, ran(run_ns, run_ns / 5))
        });
        let mut one = interval(step * minute, minute, rows.collect());
        // Ends without a record, and a pass of which more is known than fits.
        one.ledger.exited_ns = i64::try_from(rng.below(1_000_000)).unwrap();
        one.ledger.idle_ns +=
            i64::try_from(rng.below(3 * one.ledger.capacity_ns.unsigned_abs() / 4)).unwrap();
        add(&host[0], &one);
        ledger += u128::try_from(one.ledger.threads_ns + one.ledger.exited_ns).unwrap();
        ready += one
            .processes
            .iter()
            .map(|row| row.delta.run_delay_ns.unsigned_abs())
            .map(u128::from)
            .sum::<u128>();
        parts_sum += i128::from(one.ledger.capacity_ns);
        let now = samples(&text(&metrics, &host));
        for (by, family) in
            [("program", "cpumon_cpu_seconds_total"), ("user", "cpumon_user_cpu_seconds_total")]
        {
            let by = format!("by=\"{by}\"");
            let over = sum(&now, "cpumon_ended_series_seconds_total", &[&by, "of=\"cpu\""]);
            assert_eq!(sum(&now, family, &[]) + over, ledger, "{family} after {step}");
        }
        let over = sum(&now, "cpumon_ended_series_seconds_total", &["by=\"program\"", "of=\"ready\""]);
        assert_eq!(sum(&now, "cpumon_ready_seconds_total", &[]) + over, ready, "after {step}");
        let parts = sum(&now, "cpumon_host_seconds_total", &[]);
        let owed = sum(&now, "cpumon_overbooked_seconds", &["of=\"host\""]);
        assert_eq!(parts.cast_signed() - owed.cast_signed(), parts_sum, "after {step}");
        assert_eq!(sum(&now, "cpumon_host_capacity_seconds_total", &[]).cast_signed(), parts_sum);
        for (series, value) in now.iter().filter(|(series, _)| series.contains("_total")) {
            let before = known.insert(series.clone(), (*value, step));
            let is_new = before.is_none_or(|(_, at)| at + 1 < step);
            ended += usize::from(is_new && before.is_some());
            assert!(is_new || before.is_some_and(|(before, _)| before <= *value), "{series} fell to {value}");
            changes.insert(series.clone());
        }
        let names: HashSet<&str> =
            now.keys().filter_map(|series| series.strip_prefix("cpumon_ready_seconds_total")).collect();
        assert!(names.len() <= 26, "20 that grow, 5 that stand still, and (other)");
    }
    let programs = changes.iter().filter(|series| series.starts_with("cpumon_ready_seconds")).count();
    assert!(programs > 60, "of {programs} programs too few changed to test anything; {ended} came again");
}

#[test]
fn a_program_that_takes_over_gets_a_series_and_one_that_rests_for_an_hour_ends() {
    let metrics = Metrics::new(MetricsOptions::default());
    let host = [counted(&metrics, host_status(1, "web"))];
    let small = |pid: u32| process(pid, &format!("small-{pid}"), ran(1_000_000, 0));
    let series = |now: &Samples, name: &str| {
        now.get(&format!("cpumon_ready_seconds_total{{host=\"web\",program=\"{name}\"}}")).is_some()
    };
    for second in 1..=10 {
        add(&host[0], &interval(second, 1, (1..=20).map(small).collect()));
    }
    let rows = || (1..=20).map(small).chain([process(30, "runaway", ran(3_000_000_000, 0))]);
    add(&host[0], &interval(11, 1, rows().collect()));
    let now = samples(&text(&metrics, &host));
    assert!(series(&now, "runaway") && series(&now, "small-1"), "all 20 others still have what they had");
    assert_eq!(
        now["cpumon_cpu_seconds_total{host=\"web\",program=\"(other)\",mode=\"user\"}"],
        1_500_000_000 + 10_000_000
    );
    for hour in 1..=3 {
        add(&host[0], &interval(11 + hour * 1_800, 1_800, vec![process(30, "runaway", ran(7, 0))]));
        let now = samples(&text(&metrics, &host));
        assert_eq!(
            (series(&now, "runaway"), series(&now, "small-20")),
            (true, hour == 1),
            "after {hour} half hours"
        );
    }
    let now = samples(&text(&metrics, &host));
    let of = "cpumon_ended_series_seconds_total{host=\"web\",by=\"program\",of=\"cpu\"}";
    // Ten seconds of 20 of them: the first was in (other), as the time of the one that gave way in the last was not.
    assert_eq!(now[of], 20 * 9 * 1_000_000 + 20 * 1_000_000);
}

#[test]
fn hostile_names_are_labels_that_can_be_read() {
    let metrics = Metrics::new(MetricsOptions::default());
    let long = "é".repeat(200);
    let names = [
        "(other)",
        "a\"b\\c",
        "line\nfeed",
        "line\\nfeed",
        "\0",
        "\u{202e}txt.exe",
        "",
        &long,
        &format!("{long}2"),
        "{x=\"y\"} 1",
    ];
    let host = [counted(&metrics, host_status(1, "we\"b\n# TYPE"))];
    for second in 1..=3 {
        let rows = names.iter().zip(1..).map(|(name, pid)| process(pid, name, ran(1_000, 0)));
        add(&host[0], &interval(second, 1, rows.collect()));
    }
    let text = text(&metrics, &host);
    assert!(
        !text.contains(['\0', '\u{202e}', '\r'])
            && text.lines().all(|line| !line.contains("# TYPE\"") || line.starts_with("cpumon"))
    );
    let now = samples(&text);
    let user = |program: &str| {
        let series = format!(
            "cpumon_cpu_seconds_total{{host=\"we\\\"b\\\\n# TYPE\",program=\"{program}\",mode=\"user\"}}"
        );
        now.get(&series).copied()
    };
    assert_eq!(user("a\\\"b\\\\c"), Some(1_000), "two of three seconds: the first is in (other)");
    assert_eq!(user("line\\\\nfeed"), Some(2_000), "two names with one label count together");
    assert_eq!(user("\\\\x00"), Some(1_000));
    assert_eq!(user(&"é".repeat(32)), Some(2_000), "cut");
    assert_eq!(sum(&now, "cpumon_cpu_seconds_total", &[]), 30_000);
}

#[test]
fn of_hosts_with_one_name_the_most_trusted_has_it_for_a_label() {
    let metrics = Metrics::new(MetricsOptions::default());
    let stranger = HostStatus { trust: Trust::Unauthenticated, ..host_status(1, "db") };
    let id = |id: u8| HostId([id; 16]).to_string();
    let hosts =
        [stranger, host_status(2, "db"), host_status(3, ""), host_status(4, &format!("db#{}", id(1)))]
            .map(|status| counted(&metrics, status));
    for host in &hosts {
        add(host, &interval(1, 1, Vec::new()));
    }
    let now = samples(&text(&metrics, &hosts));
    let up = |label: &str| now.contains_key(&format!("cpumon_host_up{{host=\"{label}\"}}"));
    let doubled = format!("db#{}", id(1));
    assert!(up("db") && up(&id(3)) && up(&doubled), "{now:?}");
    let status = Status { now_wall_ns: 60_000_000_000, ..Status::default() };
    let of = |host: &str| metrics.write(&hosts, &status, MetricsFormat::OpenMetrics, Some(host));
    let one = of("db").unwrap();
    assert!(
        one.contains("cpumon_host_up{host=\"db\"} 0\n") && !one.contains("db#") && one.ends_with("# EOF\n")
    );
    assert!(one.contains("cpumon_series_limit 50000\n") && one.contains("# TYPE cpumon_host info\n"));
    assert_eq!(of("nowhere"), None);
}

#[test]
fn time_of_the_past_is_counted_once() {
    let metrics = Metrics::new(MetricsOptions::default());
    let host = [counted(&metrics, host_status(1, "web"))];
    let second = |at: u64| interval(at, 1, vec![process(1, "sh", ran(1_000, 0))]);
    // The device was away from 11 to 20, and after a cut it sends again what was not acknowledged.
    for at in [9, 10, 21, 22] {
        add(&host[0], &second(at));
    }
    for at in (5..=25).chain(5..=25) {
        host[0].1.lock().unwrap().add_past(&second(at));
    }
    let now = samples(&text(&metrics, &host));
    assert_eq!(sum(&now, "cpumon_cpu_seconds_total", &[]), 21 * 1_000);
}

#[test]
fn limits_and_run_delays_have_their_values() {
    let metrics = Metrics::new(MetricsOptions::default());
    let host = [counted(&metrics, host_status(1, "web"))];
    let group = |path: &str, bytes: u16| CgroupInterval {
        path: path.into(),
        limit: CpuLimit::Millionths(500_000),
        limiter_bytes: bytes,
        throttle: Some(Throttle { periods: 10, throttled_periods: 4, throttled_ns: 70_000_000 }),
        ..CgroupInterval::default()
    };
    let mut histogram = DelayHistogram::default();
    for (ns, count) in [(1_000, 5), (1_023, 1), (1_024, 2), (2_000_000, 3), (u64::MAX, 1)] {
        histogram.add(delay_bucket(ns), count);
    }
    let path = "/system.slice/db.service";
    let mut cpu = CpuInterval::default();
    cpu.sched.run_queue_ns = 1_500_000_000;
    for at in 1..=2 {
        let one = Interval {
            fields: Fields::COUNTERS | Fields::SCHED | Fields::HISTOGRAMS | Fields::CGROUPS,
            cgroups: vec![group(path, 24), group("/system.slice/db.service/worker", 24)],
            cpus: vec![cpu],
            delays: vec![Delays { of: DelayOf::Cpu(0), histogram: Arc::new(histogram.clone()) }],
            ..interval(at, 1, vec![process(1, "db", ran(5, 9))])
        };
        add(&host[0], &one);
    }
    let now = samples(&text(&metrics, &host));
    let of = |family: &str, container: &str| sum(&now, family, &[&format!("container=\"{container}\"")]);
    // The first interval is in (other): until then no one knows which groups are the largest.
    let both = ["db.service", "(other)"].map(|name| {
        ["cpumon_throttled_seconds_total", "cpumon_periods_total", "cpumon_throttled_periods_total"]
            .map(|family| of(family, name))
    });
    assert_eq!(both, [[70_000_000, 10, 4]; 2]);
    assert!(text(&metrics, &host).contains("cpumon_cpu_limit{host=\"web\",container=\"db.service\"} 0.5\n"));
    assert_eq!(now["cpumon_run_queue_seconds_total{host=\"web\"}"], 3_000_000_000);
    let bucket = |le: &str| now[&format!("cpumon_run_delay_seconds_bucket{{host=\"web\",le=\"{le}\"}}")];
    assert_eq!(
        ["0.000001024", "0.000004096", "0.001048576", "0.004194304", "17.179869184", "+Inf"].map(bucket),
        [12, 16, 16, 22, 22, 24]
    );
    assert_eq!(now["cpumon_run_delay_seconds_sum{host=\"web\"}"], 18);
}

#[test]
fn series_are_capped_and_the_text_says_so() {
    let max_series = 5_000;
    let metrics = Metrics::new(MetricsOptions { max_series, ..MetricsOptions::default() });
    let rows = |from: u32| {
        (from..from + 40)
            .map(|pid| process(pid, &format!("p{pid}"), ran(i64::from(pid), 0)))
            .collect::<Vec<_>>()
    };
    let mut hosts = Vec::new();
    // Strangers first, and more of them than fit.
    for nth in 0..200_u8 {
        let trust = if nth < 180 { Trust::Unauthenticated } else { Trust::Authenticated };
        hosts.push(counted(&metrics, HostStatus { trust, ..host_status(nth, &format!("host-{nth}")) }));
        for second in 1..=5 {
            add(&hosts[usize::from(nth)], &interval(second, 1, rows(1_000 * u32::from(nth) + 1)));
        }
        let lines = samples(&text(&metrics, &hosts)).len();
        assert!(lines <= metrics.budget.used() + 10 && metrics.budget.used() <= max_series, "{lines}");
    }
    let now = samples(&text(&metrics, &hosts));
    assert!(now.len() <= max_series, "{}", now.len());
    assert_eq!(now["cpumon_series_limit"], 5_000);
    let left_out = now["cpumon_hosts_left_out"];
    let shown = |from: u8, to: u8| {
        (from..to).filter(|nth| now.contains_key(&format!("cpumon_host_up{{host=\"host-{nth}\"}}"))).count()
    };
    assert!(left_out > 0 && shown(0, 180) + shown(180, 200) + usize::try_from(left_out).unwrap() == 200);
    assert_eq!(shown(180, 200), 20, "strangers leave the others a quarter of the series");
    // Of those that are shown all time is there.
    let first = sum(&now, "cpumon_cpu_seconds_total", &["host=\"host-0\""]);
    assert_eq!(first, 5 * (1..=40).sum::<u128>());
    let before = metrics.budget.used();
    drop(hosts);
    assert_eq!(
        (before > 4_000, metrics.budget.used()),
        (true, 0),
        "series of hosts that are gone are free again"
    );
}

#[test]
fn memory_is_bounded_for_a_thousand_hosts_with_hostile_names() {
    let metrics = Metrics::new(MetricsOptions::default());
    let status = host_status(1, "web");
    let storm = |at: u64| {
        let name = |pid: u32| format!("{at:08}-{pid:04}-{}", "x".repeat(150));
        interval(
            at,
            1,
            (1..=100).map(|pid| process(pid, &name(pid), ran(1_000 + i64::from(pid), 0))).collect(),
        )
    };
    let storms: Vec<Interval> = (1..=6).map(storm).collect();
    let (hosts, taken) = taken_by(|| {
        let mut hosts: Vec<HostMetrics> = (0..1_000).map(|_| metrics.host()).collect();
        for storm in &storms {
            for host in &mut hosts {
                host.add(&status, storm);
            }
        }
        hosts
    });
    let each = taken.left / hosts.len();
    assert!(each < 20 << 10, "{each} bytes a host");
    assert!(metrics.budget.used() <= MAX_SERIES);
}

#[test]
fn what_is_known_is_counted_without_an_allocation() {
    let metrics = Metrics::new(MetricsOptions::default());
    let status = host_status(1, "web");
    let mut host = metrics.host();
    let rows: Vec<_> = (1..=50).map(|pid| process(pid, &format!("p{pid}"), ran(i64::from(pid), 3))).collect();
    let intervals: Vec<Interval> = (1..=20).map(|at| interval(at, 1, rows.clone())).collect();
    let (first, rest) = intervals.split_at(10);
    for one in first {
        host.add(&status, one);
    }
    let ((), taken) = taken_by(|| rest.iter().for_each(|one| host.add(&status, one)));
    assert_eq!(taken.most, 0);
}

#[test]
fn the_receiver_says_what_it_lost() {
    let metrics = Metrics::new(MetricsOptions::default());
    let receiver = Receiver { kernel_dropped: 3, rejected: 4, ..Receiver::default() };
    let store = Store { size_bytes: 4_096, ..Store::default() };
    let status = Status { version: "1.2".into(), receiver, store, ..Status::default() };
    let text = metrics.write(&[], &status, MetricsFormat::Text, None).unwrap();
    let now = samples(&text);
    let of = ["cpumon_datagrams_dropped_total", "cpumon_datagrams_rejected_total", "cpumon_store_bytes"]
        .map(|name| now[name]);
    assert_eq!((of, now["cpumon_receiver_info{version=\"1.2\"}"]), ([3, 4, 4_096], 1));
}
