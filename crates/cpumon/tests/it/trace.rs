//! `cpumon trace`: a recording of this very kernel against the kernel's own clocks, and damaged files. Recording needs
//! root or `CAP_BPF` and `CAP_PERFMON`.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::program::copy_program;
use crate::skip::{say_skipped, skip};
use crate::support::{KillOnDrop, cpumon, eventually, is_whole, lines_of, signal, spinner, text, wait};

/// Naps as long as the file that it is given is there.
const NAPS: &str = "while [ -e \"$0\" ]; do sleep 0.03; done";
/// Spins and naps, and prints the scheduler's counts of the shell while it waits for `cat`: run time, run delay, slices.
const LOAD: &str = "i=0; while [ $i -lt 4000 ]; do i=$((i+1)); [ $((i % 200)) -ne 0 ] || sleep 0.002; done; cat /proc/$$/schedstat; echo $$";
/// The scheduler reads its clock before the switch event: this much per slice (measured: 11 µs).
const A_SLICE_NS: u64 = 12_000;
/// The shell's own end, after its time was printed.
const ITS_END_NS: u64 = 5_000_000;
/// Where a hypervisor pauses this machine between the two clocks, one recording is off; a wrong account is off in all.
const ATTEMPTS: usize = 5;

fn record(file: &Path, command: &[&str]) -> Output {
    let mut record = cpumon();
    record.args(["trace", "record", "-o"]).arg(file).arg("--").args(command);
    record.output().unwrap()
}

fn report(file: &Path, by: &str) -> (Output, Vec<Value>) {
    let output = cpumon().args(["trace", "report", "--json", "--by", by]).arg(file).output().unwrap();
    let rows = serde_json::from_slice(&output.stdout).unwrap_or_default();
    (output, rows)
}

fn is_refused(output: &Output) -> bool {
    let text = String::from_utf8_lossy(&output.stderr);
    let refused = output.status.code() == Some(1) && text.contains("BPF");
    if refused {
        skip(format!("needs root for BPF: {}", text.trim()));
    }
    refused
}

/// Runs a test again where the recorder lost events: then it returns `false`, and its results mean nothing.
fn until_whole(test: impl Fn() -> bool) {
    assert!((0..ATTEMPTS).any(|_| test()), "the recorder lost events {ATTEMPTS} times");
}

fn number(row: &Value, name: &str) -> u64 {
    row[name].as_u64().unwrap_or_else(|| panic!("{name}: {row}"))
}

#[test]
fn a_trace_agrees_with_the_scheduler_and_its_ledger_balances() {
    let dir = tempfile::tempdir().unwrap();
    let mut last = String::new();
    for attempt in 0..ATTEMPTS {
        let file = dir.path().join(format!("{attempt}.trace"));
        let output = record(&file, &["sh", "-c", LOAD]);
        if is_refused(&output) {
            return;
        }
        if !check_ledger(&file) {
            continue;
        }
        let text = String::from_utf8(output.stdout).unwrap();
        let numbers: Vec<u64> = text.split_whitespace().map(|word| word.parse().unwrap()).collect();
        let [run_ns, _, slices, pid] = numbers[..] else { panic!("{text}") };
        let (_, rows) = report(&file, "thread");
        let row = rows.iter().find(|row| number(row, "tid") == pid).expect("the shell");
        assert_eq!(row["name"], "sh", "its name after exec");
        let tolerance_ns = (run_ns / 500).max(slices * A_SLICE_NS);
        let its_ns = number(row, "run_ns");
        let switches = number(row, "voluntary_switches") + number(row, "involuntary_switches");
        let is_near = its_ns + tolerance_ns >= run_ns && its_ns <= run_ns + tolerance_ns + ITS_END_NS;
        let is_whole = switches >= slices && switches <= slices + 20 && number(row, "unknown_ns") == 0;
        if is_near && is_whole {
            assert!(number(row, "blocked_ns") > 20 * 2_000_000, "20 naps of 2 ms: {row}");
            return;
        }
        last = format!("{its_ns} of {run_ns} ns, {switches} of {slices} switches: {row}");
    }
    panic!("{last}");
}

