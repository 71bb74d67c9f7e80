//! Pictures of every scene in every size.

use cpumon_model::HostId;
use cpumon_query::TraceRecord;
use cpumon_tui::{App, FeedError, Options, Request};

use crate::synthetic::Kind;
use crate::{app_of, app_with, picture, press};

const SIZES: [(u16, u16); 4] = [(40, 15), (80, 24), (120, 40), (300, 60)];

/// Compares with the kept pictures; a new `App` for each size, as a window of that size would show it.
fn check(name: &str, scene: impl Fn() -> App) {
    for (width, height) in SIZES {
        let mut app = scene();
        // The state learns from the first drawing how many rows are in view.
        picture(&mut app, width, height);
        insta::assert_snapshot!(format!("{name}_{width}x{height}"), picture(&mut app, width, height));
    }
}

fn scene(kind: Kind, keys: &'static str) -> impl Fn() -> App {
    move || {
        let mut app = app_of(kind);
        press(&mut app, keys);
        app
    }
}

#[test]
fn normal() {
    check("normal", scene(Kind::Normal, ""));
}

#[test]
fn threads_open() {
    check("threads_open", scene(Kind::Normal, "<Down><Enter>"));
}

#[test]
fn all_threads() {
    check("all_threads", scene(Kind::Normal, "H"));
}

#[test]
fn tree() {
    check("tree", scene(Kind::Normal, "t<Down><Down>"));
}

#[test]
fn groups_in_percent_of_the_host_with_a_bar_a_cpu() {
    check("groups", scene(Kind::Normal, "g%1<Down><Enter>"));
}

#[test]
fn help() {
    check("help", scene(Kind::Normal, "?"));
}

#[test]
fn hosts() {
    check("hosts", scene(Kind::Normal, "h<Down>"));
}

#[test]
fn past() {
    check("past", scene(Kind::Normal, "<Down>[[["));
}

fn trace(id: i64, at: i64, before_s: i64, reason: &str) -> TraceRecord {
    TraceRecord {
        id,
        host: HostId([7; 16]),
        hash: [0; 32],
        wall_ns: at - before_s * 1_000_000_000,
        first_wall_ns: at,
        last_wall_ns: at,
        received_wall_ns: at,
        reason: reason.into(),
        bytes: 1,
        events: 1,
        lost: 0,
    }
}

/// Live it only shown that one must go back first.
#[test]
fn v_names_the_newest_trace_while_the_screen_is_live() {
    let mut app = app_of(Kind::Normal);
    let at = app.shown_wall_ns().unwrap();
    assert_eq!(press(&mut app, "v"), Some(Request::NewestTrace));
    let traces = [trace(7, at, 20, "recorded by a user"), trace(3, at, 90, "cpu>90%/5s")];
    let Some(Request::ShowTrace { id, words }) = app.on_all_traces(&traces) else { panic!("no trace") };
    assert!(id == 7 && words.ends_with(", recorded by a user"), "{id} {words}");
    assert_eq!(app.on_all_traces(&[]), None);
    let shown = picture(&mut app, 120, 40);
    assert!(shown.contains("This host has no trace; x records one."), "{shown}");
    press(&mut app, "[[[");
    assert_eq!(press(&mut app, "v"), None, "none is on the plot");
}

/// Marks of two traces; the second one is nearer to the moment on screen.
#[test]
fn traces_of_the_past_are_marked_and_the_nearest_is_named() {
    check("past_traces", || {
        let mut app = app_of(Kind::Normal);
        press(&mut app, "[[[");
        let window = app.traces_wanted(false).unwrap();
        let at = app.shown_wall_ns().unwrap();
        app.on_traces(window, vec![trace(3, at, 90, "cpu>90%/5s"), trace(4, at, 20, "recorded by a user")]);
        assert_eq!((app.traces_wanted(false), app.traces_wanted(true).is_some()), (None, true));
        let Some(Request::ShowTrace { id, words }) = press(&mut app, "v") else { panic!("no trace") };
        app.on_notice(format!("cpumon trace top cpumon.db.traces/{id}.trace  ({words})"));
        app
    });
}

