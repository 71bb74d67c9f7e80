//! [`Tally`] adds the rows of a range of one host up by group. In: rows of spans, intervals or sums. A [`Sums`] decides what a group adds
//! up: the figures of a report, the points of a matrix, the columns of a line.
//!
//! [`GroupFinder`] finds the group of a row. Rows of one description are always in the same groups, unless groups are single tasks, so
//! their names are made and looked up once and not for each row.

mod group;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use cpumon_model::{BootId, ProcessInfo, ProcessKey};
use cpumon_store::ActiveTimes;
use foldhash::fast::RandomState;

use crate::keys::TaskKey;
pub(crate) use group::{
    GroupId, GroupKind, GroupOf, Grouping, RowPart, SpanProcessRow, SpanThreadRow, TaskRow, TextSearch,
    is_in_group,
};

/// Groups at most, next to the one of all others.
pub(crate) const MAX_GROUPS: usize = 50_000;
/// Descriptions at most whose groups are noted; beyond it they are found again.
const MAX_INFOS: usize = 1 << 16;

pub(crate) trait Sums: Clone {
    /// The part of a span needed to add its rows.
    type Span<'s>;

    fn add(&mut self, span: &Self::Span<'_>, part: &RowPart<'_>);

    /// Ends a span in which the group had rows.
    fn close(&mut self, span: &Self::Span<'_>, now: &Now);
}

/// What the rows of a group in one span come to.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct Now {
    pub(crate) run_ns: i64,
    /// Sum and highest of the largest run times of its rows, ns per second.
    pub(crate) sum: i64,
    pub(crate) highest: i64,
    /// Rows of a sum, and of these the ones whose times are not recorded.
    pub(crate) rows: usize,
    timeless: usize,
    times: Option<ActiveTimes>,
}

/// Merges the activity times of two rows of one sum.
fn together(one: Option<ActiveTimes>, other: ActiveTimes) -> ActiveTimes {
    one.map_or(other, |one| ActiveTimes {
        first_ns: one.first_ns.min(other.first_ns),
        last_ns: one.last_ns.max(other.last_ns),
        ..one
    })
}

impl Now {
    pub(crate) fn add(&mut self, part: &RowPart<'_>) {
        self.run_ns = self.run_ns.saturating_add(part.delta.run_ns);
        if let Some(most) = part.most_ns_per_s {
            self.sum = self.sum.saturating_add(most);
            self.highest = self.highest.max(most);
            self.rows += 1;
            match part.times {
                Some(times) => self.times = Some(together(self.times, times)),
                None => self.timeless += 1,
            }
        }
    }

    /// When the rows of a sum were active; `None`: it is not recorded of all.
    pub(crate) fn times(&self) -> Option<ActiveTimes> {
        self.times.filter(|_| self.timeless == 0)
    }

