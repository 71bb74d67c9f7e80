//! The users of an interval.

use std::collections::BTreeMap;

use cpumon_model::Interval;

use crate::text::safe;
use crate::view::UserFilter;

/// Users that a hint names.
const MAX_NAMED: usize = 8;

/// A user and what all of its processes did in an interval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UserRow {
    pub uid: u32,
    /// As groups name it: `ann (1000)`; hostile.
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

/// Where no process is of the wanted user: that, and whose the processes are.
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

    use cpumon_model::{ProcessInfo, ProcessInterval, SourceKind};

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
