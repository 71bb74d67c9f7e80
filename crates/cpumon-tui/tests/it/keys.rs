//! The effect of keys on the screen.

use std::sync::Arc;
use std::time::Duration;

use cpumon_query::Seek;
use cpumon_tui::{
    App, FeedError, HistoryPoint, Options, Play, Playback, Request, RowOptions, Subject, TimeWords,
    UserFilter,
};

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};

use crate::synthetic::{EPOCH_NS, Kind, interval, status};
use crate::{app_of, app_with, picture, press};

fn screen(app: &mut App) -> String {
    picture(app, 120, 40)
}

/// The names in the grid, top to bottom.
fn names(app: &mut App) -> Vec<String> {
    let text = screen(app);
    let is_heading = |line: &str| line.contains("NAME") && (line.contains("%CPU") || line.contains("%host"));
    let lines = text.lines().skip_while(|line| !is_heading(line)).skip(1);
    let rows = lines.take_while(|line| !line.contains("───"));
    // Its scheduling may follow, as in `cargo (nice 5)`.
    let name = |line: &str| {
        Some(line.trim_matches('"').split(" (nice").next()?.split_whitespace().last()?.to_owned())
    };
    rows.filter_map(name).collect()
}

#[test]
fn the_selection_stays_with_its_task() {
    let mut app = app_of(Kind::Normal);
    screen(&mut app);
    press(&mut app, "/1711<Enter>");
    assert!(screen(&mut app).contains("process 1711 cargo"));
    press(&mut app, "N<Esc>N");
    assert!(screen(&mut app).contains("process 1711 cargo"));
    app.on_interval(Arc::new(interval(Kind::Normal, 131)));
    assert!(screen(&mut app).contains("process 1711 cargo"));
}

#[test]
fn a_device_whose_clock_is_off_by_more_than_a_second_is_named() {
    let mut app = app_of(Kind::Normal);
    for (number, shift_ns, expected) in [
        (131, -720_000_000_000_000_000, "device clock 8333 d behind"),
        (132, 90_000_000_000, "device clock 90 s ahead"),
        (133, 900_000_000, ""),
    ] {
        let mut made = interval(Kind::Normal, number);
        made.wall_shift_ns = shift_ns;
        app.on_interval(Arc::new(made));
        let text = screen(&mut app);
        assert!(text.contains(expected) && (text.contains("device clock") != expected.is_empty()), "{text}");
    }
}

#[test]
fn a_task_that_is_gone_stays_selected_and_is_marked_as_gone() {
    let mut app = app_of(Kind::Normal);
    screen(&mut app);
    press(&mut app, "/1711<Enter>");
    screen(&mut app);
    let mut without = interval(Kind::Normal, 101);
    without.processes.retain(|row| row.key.pid != 1711);
    without.threads.retain(|row| row.process.pid != 1711);
    app.on_interval(Arc::new(without));
    let text = screen(&mut app);
    assert!(text.contains("process 1711 cargo") && text.contains("has no row in"), "{text}");
    app.on_interval(Arc::new(interval(Kind::Normal, 102)));
    assert!(screen(&mut app).contains("process 1711 cargo"));
}

#[test]
fn sorting_goes_by_the_column_that_the_key_names() {
    let mut app = app_of(Kind::Normal);
    assert_eq!(names(&mut app).first().map(String::as_str), Some("rustc"));
    press(&mut app, "N");
    assert_eq!(names(&mut app).first().map(String::as_str), Some("systemd"));
    press(&mut app, "r");
    assert_eq!(names(&mut app).first().map(String::as_str), Some("postgres"));
    press(&mut app, "<");
    let text = screen(&mut app);
    assert!(text.contains("sorted by NAME"), "{text}");
    assert_eq!(names(&mut app).first().map(String::as_str), Some("bash"));
    press(&mut app, "M");
    assert_eq!(names(&mut app).first().map(String::as_str), Some("rustc"));
}

