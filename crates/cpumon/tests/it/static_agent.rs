//! An agent that is one static file, of this machine or of another kind, which an emulator runs: measuring, sending and queueing, by
//! the real receiver. `scripts/test-agents.sh` builds it and runs these tests; `STATIC_AGENT` is its command line, in words apart by
//! spaces. An emulated agent reads the /proc of this machine, so the load is a program of this machine in each case.

use std::process::Command;
use std::time::Duration;

use crate::device_agent::{Device, Load, assert_that_queued_data_survives_a_kill};
use crate::support::{Serve, eventually, is_root, ok};

const DEVICE: Device = Device {
    variable: "STATIC_AGENT",
    source: "procfs",
    load,
    // Run time of a load between the call that reads its time and its wait, and the age that `sum_exec_runtime` of a
    // thread that just ran can have.
    tolerance_ns: 8_000_000,
    // An emulated agent that was built without optimization takes 90 ms of CPU time for a snapshot.
    patience: Duration::from_mins(3),
};

const LOAD: &str = "
import resource, sys, time
for line in sys.stdin:
    until = time.process_time() + int(line) / 1000
    while time.process_time() < until: pass
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(int((used.ru_utime + used.ru_stime) * 1e9), flush=True)
";

fn load() -> Load {
    let mut command = Command::new("python3");
    command.args(["-S", "-c", LOAD]);
    Load::start(command)
}

#[test]
#[ignore = "scripts/test-agents.sh runs it"]
fn run_time_that_came_in_datagrams_is_what_getrusage_says() {
    let serve = Serve::start(&["--no-agent"]);
    let _agent = DEVICE.start(&["--to", &serve.udp.to_string()]);
    DEVICE.wait_for_snapshots(&serve);
    let mut load = load();
    load.work(150);
    let truth_ns = load.work(350);
    DEVICE.assert_stored(serve.store(), &load, truth_ns);
}

#[test]
#[ignore = "scripts/test-agents.sh runs it"]
fn what_an_enrolled_agent_queued_survives_its_kill() {
    assert_that_queued_data_survives_a_kill(&DEVICE);
}

#[test]
#[ignore = "scripts/test-agents.sh runs it"]
fn bpf_is_in_the_static_agent() {
    if !is_root() {
        return;
    }
    let serve = Serve::start(&["--no-agent"]);
    let probes = ["--source", "bpf", "--probes", "sched,waits,irq"];
    let _agent = DEVICE.start_with(&probes, &["--to", &serve.udp.to_string()]);
    DEVICE.wait_for_snapshots(&serve);
    let query = "SELECT DISTINCT source FROM host_interval";
    let stored = || ok(&["sql", "--store", serve.store(), "--format", "csv", query]);
    eventually("intervals of BPF", || stored().contains("bpf").then_some(()));
}
