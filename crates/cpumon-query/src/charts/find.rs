//! Which host and which process a chart is of: names, pids and keys as people write them are looked up.

use cpumon_model::{HostStatus, ProcessKey};

use super::query::ChartQuery;
use super::request::ChartRequest;
use crate::QueryError;
use crate::history::{self, History, Selection};
use crate::hosts::only_host;
use crate::keys::TaskKey;
use crate::parse::parse_process_key;

/// Names and keys in an error.
const MAX_NAMED: usize = 8;

/// The host that a chart of one is of; without a name, the only one there is.
pub(super) fn host(history: &History, query: &ChartQuery) -> Result<HostStatus, QueryError> {
    match query.hosts.as_slice() {
        [] => {}
        [one] => return history.find(one),
        several => {
            return Err(QueryError::ManyHosts { view: query.view.name(), count: several.len() });
        }
    }
    only_host("a chart", history, history.stored()?)
}

impl ChartRequest<'_> {
    /// The one process that is asked for.
    pub(super) fn one_process(&self) -> Result<ProcessKey, QueryError> {
        match self.query.processes.as_slice() {
            [one] => self.process(one),
            _ => Err(QueryError::NotOneProcess { view: self.query.view.name() }),
        }
    }

    /// `PID-STARTNS`; or a pid or a name that only one process of the range has.
    fn process(&self, text: &str) -> Result<ProcessKey, QueryError> {
        if let Ok(key) = parse_process_key(text) {
            return Ok(key);
        }
        let pid: Option<u32> = text.parse().ok();
        // A sum of the range, and no plot of it: a plot looks up when each process began and ended.
        let mut processes =
            history::sum(self.history, self.host, self.plot(1).time(), false)?.interval.processes;
        processes.sort_by_key(|row| std::cmp::Reverse(row.delta.run_ns));
        let matching = processes
            .into_iter()
            .filter(|row| pid.map_or_else(|| *row.info.name == *text, |pid| row.key.pid == pid))
            .map(|row| row.key);
        let matching: Vec<ProcessKey> = matching.collect();
        let process = cpumon_model::escape(text).to_string();
        match matching.as_slice() {
            [one] => Ok(*one),
            [] => Err(QueryError::NoProcess { process }),
            several => {
                let keys = several.iter().take(MAX_NAMED).map(|key| TaskKey::Process(*key)).collect();
                Err(QueryError::WhichProcess { process, keys, is_cut: several.len() > MAX_NAMED })
            }
        }
    }

    /// A process as a line: a key, the one of this pid, or all of a name together.
    pub(super) fn selection(&self, text: &str) -> Result<Selection, QueryError> {
        if parse_process_key(text).is_ok() || text.parse::<u32>().is_ok() {
            return self.process(text).map(Selection::Process);
        }
        Ok(Selection::Name(text.to_owned()))
    }

    /// `web (pid 20)`.
    pub(super) fn process_title(&self, key: ProcessKey) -> Result<String, QueryError> {
        let known = self.history.process(self.host.info.host, key)?;
        let (info, _) = known.ok_or(QueryError::UnknownProcess)?;
        Ok(format!("{} (pid {})", info.name, key.pid))
    }
}