#[test]
fn what_is_counted_live_sorts_no_moment_of_the_past() {
    let sorted = |app: &mut App| {
        let text = screen(app);
        let heading = text.lines().find(|line| line.contains("NAME") && line.contains("%CPU")).unwrap();
        heading.split_whitespace().find(|title| title.ends_with('▾')).expect(&text).to_owned()
    };
    let wide = |app: &mut App| picture(app, 220, 40);
    let mut app = app_of(Kind::Normal);
    app.on_interval(Arc::new(interval(Kind::Normal, 131)));
    wide(&mut app);
    press(&mut app, "T");
    assert!(wide(&mut app).contains("SEEN▾"), "{}", wide(&mut app));
    let live = names(&mut app);
    // While paused, the totals continue: they do not belong to the interval on screen.
    press(&mut app, " ");
    assert_eq!(sorted(&mut app), "%CPU▾");
    press(&mut app, "MT");
    assert!(screen(&mut app).contains("SEEN exists only live; press l for live"));
    assert_eq!(sorted(&mut app), "RDY▾");
    for _ in 0..30 {
        press(&mut app, ">");
        assert!(!screen(&mut app).contains("sorted by SEEN"));
    }
    press(&mut app, "lT");
    assert_eq!(names(&mut app), live);
}

#[test]
fn a_column_that_sorts_unseen_is_named() {
    let mut app = app_of(Kind::Normal);
    picture(&mut app, 60, 30);
    press(&mut app, "T");
    assert!(picture(&mut app, 60, 30).contains("sorted by SEEN, whose column does not fit"));
    press(&mut app, "P");
    assert!(!picture(&mut app, 60, 30).contains("whose column does not fit"));
}

#[test]
fn a_filter_shows_what_holds_its_text_and_escape_clears_it() {
    let mut app = app_of(Kind::Normal);
    press(&mut app, "\\POSTG<Enter>");
    assert_eq!(names(&mut app), ["postgres"; 3]);
    assert!(screen(&mut app).contains("filter postg"));
    press(&mut app, "<Esc>");
    assert!(names(&mut app).len() > 10);
    press(&mut app, "\\nothing has this<Enter>");
    assert!(screen(&mut app).contains("no row matches the filter"));
}

#[test]
fn a_filter_in_the_tree_keeps_the_way_to_the_root() {
    let mut app = app_of(Kind::Normal);
    press(&mut app, "t\\rustc<Enter>");
    let text = names(&mut app).join(" ");
    assert!(text.contains("systemd") && text.contains("sshd") && !text.contains("postgres"), "{text}");
}

#[test]
fn n_sorts_unless_a_search_is_on() {
    let mut app = app_of(Kind::Normal);
    screen(&mut app);
    press(&mut app, "/postgres<Enter>");
    let first = screen(&mut app);
    press(&mut app, "n");
    assert_ne!(first, screen(&mut app));
    press(&mut app, "N");
    assert_eq!(first, screen(&mut app));
    press(&mut app, "<Esc>N");
    assert!(screen(&mut app).contains("PID▴"));
}

#[test]
fn threads_open_and_close() {
    let mut app = app_of(Kind::Normal);
    screen(&mut app);
    let closed = names(&mut app).len();
    press(&mut app, "<Home><Right>");
    assert_eq!(names(&mut app).len(), closed + 6);
    press(&mut app, "<Down><Down><Left><Left>");
    assert_eq!(names(&mut app).len(), closed);
    press(&mut app, "<Enter>");
    assert_eq!(names(&mut app).len(), closed + 6);
}

#[test]
fn a_closed_branch_of_the_tree_hides_everything_below() {
    let mut app = app_of(Kind::Normal);
    press(&mut app, "<F5>");
    screen(&mut app);
    let open = names(&mut app).len();
    press(&mut app, "/sshd<Enter><Left>");
    let text = names(&mut app).join(" ");
    assert!(!text.contains("rustc") && text.contains("postgres"), "{text}");
    press(&mut app, "<Right>");
    assert_eq!(names(&mut app).len(), open);
}

