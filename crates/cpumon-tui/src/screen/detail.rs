//! Details of the selected row, or of the host if none is selected: facts without a column, such as the parent, the
//! start, the container and unusual values.

use cpumon_model::{
    CgroupNames, ColumnId, Fields, Flags, Interval, Life, ProcessInterval, SOFTIRQ_KINDS, ThreadInterval,
    Value,
};
use cpumon_query::GroupBy;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use crate::app::{App, Clock};
use crate::cells::{Cells, NONE};
use crate::rows::{Item, RowGroup, RowId, RowKind};
use crate::screen::health::{about_limits, events_per_sec, losses, pressure};
use crate::text::{ago, percent, rate, safe, seconds, short, total, wrap};
use crate::theme::Theme;
use crate::view::Col;

const COMMAND: &str = "command";

type Entry = (&'static str, String);

/// Draws as many lines as fit; a long value continues in the next line.
pub(crate) fn draw(app: &App, area: Rect, buffer: &mut Buffer) {
    let Some(shown) = &app.shown else { return };
    let entries = entries(app, shown);
    let (label_width, columns) = (11, usize::from(area.width));
    let value_width = columns.saturating_sub(label_width).max(1);
    let mut y = area.y;
    for (label, value) in entries {
        // A long command line must not hide the measured values.
        let most = if label == COMMAND { (area.height / 2).max(1) } else { area.height };
        let most = usize::from(most.min(area.bottom().saturating_sub(y)));
        let x = area.x + u16::try_from(label_width.min(columns)).unwrap_or(0);
        for (nth, line) in wrap(&value, value_width, most, app.theme.cut()).iter().take(most).enumerate() {
            let label = if nth == 0 { label } else { "" };
            buffer.set_stringn(area.x, y, label, label_width - 1, Theme::dim());
            buffer.set_stringn(x, y, line, value_width, Style::new());
            y += 1;
        }
    }
}

fn entries(app: &App, shown: &Interval) -> Vec<Entry> {
    if app.cursor.selected.is_none() {
        return host(app, shown);
    }
    let row = app.rows.rows.get(app.cursor.at).filter(|_| app.cursor.is_present);
    let Some(item) = row.and_then(|row| app.rows.item(shown, row)) else {
        return vec![("", why_absent(app, shown).into())];
    };
    let cells = Cells::new(shown, &app.view, app.theme, None);
    let mut entries = match item {
        Item::Group(group) => about_group(group, app.view.group_by, shown),
        Item::Process(process) => about_process(app, &cells, process),
        Item::Thread(thread) => about_thread(app, &cells, thread),
    };
    let mut counters = counters(&cells, &item);
    // Beside the run delay: both are time in which it could have run.
    counters.splice(2..2, about_limits(&cells, &item));
    entries.splice(1..1, counters);
    if let Some(RowKind::Branch(at)) = row.map(|row| row.kind)
        && let Some(branch) = app.rows.branches.get(at as usize)
    {
        entries.insert(
            1,
            ("sums", format!("times, switches and waits of it and {} processes below it", branch.below)),
        );
    }
    if let Item::Process(process) = item
        && !process.info.cmdline.is_empty()
    {
        entries.insert(1, (COMMAND, safe(&process.info.cmdline)));
    }
    entries
}

/// Why the selected task is not among the rows.
fn why_absent(app: &App, shown: &Interval) -> &'static str {
    let is_there = match app.cursor.selected.as_ref() {
        Some(RowId::Process(key)) => shown.process(*key).is_some(),
        Some(RowId::Thread(key)) => shown.threads.binary_search_by_key(key, |row| row.key).is_ok(),
        _ => false,
    };
    let is_thread = matches!(app.cursor.selected, Some(RowId::Thread(_)));
    match (is_there, is_thread) {
        (true, true) if !app.view.threads => "This view shows no threads; H shows them.",
        (true, false) if app.view.is_flat_threads() => "This view shows threads only; H shows processes.",
        (true, _) => "Hidden by a filter or by this view.",
        (false, _) => {
            "The selected task has no row in this interval: it was idle, had not begun or has ended."
        }
    }
}

