//! Exports and comparisons over HTTP: the same file that the command writes, and the command line that writes it.

use std::time::Duration;

use axum::body::BodyDataStream;
use cpumon_export::ExportQuery;
use cpumon_model::{HostId, HostInfo, Interval, Trust};
use cpumon_store::{Reader, StoreOptions, Writer};
use futures_util::StreamExt;
use serde_json::Value;

use super::export::stream;
use super::past_store::{BEGIN_NS, SECOND_NS, Stored, interval};
use super::tests::{Fake, ask_raw};
use super::*;

#[tokio::test]
async fn an_export_is_the_file_that_the_command_writes() {
    let stored = Stored::new(true);
    for (kind, query, format) in [
        ("threads", "", ExportQuery { kind: cpumon_export::Kind::Threads, ..ExportQuery::default() }),
        (
            "pivot",
            "&value=run&by=process&host=past",
            ExportQuery {
                kind: cpumon_export::Kind::Pivot,
                host: Some("past".into()),
                group_by: cpumon_query::GroupBy::Process,
                pivot_value: cpumon_export::PivotValue::Run,
                ..ExportQuery::default()
            },
        ),
        (
            "ledger",
            "&format=jsonl",
            ExportQuery {
                kind: cpumon_export::Kind::Ledger,
                format: cpumon_export::Format::Jsonl,
                ..ExportQuery::default()
            },
        ),
    ] {
        let path = format!("/api/v1/export/{kind}?interval_ns=60000000000{query}");
        let (status, headers, body) = ask_raw(stored.router(), &path, "localhost").await;
        let mut wanted = Vec::new();
        let format = ExportQuery { interval_ns: Some(60_000_000_000), ..format };
        cpumon_export::export(&Reader::open(&stored.path()).unwrap(), &format, &mut wanted, &mut |_| {})
            .unwrap();
        assert_eq!((status, String::from_utf8_lossy(&body)), (200, String::from_utf8_lossy(&wanted)));
        assert!(headers[header::CONTENT_DISPOSITION].to_str().unwrap().contains(&format!("cpumon-{kind}.")));
    }
    for (wrong, expected) in [
        ("windows", 400),
        ("compare", 400),
        ("compare?before=1..2", 400),
        ("compare?before=2..1&after=3..4", 400),
        ("compare?before=1&after=3..4", 400),
        ("compare?before=1..2&after=3..4&since=0", 400),
        ("threads?before=1..2", 400),
        ("threads?value=x", 400),
        ("threads?value=run", 400),
        ("processes?by=user", 400),
        ("processes?active=true", 400),
        ("compare?before=1..2&after=2..3&interval_ns=1000000000", 400),
        ("ledger?process=x", 400),
        ("pivot?legacy=2013&by=user", 400),
        ("threads?host=unknown", 404),
        ("threads?host=", 404),
        ("ledger?legacy=2013", 400),
        ("compare?before=1..2&after=3..4&legacy=2013", 400),
        ("threads?since=2&until=1", 400),
    ] {
        let (kind, query) = wrong.split_once('?').unwrap_or((wrong, ""));
        let (status, refusal) = stored.get(&format!("/api/v1/export/{wrong}")).await;
        assert_eq!(status, expected, "{wrong}");
        let command = stored.get(&format!("/api/v1/export/{kind}/command?{query}")).await;
        assert_eq!(command, (status, refusal), "{wrong}");
    }
    let nothing_kept =
        router(Arc::new(Fake::default()), "127.0.0.1:1".parse().unwrap(), WebOptions::default());
    assert_eq!(ask_raw(nothing_kept, "/api/v1/export/threads", "localhost").await.0, 404);
}

#[tokio::test]
async fn a_name_of_several_hosts_of_the_past_is_refused() {
    let stored = Stored::new(false);
    let mut writer = Writer::open(&stored.path(), &StoreOptions::default()).unwrap();
    let info = HostInfo { host: HostId([9; 16]), hostname: "past".into(), ..HostInfo::default() };
    let again = Interval { host: info.host, ..interval(5) };
    writer.put(&info, Trust::Unauthenticated, None, &again).unwrap();
    writer.commit().unwrap();
    for path in ["pivot?legacy=2012", "pivot/command?legacy=2012"] {
        let (status, body) = stored.get(&format!("/api/v1/export/{path}")).await;
        assert!(status == 400 && body["detail"].as_str().unwrap().contains("--host"), "{path}: {body}");
    }
    for path in [
        "hosts/past/series",
        "hosts/past/at",
        "hosts/past/charts/cpu",
        "export/ledger?host=past",
        "export/ledger/command?host=past",
    ] {
        let (status, body) = stored.get(&format!("/api/v1/{path}")).await;
        assert_eq!((status, &body["how"]), (409, &"Use an id.".into()), "{path}: {body}");
        assert!(body["detail"].as_str().unwrap().contains("09090909"), "{body}");
    }
}