#[test]
fn interrupts_are_taken_out_of_threads_and_idle_time() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.trace");
    let mut record = cpumon();
    record.args(["trace", "record", "--irq", "-o"]).arg(&file).args(["--", "sh", "-c", LOAD]);
    let output = record.output().unwrap();
    if is_refused(&output) {
        return;
    }
    let (_, cpus) = report(&file, "cpu");
    let (_, threads) = report(&file, "thread");
    let sum = |rows: &[Value], name: &str| rows.iter().map(|row| number(row, name)).sum::<u64>();
    for cpu in &cpus {
        let parts = ["run_ns", "irq_ns", "softirq_ns", "idle_ns", "unknown_ns"].map(|part| number(cpu, part));
        assert_eq!(parts.iter().sum::<u64>(), number(cpu, "capacity_ns"), "{cpu}");
    }
    assert!(sum(&cpus, "irq_ns") + sum(&cpus, "softirq_ns") > 0, "there is a timer: {cpus:?}");
    assert_eq!(sum(&cpus, "run_ns"), sum(&threads, "run_ns"), "what the CPUs ran is what the threads ran");
    for kind in ["irq_ns", "softirq_ns"] {
        assert!(sum(&threads, kind) <= sum(&cpus, kind), "the rest is of idle time");
    }
}

/// A control group like that of a container, where one can be made.
struct Group(PathBuf);

impl Group {
    /// In the first hierarchy whose type and one of whose mount options are these; `None`: there is none, or this process may not.
    fn make(name: &str, is_wanted: fn(&str, &str) -> bool) -> Option<Self> {
        let mounts = std::fs::read_to_string("/proc/self/mounts").ok()?;
        let roots = mounts.lines().filter_map(|line| {
            let mut words = line.split(' ').skip(1);
            let (place, kind, options) = (words.next()?, words.next()?, words.next()?);
            let is_it = options.split(',').any(|option| is_wanted(kind, option));
            is_it.then(|| Path::new(place).join(name))
        });
        roots.into_iter().find(|path| std::fs::create_dir(path).is_ok()).map(Self)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn processes_of_a_container_are_one_row() {
    until_whole(|| {
        let name = format!("docker-{:064x}.scope", std::process::id());
        let is_wanted = |kind: &str, option: &str| kind == "cgroup2" || (kind == "cgroup" && option == "cpu");
        let Some(group) = Group::make(&name, is_wanted) else {
            skip("needs root to make a control group".to_owned());
            return true;
        };
        is_a_container_one_row(&group, &name["docker-".len()..][..12])
    });
}

#[test]
fn a_container_of_systemds_hierarchy_only_is_one_row() {
    until_whole(|| {
        let own = format!("cpumon-{}", std::process::id());
        let is_wanted = |kind: &str, option: &str| kind == "cgroup" && option == "name=systemd";
        let Some(group) = Group::make(&format!("lxc.payload.{own}"), is_wanted) else {
            say_skipped("it has no such hierarchy, or may not make control groups");
            return true;
        };
        is_a_container_one_row(&group, &own)
    });
}

fn is_a_container_one_row(group: &Group, name: &str) -> bool {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.trace");
    // As a container's runtime does: it moves itself and calls exec.
    let inside = format!("echo $$ > {}/cgroup.procs; exec sh -c 'true; sleep 0.1; true'", group.0.display());
    let output = record(&file, &["sh", "-c", &inside]);
    if is_refused(&output) {
        return true;
    }
    let (output, rows) = report(&file, "container");
    if !is_whole(&output) {
        return false;
    }
    let row = rows.iter().find(|row| row["name"] == name);
    let row = row.unwrap_or_else(|| panic!("{rows:?}"));
    assert_eq!((&row["kind"], number(row, "threads")), (&Value::from("container"), 2), "sh and sleep: {row}");
    assert!(rows.iter().any(|row| row["name"] == "(none)"), "{rows:?}");
    true
}

/// The ledger balances; whether everything was recorded.
fn check_ledger(file: &Path) -> bool {
    let (output, cpus) = report(file, "cpu");
    let is_whole = is_whole(&output);
    let (_, threads) = report(file, "thread");
    let sum = |rows: &[Value], name: &str| rows.iter().map(|row| number(row, name)).sum::<u64>();
    for cpu in &cpus {
        let parts = number(cpu, "run_ns") + number(cpu, "idle_ns") + number(cpu, "unknown_ns");
        assert!(cpu["irq_ns"].is_null() && cpu["softirq_ns"].is_null(), "not recorded: {cpu}");
        assert_eq!(parts, number(cpu, "capacity_ns"));
        assert!(number(cpu, "lost") == 0 || !is_whole, "{cpu}");
        assert_eq!(number(cpu, "capacity_ns"), number(&cpus[0], "capacity_ns"), "each has the whole length");
    }
    assert_eq!(sum(&cpus, "run_ns"), sum(&threads, "run_ns"), "what the CPUs ran is what the threads ran");
    is_whole
}

#[test]
fn the_exit_code_of_the_command_is_passed_on_and_a_torn_file_gives_what_is_whole() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.trace");
    let output = record(&file, &["sh", "-c", "sleep 0.4; exit 7"]);
    if is_refused(&output) {
        return;
    }
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    let again = record(&file, &["true"]);
    assert_eq!(again.status.code(), Some(1));
    assert!(
        String::from_utf8_lossy(&again.stderr).contains("exists; give another name with -o"),
        "{again:?}"
    );
    let mut bytes = std::fs::read(&file).unwrap();
    std::fs::write(&file, &bytes[..bytes.len() - 3]).unwrap();
    let (output, rows) = report(&file, "program");
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("ends early at byte"), "{output:?}");
    assert!(rows.iter().any(|row| row["name"] == "sleep"), "{rows:?}");
    check_damaged(&file, &mut bytes);
}

