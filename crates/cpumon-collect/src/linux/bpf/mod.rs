//! The BPF source: complete snapshots from the kernel's task iterator and its events, in which no thread's CPU time is
//! missing or counted twice. It costs a fraction of reading /proc, and sees tasks that lived and died between two passes.
//!
//! # One pass
//! 1. Where the switches are watched, a cut is made: every counter is reported for one instant T (`sched/cut.h`).
//! 2. The iterator reads every thread that has not made its last switch.
//! 3. `/proc/stat` is read.
//! 4. The ring buffer is emptied, and the pass is over: every thread that made its last switch before now has left an
//!    event in it. Events after T wait for the next pass; a thread that ended after T has left its state at T.
//! 5. The merger puts both together: a thread in both ended in between and counts as ended; one in neither, though it
//!    was in the last pass, is ending right now: it stays as it was until its event comes.
//!
//! The order matters: were the ring buffer emptied first, a thread that ends right after would be in neither for good
//! reason or bad, and no pass could know which.

mod clocks;
mod exits;
mod groups;
mod hidden;
mod load;
mod merge;
mod namespaces;
mod pass;
mod records;
mod renames;
mod ring;
mod sched;
#[cfg(test)]
mod stack;
mod trace;

use std::path::Path;

pub use clocks::ClockReader;
use cpumon_model::{BootId, Fields, HostId, Moment, Probes, Snapshot, SourceKind, ThreadSample, empty_list};
pub(super) use load::{NoBtf, find_btf, route_messages};
pub(super) use namespaces::check_namespaces;
pub(super) use ring::ring_bytes;
pub(super) use sched::{has_member, wanted};
#[cfg(test)]
pub(super) use sched::{refuse_loading, watch_wakeups};
pub use trace::TraceRecorder;

use self::exits::SummedExits;
use self::hidden::Hidden;
use self::merge::PassMerger;
use self::pass::watch::SwitchWatch;
use self::pass::{Oddities, PassRecords, TaskIterator};
use self::records::FIELDS;
use self::ring::{Event, EventRing};
use self::sched::{DelayAccounts, PassControl, ProbeCost, Programs, Setup, WaitAccounts, side_of};
use super::cgroups::Cgroups;
use super::cpustat::CpuStat;
use super::give_memory_back;
use super::host::{self, OwnUsage};
use super::procinfo::InfoCache;
use crate::{CollectError, Source, SourceOptions};

/// Most passes before the first snapshot.
const ADOPTING_PASSES: usize = 8;

/// A probe that `doctor` checks.
pub(crate) struct Probe {
    /// The name it has in `--probes`.
    pub(crate) name: &'static str,
    pub(crate) gives: &'static str,
    /// Loads and attaches the probe, then removes it again.
    pub(crate) try_loading: fn() -> Result<(), CollectError>,
}

pub(crate) const PROBES: [Probe; 6] = [
    Probe {
        name: "exits",
        gives: "every thread in one pass; every process that lived and died between two snapshots, with name and counters",
        try_loading: || try_loading(Probes::EXITS),
    },
    Probe {
        name: "sched",
        gives: "run time, run delay, blocked time of each thread by its switches; CPUs whose times add up",
        try_loading: || try_loading(Probes::SCHED),
    },
    Probe {
        name: "waits",
        gives: "what each thread waits for: the system call, the disk, a page",
        try_loading: || try_loading(Probes::WAITS),
    },
    Probe {
        name: "irq",
        gives: "time in hard and soft interrupts, taken out of the threads they interrupt",
        try_loading: || try_loading(Probes::IRQ),
    },
    Probe {
        name: "hist",
        gives: "how long each single wait for a CPU took: percentiles of each process and CPU, and of selected threads",
        try_loading: || try_loading(Probes::HISTOGRAMS),
    },
    Probe {
        name: "wakers",
        gives: "who ended each wait of a millisecond and more, and who had the CPU meanwhile: what `why` rests on",
        try_loading: || try_loading(Probes::WAKERS),
    },
];

/// Checks that these probes load together.
pub(super) fn try_loading(probes: Probes) -> Result<(), CollectError> {
    let ring_bytes = ring_bytes();
    Programs::open(Setup { probes, ring_bytes, script_names: true }).map(drop)
}

