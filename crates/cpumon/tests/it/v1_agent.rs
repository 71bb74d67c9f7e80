//! `agent --v1` and a receiver over loopback: processes that do nothing, names that the original cannot take.

use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};

use crate::program::copy_program;
use crate::support::{Serve, eventually, ok, run};

/// A process that sleeps under this name, and ends with the test.
struct Asleep {
    child: Child,
    _dir: tempfile::TempDir,
}

impl Asleep {
    fn named(name: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join(name);
        copy_program("/bin/sleep", &program);
        let child = Command::new(program).arg0("sleep").arg("60").spawn().unwrap();
        Self { child, _dir: dir }
    }
}

impl Drop for Asleep {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_process_that_sleeps_is_idle_in_every_set_of_a_v1_agent() {
    let asleep = Asleep::named("it's.exe");
    let pid = asleep.child.id();
    let serve = Serve::start(&["--no-agent"]);
    let to = serve.udp.to_string();
    let agent =
        run(&["agent", "--v1", "--to", &to, "--interval", "500ms", "--count", "5", "--source", "procfs"]);
    assert!(agent.status.success(), "{agent:?}");
    eventually("its sets", || serve.host("127.0.0.1").filter(|host| host["loss"]["snapshots"] == 4));
    let query = format!(
        "SELECT name, count(*), min(run_ns), sum(thread_rows) FROM process_interval WHERE pid = {pid}"
    );
    eventually("a row in each set", || {
        let answer = ok(&["sql", "--store", serve.store(), "--format", "csv", &query]);
        (answer.lines().nth(1) == Some("\"it’s.exe\",4,0,4")).then_some(())
    });
    let pivot =
        ok(&["export", "pivot", "--store", serve.store(), "--process", &pid.to_string(), "--value", "run"]);
    let last = pivot.lines().last().unwrap();
    assert!(last.ends_with(",0"), "idle is zero, not no data: {pivot}");
    let end = last.split(',').nth(2).unwrap().trim_matches('"');
    let threads = ok(&["top", "-b", "-H", "-p", &pid.to_string(), "--store", serve.store(), "--at", end]);
    assert!(threads.contains("it’s.exe"), "a thread has its process's name: {threads}");
    serve.stop();
}
