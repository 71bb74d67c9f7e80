//! Why threads sleep: [`WaitReason`] and [`Waits`], the time by reason, whose sum never loses any. The table
//! has a fixed size, because a thread waits for few things and a snapshot has thousands of threads.

use std::borrow::Cow;

use crate::syscalls::syscall_name;

/// What a thread that is neither running nor runnable waits for. The number is ours and stable: wire and store keep it.
///
/// The upper four bits are the class: 0 plain reasons, 1 a system call (its number of [`crate::syscall_number`] below), 2 a
/// system call that our table does not know (the machine's own number below), 4 a reason of the Windows kernel (its number below).
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WaitReason(pub u16);

const SYSCALL: u16 = 1 << 12;
const UNKNOWN_SYSCALL: u16 = 2 << 12;
const WINDOWS: u16 = 4 << 12;
const NUMBER: u16 = SYSCALL - 1;

/// `KWAIT_REASON` of Windows 11, by number. Old kernels use a few numbers from 22 on for something else.
const WINDOWS_REASONS: [&str; 43] = [
    "Executive",
    "FreePage",
    "PageIn",
    "PoolAllocation",
    "DelayExecution",
    "Suspended",
    "UserRequest",
    "WrExecutive",
    "WrFreePage",
    "WrPageIn",
    "WrPoolAllocation",
    "WrDelayExecution",
    "WrSuspended",
    "WrUserRequest",
    "WrEventPair",
    "WrQueue",
    "WrLpcReceive",
    "WrLpcReply",
    "WrVirtualMemory",
    "WrPageOut",
    "WrRendezvous",
    "WrKeyedEvent",
    "WrTerminated",
    "WrProcessInSwap",
    "WrCpuRateControl",
    "WrCalloutStack",
    "WrKernel",
    "WrResource",
    "WrPushLock",
    "WrMutex",
    "WrQuantumEnd",
    "WrDispatchInt",
    "WrPreempted",
    "WrYieldExecution",
    "WrFastMutex",
    "WrGuardedMutex",
    "WrRundown",
    "WrAlertByThreadId",
    "WrDeferredPreempt",
    "WrPhysicalFault",
    "WrIoRing",
    "WrMdlCache",
    "WrRcu",
];

impl WaitReason {
    /// Not waiting, or not known.
    pub const NONE: Self = Self(0);
    /// Something else, or the sum of reasons that found no slot of their own.
    pub const OTHER: Self = Self(1);
    /// For a disk: uninterruptible, or in iowait (`in_iowait`, state D).
    pub const DISK: Self = Self(2);
    /// For a page to be brought in.
    pub const PAGE_FAULT: Self = Self(3);
    /// Stopped by a signal (state T).
    pub const STOPPED: Self = Self(4);
    /// Stopped by a debugger (state t).
    pub const TRACED: Self = Self(5);
    /// A kernel thread without work (states S and I).
    pub const KERNEL: Self = Self(6);
    /// Ended, not yet reaped.
    pub const EXIT: Self = Self(7);

    /// No event reports this thread: what it waits for is not known, nor anything else that only the scheduler's events measure. It
    /// occurs in snapshots and frames; in intervals [`Flags::UNWATCHED`](crate::Flags::UNWATCHED) says so.
    pub const UNWATCHED: Self = Self(3 << 12);

    /// In the system call with this number of ours; a number beyond 4095 is [`WaitReason::OTHER`].
    #[must_use]
    pub const fn syscall(number: u16) -> Self {
        if number <= NUMBER { Self(SYSCALL | number) } else { Self::OTHER }
    }

    /// In a system call that our table does not know, by the machine's own number; beyond 4095 it is
    /// [`WaitReason::OTHER`].
    #[must_use]
    pub const fn unknown_syscall(number: u16) -> Self {
        if number <= NUMBER { Self(UNKNOWN_SYSCALL | number) } else { Self::OTHER }
    }

    /// What the Windows kernel calls this number of `KWAIT_REASON`.
    #[must_use]
    pub const fn windows(number: u8) -> Self {
        Self(WINDOWS | number as u16)
    }

    /// As a number that is small for those that occur: frames and stores keep it.
    #[must_use]
    pub const fn code(self) -> u64 {
        match self.0 {
            plain @ 0..8 => plain as u64,
            call @ SYSCALL..UNKNOWN_SYSCALL => (call - SYSCALL + 8) as u64,
            other => other as u64 + 8,
        }
    }

