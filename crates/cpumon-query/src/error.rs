//! Why a question has no answer. Frontends map each variant to an HTTP status or an exit code; the API gives it as JSON too, from which
//! a client reads it back.

use std::borrow::Cow;
use std::error::Error;

use cpumon_model::{HostId, ProcessKey, Utc, escape};
use cpumon_store::StoreError;
use serde::{Deserialize, Serialize};

use crate::time::Available;

/// One of several processes that a question could mean.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessChoice {
    /// Pid and start of the process.
    pub key: ProcessKey,
    /// When it began, ns since the UNIX epoch, if that is known.
    #[serde(with = "cpumon_model::nanos::if_known")]
    pub began_ns: Option<i64>,
    /// Run time in the range, ns.
    pub run_ns: i64,
    /// Begin of its command line; empty where none is stored. Hostile.
    pub command: String,
}

impl ProcessChoice {
    fn text(&self, clock: &dyn Fn(i64) -> String) -> String {
        let began = self.began_ns.map_or_else(String::new, |ns| format!("began {}, ", clock(ns)));
        let command = if self.command.is_empty() { "" } else { ", " };
        let (ProcessKey { pid, start_ns }, run_s) = (self.key, self.run_ns as f64 / 1e9);
        format!("{pid}-{start_ns} ({began}{run_s:.3} s of CPU{command}{})", escape(&self.command))
    }
}

