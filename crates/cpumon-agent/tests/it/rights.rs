//! Least privilege: the privileges that the agent needs to start, those it has afterwards, its messages without. Needs root,
//! which starts it with fewer rights (setpriv).

use std::fs;

use crate::scene::{Running, Scene};

const CAP_SYS_PTRACE: u64 = 1 << 19;
const UNPRIVILEGED_UID: &str = "65534";

/// Capabilities of every thread of the agent: effective, permitted, ambient, inheritable; and whether it could get more.
fn rights(agent: &Running) -> Vec<(String, [u64; 4], bool)> {
    let tasks = fs::read_dir(format!("/proc/{}/task", agent.0.id())).unwrap();
    tasks
        .map(|task| {
            let status = fs::read_to_string(task.unwrap().path().join("status")).unwrap();
            let value = |key: &str| {
                let found = status.lines().find_map(|line| line.strip_prefix(key));
                found.unwrap_or_else(|| panic!("no {key}: {status}")).trim().to_owned()
            };
            let set = |key| u64::from_str_radix(&value(key), 16).unwrap();
            let sets = [set("CapEff:"), set("CapPrm:"), set("CapAmb:"), set("CapInh:")];
            (value("Name:"), sets, value("NoNewPrivs:") == "1")
        })
        .collect()
}

fn unprivileged<'a>(inherited: &'a str, ambient: &'a str) -> [&'a str; 7] {
    ["--reuid", UNPRIVILEGED_UID, "--regid", UNPRIVILEGED_UID, "--clear-groups", inherited, ambient]
}

#[test]
fn two_capabilities_suffice_and_none_is_left_after_loading() {
    let Some(scene) = Scene::set() else { return };
    let only = unprivileged("--inh-caps=-all,+bpf,+perfmon", "--ambient-caps=-all,+bpf,+perfmon");
    let agent = scene.start(&only, &["--source", "bpf"]);
    // Each snapshot is a datagram at least: measuring continues after the privileges are dropped.
    scene.receive(5);
    let rights = rights(&agent);
    assert!(rights.len() >= 2, "a thread waits for signals, another for the ring buffer: {rights:?}");
    for (thread, sets, is_final) in &rights {
        assert_eq!((sets, is_final), (&[0; 4], &true), "{thread} of {rights:?}");
    }
    scene.receive(5);
    let messages = agent.end();
    assert!(messages.contains("with bpf") && !messages.contains("a pass failed"), "{messages}");
}

#[test]
fn root_gives_up_all_but_seeing_names() {
    for source in ["bpf", "procfs"] {
        let Some(scene) = Scene::set() else { return };
        let agent = scene.start(&[], &["--source", source]);
        scene.receive(5);
        for (thread, [effective, permitted, ambient, inheritable], is_final) in rights(&agent) {
            assert_eq!(effective & !CAP_SYS_PTRACE, 0, "{source} {thread}");
            assert_eq!((effective, ambient, inheritable), (permitted, 0, 0), "{source} {thread}");
            assert!(is_final, "{source} {thread}");
        }
        let messages = agent.end();
        assert!(!messages.contains("warning"), "{messages}");
    }
}

#[test]
fn without_rights_one_line_says_what_is_lost_and_how_to_grant_it() {
    let Some(scene) = Scene::set() else { return };
    let none = unprivileged("--inh-caps=-all", "--ambient-caps=-all");
    let agent = scene.start(&none, &[]);
    scene.receive(3);
    let messages = agent.end();
    assert!(!messages.contains("too long for a datagram"), "{messages}");
    let lines: Vec<&str> =
        messages.lines().filter(|line| line.contains("not measured: short-lived processes")).collect();
    assert_eq!(lines.len(), 1, "{messages}");
    assert_eq!(lines[0].matches("BPF").count(), 2, "what is missing, and a capability: {messages}");
    assert_eq!(lines[0].matches("root").count(), 2, "{messages}");
    for part in ["with procfs", "setcap cap_bpf,cap_perfmon+ep", "AmbientCapabilities=CAP_BPF CAP_PERFMON"] {
        assert!(lines[0].contains(part), "{part}: {messages}");
    }

    let mut refused = scene.start(&none, &["--source", "bpf"]);
    assert_eq!(refused.0.wait().unwrap().code(), Some(1));
    assert!(refused.end().contains("setcap"), "asked for outright, it is an error");
}