fn host(app: &App, shown: &Interval) -> Vec<Entry> {
    let mut entries = Vec::new();
    if let Some(status) = app.status() {
        let info = &status.info;
        entries.push(("kernel", format!("{} {}", safe(&info.kernel), safe(&info.arch))));
        entries.push(("CPUs", format!("{}", info.cpu_count)));
        entries.push(("agent", safe(&info.agent)));
        entries.push(("source", safe(&info.source_reason)));
    }
    let health = &shown.health;
    let own_cpu = total(i64::try_from(health.own_cpu_ns).unwrap_or(i64::MAX));
    let own_mib = health.own_rss_bytes as f64 / f64::from(1 << 20);
    entries.push(("own cost", format!("{own_cpu} CPU since its start, {own_mib:.1} MiB")));
    if let Some(events) = events_per_sec(shown) {
        let probes: Vec<_> = health.probes.iter_names().map(|(name, _)| name.to_ascii_lowercase()).collect();
        let probes = if probes.is_empty() { NONE.into() } else { probes.join(", ") };
        entries.push(("probes", format!("{probes}; {} events/s", rate(events))));
    }
    let loss = app.status().map(|status| status.loss).unwrap_or_default();
    let lost = losses(&loss, health, |_| true).join(", ");
    entries.push((
        "losses",
        if lost.is_empty() { lost } else { format!("{lost} (since the start; ? explains)") },
    ));
    entries.extend(shown.pressure.map(|host| ("pressure", pressure(shown, host))));
    entries.push(("last pass", format!("{:.2} ms", shown.pass_ns as f64 / 1e6)));
    entries.extend(interrupts(shown));
    entries.retain(|entry| !entry.1.trim().is_empty());
    entries
}

/// Interrupts by line and soft interrupts by kind, the longest first; those that took no time are left out.
fn interrupts(shown: &Interval) -> Vec<Entry> {
    if !shown.fields.contains(Fields::IRQ) {
        return Vec::new();
    }
    let named = |rows: &mut Vec<(u64, String)>| {
        rows.retain(|row| row.0 > 0);
        rows.sort_by_key(|row| std::cmp::Reverse(row.0));
        let texts = rows.iter().map(|(ns, text)| {
            let ns = i64::try_from(*ns).unwrap_or(i64::MAX);
            format!("{text} {}", short(ns))
        });
        texts.collect::<Vec<_>>().join(", ")
    };
    let lines = shown.irqs.iter().map(|irq| (irq.time_ns, format!("{} {}x", safe(&irq.name), irq.count)));
    let kinds = SOFTIRQ_KINDS.iter().zip(shown.cpu_sched().softirq_ns);
    let kinds = kinds.map(|(name, ns)| (ns, (*name).to_string()));
    vec![("irq", named(&mut lines.collect())), ("softirq", named(&mut kinds.collect()))]
}

fn counters(cells: &Cells<'_>, item: &Item<'_>) -> Vec<Entry> {
    let time = |id| cells.int(item, id).map_or(NONE.to_string(), |ns| format!("{} s", seconds(ns)));
    let count = |id| cells.int(item, id).map_or(NONE.to_string(), |count: i64| count.to_string());
    let plain = |id| cells.int(item, id).map_or(NONE.to_string(), seconds);
    let run = format!(
        "{} ({} user, {} system)",
        time(ColumnId::RunNs),
        plain(ColumnId::UserNs),
        plain(ColumnId::SystemNs)
    );
    let switches = format!(
        "{} to wait, {} pushed off",
        count(ColumnId::VoluntarySwitches),
        count(ColumnId::InvoluntarySwitches)
    );
    let mut entries = vec![("run time", run), ("run delay", run_delay(cells, item)), ("switches", switches)];
    entries.extend(delays(cells, item).map(|text| ("delays", text)));
    if cells.interval.fields.contains(Fields::SCHED) {
        let [wakeups, migrations] = [ColumnId::Wakeups, ColumnId::Migrations].map(count);
        entries.push(("wakeups", format!("{wakeups}; moved to another CPU {migrations} times")));
        let is_known = cells.int(item, ColumnId::BlockedNs).is_some();
        entries.push(("blocked", if is_known { blocked(cells, item) } else { NONE.into() }));
    }
    entries
}

fn run_delay(cells: &Cells<'_>, item: &Item<'_>) -> String {
    let Some(delay) = cells.int(item, ColumnId::RunDelayNs) else { return NONE.into() };
    let parts = [ColumnId::DelayAfterWakeupNs, ColumnId::LongestRunDelayNs].map(|id| cells.int(item, id));
    match parts {
        [Some(woken), Some(longest)] => {
            format!("{} s ({} s after wakeups), longest {}", seconds(delay), seconds(woken), short(longest))
        }
        _ => format!("{} s", seconds(delay)),
    }
}

