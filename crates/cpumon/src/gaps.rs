//! `cpumon gaps`: the holes in the time of hosts, with their reasons.

use std::io::Write;

use anyhow::Context;
use cpumon_model::escape;
use cpumon_query::Gap;
use cpumon_query::fields::Field;
use cpumon_query::json::Gaps;
use cpumon_query::text::{decimal, name_text};
use cpumon_query::time::Page;

use crate::cli::{Format, GapsArgs};
use crate::columns::write_rows;
use crate::exit::Outcome;
use crate::past::{Past, answered};
use crate::when;

/// A hole of a host.
struct Hole<'g> {
    host: &'g Gaps,
    gap: &'g Gap,
}

/// `cpumon gaps`.
pub(crate) fn gaps(args: &GapsArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let past = Past::open(&args.past)?;
    let found = past.gaps(&args.host, args.range.time_range()?, Page::ALL);
    let Some(hosts) = answered(found)? else { return Ok(Outcome::DataMissing) };
    let holes: Vec<Hole<'_>> =
        hosts.iter().flat_map(|host| host.gaps.iter().map(move |gap| Hole { host, gap })).collect();
    if holes.is_empty() && args.format.get() == Format::Table {
        writeln!(out, "no gaps").context("cannot write the gaps")?;
    } else {
        write_rows(args.format.get(), &fields(), &holes, out).context("cannot write the gaps")?;
    }
    Ok(past.end(Outcome::Done))
}

/// `1.3 s`, `12 min`.
fn length(ns: i64) -> String {
    let seconds = ns.max(0).unsigned_abs() / 1_000_000_000;
    if seconds < 120 { format!("{} s", decimal(ns as f64 / 1e9, 1)) } else { cpumon_tui::ago(seconds) }
}

fn fields<'g>() -> Vec<Field<'static, Hole<'g>>> {
    let length_ns = |gap: &Gap| gap.end_wall_ns.saturating_sub(gap.begin_wall_ns);
    vec![
        Field::text("host", |hole: &Hole<'g>| Some((&*hole.host.name).into()))
            .titled("HOST", 0)
            .shows(|hole| name_text(&hole.host.name)),
        Field::text("host_id", |hole: &Hole<'g>| Some(hole.host.host.to_string().into())),
        Field::int("begin_ns", |hole: &Hole<'g>| hole.gap.begin_wall_ns)
            .titled("BEGIN", 0)
            .shows(|hole| when::show(hole.gap.begin_wall_ns))
            .or_short(|hole| when::show_clock(hole.gap.begin_wall_ns, false)),
        Field::int("end_ns", |hole: &Hole<'g>| hole.gap.end_wall_ns)
            .titled("END", 3)
            .shows(|hole| when::show(hole.gap.end_wall_ns)),
        Field::int("length_ns", move |hole: &Hole<'g>| length_ns(hole.gap))
            .titled("LENGTH", 0)
            .shows(move |hole| length(length_ns(hole.gap))),
        Field::int("wall_shift_ns", |hole: &Hole<'g>| hole.gap.wall_shift_ns),
        // 0: they were not counted.
        Field::count("missing_intervals", |hole: &Hole<'g>| {
            Some(hole.gap.intervals).filter(|count| *count > 0)
        })
        .titled("MISSING", 1),
        Field::text("reason", |hole: &Hole<'g>| Some((&*hole.gap.reason).into()))
            .titled("REASON", 2)
            .shows(|hole| escape(&hole.gap.reason).to_string()),
    ]
}
