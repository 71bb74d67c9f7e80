//! The scenarios of the live accounting (`crates/cpumon-collect/tests/scenarios-switches`) through the tracker: the same events
//! give the same times. Left out are those with what a trace does not have: steal, what the kernel itself knows of a task, and
//! events out of order.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use cpumon_model::{Comm, ProcessKey, ThreadKey, WaitReason, syscall_number};
use cpumon_sched::{Interrupt, Leaves, SchedEvent, SchedEventKind, TraceIdentity, TraceTask};
use cpumon_trace::{GroupKey, GroupRow, Report, ReportBy, Tasks, TraceRange, Tracker};
use serde::Deserialize;

use crate::analyses::agree;
use crate::support::Made;

const US: u64 = 1_000;

/// Words of events that no trace holds.
const NOT_IN_TRACES: [&str; 4] = ["steal=", "lost=", "moved", "seen"];

#[derive(Deserialize)]
struct Scenario {
    why: String,
    events: Vec<String>,
    at: u64,
    expect: String,
}

fn number(text: &str) -> u64 {
    text.parse().unwrap_or_else(|_| panic!("{text} is no number"))
}

/// Tasks by the scenario's ids, which are used again after an end.
#[derive(Default)]
struct Ids {
    now: BTreeMap<u64, u32>,
    /// In the order of their ends.
    ended: Vec<u32>,
    names: Tasks,
    last: u32,
    /// Interrupts that go on, by CPU and kind.
    interrupts: BTreeMap<(u16, String), u64>,
}

impl Ids {
    fn task(&mut self, id: &str) -> TraceTask {
        let id = number(id);
        if id == 0 {
            return TraceTask::IDLE;
        }
        if let Some(known) = self.now.get(&id) {
            return TraceTask(*known);
        }
        self.last += 1;
        self.now.insert(id, self.last);
        let tid = u32::try_from(id).unwrap();
        self.names.set(TraceIdentity {
            task: TraceTask(self.last),
            at_ns: 0,
            thread: ThreadKey { tid, start_ns: self.last.into() },
            process: ProcessKey { pid: tid, start_ns: self.last.into() },
            group: 0,
            comm: Comm::from("scenario"),
            program: (*b"scenario").into(),
            is_executable: false,
            is_kernel: false,
        });
        TraceTask(self.last)
    }

    fn end(&mut self, id: &str) {
        let ended = self.now.remove(&number(id)).expect("a task that began");
        self.ended.push(ended);
    }
}

fn leaves(words: &[&str]) -> Leaves {
    let reason = words.iter().position(|word| *word == "in").map(|at| words[at + 1]);
    match reason {
        None => Leaves::Ready,
        Some("exit") => Leaves::Dead,
        Some("disk") => Leaves::Asleep(WaitReason::DISK),
        Some(call) => Leaves::Asleep(WaitReason::syscall(syscall_number(call).expect("a system call"))),
    }
}

fn cpu(text: &str) -> u16 {
    number(text.strip_prefix("cpu").expect("cpuN")).try_into().unwrap()
}

/// `None`: it only says that a thread ended.
fn event_of(ids: &mut Ids, event: &str) -> Option<SchedEvent> {
    let words: Vec<&str> = event.split_whitespace().collect();
    let at_ns = number(words[0]) * US;
    let (cpu, kind) = match words[1..] {
        ["wake", who] => (0, SchedEventKind::Waking { task: ids.task(who), waker: TraceTask::IDLE, cpu: 0 }),
        ["born", who] => (0, SchedEventKind::Born { task: ids.task(who), parent: TraceTask::IDLE }),
        ["end", who] => {
            ids.end(who);
            return None;
        }
        [on, kind @ ("irq" | "softirq"), begins] => {
            let (cpu, key) = (cpu(on), kind.to_owned());
            if begins == "begin" {
                ids.interrupts.insert((cpu, key), at_ns);
                return None;
            }
            let interrupt = if kind == "irq" { Interrupt::Hard(7) } else { Interrupt::Soft(3) };
            let ran_ns = at_ns - ids.interrupts.remove(&(cpu, key)).expect("one that began");
            (cpu, SchedEventKind::Interrupt { interrupt, ran_ns })
        }
        [on, switch, ..] => {
            let (prev, next) = switch.split_once('>').expect("PREV>NEXT");
            let (prev, next) = (ids.task(prev), ids.task(next));
            (cpu(on), SchedEventKind::Switch { prev, next, leaves: leaves(&words) })
        }
        _ => panic!("cannot read {event}"),
    };
    Some(SchedEvent { at_ns, cpu, kind })
}

