//! Limits of the sources of datagrams: [`DemuxOptions`] sets them, and [`SourceBudget`] and `CpuTime` count what each source has used:
//! datagrams and bytes a second, memory, and CPU time. Limits count what datagrams become: a row of four bytes takes some 200 bytes of
//! memory.

use std::collections::HashMap;
use std::net::SocketAddr;

use cpumon_model::limits::{Bucket, Overflow, Rate, Source, SourceTable};
use cpumon_model::{HostStatus, Interval, LossCounts, Moment};
use cpumon_wire::v1::AssemblerLimits;
use rustix::time::{ClockId, clock_gettime};

/// Most sources with an allowance of their own at one time; those beyond share one allowance.
const MAX_SOURCES: usize = 8_192;
/// A host that gave out an interval keeps its place for so long when nothing comes from it, ns.
pub(super) const KEEPS_PLACE_NS: u64 = 10_000_000_000;
/// A place is searched for at most this often, ns: it takes a walk over the whole table.
pub(super) const MAKE_SPACE_EVERY_NS: u64 = 1_000_000;
/// Hosts that are silent give back what they hold after this time, ns.
pub(super) const RELEASE_AFTER_NS: u64 = 30_000_000_000;
/// A flush gives out snapshots of about this many bytes; the next flush continues. The thread that flushes receives datagrams, too.
pub(super) const FLUSH_BYTES: usize = 8 << 20;
/// A burst of a source, as ms of its rate: a receiver that was stopped takes in the backlog of its socket at once.
const BURST_MS: u64 = 2_000;

/// Limits of one source: an IPv4 address or an IPv6 network of 64 bits. Datagrams beyond them are refused unread, so that a flood
/// takes no time from other sources.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct SourceRate {
    /// Datagrams a second; 0: any number.
    pub datagrams_per_s: u64,
    /// Bytes a second; 0: any number.
    pub bytes_per_s: u64,
}

impl Default for SourceRate {
    /// The reasons for these limits are in docs/security.md.
    fn default() -> Self {
        Self { datagrams_per_s: 20_000, bytes_per_s: 64_000_000 }
    }
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct DemuxOptions {
    pub accept_v1: bool,
    /// Take v2 frames that are not encrypted.
    pub accept_v2: bool,
    /// Most hosts of each table: plain v2, encrypted v2, v1. A full table refuses datagrams of further hosts, or one that was
    /// silent gives way.
    pub max_hosts: usize,
    /// Memory for hosts that do not encrypt, v1 among them; rows beyond are counted and left out.
    pub plain: MemoryLimits,
    pub encrypted: MemoryLimits,
    /// A snapshot with missing fragments is given out as partial this long after its first fragment, ns.
    pub reassembly_timeout_ns: u64,
    /// Tasks that were not received for this many refresh rotations are taken as ended.
    pub stale_rotations: u32,
    pub v1: AssemblerLimits,
    /// What one source may send; `None`: any amount.
    pub source_rate: Option<SourceRate>,
    /// Sources of plain datagrams may take a share of the thread's time only. It is measured, so it differs from run to run.
    pub limits_cpu_time: bool,
}

impl Default for DemuxOptions {
    fn default() -> Self {
        Self {
            accept_v1: true,
            accept_v2: true,
            max_hosts: 4_096,
            plain: MemoryLimits::PLAIN,
            encrypted: MemoryLimits::ENCRYPTED,
            reassembly_timeout_ns: 500_000_000,
            stale_rotations: 3,
            v1: AssemblerLimits::default(),
            source_rate: None,
            limits_cpu_time: false,
        }
    }
}

/// A source may hold this much before it has sent enough for more, bytes.
const UNSENT_BYTES: usize = 1 << 20;

/// Limits on the memory that hosts make a demux hold, bytes: rows and texts of their last known snapshots and of incoming ones.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct MemoryLimits {
    /// Memory of one host. Its last known snapshot takes at most half, so that a host at its limit can still replace it.
    pub host: usize,
    /// Memory of all hosts of one source address together, bytes.
    pub source: usize,
    /// Memory of all hosts together, bytes.
    pub all: usize,
    /// Bytes that a source may hold for each byte that it sent.
    pub per_sent_byte: usize,
}

