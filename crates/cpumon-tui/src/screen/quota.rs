//! CPU limits in words. A quota that is used up slows its tasks down, and no run queue shows it.

use cpumon_model::{CgroupInterval, CgroupNames, GroupLimits, Interval, Pressure, Throttle};

use crate::columns::Cells;
use crate::rows::Item;
use crate::text::{clip, percent, safe, seconds};

/// Longest name of a group in the header.
const NAME_COLUMNS: usize = 24;

fn seconds_of(ns: u64) -> String {
    format!("{} s", seconds(i64::try_from(ns).unwrap_or(i64::MAX)))
}

/// What people call the group that has the limit: its container or service, else its path.
fn name_of(row: &CgroupInterval) -> String {
    let path = row.limiter();
    let name = CgroupNames::of(path).container_or_service();
    safe(if name.is_empty() { path } else { &name })
}

/// The limit that cost most time in the interval, and how many others were reached. `None`: none was.
pub(crate) fn used_up(shown: &Interval, cut: char) -> Option<String> {
    let rows = shown.throttled();
    let (first, others) = rows.split_first()?;
    let share = first.throttle.and_then(Throttle::percent)?;
    let name = clip(&name_of(first), NAME_COLUMNS, cut);
    let others = if others.is_empty() { String::new() } else { format!(" and {} more", others.len()) };
    Some(format!("quota used up: {name} in {share:.0}% of periods{others}"))
}

/// Pressure as the share of the interval in which something waited for a CPU.
pub(crate) fn pressure(shown: &Interval, pressure: Pressure) -> String {
    let share = i64::try_from(pressure.some_ns).ok().and_then(|ns| shown.cpu_pct(ns));
    let share = share.map_or(String::new(), |share| format!(" ({}% of the interval)", percent(share, false)));
    format!("something waited for a CPU for {}{share}", seconds_of(pressure.some_ns))
}

/// The limit of a row, how it was reached, and its pressure; nothing where there is neither.
pub(crate) fn about(cells: &Cells<'_>, item: &Item<'_>) -> Vec<(&'static str, String)> {
    let Some(limits) = cells.limits(item) else { return Vec::new() };
    let mut entries = Vec::new();
    if let Some(cpus) = limits.limit.cpus() {
        let by = limiter(cells.interval, item).map_or(String::new(), |name| format!(", set for {name}"));
        entries.push(("CPU limit", format!("{} CPU{by}", percent(cpus, true))));
        entries.push(("throttled", throttled(&limits)));
    }
    let of_group = limits.pressure.map(|some| pressure(cells.interval, some));
    entries.extend(of_group.map(|text| ("pressure", text)));
    entries
}

fn throttled(limits: &GroupLimits) -> String {
    let Some(throttle) = limits.throttle else { return "not known yet".into() };
    let Throttle { periods, throttled_periods, throttled_ns } = throttle;
    format!("{}, quota used up in {throttled_periods} of {periods} periods", seconds_of(throttled_ns))
}

/// Name of the group that has the limit; a group of rows may have several.
fn limiter(interval: &Interval, item: &Item<'_>) -> Option<String> {
    let process = match item {
        Item::Group(_) => return None,
        Item::Process(process) => *process,
        Item::Thread(thread) => interval.process(thread.process)?,
    };
    interval.cgroup(&process.info.cgroup).map(name_of)
}

#[cfg(test)]
mod tests {
    use cpumon_model::CpuLimit;

    use super::*;

    fn group(path: &str, throttled_periods: u64) -> CgroupInterval {
        CgroupInterval {
            path: path.into(),
            limit: CpuLimit::Millionths(500_000),
            limiter_bytes: u16::MAX,
            throttle: Some(Throttle { periods: 10, throttled_periods, throttled_ns: throttled_periods * 7 }),
            ..CgroupInterval::default()
        }
    }

    #[test]
    fn only_a_limit_that_was_reached_is_in_the_header() {
        let shown = |cgroups| Interval { cgroups, ..Interval::default() };
        assert_eq!(used_up(&shown(vec![group("/a", 0)]), '~'), None);
        let one = shown(vec![group("/system.slice/web.service", 4), group("/b", 0)]);
        assert_eq!(used_up(&one, '~').unwrap(), "quota used up: web.service in 40% of periods");
        let two = shown(vec![group("/a", 3), group("/a\u{1b}[2J-name-that-is-longer-than-others", 9)]);
        let text = used_up(&two, '~').unwrap();
        assert_eq!(text, "quota used up: /a\\x1b[2J-name-that-is-~ in 90% of periods and 1 more");
    }
}