#[test]
fn the_unit_is_always_in_the_title() {
    let mut app = app_of(Kind::Normal);
    assert!(screen(&mut app).contains("%CPU▾"));
    press(&mut app, "I");
    assert!(screen(&mut app).contains("%host▾"));
    press(&mut app, "%");
    assert!(screen(&mut app).contains("%CPU▾"));
}

#[test]
fn pause_holds_the_picture_and_live_goes_on() {
    let mut app = app_of(Kind::Normal);
    press(&mut app, " ");
    let paused = screen(&mut app);
    assert!(paused.contains("PAUSED"));
    app.on_interval(Arc::new(interval(Kind::Normal, 101)));
    assert_eq!(paused, screen(&mut app));
    press(&mut app, " ");
    assert!(screen(&mut app).contains(" LIVE  build-7 2026-11-21 14:06:42Z"));
}

#[test]
fn steps_go_back_and_forth_and_end_live() {
    let mut app = app_of(Kind::Normal);
    assert_eq!(press(&mut app, "[["), None);
    assert!(screen(&mut app).contains(" PAST  build-7 2026-11-21 14:06:39Z"));
    assert_eq!(press(&mut app, "]]"), None);
    assert!(screen(&mut app).contains(" PAST  build-7 2026-11-21 14:06:41Z"));
    press(&mut app, "]");
    assert!(screen(&mut app).contains(" LIVE "));
}

#[test]
fn beyond_what_was_seen_the_feed_is_asked() {
    let mut app = app_of(Kind::Normal);
    for _ in 0..60 {
        assert_eq!(press(&mut app, "["), None);
    }
    let oldest = Seek::Before(EPOCH_NS + 41_000_000_000);
    assert_eq!(press(&mut app, "["), Some(Request::Seek(oldest)));
    app.on_seek(oldest, Ok(None));
    assert!(screen(&mut app).contains("the first data is of 2026-11-21 14:05:40Z"));
    app.on_seek(oldest, Ok(Some(Arc::new(interval(Kind::Normal, 39)))));
    assert!(screen(&mut app).contains(" PAST  build-7 2026-11-21 14:05:40Z"));
    assert_eq!(press(&mut app, "l"), None);
    assert!(screen(&mut app).contains(" LIVE "));
}

#[test]
fn a_typed_time_is_left_to_the_feed() {
    let mut app = app_of(Kind::Normal);
    assert_eq!(press(&mut app, "b3mx<BS> ago<Enter>"), Some(Request::GoTo("3m ago".into())));
    assert_eq!(app.go_to(EPOCH_NS + 50_500_000_000), None);
    assert!(screen(&mut app).contains(" PAST  build-7 2026-11-21 14:05:51Z"));
    let far = app.go_to(EPOCH_NS);
    assert_eq!(far, Some(Request::Seek(Seek::At(EPOCH_NS))));
    app.on_seek(Seek::At(EPOCH_NS), Err(FeedError("cannot read the store: locked".into())));
    assert!(screen(&mut app).contains("cannot read the store: locked"));
}

#[test]
fn another_host_starts_from_nothing() {
    let mut app = app_of(Kind::Normal);
    let other = status(Kind::Hostile);
    assert_eq!(press(&mut app, "h<Down><Enter>"), Some(Request::Select(other.info.host)));
    app.on_hosts("made up".into(), vec![status(Kind::Normal), other.clone()], Some(other.info.host));
    let text = screen(&mut app);
    assert!(text.contains("waiting for data from evil\\x1b]0;x\\x07host"), "{text}");
    assert!(!text.contains("rustc"));
}

