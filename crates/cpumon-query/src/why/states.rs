//! [`StateTimes`]: where the time of a subject's threads went in a part, and what each wait means: [`WaitClass`]. A wait for its own timer or
//! for work is no delay.

use std::borrow::Cow;

use cpumon_model::{Delta, Fields, ProcessKey, ThreadKey, WaitFor, WaitKind, WaitReason, WaitedOn, Waits};
use foldhash::{HashMap, HashMapExt, HashSet};

use super::part::{ShortKey, WhyPart};

/// A wait of this mean length for another thread of a program that does nearly nothing is one for work, not for a lock.
pub(super) const IDLE_WAIT_NS: u64 = 100_000_000;
/// Share of its time below which a program does nearly nothing.
const IDLE_SHARE: f64 = 0.05;
/// Waits a second from which on a program left the CPU all the time.
const MANY_SWITCHES: f64 = 500.0;

/// Which rows are the subject.
#[derive(Clone, Debug, Default)]
pub(super) struct SubjectRows {
    /// `None`: all processes of the machine.
    pub(super) keys: Option<HashSet<ProcessKey>>,
    pub(super) short: HashSet<ShortKey>,
}

impl SubjectRows {
    pub(super) fn is_machine(&self) -> bool {
        self.keys.is_none()
    }

    pub(super) fn has(&self, key: ProcessKey) -> bool {
        self.keys.as_ref().is_none_or(|keys| keys.contains(&key))
    }

    pub(super) fn has_short(&self, key: &ShortKey) -> bool {
        self.is_machine() || self.short.contains(key)
    }
}

/// What a wait means.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum WaitClass {
    Disk,
    Faults,
    /// For another thread of the process, or for a lock whose holder is not known.
    Lock,
    Child,
    /// For another process.
    Peer,
    /// For data from the network or a device. No delay: it may be a slow answer, or no request.
    Network,
    /// On whom is not known.
    Unknown,
    /// For its own timer or for work.
    Asleep,
}

impl WaitClass {
    pub(super) fn of(reason: WaitReason, on: WaitedOn) -> Self {
        let is_on_process = matches!(on, WaitedOn::Process(_));
        match &*reason.words() {
            // A thread does not end what a disk does: it was a lock of the kernel, such as that of the memory map.
            "disk" | "page fault" if matches!(on, WaitedOn::Thread(_)) => Self::Lock,
            "disk" | "flush to disk" => Self::Disk,
            "page fault" => Self::Faults,
            "child process" => Self::Child,
            "sleep" | "signal" | "work to do" | "exit" | "stopped" | "debugger" | "suspended" => Self::Asleep,
            // One that ends by an interrupt timed out.
            _ if is_lock(reason) && on == WaitedOn::Interrupt => Self::Asleep,
            _ if is_lock(reason) && is_on_process => Self::Peer,
            _ if is_lock(reason) => Self::Lock,
            _ if is_input(reason) && !is_on_process => Self::Asleep,
            _ => match on {
                WaitedOn::Process(_) => Self::Peer,
                WaitedOn::Thread(_) => Self::Lock,
                WaitedOn::Interrupt => Self::Network,
                WaitedOn::Others => Self::Unknown,
            },
        }
    }

    /// The class of a wait of a subject in a part. Its own processes are no others: their time is in its time already. A wait that a new
    /// child ended is one for a child, in whatever way it reports.
    pub(super) fn of_row(part: &WhyPart, rows: &SubjectRows, row: &WaitFor) -> Option<Self> {
        let WaitKind::Blocked(reason) = row.kind else { return None };
        let class = Self::of(reason, row.on);
        let WaitedOn::Process(key) = row.on else { return Some(class) };
        let is_new_child = part.is_new_child(row.waiter, key);
        // A program does not end what a disk does: it had a lock of the kernel, or is a child of `vfork`.
        let is_program = part.processes.get(&key).map_or(is_new_child, |seen| !seen.info.is_kernel);
        let is_of_kernel = reason == WaitReason::DISK && is_program;
        Some(match if is_of_kernel { Self::Peer } else { class } {
            Self::Peer | Self::Child if !rows.is_machine() && rows.has(key) => {
                if is_lock(reason) || (is_of_kernel && !is_new_child) { Self::Lock } else { Self::Asleep }
            }
            Self::Peer if is_new_child => Self::Child,
            class => class,
        })
    }

    pub(super) fn is_delay(self) -> bool {
        !matches!(self, Self::Network | Self::Asleep)
    }

    /// Whether it is a delay with a known cause.
    pub(super) fn is_wanted(self) -> bool {
        self.is_delay() && self != Self::Unknown
    }
}

