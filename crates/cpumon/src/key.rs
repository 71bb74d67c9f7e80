//! `cpumon key`: makes, lists and retires group keys. It works beside a running receiver, which reads its file once a second.

use std::io::Write;

use anyhow::Context;
use cpumon_files::{AuditEvent, AuditLog, this_user};
use cpumon_link::group::{add_key, read_keys, retire_key};

use crate::cli::{KeyAction, KeyArgs};
use crate::exit::Outcome;
use crate::paths::{key_file, state_dir};
use crate::records::Records;

/// `cpumon key`.
pub fn key(args: &KeyArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let dir = state_dir(args.state.as_deref(), args.store.as_deref());
    let path = key_file(args.group_key.as_deref(), &dir);
    let (shown, audit) = (path.display(), AuditLog::in_dir(&dir));
    match &args.action {
        KeyAction::New => {
            let key = add_key(&path)?;
            audit.note(AuditEvent::GroupKeyMade, &this_user(), &key.id().to_string(), "");
            writeln!(
                out,
                "key {} is in {shown}. Copy the file to each device with mode 0600 and start there: cpumon-agent --group-key FILE\n\
                 A receiver with a group key refuses datagrams that are not encrypted, unless it runs with --allow-plain or --allow-v1.",
                key.id()
            )
        }
        KeyAction::List(format) => {
            let mut records = Records::new(&["key", "use"]);
            for (at, key) in read_keys(&path)?.iter().enumerate() {
                let used = if at == 0 { "encrypts and decrypts" } else { "decrypts" };
                records.push([key.id().to_string(), used.to_owned()]);
            }
            return records.write(format.get(), out).map(|()| Outcome::Done);
        }
        KeyAction::Retire { id } => {
            let id = retire_key(&path, id)?;
            audit.note(AuditEvent::GroupKeyRetired, &this_user(), &id.to_string(), "");
            writeln!(out, "key {id} is retired: a running receiver refuses datagrams that are encrypted with it within a second")
        }
    }
    .context("cannot write to standard output")?;
    Ok(Outcome::Done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::FormatArgs;

    #[test]
    fn keys_are_made_listed_and_retired_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let run = |action: KeyAction| {
            let (state, store) = (Some(dir.path().to_owned()), None);
            let mut output = Vec::new();
            let done = key(&KeyArgs { action, group_key: None, state, store }, &mut output);
            done.map(|_| String::from_utf8(output).unwrap()).map_err(|error| error.to_string())
        };
        assert!(run(KeyAction::List(FormatArgs::default())).unwrap_err().contains("cpumon key new"));
        let first = run(KeyAction::New).unwrap();
        assert!(first.contains("group.keys") && first.contains("--group-key"));
        let first = first.split(' ').nth(1).unwrap().to_owned();
        run(KeyAction::New).unwrap();
        let listed = run(KeyAction::List(FormatArgs::default())).unwrap();
        assert_eq!(listed.lines().count(), 3);
        assert!(listed.lines().nth(2).unwrap().starts_with(&first), "{listed}");
        assert!(!listed.contains("cpumon-key1"), "a list shows no secret");
        run(KeyAction::Retire { id: first.clone() }).unwrap();
        assert!(!run(KeyAction::List(FormatArgs::default())).unwrap().contains(&first));
        assert!(run(KeyAction::Retire { id: first }).is_err());
    }
}