impl MemoryLimits {
    /// For senders that nothing is known of: about 21,000 threads of one address. A byte that is sent may be held as 32: hub and store
    /// have a share of the 64 that it may cost.
    pub const PLAIN: Self = Self { host: 12 << 20, source: 12 << 20, all: 256 << 20, per_sent_byte: 32 };
    /// For members of the group: about 116,000 threads of a host.
    pub const ENCRYPTED: Self =
        Self { host: 64 << 20, source: 1 << 30, all: 1 << 30, per_sent_byte: usize::MAX };
    /// For an enrolled device, and for files that the user names: about 466,000 threads.
    pub const ENROLLED: Self = Self::one_host(256 << 20);

    pub const fn one_host(bytes: usize) -> Self {
        Self { host: bytes, source: bytes, all: bytes, per_sent_byte: usize::MAX }
    }
}

/// Bytes charged for a host, and the source that pays.
#[derive(Copy, Clone, Debug)]
pub(super) struct Charge {
    pub(super) source: Source,
    bytes: usize,
}

#[derive(Debug, Default)]
struct Account {
    held: usize,
    sent: usize,
    hosts: usize,
}

/// What sources may use for the hosts of one table, and have used. An account ends with the last host of its source.
#[derive(Debug, Default)]
pub(super) struct SourceBudget {
    accounts: HashMap<Source, Account>,
    /// Bytes that all hosts hold.
    pub(super) held: usize,
    /// Datagrams and bytes; `None`: any number.
    rates: Option<SourceTable<2>>,
    /// `None`: any time.
    cpu_time: Option<CpuTime>,
}

impl SourceBudget {
    /// For senders that nothing is known of.
    pub(super) fn of_strangers(options: &DemuxOptions) -> Self {
        let rate = |amount| Rate { amount, seconds: 1, burst_ms: BURST_MS };
        let rates = options.source_rate.map(|of| [of.datagrams_per_s, of.bytes_per_s].map(rate));
        let rates = rates.map(|rates| SourceTable::new(rates, MAX_SOURCES, Overflow::Share));
        let cpu_time = options.limits_cpu_time.then(|| CpuTime::with(Clocks::OF_THREAD));
        Self { rates, cpu_time, ..Self::default() }
    }

    /// Counts a datagram; false: its source sends too much.
    pub(super) fn is_within_rate(&mut self, arrival: &Arrival) -> bool {
        let amounts = [1, arrival.bytes as u64];
        let (source, now_ns) = (arrival.from.ip().into(), arrival.received.mono_ns);
        self.rates.as_mut().is_none_or(|rates| rates.take(source, amounts, now_ns).is_ok())
    }

    /// Whether a source has CPU time left.
    pub(super) fn may_work(&mut self, source: Source, now_ns: u64) -> bool {
        self.cpu_time.as_mut().is_none_or(|time| time.may_work(source, now_ns))
    }

    pub(super) fn begin_work(&mut self) {
        if let Some(time) = &mut self.cpu_time {
            time.begin();
        }
    }

    /// The work ends, and its CPU time counts for a source.
    pub(super) fn end_work(&mut self, source: Source, now_ns: u64) {
        if let Some(time) = &mut self.cpu_time {
            time.end(source, now_ns);
        }
    }

    /// Begins the charge of a new host, which holds nothing yet.
    pub(super) fn open(&mut self, source: Source) -> Charge {
        self.accounts.entry(source).or_default().hosts += 1;
        Charge { source, bytes: 0 }
    }

    pub(super) fn close(&mut self, mut charge: Charge) {
        self.set(&mut charge, 0);
        if let Some(account) = self.accounts.get_mut(&charge.source) {
            account.hosts -= 1;
            if account.hosts == 0 {
                self.accounts.remove(&charge.source);
            }
        }
    }

    /// Counts bytes that came from `source` for a host, which is charged to it from now on.
    pub(super) fn receive(&mut self, charge: &mut Charge, source: Source, bytes: usize) {
        if charge.source != source {
            let held = charge.bytes;
            self.close(*charge);
            *charge = self.open(source);
            self.set(charge, held);
        }
        if let Some(account) = self.accounts.get_mut(&source) {
            account.sent = account.sent.saturating_add(bytes);
        }
    }

    /// Bytes that the host may hold in all.
    pub(super) fn limit(&self, charge: &Charge, limits: &MemoryLimits) -> usize {
        let Some(account) = self.accounts.get(&charge.source) else { return 0 };
        // A host's own bytes do not count against it: a host at the limit must still be able to replace its rows.
        let others = |held: usize| held.saturating_sub(charge.bytes);
        let paid = account.sent.saturating_mul(limits.per_sent_byte).saturating_add(UNSENT_BYTES);
        let of_source = limits.source.min(paid).saturating_sub(others(account.held));
        limits.host.min(of_source).min(limits.all.saturating_sub(others(self.held)))
    }