/// In the first chunk of events: the chunks behind are in the report all the same.
fn check_damaged(file: &Path, bytes: &mut [u8]) {
    let events = bytes.windows(5).position(|window| window == b"chnk\x01").unwrap();
    let damaged_cpu = u64::from(u16::from_le_bytes([bytes[events + 6], bytes[events + 7]]));
    bytes[events + 40] ^= 1;
    std::fs::write(file, bytes).unwrap();
    let (output, rows) = report(file, "program");
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains(&format!("the trace is damaged, first at byte {events}: ")), "{text}");
    assert!(!text.contains("no end mark"), "{text}");
    assert!(!rows.is_empty());
    // All events of the other CPU are there, and may begin before the recording does: then none of its time is unknown.
    let (_, cpus) = report(file, "cpu");
    let damaged = cpus.iter().find(|cpu| number(cpu, "cpu") == damaged_cpu);
    assert!(number(damaged.unwrap(), "unknown_ns") > 0, "{cpus:?}");
}

#[test]
fn foreign_files_and_wrong_ranges_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.trace");
    std::fs::write(&file, "PERFILE2 and so on").unwrap();
    let (output, _) = report(&file, "thread");
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no trace file of cpumon"), "{output:?}");
    let mut range = cpumon();
    range.args(["trace", "report", "--from", "2s", "--to", "1s"]).arg(&file);
    assert_eq!(range.output().unwrap().status.code(), Some(2));
}

/// It made a file named `-`.
#[test]
fn a_recording_to_standard_output_is_a_whole_trace_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let in_dir = |args: &[&str]| cpumon().args(args).current_dir(dir.path()).output().unwrap();
    let recorded = in_dir(&["trace", "record", "-o", "-", "--", "echo", "printed by the command"]);
    if is_refused(&recorded) {
        return;
    }
    is_whole(&recorded);
    let summary = cpumon_trace::summarise(&recorded.stdout[..]).unwrap().expect("a whole trace");
    assert!(summary.events > 0);
    assert!(String::from_utf8_lossy(&recorded.stderr).contains("printed by the command\n"), "{recorded:?}");
    let refused = in_dir(&["trace", "record", "-o", "-", "--last", "1s", "--", "true"]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    // A closed pipe is no error, as for every command.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut closed = cpumon();
    closed.args(["trace", "record", "-o", "-", "--", "true"]).stdout(writer).stderr(Stdio::piped());
    let ended = closed.spawn().unwrap().wait_with_output().unwrap();
    assert!(ended.status.success() && ended.stderr.is_empty(), "{ended:?}");
}

#[test]
fn the_last_part_is_written_when_it_is_asked_for_and_at_the_end() {
    until_whole(is_the_last_part_written);
}

