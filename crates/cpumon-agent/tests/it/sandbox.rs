//! The sandbox of a running agent: every thread has a seccomp filter, and measuring and sending go on with every kind of output.
//! Needs root, which starts the agent as a service would.

use std::fs;
use std::process::Command;
use std::time::Instant;

use crate::program::copy_program;
use crate::scene::{PATIENCE, Running, Scene, receive};
use crate::service_manager::Manager;

/// A field of each thread's status.
fn of_threads(agent: &Running, field: &str) -> Vec<(String, String)> {
    let tasks = fs::read_dir(format!("/proc/{}/task", agent.0.id())).unwrap();
    let one = |task: fs::DirEntry| {
        let status = fs::read_to_string(task.path().join("status")).unwrap();
        let value = |key: &str| {
            let found = status.lines().find_map(|line| line.strip_prefix(key));
            found.unwrap_or_default().trim_start_matches(':').trim().to_owned()
        };
        (value("Name"), value(field))
    };
    tasks.map(|task| one(task.unwrap())).collect()
}

#[test]
fn every_thread_has_a_filter_that_permits_what_it_needs() {
    for more in [
        &["--source", "procfs"][..],
        &["--source", "bpf", "--probes", "sched,waits,irq,hist"],
        &["--source", "bpf", "--max-cpu", "50%"],
        &["--source", "procfs", "--record", "log"],
    ] {
        let Some(scene) = Scene::set() else { return };
        let log = scene.path("log");
        let more: Vec<&str> =
            more.iter().map(|word| if *word == "log" { log.to_str().unwrap() } else { word }).collect();
        let agent = scene.start(&[], &more);
        scene.receive(12);
        for (thread, mode) in of_threads(&agent, "Seccomp") {
            assert_eq!(mode, "2", "{more:?} {thread}: seccomp mode");
        }
        let messages = agent.end();
        assert!(messages.contains("sandbox: seccomp ("), "{messages}");
        // On a busy machine it rightly warns of this.
        let is_of_load = |line: &&str| line.contains("to stay within --max-cpu");
        let messages: Vec<&str> = messages.lines().filter(|line| !is_of_load(line)).collect();
        let messages = messages.join("\n");
        for wrong in ["warning", "error", "a pass failed", "Function not implemented", "panicked"] {
            assert!(!messages.contains(wrong), "{more:?}: {messages}");
        }
        assert_eq!(log.exists(), more.contains(&"--record"));
    }
}

#[test]
fn a_quiet_agent_has_the_filter_too() {
    let Some(scene) = Scene::set() else { return };
    let agent = scene.start(&[], &["--source", "procfs", "--quiet"]);
    scene.receive(12);
    for (thread, mode) in of_threads(&agent, "Seccomp") {
        assert_eq!(mode, "2", "{thread}: seccomp mode");
    }
    assert_eq!(agent.end(), "");
}

#[test]
fn programs_that_start_later_keep_their_names() {
    let Some(scene) = Scene::set() else { return };
    // Longer than the 15 bytes of a thread's name, and started after the sandbox: only /proc/PID/exe has the full name.
    let program = scene.path("a-program-with-a-long-name");
    copy_program("/bin/sleep", &program);
    let agent = scene.start(&[], &["--source", "procfs", "--refresh", "1"]);
    scene.receive(3);
    let _sleeper = Running(Command::new(&program).arg("600").spawn().unwrap());
    let (begin, mut bytes, mut is_named) = (Instant::now(), vec![0; 65_536], false);
    while !is_named && begin.elapsed() < PATIENCE {
        let length = receive(&scene.socket, &mut bytes);
        let frame = cpumon_wire::v2::decode(&bytes[..length]).unwrap();
        let infos = frame.processes.iter().filter_map(|row| row.info.as_ref());
        is_named = infos.map(|info| frame.info(info)).any(|info| &*info.name == "a-program-with-a-long-name");
    }
    assert!(is_named, "{}", agent.end());
}

#[test]
fn a_service_manager_receives_ready_alive_and_stopping() {
    let Some(scene) = Scene::set() else { return };
    let path = scene.path("notify");
    let manager = Manager::listen(&path);
    let notify = format!("NOTIFY_SOCKET={}", path.display());
    let agent = scene.start_by(&["env", &notify, "WATCHDOG_USEC=150000"], &["--source", "procfs"]);
    assert_eq!([(); 3].map(|()| manager.hear()), ["READY=1", "WATCHDOG=1", "WATCHDOG=1"]);
    scene.receive(3);
    agent.end();
    assert_eq!(manager.hear_another_than("WATCHDOG=1"), "STOPPING=1");
}