/// Whether a wait is for a lock.
pub(super) fn is_lock(reason: WaitReason) -> bool {
    matches!(&*reason.words(), "lock" | "semaphore" | "file lock")
}

/// Whether a wait is for whatever comes first: events, connections.
pub(super) fn is_input(reason: WaitReason) -> bool {
    matches!(&*reason.words(), "I/O events" | "new connection" | "async I/O")
}

/// Waits of a subject for one reason on one other.
#[derive(Copy, Clone, Debug)]
pub(super) struct SubjectWait {
    pub(super) class: WaitClass,
    pub(super) reason: WaitReason,
    pub(super) on: WaitedOn,
    pub(super) ns: u64,
    /// 0: they are known by their time alone.
    pub(super) count: u64,
}

impl SubjectWait {
    /// What it was for. A program does not end what a disk does: it had a lock of the kernel, or it is a child of `vfork`.
    pub(super) fn words(&self) -> Cow<'static, str> {
        match (self.reason, self.class) {
            (WaitReason::DISK, WaitClass::Child) => "vfork".into(),
            (WaitReason::DISK, WaitClass::Peer | WaitClass::Lock) => "a lock of the kernel".into(),
            (reason, _) => reason.words_and_name(),
        }
    }
}

/// Where the time of a subject's threads went; of a machine that of its CPUs and of all who waited.
#[derive(Clone, Debug, Default)]
pub(super) struct StateTimes {
    pub(super) delta: Delta,
    /// Measured time in which the subject was there, ns: rates are by it.
    pub(super) present_ns: u64,
    /// The same; of a machine the capacity of its CPUs.
    pub(super) length_ns: u64,
    pub(super) throttled_ns: u64,
    pub(super) waits: Vec<SubjectWait>,
}

impl StateTimes {
    /// `is_idle`: whether a process is one that does nearly nothing for those who wait for it.
    pub(super) fn of(part: &WhyPart, rows: &SubjectRows, is_idle: &dyn Fn(ProcessKey) -> bool) -> Self {
        let (mut delta, mut waits, mut active_ns) = (Delta::default(), Waits::default(), 0_u64);
        let mut own: Vec<_> = part.processes.iter().filter(|(key, _)| rows.has(**key)).collect();
        // A table of reasons that is full depends on the order.
        own.sort_unstable_by_key(|(key, _)| **key);
        let mut present_ns = part.present_ns(own.iter().map(|(_, seen)| *seen));
        for (_, seen) in own {
            delta += &seen.delta;
            waits += &seen.waits;
            active_ns = active_ns.saturating_add(seen.length_ns);
        }
        delta.run_delay_ns = run_delay_ns(part, rows, &delta);
        for (_, runs) in part.short.iter().filter(|(key, _)| rows.has_short(key)) {
            delta += &runs.delta;
            active_ns = active_ns.saturating_add(runs.length_ns);
            present_ns = present_ns.saturating_add(runs.length_ns).min(part.length_ns);
        }
        let mut length_ns = present_ns;
        if rows.is_machine() {
            (present_ns, length_ns) = (part.length_ns, at_least_zero(part.ledger.capacity_ns));
        }
        let throttled_ns = throttled(part, rows, at_least_zero(delta.run_delay_ns));
        let waits = waits_of(part, rows, &waits, is_idle);
        let mut times = Self { delta, present_ns, length_ns, throttled_ns, waits };
        times.let_idle_threads_sleep(active_ns);
        if part.fields.contains(Fields::FAULTS) {
            times.decide_faults();
        }
        times
    }

    /// The kernel reads the page of a page fault as anything else from a disk: how many major page faults there were decides. A wait in a
    /// page fault that needed no disk is for memory or for a lock of the kernel.
    fn decide_faults(&mut self) {
        let in_faults = self.counted(WaitClass::Faults).count;
        let both = self.counted(WaitClass::Disk).count.saturating_add(in_faults);
        let (is_disk_for_pages, has_pages) = (self.is_of_faults(both), self.is_of_faults(in_faults));
        for wait in &mut self.waits {
            wait.class = match wait.class {
                WaitClass::Disk if wait.reason == WaitReason::DISK && is_disk_for_pages => WaitClass::Faults,
                WaitClass::Faults if !has_pages => WaitClass::Unknown,
                class => class,
            };
        }
    }

