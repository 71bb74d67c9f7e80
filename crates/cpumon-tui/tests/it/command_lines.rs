//! Command lines beside the names: their reader, how they scroll, and that none can harm the screen.

use std::sync::Arc;

use cpumon_model::{Interval, ProcessInfo, SourceKind, Trust};
use cpumon_tui::{App, CommandLines, Options};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::synthetic::{Kind, interval, status};
use crate::{app_of, app_with, picture, press};

const SIZES: [(u16, u16); 3] = [(40, 15), (80, 24), (140, 40)];
const LONG: &str = "/usr/bin/rustc --crate-name cpumon --edition=2024 src/main.rs -C opt-level=3 -o target/x";

/// The interval after the newest one, with this command line for each process.
fn with_command(number: u64, line: &str) -> Arc<Interval> {
    let mut made = interval(Kind::Normal, number);
    for process in &mut made.processes {
        process.info = Arc::new(ProcessInfo { cmdline: line.into(), ..(*process.info).clone() });
    }
    Arc::new(made)
}

fn local() -> App {
    app_with(Kind::Normal, &Options { command_lines: CommandLines::Read, ..Options::default() })
}

/// The first row of the grid, from the name on.
fn first(app: &mut App) -> String {
    let text = picture(app, 140, 40);
    let mut lines = text.lines().map(|line| line.trim_matches('"'));
    let title = lines.find(|line| line.contains("  PID ")).unwrap();
    let at = title.find("COMMAND").or_else(|| title.find("NAME")).unwrap();
    let columns = title[..at].chars().count();
    let row: String = lines.next().unwrap().chars().skip(columns).collect();
    row.trim_end().trim_start_matches(['▸', '▾', ' ']).to_owned()
}

#[test]
fn pictures() {
    for (width, height) in SIZES {
        let mut app = local();
        app.on_interval(with_command(101, LONG));
        press(&mut app, "<Down>");
        picture(&mut app, width, height);
        insta::assert_snapshot!(format!("command_lines_{width}x{height}"), picture(&mut app, width, height));
    }
}

#[test]
fn this_machine_begins_with_command_lines_and_others_with_names() {
    assert_eq!(first(&mut local()), "rustc  --flag value", "a path that ends in the name is left out");
    let mut app = app_of(Kind::Normal);
    assert_eq!(first(&mut app), "rustc");
    press(&mut app, "c");
    assert_eq!(first(&mut app), "rustc  --flag value");
    app.on_interval(with_command(101, "/usr/bin/python3 /opt/rustc --x"));
    assert_eq!(first(&mut app), "rustc  /usr/bin/python3 /opt/rustc --x");
    press(&mut app, "c");
    assert_eq!(first(&mut app), "rustc");
}

#[test]
fn without_command_lines_c_says_how_to_get_them() {
    let notice = |command_lines, trust, source| {
        let mut app = app_with(Kind::Normal, &Options { command_lines, ..Options::default() });
        let mut host = status(Kind::Normal);
        (host.trust, host.source) = (trust, source);
        let id = host.info.host;
        app.on_hosts("made up".into(), vec![host], Some(id));
        app.on_interval(with_command(101, ""));
        press(&mut app, if command_lines == CommandLines::Read { "cc" } else { "c" });
        assert_eq!(first(&mut app), "rustc");
        let text = picture(&mut app, 80, 24);
        text.lines().last().unwrap().trim_matches(['"', ' ']).to_owned()
    };
    let lines = CommandLines::OfHosts;
    assert_eq!(
        notice(lines, Trust::Unauthenticated, SourceKind::Bpf),
        "no command lines: start `cpumon-agent … --cmdline` on build-7"
    );
    assert_eq!(
        notice(lines, Trust::Local, SourceKind::Bpf),
        "no command lines: start `cpumon serve --cmdline`"
    );
    assert_eq!(
        notice(lines, Trust::Unauthenticated, SourceKind::V1),
        "no command lines: v1 hosts do not send them"
    );
    assert_eq!(
        notice(CommandLines::NotRead, Trust::Local, SourceKind::Procfs),
        "no command lines: start with --cmdline"
    );
    assert_eq!(
        notice(CommandLines::Read, Trust::Local, SourceKind::Procfs),
        "no command lines: these processes have none"
    );
}

#[test]
fn command_lines_scroll_beside_their_names() {
    let mut app = local();
    app.on_interval(with_command(101, LONG));
    let whole = first(&mut app);
    assert!(whole.starts_with("rustc  --crate-name cpumon") && whole.ends_with('…'), "{whole}");
    press(&mut app, ".");
    let scrolled = first(&mut app);
    assert!(scrolled.starts_with("rustc  …e cpumon"), "{scrolled}");
    // A row is selected: the arrows open and close it, with Shift they scroll.
    press(&mut app, "<Home>");
    app.on_key(KeyEvent::new(KeyCode::Right, KeyModifiers::SHIFT));
    let further = first(&mut app);
    assert!(further.starts_with("rustc  …") && further != scrolled, "{further}");
    press(&mut app, "<Esc>");
    for _ in 0..10 {
        press(&mut app, ".");
        first(&mut app);
    }
    let end = first(&mut app);
    assert!(end.ends_with("/x"), "{end}");
    assert!(picture(&mut app, 140, 40).contains("no command line on screen goes on to the right"));
    press(&mut app, "<Left><Left>,,,,,,,,");
    assert_eq!(first(&mut app), whole);
    press(&mut app, "c.");
    assert!(picture(&mut app, 140, 40).contains("c shows command lines"));
}

#[test]
fn hostile_command_lines_stay_in_their_column() {
    let wide = "日".repeat(60_000);
    let escapes = "\u{1b}]0;title\u{7}\u{1b}[2J\u{202e}\u{9b}31m\r\n".repeat(6_000);
    let combining = format!("x{}", "\u{301}".repeat(60_000));
    let right_to_left = "שלום עולם \u{200f}مرحبا ".repeat(4_000);
    for line in [wide, escapes, combining, right_to_left, "=cmd()|'; DROP TABLE--".into()] {
        for (width, height) in [(20, 8), (40, 15), (80, 24), (200, 50)] {
            let mut app = local();
            app.on_interval(with_command(101, &line));
            for keys in ["", "<Home>", "d", "......", "t", "g", "H"] {
                press(&mut app, keys);
                let text = picture(&mut app, width, height);
                assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text}");
                assert!(!text.contains(['\u{202e}', '\u{200f}']), "{text}");
            }
        }
    }
}
