//! Tables of hosts: columns by width, hosts, and words.

use cpumon_model::{HostId, HostInfo, LossCounts, SourceKind, Trust};
use cpumon_query::status;

use super::*;

/// Its id is that byte sixteen times.
fn host(id: u8, name: &str) -> HostStatus {
    let info = HostInfo { host: HostId([id; 16]), hostname: name.into(), ..HostInfo::default() };
    HostStatus { info, ..HostStatus::default() }
}

/// Lines in which `$xx` is the id of the host with this byte.
fn lines_of(text: &str) -> Vec<u8> {
    let ids = ["aa", "bb", "cc", "ab", "cd", "ef"].into_iter();
    ids.fold(text.to_owned(), |text, id| text.replace(&format!("${id}"), &id.repeat(16))).into_bytes()
}

/// The lines as the list has them.
fn listed(lines: &[u8], sort: Option<HostOrder>) -> Listed {
    Listed { rows: rows_of(lines).collect(), sort, has_order: true }
}

#[test]
fn datagrams_over_the_limit_of_a_source_are_shown_with_its_hosts_and_below_them() {
    let host = |name: &str, address: &str| HostStatus { address: address.into(), ..host(0, name) };
    let rejects = |source: &str, count, kinds: &[(&str, u64)]| status::Rejects {
        source: source.into(),
        count,
        by_kind: kinds.iter().map(|(kind, count)| ((*kind).to_owned(), *count)).collect(),
        ..status::Rejects::default()
    };
    let status = status::Status {
        hosts: vec![
            host("loud", "10.0.0.1:4000"),
            host("mute", "[fe80::1]:4000"),
            host("mapped", "[::ffff:10.0.0.1]:9"),
            host("unknown", ""),
        ],
        receiver: status::Receiver {
            rejected_by: vec![
                rejects("10.0.0.1", 12, &[("malformed", 2), ("rate_limit", 10)]),
                rejects("fe80::1", 1, &[("malformed", 1)]),
                rejects("10.0.0.66\u{1b}[2J", 700, &[("rate_limit", 700)]),
                rejects("others", 9, &[]),
            ],
            ..status::Receiver::default()
        },
        ..status::Status::default()
    };
    let mut text = Vec::new();
    write_hosts(&status, None, usize::MAX, &mut text).unwrap();
    write_no_hosts(&status, &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let lines: Vec<&str> = text.lines().skip(1).map(str::trim_end).collect();
    for (line, end) in lines.iter().zip([
        "10 datagrams over its source's limit",
        "none",
        "10 datagrams over its source's limit",
        "none",
        "10.0.0.66\\x1b[2J: 700 datagrams refused (700 rate_limit)",
        "no host    others: 9 datagrams refused",
    ]) {
        assert!(line.ends_with(end), "{line} does not end with {end}");
    }
    assert_eq!(lines.len(), 6, "{text}");
}

#[test]
fn a_host_is_shown_with_its_share_of_all_cpus_and_its_busiest_process() {
    let lines = "{\"id\":\"$aa\",\"busy_ratio\":0.123,\"top_name\":\"x\\u001b[2J\",\"top_cpu_pct\":99.96}\n\
                 {\"id\":\"$bb\",\"busy_ratio\":null,\"top_name\":null,\"top_cpu_pct\":null}\n\
                 {\"id\":\"$cc\"}\n\
                 {\"id\":\"dd\",\"hostname\":\"gone\\u001b\",\"trust\":\"local\",\"state\":\"stored\",\"received_ns\":1750000000000000000}\n";
    let hosts = vec![host(0xaa, ""), host(0xbb, ""), host(0xcc, "")];
    let status = status::Status { hosts, ..status::Status::default() };
    let mut text = Vec::new();
    write_hosts(&status, Some(&listed(&lines_of(lines), None)), usize::MAX, &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].contains("BUSY") && lines[0].contains("BUSIEST"), "{text}");
    assert!(lines[1].contains("x\\x1b[2J 100.0 %  12.3 %"), "{text}");
    let cells: Vec<&str> = lines[2].split_whitespace().collect();
    assert_eq!(&cells[..3], ["(no", "name)", &"bb".repeat(16)], "{text}");
    assert_eq!(&cells[5..8], ["-", "-", "0"], "{text}");
    // It was in the receiver's store only, so this table did not have it.
    assert!(lines[4].starts_with("gone\\x1b") && lines[4].contains("until 2025-06-15 "), "{text}");
}

