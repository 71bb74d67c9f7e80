//! [`CpuTime`]: how much of the receiving thread's time plain datagrams may take, together and by source. Limits of bytes and rows do not
//! bound time by themselves: what a row costs depends on what is known of its host.

use cpumon_model::limits::{Bucket, Overflow, Rate, Source, SourceTable};
use rustix::time::{ClockId, clock_gettime};

use super::options::MAX_SOURCES;

const SECOND_NS: u64 = 1_000_000_000;
/// What all of them may take: the rest is for hosts that encrypt, and for the kernel's buffer, which must be emptied in time.
const ALL: Rate = Rate { amount: SECOND_NS * 3 / 4, seconds: 1, burst_ms: 400 };
/// As long as they take no more than this, a source may take as much as it likes.
const PLENTY: Rate = Rate { amount: SECOND_NS / 2, seconds: 1, burst_ms: 400 };
/// What each source may take in any case.
const SOURCE: Rate = Rate { amount: SECOND_NS / 10, seconds: 1, burst_ms: 1_000 };
/// A piece of work that seems to take so long may have been interrupted: then the clock of CPU time, which takes a system call, is read.
const LONG_NS: u64 = 100_000;

/// How the time of a piece of work is measured.
#[derive(Copy, Clone, Debug)]
struct Clocks {
    /// A monotonic clock that is read without a system call, ns.
    mono_ns: fn() -> u64,
    /// CPU time of this thread, ns.
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

/// The time that plain datagrams took, and what is left for their sources.
#[derive(Debug)]
pub(super) struct CpuTime {
    clocks: Clocks,
    /// When the piece of work at hand began.
    mono_ns: u64,
    /// CPU time when its clock was read last.
    cpu_ns: u64,
    all: Bucket,
    plenty: Bucket,
    sources: SourceTable<1>,
}

impl Default for CpuTime {
    fn default() -> Self {
        Self::with(Clocks::OF_THREAD)
    }
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

    /// Whether work may be done for a source of plain datagrams; if so it begins.
    pub(super) fn begin(&mut self, source: Source, now_ns: u64) -> bool {
        let has_share = |sources: &mut SourceTable<1>| sources.take(source, [0], now_ns).is_ok();
        let may_work =
            self.all.has_left(now_ns) && (self.plenty.has_left(now_ns) || has_share(&mut self.sources));
        if may_work {
            self.go_on();
        }
        may_work
    }

    /// Work that is done in any case begins.
    pub(super) fn go_on(&mut self) {
        self.mono_ns = (self.clocks.mono_ns)();
    }

    /// The work ends, and its time counts for a source.
    pub(super) fn end(&mut self, source: Source, now_ns: u64) {
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

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;

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
        let is_taken = time.begin(source(number), now_ns);
        if is_taken {
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