#[test]
fn searching() {
    check("searching", scene(Kind::Normal, "/postg"));
}

#[test]
fn no_data() {
    check("no_data", || {
        let mut app = App::new(&Options::default());
        app.on_hosts("receiver http://127.0.0.1:8080".into(), Vec::new(), None);
        app.on_error(&FeedError("cannot reach http://127.0.0.1:8080: connection refused".into()));
        app
    });
}

#[test]
fn hostile_names() {
    check("hostile_names", scene(Kind::Hostile, "<Down>"));
}

#[test]
fn no_fields() {
    check("no_fields", scene(Kind::NoFields, "<Down>"));
}

#[test]
fn an_ascii_terminal_gets_nothing_but_ascii() {
    for kind in [Kind::Normal, Kind::Hostile, Kind::NoFields] {
        for keys in ["<Down>", "t", "H", "g", "?", "h", "[", "/é"] {
            let mut app = app_with(kind, &Options { ascii: true, ..Options::default() });
            press(&mut app, keys);
            let picture = picture(&mut app, 100, 30);
            assert!(picture.is_ascii(), "{keys}\n{picture}");
        }
    }
}

#[test]
fn without_color_no_cell_has_one() {
    use ratatui::style::Color;
    for keys in ["<Down>", "1", "?", "h", " ", "/x"] {
        let mut app = app_with(Kind::Hostile, &Options { no_color: true, ..Options::default() });
        press(&mut app, keys);
        let mut terminal = crate::terminal(120, 40);
        terminal.draw(|frame| app.draw(frame)).unwrap();
        let cells = terminal.backend().buffer().content();
        assert!(cells.iter().all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset), "{keys}");
    }
}

#[test]
fn any_size_is_drawn() {
    for kind in [Kind::Hostile, Kind::NoFields] {
        for keys in ["", "<Down>d", "t", "g1", "?", "h", "/long text", "[", "H"] {
            let mut app = app_of(kind);
            press(&mut app, keys);
            for width in (1..12).chain([16, 21, 40, 59, 60, 80, 1000]) {
                for height in (1..9).chain([13, 14, 19, 100]) {
                    picture(&mut app, width, height);
                }
            }
        }
    }
}

/// Every number at an end of its type, as a made-up datagram may have it.
fn impossible(low: i64, high: u64) -> cpumon_model::Interval {
    use cpumon_model::{CpuTimes, Delta, Ledger, Moment};
    let mut made = crate::synthetic::interval(Kind::Normal, 101);
    let delta = Delta {
        user_ns: low,
        system_ns: low,
        run_ns: low,
        run_delay_ns: low,
        voluntary_switches: low,
        involuntary_switches: low,
        minor_faults: low,
        major_faults: low,
    };
    made.processes.iter_mut().for_each(|row| row.delta = delta);
    made.threads.iter_mut().for_each(|row| row.delta = delta);
    made.cpus.iter_mut().for_each(|cpu| cpu.times = CpuTimes::from_array([high; 10]));
    made.begin = Moment { mono_ns: 0, boot_ns: 0, wall_ns: low };
    made.end = Moment { mono_ns: high, boot_ns: high, wall_ns: low.saturating_add(1) };
    made.pass_ns = high;
    made.ledger =
        Ledger { capacity_ns: i64::MAX, threads_ns: low, exited_ns: low, idle_ns: low, ..made.ledger };
    (made.thread_count, made.process_count) = (u32::MAX, u32::MAX);
    (made.health.own_cpu_ns, made.health.exits_lost) = (high, high);
    made
}

#[test]
fn impossible_values_are_shown_not_fatal() {
    for (low, high) in [(i64::MIN, u64::MAX), (i64::MAX, u64::MAX), (i64::MIN, 0), (0, 0), (-1, 1)] {
        for keys in ["", "<Down><Enter>", "t<Down>", "gT<Down>1", "H%<Down>[", "[<Down>", "<Down>e"] {
            let mut app = app_of(Kind::Normal);
            app.on_interval(std::sync::Arc::new(impossible(low, high)));
            app.on_interval(std::sync::Arc::new(impossible(low, high)));
            press(&mut app, keys);
            picture(&mut app, 120, 40);
            picture(&mut app, 40, 15);
        }
    }
}

