//! [`Cells`]: the text of each cell, for the grid and for batch mode. No data is `-`, which is not `0.0`;
//! [`cpumon_model::IntervalView`] decides which values are no data.

use cpumon_model::{
    CgroupInterval, ColumnId, CpuLimit, Fields, Flags, Format, GroupLimits, Interval, IntervalView, Life,
    LimitFinder, ProcessInterval, ThreadInterval, Value, delay_percent, wait_in_words,
};

use crate::history::RunTotals;
use crate::rows::{Item, RowGroup, group_delays, thread_name};
use crate::text::{mean, name_text, percent, rate, safe, short, total, width};
use crate::theme::Theme;
use crate::view::{Col, Unit, View};

/// Text of a cell without data.
pub(crate) const NONE: &str = "-";

pub(crate) struct Cells<'a> {
    pub interval: &'a Interval,
    pub view: &'a View,
    pub theme: Theme,
    pub values: IntervalView<'a>,
    limits: LimitFinder<'a>,
    seen: Option<&'a RunTotals>,
}

impl<'a> Cells<'a> {
    /// `seen`: running totals, where they belong to this moment.
    pub(crate) fn new(
        interval: &'a Interval,
        view: &'a View,
        theme: Theme,
        seen: Option<&'a RunTotals>,
    ) -> Self {
        let (values, limits) = (IntervalView::new("", interval), LimitFinder::new(interval));
        Self { interval, view, theme, values, limits, seen }
    }

    /// The main wait of a row: in words, with the system call where a column of this width has space for both.
    pub(crate) fn wait_text(&self, item: &Item<'_>, columns: usize) -> String {
        let name = self.text(item, Col::Wait);
        let Some(words) = wait_in_words(&name) else { return name };
        let both = format!("{words} ({name})");
        if width(&both) <= columns { both } else { words.to_owned() }
    }

    /// The text of a cell, without tree lines and search marks; a wait reason by its name. Safe on a terminal.
    pub(crate) fn text(&self, item: &Item<'_>, col: Col) -> String {
        let text = match col {
            Col::Id => return own_id(item),
            Col::Owner => self.int(item, ColumnId::Pid).map(|pid| pid.to_string()),
            Col::User => return self.user(item),
            Col::State => self.of_thread(item, ColumnId::State),
            Col::Nice => self.of_thread(item, ColumnId::Nice),
            Col::LastCpu => self.of_thread(item, ColumnId::LastCpu),
            Col::Limit => limit_text(self.limits(item)),
            Col::Throttled => self.throttled(item),
            Col::Blocked => self.blocked(item),
            Col::Wait => self.wait(item),
            Col::Switches => self.switches(item),
            Col::Threads => return self.threads(item),
            Col::Seen => self.seen(item),
            Col::Container => return self.container(item),
            Col::Marks => return self.marks(item),
            Col::Name => return self.name(item),
            _ => self.measured(item, col),
        };
        text.unwrap_or_else(|| NONE.into())
    }

    /// A number of the shared table, as that says.
    fn measured(&self, item: &Item<'_>, col: Col) -> Option<String> {
        let (id, value) = (col.shared().source?, |id| self.int(item, id));
        match col.shared().format {
            Format::Share => self.percent(item, id),
            Format::Threads => self.in_state(item, id),
            Format::PerSecond => self.per_second(value(id)?),
            Format::Duration => value(id).map(short),
            Format::Number | Format::Text => value(id).map(|number| number.to_string()),
        }
    }

    /// A measured number of a row; `None` is no data.
    pub(crate) fn int(&self, item: &Item<'_>, id: ColumnId) -> Option<i64> {
        match self.value(item, id) {
            Value::Int(number) => Some(number),
            _ => None,
        }
    }

    pub(crate) fn value<'v>(&'v self, item: &Item<'v>, id: ColumnId) -> Value<'v> {
        match item {
            _ if IS_OF_LIMITS.contains(&id) => self.limit_value(item, id),
            Item::Group(group) => self.group_value(group, id),
            Item::Process(_) if delay_percent(id).is_some() && self.is_sum(item) => Value::Null,
            Item::Process(process) => self.values.process(process, id),
            Item::Thread(thread) => self.values.thread(thread, id),
        }
    }

    /// Whether it is a closed branch of the tree. The histograms and the run time since the start are of single processes.
    pub(crate) fn is_sum(&self, item: &Item<'_>) -> bool {
        let Item::Process(process) = item else { return false };
        self.interval.process(process.key).is_none_or(|row| !std::ptr::eq(row, *process))
    }

