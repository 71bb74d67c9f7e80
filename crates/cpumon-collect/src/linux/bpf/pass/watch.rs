//! A pass where the switches are watched: brings records, CPUs and events to the instant of the cut, so that the merger need not know
//! that a pass takes time.

use cpumon_model::{Moment, Probes, Snapshot, ThreadKey, empty_list, trim_list};

use super::super::merge::ReadyTotal;
use super::super::records::{ENDED_LEADER, ExitEvent, HIDDEN, RingDrops, TaskRecord};
use super::super::ring::{Event, INITIAL_EVENTS};
use super::super::sched::{CpuAccounts, IrqTimes, Programs, TimesState};
use super::{Oddities, PassRecords};
use crate::{CollectError, SourceOptions};

pub(crate) struct SwitchWatch {
    cpus: CpuAccounts,
    irqs: Option<IrqTimes>,
    /// Events after the last cut.
    later: Vec<Event>,
    /// Buffer that is swapped with the list of events.
    spare: Vec<Event>,
    /// A buffer: threads that need no settling any more.
    done: Vec<ThreadKey>,
    untracked: Untracked,
    /// Passes at whose end the run queues were not known.
    queues_unknown: u64,
    dropped: RingDrops,
}

/// Threads for which the kernel's own counters stand in, each counted when it became so, by cause.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
struct Untracked {
    /// They have no storage in the kernel: it had no memory, or they have not moved yet.
    no_place: u64,
    /// Their times changed at every attempt to read them.
    torn: u64,
    /// A switch to them or away from them was missed.
    broken: u64,
}

impl Untracked {
    fn total(&self) -> u64 {
        self.no_place + self.torn + self.broken
    }
}

impl SwitchWatch {
    /// `None` where the probe does not watch the switches. Visits every CPU, so that each has switched once.
    pub(crate) fn open(programs: &Programs, options: &SourceOptions) -> Result<Option<Self>, CollectError> {
        if !programs.probes.contains(Probes::SCHED) {
            return Ok(None);
        }
        let has_irq = programs.probes.contains(Probes::IRQ);
        let watch = Self {
            cpus: CpuAccounts::open(programs)?,
            irqs: has_irq.then(|| IrqTimes::open(programs, &options.proc_root)).transpose()?,
            later: Vec::with_capacity(INITIAL_EVENTS),
            spare: Vec::with_capacity(INITIAL_EVENTS),
            done: Vec::with_capacity(INITIAL_EVENTS),
            untracked: Untracked::default(),
            queues_unknown: 0,
            dropped: RingDrops::default(),
        };
        // The programs are attached, so one switch makes each CPU and its thread known to the probe.
        super::super::sched::visit_cpus();
        Ok(Some(watch))
    }

    /// Brings all to the cut. `events` are those since the last pass; those after the cut are kept for the next. `before`:
    /// the records of the last pass, ascending.
    pub(crate) fn settle(
        &mut self,
        cut: Moment,
        before: &[TaskRecord],
        records: &mut PassRecords,
        events: &mut Vec<Event>,
        oddities: Oddities,
        into: &mut Snapshot,
    ) {
        // The iterator goes by the kernel's ids: a thread that has taken over the id of its leader and has not reported its exec yet is
        // in that place under its old one. The events below are searched in this list.
        records.sort();
        // Before `sort_events`, which drops the copies made at the cut.
        Self::add_ended(cut, records, events);
        self.sort_events(cut, events);
        self.cpus.begin();
        let before_them = self.untracked;
        self.untracked.torn += oddities.torn;
        for task in records.iter_mut() {
            self.settle_one(cut.mono_ns, before, task);
        }
        let mut done = std::mem::take(&mut self.done);
        each_open_ending(&mut done, records, events, |ending| {
            self.settle_one(cut.mono_ns, before, &mut ending.task);
        });
        self.done = done;
        // After the threads: settling them adds open delays to the queues and claims the open slices.
        self.cpus.fill(cut.mono_ns, &mut into.cpus);
        if let Some(irqs) = &mut self.irqs {
            irqs.read(&mut into.irqs);
        }
        if self.untracked != before_them {
            log::debug!("threads whose switch events are incomplete: {:?}", self.untracked);
        }
        into.health.sched_untracked = self.untracked.total();
        into.health.sched_missed_switches = self.cpus.missed_switches();
        into.health.wakeups_unknown = self.cpus.unknown_wakeups();
    }

