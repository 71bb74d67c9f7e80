//! `cpumon key`. In: the group's key file. Out: a file with one key more or less, and what that means. It works beside a running
//! receiver, which looks at its file each second.

use std::io::Write;

use anyhow::Context;
use cpumon_link::group::{add_key, read_keys, retire_key};

use crate::cli::{KeyAction, KeyArgs};
use crate::exit::Outcome;
use crate::paths::{key_file, state_dir};
use crate::table::{Table, terminal_columns};

/// `cpumon key`.
pub fn key(args: &KeyArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let dir = state_dir(args.state.as_deref(), args.store.as_deref());
    let path = key_file(args.group_key.as_deref(), &dir);
    let shown = path.display();
    match &args.action {
        KeyAction::New => {
            let key = add_key(&path)?;
            writeln!(
                out,
                "key {} is in {shown}: copy the file to each device, mode 0600, and start cpumon-agent --group-key FILE there.\n\
                 A receiver with a key refuses what is not sealed, unless it was started with --allow-plain or --allow-v1.",
                key.id()
            )
        }
        KeyAction::List => {
            let mut table = Table::new(&["KEY", "USE"]);
            for (at, key) in read_keys(&path)?.iter().enumerate() {
                let used = if at == 0 { "seals and opens" } else { "opens" };
                table.row([key.id().to_string(), used.to_owned()]);
            }
            table.write_within(terminal_columns(), out)
        }
        KeyAction::Retire { id } => {
            let id = retire_key(&path, id)?;
            writeln!(out, "key {id} is out: a running receiver refuses within a second what is sealed with it")
        }
    }
    .context("cannot write to standard output")?;
    Ok(Outcome::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_made_listed_and_retired_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let run = |action: KeyAction| {
            let (state, store) = (Some(dir.path().to_owned()), None);
            let mut said = Vec::new();
            let done = key(&KeyArgs { action, group_key: None, state, store }, &mut said);
            done.map(|_| String::from_utf8(said).unwrap()).map_err(|error| error.to_string())
        };
        assert!(run(KeyAction::List).unwrap_err().contains("cpumon key new"));
        let first = run(KeyAction::New).unwrap();
        assert!(first.contains("group.keys") && first.contains("--group-key"));
        let first = first.split(' ').nth(1).unwrap().to_owned();
        run(KeyAction::New).unwrap();
        let listed = run(KeyAction::List).unwrap();
        assert_eq!(listed.lines().count(), 3);
        assert!(listed.lines().nth(2).unwrap().starts_with(&first), "{listed}");
        assert!(!listed.contains("cpumon-key1"), "a list shows no secret");
        run(KeyAction::Retire { id: first.clone() }).unwrap();
        assert!(!run(KeyAction::List).unwrap().contains(&first));
        assert!(run(KeyAction::Retire { id: first }).is_err());
    }
}