    /// Whether at least every second of these waits can be one of a major page fault. `waits`: 0 where they are not counted; then each
    /// switch may be one.
    pub(super) fn is_of_faults(&self, waits: u64) -> bool {
        let faults = at_least_zero(self.delta.major_faults);
        let waits = if waits > 0 { waits } else { at_least_zero(self.delta.voluntary_switches) };
        faults > 0 && faults.saturating_mul(2) >= waits
    }

    /// `active_ns`: length of the intervals in which its processes did something, summed over processes.
    fn let_idle_threads_sleep(&mut self, active_ns: u64) {
        let busy_ns = self.ran_ns().saturating_add(self.ready_ns());
        if busy_ns as f64 >= active_ns as f64 * IDLE_SHARE {
            return;
        }
        for wait in self.waits.iter_mut().filter(|wait| wait.class == WaitClass::Lock) {
            if wait.count > 0 && wait.ns / wait.count >= IDLE_WAIT_NS {
                wait.class = WaitClass::Asleep;
            }
        }
    }

    /// Counts waits that these threads ended as waits for work, and those of which it is not known who ended them, if they are fewer and no
    /// other thread is left.
    pub(super) fn let_pools_sleep(&mut self, is_idle: impl Fn(ThreadKey) -> bool) {
        let mut idle_ns = 0_u64;
        for wait in self.waits.iter_mut().filter(|wait| wait.class == WaitClass::Lock) {
            if matches!(wait.on, WaitedOn::Thread(key) if is_idle(key)) {
                wait.class = WaitClass::Asleep;
                idle_ns = idle_ns.saturating_add(wait.ns);
            }
        }
        let locks_ns = |is_meant: fn(WaitedOn) -> bool| {
            self.sum(|wait| wait.class == WaitClass::Lock && is_meant(wait.on))
        };
        let has_holder = locks_ns(|on| matches!(on, WaitedOn::Thread(_))) > 0;
        let others_ns = locks_ns(|on| on == WaitedOn::Others);
        if !has_holder && others_ns <= idle_ns {
            self.set_locks(WaitClass::Asleep);
        }
    }

    /// Gives waits for other threads, or for a lock of which it is not known who held it, another class.
    pub(super) fn set_locks(&mut self, class: WaitClass) {
        let is_meant = |wait: &&mut SubjectWait| {
            wait.class == WaitClass::Lock && matches!(wait.on, WaitedOn::Thread(_) | WaitedOn::Others)
        };
        self.waits.iter_mut().filter(is_meant).for_each(|wait| wait.class = class);
    }

    pub(super) fn ran_ns(&self) -> u64 {
        at_least_zero(self.delta.run_ns)
    }

    pub(super) fn ready_ns(&self) -> u64 {
        at_least_zero(self.delta.run_delay_ns).saturating_sub(self.throttled_ns)
    }

    fn sum(&self, is_meant: impl Fn(&SubjectWait) -> bool) -> u64 {
        self.waits.iter().filter(|wait| is_meant(wait)).fold(0, |sum, wait| sum.saturating_add(wait.ns))
    }

    pub(super) fn of_class(&self, class: WaitClass) -> u64 {
        self.sum(|wait| wait.class == class)
    }

    /// Ready, throttled and blocked on others, with a known cause.
    fn delayed_ns(&self) -> u64 {
        let blocked_ns = self.sum(|wait| wait.class.is_wanted());
        self.ready_ns().saturating_add(self.throttled_ns).saturating_add(blocked_ns)
    }

    /// The time that it wanted for its work: ran and delayed.
    pub(super) fn wanted_ns(&self) -> u64 {
        self.ran_ns().saturating_add(self.delayed_ns()).max(1)
    }

    /// The time that shares are of: that in which the subject was there, at least the wanted time, which is that of several threads.
    /// Threads that sleep add nothing to it: a pool of them must not make the wait of one thread small.
    pub(super) fn base_ns(&self) -> u64 {
        self.length_ns.max(self.wanted_ns())
    }

    /// Waits that are no delay, and those whose cause is not known: each of many idle threads has some all the time.
    fn unwanted_ns(&self) -> u64 {
        self.sum(|wait| !wait.class.is_wanted())
    }

    /// What the wanted time leaves of the base.
    pub(super) fn left_ns(&self) -> u64 {
        self.base_ns().saturating_sub(self.wanted_ns())
    }

    /// Off the CPUs, and not known why.
    pub(super) fn rest_ns(&self) -> u64 {
        self.left_ns().saturating_sub(self.unwanted_ns())
    }