/// Percentiles of the run delays, if the source has histograms.
fn delays(cells: &Cells<'_>, item: &Item<'_>) -> Option<String> {
    if !cells.interval.fields.contains(Fields::HISTOGRAMS) || cells.is_sum(item) {
        return None;
    }
    let parts = [
        ("p50", ColumnId::RunDelayP50Ns),
        ("p90", ColumnId::RunDelayP90Ns),
        ("p99", ColumnId::RunDelayP99Ns),
        ("max", ColumnId::RunDelayMaxNs),
    ];
    let known =
        parts.iter().filter_map(|(name, id)| Some(format!("{name} {}", short(cells.int(item, *id)?))));
    let known: Vec<String> = known.collect();
    Some(match item {
        _ if !known.is_empty() => known.join(", "),
        Item::Thread(_) => "no histogram of this thread (--histogram-threads)".into(),
        _ => "none ended".into(),
    })
}

fn blocked(cells: &Cells<'_>, item: &Item<'_>) -> String {
    let sched = item.sched();
    let mut reasons: Vec<_> =
        sched.waits.iter().filter(|_| cells.interval.fields.contains(Fields::WAITS)).collect();
    reasons.sort_unstable_by_key(|(reason, ns)| (std::cmp::Reverse(*ns), *reason));
    let reasons = reasons.into_iter().map(|(reason, ns)| {
        format!("{} {}", reason.words_and_name(), short(i64::try_from(ns).unwrap_or(i64::MAX)))
    });
    let reasons: Vec<String> = reasons.collect();
    let mut text = format!("{} s", seconds(sched.blocked_ns));
    if !reasons.is_empty() {
        text = format!("{text}: {}", reasons.join(", "));
    }
    if sched.open_wait.is_some() {
        text = format!("{text}; now {}", sched.open_wait.words_and_name());
    }
    text
}

fn about_group(group: &RowGroup, by: GroupBy, shown: &Interval) -> Vec<Entry> {
    let pids: Vec<String> = group.rows(shown).take(100).map(|row| row.key.pid.to_string()).collect();
    vec![
        (by.name(), format!("{}, {} processes", safe(&group.name), group.processes.len())),
        ("threads", group.thread_rows.to_string()),
        ("pids", pids.join(" ")),
    ]
}

fn about_process(app: &App, cells: &Cells<'_>, process: &ProcessInterval) -> Vec<Entry> {
    let item = Item::Process(process);
    let info = &process.info;
    let mut entries = vec![
        ("process", format!("{} {}", process.key.pid, safe(&info.name))),
        ("parent", parent(cells, process)),
        ("user", user(cells, &item)),
        ("started", started(app, cells.interval, process.key.start_ns)),
        ("threads", process.thread_rows.to_string()),
    ];
    entries.extend(average(app, cells, &item));
    entries.extend(cells.scheduling(&item).map(|words| ("scheduled", words)));
    let of_windows = [
        info.session.map(|number| number.to_string()),
        info.priority_class().map(|class| format!("priority {class}")),
        (!info.product.is_empty()).then(|| format!("product {}", safe(&info.product))),
    ];
    let of_windows: Vec<String> = of_windows.into_iter().flatten().collect();
    if !of_windows.is_empty() {
        entries.push(("session", of_windows.join(", ")));
    }
    entries.extend(oddities(process.life, process.flags));
    let names = CgroupNames::of(&info.cgroup);
    let (service, container, pod) = (names.service(), names.container(), names.pod());
    // Hosts that send no path have only the container's name.
    let container = if info.cgroup.is_empty() { &*info.container } else { &container };
    for (label, text) in [
        ("runs in", &*info.interpreter),
        ("service", &service),
        ("container", container),
        ("pod", &pod),
        ("cgroup", &info.cgroup),
    ] {
        if !text.is_empty() {
            entries.push((label, safe(text)));
        }
    }
    entries
}

