//! [`Work`]: what a host uses while it takes a frame: limits, memory that all hosts share, and where its intervals go.

use cpumon_model::{HostStatus, Interval, ProcessInterval, WaitBuffers, trim_list};

use super::gather::Gather;
use super::options::DemuxOptions;

/// Snapshots that are kept for use by whichever host begins the next one.
const MAX_SPARE: usize = 4;

/// Memory that all hosts use in turn.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    pub(super) interval: Interval,
    /// For merging rows of processes.
    pub(super) processes: Vec<ProcessInterval>,
    pub(super) waits: WaitBuffers,
    pub(super) spare: Vec<Gather>,
    /// Names of hosts that were the id of another one.
    pub(super) changed_names: u64,
}

/// For one frame, or one flush, of one host.
pub(super) struct Work<'a> {
    pub(super) options: &'a DemuxOptions,
    /// Bytes that the host may hold.
    pub(super) limit: usize,
    pub(super) scratch: &'a mut Scratch,
    pub(super) out: &'a mut dyn FnMut(&HostStatus, &Interval),
}

impl Work<'_> {
    /// Hands over the interval at hand, and gives back memory that only few need.
    pub(super) fn give_out(&mut self, status: &HostStatus) {
        let interval = &mut self.scratch.interval;
        (self.out)(status, interval);
        interval.cpus.clear();
        trim_list(&mut interval.cpus);
        interval.processes.clear();
        trim_list(&mut interval.processes);
        self.scratch.processes.clear();
        trim_list(&mut self.scratch.processes);
        interval.threads.clear();
        trim_list(&mut interval.threads);
        interval.resting = None;
        interval.idle_processes = None;
        interval.corrects_lists = false;
        interval.irqs.clear();
        trim_list(&mut interval.irqs);
        interval.delays.clear();
        trim_list(&mut interval.delays);
        interval.cgroups.clear();
        trim_list(&mut interval.cgroups);
    }

    /// Takes a snapshot that was given out.
    pub(super) fn recycle(&mut self, mut gather: Gather) {
        // Cleared now and not at its next use: until then it would hold texts of its host.
        gather.trim();
        if self.scratch.spare.len() < MAX_SPARE {
            self.scratch.spare.push(gather);
        }
    }
}