    /// Time in waits that are too short to be followed, at most; 0 unless there are many of them.
    pub(super) fn short_waits_ns(&self) -> u64 {
        let followed = self.waits.iter().fold(0_u64, |sum, wait| sum.saturating_add(wait.count));
        let short = at_least_zero(self.delta.voluntary_switches).saturating_sub(followed);
        if (short as f64) < self.present_ns as f64 / 1e9 * MANY_SWITCHES {
            return 0;
        }
        // Threads that sleep take no time from one that does not.
        let rest_ns = self.rest_ns();
        let most_ns = if rest_ns > 0 { rest_ns } else { self.left_ns() };
        most_ns.min(short.saturating_mul(WaitFor::MIN_NS))
    }

    /// Time in which it was not idle: the wanted time, and waits whose cause is not known.
    pub(super) fn busy_ns(&self) -> u64 {
        let unknown_ns = self.of_class(WaitClass::Unknown).saturating_add(self.short_waits_ns());
        self.wanted_ns().saturating_add(unknown_ns)
    }

    /// Waits that are not wanted share what the wanted time leaves, where they are longer than that.
    pub(super) fn shares(&self) -> Shares {
        let (base_ns, left_ns, unwanted_ns) = (self.base_ns(), self.left_ns(), self.unwanted_ns());
        let part = if unwanted_ns <= left_ns { 1.0 } else { left_ns as f64 / unwanted_ns as f64 };
        Shares { base_ns, of_unwanted: part / base_ns as f64 }
    }

    /// Share of a wanted time, 0 to 1.
    pub(super) fn share(&self, ns: u64) -> f64 {
        self.shares().of(ns)
    }

    /// Share of waits of a class, 0 to 1.
    pub(super) fn share_of(&self, class: WaitClass, ns: u64) -> f64 {
        self.shares().of_waits(class, ns)
    }

    /// Share of the delays, those whose cause is not known included.
    pub(super) fn delayed_share(&self) -> f64 {
        let unknown_ns = self.of_class(WaitClass::Unknown);
        self.share(self.delayed_ns()) + self.share_of(WaitClass::Unknown, unknown_ns)
    }

    /// Number of waits of a class, as far as they were counted, and their time.
    pub(super) fn counted(&self, class: WaitClass) -> CountedWaits {
        let of_class = self.waits.iter().filter(|wait| wait.class == class && wait.count > 0);
        let mut sum = CountedWaits::default();
        of_class.for_each(|wait| sum.add(wait));
        sum
    }
}

/// What shares of a subject's time are of: worked out once, where there are many.
#[derive(Copy, Clone, Debug)]
pub(super) struct Shares {
    base_ns: u64,
    /// Of a nanosecond in waits that are not wanted.
    of_unwanted: f64,
}

impl Shares {
    /// Of a wanted time, 0 to 1.
    pub(super) fn of(self, ns: u64) -> f64 {
        (ns as f64 / self.base_ns as f64).min(1.0)
    }

    /// Of waits of a class, 0 to 1.
    pub(super) fn of_waits(self, class: WaitClass, ns: u64) -> f64 {
        if class.is_wanted() { self.of(ns) } else { (ns as f64 * self.of_unwanted).min(1.0) }
    }
}

/// Waits that were counted.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct CountedWaits {
    pub(super) ns: u64,
    pub(super) count: u64,
}

impl CountedWaits {
    pub(super) fn add(&mut self, wait: &SubjectWait) {
        self.ns = self.ns.saturating_add(wait.ns);
        self.count = self.count.saturating_add(wait.count);
    }
}

pub(super) fn at_least_zero(ns: i64) -> u64 {
    ns.max(0).unsigned_abs()
}

/// Time of the subject in waits of a kind that ended, ns.
pub(super) fn ended_ns(part: &WhyPart, rows: &SubjectRows, kind: WaitKind) -> u64 {
    let ended = part.waits.iter().filter(|row| row.kind == kind && rows.has(row.waiter));
    ended.fold(0, |sum, row| sum.saturating_add(row.ns))
}

/// The run delay of a subject's processes, ns: at most their waits of 1 ms and more, and 1 ms for each switch. Linux 6.12 and later also
/// count time in which a thread that is to sleep is still in the run queue (delayed dequeue). Sums have the longest waits only: without one
/// of the subject it can have waited all the same, if the CPUs were busy.
fn run_delay_ns(part: &WhyPart, rows: &SubjectRows, delta: &Delta) -> i64 {
    let ledger = &part.ledger;
    let is_busy = ledger.capacity_ns > 0 && ledger.idle_ns.saturating_mul(4) <= ledger.capacity_ns;
    let may_lack = part.has_sums && is_busy && ended_ns(part, rows, WaitKind::Ready) == 0;
    if may_lack || !part.fields.contains(Fields::WAITS_FOR | Fields::SWITCHES) {
        return delta.run_delay_ns;
    }
    let switches = at_least_zero(delta.voluntary_switches.saturating_add(delta.involuntary_switches));
    let kinds = [WaitKind::Ready, WaitKind::Throttled];
    let followed_ns = kinds.map(|kind| ended_ns(part, rows, kind)).into_iter().fold(0, u64::saturating_add);
    let most_ns = followed_ns.saturating_add(switches.saturating_mul(WaitFor::MIN_NS));
    delta.run_delay_ns.min(i64::try_from(most_ns).unwrap_or(i64::MAX))
}

