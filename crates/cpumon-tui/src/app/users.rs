//! The users of the interval on screen.

use std::collections::BTreeMap;

use crate::app::state::App;

/// A user and what all of its processes did in the interval on screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UserRow {
    pub uid: u32,
    /// The name, or the id where it is not known; hostile.
    pub name: String,
    pub processes: usize,
    pub run_ns: i64,
}

impl App {
    /// The users of the interval on screen, the busiest first.
    pub(crate) fn users_shown(&self) -> Vec<UserRow> {
        let Some(shown) = &self.shown else { return Vec::new() };
        let mut users: BTreeMap<u32, UserRow> = BTreeMap::new();
        for process in &shown.processes {
            let uid = process.info.uid;
            let user = users.entry(uid).or_insert_with(|| {
                let name = self.view.users.get(&uid).cloned().unwrap_or_else(|| uid.to_string());
                UserRow { uid, name, processes: 0, run_ns: 0 }
            });
            user.processes += 1;
            user.run_ns = user.run_ns.saturating_add(process.delta.run_ns);
        }
        let mut rows: Vec<UserRow> = users.into_values().collect();
        rows.sort_by_key(|user| std::cmp::Reverse(user.run_ns));
        rows
    }
}