    /// The reason of a [`WaitReason::code`]; what is none is [`WaitReason::OTHER`].
    #[must_use]
    pub fn from_code(code: u64) -> Self {
        match u16::try_from(code) {
            Ok(plain @ 0..8) => Self(plain),
            Ok(call @ 8..0x1008) => Self(call - 8 + SYSCALL),
            Ok(other @ 0x2008..) => Self(other - 8),
            _ => Self::OTHER,
        }
    }

    /// Whether the thread waits for anything.
    #[must_use]
    pub const fn is_some(self) -> bool {
        self.0 != 0
    }

    /// The name people see: `futex`, `disk`, `syscall 999`. Empty for [`WaitReason::NONE`].
    #[must_use]
    pub fn name(self) -> Cow<'static, str> {
        let plain = match self {
            Self::NONE => "",
            Self::OTHER => "other",
            Self::DISK => "disk",
            Self::PAGE_FAULT => "page fault",
            Self::STOPPED => "stopped",
            Self::TRACED => "traced",
            Self::KERNEL => "kernel",
            Self::EXIT => "exit",
            Self::UNWATCHED => "not watched",
            Self(code) => return named(code),
        };
        Cow::Borrowed(plain)
    }
}

fn named(code: u16) -> Cow<'static, str> {
    let number = code & NUMBER;
    match code & !NUMBER {
        SYSCALL => {
            syscall_name(number).map_or_else(|| Cow::Owned(format!("syscall {number}")), Cow::Borrowed)
        }
        UNKNOWN_SYSCALL => Cow::Owned(format!("syscall {number}")),
        WINDOWS => match WINDOWS_REASONS.get(usize::from(number)) {
            Some(name) => Cow::Borrowed(name),
            None => Cow::Owned(format!("KWAIT_REASON {number}")),
        },
        _ => Cow::Owned(format!("reason {code}")),
    }
}

/// Reasons that have a slot of their own.
pub const WAIT_SLOTS: usize = 6;

/// Time blocked by reason, ns. Empty slots have [`WaitReason::NONE`]; each reason has one slot; equal contents in another
/// order are equal.
#[derive(Copy, Clone, Debug, Default)]
pub struct Waits {
    reasons: [WaitReason; WAIT_SLOTS],
    ns: [u64; WAIT_SLOTS],
}

impl Waits {
    /// Adds time to a reason; [`WaitReason::NONE`] counts as [`WaitReason::OTHER`], a time of 0 changes nothing. Where all
    /// slots are taken, the smallest of them and of the new one goes to [`WaitReason::OTHER`]; so the sum stays exact.
    pub fn add(&mut self, reason: WaitReason, ns: u64) {
        // A time of 0 must not take a slot from a reason that has some.
        if ns == 0 {
            return;
        }
        let reason = if reason.is_some() { reason } else { WaitReason::OTHER };
        if let Some(slot) = self.slot_of(reason).or_else(|| self.slot_of(WaitReason::NONE)) {
            self.reasons[slot] = reason;
            self.ns[slot] = self.ns[slot].saturating_add(ns);
            return;
        }
        self.add_to_full(reason, ns);
    }

    /// Takes time away, from the longest wait first.
    pub fn cut(&mut self, mut ns: u64) {
        while ns > 0 {
            let longest = (0..WAIT_SLOTS).max_by_key(|&slot| self.ns[slot]).filter(|&slot| self.ns[slot] > 0);
            let Some(slot) = longest else { return };
            let taken = ns.min(self.ns[slot]);
            self.ns[slot] -= taken;
            ns -= taken;
            if self.ns[slot] == 0 {
                self.reasons[slot] = WaitReason::NONE;
            }
        }
    }

    fn add_to_full(&mut self, reason: WaitReason, ns: u64) {
        let others = self.slot_of(WaitReason::OTHER);
        let by_time = |slot: &usize| (self.ns[*slot], self.reasons[*slot]);
        let smallest = (0..WAIT_SLOTS).filter(|slot| Some(*slot) != others).min_by_key(by_time).unwrap_or(0);
        if let Some(others) = others {
            let mut spilled_ns = ns;
            if self.ns[smallest] < ns {
                self.reasons[smallest] = reason;
                spilled_ns = std::mem::replace(&mut self.ns[smallest], ns);
            }
            self.ns[others] = self.ns[others].saturating_add(spilled_ns);
        } else {
            // No slot is OTHER yet: the smallest becomes it and takes the new one in, or is joined by the next smallest.
            // The recursion ends here: now OTHER has a slot.
            self.reasons[smallest] = WaitReason::OTHER;
            self.add(reason, ns);
        }
    }

