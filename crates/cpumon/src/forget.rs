//! `cpumon hosts forget`: removes a host from a store, also while a receiver writes it.

use std::io::{BufRead, IsTerminal, Write};
use std::time::Duration;

use anyhow::{Context, bail};
use cpumon_files::{AuditEvent, AuditLog, this_user};
use cpumon_model::escape;
use cpumon_store::{HostRecord, Reader, forget_host};

use crate::cli::ForgetArgs;
use crate::exit::{Outcome, Usage};
use crate::paths::{explain, state_dir, store_for_reading};
use crate::when;

/// A receiver removes most hosts at once; one with months of data takes it longer, beside storing.
const TIMEOUT: Duration = Duration::from_secs(30);

/// `cpumon hosts forget`.
pub fn forget(args: &ForgetArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let path = store_for_reading(args.place.store.as_deref());
    let reader = Reader::open(&path).map_err(explain)?;
    let host = reader.find_only_host(&args.host)?;
    drop(reader);
    let named = format!("{} ({})", escape(&host.info.hostname), host.info.host);
    if !args.yes {
        confirm(&format!("Remove {named} and {} from {}?", data_of(&host), path.display()))?;
    }
    let is_done = forget_host(&path, host.info.host, TIMEOUT).map_err(explain)?;
    let audit = AuditLog::in_dir(&state_dir(args.place.state.as_deref(), Some(&path)));
    audit.note(AuditEvent::HostForgotten, &this_user(), &named, &path.display().to_string());
    let result = if is_done {
        format!("removed {named}; if it still sends, it is recorded as a new host")
    } else {
        format!("the receiver is removing {named}; this takes a while because it has much data")
    };
    writeln!(out, "{result}").context("cannot write to standard output")?;
    Ok(Outcome::Done)
}

/// What is there of a host, for the question.
fn data_of(host: &HostRecord) -> String {
    match (host.first_wall_ns, host.last_wall_ns) {
        (Some(first), Some(last)) => {
            format!("all of its data from {} to {}", when::show(first), when::show(last))
        }
        _ => "what is left of its data".to_owned(),
    }
}

/// Asks the user at the terminal.
fn confirm(question: &str) -> anyhow::Result<()> {
    let input = std::io::stdin();
    if !input.is_terminal() {
        return Err(Usage(
            "hosts forget without a terminal needs --yes: removed data cannot be restored".to_owned(),
        )
        .into());
    }
    eprint!("{question} This cannot be undone. [y/N] ");
    let mut answer = String::new();
    input.lock().read_line(&mut answer).context("cannot read the answer")?;
    if !matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes") {
        bail!("nothing was removed");
    }
    Ok(())
}