fn write_row(out: &mut String, name: &str, row: &GroupRow) {
    let us = |ns: u64| ns / US;
    let (run, woken, pushed) =
        (us(row.totals.run_ns), us(row.totals.ready_woken_ns), us(row.totals.ready_preempted_ns));
    write!(out, "{name}: run={run} woken={woken} pushed={pushed} blocked={}", us(row.blocked.total_ns()))
        .unwrap();
    for (reason, ns) in row.blocked.iter() {
        write!(out, " {}={}", reason.name(), us(ns)).unwrap();
    }
    let longest = row.longest_delay().map_or(0, |longest| us(longest.ns));
    write!(
        out,
        " switches={}/{} longest={longest}",
        row.totals.voluntary_switches, row.totals.involuntary_switches
    )
    .unwrap();
    out.push('\n');
}

fn render(report: &Report, ids: &Ids) -> String {
    let rows = report.rows(ReportBy::Thread, &ids.names);
    let find = |number: u32| {
        rows.iter()
            .find(|row| matches!(&row.key, GroupKey::Thread(key, _) if key.start_ns == u64::from(number)))
    };
    let mut out = String::new();
    for ended in &ids.ended {
        let row = find(*ended).unwrap();
        let GroupKey::Thread(key, _) = &row.key else { panic!("{row:?}") };
        write_row(&mut out, &format!("ended {}", key.tid), row);
    }
    for (id, number) in &ids.now {
        write_row(&mut out, &id.to_string(), find(*number).unwrap());
    }
    for cpu in report.cpus() {
        write!(out, "cpu{}:", cpu.cpu).unwrap();
        for (name, ns) in [
            ("run", cpu.run_ns),
            ("idle", cpu.idle_ns),
            ("irq", cpu.irq_ns),
            ("softirq", cpu.softirq_ns),
            ("unknown", cpu.unknown_ns),
        ] {
            if ns > 0 {
                write!(out, " {name}={}", ns / US).unwrap();
            }
        }
        writeln!(out, " missed={}", cpu.holes).unwrap();
    }
    out
}

/// The scenarios that a trace can hold.
fn scenarios() -> Vec<(String, Scenario)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cpumon-collect/tests/scenarios-switches");
    let read = |entry: std::io::Result<std::fs::DirEntry>| {
        let path = entry.unwrap().path();
        let scenario: Scenario = toml::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        (path.display().to_string(), scenario)
    };
    // Readers hand events out in the order of their time, whatever the CPUs' clocks.
    let time = |event: &&String| number(event.split(' ').next().unwrap());
    let fits = |(_, scenario): &(String, Scenario)| {
        scenario.events.is_sorted_by_key(|event| time(&event))
            && !scenario.events.iter().any(|event| NOT_IN_TRACES.iter().any(|word| event.contains(word)))
    };
    let all: Vec<_> = std::fs::read_dir(dir).unwrap().map(read).filter(fits).collect();
    assert!(all.len() >= 12, "{} scenarios", all.len());
    all
}

#[test]
fn the_tracker_accounts_as_live_accounting_does() {
    let mut failed = String::new();
    for (path, scenario) in scenarios() {
        let (mut ids, mut tracker) = (Ids::default(), Tracker::new(0, Report::new(TraceRange::default())));
        for event in scenario.events.iter().filter_map(|event| event_of(&mut ids, event)) {
            tracker.event(&event);
        }
        let is = render(&tracker.finish(scenario.at * US), &ids);
        if is != scenario.expect {
            let Scenario { why, expect, .. } = scenario;
            write!(failed, "{path}: {why}\n--- expected\n{expect}--- is\n{is}").unwrap();
        }
    }
    assert!(failed.is_empty(), "{failed}");
}

/// Each scenario, as a trace that every analysis reads.
#[test]
fn the_analyses_of_a_scenario_agree_with_its_report() {
    for (path, scenario) in scenarios() {
        let mut ids = Ids::default();
        let events: Vec<_> = scenario.events.iter().filter_map(|event| event_of(&mut ids, event)).collect();
        let made = || Made::new(&events, 0, scenario.at * US);
        for every_us in [1, 7, 1_000] {
            agree(made, &ids.names, every_us * US, &path);
        }
    }
}