#[test]
fn silence_is_shown() {
    let mut app = app_of(Kind::Normal);
    app.on_age(Some(Duration::from_millis(900)));
    assert!(screen(&mut app).contains(" LIVE "));
    app.on_age(Some(Duration::from_secs(12)));
    assert!(screen(&mut app).contains(" NO DATA since 12 s "));
    app.on_error(&FeedError("receiver lost: connection refused".into()));
    assert!(screen(&mut app).contains("receiver lost: connection refused"));
    app.on_feed_ok();
    assert!(!screen(&mut app).contains("receiver lost"));
}

#[test]
fn the_export_has_the_rows_on_screen_and_no_formula() {
    let mut app = app_of(Kind::Hostile);
    press(&mut app, "\\cmd<Enter>");
    let Some(Request::Export { stem, csv }) = press(&mut app, "e") else { panic!("no export") };
    assert_eq!(stem, "cpumon-evil__0_x_host-20261121140641Z");
    let lines: Vec<&str> = csv.split("\r\n").collect();
    assert_eq!(lines.len(), 3, "{csv}");
    assert!(lines[0].starts_with("host,end_utc,duration_ns,pid,tid,name,process_name,start_ns,user_ns"));
    assert!(lines[1].contains("\"'=cmd|' /C calc'!A0\""), "{csv}");
    assert!(lines[2].is_empty());
}

#[test]
fn nothing_is_drawn_again_without_a_reason() {
    let mut app = app_of(Kind::Normal);
    assert!(app.take_dirty());
    app.on_age(Some(Duration::from_millis(100)));
    app.on_age(Some(Duration::from_millis(1200)));
    app.on_feed_ok();
    assert!(!app.take_dirty());
    press(&mut app, "H");
    assert!(app.take_dirty());
}

#[test]
fn history_is_asked_for_once_and_drawn() {
    let mut app = app_of(Kind::Normal);
    let before = screen(&mut app);
    let (of, range) = app.history_wanted().unwrap();
    assert_eq!(of, Subject::Host);
    let point = HistoryPoint {
        begin_wall_ns: EPOCH_NS - 100_000_000_000,
        end_wall_ns: EPOCH_NS - 1_000_000_000,
        duration_ns: 99_000_000_000,
        capacity_ns: 4 * 99_000_000_000,
        run_ns: 80_000_000_000,
    };
    app.on_history(of, range, vec![point]);
    assert_eq!(app.history_wanted(), None);
    app.on_interval(Arc::new(interval(Kind::Normal, 101)));
    assert_eq!(app.history_wanted(), None);
    assert_ne!(before, screen(&mut app));
    // A longer plot reaches further back; a step into the past moves it.
    press(&mut app, "z");
    assert!(app.history_wanted().is_some_and(|wanted| wanted.0 == of));
    press(&mut app, "zzz");
    assert_eq!(app.history_wanted(), None);
    press(&mut app, "[");
    assert_eq!(app.history_wanted(), None, "the window stays and only the mark moves");
    press(&mut app, "zz");
    app.on_seek(Seek::At(EPOCH_NS), Ok(Some(Arc::new(interval(Kind::Normal, 0)))));
    assert!(app.history_wanted().is_none_or(|wanted| wanted.0 == of));
    press(&mut app, "<Down>");
    assert!(matches!(app.history_wanted(), Some((Subject::Task(_), _))), "each task has its own");
}

