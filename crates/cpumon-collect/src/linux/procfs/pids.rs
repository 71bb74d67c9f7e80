//! Finds the pids of new processes from the newest pid that the kernel handed out (last field of
//! /proc/loadavg). Listing /proc costs about 5 µs for each process that was there all along; asking the CPU
//! clock of each pid handed out since then costs 0.3 µs.

use std::ops::RangeInclusive;
use std::os::fd::OwnedFd;

use super::super::file;
use crate::parse;

/// /proc is listed at least once in so many passes: pids can be handed out of turn (`/proc/sys/kernel/ns_last_pid`).
const LIST_EVERY: u64 = 32;
/// How many clock probes cost as much as listing one process.
const PROBES_PER_LISTED: usize = 12;

/// Where new processes are searched for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Search {
    /// In the list of all processes.
    List,
    /// Among these pids; an empty range if none was handed out.
    Probe(RangeInclusive<u32>),
}

/// The newest pid at the two passes before.
#[derive(Debug, Default)]
pub(super) struct NewestPid {
    previous: Option<u32>,
    earlier: Option<u32>,
}

impl NewestPid {
    /// Reads the newest pid out of a kept /proc/loadavg.
    pub(super) fn read(loadavg: &OwnedFd) -> Option<u32> {
        let mut buffer = [0; 128];
        let line = file::read_start(loadavg, &mut buffer).ok()?;
        let last = line.trim_ascii_end().rsplit(|&b| b == b' ').next()?;
        u32::try_from(parse::parse_u64(last)?).ok()
    }

    /// Which pids to try in this pass, given the newest pid and how many processes are known.
    ///
    /// The range covers the pass before as well: a pid is handed out a moment before its process can be asked.
    pub(super) fn search(&mut self, newest: Option<u32>, pass: u64, known: usize) -> Search {
        let from = self.earlier;
        self.earlier = std::mem::replace(&mut self.previous, newest);
        let (Some(from), Some(newest)) = (from, newest) else { return Search::List };
        // Pids go up and start over at their maximum.
        let is_few =
            newest.checked_sub(from).is_some_and(|count| count as usize <= PROBES_PER_LISTED * known);
        if is_few && !pass.is_multiple_of(LIST_EVERY) {
            Search::Probe(from + 1..=newest)
        } else {
            Search::List
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_new_pids_are_probed_twice() {
        let mut pids = NewestPid::default();
        assert_eq!(pids.search(Some(100), 1, 50), Search::List, "nothing to compare with");
        assert_eq!(pids.search(Some(100), 2, 50), Search::List);
        assert_eq!(pids.search(Some(103), 3, 50), Search::Probe(101..=103));
        assert_eq!(pids.search(Some(103), 4, 50), Search::Probe(101..=103));
        let Search::Probe(none) = pids.search(Some(103), 5, 50) else { panic!("listed") };
        assert!(none.is_empty());
    }

    #[test]
    fn many_pids_a_wrap_and_every_32nd_pass_are_listed() {
        let mut pids = NewestPid::default();
        for (newest, pass) in [(100, 1), (100, 2), (701, 3), (30, 4), (30, 5), (30, 32)] {
            assert_eq!(pids.search(Some(newest), pass, 50), Search::List, "{newest} {pass}");
        }
        assert_eq!(pids.search(None, 33, 50), Search::List, "unreadable");
    }
}