    fn slot_of(&self, reason: WaitReason) -> Option<usize> {
        self.reasons.iter().position(|known| *known == reason)
    }

    /// The time of one reason.
    #[must_use]
    pub fn of(&self, reason: WaitReason) -> u64 {
        self.slot_of(reason).filter(|_| reason.is_some()).map_or(0, |slot| self.ns[slot])
    }

    /// Reasons with their times, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (WaitReason, u64)> + '_ {
        self.reasons.iter().copied().zip(self.ns.iter().copied()).filter(|(reason, _)| reason.is_some())
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    /// The sum over all reasons.
    #[must_use]
    pub fn total_ns(&self) -> u64 {
        self.ns.iter().fold(0, |sum, ns| sum.saturating_add(*ns))
    }

    /// The reason with the most time; the smaller number of equal ones.
    #[must_use]
    pub fn longest(&self) -> Option<(WaitReason, u64)> {
        self.iter().max_by_key(|(reason, ns)| (*ns, std::cmp::Reverse(*reason)))
    }

    /// What was added to each reason since `earlier`. A reason that fell counts 0: an open wait is counted up to the
    /// instant of the pass, which may be a little more than it turned out to be.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut grown = Self::default();
        if self.reasons == earlier.reasons {
            // Nearly always: slots keep their places.
            for slot in 0..WAIT_SLOTS {
                grown.add(self.reasons[slot], self.ns[slot].saturating_sub(earlier.ns[slot]));
            }
            return grown;
        }
        for (reason, ns) in self.iter() {
            grown.add(reason, ns.saturating_sub(earlier.of(reason)));
        }
        grown
    }
}

impl Waits {
    /// Takes time off a reason, at most all that it has.
    pub fn take(&mut self, reason: WaitReason, ns: u64) {
        if let Some(slot) = self.slot_of(reason).filter(|_| reason.is_some()) {
            self.ns[slot] = self.ns[slot].saturating_sub(ns);
            if self.ns[slot] == 0 {
                self.reasons[slot] = WaitReason::NONE;
            }
        }
    }

    /// Shortens the longest waits until their sum is at most `total_ns`.
    pub(crate) fn keep_within(&mut self, total_ns: u64) {
        let mut over_ns = self.total_ns().saturating_sub(total_ns);
        while over_ns > 0 {
            let Some(longest) = self.ns.iter_mut().max() else { return };
            let less_ns = over_ns.min(*longest);
            *longest -= less_ns;
            over_ns -= less_ns;
        }
        for (reason, ns) in self.reasons.iter_mut().zip(self.ns) {
            if ns == 0 {
                *reason = WaitReason::NONE;
            }
        }
    }
}

impl PartialEq for Waits {
    fn eq(&self, other: &Self) -> bool {
        self.iter().count() == other.iter().count() && self.iter().all(|(reason, ns)| other.of(reason) == ns)
    }
}

impl Eq for Waits {}

impl std::ops::AddAssign<&Waits> for Waits {
    fn add_assign(&mut self, other: &Waits) {
        for (reason, ns) in other.iter() {
            self.add(reason, ns);
        }
    }
}

