//! Finds out which of the wanted probes load. A kernel that refuses one of them (an interrupt tracepoint that is not there, a stricter
//! verifier) must not cost the others.

use cpumon_model::Probes;

use super::bpf;
use crate::CollectError;

/// In the order in which they are tried, by what is missed most without it; each needs those before it. What needs none
/// is tried first of all.
const STEPS: [(Probes, &str); 4] = [
    (Probes::SCHED, "switches are not watched"),
    (Probes::IRQ, "interrupts are not watched"),
    (Probes::WAITS, "wait reasons are not watched"),
    (Probes::HISTOGRAMS, "run-delay histograms are not kept"),
];

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Loads {
    pub(super) probes: Probes,
    /// What is done without, and why; empty if nothing is.
    pub(super) without: String,
}

/// Finds out what of `wanted` loads, one probe after the other.
///
/// Errors: not even what every snapshot needs loads.
pub(super) fn find(
    wanted: Probes,
    mut try_loading: impl FnMut(Probes) -> Result<(), CollectError>,
) -> Result<Loads, CollectError> {
    let wanted = bpf::wanted(wanted);
    try_loading(Probes::EXITS)?;
    let mut probes = Probes::EXITS;
    let (mut without, mut reason) = (Vec::new(), None);
    for (step, what) in STEPS.into_iter().filter(|(step, _)| wanted.contains(*step)) {
        // Without the switches no other probe loads: a try would only repeat the refusal.
        let is_grounded = step == Probes::SCHED || probes.contains(Probes::SCHED);
        match is_grounded.then(|| try_loading(probes | step)) {
            Some(Ok(())) => probes |= step,
            Some(Err(refused)) => {
                without.push(what);
                // The line has space for one reason: the first is that of the probe that is missed most.
                reason = reason.or(Some(refused));
            }
            None => without.push(what),
        }
    }
    let reason = reason.map_or_else(String::new, |error| format!(": {}", why(&error)));
    Ok(Loads { probes, without: without.join(", ") + &reason })
}

/// The reason of an error, without the help that its one-line form brings along.
pub(super) fn why(error: &CollectError) -> String {
    match error {
        CollectError::BpfUnavailable { reason } => reason.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(reason: &str) -> CollectError {
        CollectError::BpfUnavailable { reason: reason.to_owned() }
    }

    /// Where these do not load, alone or together with others.
    fn where_missing(missing: Probes, wanted: Probes) -> (Loads, Vec<Probes>) {
        let mut tried = Vec::new();
        let loads = find(wanted, |probes| {
            tried.push(probes);
            if probes.intersects(missing) { Err(refused("no such tracepoint")) } else { Ok(()) }
        });
        (loads.unwrap(), tried)
    }

    #[test]
    fn only_what_does_not_load_is_done_without() {
        let all = Probes::all();
        let (loads, tried) = where_missing(Probes::IRQ, all);
        assert_eq!(loads.probes, all - Probes::IRQ);
        assert_eq!(loads.without, "interrupts are not watched: no such tracepoint");
        assert_eq!(tried.len(), 5);
        let (loads, _) = where_missing(Probes::IRQ | Probes::HISTOGRAMS, all);
        assert_eq!(loads.probes, Probes::EXITS | Probes::SCHED | Probes::WAITS);
        let text = "interrupts are not watched, run-delay histograms are not kept: no such tracepoint";
        assert_eq!(loads.without, text);
    }

    #[test]
    fn what_needs_the_switches_goes_with_them() {
        let (loads, tried) = where_missing(Probes::SCHED, Probes::IRQ | Probes::WAITS);
        assert_eq!((loads.probes, tried.len()), (Probes::EXITS, 2));
        let text = "switches are not watched, interrupts are not watched, wait reasons are not watched: no such tracepoint";
        assert_eq!(loads.without, text);
    }

    #[test]
    fn where_nothing_loads_there_is_an_error_and_where_all_loads_no_text() {
        assert!(find(Probes::IRQ, |_| Err(refused("EPERM"))).is_err());
        let (loads, _) = where_missing(Probes::empty(), Probes::WAITS);
        assert_eq!(
            loads,
            Loads { probes: Probes::EXITS | Probes::SCHED | Probes::WAITS, without: String::new() }
        );
    }
}
