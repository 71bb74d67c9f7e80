//! Start and end of processes where sums were read: sums have neither, and leave out a process that ran in one interval only.
//! Little is read: the minute of its last row.

use std::collections::HashMap;

use cpumon_model::{HostId, Life, Moment, ProcessKey};
use cpumon_store::{ProcessFilter, Query, Resolution, What};

use super::buckets::{Buckets, view_of};
use super::building::Building;
use super::selection::Selection;
use super::source::History;
use crate::QueryError;
use crate::time::{PlotRange, TimeRange};

/// Time since boot and the wall clock are not read at the same instant, and the latter may have been set in between.
const SLACK_NS: i64 = 1_000_000_000;

/// What is known of one host.
pub(super) struct Lives<'a> {
    pub(super) history: &'a History,
    pub(super) host: HostId,
    pub(super) range: PlotRange,
    pub(super) resolution: Resolution,
}

impl Lives<'_> {
    /// Sets when a line's process began and ended.
    pub(super) fn complete(&self, line: &mut Building, buckets: &Buckets) -> Result<(), QueryError> {
        let Selection::Process(key) = line.selection else { return Ok(()) };
        if let Some(bucket) = line.last_sum {
            self.find_end(key, bucket, &mut |end, life| line.live(end, life))?;
        }
        if line.began_ns.is_none() {
            line.began_ns = self.began(&[key])?.get(&key).copied();
        }
        match (line.first_ns, line.began_ns) {
            (None, Some(began_ns)) => self.add_short(line, key, began_ns, buckets),
            _ => Ok(()),
        }
    }

    /// When processes began, of those that the store knows.
    pub(super) fn began(&self, keys: &[ProcessKey]) -> Result<HashMap<ProcessKey, i64>, QueryError> {
        if keys.is_empty() { Ok(HashMap::new()) } else { self.history.began(self.host, keys) }
    }

    /// When a process ended, if it did in the last sum that it is in.
    pub(super) fn ended(&self, key: ProcessKey, bucket: TimeRange) -> Result<Option<i64>, QueryError> {
        let mut ended_ns = None;
        self.find_end(key, bucket, &mut |end, life| {
            if matches!(life, Life::Ended | Life::BornEnded) {
                ended_ns = Some(end.wall_ns);
            }
        })?;
        Ok(ended_ns)
    }

    fn query(&self, key: ProcessKey, range: TimeRange) -> Query {
        let query = Query::new(self.host)
            .range(range.since_ns, range.until_ns)
            .what(What::Processes)
            .without_resting();
        query.filter(ProcessFilter::Key(key))
    }

    /// Reads the intervals of the last minute in which it did something: there is its end, if it ended.
    fn find_end(
        &self,
        key: ProcessKey,
        bucket: TimeRange,
        see: &mut dyn FnMut(Moment, Life),
    ) -> Result<(), QueryError> {
        let mut minute = bucket;
        // The sums of minutes find the minute, so intervals of one minute are read instead of sixty.
        if self.resolution == Resolution::Hour {
            let query = self.query(key, bucket).without_sched();
            self.history.for_each(&query, Some(Resolution::Minute), &mut |span| {
                if !span.interval.processes.is_empty() {
                    let (begin, end) = (span.interval.begin, span.interval.end);
                    minute = TimeRange { since_ns: begin.wall_ns, until_ns: end.wall_ns };
                }
            })?;
        }
        let query = self.query(key, minute).without_sched();
        self.history.for_each(&query, None, &mut |span| {
            for row in &span.interval.processes {
                see(span.interval.end, row.life);
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
    ) -> Result<(), QueryError> {
        let Some(end_ns) = self.history.end_after(self.host, began_ns)? else { return Ok(()) };
        let since_ns = began_ns.saturating_sub(SLACK_NS).max(self.range.since_ns);
        let until_ns = end_ns.saturating_add(SLACK_NS).min(self.range.until_ns);
        let mut shares = Vec::new();
        self.history.for_each(&self.query(key, TimeRange { since_ns, until_ns }), None, &mut |span| {
            if !span.interval.processes.is_empty() {
                // Not `cover`: the sums counted this time as measured already.
                buckets.place_of(span, &mut shares);
                line.see(buckets, span, &view_of(span), &shares);
            }
        })
    }
}
