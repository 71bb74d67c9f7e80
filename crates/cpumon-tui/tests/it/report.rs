//! The report of a range: how it is asked for, drawn and used.

use cpumon_query::report::{ReportBy, ReportQuery, ReportSort};
use cpumon_tui::{App, FeedError, RangeReport, ReportColumn, ReportRow, Request};

use crate::synthetic::{EPOCH_NS, Kind};
use crate::{app_of, picture, press};

const SECOND: i64 = 1_000_000_000;

fn made_up() -> RangeReport {
    let groups =
        ["rustc", "a very long name of a program that no column has space for", "evil\u{1b}[2J", "x"];
    let mut names: Vec<String> = groups.map(String::from).to_vec();
    names.push("(2 others)".into());
    let column = |title: &str, rank, is_name, cells: Vec<String>| ReportColumn {
        title: title.into(),
        rank,
        is_name,
        cells,
        short_cells: Vec::new(),
    };
    let numbers = |width: usize| (0..5).map(|n| format!("{:.width$}", 5.0 - f64::from(n))).collect();
    let mut rows: Vec<ReportRow> =
        groups.iter().map(|group| ReportRow { group: Some((*group).into()), peak_ns: None }).collect();
    rows[0].peak_ns = Some(EPOCH_NS + 51 * SECOND);
    rows.push(ReportRow::default());
    RangeReport {
        head: vec!["build-7: 14:00:00 to 14:05:00, 300.0 s measured, 15.000 s of CPU time".into()],
        columns: vec![
            column("PROGRAM", 0, true, names),
            column("CPU s", 0, false, numbers(3)),
            column("%CPU", 1, false, numbers(1)),
            column("SHARE %", 3, false, numbers(1)),
            column("OVER TIME", 5, false, vec!["▁▂▃▄▅▆▇█".into(); 5]),
            column("LAST", 10, false, vec!["14:05:00".into(); 5]),
        ],
        rows,
        notes: vec!["(not attributed): CPU time in the ledger that no row has.".into()],
    }
}

fn shown() -> (App, ReportQuery) {
    let mut app = app_of(Kind::Normal);
    let Some(Request::Report(request)) = press(&mut app, "R<Enter>") else { panic!("no report") };
    app.on_report(request.clone(), Ok(made_up()));
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
        (40, "report of: 1h", "go to time: 1h"),
        (80, "report of (1h, 14:00..14:30): 1h", "go to time (14:05, 3m ago): 1h"),
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
    app.on_report(request, Err(FeedError("nothing is stored".into())));
    assert!(picture(&mut app, 80, 24).contains("nothing is stored"));
}

#[test]
fn enter_filters_by_a_row_and_goes_to_its_peak() {
    let (mut app, request) = shown();
    press(&mut app, "<Enter>");
    assert_eq!(app.shown_wall_ns(), Some(EPOCH_NS + 51 * SECOND));
    let text = picture(&mut app, 80, 24);
    assert!(text.contains("filter rustc") && !text.contains("postgres"), "{text}");
    let mut users = made_up();
    users.rows[0] = ReportRow { group: Some("ada (1000)".into()), peak_ns: None };
    press(&mut app, "<Esc>");
    app.on_report(ReportQuery { by: ReportBy::User, ..request.clone() }, Ok(users));
    press(&mut app, "<Enter>");
    let text = picture(&mut app, 80, 24);
    assert!(
        text.contains("user ada (1000)") && text.contains("cargo") && !text.contains("postgres"),
        "{text}"
    );
    let mut services = made_up();
    services.rows[0] = ReportRow { group: Some("(none)".into()), peak_ns: None };
    app.on_report(ReportQuery { by: ReportBy::Service, ..request.clone() }, Ok(services));
    press(&mut app, "<Enter>");
    assert!(picture(&mut app, 80, 24).contains("these processes have no service"));
    app.on_report(request, Ok(made_up()));
    press(&mut app, "<End><Enter>");
    assert!(picture(&mut app, 80, 24).contains("this row is of several groups"));
    press(&mut app, "<Esc>");
    assert!(!picture(&mut app, 80, 24).contains("REPORT"));
}