fn is_the_last_part_written() -> bool {
    let dir = tempfile::tempdir().unwrap();
    let (file, go_on) = (dir.path().join("spike.trace"), dir.path().join("go-on"));
    std::fs::write(&go_on, "").unwrap();
    let mut record = cpumon();
    record.args(["trace", "record", "--last", "1s", "-o"]).arg(&file);
    record.args(["--", "sh", "-c", NAPS]).arg(&go_on);
    let mut child = KillOnDrop(record.stderr(Stdio::piped()).spawn().unwrap());
    let mut lines = lines_of(child.0.stderr.take().unwrap());
    let first = lines.next().unwrap();
    if first.contains("BPF") {
        skip(format!("needs root for BPF: {first}"));
        return true;
    }
    assert!(first.contains("stay in at most 64.0 MB") && first.contains("kill -USR1"), "{first}");
    std::thread::sleep(Duration::from_millis(1_800));
    signal(child.0.id(), "-USR1");
    let asked = lines.next().unwrap();
    assert!(asked.contains("in ") && asked.ends_with("spike.trace"), "{asked}");
    std::fs::remove_file(go_on).unwrap();
    let code = wait(&mut child.0, "trace record").code();
    assert!(matches!(code, Some(0 | 3)), "{code:?}");
    let at_end = lines.next().unwrap();
    let second = dir.path().join("spike-2.trace");
    assert!(at_end.ends_with("spike-2.trace"), "{at_end}");
    for file in [&file, &second] {
        if !check_ledger(file) {
            return false;
        }
        let (_, cpus) = report(file, "cpu");
        let length_ns = number(&cpus[0], "capacity_ns");
        // Little more than the second that was asked for.
        assert!((800_000_000..2_800_000_000).contains(&length_ns), "{length_ns}");
        let (_, rows) = report(file, "program");
        assert!(rows.iter().any(|row| row["name"] == "sleep"), "{rows:?}");
        // It began long before the window, so only its identity in memory names it.
        let (_, rows) = report(file, "thread");
        assert!(rows.iter().any(|row| row["name"] == "sh"), "{rows:?}");
    }
    // Events may be lost outside of the file's range, too.
    code == Some(0)
}

#[test]
fn the_agent_writes_the_last_seconds_when_a_rule_is_met_and_when_it_is_asked() {
    until_whole(are_the_last_seconds_written);
}

fn are_the_last_seconds_written() -> bool {
    let dir = tempfile::tempdir().unwrap();
    let flights = dir.path().join("flights");
    // A shell with a name of its own, because those of others run too. It is a link, as `sh` often is.
    let (shell, program) = (dir.path().join("flight-shell"), dir.path().join("flight-spinner"));
    copy_program("/bin/sh", &shell);
    std::os::unix::fs::symlink(&shell, &program).unwrap();
    let mut agent = cpumon();
    agent.args(["agent", "--to", "127.0.0.1:9", "--interval", "200ms", "--flight-recorder", "2s"]);
    agent.args(["--flight-when", "program:flight-spinner>5%/400ms", "--flight-dir"]).arg(&flights);
    let mut agent = KillOnDrop(agent.stderr(Stdio::piped()).spawn().unwrap());
    let mut lines = lines_of(agent.0.stderr.take().unwrap());
    let first = lines.next().unwrap();
    if first.contains("BPF") {
        skip(format!("needs root for BPF: {first}"));
        return true;
    }
    assert!(first.contains("the last 2s of context switches, at most 64.0 MB"), "{first}");
    std::thread::sleep(Duration::from_millis(500));
    let spinner = spinner(&program);
    let pid = u64::from(spinner.0.id());
    let by_rule = lines.find(|line| line.contains(" events in ")).expect("a window by the rule");
    signal(agent.0.id(), "-USR1");
    let by_signal = lines.find(|line| line.contains(" events in ")).expect("a window by the signal");
    drop(spinner);
    assert_eq!(agent.end("agent").code(), Some(0));
    let mut files: Vec<_> = flights.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_none_or(|end| end != "lock"));
    files.sort();
    let (reasons, files): (Vec<_>, Vec<_>) =
        files.into_iter().partition(|path| path.extension().is_some_and(|end| end == "why"));
    let reasons: Vec<_> = reasons.iter().map(|path| std::fs::read_to_string(path).unwrap()).collect();
    assert!(
        reasons[0].ends_with("\nprogram:flight-spinner>5%/400ms\n") && reasons[1].ends_with("\nSIGUSR1\n"),
        "{reasons:?}"
    );
    assert_eq!(files.len(), 2, "{by_rule} {by_signal}");
    for file in &files {
        if !check_ledger(file) {
            return false;
        }
        let (_, rows) = report(file, "process");
        let row = rows.iter().find(|row| number(row, "pid") == pid).expect("the spinner");
        // A busy machine gives it little more than the rule's limit: 5 % of 400 ms.
        assert!(number(row, "run_ns") > 15_000_000, "{row}");
    }
    assert_eq!(flights.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(files[0].metadata().unwrap().permissions().mode() & 0o777, 0o600);
    true
}