/// The threads hidden from BPF, in words; empty if there are none, `None` if that cannot be determined.
pub(super) fn hidden_threads(proc_root: &Path) -> Result<Option<String>, CollectError> {
    let options = SourceOptions { proc_root: proc_root.into(), ..SourceOptions::default() };
    Ok(BpfSource::open(&options)?.hidden())
}

pub(crate) struct BpfSource {
    host: HostId,
    boot: BootId,
    irq_in_run_time: bool,
    sequence: u64,
    /// Ends of the last two snapshots, by their number modulo 2.
    ends: [Moment; 2],
    control: PassControl,
    iterator: TaskIterator,
    hidden: Hidden,
    ring: EventRing,
    /// `None`: context switches are not watched.
    watch: Option<SwitchWatch>,
    /// `None`: no histograms of run delays.
    delays: Option<DelayAccounts>,
    /// `None`: it is not watched who ends waits.
    waits: Option<WaitAccounts>,
    /// Exits that did not fit the ring buffer, summed by the probe.
    summed: SummedExits,
    cpus: CpuStat,
    own: OwnUsage,
    infos: InfoCache,
    cgroups: Cgroups,
    merger: PassMerger,
    records: PassRecords,
    events: Vec<Event>,
    malformed: u64,
    cost: ProbeCost,
    programs: Programs,
}

impl BpfSource {
    /// Loads and attaches the programs. From here on every exit is seen.
    ///
    /// Errors: [`CollectError::BpfUnavailable`] says which step was refused and what to grant.
    pub(crate) fn open(options: &SourceOptions) -> Result<Self, CollectError> {
        Self::open_with(options, ring_bytes(), EventRing::open)
    }

    fn open_with(
        options: &SourceOptions,
        ring_bytes: u32,
        open_ring: fn(&Programs) -> Result<EventRing, CollectError>,
    ) -> Result<Self, CollectError> {
        check_namespaces(&options.proc_root)?;
        let boot = host::boot_id(&options.proc_root)?;
        let &SourceOptions { probes, script_names, .. } = options;
        let mut programs = Programs::open(Setup { probes, ring_bytes, script_names })?;
        let watch = SwitchWatch::open(&programs, options)?;
        let has_histograms = programs.probes.contains(Probes::HISTOGRAMS);
        let delays =
            has_histograms.then(|| DelayAccounts::open(&programs, &options.histogram_threads)).transpose()?;
        let has_wakers = programs.probes.contains(Probes::WAKERS);
        let mut source = Self {
            waits: has_wakers.then(|| WaitAccounts::open(&programs)).transpose()?,
            control: PassControl::open(&programs)?,
            host: host::host_id(options, boot),
            boot,
            irq_in_run_time: host::irq_in_run_time(options),
            sequence: 0,
            ends: [Moment::default(); 2],
            iterator: TaskIterator::new(programs.take_iterator()?, watch.is_some()),
            hidden: Hidden::open(&options.proc_root)?,
            ring: open_ring(&programs)?,
            watch,
            delays,
            summed: SummedExits::open(&programs)?,
            cpus: CpuStat::open(&options.proc_root)?,
            own: OwnUsage::open(),
            infos: InfoCache::open(options)?,
            cgroups: Cgroups::open(&options.proc_root, &options.fs_root),
            merger: PassMerger::new(),
            records: PassRecords::default(),
            events: Vec::with_capacity(ring::INITIAL_EVENTS),
            malformed: 0,
            cost: ProbeCost::open(&programs)?,
            programs,
        };
        source.adopt()?;
        source.find_hidden()?;
        // Reading the kernel's type information takes some 20 MB for a moment.
        give_memory_back();
        Ok(source)
    }

    /// Passes by every thread before the first snapshot, so that each has its storage: the kernel makes them out of a small
    /// reserve, and fills that up only now and then.
    fn adopt(&mut self) -> Result<(), CollectError> {
        // Without times it is not seen which thread has none; a second pass finds those for which there was no memory.
        let passes = match (&self.watch, &self.waits) {
            (Some(_), _) => ADOPTING_PASSES,
            (None, Some(_)) => 2,
            (None, None) => 0,
        };
        for _ in 0..passes {
            self.read_alone()?;
            if self.watch.is_some() && self.records.iter().all(|task| task.times.is_whole()) {
                break;
            }
            // Gives the kernel time to fill that reserve.
            std::thread::yield_now();
        }
        Ok(())
    }