impl FromIterator<(WaitReason, u64)> for Waits {
    fn from_iter<I: IntoIterator<Item = (WaitReason, u64)>>(reasons: I) -> Self {
        let mut waits = Self::default();
        for (reason, ns) in reasons {
            waits.add(reason, ns);
        }
        waits
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names() {
        let names = |code| WaitReason(code).name().into_owned();
        assert_eq!(WaitReason::syscall(202).name(), "futex");
        assert_eq!(WaitReason::syscall(400).name(), "syscall 400");
        assert_eq!(WaitReason::unknown_syscall(202).name(), "syscall 202");
        assert_eq!(WaitReason::syscall(5000), WaitReason::OTHER);
        let windows = |number| WaitReason::windows(number).name().into_owned();
        assert_eq!(
            [windows(0), windows(6), windows(15), windows(31), windows(37), windows(42), windows(43)],
            [
                "Executive",
                "UserRequest",
                "WrQueue",
                "WrDispatchInt",
                "WrAlertByThreadId",
                "WrRcu",
                "KWAIT_REASON 43"
            ]
        );
        assert_eq!(
            [names(0), names(2), names(7), names(8), names(0xffff)],
            ["", "disk", "exit", "reason 8", "reason 65535"]
        );
    }

    #[test]
    fn every_reason_comes_back_from_its_code_and_others_are_other() {
        for number in (0..8).chain(0x1000..0x3000).chain(0x4000..0x4100) {
            assert_eq!(WaitReason::from_code(WaitReason(number).code()), WaitReason(number), "{number:#x}");
        }
        assert_eq!(WaitReason::syscall(202).code(), 210, "short, because it occurs often");
        for beyond in [0x1008, 0x2007, 1 << 20, u64::MAX] {
            assert_eq!(WaitReason::from_code(beyond), WaitReason::OTHER, "{beyond:#x}");
        }
    }

    #[test]
    fn what_finds_no_slot_goes_to_other() {
        let mut waits: Waits = (1..=6).map(|n| (WaitReason::syscall(n), u64::from(n) * 10)).collect();
        assert_eq!(waits.longest(), Some((WaitReason::syscall(6), 60)));
        waits.add(WaitReason::DISK, 35);
        // 10 and 20 are the smallest.
        let kept: Waits = [(3, 30), (4, 40), (5, 50), (6, 60)]
            .map(|(n, ns)| (WaitReason::syscall(n), ns))
            .into_iter()
            .collect();
        assert_eq!(waits, kept.iter().chain([(WaitReason::DISK, 35), (WaitReason::OTHER, 30)]).collect());
        waits.add(WaitReason::NONE, 1);
        assert_eq!(waits.of(WaitReason::OTHER), 31);
        assert_eq!(waits.of(WaitReason::NONE), 0);
    }

    #[test]
    fn a_reason_that_fell_counts_nothing() {
        let before: Waits = [(WaitReason::DISK, 10), (WaitReason::syscall(0), 50)].into_iter().collect();
        let after: Waits =
            [(WaitReason::syscall(0), 49), (WaitReason::syscall(1), 5), (WaitReason::DISK, 11)]
                .into_iter()
                .collect();
        assert_eq!(
            after.since(&before),
            [(WaitReason::syscall(1), 5), (WaitReason::DISK, 1)].into_iter().collect()
        );
        assert!(before.since(&before).is_empty());
    }

    #[test]
    fn time_is_taken_off_a_reason() {
        let mut waits: Waits = [(WaitReason::DISK, 10), (WaitReason::OTHER, 50)].into_iter().collect();
        waits.take(WaitReason::OTHER, 20);
        waits.take(WaitReason::NONE, 20);
        assert_eq!((waits.of(WaitReason::OTHER), waits.total_ns()), (30, 40));
        waits.take(WaitReason::OTHER, 31);
        assert_eq!(waits, [(WaitReason::DISK, 10)].into_iter().collect());
    }

    #[test]
    fn too_much_is_taken_off_the_longest() {
        let mut waits: Waits = [(WaitReason::DISK, 10), (WaitReason::OTHER, 50)].into_iter().collect();
        waits.keep_within(60);
        assert_eq!(waits.total_ns(), 60);
        waits.keep_within(30);
        assert_eq!((waits.of(WaitReason::DISK), waits.of(WaitReason::OTHER)), (10, 20));
        waits.keep_within(4);
        assert_eq!(waits, [(WaitReason::DISK, 4)].into_iter().collect());
        waits.keep_within(0);
        assert!(waits.is_empty());
    }

    proptest! {
        /// Whatever is added in whatever order, no time is lost and no reason has two slots.
        #[test]
        fn sums_are_exact(added in prop::collection::vec((0_u16..12, 0_u64..1000), 0..40)) {
            let waits: Waits = added.iter().map(|(code, ns)| (WaitReason(*code), *ns)).collect();
            prop_assert_eq!(waits.total_ns(), added.iter().map(|(_, ns)| ns).sum::<u64>());
            let mut reasons: Vec<_> = waits.iter().map(|(reason, _)| reason).collect();
            reasons.sort_unstable();
            prop_assert!(reasons.is_sorted_by(|a, b| a < b));
            prop_assert!(waits.iter().all(|(_, ns)| ns > 0));
        }
    }
}
