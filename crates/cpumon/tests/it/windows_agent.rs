//! The agent for Windows, run by Wine, and the real receiver: measuring, sending and queueing. `scripts/test-windows.sh` builds it and
//! runs these tests, with its Wine prefix in the environment; `WINDOWS_AGENT` is the agent's command line, `WINDOWS_LOAD` that of
//! `testing/wine/load.c`, in words apart by spaces. The programs run in the same prefix, so the agent measures the load.

use std::process::Command;
use std::time::Duration;

use crate::device_agent::{Device, Load, assert_that_queued_data_survives_a_kill};
use crate::support::{Serve, cpumon, eventually_within, ok, output_within, text};

/// Two ticks of Wine's counters, in which user and system time are cut to whole ticks.
const TOLERANCE_NS: u64 = 20_000_000;
/// Wine starts the services of Windows first, where no other program runs.
const PATIENCE: Duration = Duration::from_mins(2);

const NT: Device =
    Device { variable: "WINDOWS_AGENT", source: "nt", load, tolerance_ns: TOLERANCE_NS, patience: PATIENCE };

const TOOLHELP: Device = Device { source: "toolhelp", ..NT };

fn load() -> Load {
    load_of(&load_words())
}

fn load_words() -> Vec<String> {
    let line = std::env::var("WINDOWS_LOAD").expect("WINDOWS_LOAD: the load's command line");
    line.split(' ').map(str::to_owned).collect()
}

fn load_of(words: &[String]) -> Load {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    let mut load = Load::start(command);
    load.pid = load.ask("pid").parse().unwrap();
    load
}

/// Report of a load: times of the process and of its threads by their ids, ns.
struct Report {
    process_ns: u64,
    threads: Vec<(u32, u64)>,
}

impl Report {
    fn of(answer: &str) -> Self {
        let mut words = answer.split(' ');
        let process_ns = words.next().unwrap().parse().unwrap();
        let thread = |word: &str| {
            let (tid, ns) = word.split_once(':').unwrap();
            (tid.parse().unwrap(), ns.parse().unwrap())
        };
        Self { process_ns, threads: words.map(thread).collect() }
    }

    fn assert_sums_of_linux(&self, load: &Load) {
        let mut reported: Vec<_> = self.threads.iter().map(|(_, ns)| *ns).collect();
        reported.sort_unstable_by(|a, b| b.cmp(a));
        let measured = load.thread_run_times_of_linux();
        for (reported, measured) in reported.iter().zip(&measured) {
            assert!(reported.abs_diff(*measured) <= TOLERANCE_NS, "{reported:?} and {measured:?}");
        }
    }
}

/// Rows of a query.
fn rows(serve: &Serve, query: &str) -> Vec<String> {
    let answer = ok(&["sql", "--store", serve.store(), "--format", "csv", query]);
    answer.lines().skip(1).map(str::to_owned).collect()
}

/// Waits until the store has each thread's time, and no more, under its name.
fn assert_threads_stored(device: &Device, serve: &Serve, load: &Load, report: &Report) {
    for (number, (tid, truth_ns)) in report.threads.iter().enumerate() {
        let condition = format!("FROM thread_interval WHERE pid = {} AND tid = {tid}", load.pid);
        let sums =
            format!("SELECT coalesce(sum(run_ns), 0), coalesce(sum(user_ns + system_ns), 0) {condition}");
        let what = format!("{truth_ns} ns of thread {number}");
        let (run_ns, modes_ns) = eventually_within(device.patience, &what, || {
            let row = rows(serve, &sums).pop()?;
            let (run, modes) = row.split_once(',').unwrap();
            let (run, modes): (u64, u64) = (run.parse().unwrap(), modes.parse().unwrap());
            (run + device.tolerance_ns >= *truth_ns).then_some((run, modes))
        });
        println!("thread {number}: {run_ns} ns stored, {truth_ns} ns by GetThreadTimes");
        assert!(run_ns <= truth_ns + device.tolerance_ns, "{run_ns} ns stored, {truth_ns} ns used");
        assert_eq!(run_ns, modes_ns);
        let name =
            if number % 2 == 0 { format!("\"größe-{number}\"") } else { format!("\"漢字-{number}\"") };
        let last = format!("SELECT name {condition} ORDER BY end_ns DESC LIMIT 1");
        assert_eq!(rows(serve, &last), [name]);
    }
}