    /// Reads the threads, and nothing else.
    fn read_alone(&mut self) -> Result<(), CollectError> {
        if self.watch.is_some() {
            let side = Some(side_of(self.control.begin_cut()));
            let lost = self.ring.lost(side);
            self.summed.read(&lost, side);
        } else {
            self.control.begin();
        }
        // Against an empty pass: until `PassControl::keep` the probe sends every thread in full.
        let read = self.iterator.read(&PassRecords::default(), &[], u64::MAX, &mut self.records);
        self.control.end();
        read?;
        Ok(())
    }

    fn find_hidden(&mut self) -> Result<(), CollectError> {
        if !self.hidden.is_known() {
            return Ok(());
        }
        // Before the iterator: a process that begins while it runs is not taken for hidden.
        let begin_ns = host::now().boot_ns;
        self.read_alone()?;
        self.records.sort();
        self.hidden.find(&self.records, begin_ns);
        self.hidden.read();
        Ok(())
    }

    /// The threads read from /proc because BPF does not see them, in words; empty if there are none, `None` if that cannot be
    /// determined.
    pub(crate) fn hidden(&self) -> Option<String> {
        self.hidden.is_known().then(|| self.hidden.describe())
    }

    pub(crate) fn probes(&self) -> Probes {
        self.programs.probes
    }

    fn fields(&self) -> Fields {
        let when = |probe, field| if self.programs.probes.contains(probe) { field } else { Fields::empty() };
        FIELDS
            | when(Probes::SCHED, Fields::SCHED)
            | when(Probes::WAITS, Fields::WAITS)
            | when(Probes::IRQ, Fields::IRQ)
            | when(Probes::HISTOGRAMS, Fields::HISTOGRAMS)
            | when(Probes::WAKERS, Fields::WAITS_FOR)
    }

    /// The threads of the snapshot before the last one, if `into` still has them: threads that were idle since need not
    /// be written. Where the switches are watched, blocked times advance; then, and else, the list is empty.
    fn left_threads(&self, into: &mut Snapshot) -> Vec<ThreadSample> {
        // A caller may pass any snapshot: only its end shows that it was made two passes ago.
        let is_own = (into.host, into.boot) == (self.host, self.boot) && into.end == self.last_but_one();
        let mut left = std::mem::take(&mut into.threads);
        if self.watch.is_some() || !is_own {
            empty_list(&mut left);
        }
        left
    }

    /// End of the snapshot before the last one.
    fn last_but_one(&self) -> Moment {
        // The slot that the snapshot under way overwrites when it is complete.
        self.ends[usize::from(!self.sequence.is_multiple_of(2))]
    }

    /// Reads threads, CPUs and events, and fills `begin` and `end`.
    fn observe(&mut self, into: &mut Snapshot) -> Result<Observed, CollectError> {
        let begin = host::now();
        let cut = if self.watch.is_some() {
            self.control.begin_cut()
        } else {
            self.control.begin();
            begin
        };
        if let Some(waits) = &mut self.waits {
            waits.turn();
        }
        // Read at the cut: threads that end later belong to the next interval.
        let mut lost = self.watch.is_some().then(|| self.read_lost(Some(side_of(cut)), into));
        // Where the switches are watched, a thread that began after the cut belongs to the next interval.
        let until_ns = if self.watch.is_some() { cut.boot_ns } else { u64::MAX };
        let read = self.read_all(until_ns, into);
        // After a failed pass too: otherwise every thread that ends until the next pass would leave a copy.
        self.control.end();
        let oddities = read?;
        if self.watch.is_some() {
            self.read_lost_cuts(into);
        }
        // Last, because it cannot be repeated: a pass that fails must not take events with it.
        let malformed = self.ring.drain(&mut self.events, self.merger.groups())?;
        let lost = *lost.get_or_insert_with(|| self.read_lost(None, into));
        let end = host::now();
        if oddities.malformed == 0 {
            // Otherwise the probe would report threads as unchanged that this side never received.
            self.control.keep();
        }
        self.malformed += u64::from(oddities.malformed > 0);
        into.health.malformed = self.malformed + malformed + self.cpus.malformed();
        if let Some(watch) = &mut self.watch {
            watch.settle(cut, self.merger.before(), &mut self.records, &mut self.events, oddities, into);
            // All counters are as of the cut; the distance of the two moments is the length of the pass.
            (into.begin, into.end) = (cut.before(end.mono_ns.saturating_sub(begin.mono_ns)), cut);
        } else {
            (into.begin, into.end) = (begin, end);
        }
        Ok(Observed { from_ns: cut.boot_ns, lost, oddities })
    }

