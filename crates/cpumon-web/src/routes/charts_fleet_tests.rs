//! Charts of the fleet over HTTP: a line for each host; order and selection of hosts.

use cpumon_export::chart::PictureForm;
use cpumon_model::{HostInfo, Interval, Ledger, Trust};
use cpumon_query::charts::{ChartQuery, Order, View};
use cpumon_store::{Reader, StoreOptions, Writer};

use super::charts_tests::{all, at, drawn, get, host_named};
use super::past_store::{BEGIN_NS, SECOND_NS, Stored};
use super::tests::ask_raw;
use super::*;

/// `/fleet/chart` or its command line.
fn of_fleet(rest: &str, more: &str) -> String {
    let until = BEGIN_NS + 300 * SECOND_NS;
    format!("/api/v1/fleet/chart{rest}?since={BEGIN_NS}&until={until}&{more}")
}

/// The host of the test store, and others with as many busy percent as their id; `silent` only before the range.
fn a_fleet(hosts: &[(&str, u8)]) -> Stored {
    let stored = Stored::new(false);
    let mut writer = Writer::open(&stored.path(), &StoreOptions::default()).unwrap();
    let mut put = |info: &HostInfo, second: i64, busy: i64| {
        let (threads_ns, idle_ns) = (busy * SECOND_NS / 100, SECOND_NS - busy * SECOND_NS / 100);
        let times = cpumon_model::CpuTimes {
            user_ns: threads_ns.unsigned_abs(),
            idle_ns: idle_ns.unsigned_abs(),
            ..cpumon_model::CpuTimes::default()
        };
        let interval = Interval {
            host: info.host,
            sequence: (second + 1000).unsigned_abs(),
            fields: cpumon_model::Fields::RUN | cpumon_model::Fields::CPUS,
            begin: at(second - 1),
            end: at(second),
            cpus: vec![cpumon_model::CpuInterval { times, ..cpumon_model::CpuInterval::default() }],
            ledger: Ledger { capacity_ns: SECOND_NS, threads_ns, idle_ns, ..Ledger::default() },
            ..Interval::default()
        };
        writer.put(info, Trust::Unauthenticated, None, &interval).unwrap();
    };
    for (name, id) in hosts {
        let info = host_named(name, *id);
        for second in 1..=300 {
            // One second of each is busier than the others.
            put(&info, second, i64::from(*id) + if second == 200 { 20 } else { 0 });
        }
    }
    put(&host_named("silent", 99), -900, 10);
    writer.commit().unwrap();
    stored
}

/// Which of these stand in a picture, in the order in which they do.
fn order_of<'n>(picture: &str, names: &[&'n str]) -> Vec<&'n str> {
    let at = |name: &str| picture.find(&format!(">{name}</text>"));
    let mut found: Vec<(usize, &str)> =
        names.iter().filter_map(|name| at(name).map(|at| (at, *name))).collect();
    found.sort_unstable();
    found.into_iter().map(|(_, name)| name).collect()
}

#[tokio::test]
async fn a_fleet_is_a_line_a_host_in_the_order_asked_for() {
    let stored = a_fleet(&[("Beta", 30), ("alpha", 70), ("<b>gamma", 5), ("alpha", 71)]);
    let fleet = |more: &'static str| {
        let router = stored.router();
        async move {
            let (status, _, body) = get(router, &of_fleet("", more)).await;
            assert_eq!(status, 200, "{more}: {body}");
            body
        }
    };
    let names = ["&lt;b&gt;gamma", "alpha [46464646]", "alpha [47474747]", "Beta", "past", "silent"];
    let by_name = fleet("").await;
    assert_eq!(order_of(&by_name, &names), names[..5], "{by_name}");
    for expected in
        [">CPU use of 5 hosts<", ">No data of this range: silent.<", ">30.1<", ">50.0<", ">no data<"]
    {
        assert!(by_name.contains(expected), "{expected}: {by_name}");
    }
    let busy = fleet("sort=busy").await;
    assert_eq!(order_of(&busy, &names), [names[2], names[1], names[4], names[3], names[0]], "{busy}");
    let idle = fleet("sort=busy&reverse=true&rows=2").await;
    assert_eq!(order_of(&idle, &names), [names[0], names[3]], "{idle}");
    assert!(idle.contains(">Hosts 1 to 2 of 5, by mean CPU use: 3 are not shown.<"), "{idle}");
    let last = fleet("reverse=true&rows=3&offset=3").await;
    assert_eq!(order_of(&last, &names), [names[2], names[0]], "{last}");
    assert!(last.contains(">Hosts 4 to 5 of 5, by name: 3 are not shown.<"), "{last}");
    // In the order of the names given, one host twice, and one without data.
    let named = fleet("host=past,silent,Beta,past").await;
    assert_eq!(order_of(&named, &names), ["past", "silent", "Beta"], "{named}");
    let one = fleet("host=Beta").await;
    assert!(one.contains(">Beta: CPU use of the host<"), "{one}");
    let (_, _, same) = get(stored.router(), &all("fleet", "").replace("past", "Beta")).await;
    assert_eq!(one, same);
    let none = fleet("host=silent").await;
    assert!(none.contains(">No data in this range</text>"), "{none}");
    for (more, status, expected) in [
        ("offset=5", 400, "there are 5 hosts"),
        ("rows=201", 400, "200"),
        ("sort=threads", 400, "busy"),
        ("host=unknown", 404, "no such host"),
        ("host=alpha", 409, "Use an id."),
    ] {
        let (answered, _, body) = get(stored.router(), &of_fleet("", more)).await;
        assert!(answered == status && body.contains(expected), "{more}: {answered} {body}");
    }
    let long = format!("/api/v1/fleet/chart?since=1&until={BEGIN_NS}&resolution=interval");
    let (status, _, body) = get(stored.router(), &long).await;
    assert!(status == 400 && body.contains("48 hours"), "{body}");
}

