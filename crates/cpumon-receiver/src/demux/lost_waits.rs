//! Waits of a thread of which a row came: those that the row leaves out, and those that were lost with an earlier row.

use cpumon_model::{SchedTimes, ThreadSample, Waits};

/// Adds the known waits to a row that has only those that grew. `since_ns`: earlier rows may be lost; time since the last snapshot, up to
/// which the waits of `known` go.
pub(super) fn complete_waits(row: &mut ThreadSample, known: &ThreadSample, since_ns: Option<u64>) {
    let sent = row.sched.waits;
    keep_waits(&mut row.sched, &known.sched);
    if let Some(since_ns) = since_ns
        && known.sched.open_wait.is_some()
        && known.sched.is_watched()
    {
        let blocked_ns = blocked_until_now(row, known, since_ns);
        correct_lost_waits(row, &sent, &known.sched, blocked_ns);
    }
}

/// Where only rows without a name came of a thread, some of what it waited before is not known: what the row brings of that is no wait of
/// its interval. `since_ns` as above.
pub(super) fn forget_earlier_waits(row: &ThreadSample, known: &mut ThreadSample, since_ns: u64) {
    let now_ns = blocked_until_now(row, known, since_ns).saturating_sub(known.sched.blocked_ns);
    let mut waits = row.sched.waits;
    waits.take(known.sched.open_wait, now_ns);
    known.sched.blocked_ns = waits.total_ns();
    known.sched.waits = waits;
}

/// Time in which the thread was blocked since its known row, and before: a thread that neither ran nor waited for a CPU was blocked.
/// `since_ns`: time since the last snapshot, up to which the waits of `known` go.
fn blocked_until_now(sent: &ThreadSample, known: &ThreadSample, since_ns: u64) -> u64 {
    let ran_ns = sent.counters.run_ns.saturating_sub(known.counters.run_ns);
    let delay_ns = sent.counters.run_delay_ns.saturating_sub(known.counters.run_delay_ns);
    let passed_ns = known.sched.blocked_ns.saturating_add(since_ns);
    passed_ns.saturating_sub(ran_ns).saturating_sub(delay_ns)
}

/// Makes the waits of a row add up to `blocked_ns`, where the rows that brought some of them were lost. What is missing goes to the wait
/// that was open, as far as is known. `sent`: the waits that were sent, which are right; what is too much is among the others.
fn correct_lost_waits(thread: &mut ThreadSample, sent: &Waits, known: &SchedTimes, blocked_ns: u64) {
    let SchedTimes { waits, blocked_ns: total_ns, .. } = &mut thread.sched;
    waits.add(known.open_wait, blocked_ns.saturating_sub(*total_ns));
    let mut over_ns = total_ns.saturating_sub(blocked_ns);
    while over_ns > 0 {
        let kept = waits.iter().filter(|(reason, _)| sent.of(*reason) == 0);
        let Some((reason, ns)) = kept.max_by_key(|(_, ns)| *ns) else { break };
        waits.take(reason, over_ns);
        over_ns = over_ns.saturating_sub(ns);
    }
    *total_ns = waits.total_ns();
}

/// Adds the known waits that were not sent, because they did not grow.
fn keep_waits(sent: &mut SchedTimes, known: &SchedTimes) {
    for (reason, ns) in known.waits.iter() {
        if sent.waits.of(reason) == 0 {
            sent.waits.add(reason, ns);
            sent.blocked_ns = sent.blocked_ns.saturating_add(ns);
        }
    }
}
