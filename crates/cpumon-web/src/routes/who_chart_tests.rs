//! The chart of who used the CPU against the report: the same groups in the same order with the same sums.

use cpumon_query::Answers;
use cpumon_query::charts::{Body, Chart, ChartQuery, Line, Stroke, View, chart};
use cpumon_query::history::History;
use cpumon_query::report::{ReportBy, ReportFilter, ReportQuery, ReportRow};

use super::past_store::{BEGIN_NS, SECOND_NS, Stored};
use super::tests::ask_raw;

/// The texts of a picture, one after the other.
fn texts(picture: &str) -> Vec<String> {
    let ends = picture.split("</text>");
    ends.filter_map(|part| Some(part.rsplit_once('>')?.1.to_owned())).collect()
}

/// The CPU time of an area, ns.
fn run_ns(line: &Line, covered_ns: &[i64]) -> f64 {
    let values = line.values.iter().zip(covered_ns);
    values.filter_map(|(percent, covered)| Some((*percent)? * *covered as f64 / 100.0)).sum()
}

fn areas(chart: &Chart) -> Vec<&Line> {
    let Body::Lines { lines, .. } = &chart.body else { panic!("{chart:?}") };
    lines.iter().filter(|line| line.stroke == Stroke::Area).collect()
}

/// Label of a row's area.
fn label(row: &ReportRow, by: ReportBy) -> String {
    match row.tid.or(row.pid).filter(|_| matches!(by, ReportBy::Process | ReportBy::Thread)) {
        Some(number) => format!("{} {number}", row.name),
        None => row.name.to_string(),
    }
}

#[tokio::test]
async fn the_areas_of_a_saved_picture_are_the_rows_of_the_report() {
    let (since, until) = (BEGIN_NS, BEGIN_NS + 300 * SECOND_NS);
    for compacted in [false, true] {
        let stored = Stored::new(compacted);
        let history = History::of_store(&stored.path()).unwrap();
        let hosts = ["past".to_owned()];
        for by in ReportBy::ALL.iter().copied() {
            let range =
                ReportQuery { since_ns: Some(since), until_ns: Some(until), by, ..ReportQuery::default() };
            let made = history.report(&hosts, &ReportQuery { points: Some(350), ..range }).unwrap();
            let query = ChartQuery {
                since_ns: Some(since),
                until_ns: Some(until),
                by: Some(by),
                ..ChartQuery::new(View::Who)
            };
            let drawn = chart(&history, &query).unwrap();
            let groups: Vec<&ReportRow> = made.rows.iter().filter(|row| row.kind.is_group()).collect();
            let (areas, covered) = (areas(&drawn), &made.hosts[0].times.covered_ns);
            // Each point is rounded to a whole ns.
            let rounded = covered.len() as f64;
            assert_eq!(areas.len(), groups.len() + 1, "{by:?}");
            for (area, row) in areas.iter().zip(&groups) {
                let (name, sum) = (label(row, by), run_ns(area, covered));
                assert!(area.label.starts_with(&name), "{by:?}: {} {name}", area.label);
                let of_row = row.run_ns.unwrap();
                assert!((sum - of_row as f64).abs() <= rounded, "{by:?} {name}: {sum} {of_row}");
            }
            let all: f64 = areas.iter().map(|area| run_ns(area, covered)).sum();
            assert!((all - made.used_ns as f64).abs() <= rounded, "{by:?}: {all} {}", made.used_ns);
            let path = format!("/api/v1/hosts/past/charts/who?since={since}&until={until}&by={}", by.name());
            let (status, _, body) = ask_raw(stored.router(), &path, "localhost").await;
            let picture = String::from_utf8_lossy(&body).into_owned();
            assert_eq!(status, 200, "{path}: {picture}");
            let legend: Vec<String> = areas.iter().map(|area| area.label.clone()).collect();
            let shown: Vec<String> =
                texts(&picture).into_iter().filter(|text| legend.contains(text)).collect();
            assert_eq!(shown, legend, "{path}: {picture}");
        }
    }
}

#[tokio::test]
async fn a_filter_leaves_the_rest_to_the_others() {
    let stored = Stored::new(false);
    let history = History::of_store(&stored.path()).unwrap();
    let query = ChartQuery {
        since_ns: Some(BEGIN_NS),
        until_ns: Some(BEGIN_NS + 300 * SECOND_NS),
        by: Some(ReportBy::Process),
        filter: ReportFilter { text: Some("30".into()), ..ReportFilter::default() },
        ..ChartQuery::new(View::Who)
    };
    let drawn = chart(&history, &query).unwrap();
    let labels: Vec<&str> = areas(&drawn).iter().map(|area| &*area.label).collect();
    assert_eq!(labels, ["web 30", "others"]);
    assert_eq!(drawn.notes, ["Only rows that match 30: all else is in others."]);
    let range = format!("since={BEGIN_NS}&until={}", BEGIN_NS + 300 * SECOND_NS);
    let path = format!("/api/v1/hosts/past/charts/who{{}}?{range}&by=process&filter=30&within=name:web");
    let (status, _, body) = ask_raw(stored.router(), &path.replace("{}", ""), "localhost").await;
    let picture = String::from_utf8_lossy(&body);
    assert!(
        status == 200 && picture.contains(">web 30</text>") && !picture.contains(">web 20</text>"),
        "{picture}"
    );
    let (_, body) = stored.get(&path.replace("{}", "/command")).await;
    let command = body["command"].as_str().unwrap();
    assert!(command.contains(" --by=process --filter=30 --within=name:web "), "{command}");
}

#[tokio::test]
async fn a_range_without_data_is_a_picture_and_wrong_groups_are_refused() {
    let stored = Stored::new(false);
    let of = |view: &str, more: &str| {
        format!("/api/v1/hosts/past/charts/{view}?since=1&until=3600000000000{more}")
    };
    for (path, expected, text) in [
        (of("who", ""), 200, ">No data in this range</text>"),
        (of("who", "&by=colour"), 400, "container"),
        (of("who", "&within=web"), 400, "BY:NAME"),
        (of("landscape", "&by=thread"), 400, "by thread"),
        (of("landscape/command", "&by=host"), 400, "by host"),
    ] {
        let (status, _, body) = ask_raw(stored.router(), &path, "localhost").await;
        let body = String::from_utf8_lossy(&body);
        assert!(status == expected && body.contains(text), "{path}: {status} {body}");
    }
}
