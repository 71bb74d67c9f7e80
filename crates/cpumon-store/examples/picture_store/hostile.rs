//! A host whose every name is what somebody would send to break a page, and 50,000 programs, users and containers in half a minute.

use std::sync::Arc;

use cpumon_model::{Delta, HostId, Interval, Life, ProcessInfo, ProcessInterval, ProcessKey};
use cpumon_store::Writer;

use crate::{SECOND, account, blank, moment, put};

const SECONDS: u64 = 25;
/// Short-lived processes of a second, each with a name of its own: 50,000 in all.
const EACH_SECOND: u64 = 2_000;

/// Markup, SQL, a formula, text that runs backwards, a tower of accents, nothing, blanks, line ends, a path, a very long word.
fn names() -> Vec<String> {
    let plain = [
        "<img src=x onerror=\"document.title=`owned`\">",
        "'; DROP TABLE process--",
        "=cmd()",
        "\u{202e}gnp.exe",
        "",
        "   ",
        "a\nb\tc\u{1b}[31m",
        "../../etc/passwd?x=1&y#z",
        "javascript:alert(1)",
        "{{7*7}}",
        "__proto__",
    ];
    let accents = format!("Z{}", "\u{301}".repeat(255));
    plain.into_iter().map(String::from).chain([accents, "W".repeat(1_000)]).collect()
}

/// A process that ran for so long; its user, service and container have its name too.
fn process(pid: u32, name: &str, run_ns: i64, life: Life) -> ProcessInterval {
    let info = ProcessInfo {
        name: name.into(),
        comm: name.into(),
        cgroup: format!("/system.slice/{name}.service").into(),
        container: name.into(),
        uid: pid,
        user: name.into(),
        ..ProcessInfo::default()
    };
    ProcessInterval {
        key: ProcessKey { pid, start_ns: 42 },
        parent_pid: 1,
        info: Arc::new(info),
        thread_rows: 1,
        life,
        delta: Delta { user_ns: run_ns, run_ns, ..Delta::default() },
        ..ProcessInterval::default()
    }
}

fn interval(host: u8, names: &[String], second: u64) -> Interval {
    let mut processes: Vec<_> =
        (100..).zip(names).map(|(pid, name)| process(pid, name, 10_000_000, Life::Alive)).collect();
    if host == 1 {
        let first = (second - 1) * EACH_SECOND;
        processes.extend((first..first + EACH_SECOND).map(|nth| {
            let pid = u32::try_from(10_000 + nth).unwrap_or(0);
            process(pid, &format!("program-{nth:05}"), 100_000, Life::BornEnded)
        }));
    }
    let mut one = blank(HostId([host; 16]), host, second, [moment(second - 1), moment(second)]);
    (one.thread_count, one.process_count, one.processes) = (2_013, 2_013, processes);
    account(&mut one, 2 * SECOND.cast_signed());
    one
}

/// The first host has 50,000 groups; of each name there is a host more.
pub fn make(writer: &mut Writer) -> Result<(), Box<dyn std::error::Error>> {
    let names = names();
    for (host, name) in (1..).zip(&names) {
        for second in 1..=if host == 1 { SECONDS } else { 2 } {
            put(writer, name, name, &interval(host, &names, second))?;
        }
    }
    Ok(())
}