#[test]
fn the_plot_of_the_past_is_the_feeds_and_its_window_stays_around_the_mark() {
    let mut app = App::new(&Options::default());
    app.on_hosts("made up".into(), vec![status(Kind::Normal)], Some(status(Kind::Normal).info.host));
    app.on_seek(Seek::At(EPOCH_NS), Ok(Some(Arc::new(interval(Kind::Normal, 300)))));
    assert!(screen(&mut app).contains("whole host, all tasks %CPU no data"));
    let (of, range) = app.history_wanted().unwrap();
    let points: Vec<HistoryPoint> =
        (0..400).map(|number| HistoryPoint::of_host(&interval(Kind::Normal, number))).collect();
    app.on_history(of, range.clone(), points);
    let text = screen(&mut app);
    assert!(text.contains("whole host, all tasks %CPU mark 220.8 max 315.7"), "{text}");
    for number in [299, 240, 150] {
        app.on_seek(Seek::At(EPOCH_NS), Ok(Some(Arc::new(interval(Kind::Normal, number)))));
        assert_eq!(app.history_wanted(), None, "{number}");
    }
    app.on_seek(Seek::At(EPOCH_NS), Ok(Some(Arc::new(interval(Kind::Normal, 20)))));
    let (_, moved) = app.history_wanted().unwrap();
    assert!(moved.start < range.start && moved.contains(&(EPOCH_NS + 20_000_000_000)));
}

#[test]
fn all_moments_on_screen_are_in_one_time_zone() {
    fn in_berlin(wall_ns: i64) -> String {
        let seconds = (wall_ns - EPOCH_NS) / 1_000_000_000;
        format!("2026-11-21 15:{:02}:{:02} +01:00", 5 + seconds / 60, seconds % 60)
    }
    let time = TimeWords { show: in_berlin, ..TimeWords::default() };
    let mut app = app_with(Kind::Normal, &Options { time, ..Options::default() });
    press(&mut app, "[");
    let text = screen(&mut app);
    assert!(text.contains("2026-11-21 15:06:40 +01:00") && text.contains(" 15:06:41 "), "{text}");
    assert!(!text.contains("Z ") && !text.contains(" 14:"), "{text}");
    app.on_seek(Seek::At(EPOCH_NS), Ok(None));
    assert!(screen(&mut app).contains("no data for 2026-11-21 15:05:00 +01:00"));
}

#[test]
fn quitting() {
    assert_eq!(press(&mut app_of(Kind::Normal), "q"), Some(Request::Quit));
    // In a prompt it is a letter.
    assert_eq!(press(&mut app_of(Kind::Normal), "/q"), None);
    assert_eq!(press(&mut app_of(Kind::Normal), "?q"), None);
}

#[test]
fn a_recording_is_played_stopped_and_stepped_by_the_feed() {
    let mut app = app_of(Kind::Normal);
    let playback = |is_playing, is_at_end, speed| Some(Playback { is_playing, is_at_end, speed });
    press(&mut app, "<Down>");
    assert!(picture(&mut app, 300, 60).contains(" min ago"), "when the selected process began");
    app.on_playback(playback(true, false, 4.0));
    assert!(screen(&mut app).contains("PLAYING 4x"));
    assert!(
        picture(&mut app, 300, 60).contains(" min earlier"),
        "before the recorded moment, not before now"
    );
    assert_eq!(press(&mut app, " "), Some(Request::Play(Play::Toggle)));
    assert_eq!(press(&mut app, "+"), Some(Request::Play(Play::Faster)));
    assert_eq!(press(&mut app, "-"), Some(Request::Play(Play::Slower)));
    let end = app.shown_wall_ns().unwrap();
    assert_eq!(press(&mut app, "["), Some(Request::Seek(Seek::Before(end))));
    assert_eq!(press(&mut app, "]"), Some(Request::Seek(Seek::After(end))));
    assert_eq!(press(&mut app, "l"), Some(Request::Seek(Seek::Before(i64::MAX))));
    assert_eq!(app.go_to(end), Some(Request::Seek(Seek::At(end))));
    app.on_playback(playback(false, false, 4.0));
    app.on_seek(Seek::Before(end), Ok(Some(Arc::new(interval(Kind::Normal, 60)))));
    assert!(screen(&mut app).contains("STOPPED"));
    let stopped_at = app.shown_wall_ns().unwrap();
    assert!(stopped_at < end);
    // Played again it shows new intervals, also where it was before.
    app.on_playback(playback(true, false, 1.0));
    app.on_interval(Arc::new(interval(Kind::Normal, 61)));
    assert!(app.shown_wall_ns().unwrap() > stopped_at && app.shown_wall_ns().unwrap() < end);
    app.on_playback(playback(true, true, 1.0));
    app.on_seek(Seek::After(end), Ok(None));
    let text = screen(&mut app);
    assert!(text.contains(" END ") && text.contains("this is the end of the recording"), "{text}");
}

