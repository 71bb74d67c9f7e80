//! `CPUMON_*` variables: defaults that do not choose what a command does, and that a typed argument overrides.

use std::process::Output;

use crate::support::{cpumon, output, text};

fn with(variables: &[(&str, &str)], args: &[&str]) -> Output {
    let mut command = cpumon();
    command.args(args).envs(variables.iter().copied());
    output(command)
}

const STORE: (&str, &str) = ("CPUMON_STORE", "/nowhere/from-env.db");

#[test]
fn a_variable_is_the_default_of_its_flag() {
    for args in [&["export", "ledger"][..], &["sql", "SELECT 1"], &["ledger"], &["top", "-b", "--at", "1h"]] {
        let output = with(&[STORE], args);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {output:?}");
        assert!(text(&output.stderr).contains(STORE.1), "{args:?}: {output:?}");
    }
}

#[test]
fn a_variable_does_not_choose_what_a_command_does() {
    let local = with(&[STORE], &["top", "-b", "-n", "1", "-d", "100ms", "--source", "procfs"]);
    assert!(local.status.success(), "{local:?}");
    let hosts = with(&[STORE], &["hosts", "--url", "http://127.0.0.1:9"]);
    assert!(text(&hosts.stderr).contains("no receiver answers"), "{hosts:?}");
    let remote = with(&[STORE], &["top", "-b", "--host", "x", "--url", "http://127.0.0.1:9"]);
    assert!(text(&remote.stderr).contains("no receiver answers"), "{remote:?}");
}

#[test]
fn what_was_typed_overrides_a_variable_that_contradicts_it() {
    let replay = with(&[STORE, ("CPUMON_HOST", "x")], &["top", "-b", "--replay", "/nowhere/log"]);
    assert!(text(&replay.stderr).contains("cpumon-agent --record DIR"), "{replay:?}");
    let live = ["ledger", "--live", "200ms", "--interval", "100ms", "--source", "procfs"];
    let live = with(&[STORE, ("CPUMON_SINCE", "1h")], &live);
    assert!(live.status.success(), "{live:?}");
    let json = with(&[("CPUMON_FORMAT", "csv")], &["doctor", "--no-load", "--json"]);
    assert!(text(&json.stdout).starts_with('{'), "{json:?}");
    let unused = [("CPUMON_BY", "user"), ("CPUMON_VALUE", "run"), ("CPUMON_STORE", "/nowhere/x.db")];
    for kind in ["processes", "ledger"] {
        let output = with(&unused, &["export", kind]);
        assert!(text(&output.stderr).contains("/nowhere/x.db"), "{output:?}");
    }
}

#[test]
fn two_typed_arguments_still_contradict_each_other() {
    let output = with(&[], &["ledger", "--live", "1s", "--store", "x.db"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}
