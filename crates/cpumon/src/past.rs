//! [`Past`] answers questions about the past: the store of `--store`, or the receiver of `--url`. Data that could not be read is reported
//! on standard error, one line for each hole; the rest was written, so the command does not fail.

use std::collections::HashMap;
use std::io::{self, Write};
use std::ops::Deref;
use std::path::{Path, PathBuf};

use cpumon_model::{HostId, escape};
use cpumon_query::history::History;
use cpumon_query::{Answers, QueryError};
use cpumon_store::{Damage, DamageReport, HostRecord, Reader};

use crate::cli::PastArgs;
use crate::client::{Client, ClientError};
use crate::exit::{Outcome, Usage, say};
use crate::paths::explain;
use crate::when;

/// Source of answers.
pub(crate) enum Past {
    Store(Box<History>, PathBuf),
    Receiver(Client),
}

impl Past {
    /// Opens the store; a receiver is not asked yet.
    pub(crate) fn open(args: &PastArgs) -> anyhow::Result<Self> {
        if let Some(client) = args.client()? {
            return Ok(Self::Receiver(client));
        }
        let path = args.store.path();
        // A missing store is reported with the remedy.
        let history = History::of_store(&path).map_err(explained)?;
        Ok(Self::Store(Box::new(history), path))
    }

    /// Reports unreadable parts; returns the outcome of a command that was done otherwise.
    pub(crate) fn end(&self, outcome: Outcome) -> Outcome {
        match self {
            Self::Store(history, path) => report_damage_of(&history.damage(), path, outcome),
            Self::Receiver(client) => report_damage_of_receiver(client, outcome),
        }
    }
}

impl Deref for Past {
    type Target = dyn Answers;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Store(history, _) => &**history,
            Self::Receiver(client) => client,
        }
    }
}

/// An invalid question is wrong usage, with a remedy; no data, or none of a process, is reported and ends with code 3, as [`Past::end`]
/// gives it: it may be there and damaged.
pub(crate) fn answered<T>(result: Result<T, QueryError>) -> anyhow::Result<Option<T>> {
    match result {
        Ok(answer) => Ok(Some(answer)),
        Err(
            error @ (QueryError::NoData { .. } | QueryError::NoProcess { .. } | QueryError::UnknownProcess),
        ) => {
            // Standard error may be closed; the exit code still reports missing data.
            let _ = writeln!(io::stderr(), "cpumon: {}", error.with_clock(&when::show));
            Ok(None)
        }
        Err(error) => Err(explained(error)),
    }
}

/// Wrong questions are wrong usage here, with the remedy. Moments are in the time zone of this machine.
pub(crate) fn explained(error: QueryError) -> anyhow::Error {
    match error {
        QueryError::Store(error) => explain(error),
        error if error.is_usage() => {
            let hint = error.hint().map_or_else(String::new, |hint| format!(". {hint}"));
            Usage(format!("{}{hint}", error.with_clock(&when::show))).into()
        }
        QueryError::Receiver(error) => match error.downcast::<ClientError>() {
            Ok(refused) if matches!(*refused, ClientError::Refused { status: 400, .. }) => {
                Usage(refused.to_string()).into()
            }
            Ok(error) => (*error).into(),
            Err(error) => QueryError::Receiver(error).into(),
        },
        error => error.into(),
    }
}

/// Most holes that are shown one by one.
const SHOWN_HOLES: usize = 20;

/// Reports the parts that a reader left out; returns the outcome of a command that was done otherwise.
pub(crate) fn report_damage(reader: &Reader, outcome: Outcome) -> Outcome {
    report_damage_of(&reader.damage(), reader.path(), outcome)
}

/// [`report_damage`] of several readers of the store at `path`.
pub(crate) fn report_damage_of(damage: &DamageReport, path: &Path, outcome: Outcome) -> Outcome {
    let shown = path.display();
    let how = format!("the store is damaged: cpumon store check {shown} --salvage NEW.db");
    write_holes(damage, || host_names(path), &how, outcome)
}

/// [`report_damage`] for a receiver's store: the parts that its answers lacked since it started.
pub(crate) fn report_damage_of_receiver(client: &Client, outcome: Outcome) -> Outcome {
    let store = match client.status() {
        Ok(status) => status.store,
        Err(error) => {
            let error = escape(&error.to_string()).to_string();
            say(&format!("it is not known whether all could be read: {error}"));
            return or_missing(outcome);
        }
    };
    let shown = escape(&store.path);
    let how = format!(
        "the receiver's store is damaged; on its machine: cpumon store check {shown} --salvage NEW.db"
    );
    write_holes(&store.damage, || host_names_of(client.hosts().unwrap_or_default()), &how, outcome)
}

