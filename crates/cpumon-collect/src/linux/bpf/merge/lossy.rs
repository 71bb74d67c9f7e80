//! A made-up host whose threads run, wait for a CPU and end, while the events of their ends are lost, doubled, late or in another order:
//! no time is there twice, and the time that all were ready is that of the rows of the interval.

use cpumon_model::{Interval, Moment};
use proptest::prelude::*;

use super::*;

const SECOND: u64 = 1_000_000_000;
const CAPACITY_NS: i64 = 2_000_000_000;

/// One thread's time in one second, and the fate of its end's event.
#[derive(Copy, Clone, Debug)]
struct ThreadSecond {
    run_us: u64,
    ready_us: u64,
    ends: bool,
    fate: Fate,
}

#[derive(Copy, Clone, Debug, PartialEq)]
enum Fate {
    Arrives,
    /// The event is lost; the probe adds it to its sums.
    Lost,
    Doubled,
    /// It is in no list at the end of the second, and its event comes in the next one.
    Late,
}

fn seconds() -> impl Strategy<Value = Vec<Vec<ThreadSecond>>> {
    let fate = prop_oneof![
        4 => Just(Fate::Arrives), 2 => Just(Fate::Lost), 1 => Just(Fate::Doubled), 1 => Just(Fate::Late)
    ];
    let step = (0_u64..100_000, 0_u64..1_000_000, prop::bool::weighted(0.3), fate);
    let step = step.prop_map(|(run_us, ready_us, ends, fate)| ThreadSecond { run_us, ready_us, ends, fate });
    prop::collection::vec(prop::collection::vec(step, 8), 1..12)
}

struct LossyHost {
    merger: PassMerger,
    infos: InfoCache,
    last: Snapshot,
    second: u64,
    threads: Vec<TaskRecord>,
    late: Vec<Event>,
    lost: LostExits,
    _proc: tempfile::TempDir,
}

/// Time of the threads in a second, ns.
#[derive(Default)]
struct Did {
    run: u64,
    ready: u64,
    /// Every thread is in a list or an event.
    is_known: bool,
    /// One that began in this second is in none: the event of the beginning of its end was lost, which the probe counts.
    is_dropped: bool,
}

impl LossyHost {
    fn new() -> Self {
        let proc = tempfile::tempdir().unwrap();
        let infos = InfoCache::open_in(proc.path(), false);
        let mut host = Self {
            merger: PassMerger::new(),
            infos,
            last: Snapshot::default(),
            second: 1,
            threads: Vec::new(),
            late: Vec::new(),
            lost: LostExits::default(),
            _proc: proc,
        };
        host.last = host.pass(&[]);
        host
    }

    fn pass(&mut self, events: &[Event]) -> Snapshot {
        let boot_ns = self.second * SECOND;
        let moment = Moment { mono_ns: boot_ns, boot_ns, wall_ns: 0 };
        let fields = super::super::FIELDS;
        let mut into =
            Snapshot { is_complete: true, begin: moment, end: moment, fields, ..Snapshot::default() };
        let mut records = PassRecords::from(self.threads.clone());
        self.merger.merge(&mut records, events, boot_ns, self.lost, &mut self.infos, &mut into);
        self.infos.end_pass();
        into
    }

    /// One second; each of its steps is a thread that is there, or begins.
    fn go_on(&mut self, steps: &[ThreadSecond], reverses: bool) -> (Interval, Did) {
        let mut did = Did { is_known: self.late.is_empty(), ..Did::default() };
        let mut events = std::mem::take(&mut self.late);
        let before = std::mem::take(&mut self.threads);
        for (at, step) in (0..).zip(steps) {
            let begun = TaskRecord {
                tid: u32::try_from(self.second * 100 + at).unwrap(),
                pid: u32::try_from(self.second * 100 + at).unwrap(),
                start_ns: self.second * SECOND + 20_000_000,
                process_start_ns: self.second * SECOND + 20_000_000,
                parent_pid: 1,
                ..TaskRecord::default()
            };
            let shown = before.get(usize::try_from(at).unwrap()).copied();
            let mut task = shown.unwrap_or(begun);
            task.counters.run_ns += step.run_us * 1_000;
            task.counters.user_ns = task.counters.run_ns;
            task.counters.run_delay_ns += step.ready_us * 1_000;
            did.run += step.run_us * 1_000;
            did.ready += step.ready_us * 1_000;
            if step.ends {
                did.is_known &= self.end(&mut events, *step, task, shown.as_ref());
                did.is_dropped |= step.fate == Fate::Late && shown.is_none();
            } else {
                self.threads.push(task);
            }
        }
        self.threads.sort_by_key(TaskRecord::id);
        if reverses {
            events.reverse();
        }
        self.second += 1;
        let snapshot = self.pass(&events);
        let interval = Interval::between(&self.last, &snapshot);
        self.last = snapshot;
        (interval, did)
    }

    fn end(
        &mut self,
        events: &mut Vec<Event>,
        step: ThreadSecond,
        task: TaskRecord,
        shown: Option<&TaskRecord>,
    ) -> bool {
        let end_ns = (self.second + 1) * SECOND - 1;
        let exit = Event::Exit(ExitEvent { kind: 1, threads_left: 0, end_ns, cut_ns: 0, group: 0, task });
        match step.fate {
            Fate::Arrives => events.push(exit),
            Fate::Doubled => events.extend([exit.clone(), exit]),
            Fate::Late => self.late.push(exit),
            Fate::Lost => {
                let shown = shown.map(|shown| shown.counters).unwrap_or_default();
                self.lost.count += 1;
                self.lost.counters.run_ns += task.counters.run_ns - shown.run_ns;
                self.lost.counters.run_delay_ns += task.counters.run_delay_ns - shown.run_delay_ns;
            }
        }
        step.fate != Fate::Late
    }
}

proptest! {
    #[test]
    fn whatever_becomes_of_events_no_time_is_there_twice(seconds in seconds(), reverses in any::<bool>()) {
        let mut host = LossyHost::new();
        let (mut booked_ns, mut ran_ns) = (0, 0);
        for steps in &seconds {
            let lost = host.lost.counters.run_delay_ns;
            let (interval, did) = host.go_on(steps, reverses);
            let lost_ns = (host.lost.counters.run_delay_ns - lost).cast_signed();
            let ledger = interval.ledger;
            prop_assert!(ledger.exited_ns <= CAPACITY_NS, "{ledger:?}");
            booked_ns += ledger.threads_ns + ledger.exited_ns;
            ran_ns += did.run.cast_signed();
            prop_assert!(booked_ns <= ran_ns, "{booked_ns} of {ran_ns}: {ledger:?}");
            let ready = host.merger.ready();
            let rows_ns: i64 = interval.threads.iter().map(|row| row.delta.run_delay_ns).sum();
            prop_assert_eq!(ready.ns.cast_signed(), rows_ns + lost_ns, "as the rows have it");
            if did.is_known {
                prop_assert_eq!(ready.ns, did.ready, "all that they were ready");
            } else {
                prop_assert!(ready.unknown > 0 || did.is_dropped || ready.ns == did.ready, "what is not known is marked");
            }
        }
    }
}
