//! The systemd units: how exposed they are by systemd's own count, and that the receiver reports to its manager.

use std::path::Path;
use std::process::Command;

use crate::service_manager::Manager;
use crate::skip::skip;
use crate::support::{Serve, cpumon, text};

/// The most that a unit may score (`systemd-analyze security`; 10 is worst).
const MOST_EXPOSED: f64 = 2.0;

#[test]
fn each_unit_is_hardened() {
    let dir = tempfile::tempdir().unwrap();
    for unit in ["cpumon.service", "cpumon-agent.service"] {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/systemd").join(unit);
        let installed = dir.path().join(unit);
        let filled = std::fs::read_to_string(source).unwrap().replace("@PREFIX@", "/usr");
        std::fs::write(&installed, &filled).unwrap();
        for line in ["Type=notify", "WatchdogSec=30", "DynamicUser=yes", "NoNewPrivileges=yes"] {
            assert!(filled.lines().any(|has| has == line), "{unit}: {line}");
        }
        let analyze = Command::new("systemd-analyze")
            .args(["security", "--offline=true", "--no-pager"])
            .arg(&installed)
            .output();
        let Ok(analyzed) = analyze else {
            return skip("needs systemd-analyze");
        };
        let messages = text(&analyzed.stdout) + &text(&analyzed.stderr);
        assert!(!messages.contains("gnoring"), "a line that systemd does not know: {messages}");
        let level = messages.rsplit("exposure level for ").next().unwrap();
        let level: f64 =
            level.split_whitespace().nth(1).unwrap().parse().unwrap_or_else(|_| panic!("{messages}"));
        assert!(level <= MOST_EXPOSED, "{unit}: {level}");
    }
}

#[test]
fn a_receiver_reports_to_its_manager_that_it_is_ready_and_alive_and_which_sandbox_it_has() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("notify");
    let manager = Manager::listen(&path);
    let mut command = cpumon();
    command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "150000");
    let serve = Serve::start_with(command, &dir.path().join("store.db"), &["--interval", "200ms"]);
    assert_eq!([(); 3].map(|()| manager.hear()), ["READY=1", "WATCHDOG=1", "WATCHDOG=1"]);
    serve.stop();
    assert_eq!(manager.hear_another_than("WATCHDOG=1"), "STOPPING=1");
}
