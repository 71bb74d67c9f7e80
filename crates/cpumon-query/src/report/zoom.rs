//! [`Zoom`]: finds in which interval the peak of a group was, and when it was there first and last, where sums were read: the sum
//! of the hour that may hold it is read again by minutes, and that minute by intervals. Sums of processes give bounds of a group's
//! peak, and what cannot be higher than a peak that is known is not read.

use std::collections::HashMap;

use cpumon_model::HostStatus;
use cpumon_store::{ProcessFilter, Resolution, What};

use super::answer::Peak;
use super::group::{GroupId, Grouping};
use super::group_sum::Group;
use super::read::{Reading, read};
use super::tally::Tally;
use super::times::{Candidate, Mark, Times, highest};
use crate::QueryError;
use crate::history::History;
use crate::spans::Span;
use crate::time::TimeRange;

/// Minutes and hours that are read again at most for one report. Beyond it peaks are marked as not exact.
const MAX_READS: usize = 200;

/// When a group was there and when it ran most.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Zoomed {
    pub(super) first_ns: Option<i64>,
    pub(super) last_ns: Option<i64>,
    pub(super) peak: Option<Peak>,
}

/// The finer data of one host, each part read once for all groups that are shown.
pub(super) struct Zoom<'a> {
    history: &'a History,
    host: &'a HostStatus,
    grouping: &'a Grouping,
    shown: Vec<GroupId>,
    /// The processes of what is shown.
    filter: ProcessFilter,
    parts: HashMap<TimeRange, HashMap<GroupId, Times>>,
    reads: usize,
}

impl<'a> Zoom<'a> {
    pub(super) fn new(
        history: &'a History,
        host: &'a HostStatus,
        grouping: &'a Grouping,
        shown: &[&Group],
    ) -> Self {
        let processes: Option<Vec<_>> = shown.iter().map(|group| group.process).collect();
        Self {
            history,
            host,
            grouping,
            shown: shown.iter().map(|group| group.id()).collect(),
            filter: processes.map_or(ProcessFilter::All, |keys| ProcessFilter::AnyOf(keys.into())),
            parts: HashMap::new(),
            reads: 0,
        }
    }

    /// What is known of a group from `times`, and from finer data where it is needed.
    pub(super) fn of(&mut self, id: &GroupId, times: &Times) -> Result<Zoomed, QueryError> {
        let ends = self.ends(id, times)?;
        Ok(Zoomed { peak: self.peak(id, times)?, ..ends })
    }

    /// The same without its peak.
    pub(super) fn ends(&mut self, id: &GroupId, times: &Times) -> Result<Zoomed, QueryError> {
        Ok(Zoomed {
            first_ns: self.end_of(id, times.first, End::First)?,
            last_ns: self.end_of(id, times.last, End::Last)?,
            peak: None,
        })
    }

    /// What a sum is made of, for one group; `None` if nothing finer is left of it.
    fn finer(&mut self, id: &GroupId, mark: Mark) -> Result<Option<Times>, QueryError> {
        let Some(resolution) = mark.resolution else { return Ok(None) };
        if !self.parts.contains_key(&mark.range) {
            if self.reads >= MAX_READS {
                return Ok(None);
            }
            self.reads += 1;
            // Threads have no sums of minutes.
            let has_minutes = resolution == Resolution::Hour && self.grouping.what() != What::Threads;
            let finer = has_minutes.then_some(Resolution::Minute);
            let span = Span { range: mark.range, resolution: finer };
            let mut tally = Tally::new(None);
            let (host, grouping, filter) = (self.host, self.grouping, &self.filter);
            let reading = Reading { host, grouping, filter, with_events: false };
            read(self.history, reading, span, &mut tally)?;
            let of_shown = |id: &GroupId| {
                let group = tally.find(id)?;
                Some((id.clone(), tally.groups[group].times.clone()))
            };
            self.parts.insert(mark.range, self.shown.iter().filter_map(of_shown).collect());
        }
        Ok(self.parts.get(&mark.range).and_then(|part| part.get(id)).cloned())
    }

    fn end_of(&mut self, id: &GroupId, mark: Option<Mark>, end: End) -> Result<Option<i64>, QueryError> {
        let Some(mut mark) = mark else { return Ok(None) };
        while let Some(finer) = self.finer(id, mark)? {
            let next = if end == End::First { finer.first } else { finer.last };
            let Some(next) = next.filter(|next| *next != mark) else { break };
            mark = next;
        }
        Ok(Some(if end == End::First { mark.range.since_ns } else { mark.range.until_ns }))
    }

    fn peak(&mut self, id: &GroupId, times: &Times) -> Result<Option<Peak>, QueryError> {
        let (mut peak, mut open) = (times.peak, times.candidates.clone());
        // The highest that a sum allows of which nothing finer is left.
        let mut unread = i64::MIN;
        loop {
            let known = peak.map_or(i64::MIN, |peak| peak.ns_per_s);
            let at = (0..open.len()).max_by_key(|at| open[*at].upper).filter(|at| open[*at].upper > known);
            let Some(at) = at else { break };
            let Candidate { mark, upper, lower } = open.swap_remove(at);
            if let Some(finer) = self.finer(id, mark)? {
                peak = highest(peak, finer.peak);
                open.extend(finer.candidates);
            } else {
                // Of a single process the sum has the value, but not when within it.
                unread = unread.max(upper);
                peak = highest(
                    peak,
                    Some(Peak { ns_per_s: lower, end_ns: mark.range.until_ns, is_exact: true }),
                );
            }
        }
        Ok(peak.map(|peak| Peak { is_exact: peak.ns_per_s >= unread, ..peak }))
    }
}

/// Which end of a group's time.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum End {
    First,
    Last,
}
