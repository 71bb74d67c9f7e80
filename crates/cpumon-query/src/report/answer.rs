//! [`Report`] and its rows, as plain structs.

use cpumon_model::{Delta, Fields, GroupLimits, HostId, WaitReason};
use cpumon_store::Resolution;

use super::query::ReportQuery;
use crate::history::{BucketTimes, Values};
use crate::keys::TaskKey;
use crate::time::TimeRange;

/// The highest single interval of a group.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Peak {
    /// Run time, ns per second.
    pub ns_per_s: i64,
    /// End of the interval; of a whole minute or hour where no interval of it is stored any more.
    pub end_ns: i64,
    /// Whether no interval can be higher. Not where a group has many processes and only their sums are left.
    pub is_exact: bool,
}

/// What a row of a report is.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum RowKind {
    /// A group.
    Group,
    /// All processes of a name that began and ended within one interval.
    Short,
    /// All groups that are not shown.
    Rest,
    /// Run time of the ledger that is in no group.
    Unattributed,
}

impl RowKind {
    /// `group`, `short-lived`, `rest`, `not attributed`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Group => "group",
            Self::Short => "short-lived",
            Self::Rest => "rest",
            Self::Unattributed => "not attributed",
        }
    }
}

/// The longest wait of a group.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// What was waited for.
    pub reason: WaitReason,
    /// Blocked time, summed over threads.
    pub ns: u64,
}

/// What a group did in the range that a report is compared with.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Before {
    /// Growth of its counters; zero if it was not there.
    pub delta: Delta,
    /// Its blocked time; `None`: not measured.
    pub blocked_ns: Option<i64>,
    /// Measured time; 0: no data.
    pub covered_ns: u64,
    /// Counters that every interval has.
    pub fields: Fields,
}

/// A row of a report.
#[derive(Clone, Debug, PartialEq)]
pub struct ReportRow {
    /// Name of its host; hostile. `None`: of several hosts.
    pub host: Option<Box<str>>,
    /// What it is.
    pub kind: RowKind,
    /// The group; hostile.
    pub name: Box<str>,
    /// Its key, where a row is a process or a thread.
    pub task: Option<TaskKey>,
    /// The pid of that process, or of that thread's.
    pub pid: Option<u32>,
    /// When that process started, ns since boot.
    pub process_start_ns: Option<u64>,
    /// Sums of its counters.
    pub delta: Delta,
    /// Blocked time of threads in intervals in which they were active; `None`: not measured.
    pub blocked_ns: Option<i64>,
    /// The longest wait; `None`: none, or not known over the whole range.
    pub wait: Option<Wait>,
    /// Its highest interval.
    pub peak: Option<Peak>,
    /// Start of the first interval in which it was active.
    pub first_ns: Option<i64>,
    /// End of the last one.
    pub last_ns: Option<i64>,
    /// Run time a point of its host's times; `None`: nothing was measured.
    pub points: Values,
    /// Measured time of its host; 0: of several hosts.
    pub covered_ns: u64,
    /// Run time of all threads of all hosts of the report.
    pub used_ns: i64,
    /// Counters that every interval has.
    pub fields: Fields,
    /// What it is compared with.
    pub before: Option<Before>,
    /// CPU limits of its control groups, where rows are made of those; `None`: not known.
    pub limits: Option<GroupLimits>,
}

/// What was read of one host.
#[derive(Clone, Debug, PartialEq)]
pub struct HostPart {
    /// The host.
    pub host: HostId,
    /// Its name; hostile.
    pub name: Box<str>,
    /// The range that was read: wider than asked for where only sums are left of its ends.
    pub range: TimeRange,
    /// The coarsest data that was read; `None`: intervals.
    pub resolution: Option<Resolution>,
    /// Measured time.
    pub covered_ns: u64,
    /// Run time of all threads.
    pub used_ns: i64,
    /// Points over time of the rows.
    pub times: BucketTimes,
    /// Run time of all threads a point; `None`: nothing was measured.
    pub used: Values,
}

/// Who used the CPU.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// What was asked for.
    pub query: ReportQuery,
    /// The range that was asked for.
    pub range: TimeRange,
    /// The range it is compared with.
    pub before: Option<TimeRange>,
    /// The hosts that have data in the range.
    pub hosts: Vec<HostPart>,
    /// Groups there are, at most 50,000 a host.
    pub total: usize,
    /// Run time of all threads of all hosts: exactly the sum of all rows.
    pub used_ns: i64,
    /// Groups that come first, then those that are not shown, then what is in no group.
    pub rows: Vec<ReportRow>,
}

impl ReportRow {
    /// Run time in percent of one CPU; `None`: not measured.
    #[must_use]
    pub fn cpu_pct(&self) -> Option<f64> {
        let is_known = self.covered_ns > 0 && self.fields.contains(Fields::RUN);
        is_known.then(|| self.delta.run_ns as f64 * 100.0 / self.covered_ns as f64)
    }

    /// Run time in percent of that of all threads; `None`: not measured.
    #[must_use]
    pub fn share_pct(&self) -> Option<f64> {
        let is_known = self.used_ns > 0 && self.fields.contains(Fields::RUN);
        is_known.then(|| self.delta.run_ns as f64 * 100.0 / self.used_ns as f64)
    }

    /// Threads that were ready on average; `None`: not measured.
    #[must_use]
    pub fn ready_mean(&self) -> Option<f64> {
        let is_known = self.covered_ns > 0 && self.fields.contains(Fields::RUN_DELAY);
        is_known.then(|| self.delta.run_delay_ns as f64 / self.covered_ns as f64)
    }

    /// Threads that were blocked on average; `None`: not measured.
    #[must_use]
    pub fn blocked_mean(&self) -> Option<f64> {
        let blocked_ns = self.blocked_ns.filter(|_| self.covered_ns > 0)?;
        Some(blocked_ns as f64 / self.covered_ns as f64)
    }

    /// Run time in percent of one CPU before; `None`: not measured.
    #[must_use]
    pub fn before_cpu_pct(&self) -> Option<f64> {
        let before =
            self.before.filter(|before| before.covered_ns > 0 && before.fields.contains(Fields::RUN))?;
        Some(before.delta.run_ns as f64 * 100.0 / before.covered_ns as f64)
    }

    /// By how much the utilization changed, percent of one CPU.
    #[must_use]
    pub fn change_cpu_pct(&self) -> Option<f64> {
        Some(self.cpu_pct()? - self.before_cpu_pct()?)
    }
}
