//! The causes of a subject, ranked by the share of the wanted time that each explains. Pure: facts in, causes out.

use super::answer::{Cause, CauseKind};
use super::facts::Facts;
use super::states::WaitClass;
use super::{cpu, waits};

/// The causes, the largest share first; empty: nothing delays it.
pub(super) fn causes(facts: &Facts<'_>) -> Vec<Cause> {
    let starts = waits::starts(facts);
    // Who starts few processes waits for what they do.
    let child = if starts.is_none() { waits::peer(facts, WaitClass::Child) } else { None };
    let mut all = cpu::ready(facts);
    let (lock, one_thread) = lock_and_one_thread(facts);
    let has_interrupts = all.iter().any(|one| one.cause == CauseKind::Interrupts);
    all.extend(
        [
            cpu::quota(facts),
            lock,
            waits::peer(facts, WaitClass::Peer),
            child,
            starts,
            waits::disk(facts),
            waits::faults(facts),
            cpu::steal(facts),
            if has_interrupts { None } else { cpu::interrupts(facts) },
            one_thread,
        ]
        .into_iter()
        .flatten(),
    );
    all.extend(waits::unknown(facts, !all.is_empty()));
    all.sort_by(|one, other| other.share.total_cmp(&one.share));
    all
}

/// A thread at a full CPU for which the others wait is one cause: its own code, whether it has a lock meanwhile or hands out work.
fn lock_and_one_thread(facts: &Facts<'_>) -> (Option<Cause>, Option<Cause>) {
    let tid = |cause: &Cause| cause.culprits.first().and_then(|first| first.tid);
    // Most of the waits are for that thread.
    let is_same = |lock: &Cause, one: &Cause| {
        let ended_ns = lock.culprits.first().map_or(0, |first| first.ns);
        tid(one).is_some() && tid(lock) == tid(one) && facts.of_wanted(ended_ns) * 2.0 >= lock.share
    };
    match (waits::lock(facts), cpu::one_thread(facts)) {
        (Some(lock), Some(mut one)) if is_same(&lock, &one) => {
            one.share = (one.share + lock.share).min(1.0);
            one.evidence.push(lock.sentence);
            (None, Some(one))
        }
        both => both,
    }
}
