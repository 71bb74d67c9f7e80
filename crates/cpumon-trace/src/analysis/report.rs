//! The report of a trace or of a range. [`Report`] has the sums of all CPUs, which are the ledger of the trace, and of all threads, from
//! one pass; [`Groups`] has its rows: threads, or their sums by process, program or container.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::HashMap;

use cpumon_model::{CgroupNames, DelayHistogram, ProcessKey, ThreadKey, Waits};
use cpumon_sched::{
    CpuSpan, Interrupt, InterruptSpan, Leaves, Numbers, Slots, SpanSink, ThreadSpan, ThreadState, TraceTask,
};
use foldhash::fast::RandomState;

use super::ready::{Culprits, LongestDelay, ReadyTimes, Slices};
use super::{CpuAccount, Memory, ThreadTotals, TraceRange, Tracked, track};
use crate::file::ReadError;
use crate::source::{Ending, TraceSource};
use crate::tasks::Tasks;

pub(super) const SHOWN_CULPRITS: usize = 8;
/// Name of the row of processes in no container.
const NO_CONTAINER: &str = "(none)";
/// Name of a row for which the trace has only an id.
const NO_NAME: &str = "(no name)";

/// What all CPUs together did in the range.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub length_ns: u64,
    /// Number of CPUs with events.
    pub cpus: u64,
    /// Events of the whole trace.
    pub events: u64,
    /// The ledger: capacity = idle + run + irq + softirq + unknown.
    pub ledger: CpuAccount,
}

/// The sums of a thread. They are in one place, because of thousands of threads no cache has more.
#[derive(Debug, Default)]
struct ThreadSums {
    /// No thread until a span of this thread is in the range.
    task: TraceTask,
    /// Time on a CPU, ns, with interrupts.
    on_cpu_ns: u64,
    irq_ns: u64,
    softirq_ns: u64,
    /// In a state that no event says, ns.
    unknown_ns: u64,
    voluntary: u64,
    involuntary: u64,
    migrations: u64,
    /// Times it came to a CPU, and it is not known when it was woken.
    unknown_wakeups: u64,
    ready: ReadyTimes,
    culprits: Culprits,
    /// Time blocked, by reason, ns.
    blocked: Waits,
}

impl ThreadSums {
    /// On a CPU, ns, without interrupts where they are recorded.
    fn run_ns(&self) -> u64 {
        self.on_cpu_ns.saturating_sub(self.irq_ns.saturating_add(self.softirq_ns))
    }

    fn totals(&self) -> ThreadTotals {
        ThreadTotals {
            run_ns: self.run_ns(),
            irq_ns: self.irq_ns,
            softirq_ns: self.softirq_ns,
            ready_woken_ns: self.ready.woken_ns,
            ready_preempted_ns: self.ready.preempted_ns,
            blocked_ns: self.blocked.total_ns(),
            unknown_ns: self.unknown_ns,
            voluntary_switches: self.voluntary,
            involuntary_switches: self.involuntary,
            migrations: self.migrations,
            longest_delay_ns: self.ready.longest.ns,
            longest_delay_at_ns: self.ready.longest.from_ns,
            ..ThreadTotals::default()
        }
    }
}

#[derive(Debug, Default)]
pub struct Report {
    /// Range on the trace's clock.
    range: TraceRange,
    events: u64,
    threads: Slots<ThreadSums>,
    slices: Slices,
    /// Those with any event.
    cpus: Slots<Option<CpuAccount>>,
    /// Whether interrupts were recorded: any trace of some ms has some.
    pub has_interrupts: bool,
    memory: Memory,
}

/// Reads a trace and adds up what lies in the range. `ending` of the result says whether the trace is whole.
pub fn analyse(reader: &mut impl TraceSource, range: TraceRange) -> Result<(Report, Ending), ReadError> {
    let Tracked { sink: mut report, mut ending, events } = track(reader, range, Report::new)?;
    ending.unfollowed += report.memory.left_out;
    report.events = events;
    report.range.until_ns = report.range.until_ns.min(ending.known_until_ns).max(report.range.from_ns);
    Ok((report, ending))
}

impl Report {
    /// An empty report of a range on the trace's clock.
    pub fn new(range: TraceRange) -> Self {
        Self { range, ..Self::default() }
    }

    /// Each CPU with events, ascending.
    pub fn cpus(&self) -> impl Iterator<Item = CpuAccount> {
        self.cpus.iter().flatten().copied()
    }

