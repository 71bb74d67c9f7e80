//! [`Report`] and its rows, as the API writes them and clients read them back.

use std::fmt::Write as _;

use cpumon_model::{Delta, Fields, GroupLimits, HostId, Waits, escape};
use cpumon_store::Resolution;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::query::{ReportFilter, ReportQuery};
use crate::history::BucketTimes;
use crate::json::{self, Nanos};
use crate::named;
use crate::time::TimeRange;

/// The highest single interval of a group.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Peak {
    /// Run time, ns per second.
    pub ns_per_s: i64,
    /// End of the interval; end of a whole minute or hour if its intervals are no longer stored.
    #[serde(with = "cpumon_model::nanos")]
    #[schema(value_type = Nanos)]
    pub end_ns: i64,
    /// Whether no interval can be higher. Not where a group has many processes and only their sums are left.
    pub is_exact: bool,
}

named! {
    /// What a row of a report is.
    #[derive(Default, Serialize, Deserialize, ToSchema)]
    RowKind,
    /// A group.
    #[default]
    #[serde(rename = "group")]
    Group = "group",
    /// All processes of a name that began and ended within one interval.
    #[serde(rename = "short-lived")]
    Short = "short-lived",
    /// All groups that are not shown.
    #[serde(rename = "rest")]
    Rest = "rest",
    /// Run time of the ledger that is in no group.
    #[serde(rename = "not attributed")]
    Unattributed = "not attributed",
}

impl RowKind {
    /// Whether the row is one group, not a remainder.
    pub fn is_group(self) -> bool {
        matches!(self, Self::Group | Self::Short)
    }
}

/// What a group did in the range that a report is compared with. Null: not measured.
#[derive(Copy, Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Before {
    /// Run time.
    pub run_ns: Option<i64>,
    /// Run time in percent of one CPU.
    pub cpu_pct: Option<f64>,
    /// Time ready, waiting for a CPU.
    pub run_delay_ns: Option<i64>,
    /// Its blocked time.
    pub blocked_ns: Option<i64>,
    /// Measured time; null: no data.
    pub duration_ns: Option<u64>,
}

/// A row of a report. Null: not measured, or not of this kind of row.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ReportRow {
    /// Name of its host; hostile. Null: of several hosts.
    pub host: Option<Box<str>>,
    /// Kind of the row.
    pub kind: RowKind,
    /// The group; hostile.
    pub name: Box<str>,
    /// The pid of its process, where a row is a process or a thread.
    pub pid: Option<u32>,
    /// Id of its thread.
    pub tid: Option<u32>,
    /// When that process or thread began, ns since boot: a part of its key.
    pub start_ns: Option<Nanos>,
    /// When the process of a thread began.
    pub process_start_ns: Option<Nanos>,
    /// Run time.
    pub run_ns: Option<i64>,
    /// Run time in user mode.
    pub user_ns: Option<i64>,
    /// Run time in kernel mode.
    pub system_ns: Option<i64>,
    /// Run time in percent of one CPU.
    pub cpu_pct: Option<f64>,
    /// Run time in percent of that of all threads.
    pub share_pct: Option<f64>,
    /// Its highest interval.
    pub peak: Option<Peak>,
    /// Time ready, waiting for a CPU.
    pub run_delay_ns: Option<i64>,
    /// Threads that were ready on average.
    pub ready_mean: Option<f64>,
    /// Blocked time of threads in intervals in which they were active.
    pub blocked_ns: Option<i64>,
    /// Threads that were blocked on average.
    pub blocked_mean: Option<f64>,
    /// Switches to wait.
    pub voluntary_switches: Option<i64>,
    /// Switches by which it was pushed off while it could run.
    pub involuntary_switches: Option<i64>,
    /// Page faults that needed no disk.
    pub minor_faults: Option<i64>,
    /// Page faults that needed the disk.
    pub major_faults: Option<i64>,
    /// The longest wait, summed over threads; empty: none, or not known over the whole range.
    pub waits: Waits,
    /// Start of the first interval in which it was active.
    pub first_ns: Option<Nanos>,
    /// End of the last interval in which it was active.
    pub last_ns: Option<Nanos>,
    /// Measured time of its host; null: of several hosts.
    pub duration_ns: Option<u64>,
    /// CPU limits of its control groups. Rows of programs and tasks have them only on a host on which a group has a limit.
    pub limits: Option<GroupLimits>,
    /// Figures of the range that the report is compared with; null: nothing is compared.
    pub before: Option<Before>,
    /// By how much the utilization changed, percent of one CPU.
    pub change_cpu_pct: Option<f64>,
    /// Run time a point of its host's times; null: nothing was measured. Empty for rows of several groups.
    pub points: Vec<Option<i64>>,
}

impl ReportRow {
    /// Which row of its grouping it is: its kind, and the key of its process and thread, or its name.
    pub fn id(&self) -> String {
        let mut id = match (self.pid, &self.process_start_ns) {
            (Some(pid), Some(Nanos(start_ns))) => format!("{}:{pid}-{start_ns}", self.kind.name()),
            _ => format!("{}:{}", self.kind.name(), self.name),
        };
        if let Some(tid) = self.tid {
            let _infallible = write!(id, "/{tid}");
        }
        id
    }
}

