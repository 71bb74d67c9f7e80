//! What sums per minute and hour are made of. The writer adds intervals up with it, the reader names the same buckets.

use cpumon_model::{CpuSched, Fields, Flags, Interval, Waits};

/// ns in a second: the unit of rates per second.
pub(crate) const PER_SECOND: i64 = 1_000_000_000;

/// Length of the buckets in which compacted intervals are summed.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// Buckets of 60 s.
    Minute,
    /// Buckets of 3600 s.
    Hour,
}

impl Resolution {
    /// Both, the finer one first.
    pub(crate) const ALL: [Self; 2] = [Self::Minute, Self::Hour];

    /// Length of a bucket, ns.
    #[must_use]
    pub fn length_ns(self) -> i64 {
        match self {
            Self::Minute => 60 * PER_SECOND,
            Self::Hour => 3600 * PER_SECOND,
        }
    }

    /// `minute` or `hour`: name of the column and end of the tables' names.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Minute => "minute",
            Self::Hour => "hour",
        }
    }

    /// The bucket in which an interval ends: it covers (n × length, (n + 1) × length].
    pub(crate) fn bucket(self, end_wall_ns: i64) -> i64 {
        // Less 1, because a bucket includes its end; euclidean, so that times before 1970 have buckets of
        // full length.
        end_wall_ns.saturating_sub(1).div_euclid(self.length_ns())
    }

    /// The buckets in which intervals of a range can end.
    pub(crate) fn buckets(self, range: crate::TimeRange) -> BucketRange {
        BucketRange {
            // A range does not include its start.
            first: self.bucket(range.since_ns.saturating_add(1)),
            last: self.bucket(range.until_ns),
        }
    }
}

/// Numbers of buckets, both ends included.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct BucketRange {
    pub(crate) first: i64,
    pub(crate) last: i64,
}

/// When the task of a sum was active and when it ran most, ns since the epoch.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct ActiveTimes {
    /// Start of the first interval in which it was active.
    pub first_ns: i64,
    /// End of the last one.
    pub last_ns: i64,
    /// End of the one in which it ran most.
    pub max_end_ns: i64,
}

/// The largest run time in one interval, and when that and all others were. The store has the times as differences to the start of
/// their bucket.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Largest {
    pub(crate) ns_per_s: i64,
    pub(crate) times: ActiveTimes,
}

impl Largest {
    /// Before the first interval.
    pub(crate) const NONE: Self = Self {
        ns_per_s: 0,
        times: ActiveTimes { first_ns: i64::MAX, last_ns: i64::MIN, max_end_ns: i64::MIN },
    };

    /// Adds an interval from `begin_ns` to `end_ns`, or more of what ran in it.
    pub(crate) fn add(&mut self, ns_per_s: i64, begin_ns: i64, end_ns: i64) {
        let times = &mut self.times;
        times.first_ns = times.first_ns.min(begin_ns);
        times.last_ns = times.last_ns.max(end_ns);
        if ns_per_s > self.ns_per_s || times.max_end_ns == i64::MIN {
            (self.ns_per_s, times.max_end_ns) = (ns_per_s, end_ns);
        }
    }
}

impl Largest {
    /// The times as the store has them: less the start of their bucket.
    pub(crate) fn stored_times(&self, resolution: Resolution, bucket: i64) -> [i64; 3] {
        let begin_ns = bucket.saturating_mul(resolution.length_ns());
        let ActiveTimes { first_ns, last_ns, max_end_ns } = self.times;
        [first_ns, last_ns, max_end_ns].map(|ns| ns.saturating_sub(begin_ns))
    }
}

impl Default for Largest {
    fn default() -> Self {
        Self::NONE
    }
}

/// Run queues of all CPUs over a time.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct RunQueue {
    /// Tasks running or ready, integrated over time; divided by the measured time it is their mean number.
    pub run_queue_ns: i64,
    /// The highest mean of a single interval, ns per second: 1e9 is one task.
    pub max_run_queue_ns_per_s: i64,
    /// The longest queue of any one CPU, tasks.
    pub run_queue_max: i64,
}

impl RunQueue {
    /// Of one interval; `None` where context switches were not measured, or some of its events were lost.
    #[must_use]
    pub fn of(interval: &Interval) -> Option<Self> {
        let is_known =
            interval.fields.contains(Fields::SCHED) && !interval.flags.contains(Flags::RUN_QUEUE_UNKNOWN);
        if !is_known || interval.cpus.is_empty() {
            return None;
        }
        let sched = interval.cpu_sched();
        let length_ns = i64::try_from(interval.duration_ns()).unwrap_or(i64::MAX);
        Some(Self::new(&sched, length_ns))
    }

    pub(crate) fn new(sched: &CpuSched, length_ns: i64) -> Self {
        let run_queue_ns = i64::try_from(sched.run_queue_ns).unwrap_or(i64::MAX);
        Self {
            run_queue_ns,
            max_run_queue_ns_per_s: rate(run_queue_ns, length_ns, PER_SECOND),
            run_queue_max: sched.run_queue_max.into(),
        }
    }

    /// Adds another time: lengths add up, maxima stay maxima.
    pub(crate) fn add(&mut self, more: &Self) {
        self.run_queue_ns = self.run_queue_ns.saturating_add(more.run_queue_ns);
        self.max_run_queue_ns_per_s = self.max_run_queue_ns_per_s.max(more.max_run_queue_ns_per_s);
        self.run_queue_max = self.run_queue_max.max(more.run_queue_max);
    }
}

/// `part` per second (or million) of `whole`; 0 if `whole` is not positive.
pub(crate) fn rate(part: i64, whole: i64, unit: i64) -> i64 {
    if whole <= 0 {
        return 0;
    }
    // 128 bits: `part` can be centuries of ns times a billion.
    i64::try_from(i128::from(part) * i128::from(unit) / i128::from(whole)).unwrap_or(i64::MAX)
}

/// Adds where something is known: unknown + 5 = 5, and a sum of nothing stays unknown.
pub(crate) fn add_known(sum: &mut Option<i64>, more: Option<i64>) {
    if let Some(more) = more {
        *sum = Some(sum.unwrap_or(0).saturating_add(more));
    }
}

/// [`add_known`] for wait reasons.
pub(crate) fn add_waits(sum: &mut Option<Waits>, more: Option<Waits>) {
    if let Some(more) = more {
        *sum.get_or_insert_default() += &more;
    }
}