    /// Completes the run queues, when the threads have been tracked. `drops`: the events that did not fit, up to the end of the pass.
    pub(crate) fn fill_queues(&mut self, ready: ReadyTotal, drops: RingDrops, into: &mut Snapshot) {
        self.cpus.share_ready(ready.ns, &mut into.cpus);
        // A thread that neither the iterator nor an event reports may have waited for a CPU at the cut.
        let before = std::mem::replace(&mut self.dropped, drops);
        let may_miss = (drops.endings, drops.cuts) != (before.endings, before.cuts);
        let is_known = ready.unknown == 0 && !may_miss && self.cpus.is_whole();
        self.queues_unknown += u64::from(!is_known);
        into.health.run_queue_unknown = self.queues_unknown;
    }

    fn settle_one(&mut self, cut_ns: u64, before: &[TaskRecord], task: &mut TaskRecord) {
        if task.has(HIDDEN) {
            task.bring_to_cut(self.cpus.hidden_run_ns(task.tid), find(before, task));
            // Nothing that the probe may hold for such a thread is complete.
            return task.times.say_unwatched();
        }
        let mut open_ns = 0;
        // Its CPU runs it, but no event reported the switch-in: to the probe it is still blocked or ready.
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
            let was_whole = find(before, task).is_none_or(|known| known.times.is_whole());
            let cause = match task.times.state() {
                TimesState::None => &mut self.untracked.no_place,
                // Counted once, when it becomes so: a thread that stays broken is no new loss.
                _ => &mut self.untracked.broken,
            };
            *cause += u64::from(was_whole);
        }
        // Before `count_by_switches`, whose run delay includes the open one.
        let delay_ns = task.times.close(self.cpus.previous_cut_ns(), cut_ns);
        if delay_ns > 0 {
            self.cpus.add_open_delay(task.times.cpu, delay_ns);
        }
        task.count_by_switches(open_ns);
    }

    /// Adds the threads that lived at the cut and were gone when the iterator came by.
    fn add_ended(cut: Moment, records: &mut PassRecords, events: &[Event]) {
        let seen = records.len();
        for event in events {
            let Event::Cut(ended) = event else { continue };
            let task = ended.task;
            let is_in = |list: &[TaskRecord]| list.iter().any(|other| other.key() == task.key());
            // Only the iterator's part is sorted; the few that are added are searched one by one.
            let (iterated, added) = records.split_at(seen);
            // A copy of another cut, as a failed pass leaves it, says nothing about this one. A thread may
            // send several.
            if ended.cut_ns == cut.mono_ns && task.start_ns <= cut.boot_ns && !is_in(added) {
                match iterated.binary_search_by_key(&task.key(), TaskRecord::key) {
                    // A leader that ended, of a process whose other threads live on.
                    Ok(at) if iterated.get(at).is_some_and(|other| other.has(ENDED_LEADER)) => {
                        records.records_mut()[at] = task;
                    }
                    // The iterator has read how it was at the cut.
                    Ok(_) => {}
                    Err(_) => records.records_mut().push(task),
                }
            }
        }
        if records.len() > seen {
            records.sort();
        }
    }

    /// Leaves in `events` those before the cut, starting with the ones left from the last pass.
    fn sort_events(&mut self, cut: Moment, events: &mut Vec<Event>) {
        events.retain(|event| !matches!(event, Event::Cut(_)));
        empty_list(&mut self.spare);
        trim_list(&mut self.later);
        self.spare.append(&mut self.later);
        for event in events.drain(..) {
            // Events after T belong to the next interval, although they are in the buffer already.
            if event.cut_ns() == cut.mono_ns { self.later.push(event) } else { self.spare.push(event) }
        }
        std::mem::swap(events, &mut self.spare);
        let previous_cut_ns = self.cpus.previous_cut_ns();
        for event in events {
            // The probe resets the maximum at the next delay only, so it may be of an earlier interval.
            event.task_mut().times.forget_earlier_delays(previous_cut_ns);
            // The event's clock was read a moment after the comparison with the cut.
            event.not_after(cut.boot_ns.saturating_sub(1));
        }
    }
}

