//! A thread as the probes report it becomes a sample of the model: its keys, and its counters brought to the snapshot's instant.

use cpumon_model::{Comm, Counters, ProcessKey, TaskState, ThreadKey, ThreadSample};

use super::{ONE_CPU, PLAIN_RECORD_BYTES, TAKEN_OVER, TaskRecord, read_plain};
use crate::split::settle;

/// A start time as keys have it, cut to whole µs: no id is given out twice within one, and a frame holds it in 10 bits less.
pub(crate) fn whole_us(start_ns: u64) -> u64 {
    start_ns - start_ns % 1_000
}

impl TaskRecord {
    pub(crate) fn key(&self) -> ThreadKey {
        ThreadKey { tid: self.tid, start_ns: whole_us(self.start_ns) }
    }

    pub(crate) fn process_key(&self) -> ProcessKey {
        ProcessKey { pid: self.pid, start_ns: whole_us(self.process_start_ns) }
    }

    /// The key, in the order of [`TaskRecord::key`], with the start not yet cut.
    pub(crate) fn id(&self) -> (u32, u64) {
        (self.tid, self.start_ns)
    }

    pub(crate) fn comm(&self) -> Comm {
        Comm::new(&self.comm)
    }

    pub(crate) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    pub(crate) fn is_leader(&self) -> bool {
        self.tid == self.pid
    }

    /// No thread starts together with its leader: one that seems to is a leader whose id another thread took over (exec)
    /// before it had made its last switch. The kernel gave it the other's id in exchange.
    pub(crate) fn give_its_id_back(&mut self) {
        if !self.is_leader() && self.start_ns == self.process_start_ns {
            self.tid = self.pid;
            self.flags |= TAKEN_OVER;
        }
    }

    /// Parses a record that the iterator sent without times.
    pub(crate) fn from_plain_bytes(bytes: &[u8]) -> Option<Self> {
        let mut whole = [0; size_of::<Self>()];
        whole.get_mut(..PLAIN_RECORD_BYTES)?.copy_from_slice(bytes.get(..PLAIN_RECORD_BYTES)?);
        read_plain(&whole)
    }

    /// Takes run time, run delay and switches from the switch events, where they are complete; `open_ns` is the thread's
    /// part of the open slice.
    pub(crate) fn count_by_switches(&mut self, open_ns: u64) {
        let Self { counters, times, .. } = self;
        if times.is_whole() {
            counters.run_ns = times.run_ns.saturating_add(open_ns);
            counters.run_delay_ns = times.delay_wakeup_ns.saturating_add(times.delay_preempt_ns);
            counters.voluntary_switches = times.voluntary_switches;
            counters.involuntary_switches = times.involuntary_switches;
        }
    }

    /// Corrects a thread that BPF does not see: its count in /proc is up to a clock tick old while it runs. `at_cut_ns`: its run time
    /// at the cut, where known. The run time never falls below an earlier report: steal in an open slice is counted later.
    pub(crate) fn bring_to_cut(&mut self, at_cut_ns: Option<u64>, earlier: Option<&Self>) {
        let reported_ns = earlier.map_or(0, |earlier| earlier.counters.run_ns);
        self.counters.run_ns = at_cut_ns.unwrap_or(self.counters.run_ns).max(reported_ns);
    }

    /// Splits the run time by the sampled times; `earlier`: the settled record of the same thread.
    pub(crate) fn settle(&mut self, earlier: Option<&Self>) {
        settle(&mut self.counters, &earlier.map_or_else(Counters::default, |earlier| earlier.counters));
    }

    pub(crate) fn to_sample(self) -> ThreadSample {
        ThreadSample {
            key: self.key(),
            process: self.process_key(),
            comm: self.comm(),
            state: state_letter(self.state),
            nice: self.nice,
            priority: self.priority,
            last_cpu: self.cpu,
            has_one_cpu: self.has(ONE_CPU),
            counters: self.counters,
            sched: self.times.to_sched(self.migrations),
        }
    }
}

/// The state of a letter, so that [`state_letter`] returns it again; a letter that /proc never printed yet is taken for running.
pub(crate) fn state_of(letter: TaskState) -> u32 {
    match letter.0 {
        b'I' => 0x402,
        other => b"SDTtXZP".iter().position(|known| *known == other).map_or(0, |at| 1 << at),
    }
}

/// The letter of a state as /proc prints it (`task_state_array` in fs/proc/array.c).
fn state_letter(state: u32) -> TaskState {
    /// `TASK_IDLE`: uninterruptible, but not counted as load.
    const IDLE: u32 = 0x402;
    /// Waiting for a sleeping lock of a real-time kernel; frozen.
    const RTLOCK_OR_FROZEN: u32 = 0x1000 | 0x8000;
    /// `TASK_REPORT`: the state bits that have a letter.
    const REPORTED: u32 = 0x7f;
    let letter = if state & IDLE == IDLE {
        b'I'
    } else if state & RTLOCK_OR_FROZEN != 0 {
        b'D'
    } else {
        let highest = (u32::BITS - (state & REPORTED).leading_zeros()) as usize;
        b"RSDTtXZP".get(highest).copied().unwrap_or(b'?')
    };
    TaskState(letter)
}