/// Time that a CPU limit took from the subject, never more than it waited: by its waits, or by the counters of its groups, which count for
/// all processes in them, up to the time that it was not ready.
fn throttled(part: &WhyPart, rows: &SubjectRows, delay_ns: u64) -> u64 {
    let by_waits = ended_ns(part, rows, WaitKind::Throttled);
    let by_groups = throttled_by_groups(part, rows);
    let ready_ns = ended_ns(part, rows, WaitKind::Ready);
    by_waits.max(by_groups.min(delay_ns.saturating_sub(ready_ns))).min(delay_ns)
}

/// The control groups of a subject's processes.
pub(super) fn cgroups_of<'p>(part: &'p WhyPart, rows: &SubjectRows) -> HashSet<&'p str> {
    let own = part.processes.iter().filter(|(key, _)| rows.has(**key)).map(|(_, seen)| &seen.info);
    let short = part.short.iter().filter(|(key, _)| rows.has_short(key)).map(|(_, runs)| &runs.info);
    own.chain(short).map(|info| &*info.cgroup).collect()
}

/// Time that the counters of the groups of the subject have, ns. Groups with one limiter have the same counters: counted is the one that was
/// there longest.
fn throttled_by_groups(part: &WhyPart, rows: &SubjectRows) -> u64 {
    let paths = cgroups_of(part, rows);
    let is_meant = |path: &str| rows.is_machine() || paths.contains(path);
    let mut by_limiter: HashMap<&str, u64> = HashMap::new();
    for row in part.cgroups.values().filter(|row| row.limit.is_limited() && is_meant(&row.path)) {
        let most = by_limiter.entry(row.limiter()).or_default();
        *most = (*most).max(row.throttle.map_or(0, |one| one.throttled_ns));
    }
    by_limiter.into_values().fold(0, u64::saturating_add)
}

/// The waits of a subject: those by who ended them, and for each reason what the scheduler's events have beyond these.
fn waits_of(
    part: &WhyPart,
    rows: &SubjectRows,
    by_reason: &Waits,
    is_idle: &dyn Fn(ProcessKey) -> bool,
) -> Vec<SubjectWait> {
    let blocked = part.waits.iter().filter(|row| rows.has(row.waiter)).filter_map(|row| {
        let WaitKind::Blocked(reason) = row.kind else { return None };
        let class = WaitClass::of_row(part, rows, row)?;
        Some(SubjectWait { class, reason, on: row.on, ns: row.ns, count: row.count })
    });
    let mut all: Vec<SubjectWait> = blocked.collect();
    let has_who = part.fields.contains(Fields::WAITS_FOR);
    let reasons = by_reason.iter().filter(|_| part.fields.contains(Fields::WAITS));
    for (reason, ns) in reasons {
        let on = WaitedOn::Others;
        let class = match WaitClass::of(reason, on) {
            WaitClass::Lock if !has_who => WaitClass::Unknown,
            class => class,
        };
        // Beyond the waits that have ended these are threads at rest: only of a disk is the rest short waits.
        if has_who && !matches!(class, WaitClass::Disk | WaitClass::Faults) {
            continue;
        }
        let known = all.iter().filter(|wait| wait.reason == reason).map(|wait| wait.ns);
        let ns = ns.saturating_sub(known.fold(0, u64::saturating_add));
        all.push(SubjectWait { class, reason, on, ns, count: 0 });
    }
    for wait in all.iter_mut().filter(|wait| matches!(wait.class, WaitClass::Peer | WaitClass::Child)) {
        if matches!(wait.on, WaitedOn::Process(key) if is_idle(key)) {
            wait.class = WaitClass::Asleep;
        }
    }
    // Processes of a machine wait for each other: only what none of them has is a delay of the whole.
    let is_of_whole = |wait: &SubjectWait| matches!(wait.class, WaitClass::Disk | WaitClass::Faults);
    all.retain(|wait| wait.ns > 0 && (!rows.is_machine() || is_of_whole(wait)));
    all
}