#[tokio::test]
async fn the_command_line_is_safe_to_paste() {
    let stored = Stored::new(false);
    let mut writer = Writer::open(&stored.path(), &StoreOptions::default()).unwrap();
    let hostname = "it's; $(reboot)".into();
    let info = HostInfo { host: HostId([9; 16]), hostname, ..HostInfo::default() };
    let begun = Interval { host: info.host, ..interval(5) };
    writer.put(&info, Trust::Unauthenticated, None, &begun).unwrap();
    writer.commit().unwrap();
    let query = "host=it%27s%3B%20%24(reboot)&since=1800000000000000001&process=-x&format=csv";
    let (_, body) = stored.get(&format!("/api/v1/export/threads/command?{query}")).await;
    let command = body["command"].as_str().unwrap();
    assert!(
        command.ends_with(
            r"'--host=it'\''s; $(reboot)' --since=2027-01-15T08:00:00.000000001Z --process=-x --format=csv"
        ),
        "{command}"
    );
    // Control U would take back the line that is being pasted, and the rest would run.
    let (_, body) = stored.get("/api/v1/export/threads/command?process=a%15%27%5Cb%0Areboot%C2%9B").await;
    let command = body["command"].as_str().unwrap();
    let word = command.split_once(".db ").unwrap().1;
    assert_eq!(word, r#""$(printf %b '--process=a\0025'\''\\b\0012reboot\0302\0233')""#);
    let printed =
        std::process::Command::new("sh").args(["-c", &format!("printf %s {word}")]).output().unwrap();
    assert_eq!(String::from_utf8(printed.stdout).unwrap(), "--process=a\u{15}'\\b\nreboot\u{9b}");
}

#[tokio::test]
async fn the_page_compares_as_the_file_does() {
    let stored = Stored::new(true);
    let minute =
        |nth: i64| format!("{}..{}", BEGIN_NS + nth * 60 * SECOND_NS, BEGIN_NS + (nth + 1) * 60 * SECOND_NS);
    let spans = format!("before={}&after={}", minute(0), minute(4));
    let (status, body) = stored.get(&format!("/api/v1/hosts/past/compare?{spans}&by=process")).await;
    assert_eq!((status, &body["before_covered_ns"]), (200, &(60 * SECOND_NS).into()), "{body}");
    let columns = &body["rows"]["columns"];
    assert_eq!(
        (&columns["name"][0], &columns["pid"][0]),
        (&"a,b".into(), &10.into()),
        "only it grew: {body}"
    );
    let file = format!("/api/v1/export/compare?{spans}&by=process&host=past&format=jsonl");
    let (_, headers, file) = ask_raw(stored.router(), &file, "localhost").await;
    assert!(headers[header::CONTENT_DISPOSITION].to_str().unwrap().contains("cpumon-compare.jsonl"));
    let lines: Vec<Value> = file
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 3);
    for (at, line) in lines.iter().enumerate() {
        for name in ["name", "pid", "before_run_ns", "after_run_ns"] {
            assert_eq!(line[name], columns[name][at], "{name} of row {at}");
        }
    }
    let (_, page) = stored.get(&format!("/api/v1/hosts/past/compare?{spans}&limit=1&offset=2")).await;
    assert_eq!((&page["rows"]["rows"], &page["rows"]["total"]), (&0.into(), &2.into()), "two names");
    for wrong in ["", "before=1..2", "before=1..2&after=2..x", "before=1..2&after=2..3&by=colour"] {
        assert_eq!(stored.get(&format!("/api/v1/hosts/past/compare?{wrong}")).await.0, 400, "{wrong}");
    }
}

#[tokio::test]
async fn spans_in_memory_are_compared_too() {
    let fake = Fake::with_host("now");
    for second in 1..=20_u64 {
        let interval = Arc::new(interval(second.cast_signed()));
        fake.put(cpumon_query::Shown { serial: second, number: second, interval });
    }
    let router = router(Arc::new(fake), "127.0.0.1:1".parse().unwrap(), WebOptions::default());
    let at = |second: i64| BEGIN_NS + second * SECOND_NS;
    let path = format!("/api/v1/hosts/now/compare?before={}..{}&after={}..{}", at(0), at(10), at(10), at(20));
    let (status, _, body) = ask_raw(router, &path, "localhost").await;
    let body: Value = serde_json::from_slice(&body).unwrap();
    let columns = &body["rows"]["columns"];
    assert_eq!(
        (status, &columns["name"][0], &columns["after_run_ns"][0]),
        (200, &"a,b".into(), &1155.into()),
        "{body}"
    );
}

/// A file without end, as fast as its reader takes it.
async fn endless(app: &Arc<crate::app::App>) -> Result<BodyDataStream, crate::problem::Problem> {
    let zeros = vec![0; 64 << 10];
    let body = stream(app, None, move |out| {
        loop {
            out.write_all(&zeros)?;
        }
    });
    Ok(body.await?.into_data_stream())
}

#[tokio::test]
async fn two_readers_that_take_nothing_leave_a_third_its_turn() {
    let mut app = crate::app::App::new(fake(), WebOptions::default());
    app.exports = crate::readers::Exports::new(Duration::ZERO);
    let app = Arc::new(app);
    let mut slow = [endless(&app).await.unwrap(), endless(&app).await.unwrap()];
    let third = async {
        loop {
            // Until a thread waits for its reader.
            match endless(&app).await {
                Ok(third) => return third,
                Err(_) => tokio::task::yield_now().await,
            }
        }
    };
    let mut third = tokio::time::timeout(Duration::from_mins(2), third).await.unwrap();
    assert_eq!(third.next().await.unwrap().unwrap().len(), 64 << 10);
    let mut lost = 0;
    for slow in &mut slow {
        // The pieces that were waiting come, and then no end as of a whole file.
        let mut all = slow.take(20);
        while let Some(piece) = all.next().await {
            lost += usize::from(piece.is_err());
        }
    }
    assert_eq!(lost, 1);
}