/// They were turned, one column a host and eleven lines each.
#[test]
fn hosts_are_lines_at_any_width_and_the_less_important_columns_are_left_out() {
    let day_ns = 86_400_000_000_000;
    let host = |name: &str, id: u8, source: SourceKind, address: &str| HostStatus {
        trust: Trust::Authenticated,
        source,
        address: address.into(),
        thread_count: 1234,
        received_wall_ns: 2_000 * day_ns,
        ..host(id, name)
    };
    let status = status::Status {
        now_wall_ns: 2_000 * day_ns + 1_000_000_000,
        hosts: vec![
            host("board5", 0xab, SourceKind::Bpf, "192.168.100.217:40312"),
            host(
                "=cmd()'; DROP TABLE hosts;--",
                0xcd,
                SourceKind::Procfs,
                "[fe80::1ff:fe23:4567:890a]:40312",
            ),
        ],
        ..status::Status::default()
    };
    let lines = "{\"id\":\"$ab\",\"busy_ratio\":0.123,\"top_name\":\"cc1plus\",\"top_cpu_pct\":99.9}\n\
                 {\"id\":\"$cd\",\"busy_ratio\":0.123,\"top_name\":\"a long name of a program\",\"top_cpu_pct\":99.9}\n\
                 {\"id\":\"$ef\",\"hostname\":\"old-board\",\"trust\":\"unauthenticated\",\"state\":\"stored\",\"received_ns\":171936000000000000}\n";
    let listed = Listed { has_order: false, ..listed(&lines_of(lines), None) };
    let written = |columns| {
        let mut text = Vec::new();
        write_hosts(&status, Some(&listed), columns, &mut text).unwrap();
        String::from_utf8(text).unwrap()
    };
    for columns in [40, 60, 80, 100, 120, 140, 200, usize::MAX] {
        let text = written(columns);
        assert_eq!(text.lines().count(), 4, "{columns}: {text}");
        assert!(text.lines().all(|line| line.chars().count() <= columns), "{columns}: {text}");
        for part in ["HOST", "BUSY", "SEEN", "LOSS", "12.3 %", "1 s ago"] {
            assert!(text.contains(part), "{columns}: {text}");
        }
    }
    let narrow = written(80);
    assert!(narrow.contains("10 d") && narrow.contains("TRUST") && !narrow.contains("ID"), "{narrow}");
    assert!(written(usize::MAX).contains("until 1975-06-14"), "{}", written(usize::MAX));
}