    /// The CPU limit of its control groups; `None`: not known.
    pub(crate) fn limits(&self, item: &Item<'_>) -> Option<GroupLimits> {
        match item {
            Item::Group(group) => self.limits.of(group.rows(self.interval).map(|row| &*row.info.cgroup)),
            _ => self.limits.of([&*item.process(self.interval)?.info.cgroup]),
        }
    }

    /// A cell of [`IS_OF_LIMITS`]. A row without a limit was not throttled.
    fn limit_value(&self, item: &Item<'_>, id: ColumnId) -> Value<'static> {
        let Some(GroupLimits { limit, throttle, pressure }) = self.limits(item) else { return Value::Null };
        let throttle = if limit == CpuLimit::Unlimited { GroupLimits::NONE.throttle } else { throttle };
        let group = CgroupInterval { limit, throttle, pressure, ..CgroupInterval::default() };
        self.values.cgroup(&group, id).into_owned()
    }

    fn group_value(&self, group: &RowGroup, id: ColumnId) -> Value<'static> {
        if let Some(percent) = delay_percent(id) {
            let ns = group_delays(self.interval, group).percentile_ns(percent, group.sched.longest_ns());
            return ns.map_or(Value::Null, Value::count);
        }
        match id {
            ColumnId::ThreadRows => group.thread_rows.into(),
            _ => self.values.group(&group.delta, &group.sched, id).into_owned(),
        }
    }

    fn user(&self, item: &Item<'_>) -> String {
        if matches!(item, Item::Group(_)) {
            return String::new();
        }
        let uid = self.int(item, ColumnId::Uid).filter(|_| self.interval.source.has_users());
        let Some(uid) = uid else { return NONE.into() };
        let name = item.process(self.interval).and_then(|row| row.info.user_name());
        name.map_or_else(|| uid.to_string(), safe)
    }

    /// The interpreter of the script after which a process is named; `None` where the name is the executable's.
    pub(crate) fn interpreter(item: &Item<'_>) -> Option<String> {
        let Item::Process(process) = item else { return None };
        let interpreter = &process.info.interpreter;
        (!interpreter.is_empty()).then(|| safe(interpreter))
    }

    /// How a program is scheduled, where that is not the default; of a process its main thread.
    pub(crate) fn scheduling(&self, item: &Item<'_>) -> Option<String> {
        let thread = match item {
            Item::Group(_) => return None,
            Item::Process(process) => self.interval.main_thread(process.key)?,
            Item::Thread(thread) => thread,
        };
        self.interval.scheduling(thread)
    }

