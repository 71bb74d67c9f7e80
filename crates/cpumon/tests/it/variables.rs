//! `CPUMON_*` variables: defaults that do not choose what a command does, and that a typed argument overrides.

use std::process::Output;

use crate::support::{cpumon, output, text};
use crate::terminal::Tmux;

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

/// Each option of the view has a variable for the shell's profile. A variable of `top` has no effect on other commands.
#[test]
fn what_top_shows_can_be_kept_in_the_profile() {
    let batch = ["top", "-b", "-n", "1", "-d", "100ms", "--source", "procfs"];
    let rows = |variables: &[(&str, &str)]| {
        let output = with(variables, &batch);
        assert!(output.status.success(), "{variables:?}: {output:?}");
        let shown = text(&output.stdout);
        let rows = shown.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
        rows.map(str::to_owned).collect::<Vec<_>>()
    };
    let first_id = |row: &String| row.split_whitespace().next().unwrap().to_owned();
    let all = rows(&[]);
    for name in ["CPUMON_LIMIT", "CPUMON_TOP_LIMIT"] {
        assert_eq!(rows(&[(name, "3")]).len(), 4, "{name}: the titles and three rows");
    }
    assert_eq!(rows(&[("CPUMON_TOP_LIMIT", "2"), ("CPUMON_LIMIT", "5")]).len(), 3, "its own name wins");
    assert_eq!(first_id(&rows(&[("CPUMON_TOP_SORT", "pid")])[1]), "1");
    assert!(rows(&[("CPUMON_TOP_ACTIVE", "1")]).len() < all.len());
    assert!(rows(&[("CPUMON_TOP_FILTER", "cpumon")]).len() < all.len());
    assert!(rows(&[("CPUMON_TOP_USER", "0")]).len() > 1);
    assert!(rows(&[("CPUMON_TOP_THREADS", "1")])[0].contains("TID"));
    // The variables are for the screen: batch output is unchanged.
    let screen = [("CPUMON_TOP_GROUP_BY", "user"), ("CPUMON_TOP_TREE", "1"), ("CPUMON_TOP_PLOT", "15")];
    // Columns are as wide as their widest cell.
    let titles = |row: &String| row.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(titles(&rows(&screen)[0]), titles(&all[0]));
    let refused = with(&[], &["top", "-b", "--group-by", "user"]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    let others = with(&[("CPUMON_TOP_SORT", "pid"), ("CPUMON_TOP_LIMIT", "x"), STORE], &["report"]);
    assert!(text(&others.stderr).contains(STORE.1), "{others:?}");
    // Nor does a variable choose between store and receiver.
    for command in [&["report"][..], &["gaps"], &["ledger"], &["trace", "list"]] {
        let asked = with(&[("CPUMON_URL", "http://127.0.0.1:1"), STORE], command);
        assert!(text(&asked.stderr).contains(STORE.1), "{asked:?}");
    }
    let of_trace = [("CPUMON_TOP_SORT", "x"), ("CPUMON_TOP_LIMIT", "x"), ("CPUMON_TOP_BY", "x")];
    let of_trace = with(&of_trace, &["trace", "top", "/nowhere/x.trace"]);
    assert!(text(&of_trace.stderr).contains("/nowhere/x.trace"), "{of_trace:?}");
    // A flag that is off contradicts nothing.
    let off = [("CPUMON_TOP_TREE", "0"), ("CPUMON_TOP_GROUP_BY", "user"), ("CPUMON_JSON", "off")];
    let off = with(&off, &["top", "--url", "http://127.0.0.1:9", "--host", "x", "--format", "text"]);
    assert!(!text(&off.stderr).contains("cannot be used with"), "{off:?}");

    let program = env!("CARGO_BIN_EXE_cpumon");
    let set = "env CPUMON_TOP_GROUP_BY=user CPUMON_TOP_PLOT=15 CPUMON_TOP_SOURCE=procfs";
    let Some(tmux) = Tmux::start(&format!("{set} {program} top -d 200ms")) else { return };
    tmux.wait_for("groups and the plot", |screen| screen.contains("by user") && screen.contains("-15 min"));
    let Some(tmux) = Tmux::start(&format!("{set} {program} top -d 200ms --tree --plot off")) else { return };
    let tree = tmux.wait_for("a tree", |screen| screen.contains("├─"));
    assert!(!tree.contains("by user") && !tree.contains("-15 min"), "what was typed wins: {tree}");
}

/// An empty variable was an error of each flag with choices, numbers or times. All flags of both programs.
#[test]
fn an_empty_variable_is_not_set() {
    let batch = ["top", "-b", "-n", "1", "-d", "100ms", "--source", "procfs"];
    let names: Vec<String> = ["top", "report", "serve", "export", "find", "agent"]
        .iter()
        .flat_map(|command| {
            let help = text(&with(&[], &[command, "--help"]).stdout);
            let words = help.split(|c: char| c.is_whitespace() || c == ',' || c == '[').map(str::to_owned);
            words.filter(|word| word.starts_with("--") && word.len() > 3).collect::<Vec<_>>()
        })
        .flat_map(|flag| {
            let name =
                flag.trim_matches('-').split(['=', '.']).next().unwrap().to_uppercase().replace('-', "_");
            [format!("CPUMON_{name}"), format!("CPUMON_TOP_{name}")]
        })
        .collect();
    assert!(names.contains(&"CPUMON_TOP_SORT".to_owned()) && names.len() > 100, "{names:?}");
    let is_key = |name: &str| name == "CPUMON_GROUP_KEY";
    let empty: Vec<(&str, &str)> =
        names.iter().filter(|name| !is_key(name)).map(|name| (&**name, "")).collect();
    let output = with(&empty, &batch);
    assert!(output.status.success(), "{output:?}");
    let fallback = with(&[("CPUMON_TOP_LIMIT", ""), ("CPUMON_LIMIT", "3"), ("CPUMON_TOP_SORT", "")], &batch);
    let rows = text(&fallback.stdout)
        .lines()
        .filter(|line| line.trim_start().starts_with(|c: char| c.is_ascii_digit()))
        .count();
    assert_eq!((fallback.status.success(), rows), (true, 3), "{fallback:?}");
    for args in [
        &["agent", "--to", "127.0.0.1:9", "--count", "1", "--interval", "100ms", "--source", "procfs"][..],
        &["report"],
    ] {
        let output = with(&[&empty[..], &[STORE]].concat(), args);
        let stderr = text(&output.stderr);
        assert!(output.status.code() != Some(2) && !stderr.contains("invalid value"), "{args:?}: {stderr}");
    }
    // The variable of the key is the exception: without it an agent would send its data to everyone.
    assert!(names.iter().any(|name| is_key(name)));
    let plain = with(&[("CPUMON_GROUP_KEY", "")], &["agent", "--to", "127.0.0.1:9", "--count", "1"]);
    assert_eq!(plain.status.code(), Some(2), "{plain:?}");
    assert!(text(&plain.stderr).contains("--group-key"), "{plain:?}");
}
