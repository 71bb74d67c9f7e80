//! Random switches of some threads on two CPUs, with events that are lost, doubled or late: whatever is missing, no CPU
//! has more time than there was, and no unmarked thread has more time than its life.

use cpumon_model::WaitReason;
use proptest::prelude::*;

use super::accounts::{Accounts, IDLE, Leaves, Mode, State, Switch, Task};

const CPUS: u32 = 2;
const THREADS: u32 = 5;
const MODES: [Mode; 6] = [Mode::Run, Mode::Idle, Mode::Irq, Mode::Softirq, Mode::Steal, Mode::Unknown];

#[derive(Copy, Clone, Debug)]
enum Event {
    Wake(Task),
    Switch(u32, Switch),
}

/// The next event, and its fate.
#[derive(Copy, Clone, Debug)]
struct Step {
    after_ns: u64,
    cpu: u32,
    choice: u32,
    sleeps: bool,
    fate: u8,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (1_u64..1_000, 0..CPUS, any::<u32>(), any::<bool>(), 0_u8..12);
    let step =
        step.prop_map(|(after_ns, cpu, choice, sleeps, fate)| Step { after_ns, cpu, choice, sleeps, fate });
    prop::collection::vec(step, 1..120)
}

/// A machine that schedules as the steps say.
#[derive(Default)]
struct Machine {
    current: [Option<Task>; CPUS as usize],
    ready: Vec<Task>,
    asleep: Vec<Task>,
}

impl Machine {
    fn new() -> Self {
        Self { asleep: (1..=THREADS).map(Task).collect(), ..Self::default() }
    }

    fn step(&mut self, step: &Step) -> Event {
        let pick = |list: &mut Vec<Task>| {
            (!list.is_empty()).then(|| list.swap_remove(step.choice as usize % list.len()))
        };
        if step.choice.is_multiple_of(3)
            && let Some(woken) = pick(&mut self.asleep)
        {
            self.ready.push(woken);
            return Event::Wake(woken);
        }
        let next = pick(&mut self.ready);
        let prev = std::mem::replace(&mut self.current[step.cpu as usize], next);
        let leaves = if step.sleeps { Leaves::Asleep(WaitReason::DISK) } else { Leaves::Ready };
        if let Some(prev) = prev {
            if step.sleeps { self.asleep.push(prev) } else { self.ready.push(prev) }
        }
        let of = |task: Option<Task>| task.unwrap_or(IDLE);
        Event::Switch(
            step.cpu,
            Switch { prev: of(prev), leaves, next: of(next), steal_ns: 0, lost_run_ns: None },
        )
    }
}

/// The events as they arrive.
fn arrive(steps: &[Step]) -> (Vec<(u64, Event)>, u64) {
    let (mut machine, mut events, mut now) = (Machine::new(), Vec::new(), 0);
    for step in steps {
        now += step.after_ns;
        let event = (now, machine.step(step));
        match step.fate {
            0 => {}
            1 => events.extend([event, event]),
            2 => events.insert(events.len().saturating_sub(1), event),
            _ => events.push(event),
        }
    }
    (events, now)
}

proptest! {
    #[test]
    fn lost_doubled_and_late_events_make_no_time(steps in steps()) {
        let (events, end_ns) = arrive(&steps);
        let (mut accounts, mut first_ns) = (Accounts::default(), u64::MAX);
        for (now, event) in events {
            first_ns = first_ns.min(now);
            match event {
                Event::Wake(task) => accounts.wake(now, task),
                Event::Switch(cpu, switch) => accounts.switch(now, cpu, &switch),
            }
        }
        let at = accounts.as_of(end_ns);
        let all_ns = end_ns.saturating_sub(first_ns);
        let mut ran_ns = 0;
        for (cpu, account) in at.cpus() {
            let sum: u64 = MODES.iter().map(|mode| account.mode_ns(*mode)).sum();
            prop_assert!(sum <= all_ns, "CPU {cpu} has {sum} of {all_ns} ns");
            ran_ns += account.mode_ns(Mode::Run);
        }
        let mut charged_ns = 0;
        for (task, thread) in at.threads() {
            let lived = thread.run_ns + thread.delay_wakeup_ns + thread.delay_preempt_ns + thread.blocked_ns;
            prop_assert!(lived <= all_ns || thread.is_broken, "{task:?} lived {lived} of {all_ns} ns: {thread:?}");
            prop_assert!(thread.longest_delay_ns <= all_ns);
            charged_ns += thread.run_ns;
        }
        prop_assert!(charged_ns <= ran_ns, "threads ran {charged_ns} of {ran_ns} ns");
    }

    #[test]
    fn a_pass_leaves_no_sleeper_ready(steps in steps()) {
        let (events, end_ns) = arrive(&steps);
        let mut accounts = Accounts::default();
        for (now, event) in events {
            match event {
                Event::Wake(task) => accounts.wake(now, task),
                Event::Switch(cpu, switch) => accounts.switch(now, cpu, &switch),
            }
        }
        let mut machine = Machine::new();
        for step in &steps {
            machine.step(step);
        }
        machine.asleep.iter().for_each(|task| accounts.seen_asleep(*task));
        let (before, after) = (accounts.as_of(end_ns), accounts.as_of(end_ns + 1_000_000));
        for task in machine.asleep {
            let of = |accounts: &Accounts| accounts.threads().find(|(known, _)| *known == task).map(|(_, thread)| *thread);
            let (Some(before), Some(after)) = (of(&before), of(&after)) else { continue };
            let ready = |thread: &super::accounts::ThreadAccount| thread.delay_wakeup_ns + thread.delay_preempt_ns;
            // For a marked thread the kernel's own counters are used.
            let is_marked = after.is_broken || after.state == State::Running;
            prop_assert!(is_marked || ready(&before) == ready(&after), "{task:?}: {before:?} {after:?}");
        }
    }
}
