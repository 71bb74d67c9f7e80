//! [`ClockPiece`]: how one stretch of a boot is moved to the receiver's time.

/// From a moment of a boot on: how the time since boot (which runs on while the device is suspended) becomes the receiver's time.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ClockPiece {
    /// Holds for what ends after this time since boot, ns.
    pub from_boot_ns: i64,
    /// Anchor before it, ns. If that is greater, time goes back to the new one at half of its pace, so that order stays.
    pub before_ns: i64,
    /// Time is the time since boot and this, ns,
    pub anchor_ns: i64,
    /// unless the device's own wall clock is within this of it, ns: then it is the device's, unchanged.
    pub tolerance_ns: i64,
}

impl ClockPiece {
    /// The anchor at a moment at which the device's own is `own_ns`.
    pub(crate) fn anchor_at(&self, boot_ns: i64, own_ns: i64) -> i64 {
        let passed_ns = boot_ns.saturating_sub(self.from_boot_ns).max(0);
        // At half the pace later moments stay later while the line goes back.
        let slewed_ns = self.before_ns.saturating_sub(passed_ns / 2);
        if slewed_ns > self.anchor_ns {
            slewed_ns
        } else if self.trusts(own_ns) {
            own_ns
        } else {
            self.anchor_ns
        }
    }

    /// Whether it takes the device's own stamps as they are.
    pub(crate) fn trusts(&self, own_ns: i64) -> bool {
        distance(own_ns, self.anchor_ns) <= self.tolerance_ns
    }
}

pub(crate) fn distance(a: i64, b: i64) -> i64 {
    a.saturating_sub(b).saturating_abs()
}
