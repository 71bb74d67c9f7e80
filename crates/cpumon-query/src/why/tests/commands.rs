//! Suggested commands: they ask about the same machine and time, and nothing from outside becomes one.

use cpumon_model::{CgroupInterval, CpuLimit, HostInfo, HostStatus, Trust, WaitKind, WaitedOn};

use super::super::compose::same_question;
use super::causes::kinds;
use super::scene::{BEGIN_NS, SECOND_NS, Scene, host, limit, on, syscall, why_shop};
use crate::time::TimeRange;

const SPAN: &str = "--since 2027-01-15T08:00:10Z --until 2027-01-15T08:00:20Z";

#[test]
fn commands_ask_about_the_same_machine_and_time() {
    let range = |since_ns: i64, until_ns: i64| TimeRange { since_ns, until_ns };
    let now = range(BEGIN_NS + 10 * SECOND_NS, BEGIN_NS + 20 * SECOND_NS);
    assert_eq!(same_question(&host(), now), format!(" {SPAN}"), "this machine needs no name");
    let remote = |name: &str| {
        let info = HostInfo { hostname: name.into(), ..host().info };
        HostStatus { info, trust: Trust::Authenticated, ..HostStatus::default() }
    };
    assert_eq!(same_question(&remote("web1"), now), format!(" --host web1 {SPAN}"));
    let by_id = format!(" --host {} {SPAN}", host().info.host);
    assert_eq!(same_question(&remote("x;rm -rf ~"), now), by_id, "its name would be a command");
    // A day of whole minutes around a range that began in the midst of one: a day is the most that is explained.
    let day = range(BEGIN_NS - 86_460 * SECOND_NS, BEGIN_NS - 1);
    let asked = same_question(&host(), day);
    assert_eq!(asked, " --since 2027-01-14T08:00:00Z --until 2027-01-15T08:00:00Z");

    let scene =
        Scene::busy().with(1, "shop", 15, 5).with(2, "db", 900, 80).waits(1, syscall("read"), on(2), 940);
    let why = why_shop(&scene);
    assert!(why.more.contains(&format!("cpumon why db {SPAN}")), "{:?}", why.more);
    let healthy = why_shop(&Scene::new().with(1, "shop", 15, 5));
    assert!(healthy.action.ends_with(&format!("cpumon why CALLER {SPAN}")), "{}", healthy.action);
    let mut unnamed = Scene::busy().with(1, "shop", 90, 880);
    unnamed = unnamed.waits(1, WaitKind::Ready, WaitedOn::Others, 880);
    let why = why_shop(&unnamed);
    assert_eq!(why.causes[0].command, Some(format!("cpumon report {SPAN}")), "{:?}", why.causes);
}

#[test]
fn a_hostile_name_is_no_command() {
    let scene = Scene::busy().with(1, "shop", 15, 5).with(2, "x;rm -rf ~", 900, 80);
    let why = why_shop(&scene.waits(1, syscall("read"), on(2), 940));
    assert_eq!((kinds(&why), &why.causes[0].command), (vec!["peer"], &None));
    assert!(why.more.iter().all(|command| !command.contains("rm -rf")), "{:?}", why.more);
}

/// An agent in a cgroup namespace of its own sees the groups beside it below `/..`.
#[test]
fn a_limit_outside_the_file_system_of_groups_has_no_command() {
    for (group, command) in [
        ("/scen", Some("echo max > /sys/fs/cgroup/scen/cpu.max")),
        ("/../../etc/cron.d", None),
        ("/a/../../../etc", None),
        ("scen", None),
        ("/a;reboot", None),
        ("/../pod/x.service", Some("systemctl set-property --runtime x.service CPUQuota=40%")),
    ] {
        let scene = Scene { limit: Some(limit(group, 700)), ..Scene::new() }
            .with(1, "shop", 200, 720)
            .but(|program| program.cgroup = group)
            .waits(1, WaitKind::Throttled, WaitedOn::Others, 700);
        let why = why_shop(&scene);
        assert_eq!(kinds(&why), ["quota"], "{group}");
        assert_eq!(why.causes[0].command.as_deref(), command, "{group}");
    }
}

/// `renice 10` of one that has nice 10 changes nothing.
#[test]
fn who_goes_last_already_is_left_as_it_is() {
    for (nice, command, action) in [
        (0, Some("renice 10 -p $(ls /proc/2/task)"), "Stop indexer (pid 2) or move it, or let it go last."),
        (10, Some("renice 19 -p $(ls /proc/2/task)"), "Stop indexer (pid 2) or move it, or let it go last."),
        (19, None, "Stop indexer (pid 2) or move it."),
    ] {
        let scene = Scene::busy()
            .with(1, "shop", 90, 880)
            .whose_thread(|thread| thread.nice = nice)
            .with(2, "indexer", 1_800, 0)
            .whose_thread(|thread| thread.nice = nice)
            .waits(1, WaitKind::Ready, on(2), 880);
        let why = why_shop(&scene);
        assert_eq!(kinds(&why), ["saturated"], "{nice}");
        assert_eq!((why.causes[0].command.as_deref(), &*why.causes[0].action), (command, action), "{nice}");
    }
}

#[test]
fn a_tiny_limit_is_not_raised_to_none() {
    let group = "/x.service";
    let tiny = CgroupInterval { limit: CpuLimit::Millionths(1_000), ..limit(group, 700) };
    let scene = Scene { limit: Some(tiny), ..Scene::new() }
        .with(1, "shop", 200, 720)
        .but(|program| program.cgroup = group)
        .waits(1, WaitKind::Throttled, WaitedOn::Others, 700);
    let command = "systemctl set-property --runtime x.service CPUQuota=1%";
    assert_eq!(why_shop(&scene).causes[0].command.as_deref(), Some(command));
}