fn about_thread(app: &App, cells: &Cells<'_>, thread: &ThreadInterval) -> Vec<Entry> {
    let item = Item::Thread(thread);
    let owner = cells.interval.process(thread.process).map_or(String::new(), |row| safe(&row.info.name));
    let text = |id| match cells.value(&item, id) {
        Value::Int(number) => number.to_string(),
        Value::Text(text) => text.into_owned(),
        _ => NONE.into(),
    };
    // Hosts that measure neither have neither on screen.
    let and = |name: &str, id| {
        if cells.interval.source.is_windows() { String::new() } else { [name, &text(id)].concat() }
    };
    let mut entries = vec![
        ("thread", format!("{} {}", thread.key.tid, cells.text(&item, Col::Name))),
        ("process", format!("{} {owner}", thread.process.pid)),
        ("started", started(app, cells.interval, thread.key.start_ns)),
        ("state", text(ColumnId::State) + &and(", last on CPU ", ColumnId::LastCpu)),
        ("priority", text(ColumnId::Priority) + &and(", nice ", ColumnId::Nice)),
    ];
    entries.extend(average(app, cells, &item));
    entries.extend(cells.scheduling(&item).map(|words| ("scheduled", words)));
    entries.extend(oddities(thread.life, thread.flags));
    entries
}

fn parent(cells: &Cells<'_>, process: &ProcessInterval) -> String {
    let mut rows = cells.interval.processes.iter();
    match rows.find(|row| row.key.pid == process.parent_pid) {
        _ if process.parent_pid == 0 => NONE.into(),
        Some(parent) => format!("{} {}", process.parent_pid, safe(&parent.info.name)),
        None => process.parent_pid.to_string(),
    }
}

fn user(cells: &Cells<'_>, item: &Item<'_>) -> String {
    let name = cells.text(item, Col::User);
    match cells.int(item, ColumnId::Uid) {
        Some(uid) if uid.to_string() != name => format!("{name} ({uid})"),
        _ => name,
    }
}

/// When a task began and how long before the end of the interval: `14:05:27, 14 s ago`; with the day if that is another one.
fn started(app: &App, shown: &Interval, start_ns: u64) -> String {
    let end = shown.end;
    if start_ns == 0 || end.boot_ns == 0 {
        return NONE.into();
    }
    let before_ns = end.boot_ns.saturating_sub(start_ns);
    let began_wall_ns = end.wall_ns.saturating_sub(i64::try_from(before_ns).unwrap_or(i64::MAX));
    let [began, now] = [began_wall_ns, end.wall_ns].map(|wall_ns| app.time_text(wall_ns));
    let clock = match (began.split_once(' '), now.split_once(' ')) {
        // The time zone of both is in the header.
        (Some((day, clock)), Some((today, _))) if day == today => {
            clock.split(' ').next().unwrap_or(clock).trim_end_matches('Z')
        }
        _ => &began,
    };
    let is_now = app.clock == Clock::Live && app.playback.is_none();
    let before = if is_now { "ago" } else { "earlier" };
    format!("{clock}, {} {before}", ago(before_ns / 1_000_000_000))
}

/// Utilization since the start of a task that began while the screens were open: intervals have no earlier run time.
fn average(app: &App, cells: &Cells<'_>, item: &Item<'_>) -> Option<Entry> {
    // Totals include everything until now: next to a moment in the past they would be wrong.
    let is_known = app.clock == Clock::Live && cells.interval.fields.contains(Fields::RUN);
    let life = app.seen.life_pct(cells.interval, item).filter(|_| is_known && !cells.is_sum(item))?;
    Some(("on average", format!("{}% of a CPU since its start", percent(life, false))))
}

fn oddities(life: Life, flags: Flags) -> Vec<Entry> {
    let life = match life {
        Life::Alive => None,
        Life::Born => Some("began in this interval"),
        Life::Ended => Some("ended in this interval"),
        Life::BornEnded => Some("began and ended in this interval"),
    };
    let odd = [
        (Flags::COUNTER_RESET, "a counter decreased: counted from its new value"),
        (Flags::FIRST_SIGHT, "first seen here: earlier counters are unknown"),
        (Flags::NO_FINAL_COUNTERS, "ended without final counters: its last work is unknown"),
        (Flags::IMPOSSIBLE, "an impossible value"),
        (Flags::UNWATCHED, "hidden from scheduler events, read from /proc: no wakeups, no blocked time"),
        (Flags::SUMMED, "no process: the sum of threads that ended and have no rows of their own"),
    ];
    let odd = odd.into_iter().filter(|row| flags.contains(row.0)).map(|row| ("note", row.1.to_string()));
    life.map(|text| ("life", text.to_string())).into_iter().chain(odd).collect()
}
