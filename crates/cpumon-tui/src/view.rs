//! [`View`]: how the user wants to see an interval: arrangement, sorting [`Col`]umn, unit, filters, the users to choose from. It outlives
//! intervals, so rows are identified by their task, never by position.

use std::collections::{BTreeMap, HashSet};
use std::sync::LazyLock;

use cpumon_model::{Fields, Interval, ProcessInfo, ProcessKey, ScreenColumn, TASK_COLUMNS};
use cpumon_query::GroupBy;

use crate::rows::RowId;
use crate::text::safe;

#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// One row for each process or thread, sorted.
    #[default]
    List,
    /// Processes under their parents.
    Tree,
    /// Processes under their group.
    Groups,
}

/// Groupings of processes, in the order of the key.
pub const GROUPINGS: [GroupBy; 4] = [GroupBy::Program, GroupBy::User, GroupBy::Service, GroupBy::Container];

/// Grouping after `by`; `None` after the last.
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
    pub fn new(text: &str) -> Self {
        let in_parentheses = text.rsplit_once(" (").and_then(|(_, rest)| rest.strip_suffix(')'));
        let by_id = || in_parentheses.unwrap_or(text).parse().ok();
        Self { text: text.to_owned(), uid: if text == "root" { Some(0) } else { by_id() } }
    }

    /// The text as typed.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The id, if it was given by its id.
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
    /// The unit in a column's title.
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

#[derive(Clone, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a key that turns something on and off")]
pub(crate) struct View {
    pub layout: Layout,
    /// Threads of all processes are shown.
    pub threads: bool,
    pub sort: Col,
    /// Sorts against the column's natural direction.
    pub reversed: bool,
    pub unit: Unit,
    /// Rows must hold this text (lower case); empty for all.
    pub filter: String,
    /// Only these pids; empty for all.
    pub pids: HashSet<u32>,
    pub user: Option<UserFilter>,
    pub limit: Option<usize>,
    pub group_by: GroupBy,
    pub hide_idle: bool,
    /// Processes whose threads are shown, groups whose processes are shown.
    pub open: HashSet<RowId>,
    /// In the tree, processes whose children are hidden.
    pub closed: HashSet<ProcessKey>,
    /// Command lines instead of names.
    pub cmdline: bool,
    /// Wait reasons are shown by name, for scripts; else in words.
    pub wait_names: bool,
    /// A bar a CPU instead of one for all.
    pub per_cpu: bool,
    /// Counters of the interval on screen.
    pub known: Fields,
    /// Some control group has a CPU limit.
    pub has_limits: bool,
}

impl View {
    /// Threads stand alone, sorted among each other, without rows of processes.
    pub(crate) fn is_flat_threads(&self) -> bool {
        self.threads && self.layout == Layout::List
    }

    /// Whether small values come first.
    pub(crate) fn is_rising(&self) -> bool {
        self.sort.is_rising() != self.reversed
    }
}

