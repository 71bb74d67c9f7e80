//! Made-up events of a scheduler, for tests of traces and of their importers. Who includes it has `seeded_rng` too.

use cpumon_model::WaitReason;
use cpumon_sched::{Leaves, SchedEvent, SchedEventKind, TraceTask};

use crate::seeded_rng::SeededRng;

/// The first event is not before this time, ns.
pub const BEGAN_NS: u64 = 1_000_000;

/// Switches and wakeups on two CPUs such as a machine makes them, ascending by time.
pub fn made_up(seed: u64, count: usize) -> Vec<SchedEvent> {
    let mut rng = SeededRng(seed);
    let (mut at_ns, mut current) = (BEGAN_NS, [TraceTask::IDLE; 2]);
    let mut events = Vec::new();
    for _ in 0..count {
        at_ns += rng.below(5_000);
        let cpu = rng.below(2);
        let here = usize::try_from(cpu).unwrap();
        let task = TraceTask(1 + 2 * u32::try_from(rng.below(8)).unwrap() + u32::try_from(cpu).unwrap());
        let kind = if rng.below(3) == 0 {
            SchedEventKind::Waking { task, waker: current[here], cpu: cpu.try_into().unwrap() }
        } else {
            let next = if current[here] == task || rng.below(4) == 0 { TraceTask::IDLE } else { task };
            if next == current[here] {
                continue;
            }
            let leaves = match rng.below(3) {
                0 => Leaves::Ready,
                reason => Leaves::Asleep(WaitReason::syscall(reason.try_into().unwrap())),
            };
            SchedEventKind::Switch { prev: std::mem::replace(&mut current[here], next), next, leaves }
        };
        events.push(SchedEvent { at_ns, cpu: cpu.try_into().unwrap(), kind });
    }
    events
}
