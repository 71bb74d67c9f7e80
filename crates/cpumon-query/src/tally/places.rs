//! [`GroupFinder`]: finds the group of a row. Rows of one description are always in the same groups, unless groups are single tasks, so
//! their names are made and looked up once and not for each row.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use cpumon_model::{BootId, ProcessInfo};
use foldhash::fast::RandomState;

use super::group::{GroupKind, GroupOf};
use crate::keys::TaskKey;

/// Groups at most, next to the one of all others.
pub(crate) const MAX_GROUPS: usize = 50_000;
/// Descriptions at most whose groups are noted; beyond it they are found again.
const MAX_INFOS: usize = 1 << 16;

/// Where a group is found: names are numbered, so that a row is looked up without a copy of its name.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
enum TallyKey {
    Named(GroupKind, usize),
    Task(BootId, TaskKey),
}

/// A group that was found, or is to be made.
pub(super) enum GroupIndex {
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
pub(super) struct GroupFinder {
    names: HashMap<Box<str>, usize, RandomState>,
    groups: HashMap<TallyKey, usize, RandomState>,
    /// Groups by address of the description, and by whether rows have a user.
    infos: HashMap<(usize, bool), OfInfo, RandomState>,
    /// Group indices of all descriptions; [`OfInfo`] has the range of each.
    lists: Vec<usize>,
}

impl GroupFinder {
    /// The group of a row, if there is one.
    pub(super) fn find(&self, kind: GroupKind, name: &str, task: Option<(BootId, TaskKey)>) -> Option<usize> {
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
    pub(super) fn place(&mut self, of: &GroupOf<'_>) -> Option<GroupIndex> {
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
    pub(super) fn of_info(&self, info: &Arc<ProcessInfo>, has_user: bool) -> Option<Range<usize>> {
        self.infos.get(&(Arc::as_ptr(info).addr(), has_user)).map(|known| known.groups.clone())
    }

    /// Group index at a position of [`GroupFinder::of_info`].
    pub(super) fn noted(&self, at: usize) -> Option<usize> {
        self.lists.get(at).copied()
    }

    pub(super) fn note(
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