/// These were tables of forty columns, turned, with ids and nanoseconds.
#[test]
fn a_sorted_list_and_the_busiest_processes_are_tables_for_people() {
    let lines = "{\"id\":\"$bb\",\"busy_ratio\":0.9}\n{\"id\":\"$cc\",\"state\":\"stored\",\"hostname\":\"gone\"}\n{\"id\":\"$aa\"}\n";
    let hosts = vec![host(0xaa, "host-aa"), host(0xbb, "host-bb"), host(0, "other")];
    let status = status::Status { hosts, ..status::Status::default() };
    let mut text = Vec::new();
    write_hosts(&status, Some(&listed(&lines_of(lines), None)), 80, &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let first: Vec<&str> = text.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(first, ["HOST", "host-bb", "gone", "host-aa"], "{text}");

    let lines = b"{\"hostname\":\"a\\u001b\",\"key\":\"7-99\",\"name\":\"=cmd()\",\"container\":\"\",\"cpu_pct\":54.96,\"host_pct\":null}\n";
    let mut text = Vec::new();
    write_busiest(lines, None, 80, &mut text).unwrap();
    let expected = "HOST   PROCESS  PID  %CPU\na\\x1b  =cmd()     7  55.0\n";
    assert_eq!(String::from_utf8(text).unwrap(), expected);
}

/// A host showed no LOSS exactly where the losses were large.
#[test]
fn losses_are_shown_at_every_width_whatever_the_order() {
    let loss = LossCounts {
        snapshots_lost: 12,
        snapshots_partial: 3,
        rejected: 40,
        store_dropped: 14,
        ..LossCounts::default()
    };
    let clock = cpumon_model::HostClock {
        offset_ns: -2_000_000,
        round_trip_ns: 400_000,
        drift_ppb: Some(-1_500),
        steps: 0,
    };
    let host = HostStatus {
        trust: Trust::Authenticated,
        source: SourceKind::Procfs,
        address: "[fe80::1ff:fe23:4567:890a]:40312".into(),
        thread_count: 1234,
        clock: Some(clock),
        loss,
        ..host(0xab, "a-long-name-of-a-board")
    };
    let status = status::Status { hosts: vec![host], ..status::Status::default() };
    let row = r#"{"id":"ID","busy_ratio":0.5,"minute_busy_ratio":0.111,"minute_peak_ratio":0.222,"minute_ready":3.333,"minute_run_queue_per_cpu":4.444,"health":"silent, loss","unattributed_ratio":-0.0555,"agent":"cpumon-agent 1.2.3","top_name":"cc","top_cpu_pct":6.6}"#;
    let row = row.replace("ID", &"ab".repeat(16));
    let orders = [
        (None, "BUSY", "50.0 %"),
        (Some(HostOrder::Busy), "1 MIN", "11.1 %"),
        (Some(HostOrder::Peak), "PEAK", "22.2 %"),
        (Some(HostOrder::Ready), "READY", "3.33"),
        (Some(HostOrder::RunQueue), "RQ/CPU", "4.44"),
        (Some(HostOrder::Health), "HEALTH", "silent, "),
        (Some(HostOrder::Ledger), "UNATTR", "-5.55 %"),
        (Some(HostOrder::Agent), "AGENT", "cpumon-"),
        (Some(HostOrder::Top), "BUSIEST", "cc 6.6 %"),
        (Some(HostOrder::Threads), "THREADS", "1234"),
        (Some(HostOrder::ClockOffset), "CLOCK", "-0.002 s"),
        (Some(HostOrder::LastSeen), "SEEN", "0 s ago"),
        (Some(HostOrder::Name), "HOST", "a-long-"),
        (Some(HostOrder::Loss), "LOSS", "69"),
    ];
    for columns in 40..=200 {
        for (sort, title, cell) in orders {
            let mut text = Vec::new();
            write_hosts(&status, Some(&listed(row.as_bytes(), sort)), columns, &mut text).unwrap();
            let text = String::from_utf8(text).unwrap();
            let is_in = |title: &str| text.lines().next().unwrap().contains(title);
            assert!(is_in("LOSS") && is_in("SEEN") && is_in(title), "{columns} {sort:?}: {text}");
            let has_loss =
                text.contains("  69\n") || text.contains("12 lost, 3 partial, 40 rejected, 14 not stored");
            assert!(has_loss && (title == "LOSS" || text.contains(cell)), "{columns} {sort:?}: {text}");
            let is_fitting = text.lines().all(|line| line.chars().count() <= columns);
            assert!(is_fitting, "{columns} {sort:?}: {text}");
        }
        let mut text = Vec::new();
        write_hosts(&status, None, columns, &mut text).unwrap();
        assert!(String::from_utf8(text).unwrap().contains("LOSS"), "{columns}: status");
    }
}

/// It was `no host matches`, of no words, and the senders that are no hosts were left out.
#[test]
fn a_receiver_without_hosts_says_so_without_words_of_a_search() {
    let rejects = status::Rejects {
        source: "10.0.0.66".into(),
        count: 7,
        by_kind: BTreeMap::new(),
        ..status::Rejects::default()
    };
    let receiver = status::Receiver { rejected_by: vec![rejects], ..status::Receiver::default() };
    let status = status::Status { receiver, ..status::Status::default() };
    let written = |search: Option<&str>| {
        let mut text = Vec::new();
        let listed = listed(b"", Some(HostOrder::Busy));
        write_listed(&status, &listed, search, 80, &mut text).unwrap();
        String::from_utf8(text).unwrap()
    };
    let text = written(None);
    let expected = "no host has reported yet\nno host    10.0.0.66: 7 datagrams refused\n";
    assert_eq!(text, expected);
    assert_eq!(written(Some("a\u{1b}")), "no host matches a\\x1b\n");
    let busiest = |search: Option<&str>| {
        let mut text = Vec::new();
        write_busiest(b"", search, 80, &mut text).unwrap();
        String::from_utf8(text).unwrap()
    };
    assert_eq!(busiest(None), "no process ran on a host that reports\n");
    assert_eq!(busiest(Some("x")), "no process ran on a host that reports and matches x\n");
}

#[test]
fn offsets_of_clocks_read_well() {
    let shown = [-1_500_000_000, 3_599_000_000_000, -12_000_000_000_000, -720_000_000_000_000_000, i64::MIN]
        .map(show_offset);
    assert_eq!(shown, ["-1.500 s", "+3599.000 s", "-3 h 20 min", "-8333 d 8 h", "-106751 d 23 h"]);
    let clock = cpumon_model::HostClock {
        round_trip_ns: 400_000,
        drift_ppb: Some(-1_500),
        ..cpumon_model::HostClock::default()
    };
    let host = |offset_ns: i64, clock: Option<cpumon_model::HostClock>| HostStatus {
        // Without exchanges it is estimated from arrivals.
        received_wall_ns: -offset_ns,
        clock: clock.map(|clock| cpumon_model::HostClock { offset_ns, ..clock }),
        ..HostStatus::default()
    };
    let shown = [
        host(-480_000, None),
        host(-1_500_000, None),
        host(0, Some(cpumon_model::HostClock { drift_ppb: None, ..clock })),
        host(-2_000_000, Some(clock)),
        host(300_000, Some(cpumon_model::HostClock { round_trip_ns: 40_000_000, ..clock })),
    ]
    .map(|host| show_clock(&host)[0].clone());
    assert_eq!(
        shown,
        [
            "~< 1 ms",
            "~-0.002 s",
            "< 1 ms ±0.2 ms",
            "-0.002 s ±0.2 ms, 1.5 ppm slow",
            "+0.000 s ±20.0 ms, 1.5 ppm slow"
        ]
    );
}