#[tokio::test]
async fn a_fleet_is_served_as_the_command_line_writes_it() {
    let stored = a_fleet(&[("'; rm -rf ~", 12), ("=cmd()", 13)]);
    for (form, compacted) in [(PictureForm::Svg, false), (PictureForm::Png, true)] {
        if compacted {
            let mut writer = Writer::open(&stored.path(), &StoreOptions::default()).unwrap();
            for host in Reader::open(&stored.path()).unwrap().hosts().unwrap() {
                writer.compact_host(host.info.host).unwrap();
            }
        }
        // Points of a minute: sums, where they are made.
        let since = BEGIN_NS - 5 * 3600 * SECOND_NS;
        let until = BEGIN_NS + 300 * SECOND_NS;
        let more =
            format!("since={since}&until={until}&sort=busy&host='%3B%20rm%20-rf%20~,%3Dcmd(),past&rows=2");
        let path = format!("/api/v1/fleet/chart?{more}&format={}", form.name());
        let (status, headers, body) = ask_raw(stored.router(), &path, "localhost").await;
        assert_eq!(status, 200, "{}", String::from_utf8_lossy(&body));
        let name = format!("attachment; filename=\"cpumon-fleet.{}\"", form.name());
        assert_eq!(headers[header::CONTENT_DISPOSITION], name.as_str());
        let query = ChartQuery {
            hosts: vec!["'; rm -rf ~".into(), "=cmd()".into(), "past".into()],
            since_ns: Some(since),
            until_ns: Some(until),
            order: Some(Order::Busy),
            rows: Some(2),
            ..ChartQuery::new(View::Fleet)
        };
        let written = drawn(&stored.path(), &query, form);
        assert_eq!(written, (body.to_vec(), None), "{path}");
        let (_, _, body) =
            get(stored.router(), &format!("/api/v1/fleet/chart/command?{more}&offset=1")).await;
        let body: serde_json::Value = serde_json::from_str(&body).unwrap();
        let command = body["command"].as_str().unwrap();
        assert!(
            command.contains(r"'--host='\''; rm -rf ~' '--host==cmd()' --host=past --since="),
            "{command}"
        );
        assert!(command.ends_with("--sort=busy --offset=1 --rows=2 --output=cpumon-fleet.svg"), "{command}");
    }
}

#[tokio::test]
async fn the_heatmap_of_the_fleet_has_a_row_a_host() {
    let stored = a_fleet(&[("Beta", 30)]);
    let chart = async |more: &str| -> serde_json::Value {
        let path = of_fleet("", more).replace("/chart", "/heatmap");
        serde_json::from_str(&get(stored.router(), &path).await.2).unwrap()
    };
    let found = chart("search=bet&cells=highest").await;
    let row = &found["body"]["rows"][0];
    assert_eq!((&row["name"], &row["key"]), (&"Beta".into(), &"1e".repeat(16).into()));
    assert_eq!((row["max"].as_f64(), &found["body"]["cells"]), (Some(50.0), &"highest".into()), "{row}");
    assert!((row["mean"].as_f64().unwrap() - 30.0).abs() < 0.1, "{row}");
    let most = chart("sort=peak&rows=1").await;
    assert_eq!((&most["notes"][0], &most["empty"]), (&"2 more hosts: search for them.".into(), &().into()));
}
