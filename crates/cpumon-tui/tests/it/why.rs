//! Why something is slow: how it is asked for, drawn and closed.

use cpumon_query::GroupBy;
use cpumon_query::why::{Why, WhyQuery, WhySubject};
use cpumon_tui::{App, FeedError, Request};
use serde_json::json;

use crate::synthetic::{EPOCH_NS, Kind};
use crate::{app_of, picture, press};

const SECOND: i64 = 1_000_000_000;

/// An answer, as a receiver gives it.
fn made_up() -> Why {
    let at = |second: i64| (EPOCH_NS + second * SECOND).to_string();
    let range = |from: i64| json!({"since_ns": at(from), "until_ns": at(from + 60)});
    let state = |state: &str, label: &str, share: f64, note: &str| {
        let before = share / 2.0;
        json!({"state": state, "ns": 1, "share": share, "label": label, "note": note, "before": before})
    };
    let states = [
        state("ran", "ran", 0.2, ""),
        state("ready", "ready", 0.74, "mostly behind evil\\x1b[2J"),
        state("asleep", "asleep: sleep (clock_nanosleep)", 0.06, "by itself"),
    ];
    let split =
        |from: i64| json!({"range": range(from), "measured_ns": 1, "total_ns": 1, "states": states.clone()});
    let cause = json!({
        "cause": "priority", "share": 0.8, "sentence": "It was ready.", "evidence": [], "action": "Take it.",
        "command": "chrt --other --pid 0 23227", "culprits": [], "sure": "high",
    });
    let answer = json!({
        "host": "07070707070707070707070707070707", "host_name": "build-7",
        "subject": {"by": "process", "name": "rustc\u{1b}", "processes": 1, "threads": 2, "pid": 1733},
        "since_ns": at(60), "until_ns": at(120), "slow_since_ns": null, "causes": [cause],
        "summary": ["It was ready 74 % of the time and waited for a CPU behind evil\\x1b[2J (pid 23227), with priority 50."],
        "action": "Take the real-time priority from evil\\x1b[2J (pid 23227).",
        "time": split(60), "before": split(0),
        "sure": {
            "level": "high", "rests_on": [], "not_measured": [],
            "sentences": ["High. It rests on 60 intervals of 1.0 s each."],
        },
        "more": ["cpumon top --at 2026-11-21T14:06:30Z"],
    });
    serde_json::from_value(answer).unwrap()
}

fn asked(app: &mut App, keys: &str) -> WhyQuery {
    match press(app, keys) {
        Some(Request::Why(query)) => query,
        other => panic!("{keys}: {other:?}"),
    }
}

#[test]
fn y_asks_for_the_machine_or_for_what_the_selected_row_is() {
    let mut app = app_of(Kind::Normal);
    picture(&mut app, 120, 40);
    assert_eq!(asked(&mut app, "y"), WhyQuery::default(), "the last five minutes of the machine");
    let cargo = WhySubject::Named("1711".into());
    assert_eq!(asked(&mut app, "/1711<Enter>y").subject, cargo);
    // The first of its threads.
    assert_eq!(asked(&mut app, "<Right><Down>y").subject, cargo);
    press(&mut app, "<Esc><Esc>g<Home>");
    assert_eq!(asked(&mut app, "y").subject, WhySubject::Named("rustc".into()));
    let user = WhySubject::Group(GroupBy::User, "ada (1000)".into());
    assert_eq!(asked(&mut app, "g<Home>y").subject, user);
}

#[test]
fn of_a_moment_in_the_past_the_time_around_it_is_explained() {
    let mut app = app_of(Kind::Normal);
    press(&mut app, "[");
    let query = asked(&mut app, "y");
    assert_eq!((query.at_ns, query.since_ns, query.until_ns), (app.shown_wall_ns(), None, None));
    press(&mut app, "l");
    assert_eq!(asked(&mut app, "y").at_ns, None);
}

#[test]
fn the_answer_is_shown_as_the_command_prints_it() {
    let mut app = app_of(Kind::Normal);
    app.on_why(Ok(made_up()));
    let text = picture(&mut app, 120, 40);
    for line in [
        "why slow? Up Down scroll, Esc closes",
        "rustc\\x1b on build-7, ",
        ": 1 process, 2 threads",
        "│WHY   It was ready 74 % of the time and waited for a CPU behind evil\\x1b[2J (pid 23227)",
        "│DO    Take the real-time priority from evil\\x1b[2J (pid 23227).",
        "│        chrt --other --pid 0 23227",
        "│TIME ",
        "│      asleep: sleep (clock_nanosleep)     6 %      3 %   by itself",
        "    74 %     37 %   mostly behind evil\\x1b[2J",
        "│SURE  High. It rests on 60 intervals of 1.0 s each.",
        "│MORE  cpumon top --at 2026-11-21T14:06:30Z",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    assert!(!text.contains('\u{1b}'), "{text}");
    press(&mut app, "<Esc>");
    assert!(!picture(&mut app, 120, 40).contains("why slow? Up Down"), "Esc closes it");
}

#[test]
fn a_low_screen_scrolls_to_the_end_and_back_at_once() {
    let mut app = app_of(Kind::Normal);
    app.on_why(Ok(made_up()));
    let first = picture(&mut app, 60, 12);
    assert!(first.contains("│WHY   ") && !first.contains("│MORE  "), "{first}");
    press(&mut app, "<PgDn><PgDn><PgDn><PgDn>");
    let last = picture(&mut app, 60, 12);
    assert!(last.contains("│MORE  ") && !last.contains("│WHY   "), "{last}");
    press(&mut app, "<Up>");
    assert_ne!(picture(&mut app, 60, 12), last);
    for (width, height) in [(1, 1), (5, 9), (8, 3), (1000, 100)] {
        picture(&mut app, width, height);
    }
}

#[test]
fn without_an_answer_the_reason_is_in_the_status_line() {
    let mut app = app_of(Kind::Normal);
    app.on_why(Err(FeedError("no process 1260 did anything in this range".into())));
    let text = picture(&mut app, 120, 40);
    assert!(text.contains("no process 1260 did anything in this range"), "{text}");
    assert!(!text.contains("why slow? Up Down"), "no window: {text}");
}
