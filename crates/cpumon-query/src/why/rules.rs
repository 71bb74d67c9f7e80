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
    let has_interrupts = all.iter().any(|one| one.cause == CauseKind::Interrupts);
    all.extend(
        [
            cpu::quota(facts),
            waits::lock(facts),
            waits::peer(facts, WaitClass::Peer),
            child,
            starts,
            waits::disk(facts),
            waits::faults(facts),
            cpu::steal(facts),
            if has_interrupts { None } else { cpu::interrupts(facts) },
            cpu::one_thread(facts),
        ]
        .into_iter()
        .flatten(),
    );
    all.extend(waits::unknown(facts, !all.is_empty()));
    all.sort_by(|one, other| other.share.total_cmp(&one.share));
    all
}
