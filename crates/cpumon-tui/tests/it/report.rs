//! The report of a range: how it is asked for, drawn and used.

use cpumon_query::report::{Report, ReportBy, ReportQuery, ReportSort};
use cpumon_tui::{App, FeedError, Request};
use serde_json::{Value, json};

use crate::synthetic::{EPOCH_NS, Kind};
use crate::{app_of, picture, press};

const SECOND: i64 = 1_000_000_000;

/// A report of five minutes, as a receiver answers; its first rows are groups of these names.
fn made_up(query: &ReportQuery, first: &str) -> Report {
    let names = [
        (first, "group"),
        ("a very long name of a program that no column has space for", "group"),
        ("evil\u{1b}[2J", "group"),
        ("x", "group"),
        ("2 others", "rest"),
        ("(not attributed)", "not attributed"),
    ];
    let row = |(at, (name, kind)): (usize, (&str, &str))| {
        let cpus = 5 - i64::try_from(at).unwrap();
        let peak = json!({"ns_per_s": cpus * SECOND, "end_ns": (EPOCH_NS + 51 * SECOND).to_string(), "is_exact": true});
        json!({
            "host": "build-7", "kind": kind, "name": name, "run_ns": cpus * SECOND, "cpu_pct": cpus, "share_pct": cpus,
            "peak": if at == 0 { peak } else { Value::Null }, "waits": [], "last_ns": (EPOCH_NS + 300 * SECOND).to_string(),
            "points": (1..=8).map(|height| Value::from(height * cpus)).collect::<Vec<_>>(),
        })
    };
    let range = json!({"since_ns": EPOCH_NS.to_string(), "until_ns": (EPOCH_NS + 300 * SECOND).to_string()});
    let times = json!({"resolution": "interval", "begin_ns": EPOCH_NS.to_string(), "width_ns": SECOND, "covered_ns": vec![1; 8]});
    let host = json!({
        "host": "07070707070707070707070707070707", "name": "build-7", "range": range, "resolution": "interval",
        "covered_ns": 300 * SECOND, "used_ns": 15 * SECOND, "times": times, "used": [],
    });
    let rows: Vec<Value> = names.into_iter().enumerate().map(row).collect();
    let text = json!({"range": range, "before": null, "hosts": [host], "total": 6, "used_ns": 15 * SECOND, "rows": rows});
    Report { query: query.clone(), ..serde_json::from_value(text).unwrap() }
}

fn shown() -> (App, ReportQuery) {
    let mut app = app_of(Kind::Normal);
    let Some(Request::Report(request)) = press(&mut app, "R<Enter>") else { panic!("no report") };
    app.on_report(Ok(made_up(&request, "rustc")));
    (app, request)
}

#[test]
fn pictures() {
    for (width, height) in [(40, 12), (80, 24), (140, 40)] {
        let (mut app, _) = shown();
        press(&mut app, "<Down>");
        insta::assert_snapshot!(format!("report_{width}x{height}"), picture(&mut app, width, height));
        let mut app = app_of(Kind::Normal);
        press(&mut app, "u<Down>");
        insta::assert_snapshot!(format!("users_{width}x{height}"), picture(&mut app, width, height));
    }
}

/// A label was cut within its examples: `report of (1h, 14:0`.
#[test]
fn prompts_fit_narrow_screens() {
    for (width, range, time) in [
        (40, "report for: 1h", "go to time: 1h"),
        (80, "report for (1h, 14:00..14:30): 1h", "go to time (14:05, 3m ago): 1h"),
    ] {
        for (key, shown) in [("R", range), ("b", time)] {
            let mut app = app_of(Kind::Normal);
            press(&mut app, &format!("{key}1h"));
            let screen = picture(&mut app, width, 12);
            let last = screen.lines().next_back().unwrap_or_default();
            assert_eq!(last.trim_matches('"').trim_end(), shown, "{screen}");
        }
    }
}

#[test]
fn r_asks_for_the_time_on_the_plot_or_for_what_is_typed() {
    let (mut app, request) = shown();
    let end = app.shown_wall_ns().unwrap();
    assert_eq!((request.since_ns, request.until_ns), (Some(end - 300 * SECOND), Some(end)));
    assert_eq!((request.by, request.sort), (ReportBy::Program, ReportSort::Cpu));
    let sorted = |app: &mut App, key| match press(app, key) {
        Some(Request::Report(request)) => (request.by, request.sort),
        other => panic!("{other:?}"),
    };
    assert_eq!(sorted(&mut app, "M"), (ReportBy::Program, ReportSort::Ready));
    assert_eq!(sorted(&mut app, "S"), (ReportBy::Program, ReportSort::Switches));
    assert_eq!(sorted(&mut app, "g"), (ReportBy::User, ReportSort::Cpu));
    assert_eq!(press(&mut app, "R1h..<Enter>"), Some(Request::ReportOf("1h..".into())));
    app.on_report(Err(FeedError("nothing is stored".into())));
    assert!(picture(&mut app, 80, 24).contains("nothing is stored"));
}

#[test]
fn enter_filters_by_a_row_and_goes_to_its_peak() {
    let (mut app, request) = shown();
    press(&mut app, "<Enter>");
    assert_eq!(app.shown_wall_ns(), Some(EPOCH_NS + 51 * SECOND));
    let text = picture(&mut app, 80, 24);
    assert!(text.contains("filter rustc") && !text.contains("postgres"), "{text}");
    press(&mut app, "<Esc>");
    app.on_report(Ok(made_up(&ReportQuery { by: ReportBy::User, ..request.clone() }, "ada (1000)")));
    press(&mut app, "<Enter>");
    let text = picture(&mut app, 80, 24);
    assert!(
        text.contains("user ada (1000)") && text.contains("cargo") && !text.contains("postgres"),
        "{text}"
    );
    app.on_report(Ok(made_up(&ReportQuery { by: ReportBy::Service, ..request.clone() }, "(none)")));
    press(&mut app, "<Enter>");
    assert!(picture(&mut app, 80, 24).contains("these processes have no service"));
    app.on_report(Ok(made_up(&request, "rustc")));
    press(&mut app, "<End><Enter>");
    assert!(picture(&mut app, 80, 24).contains("this row is of several groups"));
    press(&mut app, "<Esc>");
    assert!(!picture(&mut app, 80, 24).contains("REPORT"));
}
