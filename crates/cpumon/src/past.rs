//! [`Past`]: the source of answers about the past: the store of `--store`, or the receiver of `--url`.

use std::io::{self, Write};
use std::ops::Deref;
use std::path::PathBuf;

use cpumon_query::history::History;
use cpumon_query::{Answers, QueryError};

use crate::cli::PastArgs;
use crate::client::{Client, ClientError};
use crate::damage;
use crate::exit::{Outcome, Usage};
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
            Self::Store(history, path) => damage::report_of(&history.damage(), path, outcome),
            Self::Receiver(client) => damage::report_of_receiver(client, outcome),
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

/// An invalid question is wrong usage, with a remedy; no data is reported and ends with code 3.
pub(crate) fn answered<T>(result: Result<T, QueryError>) -> anyhow::Result<Option<T>> {
    match result {
        Ok(answer) => Ok(Some(answer)),
        Err(error @ QueryError::NoData { .. }) => {
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
}
