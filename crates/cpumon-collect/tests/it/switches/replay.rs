//! Recorded events of a real kernel through [`Accounts`]: the results equal those of the BPF programs for the same
//! threads in the same span, and the sums of perf's events.
//!
//! `tests/fixtures/switches.txt` was recorded by `record.rs`, whose head says how to record another. A line each, times in ns:
//! `AT switch CPU PREV STATE NEXT`, `AT wake TID`, `AT born TID`; then the results for each thread that began and ended in it:
//! `bpf TID run delay blocked voluntary involuntary`, `perf TID run delay slices`.

use std::collections::BTreeMap;

use cpumon_model::WaitReason;

use super::accounts::{Accounts, IDLE, Leaves, Mode, Switch, Task, ThreadAccount};

const RECORDED: &str = include_str!("../../fixtures/switches.txt");

/// The recording, read.
#[derive(Default)]
struct Replay {
    accounts: Accounts,
    ended: BTreeMap<u32, ThreadAccount>,
    bpf: BTreeMap<u32, [u64; 5]>,
    perf: BTreeMap<u32, [u64; 3]>,
    events: usize,
    last_ns: u64,
}

fn numbers<const N: usize>(words: &[&str]) -> [u64; N] {
    std::array::from_fn(|at| words[at].parse().unwrap_or_else(|_| panic!("{} is no number", words[at])))
}

fn tid(word: &str) -> u32 {
    word.parse().unwrap_or_else(|_| panic!("{word} is no tid"))
}

impl Replay {
    fn line(&mut self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["bpf", who, ..] => drop(self.bpf.insert(tid(who), numbers(&words[2..]))),
            ["perf", who, ..] => drop(self.perf.insert(tid(who), numbers(&words[2..]))),
            [at, ref event @ ..] => {
                let [now] = numbers(&[at]);
                self.event(now, event);
                (self.events, self.last_ns) = (self.events + 1, now);
            }
            [] => {}
        }
    }

    fn event(&mut self, now: u64, event: &[&str]) {
        match *event {
            ["wake", who] => self.accounts.wake(now, Task(tid(who))),
            ["born", who] => {
                self.accounts.born(now, Task(tid(who)));
                self.accounts.wake(now, Task(tid(who)));
            }
            ["switch", cpu, prev, state, next] => {
                let prev = Task(tid(prev));
                let leaves = match state {
                    "R" => Leaves::Ready,
                    _ => Leaves::Asleep(WaitReason::OTHER),
                };
                let switch = Switch { prev, leaves, next: Task(tid(next)), steal_ns: 0, lost_run_ns: None };
                self.accounts.switch(now, tid(cpu), &switch);
                // The last switch of a thread.
                if matches!(state, "X" | "Z") && prev != IDLE {
                    let account = self.accounts.ended(prev).expect("a thread that leaves has an account");
                    self.ended.insert(prev.0, account);
                }
            }
            _ => panic!("cannot read {event:?}"),
        }
    }
}

fn replay(text: &str) -> Replay {
    let mut replay = Replay::default();
    text.lines().filter(|line| !line.starts_with('#')).for_each(|line| replay.line(line));
    replay
}

/// Threads for which the model and the BPF programs made different times from the same events. `steal_ns`: time stolen by
/// the hypervisor meanwhile; the BPF programs leave it out of the run time, and recorded events do not have it.
pub fn disagreements(text: &str, steal_ns: u64) -> Vec<String> {
    let replay = replay(text);
    let mut found = Vec::new();
    for (tid, bpf) in &replay.bpf {
        let Some(account) = replay.ended.get(tid) else {
            found.push(format!("{tid} never ended"));
            continue;
        };
        if !agrees(account, bpf, steal_ns) {
            found.push(format!(
                "{tid}: {account:?}, bpf {bpf:?} (run, delay, blocked, voluntary, involuntary)"
            ));
        }
    }
    found
}

fn agrees(account: &ThreadAccount, bpf: &[u64; 5], steal_ns: u64) -> bool {
    let [run, delay, blocked, voluntary, involuntary] = *bpf;
    let slices = voluntary + involuntary;
    // The two clocks are read one after the other at each end of a slice.
    let is_near = |ours: u64, theirs: u64, part: u64| {
        ours.abs_diff(theirs) <= (theirs / part).max(12_000 * slices) + steal_ns
    };
    (account.voluntary_switches, account.involuntary_switches) == (voluntary, involuntary)
        && is_near(account.run_ns, run, 500)
        && is_near(account.delay_wakeup_ns + account.delay_preempt_ns, delay, 50)
        && is_near(account.blocked_ns, blocked, 50)
        && !account.is_broken
}

#[test]
fn the_model_accounts_as_bpf_did_for_recorded_events() {
    let replay = replay(RECORDED);
    assert!(replay.events > 500 && replay.bpf.len() > 20, "{} events", replay.events);
    assert_eq!(disagreements(RECORDED, 0), [""; 0]);
}

#[test]
fn the_model_agrees_with_perf_to_the_microsecond() {
    let replay = replay(RECORDED);
    assert!(replay.perf.len() > 20);
    for (tid, [run, delay, slices]) in &replay.perf {
        let account = &replay.ended[tid];
        let reported = account.delay_wakeup_ns + account.delay_preempt_ns;
        let what = format!("{tid}: {account:?}, perf run {run} delay {delay} slices {slices}");
        assert_eq!(account.voluntary_switches + account.involuntary_switches, *slices, "{what}");
        // Both have the same events; the recording has perf's slices cut to the microsecond.
        assert!(account.run_ns.abs_diff(*run) <= 1_000 * slices, "{what}");
        assert!(reported.abs_diff(*delay) <= 1_000 * slices, "{what}");
    }
}

#[test]
fn no_time_of_the_cpu_is_missing_or_there_twice() {
    let replay = replay(RECORDED);
    let first_ns: u64 = RECORDED
        .lines()
        .find_map(|line| {
            Some(line.strip_suffix(line.split_once(" switch ")?.1)?.split(' ').next()?.parse().unwrap())
        })
        .unwrap();
    let accounts = replay.accounts.as_of(replay.last_ns);
    let cpus: Vec<_> = accounts.cpus().collect();
    let [(_, cpu)] = cpus[..] else { panic!("one CPU was recorded: {cpus:?}") };
    let modes = [Mode::Run, Mode::Idle, Mode::Irq, Mode::Softirq, Mode::Steal, Mode::Unknown];
    let sum: u64 = modes.iter().map(|mode| cpu.mode_ns(*mode)).sum();
    assert_eq!(sum, replay.last_ns - first_ns);
    let threads = accounts.threads().map(|(_, account)| account.run_ns).sum::<u64>();
    let ended = replay.ended.values().map(|account| account.run_ns).sum::<u64>();
    // Time after a missed switch is unknown: no thread is charged.
    assert!(threads + ended <= cpu.mode_ns(Mode::Run), "{threads} {ended} {cpu:?}");
}
