//! Interrupts by line: [`IrqSample`], cumulative, and [`IrqInterval`], over an interval. Known where the source measures
//! [`Fields::IRQ`](crate::Fields::IRQ).

use std::sync::Arc;

/// First of the numbers for interrupts that have no line of their own, such as a CPU's local timer.
pub const LOCAL_IRQ_FROM: u32 = 1 << 16;

/// One interrupt line, all CPUs together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IrqSample {
    /// Number of the line in /proc/interrupts; local vectors have numbers from [`LOCAL_IRQ_FROM`] on.
    pub irq: u32,
    /// Name in /proc/interrupts. Hostile, as every name.
    pub name: Arc<str>,
    /// Time in its handlers, ns, cumulative since the source was opened.
    pub time_ns: u64,
    /// Times it was handled, likewise.
    pub count: u64,
}

/// One interrupt line over an interval.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "json", derive(serde::Deserialize, serde::Serialize, utoipa::ToSchema), serde(default))]
pub struct IrqInterval {
    /// Number of the line.
    pub irq: u32,
    /// Name of the line in /proc/interrupts.
    pub name: Arc<str>,
    /// Time in its handlers in the interval, ns.
    pub time_ns: u64,
    /// Times it was handled in the interval.
    pub count: u64,
}

impl IrqInterval {
    /// What was added since `earlier`. A line that a complete snapshot had not began in between; what an incomplete one
    /// did not report is not known, so it counts 0, as does a counter that fell.
    #[must_use]
    pub fn between(earlier: Option<&IrqSample>, cur: &IrqSample, is_complete: bool) -> Self {
        // Compared with itself, a line whose earlier count is not known comes to 0.
        let unknown = if is_complete { (0, 0) } else { (cur.time_ns, cur.count) };
        let (time_ns, count) = earlier.map_or(unknown, |earlier| (earlier.time_ns, earlier.count));
        Self {
            irq: cur.irq,
            name: Arc::clone(&cur.name),
            time_ns: cur.time_ns.saturating_sub(time_ns),
            count: cur.count.saturating_sub(count),
        }
    }

    /// Whether the line was not handled at all.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.time_ns == 0 && self.count == 0
    }
}