    pub(super) fn set(&mut self, charge: &mut Charge, bytes: usize) {
        self.held = self.held - charge.bytes + bytes;
        if let Some(account) = self.accounts.get_mut(&charge.source) {
            account.held = account.held - charge.bytes + bytes;
        }
        charge.bytes = bytes;
    }

    /// The source with most hosts, and how many.
    pub(super) fn largest_source(&self) -> Option<(Source, usize)> {
        let hosts = self.accounts.iter().map(|(source, account)| (*source, account.hosts));
        hosts.max_by_key(|(_, hosts)| *hosts)
    }
}

pub(super) fn count_datagram(loss: &mut LossCounts, bytes: usize) {
    loss.datagrams += 1;
    loss.bytes += bytes as u64;
}

/// Makes space for `more` rows and for an eighth of the present ones: doubling would let a host hold twice the bytes it is charged with.
pub(super) fn grow<T>(list: &mut Vec<T>, more: usize) {
    if list.capacity() - list.len() < more {
        list.reserve_exact(more + list.len() / 8);
    }
}

pub(super) fn bytes_of<T>(list: &Vec<T>) -> usize {
    list.capacity() * size_of::<T>()
}

const SECOND_NS: u64 = 1_000_000_000;
/// CPU time of all sources together: the rest is for hosts that encrypt, and for the kernel's buffer, which must be emptied in time.
const ALL: Rate = Rate { amount: SECOND_NS * 3 / 4, seconds: 1, burst_ms: 400 };
/// Below this total, sources are not limited individually.
const PLENTY: Rate = Rate { amount: SECOND_NS / 2, seconds: 1, burst_ms: 400 };
/// CPU time that a source may always take: a tenth of a second per second.
const SOURCE: Rate = Rate { amount: SECOND_NS / 10, seconds: 1, burst_ms: 1_000 };
/// A piece of work that seems to take so long may have been interrupted: then the clock of CPU time, which takes a system call, is read.
const LONG_NS: u64 = 100_000;

/// How the time of a piece of work is measured.
#[derive(Copy, Clone, Debug)]
struct Clocks {
    /// A monotonic clock that is read without a system call, ns.
    mono_ns: fn() -> u64,
    cpu_ns: fn() -> u64,
}

fn read(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    now.tv_sec.cast_unsigned() * SECOND_NS + now.tv_nsec.cast_unsigned()
}

impl Clocks {
    const OF_THREAD: Self =
        Self { mono_ns: || read(ClockId::Monotonic), cpu_ns: || read(ClockId::ThreadCPUTime) };
}

/// CPU time that plain datagrams took, and the remaining budgets of their sources.
#[derive(Debug)]
struct CpuTime {
    clocks: Clocks,
    /// Start of the current piece of work, on the monotonic clock.
    mono_ns: u64,
    /// The thread's CPU time at its last reading.
    cpu_ns: u64,
    all: Bucket,
    plenty: Bucket,
    sources: SourceTable<1>,
}

impl CpuTime {
    fn with(clocks: Clocks) -> Self {
        Self {
            clocks,
            mono_ns: 0,
            cpu_ns: (clocks.cpu_ns)(),
            all: Bucket::new(ALL),
            plenty: Bucket::new(PLENTY),
            sources: SourceTable::new([SOURCE], MAX_SOURCES, Overflow::Share),
        }
    }

    fn may_work(&mut self, source: Source, now_ns: u64) -> bool {
        let has_share = |sources: &mut SourceTable<1>| sources.take(source, [0], now_ns).is_ok();
        self.all.has_left(now_ns) && (self.plenty.has_left(now_ns) || has_share(&mut self.sources))
    }

    fn begin(&mut self) {
        self.mono_ns = (self.clocks.mono_ns)();
    }

    fn end(&mut self, source: Source, now_ns: u64) {
        let spent_ns = self.spent_ns();
        self.all.spend(spent_ns, now_ns);
        self.plenty.spend(spent_ns, now_ns);
        self.sources.spend(source, [spent_ns], now_ns);
    }

    fn spent_ns(&mut self) -> u64 {
        let elapsed_ns = (self.clocks.mono_ns)().saturating_sub(self.mono_ns);
        if elapsed_ns < LONG_NS {
            return elapsed_ns;
        }
        // On a busy machine the thread waits for a CPU meanwhile, which is not its sender's doing. Each other piece of work since the last
        // reading was short.
        let before_ns = std::mem::replace(&mut self.cpu_ns, (self.clocks.cpu_ns)());
        elapsed_ns.min(self.cpu_ns.saturating_sub(before_ns))
    }
}