/// Why a query has no answer.
#[derive(Debug, thiserror::Error, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum QueryError {
    /// The store cannot be read, or has no such host.
    #[error(transparent)]
    #[serde(skip)]
    Store(#[from] StoreError),
    /// The receiver that was asked does not answer, or refuses for a reason of its own.
    #[error(transparent)]
    #[serde(skip)]
    Receiver(Box<dyn Error + Send + Sync>),
    /// A part of a range was not read: the thread that read it panicked.
    #[error("a part of the range could not be read")]
    PartUnread,
    /// No host has this name or id.
    #[error("this receiver knows no such host")]
    UnknownHost,
    /// Several hosts share a name.
    #[error("several hosts have this name: {}", list(ids))]
    AmbiguousHost {
        /// Ids of the hosts with this name.
        ids: Vec<HostId>,
    },
    /// The store has no host.
    #[error("the store holds no host")]
    NoHost,
    /// A chart of one host is asked for several.
    #[error("the chart {view} is of one host, and {count} are named")]
    ManyHosts {
        /// Name of the chart.
        view: Cow<'static, str>,
        /// Number of hosts that the query names.
        count: usize,
    },
    /// A chart or a report is of one host and names none, and the store has several.
    #[error("{what} is of one host, and there are several: {}", list(names))]
    WhichHost {
        /// `a chart` or `a report`.
        what: Cow<'static, str>,
        /// Names of some of the hosts.
        names: Vec<String>,
    },
    /// A chart of one process names none, or several.
    #[error("the chart {view} is of one process: name it, its pid, or its key")]
    NotOneProcess {
        /// Name of the chart.
        view: Cow<'static, str>,
    },
    /// No process of this name or pid ran in the range.
    #[error("no process {process} did anything in this range")]
    NoProcess {
        /// The process as the query named it, escaped.
        process: String,
    },
    /// Several processes have this name or pid.
    #[error("{}", which_process(process, *count, newest, &to_the_second))]
    WhichProcess {
        /// The process as the query named it, escaped.
        process: String,
        /// Number of matching processes.
        count: usize,
        /// The matching processes that began last.
        newest: Vec<ProcessChoice>,
    },
    /// A part of a name that several programs have.
    #[error("{}", which_program(text, *count, names))]
    WhichProgram {
        /// The text as the query has it, escaped.
        text: String,
        /// Number of matching programs.
        count: usize,
        /// Some of them by name, escaped.
        names: Vec<String>,
    },
    /// The store never had a process with this key.
    #[error("no such process was ever stored of this host")]
    UnknownProcess,
    /// A chart of tasks names none, or too many.
    #[error("between 1 and {most} processes and threads make a chart of tasks")]
    TaskCount {
        /// Most tasks that a chart can have.
        most: usize,
    },
    /// A range that is empty, reversed or too long.
    #[error("since={since_ns} is not before until={until_ns}, or too long before it")]
    InvalidRange {
        /// Start of the range, ns since the UNIX epoch.
        #[serde(with = "cpumon_model::nanos")]
        since_ns: i64,
        /// End of the range, ns since the UNIX epoch.
        #[serde(with = "cpumon_model::nanos")]
        until_ns: i64,
    },
    /// Threads are asked for over more than a day.
    #[error("threads are read interval by interval here: their ranges are no longer than 24 hours")]
    ThreadRangeTooLong,
    /// The cause is asked for over more than a day.
    #[error("a cause is found in ranges of 24 hours at most: choose the time in which it was slow")]
    WhyRangeTooLong,
    /// Single CPUs are asked for over more than two days.
    #[error("no sums are stored of single CPUs: their ranges are no longer than 48 hours")]
    CpuRangeTooLong,
    /// Intervals are asked for over more than two days.
    #[error("intervals are read of 48 hours at most, else sums")]
    FinestRangeTooLong,
    /// A sum of intervals would take too much memory.
    #[error(
        "the rows of one sum take more than 512 MiB of memory: choose a shorter range, or shorter intervals"
    )]
    SumTooLarge,
    /// Rows of a chart that are no groups of processes.
    #[error("rows of the chart {view} are groups of processes: by {by} it has none")]
    NoGroups {
        /// Name of the chart.
        view: Cow<'static, str>,
        /// `thread` or `host`.
        by: Cow<'static, str>,
    },
    /// The number of rows of a picture is zero, or beyond the limit.
    #[error("rows={rows} is not between 1 and {most}")]
    RowCount {
        /// Requested number of rows.
        rows: usize,
        /// Most rows that a picture can have.
        most: usize,
    },
    /// The offset skips all hosts.
    #[error("offset={offset} leaves none: there are {total} hosts with data in this range")]
    OffsetTooLarge {
        /// Number of hosts to skip.
        offset: usize,
        /// Number of hosts with data in the range.
        total: usize,
    },
    /// Nothing was measured in a range.
    #[error("{}", no_data(*since_ns, *until_ns, *available, &|ns| Utc(ns).to_string()))]
    NoData {
        /// Start of the range, ns since the UNIX epoch.
        #[serde(with = "cpumon_model::nanos")]
        since_ns: i64,
        /// End of the range, ns since the UNIX epoch.
        #[serde(with = "cpumon_model::nanos")]
        until_ns: i64,
        /// Range in which data is stored, if there is any.
        available: Option<Available>,
    },
    /// A search for an empty text.
    #[error("a search needs a name, a user id or a container")]
    EmptySearch,
    /// A text that is not a key.
    #[error("{text:?} is not a {of} key: keys have the form {form}, e.g. 1-52000000")]
    InvalidKey {
        /// The given text.
        text: String,
        /// `process` or `thread`.
        of: Cow<'static, str>,
        /// Form of valid keys, such as `PID-STARTNS`.
        form: Cow<'static, str>,
    },
}

impl QueryError {
    /// Whether another question would be answered: the question is wrong, not the data.
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::ManyHosts { .. }
                | Self::WhichHost { .. }
                | Self::NotOneProcess { .. }
                | Self::WhichProcess { .. }
                | Self::WhichProgram { .. }
                | Self::WhyRangeTooLong
                | Self::TaskCount { .. }
                | Self::InvalidRange { .. }
                | Self::ThreadRangeTooLong
                | Self::CpuRangeTooLong
                | Self::FinestRangeTooLong
                | Self::SumTooLarge
                | Self::NoGroups { .. }
                | Self::RowCount { .. }
                | Self::OffsetTooLarge { .. }
                | Self::EmptySearch
                | Self::InvalidKey { .. }
        )
    }

    /// The same text with moments as `clock` writes them; without it they are in UTC.
    pub fn with_clock(&self, clock: &dyn Fn(i64) -> String) -> String {
        match self {
            Self::WhichProcess { process, count, newest } => which_process(process, *count, newest, clock),
            Self::NoData { since_ns, until_ns, available } => {
                no_data(*since_ns, *until_ns, *available, clock)
            }
            _ => self.to_string(),
        }
    }

    /// What to do about it, as a sentence.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::AmbiguousHost { .. } => Some("Use an id."),
            Self::WhichHost { .. } => Some("Choose one with --host."),
            Self::WhichProcess { .. } => Some("Use one of these keys."),
            Self::WhichProgram { .. } => Some("Use one of these names, or a pid."),
            _ => None,
        }
    }
}