    fn account(&mut self, cpu: u16) -> &mut CpuAccount {
        self.cpus.at(cpu.into()).get_or_insert(CpuAccount { cpu, ..CpuAccount::default() })
    }

    pub fn totals(&self) -> Totals {
        let length_ns = self.range.until_ns.saturating_sub(self.range.from_ns);
        let all: Vec<_> = self.cpus().collect();
        Totals { length_ns, cpus: all.len() as u64, events: self.events, ledger: CpuAccount::sum(&all) }
    }
}

impl SpanSink for Report {
    fn thread(&mut self, whole: &ThreadSpan) {
        let (from_ns, until_ns) = self.range.cut(whole.from_ns, whole.until_ns);
        if from_ns > until_ns {
            return;
        }
        let span = ThreadSpan { from_ns, until_ns, ..*whole };
        let thread = self.threads.at(span.slot);
        thread.task = span.task;
        match span.state {
            ThreadState::Running => thread.on_cpu_ns += until_ns - from_ns,
            ThreadState::Unknown => thread.unknown_ns += until_ns - from_ns,
            ThreadState::ReadyWoken | ThreadState::ReadyPreempted => {
                thread.ready.add(&span, whole, &mut self.memory);
                self.slices.behind(&span, &mut thread.culprits, &mut self.memory);
            }
            ThreadState::Blocked(reason) => thread.blocked.add(reason, until_ns - from_ns),
            ThreadState::Dead => {}
        }
    }

    fn cpu(&mut self, whole: &CpuSpan) {
        let (from_ns, until_ns) = self.range.cut(whole.from_ns, whole.until_ns);
        if from_ns < until_ns {
            let span = CpuSpan { from_ns, until_ns, ..*whole };
            *self.account(span.cpu).time_in(span.state) += until_ns - from_ns;
            self.slices.add(&span);
        }
        if whole.is_over && self.range.has(whole.until_ns) {
            self.account(whole.cpu).switches += 1;
        }
    }

    fn left(&mut self, slot: usize, leaves: Leaves, at_ns: u64) {
        if self.range.has(at_ns) {
            let thread = self.threads.at(slot);
            let is_pushed_off = leaves == Leaves::Ready;
            *(if is_pushed_off { &mut thread.involuntary } else { &mut thread.voluntary }) += 1;
        }
    }

    fn moved(&mut self, slot: usize, at_ns: u64) {
        if self.range.has(at_ns) {
            self.threads.at(slot).migrations += 1;
        }
    }

    fn hole(&mut self, cpu: u16, at_ns: u64) {
        if self.range.has(at_ns) {
            self.account(cpu).holes += 1;
        }
    }

    fn unknown_wakeup(&mut self, slot: usize, at_ns: u64) {
        if self.range.has(at_ns) {
            self.threads.at(slot).unknown_wakeups += 1;
        }
    }

    fn interrupt(&mut self, span: &InterruptSpan) {
        self.has_interrupts = true;
        let (from_ns, until_ns) = self.range.cut(span.from_ns, span.until_ns);
        if from_ns > until_ns {
            return;
        }
        let ns = until_ns - from_ns;
        self.account(span.cpu).interrupt(span.state, span.interrupt, ns);
        if let Some(slot) = span.slot {
            let thread = self.threads.at(slot);
            match span.interrupt {
                Interrupt::Hard(_) => thread.irq_ns += ns,
                Interrupt::Soft(_) => thread.softirq_ns += ns,
            }
        }
    }

    fn lost(&mut self, cpu: u16, count: u64, at_ns: u64) {
        if self.range.has(at_ns) {
            let lost = &mut self.account(cpu).lost;
            *lost = lost.saturating_add(count);
        }
    }