#[test]
fn an_unknown_key_is_named() {
    let mut app = app_of(Kind::Normal);
    for (keys, named) in [("w", "no such key: w (see ?)"), ("<F2>", "no such key: F2 (see ?)")] {
        press(&mut app, keys);
        assert!(screen(&mut app).contains(named), "{named}");
    }
    app.on_key(KeyEvent::new(KeyCode::Char('z'), KeyModifiers::ALT));
    let text = screen(&mut app);
    assert!(text.contains("no such key: Alt+z") && text.contains("└-5 min"), "it is not z: {text}");
    press(&mut app, "j");
    assert!(!screen(&mut app).contains("no such key"));
}

#[test]
fn minutes_and_columns_of_the_plot_are_steps() {
    let mut app = app_of(Kind::Normal);
    let live = app.shown_wall_ns().unwrap();
    press(&mut app, "{");
    assert_eq!(app.shown_wall_ns(), Some(live - 60_000_000_000));
    press(&mut app, "}");
    assert!(screen(&mut app).contains(" PAST "), "the newest interval ends there");
    assert_eq!(app.shown_wall_ns(), Some(live));
    assert_eq!(press(&mut app, "{{"), Some(Request::Seek(Seek::Before(live - 120_000_000_000 + 1))));
    app.on_seek(Seek::Before(0), Ok(Some(Arc::new(interval(Kind::Normal, 10)))));
    assert_eq!(press(&mut app, "}"), None, "it is in memory");
    assert_eq!(app.shown_wall_ns(), Some(EPOCH_NS + 71_000_000_000));
    press(&mut app, "l");
    screen(&mut app);
    press(&mut app, "<Tab>");
    let text = screen(&mut app);
    assert!(text.contains('┊') && text.contains("plot: Left Right"), "{text}");
    press(&mut app, "<Left>");
    let column_ns = live - app.shown_wall_ns().unwrap();
    // Five minutes on 64 columns.
    assert!((4_000_000_000..7_000_000_000).contains(&column_ns), "{column_ns}");
    press(&mut app, "<Right><Right>");
    assert_eq!(app.shown_wall_ns(), Some(live));
    press(&mut app, "<Tab><Left>");
    assert_eq!(app.shown_wall_ns(), Some(live), "arrow keys are the grid's again");
}

#[test]
fn peaks_are_found_to_both_sides() {
    let mut app = app_of(Kind::Normal);
    let mut busiest = vec![];
    press(&mut app, "(");
    busiest.push(app.shown_wall_ns().unwrap());
    press(&mut app, "(");
    busiest.push(app.shown_wall_ns().unwrap());
    assert!(busiest[1] < busiest[0], "{busiest:?}");
    press(&mut app, ")");
    assert_eq!(app.shown_wall_ns(), Some(busiest[0]));
    for at in &busiest {
        let second = u64::try_from((at - EPOCH_NS) / 1_000_000_000 - 1).unwrap();
        let run_ns = |number| interval(Kind::Normal, number).ledger.threads_ns;
        assert!(run_ns(second) >= run_ns(second - 2) && run_ns(second) >= run_ns(second + 2), "{second}");
    }
    press(&mut app, "((((((((");
    assert!(screen(&mut app).contains("no earlier peak on the plot"));
}