    fn read_all(&mut self, until_ns: u64, into: &mut Snapshot) -> Result<Oddities, CollectError> {
        // They have no cut: the nearer to its instant, the better.
        self.hidden.read();
        let (before, hidden) = (self.merger.before(), self.hidden.threads());
        let oddities = self.iterator.read(before, hidden, until_ns, &mut self.records)?;
        self.cpus.read(&mut into.cpus)?;
        Ok(oddities)
    }

    /// Counts the copies at the cut that found no space in this pass. The run time of their threads is missing in this
    /// interval, so the interval reports them.
    fn read_lost_cuts(&self, into: &mut Snapshot) {
        let cuts = self.ring.drops().cuts;
        let health = &mut into.health;
        health.ring_drops = health.ring_drops.saturating_add(cuts.saturating_sub(health.cuts_lost));
        health.cuts_lost = cuts;
    }

    /// Reads the events that did not fit, and returns the sums of the exits among them: those before a cut on this side, or all.
    fn read_lost(&mut self, side: Option<usize>, into: &mut Snapshot) -> records::LostExits {
        let dropped = self.ring.drops();
        into.health.ring_drops = dropped.total();
        into.health.execs_lost = dropped.execs;
        into.health.endings_lost = dropped.endings;
        into.health.cuts_lost = dropped.cuts;
        let lost = self.ring.lost(side);
        self.summed.read(&lost, side);
        lost
    }
}

struct Observed {
    /// Begin of the pass, ns since boot.
    from_ns: u64,
    lost: records::LostExits,
    oddities: Oddities,
}

impl Source for BpfSource {
    fn snapshot(&mut self, into: &mut Snapshot) -> Result<(), CollectError> {
        let left = self.left_threads(into);
        into.clear();
        (into.host, into.boot) = (self.host, self.boot);
        (into.source, into.fields) = (SourceKind::Bpf, self.fields());
        into.is_complete = true;
        into.irq_in_run_time = match &self.watch {
            // Time in interrupts is inside the slices unless the probe takes it out.
            Some(_) => !self.programs.probes.contains(Probes::IRQ),
            None => self.irq_in_run_time,
        };
        into.sequence = self.sequence;
        let Observed { from_ns: observed_from_ns, lost, oddities } = self.observe(into)?;
        into.threads = left;
        self.merger.merge(&mut self.records, &self.events, observed_from_ns, lost, &mut self.infos, into);
        self.infos.end_pass();
        self.control.set_group_round(self.merger.groups().end_pass());
        self.summed.fill(self.merger.before(), into);
        if let Some(watch) = &mut self.watch {
            watch.fill_queues(self.merger.ready(), self.ring.drops(), into);
        }
        if let Some(waits) = &mut self.waits {
            waits.read(into);
        }
        if let Some(delays) = &mut self.delays {
            delays.read(observed_from_ns, self.merger.before(), into)?;
        }
        into.health.permission_denied = self.infos.denied();
        self.hidden.complete(into);
        if oddities.malformed == 0 {
            // Every thread that an incomplete pass misses would seem to be hidden.
            self.hidden.find_again(self.merger.before(), observed_from_ns, oddities.shown, into);
        }
        self.cgroups.read(&mut self.infos, into);
        into.health.probes = self.programs.probes;
        self.own.fill(&mut into.health);
        self.cost.count(into);
        self.ends[usize::from(!self.sequence.is_multiple_of(2))] = into.end;
        self.sequence += 1;
        Ok(())
    }