/// Kills a recorder in the middle of its third segment or a later one: between two, none is without its end.
fn kill_within_a_segment(
    agent: KillOnDrop,
    load: &dyn Fn(),
    segments: &dyn Fn() -> Vec<PathBuf>,
) -> Vec<PathBuf> {
    let pid = rustix::process::Pid::from_child(&agent.0);
    eventually("the middle of a segment", || {
        load();
        rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
        rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::UNTRACED).unwrap();
        if let [_, _, .., last] = &segments()[..]
            && text(&report(last, "program").0.stderr).contains("the trace has no end mark")
        {
            return Some(());
        }
        rustix::process::kill_process(pid, rustix::process::Signal::CONT).unwrap();
        None
    });
    drop(agent);
    segments()
}

/// Killed in the middle, and started again: the first recording can be read, and is counted by the second one.
#[test]
fn a_flight_recorder_on_disk_survives_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let flights = dir.path().join("flights");
    let command = || {
        let mut agent = cpumon();
        agent.args(["agent", "--to", "127.0.0.1:9", "--interval", "200ms"]);
        agent.args([
            "--flight-recorder",
            "1h",
            "--flight-bytes",
            "8MB",
            "--flight-window",
            "1s",
            "--flight-dir",
        ]);
        agent.arg(&flights).stderr(Stdio::piped());
        agent
    };
    let start = || KillOnDrop(command().spawn().unwrap());
    let segments = || {
        let names = flights.read_dir().into_iter().flatten().flatten().map(|entry| entry.path());
        let mut segments: Vec<_> = names.filter(|path| path.to_string_lossy().contains("/ring-")).collect();
        segments.sort();
        segments
    };
    let load = || {
        let script = "i=0; while [ $i -lt 200 ]; do i=$((i+1)); /bin/true; done";
        assert!(Command::new("sh").args(["-c", script]).status().unwrap().success());
    };
    let mut agent = start();
    let first = lines_of(agent.0.stderr.take().unwrap()).next().unwrap();
    if first.contains("BPF") {
        return skip(format!("needs root for BPF: {first}"));
    }
    assert!(first.contains("the last 3600s of context switches are in"), "{first}");
    // Segments are as long as a window.
    let killed = kill_within_a_segment(agent, &load, &segments);
    let (output, rows) = report(&flights, "program");
    assert_eq!(output.status.code(), Some(3), "its last segment has no end: {output:?}");
    let of = |rows: &[Value], name: &str| rows.iter().any(|row| row["name"] == name);
    assert!(of(&rows, "true"), "{output:?}");
    let (output, rows) = report(&killed[0], "program");
    // A recorder that gets no CPU for long loses events, and its segments say so.
    is_whole(&output);
    assert!(of(&rows, "true"), "a segment alone: {output:?}");

    let mut agent = start();
    eventually("two more segments", || {
        load();
        (segments().iter().filter(|segment| !killed.contains(segment)).count() >= 2).then_some(())
    });
    let second = crate::support::output(command());
    assert_eq!(second.status.code(), Some(1), "{second:?}");
    assert!(
        String::from_utf8_lossy(&second.stderr).contains(&format!("held by pid {}", agent.0.id())),
        "{second:?}"
    );
    signal(agent.0.id(), "-USR1");
    let flight = |name: &String| name.strip_suffix(".trace").is_some_and(|name| name.starts_with("flight-"));
    let names = || flights.read_dir().unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let window = eventually("a window", || {
        load();
        names().find(flight)
    });
    assert_eq!(agent.end("agent").code(), Some(0));
    check_ledger(&flights.join(&window));
    let (output, _) = report(&flights, "program");
    is_whole(&output);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("1 other recordings"), "{text}");
    let earlier = killed[0].to_string_lossy().rsplit_once('-').unwrap().0.to_owned();
    let (output, rows) = report(Path::new(&earlier), "program");
    assert!(output.status.code() == Some(3) && of(&rows, "true"), "{output:?}");
}