#[test]
fn g_goes_through_programs_users_services_and_containers() {
    let mut app = app_of(Kind::Normal);
    for (by, first) in [
        ("program", "rustc"),
        ("user", "(1000)"),
        ("service", "session-4.scope"),
        ("container", "session-4.scope"),
    ] {
        press(&mut app, "g");
        let text = screen(&mut app);
        assert!(text.contains(&format!("by {by}")), "{text}");
        assert_eq!(names(&mut app).first().map(String::as_str), Some(first), "{by}");
    }
    assert!(names(&mut app).iter().any(|name| name == "3f2a9c0d71be"), "a container");
    press(&mut app, "gggg");
    let services = names(&mut app);
    assert!(!services.iter().any(|name| name == "3f2a9c0d71be"), "{services:?}");
    press(&mut app, "gg");
    assert!(!screen(&mut app).contains(" by ") && names(&mut app).len() == 14);
}

#[test]
fn u_chooses_a_user() {
    let mut app = app_of(Kind::Normal);
    press(&mut app, "u");
    let text = screen(&mut app);
    assert!(text.contains("all users") && text.contains("users: Enter shows"), "{text}");
    press(&mut app, "<Down><Enter>");
    assert_eq!(names(&mut app), ["rustc", "rustc", "cargo", "bash"]);
    assert!(screen(&mut app).contains("user ada"));
    press(&mut app, "H");
    assert!(!names(&mut app).iter().any(|name| name.contains("postgres")));
    press(&mut app, "Hu<Home><Enter>");
    assert_eq!(names(&mut app).len(), 14);
    press(&mut app, "u<Down><Down><Enter><Esc>");
    assert_eq!(names(&mut app).len(), 14, "Esc shows all again");
    press(&mut app, "u");
    assert!(screen(&mut app).contains("│ada (1000) "), "as groups and reports name it");
}

#[test]
fn a_user_that_the_host_does_not_have_is_answered_with_those_that_it_has() {
    let rows = RowOptions { user: Some(UserFilter::new("nina")), ..RowOptions::default() };
    let mut app = app_with(Kind::Normal, &Options { rows, ..Options::default() });
    let text = screen(&mut app);
    let hint = "no process of user nina here, only of ada (1000), 113, root (Esc shows all)";
    assert!(text.contains(hint), "{text}");
    press(&mut app, "<Esc>");
    assert_eq!(names(&mut app).len(), 14);
}

#[test]
fn the_screens_begin_with_the_rows_that_were_asked_for() {
    let rows = RowOptions {
        sort: Some("pid".parse().unwrap()),
        limit: Some(2),
        active: true,
        user: Some(UserFilter::new("ada")),
        filter: "RUST".into(),
        ..RowOptions::default()
    };
    let mut app = app_with(Kind::Normal, &Options { rows: rows.clone(), ..Options::default() });
    assert_eq!(names(&mut app), ["rustc", "rustc"]);
    let text = screen(&mut app);
    assert!(text.contains("PID▴") && text.contains("filter rust · user ada · first 2 rows"), "{text}");
    let rows = RowOptions { limit: Some(3), filter: String::new(), user: None, ..rows };
    let mut app = app_with(Kind::Normal, &Options { rows, ..Options::default() });
    assert_eq!(names(&mut app), ["systemd", "[ksoftirqd/0]", "[kworker/1:2-events]"]);
}

fn mouse(app: &mut App, kind: MouseEventKind, (column, row): (u16, u16)) -> Option<Request> {
    app.on_mouse(MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE })
}