fn write_holes(
    damage: &DamageReport,
    names: impl FnOnce() -> HashMap<HostId, String>,
    how: &str,
    outcome: Outcome,
) -> Outcome {
    if damage.is_empty() {
        return outcome;
    }
    for line in hole_lines(damage, &names()) {
        say(&line);
    }
    say(how);
    or_missing(outcome)
}

/// A search without a match says nothing where data is missing.
pub(crate) fn or_missing(outcome: Outcome) -> Outcome {
    if matches!(outcome, Outcome::Done | Outcome::NothingFound) { Outcome::DataMissing } else { outcome }
}

/// Names of the hosts; none if they cannot be read.
pub(crate) fn host_names(path: &Path) -> HashMap<HostId, String> {
    host_names_of(Reader::open(path).and_then(|reader| reader.hosts()).unwrap_or_default())
}

fn host_names_of(hosts: Vec<HostRecord>) -> HashMap<HostId, String> {
    hosts.into_iter().map(|host| (host.info.host, escape(&host.info.hostname).to_string())).collect()
}

fn hole_lines(damage: &DamageReport, names: &HashMap<HostId, String>) -> Vec<String> {
    let mut lines: Vec<String> =
        damage.holes.iter().take(SHOWN_HOLES).map(|hole| hole_line(hole, names)).collect();
    let more = damage.more + damage.holes.len().saturating_sub(SHOWN_HOLES) as u64;
    if more > 0 {
        lines.push(format!("and {more} more holes"));
    }
    if damage.nameless > 0 {
        lines.push(format!("the names of {} processes or threads cannot be read", damage.nameless));
    }
    if damage.sums > 0 {
        lines.push(format!(
            "run delays, waits or control groups of {} minutes or hours cannot be read",
            damage.sums
        ));
    }
    lines
}

pub(crate) fn hole_line(hole: &Damage, names: &HashMap<HostId, String>) -> String {
    let count = match hole.intervals {
        Some(1) => "1 interval".to_owned(),
        Some(count) => format!("{count} intervals"),
        None => "an unknown number of intervals".to_owned(),
    };
    let host = names.get(&hole.host).cloned().unwrap_or_else(|| hole.host.to_string());
    let (first, last) = (when::show(hole.first_end_wall_ns), when::show(hole.last_end_wall_ns));
    let span =
        if hole.intervals == Some(1) { format!("at {last}") } else { format!("from {first} to {last}") };
    format!("{count} of {host} {span} cannot be read ({})", escape(&hole.detail))
}

#[cfg(test)]
mod tests {
    use cpumon_model::ProcessKey;
    use cpumon_query::ProcessChoice;

    use super::*;

    /// They were in UTC beside tables in local time.
    #[test]
    fn a_wrong_question_is_answered_in_the_time_zone_of_this_machine() {
        let began_ns = Some(1_795_000_000_000_000_000);
        let key = ProcessKey { pid: 7, start_ns: 9 };
        let newest = vec![ProcessChoice { key, began_ns, run_ns: 0, command: String::new() }];
        let error = explained(QueryError::WhichProcess { process: "sh".into(), count: 1, newest });
        let began = format!(
            "(began {}, 0.000 s of CPU). Use one of these keys.",
            when::show(1_795_000_000_000_000_000)
        );
        assert!(error.is::<Usage>() && error.to_string().ends_with(&began), "{error}");
    }

    #[test]
    fn holes_are_named_by_host_and_time_and_bounded() {
        let host = HostId([7; 16]);
        let names: HashMap<_, _> = [(host, "kitchen".to_owned())].into();
        let hole = |intervals| Damage {
            host,
            first_end_wall_ns: 1_795_219_200_000_000_000,
            last_end_wall_ns: 1_795_219_260_000_000_000,
            intervals,
            detail: "a\u{1b}[2J".to_owned(),
        };
        let text = hole_line(&hole(Some(61)), &names);
        assert!(text.starts_with("61 intervals of kitchen from ") && text.ends_with("(a\\x1b[2J)"), "{text}");
        let text = hole_line(&Damage { host: HostId([8; 16]), ..hole(Some(1)) }, &names);
        assert!(text.starts_with("1 interval of 0808") && text.contains(" at "), "{text}");
        assert!(hole_line(&hole(None), &names).starts_with("an unknown number of intervals"));
        let damage = DamageReport { holes: vec![hole(None); 25], more: 7, nameless: 3, sums: 2 };
        let all = hole_lines(&damage, &names);
        assert_eq!((all.len(), all[20].as_str()), (23, "and 12 more holes"));
        assert_eq!(all[21], "the names of 3 processes or threads cannot be read");
        assert!(all[22].ends_with("of 2 minutes or hours cannot be read"), "{all:?}");
    }
}