fn which_process(
    process: &str,
    count: usize,
    newest: &[ProcessChoice],
    clock: &dyn Fn(i64) -> String,
) -> String {
    let shown: Vec<String> = newest.iter().map(|one| one.text(clock)).collect();
    let more = if count > newest.len() { "; …" } else { "" };
    format!("{count} processes of this range are {process}, the newest first: {}{more}", shown.join("; "))
}

fn which_program(text: &str, count: usize, names: &[String]) -> String {
    let more = if count > names.len() { ", …" } else { "" };
    format!("{count} programs of this range have {text} in their name: {}{more}", list(names))
}

fn no_data(
    since_ns: i64,
    until_ns: i64,
    available: Option<Available>,
    clock: &dyn Fn(i64) -> String,
) -> String {
    let stored = available.map_or_else(String::new, |Available { first_ns, last_ns }| {
        format!("; available: {} to {}", clock(first_ns), clock(last_ns))
    });
    format!("no data for {} to {}{stored}", clock(since_ns), clock(until_ns))
}

/// A moment in UTC to the second, as commands take it.
pub(crate) fn to_the_second(ns: i64) -> String {
    format!("{:.19}Z", Utc(ns).to_string())
}

fn list<T: ToString>(items: &[T]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_as_the_clock_of_the_frontend_writes_them() {
        let choice = |began_ns, command: &str| ProcessChoice {
            key: ProcessKey { pid: 7, start_ns: 9 },
            began_ns,
            run_ns: 1_500_000_000,
            command: command.into(),
        };
        let newest = vec![choice(Some(3), "sh \u{1b}x"), choice(None, "")];
        let which = QueryError::WhichProcess { process: "sh".into(), count: 3, newest };
        let available = Some(Available { first_ns: 5, last_ns: 6 });
        let no_data = QueryError::NoData { since_ns: 1, until_ns: 2, available };
        let clock = |ns: i64| format!("<{ns}>");
        assert_eq!(
            which.with_clock(&clock),
            "3 processes of this range are sh, the newest first: 7-9 (began <3>, 1.500 s of CPU, sh \\x1bx); 7-9 (1.500 s of CPU); …"
        );
        assert_eq!(no_data.with_clock(&clock), "no data for <1> to <2>; available: <5> to <6>");
        assert_eq!(QueryError::NoHost.with_clock(&clock), QueryError::NoHost.to_string());
        assert!(which.to_string().contains("began 1970-01-01T00:00:00Z, "), "{which}");
    }

    #[test]
    fn a_client_reads_back_why_there_is_no_answer() {
        let available = Some(Available { first_ns: 5, last_ns: 1 << 60 });
        let newest = vec![ProcessChoice {
            key: ProcessKey { pid: 7, start_ns: 9 },
            began_ns: None,
            run_ns: 1,
            command: "a\u{1b}\"b".into(),
        }];
        for error in [
            QueryError::NoHost,
            QueryError::NoData { since_ns: i64::MIN, until_ns: 2, available },
            QueryError::AmbiguousHost { ids: vec![HostId([7; 16])] },
            QueryError::WhichHost { what: "a report".into(), names: vec!["a".into()] },
            QueryError::WhichProcess { process: "sh".into(), count: 3, newest },
            QueryError::NoGroups { view: "who".into(), by: "thread".into() },
            QueryError::WhichProgram {
                text: "sh".into(),
                count: 3,
                names: vec!["bash".into(), "sshd".into()],
            },
            QueryError::WhyRangeTooLong,
        ] {
            let text = serde_json::to_string(&error).unwrap();
            let back: QueryError = serde_json::from_str(&text).unwrap();
            assert_eq!(format!("{back:?}"), format!("{error:?}"), "{text}");
        }
        assert!(serde_json::to_string(&QueryError::Receiver("no".into())).is_err(), "it is not an answer");
    }
}