#[test]
fn the_mouse_scrolls_selects_sorts_and_goes_to_moments() {
    let click = MouseEventKind::Down(MouseButton::Left);
    let mut app = app_of(Kind::Normal);
    let text = screen(&mut app);
    let titles = u16::try_from(text.lines().position(|line| line.contains("%CPU▾")).unwrap()).unwrap();
    mouse(&mut app, click, (30, titles + 3));
    assert!(screen(&mut app).contains("process 1711 cargo"), "the third row");
    mouse(&mut app, click, (3, titles));
    assert!(screen(&mut app).contains("PID▴"));
    mouse(&mut app, click, (3, titles));
    assert!(screen(&mut app).contains("PID▾"), "the same title again turns the order");
    let mut app = app_of(Kind::Many);
    let top = screen(&mut app);
    mouse(&mut app, MouseEventKind::ScrollDown, (10, 10));
    let scrolled = screen(&mut app);
    let row = |text: &str, at: usize| text.lines().nth(usize::from(titles) + at).unwrap().to_string();
    assert_eq!(row(&scrolled, 1), row(&top, 4), "three rows further");
    mouse(&mut app, MouseEventKind::ScrollUp, (10, 10));
    assert_eq!(screen(&mut app), top);
    let mut app = app_of(Kind::Normal);
    let live = app.shown_wall_ns().unwrap();
    screen(&mut app);
    assert_eq!(mouse(&mut app, click, (60, 34)), None);
    let shown = app.shown_wall_ns().unwrap();
    // Column 53 of 64 of the five minutes.
    assert!((live - shown - 49_000_000_000).abs() < 8_000_000_000, "{}", live - shown);
    press(&mut app, "?");
    let help = screen(&mut app);
    mouse(&mut app, MouseEventKind::ScrollDown, (10, 10));
    assert_ne!(screen(&mut app), help);
}

#[test]
fn ctrl_z_suspends_in_every_mode() {
    for keys in ["", "?", "/x", "u"] {
        let mut app = app_of(Kind::Normal);
        press(&mut app, keys);
        let key = KeyEvent::new(KeyCode::Char('z'), KeyModifiers::CONTROL);
        assert_eq!(app.on_key(key), Some(Request::Suspend), "{keys}");
    }
}

/// It stayed where it was with "no earlier data", however much there was within a length of the plot.
#[test]
fn beyond_the_first_data_it_stops_at_that_and_says_of_when_it_is() {
    let mut app = app_of(Kind::Normal);
    screen(&mut app);
    // The screens received the intervals 40 to 100; the feed has some before these.
    for (keys, stored, first) in [("[<Tab><PgUp>", None, 40), ("<PgUp>", Some(3), 3), ("<Left>", Some(3), 3)]
    {
        let request = press(&mut app, keys);
        assert!(matches!(request, Some(Request::Seek(Seek::Before(_)))), "{keys}: {request:?}");
        app.on_first(stored.map(|number| Arc::new(interval(Kind::Normal, number))));
        assert_eq!(app.shown_wall_ns(), Some(interval(Kind::Normal, first).end.wall_ns));
        let text = screen(&mut app);
        let notice = format!("the first data is of 2026-11-21 14:05:{first:02}Z");
        assert!(text.contains(&notice) && text.contains("PAST"), "{keys}: {text}");
    }
}

/// It was cut at the end of the line, and the remedy with it.
#[test]
fn a_long_notice_covers_the_lines_above_the_last_one() {
    let mut app = app_of(Kind::Normal);
    let notice = "Traces come from enrolled devices: `cpumon token` enrols one; its agent needs --flight-recorder 30s --flight-dir DIR.";
    app.on_notice(notice.into());
    let shown = |app: &mut App, columns, rows| {
        let text = picture(app, columns, rows);
        let lines = text.lines().skip(usize::from(rows) - 4);
        lines.map(|line| line.trim_matches('"').trim_end()).collect::<Vec<_>>().join(" ")
    };
    assert!(shown(&mut app, 80, 24).ends_with(notice), "{}", picture(&mut app, 80, 24));
    assert!(shown(&mut app, 40, 24).ends_with(notice), "{}", picture(&mut app, 40, 24));
    assert!(shown(&mut app, 140, 40).ends_with(notice));
    press(&mut app, "R");
    assert!(shown(&mut app, 140, 40).ends_with("report for 1h, 14:00..14:30, or Enter for the plot's time:"));
    // No place for more lines.
    app.on_notice(notice.into());
    for rows in 1..8 {
        picture(&mut app, 20, rows);
    }
}