#[test]
fn a_host_of_windows_has_its_own_words() {
    use cpumon_model::SourceKind;
    let ledger_of = |source| {
        let mut app = app_of(Kind::Normal);
        let mut made = crate::synthetic::interval(Kind::Normal, 101);
        (made.source, made.ledger.irq_in_run_time) = (source, false);
        app.on_interval(std::sync::Arc::new(made));
        picture(&mut app, 300, 60)
    };
    let windows = ledger_of(SourceKind::Nt);
    assert!(windows.contains("+ ISR ") && windows.contains("+ DPC "), "{windows}");
    assert!(!windows.contains("+ softirq ") && !windows.contains("+ irq "), "{windows}");
    assert!(ledger_of(SourceKind::Bpf).contains("+ softirq "));
    let help_of = |source| {
        let mut app = app_of(Kind::Normal);
        let mut made = crate::synthetic::interval(Kind::Normal, 101);
        made.source = source;
        app.on_interval(std::sync::Arc::new(made));
        press(&mut app, "?");
        picture(&mut app, 100, 80)
    };
    assert!(help_of(SourceKind::Toolhelp).contains("i ISR, q DPC,"));
    assert!(help_of(SourceKind::Bpf).contains("i irq, q softirq,"));
}

#[test]
fn session_priority_class_and_product_are_in_the_details_of_a_process_of_windows() {
    use cpumon_model::ProcessInfo;
    let picture_of = |session: Option<u32>, base_priority| {
        let mut app = app_of(Kind::Normal);
        let mut made = crate::synthetic::interval(Kind::Normal, 101);
        for row in &mut made.processes {
            let product = if session.is_some() { "Größe® 3" } else { "" }.into();
            let info = ProcessInfo { session, base_priority, product, ..(*row.info).clone() };
            row.info = std::sync::Arc::new(info);
        }
        app.on_interval(std::sync::Arc::new(made));
        press(&mut app, "<Down>");
        picture(&mut app, 300, 140)
    };
    let shown = picture_of(Some(3), Some(13));
    assert!(shown.contains("session    3, priority high, product Größe® 3"), "{shown}");
    let shown = picture_of(None, None);
    assert!(!shown.contains("priority ") && !shown.contains("product "), "{shown}");
}

#[test]
fn interrupts_by_line_and_kind_are_in_the_details_of_the_host() {
    use cpumon_model::{Fields, IrqInterval};
    let picture_of = |fields| {
        let mut app = app_of(Kind::Normal);
        let mut made = crate::synthetic::interval(Kind::Normal, 101);
        made.fields = fields;
        let line = |irq, name: &str, time_ns, count| IrqInterval { irq, name: name.into(), time_ns, count };
        made.irqs = vec![
            line(4, "virtio\x1b[2J", 250_000, 40),
            line(5, "rests", 0, 0),
            line(65_536, "timer", 1_500_000, 500),
        ];
        made.cpus[0].sched.softirq_ns = [0, 3_000, 0, 40_000, 0, 0, 0, 0, 0, 0];
        made.cpus.iter_mut().skip(1).for_each(|cpu| cpu.sched.softirq_ns = [0; 10]);
        app.on_interval(std::sync::Arc::new(made));
        picture(&mut app, 300, 60);
        picture(&mut app, 300, 60)
    };
    let shown = picture_of(Fields::all());
    assert!(shown.contains("irq        timer 500x 1.50ms, virtio"), "{shown}");
    assert!(shown.contains(" 40x 250us") && !shown.contains(['\x1b']) && !shown.contains("rests"), "{shown}");
    assert!(shown.contains("softirq    net_rx 40.0us, timer 3.00us"), "{shown}");
    assert!(!picture_of(Fields::all() - Fields::IRQ).contains("timer 500x"), "not measured");
}
