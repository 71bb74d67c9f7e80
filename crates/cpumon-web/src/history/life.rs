//! Begin and end of processes where sums were read. In: lines that sums made. Out: the same, with when each began and ended.
//! Why: sums tell neither, and do not name who did something in one interval only. Little is read: the minute of its last row.

use cpumon_model::{HostId, ProcessKey};
use cpumon_store::{ProcessFilter, Query, Resolution, What};

use super::buckets::{Buckets, view_of};
use super::lines::{Building, Wish};
use super::{Past, Range};
use crate::problem::Problem;

/// Time since boot and the wall clock are not read at the same instant, and the latter may have been set in between.
const SLACK_NS: i64 = 1_000_000_000;

/// What is known of one host.
pub(super) struct Lives<'a> {
    pub(super) past: &'a Past,
    pub(super) host: HostId,
    pub(super) range: Range,
    pub(super) grain: Resolution,
}

impl Lives<'_> {
    /// Tells a line of a process when that began and ended.
    pub(super) fn tell(&self, line: &mut Building, buckets: &Buckets) -> Result<(), Problem> {
        let Wish::Process(key) = line.wish else { return Ok(()) };
        if let Some(bucket) = line.last_sum {
            self.tell_end(line, key, bucket)?;
        }
        if line.began_ns.is_none() {
            line.began_ns = self.past.began(self.host, key)?;
        }
        match (line.first_ns, line.began_ns) {
            (None, Some(began_ns)) => self.add_short(line, key, began_ns, buckets),
            _ => Ok(()),
        }
    }

    fn query(&self, key: ProcessKey, (since_ns, until_ns): (i64, i64)) -> Query {
        let query = Query::new(self.host).range(since_ns, until_ns).what(What::Processes);
        query.filter(ProcessFilter::Key(key))
    }

    /// Reads the intervals of the last minute in which it did something: there is its end, if it ended.
    fn tell_end(&self, line: &mut Building, key: ProcessKey, bucket: (i64, i64)) -> Result<(), Problem> {
        let mut minute = bucket;
        if self.grain == Resolution::Hour {
            let query = self.query(key, bucket).without_sched();
            self.past.for_each(&query, Some(Resolution::Minute), &mut |span| {
                if !span.interval.processes.is_empty() {
                    minute = (span.interval.begin.wall_ns, span.interval.end.wall_ns);
                }
            })?;
        }
        let query = self.query(key, minute).without_sched();
        self.past.for_each(&query, None, &mut |span| {
            for row in &span.interval.processes {
                line.live(span.interval.end, row.life);
            }
        })
    }

    /// Adds what a process did that is not named in sums.
    fn add_short(
        &self,
        line: &mut Building,
        key: ProcessKey,
        began_ns: i64,
        buckets: &Buckets,
    ) -> Result<(), Problem> {
        let Some(end_ns) = self.past.end_after(self.host, began_ns)? else { return Ok(()) };
        let since_ns = began_ns.saturating_sub(SLACK_NS).max(self.range.since_ns);
        let until_ns = end_ns.saturating_add(SLACK_NS).min(self.range.until_ns);
        let mut shares = Vec::new();
        self.past.for_each(&self.query(key, (since_ns, until_ns)), None, &mut |span| {
            if !span.interval.processes.is_empty() {
                buckets.place_of(span, &mut shares);
                line.see(span, &view_of(span), &shares);
            }
        })
    }
}