fn find<'a>(sorted: &'a [TaskRecord], task: &TaskRecord) -> Option<&'a TaskRecord> {
    sorted.binary_search_by_key(&task.key(), TaskRecord::key).ok().and_then(|at| sorted.get(at))
}

/// Threads that were on their way out at the cut, and in no list any more; `done` is a buffer. One that made its last switch
/// before the cut, though it reported its way out after the cut before, waits for nothing: it is passed over.
fn each_open_ending(
    done: &mut Vec<ThreadKey>,
    records: &[TaskRecord],
    events: &mut [Event],
    mut act: impl FnMut(&mut ExitEvent),
) {
    empty_list(done);
    done.extend(events.iter().filter_map(|event| match event {
        Event::Exit(exit) => Some(exit.task.key()),
        _ => None,
    }));
    done.sort_unstable();
    let exits = done.len();
    // The newest event of a thread holds its state at the cut.
    for event in events.iter_mut().rev() {
        let Event::Ending(ending) = event else { continue };
        let key = ending.task.key();
        // The exits are sorted; further ones of this loop are appended behind them.
        let (ended, reported) = done.split_at(exits);
        let is_done = ended.binary_search(&key).is_ok() || reported.contains(&key);
        // A listed thread was settled with the records: a second time would count its open slice twice.
        if !is_done && records.binary_search_by_key(&key, TaskRecord::key).is_err() {
            act(ending);
            done.push(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use cpumon_model::Counters;

    use super::*;

    fn ran(run_ns: u64) -> TaskRecord {
        TaskRecord { counters: Counters { run_ns, ..Counters::default() }, ..TaskRecord::default() }
    }

    /// A thread of process 5 that ended after the cut, and had run `run_ns` at it.
    fn ended(tid: u32, run_ns: u64) -> Event {
        let task = TaskRecord { tid, pid: 5, ..ran(run_ns) };
        Event::Cut(ExitEvent { cut_ns: 77, task, ..ExitEvent::default() })
    }

    #[test]
    fn who_ended_after_the_cut_is_there_as_of_it_a_leader_that_leaves_others_behind_too() {
        let seen = |tid, flags| TaskRecord { tid, pid: 5, flags, ..ran(9) };
        let mut records = PassRecords::from(vec![seen(5, ENDED_LEADER), seen(6, 0)]);
        let cut = Moment { mono_ns: 77, ..Moment::default() };
        let events = [ended(5, 3), ended(6, 4), ended(7, 5), ended(7, 5)];
        SwitchWatch::add_ended(cut, &mut records, &events);
        let reported: Vec<_> =
            records.iter().map(|task| (task.tid, task.flags, task.counters.run_ns)).collect();
        assert_eq!(reported, [(5, 0, 3), (6, 0, 9), (7, 0, 5)]);
    }

    #[test]
    fn only_the_newest_ending_of_a_thread_that_did_not_end_is_open() {
        let event = |tid, end_ns| ExitEvent {
            end_ns,
            task: TaskRecord { tid, ..TaskRecord::default() },
            ..ExitEvent::default()
        };
        let records = [TaskRecord { tid: 4, ..TaskRecord::default() }];
        let mut events = [
            Event::Ending(event(3, 1)),
            Event::Ending(event(4, 2)),
            Event::Ending(event(5, 3)),
            Event::Ending(event(6, 4)),
            Event::Exit(event(5, 5)),
            Event::Ending(event(6, 6)),
        ];
        let mut open = Vec::new();
        each_open_ending(&mut vec![], &records, &mut events, |ending| {
            open.push((ending.task.tid, ending.end_ns));
        });
        assert_eq!(open, [(6, 6), (3, 1)]);
    }

    #[test]
    fn a_hidden_thread_that_runs_is_counted_up_to_the_cut_and_never_falls() {
        let reported = |proc_ns, at_cut_ns, earlier: Option<u64>| {
            let mut task = ran(proc_ns);
            task.bring_to_cut(at_cut_ns, earlier.map(ran).as_ref());
            task.counters.run_ns
        };
        assert_eq!(reported(500, None, None), 500, "off its CPU /proc is right");
        assert_eq!(reported(500, Some(3_500), Some(400)), 3_500, "/proc is a tick old");
        assert_eq!(reported(4_000, Some(3_500), Some(400)), 3_500, "it was read after the cut");
        assert_eq!(reported(3_400, None, Some(3_500)), 3_500, "what it ran less was stolen");
    }
}
