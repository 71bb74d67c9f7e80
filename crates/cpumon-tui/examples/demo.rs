//! The screens over made-up data: `cargo run -p cpumon-tui --example demo [-- --batch | --json | --silent | --panic]`.
//! In: nothing. Out: a screen whose figures are the same in each run. Why: to see the screens without a machine to
//! measure; the session test in `tests/it` drives it inside tmux.

#[path = "synthetic/mod.rs"]
mod synthetic;

use std::time::Duration;

use cpumon_tui::{BatchFormat, BatchOptions, Options, RowOptions, TimeWords, batch, run};
use synthetic::{EPOCH_NS, Kind, MadeUp};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let has = |name: &str| args.iter().any(|arg| arg == name);
    let kind = if has("--many") {
        Kind::Many
    } else if has("--hostile") {
        Kind::Hostile
    } else if has("--v1") {
        Kind::NoFields
    } else {
        Kind::Normal
    };
    let mut feed = MadeUp::new(kind, Duration::from_millis(250));
    feed.is_silent = has("--silent");
    feed.panics_at = has("--panic").then_some(5);
    if has("--batch") || has("--json") {
        let format = if has("--json") { BatchFormat::Json } else { BatchFormat::Text };
        let rows = RowOptions { threads: has("-H"), ..RowOptions::default() };
        let options = BatchOptions { iterations: Some(2), format, rows, ..BatchOptions::default() };
        batch(&mut feed, &options, &mut std::io::stdout())?;
    } else {
        let time = TimeWords { parse: parse_time, ..TimeWords::default() };
        run(&mut feed, &Options { time, ..Options::default() })?;
    }
    Ok(())
}

/// Seconds since the beginning.
fn parse_time(text: &str, _shown_wall_ns: Option<i64>) -> Result<i64, String> {
    let error = || format!("{text:?} is not a time: expected seconds since 14:05");
    text.trim().parse::<i64>().map(|second| EPOCH_NS + second * 1_000_000_000).map_err(|_| error())
}