    fn probe_cpu_ns(&self) -> u64 {
        self.cost.ns()
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use cpumon_model::{Flags, Interval, SourceHealth};

    use super::*;

    #[test]
    fn a_storm_that_outruns_the_buffer_is_summed_by_parent() {
        const STORM: &str = "i=0; while [ $i -lt 300 ]; do /bin/true; i=$((i+1)); done";
        for probes in [Probes::EXITS, Probes::SCHED] {
            let options = SourceOptions { probes, ..SourceOptions::default() };
            let mut source = match BpfSource::open_with(&options, 4096, EventRing::open_alone) {
                Ok(source) => source,
                Err(error) => {
                    return crate::source::platform::skip::skip(format!("needs root for BPF: {error}"));
                }
            };
            let (mut before, mut after) = (Snapshot::default(), Snapshot::default());
            source.snapshot(&mut before).unwrap();
            assert!(Command::new("sh").args(["-c", STORM]).status().unwrap().success());
            source.snapshot(&mut after).unwrap();
            let lost = after.health.exits_lost - before.health.exits_lost;
            assert!(lost > 200, "{lost} exits did not fit a buffer for a dozen");
            let drops = after.health.ring_drops - before.health.ring_drops;
            let of_kinds = |health: &SourceHealth| [health.execs_lost, health.endings_lost, health.cuts_lost];
            let [execs, endings, cuts] = of_kinds(&after.health);
            assert!(execs > 100 && endings > 100, "they did not fit either: {:?}", after.health);
            let before_them: u64 = of_kinds(&before.health).iter().sum();
            // The name of a control group may not fit either: each end of a process in it tries again.
            let names = drops.checked_sub(lost + execs + endings + cuts - before_them);
            assert!(names.is_some_and(|names| names <= lost), "{drops} drops: {:?}", after.health);
            let interval = Interval::between(&before, &after);
            let summed = interval.processes.iter().filter(|row| row.flags.contains(Flags::SUMMED));
            let summed: Vec<_> = summed.map(|row| (&*row.info.name, row.delta.run_ns)).collect();
            let of_sh = summed.iter().find(|row| row.0 == "children of sh (summed)");
            let each_ns = of_sh.map_or(0, |row| row.1) / 300;
            assert!(each_ns > 20_000, "a program takes more than that: {summed:?}");
            // The total is counted apart from the rows.
            let total = after.exited_total.since(&before.exited_total).unwrap().run_ns;
            let named: u64 = after.exits.iter().map(|exit| exit.thread.counters.run_ns).sum();
            let of_rows: i64 = summed.iter().map(|row| row.1).sum();
            let rows = named.cast_signed() + of_rows;
            assert!((rows - total).abs() <= total / 20, "{rows} of {total}: {summed:?}");
            assert!(interval.ledger.exited_ns >= of_rows, "{:?} {of_rows}", interval.ledger);
            assert_eq!(after.process_count as usize + summed.len(), after.processes.len());
            // The next interval does not count it again.
            std::mem::swap(&mut before, &mut after);
            source.snapshot(&mut after).unwrap();
            let quiet = Interval::between(&before, &after);
            let again =
                quiet.processes.iter().find(|row| &*row.info.name == "children of sh (summed)").unwrap();
            assert!(again.flags.contains(Flags::SUMMED) && again.delta.run_ns < 20_000_000, "{again:?}");
        }
    }

    #[test]
    fn a_pass_that_fails_is_over_for_the_probe_too() {
        let options = SourceOptions { probes: Probes::SCHED, ..SourceOptions::default() };
        let mut source = match BpfSource::open_with(&options, 4096, EventRing::open_alone) {
            Ok(source) => source,
            Err(error) => return crate::source::platform::skip::skip(format!("needs root for BPF: {error}")),
        };
        source.iterator = TaskIterator::new(source.programs.take_other_link(), true);
        assert!(source.snapshot(&mut Snapshot::default()).is_err());
        assert!(!source.control.is_reading(), "every end of a thread would leave a copy until the next pass");
        assert!(source.adopt().is_err() && !source.control.is_reading());
        assert!(source.find_hidden().is_err() && !source.control.is_reading());
    }
}
