//! [`find`]: which processes a question means. A pid is one process; a name all processes of a program, else of the only program that has
//! it in its name.

use std::collections::BTreeSet;

use cpumon_model::{ProcessInfo, ProcessKey, SourceKind, escape};
use foldhash::{HashSet, HashSetExt};

use super::answer::WhyTarget;
use super::part::{ShortKey, WhyPart};
use super::query::WhySubject;
use super::states::SubjectRows;
use crate::tally::is_in_group;
use crate::{GroupBy, QueryError};

/// Programs that an error names at most.
const MAX_NAMED: usize = 8;

/// What a question is of.
#[derive(Clone, Debug, Default)]
pub(super) struct FoundSubject {
    pub(super) rows: SubjectRows,
    pub(super) target: WhyTarget,
}

/// Finds the subject among the processes of these parts. Errors: no process is meant, or several programs are.
pub(super) fn find(parts: &[WhyPart], host: &str, subject: &WhySubject) -> Result<FoundSubject, QueryError> {
    let text = match subject {
        WhySubject::Machine => {
            let target = WhyTarget { name: host.into(), ..WhyTarget::default() };
            return Ok(FoundSubject { target, ..FoundSubject::default() });
        }
        WhySubject::Named(name) | WhySubject::Group(_, name) => name,
    };
    let found = match subject {
        WhySubject::Group(by, name) => group(parts, *by, name),
        _ => match text.parse::<u32>() {
            Ok(pid) => of_pid(parts, pid),
            Err(_) => named(parts, text)?,
        },
    };
    let is_empty = found.rows.short.is_empty() && found.rows.keys.as_ref().is_none_or(HashSet::is_empty);
    if is_empty {
        let process = match subject {
            WhySubject::Group(by, _) => format!("of {} {}", by.name(), escape(text)),
            _ => escape(text).to_string(),
        };
        return Err(QueryError::NoProcess { process });
    }
    Ok(found)
}

/// The rows whose description is meant.
fn rows_of(parts: &[WhyPart], is_meant: impl Fn(SourceKind, &ProcessInfo) -> bool) -> SubjectRows {
    let mut keys: HashSet<ProcessKey> = HashSet::new();
    let mut short: HashSet<ShortKey> = HashSet::new();
    for part in parts {
        let processes = part.processes.iter().filter(|(_, seen)| is_meant(part.source, &seen.info));
        keys.extend(processes.map(|(key, _)| *key));
        let runs = part.short.iter().filter(|(_, runs)| is_meant(part.source, &runs.info));
        short.extend(runs.map(|(key, _)| key.clone()));
    }
    // What it starts is its work, not itself: it waits for that, and so would count twice.
    let pids: HashSet<u32> = keys.iter().map(|key| key.pid).collect();
    short.retain(|key| !pids.contains(&key.parent_pid));
    SubjectRows { keys: Some(keys), short }
}

fn found(by: &str, name: &str, rows: SubjectRows) -> FoundSubject {
    let keys = rows.keys.as_ref();
    let only = keys.filter(|keys| keys.len() == 1).and_then(|keys| keys.iter().next());
    let target = WhyTarget {
        by: Some(by.to_owned()),
        name: name.into(),
        processes: keys.map_or(0, |keys| keys.len() as u64),
        threads: None,
        pid: only.map(|key| key.pid),
    };
    FoundSubject { rows, target }
}

/// All processes of the group; a unit is found without its `.service` too.
fn group(parts: &[WhyPart], by: GroupBy, name: &str) -> FoundSubject {
    let unit = format!("{name}.service");
    let is_meant = |source: SourceKind, info: &ProcessInfo| {
        is_in_group(by, name, source, info) || by == GroupBy::Service && is_in_group(by, &unit, source, info)
    };
    found(by.name(), name, rows_of(parts, is_meant))
}

/// The process that had this pid last. Starts are since boot, so only those of one part are compared.
fn of_pid(parts: &[WhyPart], pid: u32) -> FoundSubject {
    let last = parts.iter().rev().find_map(|part| {
        part.processes.iter().filter(|(key, _)| key.pid == pid).max_by_key(|(key, _)| key.start_ns)
    });
    let name = last.map(|(_, seen)| seen.info.program()).unwrap_or_default();
    let keys = last.map(|(key, _)| *key).into_iter().collect();
    found(GroupBy::Process.name(), name, SubjectRows { keys: Some(keys), ..SubjectRows::default() })
}

/// The processes of the program of this name, else those that call themselves so, else those of the only program that has it in a name.
fn named(parts: &[WhyPart], text: &str) -> Result<FoundSubject, QueryError> {
    let of_name = |name: &str| rows_of(parts, |_, info| info.program() == name || *info.name == *name);
    let lower = text.to_lowercase();
    let infos = parts.iter().flat_map(|part| {
        let of_processes = part.processes.values().map(|seen| &seen.info);
        of_processes.chain(part.short.values().map(|runs| &runs.info))
    });
    let mut names = BTreeSet::new();
    for info in infos {
        if *info.name == *text || info.program() == text {
            return Ok(found(GroupBy::Name.name(), text, of_name(text)));
        }
        let is_alike = [&info.name, &info.interpreter, &info.comm]
            .iter()
            .any(|name| name.to_lowercase().contains(&lower));
        if is_alike {
            names.insert(info.program());
        }
    }
    // As `ps` shows it: what it calls itself.
    let by_comm = rows_of(parts, |_, info| *info.comm == *text);
    if by_comm.keys.as_ref().is_some_and(|keys| !keys.is_empty()) {
        return Ok(found(GroupBy::Name.name(), text, by_comm));
    }
    match names.into_iter().collect::<Vec<_>>().as_slice() {
        [] => Err(QueryError::NoProcess { process: escape(text).to_string() }),
        [one] => Ok(found(GroupBy::Name.name(), one, of_name(one))),
        several => Err(QueryError::WhichProgram {
            text: escape(text).to_string(),
            count: several.len(),
            names: several.iter().take(MAX_NAMED).map(|name| escape(name).to_string()).collect(),
        }),
    }
}
