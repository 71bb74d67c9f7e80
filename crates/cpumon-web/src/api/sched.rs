//! Counters of the scheduler's and interrupts' events as JSON. In and out: the model's types, without loss. What was not measured
//! is absent; the interval's `fields` say which that is.

use cpumon_model as model;
use cpumon_model::{WaitReason, Waits};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::fields::is_default;

/// Blocked time of one reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Wait {
    /// What it waited for: a system call, `disk`, `page fault`, …
    pub reason: String,
    /// The same as a stable number.
    pub code: u64,
    /// Time blocked by it.
    pub ns: u64,
}

/// Counters of a thread's or process's scheduler events.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Sched {
    /// The part of the run delay that came after wakeups.
    #[serde(skip_serializing_if = "is_default")]
    pub delay_after_wakeup_ns: i64,
    /// Time neither running nor runnable.
    #[serde(skip_serializing_if = "is_default")]
    pub blocked_ns: i64,
    /// Times it was woken.
    #[serde(skip_serializing_if = "is_default")]
    pub wakeups: i64,
    /// Times it ran on another CPU than before.
    #[serde(skip_serializing_if = "is_default")]
    pub migrations: i64,
    /// Longest single run delay. A maximum: never add it up.
    #[serde(skip_serializing_if = "is_default")]
    pub longest_delay_ns: i64,
    /// Blocked time by reason.
    #[serde(skip_serializing_if = "is_default")]
    pub waits: Vec<Wait>,
    /// Code of what it waited for at the end; 0 while running or ready.
    #[serde(skip_serializing_if = "is_default")]
    pub open_wait: u64,
}

/// One interrupt line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Irq {
    /// Number of the line; from 65536 on: local vectors without a line.
    pub irq: u32,
    /// Its name in /proc/interrupts. Hostile text.
    pub name: String,
    /// Time in its handlers.
    pub time_ns: u64,
    /// Times it was handled.
    pub count: u64,
}

impl From<&model::SchedDelta> for Sched {
    fn from(from: &model::SchedDelta) -> Self {
        let wait = |(reason, ns): (WaitReason, u64)| Wait {
            reason: reason.name().into_owned(),
            code: reason.code(),
            ns,
        };
        Self {
            delay_after_wakeup_ns: from.delay_after_wakeup_ns,
            blocked_ns: from.blocked_ns,
            wakeups: from.wakeups,
            migrations: from.migrations,
            longest_delay_ns: from.longest_delay_ns,
            waits: from.waits.iter().map(wait).collect(),
            open_wait: from.open_wait.code(),
        }
    }
}

impl From<&Sched> for model::SchedDelta {
    fn from(from: &Sched) -> Self {
        let waits = from.waits.iter().map(|wait| (WaitReason::from_code(wait.code), wait.ns));
        Self {
            delay_after_wakeup_ns: from.delay_after_wakeup_ns,
            blocked_ns: from.blocked_ns,
            wakeups: from.wakeups,
            migrations: from.migrations,
            longest_delay_ns: from.longest_delay_ns,
            waits: waits.collect::<Waits>(),
            open_wait: WaitReason::from_code(from.open_wait),
        }
    }
}

impl From<&model::IrqInterval> for Irq {
    fn from(from: &model::IrqInterval) -> Self {
        Self { irq: from.irq, name: from.name.to_string(), time_ns: from.time_ns, count: from.count }
    }
}

impl From<&Irq> for model::IrqInterval {
    fn from(from: &Irq) -> Self {
        Self { irq: from.irq, name: from.name.as_str().into(), time_ns: from.time_ns, count: from.count }
    }
}