    /// The highest run time of one interval of a span, ns per second. Sums have the highest of each row alone: together they had at
    /// least their mean.
    pub(crate) fn most_ns_per_s(&self, measured_in_ns: u64) -> f64 {
        let together = self.run_ns as f64 * 1e9 / (measured_in_ns as f64).max(1.0);
        together.max(self.highest as f64)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Group<S> {
    pub(crate) kind: GroupKind,
    pub(crate) name: Box<str>,
    pub(crate) task: Option<(BootId, TaskKey)>,
    pub(crate) process: Option<ProcessKey>,
    /// Its place in `Tally::open`, if it has rows in the current span.
    open_at: Option<u32>,
    pub(crate) sums: S,
}

impl<S> Group<S> {
    fn new(of: GroupOf<'_>, sums: S) -> Self {
        let GroupOf { kind, name, task, process } = of;
        Self { kind, name: name.into(), task, process, open_at: None, sums }
    }

    /// How it is found in another part of the range.
    pub(crate) fn id(&self) -> GroupId {
        self.of().id()
    }

    pub(crate) fn of(&self) -> GroupOf<'_> {
        GroupOf { kind: self.kind, name: &self.name, task: self.task, process: self.process }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Tally<S> {
    places: GroupFinder,
    pub(crate) groups: Vec<Group<S>>,
    /// Sums of a new group.
    empty: S,
    /// Rows whose group is not in `groups` are ignored.
    is_closed: bool,
    /// Groups that were met when there were too many already, an upper bound: they are in that of all others.
    pub(crate) folded: u64,
    /// Groups with rows in the current span, and the sums of these rows.
    open: Vec<(usize, Now)>,
}

impl<S: Sums> Tally<S> {
    pub(crate) fn new(empty: S) -> Self {
        let (places, groups, open) = (GroupFinder::default(), Vec::new(), Vec::new());
        Self { places, groups, empty, is_closed: false, folded: 0, open }
    }

    /// A tally of these groups; rows of other groups are ignored.
    pub(crate) fn of_groups<'g>(empty: S, groups: impl IntoIterator<Item = GroupOf<'g>>) -> Self {
        let mut tally = Self::new(empty);
        for group in groups {
            tally.place(group);
        }
        tally.is_closed = true;
        tally
    }

    pub(crate) fn emptied(&self) -> Self {
        let empty = self.empty.clone();
        if self.is_closed {
            return Self::of_groups(empty, self.groups.iter().map(Group::of));
        }
        Self::new(empty)
    }

    /// Index of the group in `groups`.
    pub(crate) fn find(&self, id: &GroupId) -> Option<usize> {
        match id {
            GroupId::Named(kind, name) => self.places.find(*kind, name, None),
            GroupId::Task(boot, task) => self.places.find(GroupKind::Whole, "", Some((*boot, *task))),
        }
    }

    /// The group of a row. Where there are too many, a report has the row among all others, and a search has it nowhere: there it
    /// can be in several groups and would count twice.
    pub(crate) fn place(&mut self, of: GroupOf<'_>) -> Option<usize> {
        if self.is_closed {
            let at = self.places.find(of.kind, of.name, of.task)?;
            return Some(self.rename(at, of));
        }
        let (of, found) = match self.places.place(&of) {
            Some(found) => (of, found),
            None if matches!(of.kind, GroupKind::Found(_)) => return None,
            None => {
                self.folded += 1;
                (GroupOf::OTHERS, self.places.place(&GroupOf::OTHERS)?)
            }
        };
        match found {
            GroupIndex::Known(at) => Some(self.rename(at, of)),
            GroupIndex::New(at) => {
                self.groups.push(Group::new(of, self.empty.clone()));
                Some(at)
            }
        }
    }

    /// A process that calls exec gets another name; the newest one names it.
    fn rename(&mut self, at: usize, of: GroupOf<'_>) -> usize {
        let group = &mut self.groups[at];
        // Sums have no single short-lived processes, so those are under one name.
        let is_one = of.task.is_some_and(|(_, task)| task.number() > 0);
        if is_one && *group.name != *of.name {
            group.name = of.name.into();
        }
        at
    }

    /// Adds a row to a group. A row without a group is not counted.
    pub(crate) fn add_row(&mut self, of: GroupOf<'_>, span: &S::Span<'_>, part: &RowPart<'_>) {
        if let Some(at) = self.place(of) {
            self.add_to(at, span, part);
        }
    }

    /// Adds a row to each of its groups.
    pub(crate) fn add_process(
        &mut self,
        process: SpanProcessRow<'_>,
        grouping: &Grouping,
        host: &str,
        span: &S::Span<'_>,
    ) {
        let part = &process.part;
        if !grouping.is_by_info() {
            grouping.each(process, host, &mut |of| self.add_row(of, span, part));
            return;
        }
        let (info, has_user) = (&process.row.info, process.has_user());
        let groups = self.places.of_info(info, has_user).unwrap_or_else(|| {
            let mut groups = Vec::new();
            grouping.each(process, host, &mut |of| groups.extend(self.place(of)));
            self.places.note(info, has_user, groups.into_iter())
        });
        for at in groups {
            if let Some(group) = self.places.noted(at) {
                self.add_to(group, span, part);
            }
        }
    }

    fn add_to(&mut self, at: usize, span: &S::Span<'_>, part: &RowPart<'_>) {
        let group = &mut self.groups[at];
        group.sums.add(span, part);
        let known = group.open_at.and_then(|place| self.open.get_mut(place as usize));
        if let Some((_, now)) = known {
            now.add(part);
            return;
        }
        let mut now = Now::default();
        now.add(part);
        group.open_at = u32::try_from(self.open.len()).ok();
        self.open.push((at, now));
    }

    /// Ends a span: what each group did in it is known now.
    pub(crate) fn close(&mut self, span: &S::Span<'_>) {
        for (at, now) in self.open.drain(..) {
            let group = &mut self.groups[at];
            group.open_at = None;
            group.sums.close(span, &now);
        }
    }

    /// Takes what was added up of a later part of the range.
    pub(crate) fn append(&mut self, later: Self)
    where
        S: std::ops::AddAssign,
    {
        self.folded = self.folded.saturating_add(later.folded);
        for more in later.groups {
            if let Some(at) = self.place(more.of()) {
                self.groups[at].sums += more.sums;
            }
        }
    }
}

/// Where a group is found: names are numbered, so that a row is looked up without a copy of its name.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
enum TallyKey {
    Named(GroupKind, usize),
    Task(BootId, TaskKey),
}

/// A group that was found, or is to be made.
enum GroupIndex {
    /// Index of the group.
    Known(usize),
    /// Index that the new group gets.
    New(usize),
}

/// The groups of a description. It is held, so that no other one gets its address.
#[derive(Clone, Debug)]
struct OfInfo {
    _info: Arc<ProcessInfo>,
    groups: Range<usize>,
}

#[derive(Clone, Debug, Default)]
struct GroupFinder {
    names: HashMap<Box<str>, usize, RandomState>,
    groups: HashMap<TallyKey, usize, RandomState>,
    /// Groups by address of the description, and by whether rows have a user.
    infos: HashMap<(usize, bool), OfInfo, RandomState>,
    /// Group indices of all descriptions; [`OfInfo`] has the range of each.
    lists: Vec<usize>,
}

impl GroupFinder {
    /// The group of a row, if there is one.
    fn find(&self, kind: GroupKind, name: &str, task: Option<(BootId, TaskKey)>) -> Option<usize> {
        let place = match task {
            Some((boot, task)) => TallyKey::Task(boot, task),
            None => TallyKey::Named(kind, *self.names.get(name)?),
        };
        self.groups.get(&place).copied()
    }

    /// Whether there is no place for another group of this kind: there always is one for all others.
    fn is_full(&self, kind: GroupKind) -> bool {
        self.groups.len() >= MAX_GROUPS && kind != GroupKind::Others
    }

    /// The number of a name; `None` where there are too many groups for another one.
    fn number_of(&mut self, kind: GroupKind, name: &str) -> Option<usize> {
        if let Some(number) = self.names.get(name) {
            return Some(*number);
        }
        if self.is_full(kind) {
            return None;
        }
        self.names.insert(name.into(), self.names.len());
        Some(self.names.len() - 1)
    }

    /// The group of a row; `None` where there are too many.
    fn place(&mut self, of: &GroupOf<'_>) -> Option<GroupIndex> {
        let place = match of.task {
            Some((boot, task)) => TallyKey::Task(boot, task),
            None => TallyKey::Named(of.kind, self.number_of(of.kind, of.name)?),
        };
        if let Some(&at) = self.groups.get(&place) {
            return Some(GroupIndex::Known(at));
        }
        if self.is_full(of.kind) {
            return None;
        }
        self.groups.insert(place, self.groups.len());
        Some(GroupIndex::New(self.groups.len() - 1))
    }

    /// Where the groups of a description are noted, for [`GroupFinder::noted`]; `None`: they are not.
    fn of_info(&self, info: &Arc<ProcessInfo>, has_user: bool) -> Option<Range<usize>> {
        self.infos.get(&(Arc::as_ptr(info).addr(), has_user)).map(|known| known.groups.clone())
    }

    /// Group index at a position of [`GroupFinder::of_info`].
    fn noted(&self, at: usize) -> Option<usize> {
        self.lists.get(at).copied()
    }

    fn note(
        &mut self,
        info: &Arc<ProcessInfo>,
        has_user: bool,
        groups: impl Iterator<Item = usize>,
    ) -> Range<usize> {
        if self.infos.len() >= MAX_INFOS {
            self.infos.clear();
            self.lists.clear();
        }
        let begin = self.lists.len();
        self.lists.extend(groups);
        let groups = begin..self.lists.len();
        let known = OfInfo { _info: Arc::clone(info), groups: groups.clone() };
        self.infos.insert((Arc::as_ptr(info).addr(), has_user), known);
        groups
    }
}