/// The table of the grid's columns, in the order of the screen: name in the shared table, terminal columns, rank (a narrow screen leaves out
/// the highest ones), least terminal columns in a line of batch mode, whether small values naturally come first.
macro_rules! columns {
    ($($(#[$meta:meta])* $col:ident: $id:literal, $width:literal, $rank:literal, $batch:expr, $is_rising:literal;)*) => {
        #[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
        pub(crate) enum Col {
            $($(#[$meta])* $col,)*
        }

        impl Col {
            /// All columns from left to right.
            pub(crate) const ORDER: [Self; 26] = [$(Self::$col),*];

            /// Name in the shared table.
            fn id(self) -> &'static str {
                match self {
                    $(Self::$col => $id,)*
                }
            }

            /// Width in terminal columns; 0: as many as an id needs. Names are wider where there is space.
            pub(crate) fn width(self) -> u16 {
                match self {
                    $(Self::$col => $width,)*
                }
            }

            /// Whether small values come first, unless the user wants it the other way round.
            fn is_rising(self) -> bool {
                match self {
                    $(Self::$col => $is_rising,)*
                }
            }

            /// The most important columns first: narrow screens leave out the last ones.
            pub(crate) fn by_importance() -> impl Iterator<Item = Self> {
                let mut ranks = [$(($rank, Self::$col)),*];
                ranks.sort_unstable_by_key(|(rank, _)| *rank);
                ranks.into_iter().map(|(_, col)| col)
            }

            /// Columns of batch mode with their least widths; the process of a thread comes first, the name last.
            pub(crate) fn of_batch() -> impl Iterator<Item = (Self, usize)> {
                let mut widths: [(Self, Option<usize>); 26] = [$((Self::$col, $batch)),*];
                widths.sort_by_key(|(col, _)| *col != Self::Owner);
                widths.into_iter().filter_map(|(col, width)| Some((col, width?)))
            }
        }
    };
}

columns! {
    /// Pid of a process, tid of a thread.
    Id: "pid", 0, 0, Some(7), true;
    /// The process of a thread, where threads stand alone.
    Owner: "owner", 0, 19, Some(7), true;
    /// User name if it is certain, else uid.
    User: "uid", 8, 14, Some(8), true;
    State: "state", 1, 4, Some(1), true;
    Nice: "nice", 3, 22, Some(3), true;
    LastCpu: "last_cpu", 5, 21, Some(4), true;
    #[default]
    Cpu: "cpu", 6, 1, Some(6), false;
    User100: "user", 6, 9, Some(6), false;
    System100: "system", 6, 10, Some(6), false;
    /// Threads that were ready and waited for a CPU, on average; of a thread a share of the interval.
    Ready: "ready", 6, 5, Some(6), false;
    LongestDelay: "longest", 6, 11, Some(6), false;
    /// 99 % of its run delays were no longer; single threads have none unless they were selected.
    DelayP99: "p99", 6, 12, Some(6), false;
    /// CPUs that its control group may use.
    Limit: "limit", 6, 7, Some(6), true;
    /// Time in which the control group had used up its limit.
    Throttled: "throttled", 6, 6, Some(6), false;
    /// Threads that were blocked on average; of a thread a share of the interval.
    Blocked: "blocked", 6, 16, Some(6), false;
    /// Its main wait.
    Wait: "wait", 13, 8, Some(12), true;
    /// Context switches per second, voluntary or not.
    Switches: "csw", 6, 15, Some(7), false;
    Voluntary: "vcsw", 6, 17, Some(7), false;
    Involuntary: "icsw", 6, 18, Some(7), false;
    MinorFaults: "minflt", 6, 24, None, false;
    MajorFaults: "majflt", 6, 23, None, false;
    Threads: "threads", 5, 13, Some(5), false;
    /// Run time while on screen.
    Seen: "seen", 8, 20, None, false;
    /// Container or unit.
    Container: "container", 20, 25, None, true;
    Marks: "marks", 2, 3, Some(4), false;
    /// Name or command line.
    Name: "name", 10, 2, Some(0), true;
}

impl Col {
    /// Its row in the shared table: title, alignment, needed counters, help.
    pub(crate) fn shared(self) -> &'static ScreenColumn {
        // A screen asks for each of its cells.
        static SHARED: LazyLock<[&ScreenColumn; Col::ORDER.len()]> = LazyLock::new(|| {
            // A test checks that every column is in the table.
            let shared = |col: Col| TASK_COLUMNS.iter().find(|column| column.id == col.id());
            Col::ORDER.map(|col| shared(col).unwrap_or(&TASK_COLUMNS[0]))
        });
        SHARED[self as usize]
    }
}

/// Most users that a hint names.
const MAX_NAMED: usize = 8;

/// A user, with the sums of all of its processes in an interval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UserRow {
    pub uid: u32,
    /// Name as in groups: `ann (1000)`; hostile.
    pub label: String,
    pub processes: usize,
    pub run_ns: i64,
}

/// The users of an interval, the busiest first; none of a host that does not report them.
pub(crate) fn users_of(interval: &Interval) -> Vec<UserRow> {
    let mut users: BTreeMap<u32, UserRow> = BTreeMap::new();
    for process in interval.processes.iter().filter(|_| interval.source.has_users()) {
        let uid = process.info.uid;
        let user = users.entry(uid).or_insert_with(|| UserRow {
            uid,
            label: process.info.user_label().into_owned(),
            processes: 0,
            run_ns: 0,
        });
        user.processes += 1;
        user.run_ns = user.run_ns.saturating_add(process.delta.run_ns);
    }
    let mut rows: Vec<UserRow> = users.into_values().collect();
    rows.sort_by_key(|user| std::cmp::Reverse(user.run_ns));
    rows
}

/// The message where no process is of the wanted user, with the users of the processes.
pub(crate) fn no_such_user(interval: &Interval, wanted: &UserFilter) -> Option<String> {
    if !interval.source.has_users() {
        return Some(format!("a {} host does not send users", interval.source.name()));
    }
    if interval.processes.iter().any(|process| wanted.allows(&process.info)) {
        return None;
    }
    let users = users_of(interval);
    let named: Vec<String> = users.iter().take(MAX_NAMED).map(|user| safe(&user.label)).collect();
    let more = if users.len() > MAX_NAMED { ", \u{2026}" } else { "" };
    Some(format!("no process of user {} here, only of {}{more}", safe(wanted.text()), named.join(", ")))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use cpumon_model::{ProcessInterval, SourceKind};

    use super::*;

    fn interval(source: SourceKind) -> Interval {
        let process = |(uid, user): (u32, &str)| {
            let info = ProcessInfo { uid, user: user.into(), ..ProcessInfo::default() };
            ProcessInterval { info: Arc::new(info), ..ProcessInterval::default() }
        };
        let processes = [(0, ""), (1000, "ann"), (1001, ""), (1002, "\x1b[2J")].map(process).to_vec();
        Interval { source, processes, ..Interval::default() }
    }

    #[test]
    fn a_user_is_found_by_name_by_id_and_by_both() {
        let interval = interval(SourceKind::Bpf);
        for (text, is_there) in [
            ("root", true),
            ("0", true),
            ("ann", true),
            ("1000", true),
            ("ann (1000)", true),
            ("1001", true),
            ("an", false),
            ("100", false),
            ("", false),
        ] {
            assert_eq!(no_such_user(&interval, &UserFilter::new(text)).is_none(), is_there, "{text}");
        }
    }

    #[test]
    fn a_wrong_user_is_answered_with_those_that_there_are() {
        let hint = |source| no_such_user(&interval(source), &UserFilter::new("bob"));
        assert_eq!(
            hint(SourceKind::Bpf).as_deref(),
            Some("no process of user bob here, only of root, ann (1000), 1001, \\x1b[2J (1002)")
        );
        assert_eq!(hint(SourceKind::V1).as_deref(), Some("a v1 host does not send users"));
        assert!(users_of(&interval(SourceKind::V1)).is_empty());
    }
}
