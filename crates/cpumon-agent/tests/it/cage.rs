//! The cage of a running agent: every thread is held, measuring and sending go on in each way there is, and it says how it is held.
//! Needs root, which starts the agent as a service would.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use crate::scene::{Running, Scene};

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
fn every_thread_is_held_and_nothing_that_is_needed_is_missing() {
    for more in [
        &["--source", "procfs"][..],
        &["--source", "bpf", "--probes", "sched,waits,irq,hist"],
        &["--source", "bpf", "--max-cpu", "50%"],
        &["--source", "procfs", "--log", "log"],
    ] {
        let Some(scene) = Scene::set() else { return };
        let log = scene.path("log");
        let more: Vec<&str> =
            more.iter().map(|word| if *word == "log" { log.to_str().unwrap() } else { word }).collect();
        let agent = scene.start(&[], &more);
        scene.hear(12);
        for (thread, mode) in of_threads(&agent, "Seccomp") {
            assert_eq!(mode, "2", "{more:?} {thread}: a filter");
        }
        let said = agent.end();
        assert!(said.contains("held to seccomp ("), "{said}");
        for wrong in ["warning", "error", "a pass failed", "Function not implemented", "panicked"] {
            assert!(!said.contains(wrong), "{more:?}: {said}");
        }
        assert_eq!(log.exists(), more.contains(&"--log"));
    }
}

#[test]
fn programs_keep_their_names_in_the_cage() {
    let Some(scene) = Scene::set() else { return };
    // Longer than the 15 bytes of a thread's name, and begun when the agent is caged: only /proc/PID/exe tells.
    let program = scene.path("a-program-with-a-long-name");
    fs::copy("/bin/sleep", &program).unwrap();
    let agent = scene.start(&[], &["--source", "procfs", "--refresh", "1"]);
    scene.hear(3);
    let mut sleeper = std::process::Command::new(&program).arg("30").spawn().unwrap();
    let mut bytes = vec![0; 65_536];
    let mut is_named = false;
    for _ in 0..400 {
        let length = scene.socket.recv(&mut bytes).unwrap();
        let frame = cpumon_wire::v2::decode(&bytes[..length]).unwrap();
        let infos = frame.processes.iter().filter_map(|row| row.info.as_ref());
        is_named = infos.map(|info| frame.info(info)).any(|info| &*info.name == "a-program-with-a-long-name");
        if is_named {
            break;
        }
    }
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    agent.end();
    assert!(is_named);
}

#[test]
fn a_service_manager_hears_that_it_is_ready_and_alive() {
    let Some(scene) = Scene::set() else { return };
    let path = scene.path("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let notify = format!("NOTIFY_SOCKET={}", path.display());
    let agent = scene.start_by(&["env", &notify, "WATCHDOG_USEC=150000"], &["--source", "procfs"]);
    let hear = || {
        let mut bytes = [0; 64];
        let length = manager.recv(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    };
    assert_eq!([hear(), hear(), hear()], ["READY=1", "WATCHDOG=1", "WATCHDOG=1"]);
    scene.hear(3);
    agent.end();
    let mut last = hear();
    while last == "WATCHDOG=1" {
        last = hear();
    }
    assert_eq!(last, "STOPPING=1");
}
