//! A pass where the switches are watched. In: the cut, the iterator's records, events. Out: records as of the cut, CPUs whose
//! times add up, and the events that happened before it. Why: the tracker then need not know that a pass takes time.

use cpumon_model::{Moment, Probes, Snapshot};

use super::lifecycle::{ROOM, give_back};
use super::records::{ENDED_LEADER, Event, TaskRecord};
use super::sched::{Control, CpuBooks, IrqTimes, Programs, TimesState};
use super::tasks::Oddities;
use crate::{CollectError, SourceOptions};

/// The state between passes.
pub(crate) struct Watch {
    control: Control,
    cpus: CpuBooks,
    irqs: Option<IrqTimes>,
    /// Events after the last cut.
    later: Vec<Event>,
    /// A buffer: the lists change places.
    spare: Vec<Event>,
    untracked: u64,
}

impl Watch {
    /// `None` where the probe does not watch the switches. Visits every CPU, so that each has switched once.
    pub(crate) fn open(programs: &Programs, options: &SourceOptions) -> Result<Option<Self>, CollectError> {
        if !programs.probes.contains(Probes::SCHED) {
            return Ok(None);
        }
        let has_irq = programs.probes.contains(Probes::IRQ);
        let watch = Self {
            control: Control::open(programs)?,
            cpus: CpuBooks::open(programs)?,
            irqs: has_irq.then(|| IrqTimes::open(programs, &options.proc_root)).transpose()?,
            later: Vec::with_capacity(ROOM),
            spare: Vec::with_capacity(ROOM),
            untracked: 0,
        };
        super::sched::visit_cpus();
        Ok(Some(watch))
    }

    /// Makes the cut.
    pub(crate) fn begin(&mut self) -> Moment {
        self.control.begin()
    }

    /// The iterator is through.
    pub(crate) fn end(&mut self) {
        self.control.end();
    }

    /// Brings all to the cut. `events` are those since the last pass; those after the cut are kept for the next. `before`:
    /// the records of the last pass, ascending.
    pub(crate) fn settle(
        &mut self,
        cut: Moment,
        before: &[TaskRecord],
        records: &mut Vec<TaskRecord>,
        events: &mut Vec<Event>,
        oddities: Oddities,
        into: &mut Snapshot,
    ) {
        if oddities.malformed == 0 {
            self.control.keep();
        }
        records.retain(|task| task.start_ns <= cut.boot_ns);
        Self::add_ended(cut, records, events);
        self.sort_events(cut, events);
        self.cpus.begin();
        self.untracked += oddities.untracked;
        for task in records.iter_mut() {
            self.settle_one(cut.mono_ns, before, task);
        }
        for event in events.iter_mut() {
            if let Event::Ending(ending) = event
                && records.binary_search_by_key(&ending.task.key(), TaskRecord::key).is_err()
            {
                self.settle_one(cut.mono_ns, before, &mut ending.task);
            }
        }
        self.cpus.fill(cut.mono_ns, &mut into.cpus);
        if let Some(irqs) = &mut self.irqs {
            irqs.read(&mut into.irqs);
        }
        into.health.sched_untracked = self.untracked;
        into.health.sched_missed_switches = self.cpus.missed_switches();
    }

    fn settle_one(&mut self, cut_ns: u64, before: &[TaskRecord], task: &mut TaskRecord) {
        let mut open_ns = 0;
        if let Some(ns) = self.cpus.came_unseen_ns(task.tid) {
            task.times.come(self.cpus.previous_cut_ns(), cut_ns.saturating_sub(ns));
            open_ns = ns;
        } else if task.times.state() == TimesState::Running {
            match self.cpus.open_slice_ns(task.times.cpu, task.tid) {
                Some(ns) => open_ns = ns,
                // The CPU runs another: a switch away was missed.
                None => task.times.give_up(),
            }
        }
        if !task.times.is_whole() {
            let known = before.binary_search_by_key(&task.key(), TaskRecord::key).ok();
            let was_whole = known.and_then(|at| before.get(at)).is_none_or(|known| known.times.is_whole());
            self.untracked += u64::from(was_whole);
        }
        let delay_ns = task.times.close(self.cpus.previous_cut_ns(), cut_ns);
        if delay_ns > 0 {
            self.cpus.add_open_delay(task.times.cpu, delay_ns);
        }
        task.count_by_switches(open_ns);
    }

    /// Adds the threads that lived at the cut and were gone when the iterator came by.
    fn add_ended(cut: Moment, records: &mut Vec<TaskRecord>, events: &[Event]) {
        let seen = records.len();
        for event in events {
            let Event::Cut(ended) = event else { continue };
            let task = ended.task;
            let is_in = |list: &[TaskRecord]| list.iter().any(|other| other.key() == task.key());
            let (iterated, added) = records.split_at(seen);
            if ended.cut_ns == cut.mono_ns && task.start_ns <= cut.boot_ns && !is_in(added) {
                match iterated.binary_search_by_key(&task.key(), TaskRecord::key) {
                    // Of a process whose other threads live on.
                    Ok(at) if iterated.get(at).is_some_and(|other| other.has(ENDED_LEADER)) => {
                        records[at] = task;
                    }
                    Ok(_) => {}
                    Err(_) => records.push(task),
                }
            }
        }
        if records.len() > seen {
            records.sort_unstable_by_key(TaskRecord::key);
        }
    }

    /// Leaves in `events` what happened before the cut, that of the last pass's end first.
    fn sort_events(&mut self, cut: Moment, events: &mut Vec<Event>) {
        events.retain(|event| !matches!(event, Event::Cut(_)));
        self.spare.clear();
        give_back(&mut self.spare);
        self.spare.append(&mut self.later);
        for event in events.drain(..) {
            if event.cut_ns() == cut.mono_ns { self.later.push(event) } else { self.spare.push(event) }
        }
        std::mem::swap(events, &mut self.spare);
        let previous_cut_ns = self.cpus.previous_cut_ns();
        for event in events {
            event.task_mut().times.forget_earlier_delays(previous_cut_ns);
            // Its clock was read a moment after it was compared with the cut.
            event.not_after(cut.boot_ns.saturating_sub(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::records::ExitEvent;
    use super::*;

    /// A thread of process 5 that ended after the cut, and had run `run_ns` at it.
    fn ended(tid: u32, run_ns: u64) -> Event {
        let task = TaskRecord { tid, pid: 5, run_ns, ..TaskRecord::default() };
        Event::Cut(ExitEvent { cut_ns: 77, task, ..ExitEvent::default() })
    }

    #[test]
    fn who_ended_after_the_cut_is_there_as_of_it_a_leader_that_leaves_others_behind_too() {
        let seen = |tid, flags| TaskRecord { tid, pid: 5, flags, run_ns: 9, ..TaskRecord::default() };
        let mut records = vec![seen(5, ENDED_LEADER), seen(6, 0)];
        let cut = Moment { mono_ns: 77, ..Moment::default() };
        let events = [ended(5, 3), ended(6, 4), ended(7, 5), ended(7, 5)];
        Watch::add_ended(cut, &mut records, &events);
        let told: Vec<_> = records.iter().map(|task| (task.tid, task.flags, task.run_ns)).collect();
        assert_eq!(told, [(5, 0, 3), (6, 0, 9), (7, 0, 5)]);
    }
}