/// Takes the intervals that datagrams complete.
pub(super) type IntervalOutput<'a> = &'a mut dyn FnMut(&HostStatus, &Interval);

#[derive(Copy, Clone, Debug)]
pub(super) struct Arrival {
    pub(super) bytes: usize,
    pub(super) from: SocketAddr,
    pub(super) received: Moment,
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;

    const LIMITS: MemoryLimits =
        MemoryLimits { host: 5 << 20, source: 6 << 20, all: 10 << 20, per_sent_byte: 2 };

    #[test]
    fn hosts_of_a_source_share_and_what_was_sent_pays() {
        let mut budget = SourceBudget::default();
        let mut one = budget.open(source(1));
        let mut two = budget.open(source(1));
        assert_eq!(budget.limit(&one, &LIMITS), UNSENT_BYTES, "nothing was sent");
        budget.receive(&mut one, source(1), 2 << 20);
        assert_eq!(budget.limit(&one, &LIMITS), 5 << 20);
        budget.set(&mut one, 4 << 20);
        assert_eq!((budget.limit(&one, &LIMITS), budget.limit(&two, &LIMITS)), (5 << 20, 1 << 20));
        budget.receive(&mut two, source(2), 5 << 20);
        assert_eq!(budget.limit(&two, &LIMITS), 5 << 20, "another address pays now");
        budget.set(&mut two, 5 << 20);
        let three = budget.open(source(3));
        assert_eq!((budget.limit(&three, &LIMITS), budget.held), (1 << 20, 9 << 20));
        budget.close(one);
        budget.close(two);
        assert_eq!((budget.held, budget.accounts.len()), (0, 1));
    }

    const MS: u64 = 1_000_000;

    thread_local! {
        static MONO_NS: Cell<u64> = const { Cell::new(0) };
        static CPU_NS: Cell<u64> = const { Cell::new(0) };
    }

    fn fake() -> CpuTime {
        CpuTime::with(Clocks { mono_ns: || MONO_NS.get(), cpu_ns: || CPU_NS.get() })
    }

    fn source(number: u32) -> Source {
        IpAddr::from(Ipv4Addr::from_bits(number)).into()
    }

    /// Work of this thread, and time in which it had no CPU.
    fn pass(cpu_ns: u64, waits_ns: u64) {
        CPU_NS.set(CPU_NS.get() + cpu_ns);
        MONO_NS.set(MONO_NS.get() + cpu_ns + waits_ns);
    }

    /// Offers a datagram of a source that takes so long; whether it was taken.
    fn offer(time: &mut CpuTime, number: u32, cpu_ns: u64, waits_ns: u64) -> bool {
        let now_ns = MONO_NS.get();
        let is_taken = time.may_work(source(number), now_ns);
        if is_taken {
            time.begin();
            pass(cpu_ns, waits_ns);
            time.end(source(number), now_ns);
        }
        is_taken
    }

    #[test]
    fn a_source_of_costly_datagrams_leaves_time_to_one_that_sends_as_it_should() {
        let (mut time, mut refused) = (fake(), 0);
        for _ in 0..1_000 {
            // Each round another source, which sends little, comes behind one that always has more to send.
            assert!(offer(&mut time, 2, 50_000, 0), "it takes 5 ms of 100 ms at most");
            refused += u64::from(!offer(&mut time, 1, 10 * MS, 0));
            pass(0, MS);
        }
        let (spent_ms, passed_ms) = ((1_000 - refused) * 10, MONO_NS.get() / MS);
        assert!(spent_ms <= passed_ms / 2 + 300, "{spent_ms} of {passed_ms} ms");
        assert!(spent_ms >= passed_ms / 3, "and what is free it may use: {spent_ms} of {passed_ms} ms");
    }

    #[test]
    fn many_sources_together_leave_time_to_hosts_that_encrypt() {
        let (mut time, mut spent_ms) = (fake(), 0);
        for number in 0..20_000 {
            spent_ms += 5 * u64::from(offer(&mut time, number % 100, 5 * MS, 0));
            pass(0, 100_000);
        }
        let passed_ms = MONO_NS.get() / MS;
        assert!(spent_ms <= passed_ms * 3 / 4 + 400, "{spent_ms} of {passed_ms} ms");
    }

    #[test]
    fn time_in_which_the_thread_waits_for_a_cpu_counts_for_no_source() {
        let mut time = fake();
        for _ in 0..1_000 {
            assert!(offer(&mut time, 1, 20_000, 20 * MS));
            pass(50_000, 0);
        }
    }
}