    /// The command line, where it is to be shown beside the name; hostile. Where its first word is the program that the process is
    /// named after, its arguments.
    pub(crate) fn command<'c>(&self, item: &Item<'c>) -> Option<&'c str> {
        let Item::Process(process) = item else { return None };
        let line: &str = &process.info.cmdline;
        if !self.view.cmdline || line.is_empty() {
            return None;
        }
        let (program, arguments) = line.split_once(' ').unwrap_or((line, ""));
        let is_name = program.rsplit('/').next() == Some(&process.info.name);
        Some(if is_name { arguments } else { line })
    }

    /// A process shows its main thread's state, nice value and CPU.
    fn of_thread(&self, item: &Item<'_>, id: ColumnId) -> Option<String> {
        let thread = match item {
            Item::Group(_) => return Some(String::new()),
            Item::Process(process) => self.interval.main_thread(process.key)?,
            Item::Thread(thread) => thread,
        };
        match self.values.thread(thread, id) {
            Value::Int(number) => Some(number.to_string()),
            Value::Text(text) => Some(text.into_owned()),
            _ => None,
        }
    }

    /// A share of the interval in the unit that the view asks for.
    fn percent(&self, item: &Item<'_>, id: ColumnId) -> Option<String> {
        let value = self.view.unit.of(self.interval, self.int(item, id)?)?;
        Some(percent(value, self.view.unit == Unit::Host))
    }

    /// Empty without a limit: nothing could have been used up.
    fn throttled(&self, item: &Item<'_>) -> Option<String> {
        if self.limits(item)?.limit == CpuLimit::Unlimited {
            return Some(String::new());
        }
        self.percent(item, ColumnId::ThrottledNs)
    }

    /// Run delay or blocked time as the threads in that state on average. Of a single thread it is a share of the interval: time, not
    /// CPU time, so there is no host to divide by.
    fn in_state(&self, item: &Item<'_>, id: ColumnId) -> Option<String> {
        let share = self.interval.cpu_pct(self.int(item, id)?)?;
        Some(match item {
            Item::Thread(_) if self.view.is_flat_threads() => percent(share, false),
            Item::Thread(_) => format!("{}%", percent(share, false)),
            _ => mean(share / 100.0),
        })
    }

    /// A process that did nothing waited. Where nothing is known of its waits, as in stores of older versions, that is no data.
    fn blocked(&self, item: &Item<'_>) -> Option<String> {
        let is_asleep = !matches!(item, Item::Thread(_)) && item.delta().is_zero();
        let is_unknown = is_asleep && self.int(item, ColumnId::BlockedNs) == Some(0);
        if is_unknown { None } else { self.in_state(item, ColumnId::BlockedNs) }
    }

    /// Its main wait; for a process that only slept, the open wait of its main thread.
    fn wait(&self, item: &Item<'_>) -> Option<String> {
        if let Value::Text(reason) = self.value(item, ColumnId::WaitReason) {
            return Some(reason.into_owned());
        }
        match item {
            _ if !self.interval.fields.contains(Fields::WAITS) => None,
            Item::Process(ProcessInterval { flags, .. }) | Item::Thread(ThreadInterval { flags, .. })
                if flags.contains(Flags::UNWATCHED) =>
            {
                None
            }
            Item::Process(process) => {
                let main = self.interval.main_thread(process.key);
                Some(main.map_or_else(String::new, |main| main.sched.open_wait.name().into_owned()))
            }
            _ => Some(String::new()),
        }
    }

    fn switches(&self, item: &Item<'_>) -> Option<String> {
        let voluntary = self.int(item, ColumnId::VoluntarySwitches)?;
        self.per_second(voluntary.saturating_add(self.int(item, ColumnId::InvoluntarySwitches)?))
    }

    fn per_second(&self, count: i64) -> Option<String> {
        let duration_ns = self.interval.duration_ns();
        (duration_ns > 0).then(|| rate(count as f64 * 1e9 / duration_ns as f64))
    }

    fn threads(&self, item: &Item<'_>) -> String {
        match item {
            Item::Thread(_) => String::new(),
            _ => self.int(item, ColumnId::ThreadRows).map_or_else(|| NONE.into(), |count| count.to_string()),
        }
    }

    fn seen(&self, item: &Item<'_>) -> Option<String> {
        let seen = self.seen.filter(|_| self.interval.fields.contains(Fields::RUN) && !self.is_sum(item))?;
        Some(total(seen.run_ns(self.interval, item)))
    }

    fn container(&self, item: &Item<'_>) -> String {
        item.process(self.interval).map_or_else(String::new, |process| safe(&process.info.container))
    }

    fn marks(&self, item: &Item<'_>) -> String {
        let (life, flags) = match item {
            Item::Group(_) => return String::new(),
            Item::Process(process) => (process.life, process.flags),
            Item::Thread(thread) => (thread.life, thread.flags),
        };
        let life = match life {
            Life::Alive => ' ',
            Life::Born => '+',
            Life::Ended => self.theme.ended(),
            Life::BornEnded => self.theme.born_ended(),
        };
        // First sight is normal at the start of every recording: only problems of the figures are marked.
        let odd = flags & (Flags::COUNTER_RESET | Flags::NO_FINAL_COUNTERS | Flags::IMPOSSIBLE);
        format!("{life}{}", if odd.is_empty() { ' ' } else { '!' })
    }

    fn name(&self, item: &Item<'_>) -> String {
        match item {
            Item::Group(group) => name_text(&group.name),
            Item::Process(process) => {
                let info = &process.info;
                let name = name_text(&info.name);
                if info.is_kernel { format!("[{name}]") } else { name }
            }
            Item::Thread(thread) => match &*thread_name(self.interval, thread) {
                "" => NONE.into(),
                name => safe(name),
            },
        }
    }
}

fn own_id(item: &Item<'_>) -> String {
    match item {
        Item::Group(group) => format!("x{}", group.processes.len()),
        Item::Process(process) => process.key.pid.to_string(),
        Item::Thread(thread) => thread.key.tid.to_string(),
    }
}

/// Columns of control groups, which a row has from the groups of its processes.
const IS_OF_LIMITS: [ColumnId; 5] = [
    ColumnId::CpuLimit,
    ColumnId::Periods,
    ColumnId::ThrottledPeriods,
    ColumnId::ThrottledNs,
    ColumnId::PressureSomeNs,
];

/// A limit as a cell, in CPUs: empty without one. `None`: not known.
fn limit_text(limits: Option<GroupLimits>) -> Option<String> {
    match limits?.limit {
        CpuLimit::Unknown => None,
        CpuLimit::Unlimited => Some(String::new()),
        limit @ CpuLimit::Millionths(_) => limit.cpus().map(|cpus| percent(cpus, true)),
    }
}
