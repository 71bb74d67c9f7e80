//! Runs `tests/scenarios-switches/*.toml` through [`Accounts`]: events in, times out. Times are µs.
//!
//! Events: `AT CPU PREV>NEXT [asleep in CALL|ready] [steal=N] [lost=N]`, `AT wake TASK`, `AT born TASK`, `AT end TASK`, `AT moved TASK` (from queue to
//! queue, asleep), `AT seen TASK asleep` (by a pass),
//! `AT CPU irq|softirq begin|end`. Task 0 is idle.

use std::fmt::Write as _;
use std::path::Path;

use cpumon_model::{WaitReason, syscall_number};
use serde::Deserialize;

use super::accounts::{Accounts, Leaves, Mode, Switch, Task, ThreadAccount};

const US: u64 = 1_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Scenario {
    /// Purpose of the scenario; printed when it fails.
    why: String,
    events: Vec<String>,
    /// The instant for which the accounts are compared.
    at: u64,
    expect: String,
}

fn number(text: &str) -> u64 {
    text.parse().unwrap_or_else(|_| panic!("{text} is no number"))
}

fn task(text: &str) -> Task {
    Task(number(text).try_into().unwrap())
}

fn cpu(text: &str) -> u32 {
    number(text.strip_prefix("cpu").expect("cpuN")).try_into().unwrap()
}

fn reason(name: &str) -> WaitReason {
    match name {
        "disk" => WaitReason::DISK,
        "exit" => WaitReason::EXIT,
        call => WaitReason::syscall(syscall_number(call).expect("a system call")),
    }
}

fn apply(accounts: &mut Accounts, out: &mut String, event: &str) {
    let words: Vec<&str> = event.split_whitespace().collect();
    let now = number(words[0]) * US;
    match words[1..] {
        ["wake", who] => accounts.wake(now, task(who)),
        ["moved", who] => accounts.moved(task(who)),
        ["seen", who, "asleep"] => accounts.seen_asleep(task(who)),
        ["born", who] => accounts.born(now, task(who)),
        ["end", who] => {
            let account = accounts.ended(task(who)).expect("a task that began");
            write_thread(out, &format!("ended {who}"), &account);
        }
        [on, "irq", what] => accounts.irq(now, cpu(on), what == "begin"),
        [on, "softirq", what] => accounts.softirq(now, cpu(on), what == "begin"),
        [on, switch, ..] => {
            let (prev, next) = switch.split_once('>').expect("PREV>NEXT");
            let option =
                |name: &str| words.iter().find_map(|word| word.strip_prefix(name)).map(|n| number(n) * US);
            let asleep = words.iter().position(|word| *word == "in").map(|at| reason(words[at + 1]));
            let switch = Switch {
                prev: task(prev),
                leaves: asleep.map_or(Leaves::Ready, Leaves::Asleep),
                next: task(next),
                steal_ns: option("steal=").unwrap_or(0),
                lost_run_ns: option("lost="),
            };
            accounts.switch(now, cpu(on), &switch);
        }
        _ => panic!("cannot read {event}"),
    }
}

fn write_thread(out: &mut String, name: &str, account: &ThreadAccount) {
    let ThreadAccount { run_ns, delay_wakeup_ns, delay_preempt_ns, blocked_ns, .. } = account;
    let us = |ns: u64| ns / US;
    write!(
        out,
        "{name}: run={} woken={} pushed={} blocked={}",
        us(*run_ns),
        us(*delay_wakeup_ns),
        us(*delay_preempt_ns),
        us(*blocked_ns)
    )
    .unwrap();
    for (reason, ns) in account.waits.iter() {
        write!(out, " {}={}", reason.name(), us(ns)).unwrap();
    }
    write!(out, " switches={}/{}", account.voluntary_switches, account.involuntary_switches).unwrap();
    write!(out, " longest={}", us(account.longest_delay_ns)).unwrap();
    if account.unknown_wakeups > 0 {
        write!(out, " unknown_wakeups={}", account.unknown_wakeups).unwrap();
    }
    out.push_str(if account.is_broken { " broken\n" } else { "\n" });
}

fn render(accounts: &Accounts, out: &mut String) {
    for (task, account) in accounts.threads() {
        write_thread(out, &task.0.to_string(), account);
    }
    for (cpu, account) in accounts.cpus() {
        write!(out, "cpu{cpu}:").unwrap();
        let modes = [
            ("run", Mode::Run),
            ("idle", Mode::Idle),
            ("irq", Mode::Irq),
            ("softirq", Mode::Softirq),
            ("steal", Mode::Steal),
            ("unknown", Mode::Unknown),
        ];
        for (name, mode) in modes {
            let ns = account.mode_ns(mode);
            if ns > 0 {
                write!(out, " {name}={}", ns / US).unwrap();
            }
        }
        writeln!(out, " missed={}", account.missed).unwrap();
    }
}

#[test]
fn sched_scenarios() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios-switches");
    let mut failed = String::new();
    let mut count = 0;
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let scenario: Scenario = toml::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let (mut accounts, mut out) = (Accounts::default(), String::new());
        for event in &scenario.events {
            apply(&mut accounts, &mut out, event);
        }
        let first = number(scenario.events[0].split(' ').next().unwrap());
        let at = accounts.as_of(scenario.at * US);
        for (_, account) in at.cpus() {
            let modes = [Mode::Run, Mode::Idle, Mode::Irq, Mode::Softirq, Mode::Steal, Mode::Unknown];
            let sum: u64 = modes.iter().map(|mode| account.mode_ns(*mode)).sum();
            assert!(
                sum <= (scenario.at - first) * US,
                "{}: a CPU has more time than there was",
                path.display()
            );
        }
        render(&at, &mut out);
        if out != scenario.expect {
            write!(
                failed,
                "{}: {}\n--- expected\n{}--- is\n{out}",
                path.display(),
                scenario.why,
                scenario.expect
            )
            .unwrap();
        }
        count += 1;
    }
    assert!(failed.is_empty(), "{failed}");
    assert!(count >= 12, "{count} scenarios");
}