/// Wine cuts user and system time of each thread to whole ticks; the rest counts as that of ended threads.
fn assert_process_stored(device: &Device, serve: &Serve, load: &Load, report: &Report) {
    let cut_ns = u64::try_from(report.threads.len()).unwrap() * TOLERANCE_NS;
    let range = report.process_ns - TOLERANCE_NS..=report.process_ns + TOLERANCE_NS + cut_ns;
    device.assert_stored_within(serve.store(), load, range);
}

/// Which session it is, Wine decides.
fn assert_session_stored(serve: &Serve, load: &Load) {
    let query = format!("SELECT DISTINCT session IS NULL FROM process_interval WHERE pid = {}", load.pid);
    assert_eq!(rows(serve, &query), ["0"]);
}

/// The product name in the resource of the load (`testing/wine/load.rc`): in the store, in the API's page of the process, and found.
fn assert_product_stored(serve: &Serve, load: &Load) {
    let query = format!("SELECT product, start_ns FROM processes WHERE pid = {} AND product != ''", load.pid);
    let stored = eventually_within(PATIENCE, "the product of the load", || rows(serve, &query).pop());
    let (product, start_ns) = stored.rsplit_once(',').unwrap();
    assert_eq!(product, "\"Prüflast® 3\"");
    let host = serve.host("device").unwrap()["id"].as_str().unwrap().to_owned();
    let url = format!("{}/api/v1/hosts/{host}/processes/{}-{start_ns}", serve.url, load.pid);
    let mut answer = ureq::get(url).call().unwrap();
    let page: serde_json::Value = serde_json::from_str(&answer.body_mut().read_to_string().unwrap()).unwrap();
    assert_eq!(page["process"]["product"], "Prüflast® 3", "{page}");
    let found = ok(&["find", "prüflast", "--store", serve.store(), "--json"]);
    assert!(found.contains("\"load.exe\""), "{found}");
}

#[test]
#[ignore = "scripts/test-windows.sh runs it"]
fn threads_have_the_time_that_they_used_and_ended_ones_are_charged_to_their_process() {
    let serve = Serve::start(&["--no-agent"]);
    let _agent = NT.start(&["--to", &serve.udp.to_string()]);
    NT.wait_for_snapshots(&serve);
    let mut load = load();
    let report = Report::of(&load.ask("spread 10 10 40 90 160 250"));
    assert_eq!(report.threads.len(), 5);
    for ((_, ns), ms) in report.threads.iter().zip([10, 40, 90, 160, 250]) {
        assert!(ns.abs_diff(ms * 10 * 1_000_000) <= TOLERANCE_NS, "{ns} of {ms} ms a second for 10 s");
    }
    report.assert_sums_of_linux(&load);
    assert_threads_stored(&NT, &serve, &load, &report);
    let with_ended = Report::of(&load.ask("births 12 30"));
    assert!(with_ended.process_ns >= report.process_ns + 12 * 30_000_000);
    assert_process_stored(&NT, &serve, &load, &with_ended);
    assert_session_stored(&serve, &load);
    assert_product_stored(&serve, &load);
}

#[test]
#[ignore = "scripts/test-windows.sh runs it"]
fn products_are_not_read_if_they_are_not_to_be() {
    let serve = Serve::start(&["--no-agent"]);
    let mut load = load();
    let _agent = NT.start(&["--to", &serve.udp.to_string(), "--no-product-names"]);
    NT.wait_for_snapshots(&serve);
    let truth_ns = load.work(100);
    NT.assert_stored_within(serve.store(), &load, 100_000_000 - TOLERANCE_NS..=truth_ns + TOLERANCE_NS);
    assert_eq!(rows(&serve, "SELECT count(*) > 3, count(product) FROM processes"), ["1,0"]);
}

/// Wine reads a program whose sections do not begin on pages of the file into private memory as a whole.
#[test]
#[ignore = "scripts/test-windows.sh runs it"]
fn the_program_is_mapped_and_not_copied() {
    const MOST_BYTES: u64 = 15_000_000;
    let serve = Serve::start(&["--no-agent"]);
    let agent = NT.start(&["--to", &serve.udp.to_string()]);
    NT.wait_for_snapshots(&serve);
    let private_bytes = agent.private_bytes();
    println!("{private_bytes} bytes of private memory");
    assert!(private_bytes < MOST_BYTES, "{private_bytes}");
}

