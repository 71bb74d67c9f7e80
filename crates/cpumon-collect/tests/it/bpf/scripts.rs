//! Names of scripts that end before /proc can be read.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use cpumon_collect::SourceOptions;
use cpumon_model::Probes;

use super::support::{exits_of, pass};
use super::{bpf_for, twice};

/// Longer than the 15 bytes of a comm.
const LONG: &str = "report-of-all-nights";

twice! {
    a_short_script_has_its_own_name
    without_script_names_it_has_its_interpreters
}

/// Files that do nothing in any of these languages, in a directory whose name must not show.
fn scripts(dir: &Path) {
    let dir = dir.join("hunter2");
    fs::create_dir(&dir).unwrap();
    for name in ["x.py", "x.sh", "x.pl", "x.js", "plain"] {
        fs::write(dir.join(name), "").unwrap();
    }
    for (name, first_line) in
        [(LONG, "#!/bin/sh\n"), ("by-env", "#!/usr/bin/env sh\n"), ("sum", "#!/usr/bin/awk -f\n")]
    {
        fs::write(dir.join(name), first_line).unwrap();
        fs::set_permissions(dir.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
}

/// Runs it to its end between two passes; its name and its interpreter. `None` if it is not installed.
fn short(dir: &Path, script_names: bool, probes: Probes, words: &[&str]) -> Option<(String, String)> {
    let options = SourceOptions { probes, script_names, ..SourceOptions::default() };
    let (mut source, _turn) = bpf_for(options)?;
    pass(&mut source);
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).current_dir(dir).stdin(Stdio::null()).stdout(Stdio::null());
    let mut child = command.stderr(Stdio::null()).spawn().ok()?;
    child.wait().unwrap();
    let exit = exits_of(&mut source, &[child.id()]).remove(0);
    Some((exit.info.name.to_string(), exit.info.interpreter.to_string()))
}

fn a_short_script_has_its_own_name(probes: Probes) {
    let dir = tempfile::tempdir().unwrap();
    scripts(dir.path());
    let long_option = "x".repeat(300);
    for (words, name) in [
        (&["sh", "hunter2/x.sh", "--password", "hunter2"][..], "x.sh"),
        (&["sh", "-e", "./hunter2/plain"], "plain"),
        (&["python3", "-S", "hunter2/x.py"], "x.py"),
        (&["perl", "-w", "hunter2/x.pl"], "x.pl"),
        (&["node", "--no-warnings", "hunter2/x.js", "hunter2"], "x.js"),
        (&["hunter2/report-of-all-nights", "hunter2"], LONG),
        (&["hunter2/by-env"], "by-env"),
        (&["hunter2/sum"], "sum"),
    ] {
        let Some(found) = short(dir.path(), true, probes, words) else { continue };
        assert_eq!(found.0, name, "{words:?}");
        assert!(!found.1.is_empty() && found.1 != name, "{words:?}: {found:?}");
    }
    for words in [
        &["sh", "-c", ": hunter2"][..],
        &["python3", "-S", "-c", "hunter2 = 1"],
        &["perl", "-e", "1 # hunter2"],
        // The script is behind the bytes that are read.
        &["sh", &format!("./{long_option}/../hunter2/x.sh")],
    ] {
        let Some((name, interpreter)) = short(dir.path(), true, probes, words) else { continue };
        assert!(
            !name.contains("hunter2") && !name.contains("x.sh") && interpreter.is_empty(),
            "{words:?}: {name}"
        );
    }
}

fn without_script_names_it_has_its_interpreters(probes: Probes) {
    let dir = tempfile::tempdir().unwrap();
    scripts(dir.path());
    for words in [&["sh", "hunter2/x.sh"][..], &["hunter2/by-env"], &["python3", "-S", "hunter2/x.py"]] {
        let Some((name, interpreter)) = short(dir.path(), false, probes, words) else { continue };
        assert!(interpreter.is_empty() && !name.starts_with("x.") && name != "by-env", "{words:?}: {name}");
    }
}
