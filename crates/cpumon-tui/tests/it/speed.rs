//! Ten thousand threads must not slow the screens down. Bounds are wide: these run unoptimized beside other tests.
//! The measured figures of an optimized build: `cargo test --release -p cpumon-tui --test it speed -- --nocapture`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::synthetic::{Kind, interval};
use crate::{app_of, press, terminal};

/// Turning the order over arranges all rows anew.
fn press_reverse(app: &mut cpumon_tui::App) {
    press(app, "R");
}

/// The fastest of some runs.
fn best(mut work: impl FnMut()) -> Duration {
    let run = |_| {
        let start = Instant::now();
        work();
        start.elapsed()
    };
    (0..7).map(run).min().unwrap_or_default()
}

#[test]
fn ten_thousand_threads() {
    let made = Arc::new(interval(Kind::Many, 101));
    assert_eq!(made.threads.len(), 10_000);
    for keys in ["", "H", "tH", "gH", "HN", "H\\work<Enter>"] {
        let mut app = app_of(Kind::Many);
        press(&mut app, keys);
        let rows = best(|| press_reverse(&mut app));
        let step = best(|| app.on_interval(Arc::clone(&made)));
        let mut terminal = terminal(200, 60);
        let draw = best(|| {
            terminal.draw(|frame| app.draw(frame)).unwrap();
        });
        println!("keys {keys:?}: rows {rows:?}, whole interval {step:?}, drawing {draw:?}");
        assert!(rows < Duration::from_millis(200) && draw < Duration::from_millis(200), "{rows:?} {draw:?}");
    }
}
