//! Problems of measuring in the header, which never move the table.

use std::sync::Arc;

use cpumon_model::{HostStatus, Interval, PROCESSES_ARE_HIDDEN, SourceKind, Trust};
use cpumon_tui::{App, Options};
use ratatui::style::Color;

use crate::synthetic::{Kind, interval, status};
use crate::{app_of, picture, press, terminal};

const YELLOW: [Color; 2] = [Color::Yellow, Color::LightYellow];

/// Whether a text of the first lines is a warning, outside of CPU bars.
fn has_warning(app: &mut App, (width, height): (u16, u16)) -> bool {
    let mut terminal = terminal(width, height);
    terminal.draw(|frame| app.draw(frame)).unwrap();
    let buffer = terminal.backend().buffer();
    let is_warning = |at: &(u16, u16)| {
        buffer.cell(*at).is_some_and(|cell| YELLOW.contains(&cell.fg) && cell.symbol() != "s")
    };
    (0..width).flat_map(|x| (0..height).map(move |y| (x, y))).any(|at| is_warning(&at))
}

/// A state that saw 30 intervals; `change` makes them worse one by one.
fn app_with(status: HostStatus, change: impl Fn(u64, &mut Interval)) -> App {
    let mut app = App::new(&Options::default());
    let host = status.info.host;
    app.on_hosts("this machine".into(), vec![status], Some(host));
    for number in 40..=70 {
        let mut made = interval(Kind::Normal, number);
        change(number - 40, &mut made);
        app.on_interval(Arc::new(made));
    }
    app
}

const SIZES: [(u16, u16); 3] = [(40, 12), (80, 24), (140, 40)];

#[test]
fn hidden_processes_are_named_beside_the_unattributed_time() {
    for (trust, reason) in [
        (Trust::Local, "procfs: no BPF; run as root or see `cpumon doctor`; "),
        (Trust::Authenticated, "procfs: asked for; "),
    ] {
        let mut host = status(Kind::Normal);
        host.trust = trust;
        host.info.source_reason = format!("{reason}{PROCESSES_ARE_HIDDEN}; not measured: x").into();
        let mut app = app_with(host, |_, made| made.source = SourceKind::Procfs);
        let text = picture(&mut app, 140, 40);
        assert!(text.contains("/proc hides other users' processes (hidepid)"), "{text}");
    }
    assert!(!picture(&mut app_of(Kind::Normal), 140, 40).contains("hidepid"));
}

#[test]
fn a_healthy_machine_shows_nothing_yellow() {
    for size in SIZES {
        assert!(!has_warning(&mut app_of(Kind::Normal), size), "{size:?}");
        let mut app = app_with(status(Kind::Normal), |number, made| {
            made.health.sched_missed_switches = 40 * number;
            made.health.permission_denied = number;
            made.health.intervals_late = number / 7;
            // A loss of long ago.
            made.health.exits_lost = 5;
        });
        assert!(!has_warning(&mut app, size), "{size:?}\n{}", picture(&mut app, size.0, size.1));
    }
}

#[test]
fn what_costs_data_has_a_rate_and_is_explained() {
    let mut app = app_with(status(Kind::Normal), |number, made| made.health.exits_lost = 100 + number / 10);
    for (width, height) in SIZES {
        let text = picture(&mut app, width, height);
        assert!(text.contains("3 exits lost/min (? explains)"), "{text}");
        assert!(has_warning(&mut app, (width, height)));
    }
    let text = picture(&mut app, 160, 60);
    assert!(text.contains("103 exits lost"), "{text}");
    press(&mut app, "?");
    let help = picture(&mut app, 140, 100);
    assert!(help.contains("Losses") && help.contains("exits lost "), "{help}");
}

#[test]
fn without_bpf_the_first_words_say_how_to_get_it() {
    let mut local = status(Kind::Normal);
    local.info.source_reason = "procfs: no BPF; run as root or see `cpumon doctor`".into();
    let mut app = app_with(local, |_, made| made.source = SourceKind::Procfs);
    for (width, height) in [(60, 20), (80, 24), (140, 40)] {
        let text = picture(&mut app, width, height);
        let at = text.lines().find_map(|line| line.find("no BPF: run as root, or see cpumon doctor"));
        assert!(at.is_some_and(|at| at + 41 <= 61), "{text}");
    }
}

#[test]
fn the_table_begins_on_the_same_line_whatever_the_figures_are() {
    for (width, height) in SIZES {
        let line_of_titles = |app: &mut App| {
            let text = picture(app, width, height);
            text.lines().position(|line| line.contains("%CPU") && line.contains("NAME")).unwrap()
        };
        let usual = line_of_titles(&mut app_of(Kind::Normal));
        assert!(height > 30 || usual == 2, "two lines: {usual}");
        assert_eq!(line_of_titles(&mut app_of(Kind::Hostile)), usual);
        let mut app = app_with(status(Kind::Normal), |number, made| {
            made.health.exits_lost = number;
            made.health.malformed = number * 1_000_000;
            made.ledger.capacity_ns *= i64::try_from(1 + number * 1000).unwrap();
            made.wall_shift_ns = 90_000_000_000;
        });
        assert_eq!(line_of_titles(&mut app), usual);
        press(&mut app, "[i\\x<Enter>F");
        assert_eq!(line_of_titles(&mut app), usual);
    }
}

#[test]
fn a_storm_of_short_processes_names_the_key_that_groups_them() {
    let storm = |made: &mut Interval| made.ledger.exited_ns = made.ledger.capacity_ns * 2 / 5;
    let mut app = app_with(status(Kind::Normal), |_, made| storm(made));
    let hint = "40 % of the CPU time went to processes that ended: g shows them by program";
    assert!(picture(&mut app, 80, 24).contains(hint));
    press(&mut app, "g");
    assert!(!picture(&mut app, 80, 24).contains(hint));
    assert!(!picture(&mut app_of(Kind::Normal), 80, 24).contains("g groups"));
}

#[test]
fn a_selected_thread_that_the_view_hides_is_not_called_ended() {
    let mut app = app_of(Kind::Normal);
    press(&mut app, "H<Down>");
    picture(&mut app, 140, 40);
    press(&mut app, "H");
    let text = picture(&mut app, 140, 40);
    assert!(text.contains("This view shows no threads; H shows them."), "{text}");
    press(&mut app, "<Esc><Down>\\nothing<Enter>");
    let text = picture(&mut app, 140, 40);
    assert!(text.contains("Hidden by a filter or by this view."), "{text}");
}
