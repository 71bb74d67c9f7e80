//! [`Query`] selects the intervals of a host to read: their range of time, their detail ([`What`]), and their processes. [`HostRecord`]
//! and [`BootSpan`] describe the hosts and boots that a store has.

#[cfg(feature = "json")]
use cpumon_model::nanos;
use cpumon_model::{BootId, HostId, HostInfo, HostStatus, Moment, ProcessInfo, ProcessKey, Trust};

/// A range of time, ns since the UNIX epoch: after `since_ns`, up to and including `until_ns`.
///
/// Intervals are placed by their end, so neighbouring ranges share no interval.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "json", derive(serde::Deserialize, serde::Serialize, utoipa::ToSchema))]
pub struct TimeRange {
    /// Start, not in the range itself.
    #[cfg_attr(feature = "json", serde(with = "nanos"), schema(value_type = nanos::Nanos))]
    pub since_ns: i64,
    /// End, which is in the range.
    #[cfg_attr(feature = "json", serde(with = "nanos"), schema(value_type = nanos::Nanos))]
    pub until_ns: i64,
}

impl TimeRange {
    /// The range that every interval is in.
    pub const ALL: Self = Self { since_ns: i64::MIN, until_ns: i64::MAX };

    /// From `since_ns` (exclusive) to `until_ns` (inclusive).
    pub const fn new(since_ns: i64, until_ns: i64) -> Self {
        Self { since_ns, until_ns }
    }

    /// Its length, ns.
    pub const fn length_ns(&self) -> i64 {
        self.until_ns.saturating_sub(self.since_ns)
    }

    /// Whether an interval that ends at `end_ns` is in the range.
    pub const fn contains(&self, end_ns: i64) -> bool {
        end_ns > self.since_ns && end_ns <= self.until_ns
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootSpan {
    pub boot: BootId,
    /// The host's name at its end.
    pub hostname: Box<str>,
    /// End of its first interval, ns since the epoch on the host's time line.
    pub first_wall_ns: i64,
    /// End of its last one, ns.
    pub last_wall_ns: i64,
}

/// How deep an answer goes; less is faster.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// Times, ledger, CPUs, health; no rows.
    Meta,
    /// The same, and process rows.
    Processes,
    /// The same, and thread rows.
    #[default]
    Threads,
}

/// Which processes an answer holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ProcessFilter {
    #[default]
    All,
    Key(ProcessKey),
    AnyOf(Box<[ProcessKey]>),
    /// All that had this number.
    Pid(u32),
    /// All of this name ([`ProcessInfo::name`], exactly).
    Name(Box<str>),
}

impl ProcessFilter {
    pub fn matches(&self, key: ProcessKey, info: &ProcessInfo) -> bool {
        match self {
            Self::All => true,
            Self::Key(wanted) => *wanted == key,
            Self::AnyOf(wanted) => wanted.contains(&key),
            Self::Pid(pid) => *pid == key.pid,
            Self::Name(name) => *name == info.name,
        }
    }
}

/// A question about one host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    pub host: HostId,
    /// Intervals that end after this, ns since the epoch on the host's time line.
    pub since_ns: i64,
    /// And not after this, ns.
    pub until_ns: i64,
    pub what: What,
    /// Which processes (and their threads). Intervals without any such row are given too, with empty lists.
    pub filter: ProcessFilter,
    /// Whether scheduler events are read too: waits, wakeups, run delays, run queues. Without, intervals do not have them among
    /// their fields.
    pub sched: bool,
    /// Whether threads that waited throughout an interval count in it, where scheduler events are read and it is known who waited: in
    /// the sums of their process, which gets a row, and with a row of their own where threads are read.
    pub resting: bool,
    /// Whether sums have wait reasons and who ended waits, and threads where threads are read: those of hours have them, unless an older
    /// version wrote them.
    pub sum_details: bool,
}

impl Query {
    /// Everything of a host.
    pub fn new(host: HostId) -> Self {
        Self {
            host,
            since_ns: i64::MIN,
            until_ns: i64::MAX,
            what: What::default(),
            filter: ProcessFilter::All,
            sched: true,
            resting: true,
            sum_details: false,
        }
    }

    /// Restricted to intervals that end in (`since_ns`, `until_ns`].
    #[must_use]
    pub fn range(self, since_ns: i64, until_ns: i64) -> Self {
        Self { since_ns, until_ns, ..self }
    }

    #[must_use]
    pub fn what(self, what: What) -> Self {
        Self { what, ..self }
    }

    /// Without scheduler events: faster.
    #[must_use]
    pub fn without_sched(self) -> Self {
        Self { sched: false, ..self }
    }

    /// Only what was active, as it is stored: threads that waited throughout an interval do not count in it.
    #[must_use]
    pub fn without_resting(self) -> Self {
        Self { resting: false, ..self }
    }

    /// With the threads, the wait reasons and who ended waits of sums.
    #[must_use]
    pub fn with_sum_details(self) -> Self {
        Self { sum_details: true, ..self }
    }

    #[must_use]
    pub fn filter(self, filter: ProcessFilter) -> Self {
        Self { filter, ..self }
    }
}

/// A host of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "json", derive(serde::Deserialize, serde::Serialize, utoipa::ToSchema))]
pub struct HostRecord {
    /// What its newest interval was sent with.
    #[cfg_attr(feature = "json", serde(flatten))]
    pub info: HostInfo,
    /// How its data came in.
    pub trust: Trust,
    /// End of its first interval in the store, ns since the epoch; `None` if all are gone.
    #[cfg_attr(feature = "json", serde(rename = "first_ns", with = "nanos::if_known"))]
    #[cfg_attr(feature = "json", schema(value_type = Option<nanos::Nanos>))]
    pub first_wall_ns: Option<i64>,
    /// End of its last interval.
    #[cfg_attr(feature = "json", serde(rename = "last_ns", with = "nanos::if_known"))]
    #[cfg_attr(feature = "json", schema(value_type = Option<nanos::Nanos>))]
    pub last_wall_ns: Option<i64>,
}

impl HostRecord {
    /// The host as of the end of its stored data.
    pub fn status(self) -> HostStatus {
        let last_ns = self.last_wall_ns.unwrap_or(0);
        let last = Moment { wall_ns: last_ns, ..Moment::default() };
        let (info, trust) = (self.info, self.trust);
        HostStatus { info, trust, last, received_wall_ns: last_ns, ..HostStatus::default() }
    }
}