    fn bytes(&self, threads: usize) -> usize {
        self.threads.bytes(threads) + self.memory.bytes
    }
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum ReportBy {
    Thread,
    Process,
    /// All processes of one name.
    Program,
    Container,
}

impl ReportBy {
    /// What the time is summed by that a row was ready behind others.
    pub(super) fn of_culprits(self) -> Self {
        if self == Self::Container { self } else { Self::Program }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum GroupKey<T = Box<str>> {
    Thread(ThreadKey, ProcessKey),
    Process(ProcessKey),
    Program(T),
    /// A container; empty for processes in no container.
    Container(T),
    Unnamed(TraceTask),
}

#[derive(Clone, Debug)]
pub struct GroupRow {
    pub key: GroupKey,
    /// Name of the group. Hostile.
    pub name: Box<str>,
    pub threads: u64,
    /// What they did. Wakeups are not counted.
    pub totals: ThreadTotals,
    /// Times one came to a CPU, and it is not known when it was woken.
    pub unknown_wakeups: u64,
    /// Time blocked, by reason.
    pub blocked: Waits,
    histogram: DelayHistogram,
    longest: LongestDelay,
    /// Programs that it waited behind, at most eight: name and ns, the longest time first; of containers the containers.
    pub behind: Vec<(Box<str>, u64)>,
}

impl GroupRow {
    /// The longest single wait for a CPU, if there was any.
    pub fn longest_delay(&self) -> Option<LongestDelay> {
        (self.longest.ns > 0 || !self.histogram.is_empty()).then_some(self.longest)
    }

    /// Length that `percent` percent of the waits for a CPU did not exceed, ns.
    pub fn delay_percentile_ns(&self, percent: u32) -> Option<u64> {
        self.histogram.percentile_ns(percent, Some(self.longest.ns))
    }

    /// Number of waits for a CPU.
    pub fn delays(&self) -> u64 {
        self.histogram.total()
    }

    pub(super) fn new(key: GroupKey, name: Box<str>) -> Self {
        Self {
            key,
            name,
            threads: 0,
            totals: ThreadTotals::default(),
            unknown_wakeups: 0,
            blocked: Waits::default(),
            histogram: DelayHistogram::default(),
            longest: LongestDelay::default(),
            behind: Vec::new(),
        }
    }

    fn add(&mut self, thread: &ThreadSums) {
        self.threads += 1;
        self.totals.merge(&thread.totals());
        self.unknown_wakeups += thread.unknown_wakeups;
        self.blocked += &thread.blocked;
        thread.ready.add_counts_to(&mut self.histogram);
        self.longest.raise(thread.ready.longest);
    }
}

/// The name, or a placeholder: some recordings have only ids of threads.
fn shown(name: &str) -> Box<str> {
    if name.is_empty() { NO_NAME.into() } else { name.into() }
}

/// In which row a task is, and that row's name.
pub fn group_of(task: TraceTask, by: ReportBy, tasks: &Tasks) -> (GroupKey, Box<str>) {
    match key_of(task, by, tasks) {
        GroupKey::Thread(thread, process) => (
            GroupKey::Thread(thread, process),
            shown(&tasks.find(task).map_or("".into(), |names| names.comm)),
        ),
        GroupKey::Process(process) => {
            let program = tasks.find(task).map_or("".into(), |names| names.program);
            (GroupKey::Process(process), shown(&program))
        }
        GroupKey::Program(program) => (GroupKey::Program(program.as_ref().into()), shown(&program)),
        GroupKey::Container(name) => {
            let shown = if name.is_empty() { NO_CONTAINER } else { &*name };
            (GroupKey::Container(name.as_ref().into()), shown.into())
        }
        GroupKey::Unnamed(task) => (GroupKey::Unnamed(task), format!("task {}", task.0).into()),
    }
}

/// The same without a name, and with texts as the trace has them.
fn key_of(task: TraceTask, by: ReportBy, tasks: &Tasks) -> GroupKey<Cow<'_, str>> {
    let Some(names) = tasks.find(task) else { return GroupKey::Unnamed(task) };
    match by {
        ReportBy::Thread => GroupKey::Thread(names.thread, names.process),
        ReportBy::Process => GroupKey::Process(names.process),
        ReportBy::Program => GroupKey::Program(names.program),
        ReportBy::Container => {
            let path = tasks.group_path(names.group).unwrap_or_default();
            GroupKey::Container(Cow::Owned(CgroupNames::of(&path).container().into_owned()))
        }
    }
}

/// The rows of a report by run time, the most first. Each is made when its turn comes: all rows of millions of threads at once would take
/// several times the memory of the report.
pub struct Groups<'r> {
    report: &'r Report,
    tasks: &'r Tasks,
    by: ReportBy,
    order: Vec<u32>,
    /// Number of a row, and the slot of a thread in it; ascending.
    members: Vec<(u32, u32)>,
    /// What a row was ready behind is summed by these.
    culprits: RowNumbers,
}

/// The key of a row, and its number.
type NumberedKey<'r> = (GroupKey<Cow<'r, str>>, u32);

/// Numbers the rows of a grouping.
#[derive(Default)]
struct RowNumbers {
    /// Number of the row that a task is in.
    of: Numbers,
    /// A task of each row.
    first: Vec<TraceTask>,
}

