//! Cost of a screen of 10,000 threads in 2,000 processes, for each way of listing them: `cargo bench -p cpumon-tui`. Out:
//! one line for each way, the fastest of 20 runs: arranging the rows, processing a whole interval, drawing 200 x 60.

#[path = "../examples/synthetic/mod.rs"]
#[expect(dead_code, reason = "only the demo uses all of it")]
mod synthetic;

use std::sync::Arc;
use std::time::{Duration, Instant};

use cpumon_tui::{App, Options};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use synthetic::{Kind, interval, status};

const RUNS: u32 = 20;
/// The name of a way, and the keys that lead there from the start; `\n` is Enter.
const WAYS: [(&str, &str); 5] =
    [("list", ""), ("threads", "H"), ("tree with threads", "tH"), ("groups", "gH"), ("filter", "H\\work\n")];

fn press(app: &mut App, keys: &str) {
    for key in keys.chars() {
        let code = if key == '\n' { KeyCode::Enter } else { KeyCode::Char(key) };
        app.on_key(KeyEvent::new(code, KeyModifiers::NONE));
    }
}

fn best(mut work: impl FnMut()) -> Duration {
    let run = |_| {
        let start = Instant::now();
        work();
        start.elapsed()
    };
    (0..RUNS).map(run).min().unwrap_or_default()
}

fn main() -> std::io::Result<()> {
    let made = Arc::new(interval(Kind::Many, 101));
    println!("{} threads in {} processes", made.threads.len(), made.processes.len());
    for (name, keys) in WAYS {
        let mut app = App::new(&Options::default());
        let host = status(Kind::Many);
        app.on_hosts("made up".into(), vec![host.clone()], Some(host.info.host));
        app.on_interval(Arc::new(interval(Kind::Many, 100)));
        press(&mut app, keys);
        // Reversing the order arranges all rows again.
        let rows = best(|| press(&mut app, "R"));
        let whole = best(|| app.on_interval(Arc::clone(&made)));
        let mut terminal = Terminal::new(TestBackend::new(200, 60)).map_err(std::io::Error::other)?;
        let draw = best(|| {
            // A test backend cannot fail.
            let _ = terminal.draw(|frame| app.draw(frame));
        });
        println!("{name:<18} rows {rows:>9.2?}   interval {whole:>9.2?}   drawing {draw:>9.2?}");
    }
    Ok(())
}
