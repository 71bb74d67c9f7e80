//! CPU limits of control groups on screen: columns only where something has a limit, a word where a quota is used up.

use std::sync::Arc;

use cpumon_model::{CgroupInterval, CpuLimit, Interval, Pressure, ProcessInfo, Throttle};
use cpumon_tui::{App, Options, RowOptions};

use crate::synthetic::{Kind, interval, status};
use crate::{picture, press};

const SIZES: [(u16, u16); 4] = [(40, 15), (80, 24), (120, 40), (300, 60)];
const POSTGRES: &str = "/docker/3f2a9c0d71be86c0ffee4f2a9c0d71be86c0ffee4f2a9c0d71be86c0ffee0123";
const SESSION: &str = "/user.slice/session-4.scope";

fn group(path: &str, millionths: u64, throttled_periods: u64) -> CgroupInterval {
    CgroupInterval {
        path: path.into(),
        limit: CpuLimit::Millionths(millionths),
        limiter_bytes: u16::MAX,
        throttle: Some(Throttle {
            periods: 10,
            throttled_periods,
            throttled_ns: throttled_periods * 79_000_000,
        }),
        pressure: Some(Pressure { some_ns: 400_000_000, full_ns: 0 }),
        ..CgroupInterval::default()
    }
}

/// Postgres uses up its quota, the session has one that is not reached.
fn limited(number: u64) -> Interval {
    let mut made = interval(Kind::Normal, number);
    for row in &mut made.processes {
        let cgroup = match &*row.info.name {
            "postgres" => POSTGRES,
            "bash" | "cargo" | "rustc" => SESSION,
            _ => "/",
        };
        row.info = Arc::new(ProcessInfo { cgroup: cgroup.into(), ..ProcessInfo::clone(&row.info) });
    }
    made.pressure = Some(Pressure { some_ns: 310_000_000, full_ns: 0 });
    made.cgroups = vec![group(POSTGRES, 250_000, 9), group(SESSION, 3_500_000, 0)];
    made
}

fn app(options: &Options) -> App {
    let mut app = App::new(options);
    let machine = status(Kind::Normal);
    app.on_hosts("made up".into(), vec![machine.clone()], Some(machine.info.host));
    (90..=100).for_each(|number| app.on_interval(Arc::new(limited(number))));
    app
}

fn check(name: &str, keys: &str, options: &Options) {
    for (width, height) in SIZES {
        let mut app = app(options);
        picture(&mut app, width, height);
        press(&mut app, keys);
        insta::assert_snapshot!(format!("{name}_{width}x{height}"), picture(&mut app, width, height));
    }
}

fn sorted_by(column: &str) -> Options {
    let sort = Some(column.parse().unwrap());
    Options { rows: RowOptions { sort, ..RowOptions::default() }, ..Options::default() }
}

#[test]
fn the_most_throttled_first_with_its_details() {
    check("throttled", "<Down>", &sorted_by("throttled"));
}

#[test]
fn groups_have_the_limit_of_their_processes() {
    check("limits_of_groups", "ggg", &sorted_by("limit"));
}

/// A sum of several tasks may have several limits.
#[test]
fn the_details_of_one_task_have_its_share_of_the_limit() {
    let details = |keys: &str, sort: &str| {
        let mut app = app(&sorted_by(sort));
        picture(&mut app, 300, 60);
        press(&mut app, keys);
        picture(&mut app, 300, 60)
    };
    let of_process = details("<Down>", "throttled");
    assert!(of_process.contains("CPU limit  7% of 0.25 CPU, set for 3f2a9c0d71be"), "{of_process}");
    let of_group = details("ggg<Down>", "throttled");
    assert!(of_group.contains("CPU limit  0.25 CPU"), "{of_group}");
}

#[test]
fn without_a_limit_there_is_no_column() {
    let mut app = App::new(&sorted_by("limit"));
    let machine = status(Kind::Normal);
    app.on_hosts("made up".into(), vec![machine.clone()], Some(machine.info.host));
    app.on_interval(Arc::new(interval(Kind::Normal, 100)));
    let picture = picture(&mut app, 300, 60);
    assert!(!picture.contains("LIMIT") && !picture.contains("quota"), "{picture}");
}