impl RowNumbers {
    /// The numbers, and the key of each row.
    fn new<'r>(threads: &Slots<ThreadSums>, by: ReportBy, tasks: &'r Tasks) -> (Self, Vec<NumberedKey<'r>>) {
        let (mut rows, mut keys) = (Self::default(), HashMap::<_, u32, RandomState>::default());
        for task in threads.iter().map(|thread| thread.task).filter(|task| task.is_thread()) {
            let number = *keys.entry(key_of(task, by, tasks)).or_insert_with(|| {
                rows.first.push(task);
                u32::try_from(rows.first.len() - 1).unwrap_or(u32::MAX)
            });
            rows.of.set(task.0, number as usize);
        }
        (rows, keys.into_iter().collect())
    }

    fn number(&self, task: TraceTask) -> Option<u32> {
        self.of.get(task.0).and_then(|number| u32::try_from(number).ok())
    }
}

impl<'r> Groups<'r> {
    fn new(report: &'r Report, by: ReportBy, tasks: &'r Tasks) -> Self {
        let (rows, mut keys) = RowNumbers::new(&report.threads, by, tasks);
        let (mut run_ns, mut members) = (vec![0_u64; rows.first.len()], Vec::new());
        for (slot, thread) in (0_u32..).zip(report.threads.iter()) {
            let Some(number) = rows.number(thread.task).filter(|_| thread.task.is_thread()) else { continue };
            let sum = &mut run_ns[number as usize];
            *sum = sum.saturating_add(thread.run_ns());
            members.push((number, slot));
        }
        members.sort_unstable();
        keys.sort_unstable_by(|a, b| {
            let run_ns = |number: u32| Reverse(run_ns[number as usize]);
            run_ns(a.1).cmp(&run_ns(b.1)).then_with(|| a.0.cmp(&b.0))
        });
        let order = keys.into_iter().map(|(_, number)| number).collect();
        // Six processes of one program are one culprit.
        let culprits = if by == by.of_culprits() {
            rows
        } else {
            drop(rows);
            RowNumbers::new(&report.threads, by.of_culprits(), tasks).0
        };
        Self { report, tasks, by, order, members, culprits }
    }

    pub fn count(&self) -> usize {
        self.order.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = GroupRow> + '_ {
        self.order.iter().map(|number| self.row(*number))
    }

    fn threads(&self, number: u32) -> impl Iterator<Item = &ThreadSums> {
        let first = self.members.partition_point(|member| member.0 < number);
        let members = self.members[first..].iter().take_while(move |member| member.0 == number);
        members.filter_map(|member| self.report.threads.get(member.1 as usize))
    }

    fn key_and_name(&self, number: u32) -> (GroupKey, Box<str>) {
        let task = self.threads(number).next().map_or(TraceTask::UNKNOWN, |first| first.task);
        group_of(task, self.by, self.tasks)
    }

    fn row(&self, number: u32) -> GroupRow {
        let (key, name) = self.key_and_name(number);
        let mut row = GroupRow::new(key, name);
        self.threads(number).for_each(|thread| row.add(thread));
        let by = self.by.of_culprits();
        let name = |number: u32| group_of(self.culprits.first[number as usize], by, self.tasks).1;
        row.behind = self.behind(number).into_iter().map(|(number, ns)| (name(number), ns)).collect();
        row
    }

    /// Behind which numbers of `culprits` the threads of a row waited longest, ns.
    fn behind(&self, number: u32) -> Vec<(u32, u64)> {
        let mut sums: HashMap<u32, u64, RandomState> = HashMap::default();
        for (task, ns) in self.threads(number).flat_map(|thread| thread.culprits.iter()) {
            if let Some(number) = self.culprits.number(task) {
                let sum = sums.entry(number).or_default();
                *sum = sum.saturating_add(ns);
            }
        }
        let mut behind: Vec<_> = sums.into_iter().collect();
        behind.sort_unstable_by_key(|(number, ns)| (Reverse(*ns), *number));
        behind.truncate(SHOWN_CULPRITS);
        behind
    }
}

impl Report {
    /// The rows. Threads that neither ran nor waited in the range have none.
    pub fn groups<'r>(&'r self, by: ReportBy, tasks: &'r Tasks) -> Groups<'r> {
        Groups::new(self, by, tasks)
    }

    /// All rows at once, of a trace with few threads.
    pub fn rows(&self, by: ReportBy, tasks: &Tasks) -> Vec<GroupRow> {
        self.groups(by, tasks).iter().collect()
    }
}