#[test]
#[ignore = "scripts/test-windows.sh runs it"]
fn toolhelp_gives_threads_the_time_that_they_used() {
    let serve = Serve::start(&["--no-agent"]);
    // First: of a process that is just beginning, Wine reports the caller's times as its own.
    let mut load = load();
    let before_ns = load.work(0);
    let _agent = TOOLHELP.start(&["--to", &serve.udp.to_string()]);
    TOOLHELP.wait_for_snapshots(&serve);
    let report = Report::of(&load.ask("spread 3 20 80 200"));
    assert_threads_stored(&TOOLHELP, &serve, &load, &report);
    let mut with_ended = Report::of(&load.ask("births 4 30"));
    with_ended.process_ns -= before_ns;
    assert_process_stored(&TOOLHELP, &serve, &load, &with_ended);
    assert_eq!(rows(&serve, "SELECT DISTINCT source FROM host_interval"), ["\"toolhelp\""]);
    assert_session_stored(&serve, &load);
    assert_product_stored(&serve, &load);
}

#[test]
#[ignore = "scripts/test-windows.sh runs it"]
fn what_an_enrolled_agent_queued_survives_its_kill() {
    assert_that_queued_data_survives_a_kill(&NT);
}

/// The service of the tests' Wine; removed when dropped.
struct Service;

impl Service {
    fn install(flags: &[&str]) -> Self {
        let service = Self;
        NT.run(&[&["service", "install", "--host-name", "device", "--interval", "100ms"], flags].concat());
        service
    }

    /// State by the service manager's own command.
    fn state() -> String {
        let mut command = Command::new("wine");
        command.args(["sc", "query", "cpumon-agent"]);
        let output = text(&output_within(PATIENCE, command).stdout);
        let line = output.lines().find(|line| line.contains("STATE")).unwrap_or_default();
        line.split_whitespace().last().unwrap_or_default().to_owned()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let mut command = NT.command();
        command.args(["service", "uninstall"]);
        output_within(PATIENCE, command);
    }
}

#[test]
#[ignore = "scripts/test-windows.sh runs it"]
fn a_service_is_installed_started_stopped_and_removed() {
    let serve = Serve::start(&["--no-agent"]);
    let to = serve.udp.to_string();
    let refused = NT.refused(&["service", "install", "--to", &to, "--record", "records"]);
    assert!(
        refused.contains("cannot install service cpumon-agent: --record records: give an absolute path"),
        "{refused}"
    );
    assert_eq!(Service::state(), "");
    let service = Service::install(&["--to", &to]);
    NT.run(&["service", "start"]);
    NT.wait_for_snapshots(&serve);
    assert_eq!(Service::state(), "RUNNING");
    NT.run(&["service", "stop"]);
    assert_eq!(Service::state(), "STOPPED");
    NT.run(&["service", "start"]);
    NT.run(&["service", "uninstall"]);
    drop(service);
    let refused = NT.refused(&["service", "start"]);
    assert!(refused.contains("cannot start service cpumon-agent: "), "{refused}");
}

