//! [`View`]: how the user wants to see an interval. It outlives intervals, so rows are identified by their task, never by position.

use std::collections::HashSet;

use cpumon_model::{Fields, Interval, ProcessInfo, ProcessKey};
use cpumon_query::GroupBy;

use crate::columns::Col;
use crate::rows::RowId;

#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Layout {
    /// One row a process (or a thread), sorted.
    #[default]
    List,
    /// Processes under their parents.
    Tree,
    /// Processes under what they have in common.
    Groups,
}

/// What the processes of a group have in common, in the order of the key.
pub const GROUPINGS: [GroupBy; 4] = [GroupBy::Program, GroupBy::User, GroupBy::Service, GroupBy::Container];

/// The next grouping; `None` after the last.
pub(crate) fn next_grouping(by: GroupBy) -> Option<GroupBy> {
    let at = GROUPINGS.iter().position(|one| *one == by)?;
    GROUPINGS.get(at + 1).copied()
}

/// A user by name, by id, or as groups name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserFilter {
    text: String,
    /// The id, where the text has one; else the text is a name.
    uid: Option<u32>,
}

impl UserFilter {
    /// `1000` and `ann (1000)` are the user with this id, `ann` is the one that the host calls so. `root` is 0 on every host.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let in_parentheses = text.rsplit_once(" (").and_then(|(_, rest)| rest.strip_suffix(')'));
        let by_id = || in_parentheses.unwrap_or(text).parse().ok();
        Self { text: text.to_owned(), uid: if text == "root" { Some(0) } else { by_id() } }
    }

    /// As it was written.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The id, if it was given by its id.
    #[must_use]
    pub fn uid(&self) -> Option<u32> {
        self.uid
    }

    pub(crate) fn allows(&self, info: &ProcessInfo) -> bool {
        match self.uid {
            Some(uid) => uid == info.uid,
            None => info.user_name() == Some(&self.text),
        }
    }
}

#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Unit {
    /// 100 = one CPU.
    #[default]
    OneCpu,
    /// 100 = all CPUs.
    Host,
}

impl Unit {
    /// As in a column's title.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::OneCpu => "%CPU",
            Self::Host => "%host",
        }
    }

    /// `ns` of CPU time in this unit; `None` where length or capacity are not known.
    pub(crate) fn of(self, interval: &Interval, ns: i64) -> Option<f64> {
        match self {
            Self::OneCpu => interval.cpu_pct(ns),
            Self::Host => interval.host_pct(ns),
        }
    }
}

/// How the user wants to see an interval.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a key that turns something on and off")]
pub(crate) struct View {
    pub layout: Layout,
    /// Threads of all processes are shown.
    pub threads: bool,
    /// The column that sorts.
    pub sort: Col,
    /// Against its natural direction.
    pub reversed: bool,
    pub unit: Unit,
    /// Rows must hold this text (lower case); empty for all.
    pub filter: String,
    /// Only these pids; empty for all.
    pub pids: HashSet<u32>,
    /// Only this user's processes.
    pub user: Option<UserFilter>,
    /// So many rows at most.
    pub limit: Option<usize>,
    /// What groups are made of.
    pub group_by: GroupBy,
    /// Rows that did nothing are left out.
    pub hide_idle: bool,
    /// Processes whose threads are shown, groups whose processes are shown.
    pub open: HashSet<RowId>,
    /// Tree: processes whose children are hidden.
    pub closed: HashSet<ProcessKey>,
    /// Command lines instead of names.
    pub cmdline: bool,
    /// Wait reasons are shown by name, for scripts; else in words.
    pub wait_names: bool,
    /// A bar a CPU instead of one for all.
    pub per_cpu: bool,
    /// What is known of the interval on screen.
    pub known: Fields,
    /// A control group has a CPU limit.
    pub has_limits: bool,
}

impl Default for View {
    fn default() -> Self {
        Self {
            layout: Layout::List,
            threads: false,
            sort: Col::Cpu,
            reversed: false,
            unit: Unit::OneCpu,
            filter: String::new(),
            pids: HashSet::new(),
            user: None,
            limit: None,
            group_by: GROUPINGS[0],
            hide_idle: false,
            open: HashSet::new(),
            closed: HashSet::new(),
            cmdline: false,
            wait_names: false,
            per_cpu: false,
            known: Fields::empty(),
            has_limits: false,
        }
    }
}

impl View {
    /// Threads stand alone, sorted among each other, without rows of processes.
    pub(crate) fn is_flat_threads(&self) -> bool {
        self.threads && self.layout == Layout::List
    }

    /// Whether small values come first.
    pub(crate) fn is_rising(&self) -> bool {
        let natural = matches!(
            self.sort,
            Col::Id
                | Col::Owner
                | Col::Nice
                | Col::LastCpu
                | Col::User
                | Col::State
                | Col::Container
                | Col::Wait
                | Col::Limit
                | Col::Name
        );
        natural != self.reversed
    }
}
