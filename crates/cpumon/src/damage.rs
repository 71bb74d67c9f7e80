//! Unreadable parts of a store, as lines on standard error. The rest was written, so the command did not fail.

use std::collections::HashMap;
use std::path::Path;

use cpumon_model::{HostId, escape};
use cpumon_query::Answers;
use cpumon_store::{Damage, DamageReport, HostRecord, Reader};

use crate::client::Client;
use crate::exit::{Outcome, say};
use crate::when;

/// Most holes that are shown one by one.
const SHOWN: usize = 20;

/// Reports the parts that a reader left out; returns the outcome of a command that was done otherwise.
pub(crate) fn report(reader: &Reader, outcome: Outcome) -> Outcome {
    report_of(&reader.damage(), reader.path(), outcome)
}

/// [`report`] of several readers of the store at `path`.
pub(crate) fn report_of(damage: &DamageReport, path: &Path, outcome: Outcome) -> Outcome {
    let shown = path.display();
    let how = format!("the store is damaged: cpumon store check {shown} --salvage NEW.db");
    write(damage, || names(path), &how, outcome)
}

/// [`report`] for a receiver's store: the parts that its answers lacked since it started.
pub(crate) fn report_of_receiver(client: &Client, outcome: Outcome) -> Outcome {
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
    write(&store.damage, || names_of(client.hosts().unwrap_or_default()), &how, outcome)
}

fn write(
    damage: &DamageReport,
    names: impl FnOnce() -> HashMap<HostId, String>,
    how: &str,
    outcome: Outcome,
) -> Outcome {
    if damage.is_empty() {
        return outcome;
    }
    for line in lines(damage, &names()) {
        say(&line);
    }
    say(how);
    or_missing(outcome)
}

/// A search without a match says nothing where data is missing.
fn or_missing(outcome: Outcome) -> Outcome {
    if matches!(outcome, Outcome::Done | Outcome::NothingFound) { Outcome::DataMissing } else { outcome }
}

/// Names of the hosts; none if they cannot be read.
pub(crate) fn names(path: &Path) -> HashMap<HostId, String> {
    names_of(Reader::open(path).and_then(|reader| reader.hosts()).unwrap_or_default())
}

fn names_of(hosts: Vec<HostRecord>) -> HashMap<HostId, String> {
    hosts.into_iter().map(|host| (host.info.host, escape(&host.info.hostname).to_string())).collect()
}

fn lines(damage: &DamageReport, names: &HashMap<HostId, String>) -> Vec<String> {
    let mut lines: Vec<String> = damage.holes.iter().take(SHOWN).map(|hole| line(hole, names)).collect();
    let more = damage.more + damage.holes.len().saturating_sub(SHOWN) as u64;
    if more > 0 {
        lines.push(format!("and {more} more holes"));
    }
    if damage.nameless > 0 {
        lines.push(format!("the names of {} processes or threads cannot be read", damage.nameless));
    }
    lines
}

pub(crate) fn line(hole: &Damage, names: &HashMap<HostId, String>) -> String {
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
    use super::*;

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
        let text = line(&hole(Some(61)), &names);
        assert!(text.starts_with("61 intervals of kitchen from ") && text.ends_with("(a\\x1b[2J)"), "{text}");
        let text = line(&Damage { host: HostId([8; 16]), ..hole(Some(1)) }, &names);
        assert!(text.starts_with("1 interval of 0808") && text.contains(" at "), "{text}");
        assert!(line(&hole(None), &names).starts_with("an unknown number of intervals"));
        let damage = DamageReport { holes: vec![hole(None); 25], more: 7, nameless: 3 };
        let all = lines(&damage, &names);
        assert_eq!((all.len(), all[20].as_str()), (22, "and 12 more holes"));
    }
}