/// It seemed to run on while it waited for acknowledgements.
#[test]
#[ignore = "scripts/test-windows.sh runs it"]
fn a_service_that_still_sends_is_stopping() {
    let (dir, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let flags = ["--no-agent", "--tls", "127.0.0.1:0", "--state", state.path().to_str().unwrap()];
    let serve = Serve::start_with(cpumon(), &dir.path().join("store.db"), &flags);
    let address = serve.status()["stream"]["address"].as_str().unwrap().to_owned();
    let line = ok(&["token", "--state", state.path().to_str().unwrap()]);
    let keys = format!("Z:{}", dir.path().join("keys").to_str().unwrap());
    let token = line.split_whitespace().last().unwrap();
    NT.run(&["enroll", &address, token, "--state", &keys, "--host-name", "device"]);
    let to = format!("tls://{address}");
    let _service = Service::install(&["--to", &to, "--state", &keys, "--no-discovery"]);
    NT.run(&["service", "start"]);
    NT.wait_for_snapshots(&serve);
    // It holds the connection, and acknowledges nothing.
    serve.signal("-STOP");
    std::thread::scope(|scope| {
        let stop = scope.spawn(|| NT.run(&["service", "stop"]));
        eventually_within(PATIENCE, "the service is stopping", || {
            assert!(!stop.is_finished(), "it stopped, and never was stopping");
            (Service::state() == "STOP_PENDING").then_some(())
        });
        // Again: the end of the first one is waited for.
        NT.run(&["service", "stop"]);
    });
    assert_eq!(Service::state(), "STOPPED");
}

/// Another logger was installed first, and a service has no standard error.
#[test]
#[ignore = "scripts/test-windows.sh runs it"]
fn messages_of_the_service_go_to_the_event_log() {
    let mut command = NT.command();
    // Without a service manager it fails. Wine's event log is its own messages.
    command.args(["service", "run"]).env("WINEDEBUG", "err+eventlog");
    let messages = text(&output_within(PATIENCE, command).stderr);
    let logged = messages.lines().filter(|line| line.contains(":eventlog:"));
    let logged: String = logged.collect();
    assert!(logged.contains("only the service control manager starts this"), "{messages}");
}

/// `%ProgramData%` is where any user may make directories.
#[test]
#[ignore = "scripts/test-windows.sh runs it"]
fn a_directory_of_another_user_is_not_used() {
    let prefix = std::env::var("WINEPREFIX").unwrap();
    let shared = std::path::Path::new(&prefix).join("drive_c/ProgramData");
    let dir = tempfile::tempdir_in(&shared).unwrap();
    let name = dir.path().file_name().unwrap().to_str().unwrap();
    let arguments = ["--to", "127.0.0.1:9", "--count", "1", "--record", &format!("c:/programdata/{name}")];
    NT.run(&arguments);
    // Wine knows this user and one other.
    std::os::unix::fs::chown(dir.path(), Some(12_345), None).unwrap();
    let refused = NT.refused(&arguments);
    assert!(refused.contains("belongs to user S-1-5-7"), "{refused}");
}

#[test]
#[ignore = "scripts/test-windows.sh runs it"]
fn encrypted_datagrams_are_taken_as_such() {
    let state = tempfile::tempdir().unwrap();
    let state_dir = state.path().to_str().unwrap();
    ok(&["key", "new", "--state", state_dir]);
    let serve = Serve::start(&["--no-agent", "--state", state_dir]);
    let keys = state.path().join("group.keys");
    let _agent = NT.start(&["--to", &serve.udp.to_string(), "--group-key", keys.to_str().unwrap()]);
    NT.wait_for_snapshots(&serve);
    assert_eq!(serve.host("device").unwrap()["trust"], "sealed");
    let mut load = load();
    let truth_ns = load.work(200);
    NT.assert_stored(serve.store(), &load, truth_ns);
}

#[test]
#[ignore = "scripts/test-windows.sh runs it"]
fn sets_of_v1_have_every_process_idle_or_not_and_lose_no_millisecond() {
    let serve = Serve::start(&["--no-agent"]);
    let dir = tempfile::tempdir().unwrap();
    let mut words = load_words();
    let renamed = dir.path().join("it's.exe");
    std::fs::copy(words.last().unwrap(), &renamed).unwrap();
    *words.last_mut().unwrap() = renamed.to_str().unwrap().to_owned();
    let idle = load_of(&words);
    let _agent = NT.start(&["--v1", "--to", &serve.udp.to_string()]);
    let device = || serve.host("127.0.0.1").filter(|host| host["loss"]["snapshots"].as_u64() > Some(3));
    let host = eventually_within(PATIENCE, "sets of the device", device);
    assert_eq!((&host["source"], &host["trust"]), (&"v1".into(), &"unauthenticated".into()));
    let mut load = load();
    let report = Report::of(&load.ask("spread 2 50 150"));
    let with_ended = Report::of(&load.ask("births 3 30"));
    assert_process_stored(&NT, &serve, &load, &with_ended);
    for (tid, truth_ns) in report.threads {
        let query = format!(
            "SELECT sum(run_ns), sum(user_ns) > sum(system_ns) FROM thread_interval WHERE tid = {tid}"
        );
        let row = rows(&serve, &query).pop().unwrap();
        let (run_ns, is_in_user_mode) = row.split_once(',').unwrap();
        assert!(truth_ns.abs_diff(run_ns.parse().unwrap()) <= TOLERANCE_NS, "{run_ns} of {truth_ns}");
        assert_eq!(is_in_user_mode, "1");
    }
    let query = format!(
        "SELECT name, max(run_ns), min(thread_rows), max(thread_rows), \
         count(*) = (SELECT count(*) FROM host_interval) FROM process_interval WHERE pid = {}",
        idle.pid
    );
    assert_eq!(rows(&serve, &query), ["\"it’s.exe\",0,1,1,1"]);
    let of_device = serve.host("127.0.0.1").unwrap();
    assert_eq!(of_device["loss"]["rejected"], 0);
}