/// Growth of a group's counters, and how much of the range was measured.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Figures {
    pub(super) delta: Delta,
    /// Blocked time, ns; `None` if it was not measured.
    pub(super) blocked_ns: Option<i64>,
    /// Measured time; 0: no data, or of several hosts.
    pub(super) covered_ns: u64,
    /// Counters that every interval has.
    pub(super) fields: Fields,
}

impl Figures {
    fn known(&self, needs: Fields, value: i64) -> Option<i64> {
        self.fields.contains(needs).then_some(value)
    }

    /// `ns` divided by the measured time; `None` if there is none.
    fn mean(&self, ns: Option<i64>) -> Option<f64> {
        ns.filter(|_| self.covered_ns > 0).map(|ns| ns as f64 / self.covered_ns as f64)
    }

    fn run_ns(&self) -> Option<i64> {
        self.known(Fields::RUN, self.delta.run_ns)
    }

    fn cpu_pct(&self) -> Option<f64> {
        let run_ns = self.run_ns().filter(|_| self.covered_ns > 0)?;
        Some(run_ns as f64 * 100.0 / self.covered_ns as f64)
    }

    fn duration_ns(&self) -> Option<u64> {
        (self.covered_ns > 0).then_some(self.covered_ns)
    }

    fn before(&self) -> Before {
        if self.covered_ns == 0 {
            return Before::default();
        }
        Before {
            run_ns: self.run_ns(),
            cpu_pct: self.cpu_pct(),
            run_delay_ns: self.known(Fields::RUN_DELAY, self.delta.run_delay_ns),
            blocked_ns: self.blocked_ns,
            duration_ns: self.duration_ns(),
        }
    }

    /// A row with the figures that add up; the other fields are empty. `used_ns`: run time of all threads of all hosts of the report.
    pub(super) fn row(&self, kind: RowKind, name: Box<str>, used_ns: i64, before: Option<Self>) -> ReportRow {
        let (delta, run_ns, cpu_pct) = (&self.delta, self.run_ns(), self.cpu_pct());
        let run_delay_ns = self.known(Fields::RUN_DELAY, delta.run_delay_ns);
        let share = |run_ns: i64| run_ns as f64 * 100.0 / used_ns as f64;
        let before = before.map(|before| before.before());
        let change = |before: &Before| Some(cpu_pct? - before.cpu_pct?);
        ReportRow {
            kind,
            name,
            run_ns,
            user_ns: self.known(Fields::USER, delta.user_ns),
            system_ns: self.known(Fields::SYSTEM, delta.system_ns),
            cpu_pct,
            share_pct: run_ns.filter(|_| used_ns > 0).map(share),
            run_delay_ns,
            ready_mean: self.mean(run_delay_ns),
            blocked_ns: self.blocked_ns,
            blocked_mean: self.mean(self.blocked_ns),
            voluntary_switches: self.known(Fields::SWITCHES, delta.voluntary_switches),
            involuntary_switches: self.known(Fields::SWITCHES, delta.involuntary_switches),
            minor_faults: self.known(Fields::FAULTS, delta.minor_faults),
            major_faults: self.known(Fields::FAULTS, delta.major_faults),
            duration_ns: self.duration_ns(),
            change_cpu_pct: before.as_ref().and_then(change),
            before,
            ..ReportRow::default()
        }
    }
}

/// What was read of one host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = ReportHost)]
pub struct HostPart {
    /// The host.
    pub host: HostId,
    /// Its name; hostile.
    pub name: Box<str>,
    /// The range that was read: wider than asked for where only sums are left of its ends.
    pub range: TimeRange,
    /// The coarsest data that was read: `interval`, `minute` or `hour`.
    #[serde(with = "json::resolution")]
    #[schema(value_type = String)]
    pub resolution: Option<Resolution>,
    /// Measured time.
    pub covered_ns: u64,
    /// Run time of all threads by the ledger.
    pub used_ns: i64,
    /// Points over time of the rows.
    pub times: BucketTimes,
    /// Run time of all threads a point; null: nothing was measured.
    pub used: Vec<Option<i64>>,
}

/// Who used the CPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Report {
    /// What was asked for: who asked has it.
    #[serde(skip)]
    pub query: ReportQuery,
    /// The range that was asked for.
    pub range: TimeRange,
    /// The range it is compared with; null: none.
    pub before: Option<TimeRange>,
    /// The hosts that have data in the range.
    pub hosts: Vec<HostPart>,
    /// Groups there are, at most 50,000 a host; the row `rest` has what came later.
    pub total: usize,
    /// Run time of all threads of all hosts by their ledgers: exactly the sum of `run_ns` of all rows.
    pub used_ns: i64,
    /// Groups that come first, then one row of those that are not shown, then one of run time that is in no group.
    pub rows: Vec<ReportRow>,
}

impl Report {
    /// The words of its filter, safe to show, where no group of the range matches them.
    pub fn unmatched(&self) -> Option<String> {
        let ReportFilter { text, within } = &self.query.filter;
        let within = within.as_ref().map(|(by, name)| format!("{}:{}", by.name(), escape(name)));
        let words: Vec<String> = text.iter().map(|text| escape(text).to_string()).chain(within).collect();
        let has_groups = self.rows.iter().any(|row| row.kind.is_group());
        (!has_groups && !words.is_empty()).then(|| words.join(" within "))
    }
}
