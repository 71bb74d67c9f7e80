//! `cpumon trace delays`, `wakers`, `path`, `histogram` and `report --every` of a made trace, as a user sees them.

use std::path::Path;

use cpumon_model::{Comm, Moment, ProcessKey, ThreadKey, WaitReason};
use cpumon_trace::{
    Compression, FileHeader, Interrupt, Leaves, SchedEvent, SchedEventKind, TraceIdentity, TraceTask,
    TraceWriter,
};

use crate::support::cpumon;

const BEGAN_NS: u64 = 5_000_000_000;
const FUTEX: Leaves = Leaves::Asleep(WaitReason::syscall(202));
const NAP: Leaves = Leaves::Asleep(WaitReason::syscall(230));
const READ: Leaves = Leaves::Asleep(WaitReason::syscall(0));
const NAMES: [&str; 5] = ["app", "worker", "spin", "other", "=evil\u{1b}"];

fn at(us: u64, cpu: u16, kind: SchedEventKind) -> SchedEvent {
    SchedEvent { at_ns: BEGAN_NS + us * 1_000, cpu, kind }
}

fn switch(us: u64, cpu: u16, prev: u32, next: u32, leaves: Leaves) -> SchedEvent {
    at(us, cpu, SchedEventKind::Switch { prev: TraceTask(prev), next: TraceTask(next), leaves })
}

fn wake(us: u64, from_cpu: u16, waker: u32, task: u32, cpu: u16) -> SchedEvent {
    at(us, from_cpu, SchedEventKind::Waking { task: TraceTask(task), waker: TraceTask(waker), cpu })
}

/// `app` gives `worker` something to do and waits for it; `worker` is pushed off by `other`, and `spin` keeps the CPU of `app`.
fn story() -> Vec<SchedEvent> {
    let softirq = SchedEventKind::Interrupt { interrupt: Interrupt::Soft(1), ran_ns: 30_000 };
    vec![
        switch(100, 0, 0, 1, Leaves::Ready),
        wake(200, 0, 1, 3, 0),
        wake(300, 0, 1, 2, 1),
        switch(310, 1, 0, 2, Leaves::Ready),
        switch(320, 0, 1, 3, FUTEX),
        wake(890, 0, 3, 4, 1),
        switch(900, 1, 2, 4, Leaves::Ready),
        switch(1_400, 1, 4, 2, READ),
        wake(2_000, 1, 2, 1, 0),
        switch(2_010, 1, 2, 0, FUTEX),
        switch(2_600, 0, 3, 1, Leaves::Ready),
        switch(3_000, 0, 1, 3, NAP),
        wake(3_990, 0, 3, 1, 0),
        at(4_000, 0, softirq),
        switch(4_001, 0, 3, 1, Leaves::Ready),
        wake(4_500, 0, 1, 5, 1),
        switch(4_600, 1, 0, 5, Leaves::Ready),
        switch(5_000, 0, 1, 3, Leaves::Dead),
        wake(5_500, 1, 5, 4, 0),
    ]
}

/// The story as a file.
pub fn write(path: &Path) {
    write_events(path, &story(), BEGAN_NS + 6_000_000);
}

fn write_events(path: &Path, events: &[SchedEvent], end_ns: u64) {
    let began = Moment { mono_ns: BEGAN_NS, boot_ns: BEGAN_NS, wall_ns: 1_700_000_000_000_000_000 };
    let header = FileHeader { began, cpus: 2, host: "device1".into(), ..FileHeader::default() };
    let mut writer = TraceWriter::new(Vec::new(), &header, Compression::None).unwrap();
    for (number, name) in (1..).zip(NAMES) {
        writer.identity(&TraceIdentity {
            task: TraceTask(number),
            at_ns: BEGAN_NS,
            thread: ThreadKey { tid: 100 + number, start_ns: 7_000 },
            process: ProcessKey { pid: if number == 2 { 101 } else { 100 + number }, start_ns: 7_000 },
            group: 0,
            comm: Comm::from(name),
            program: if number == 2 { "app" } else { name }.as_bytes().into(),
            is_executable: false,
            is_kernel: false,
        });
    }
    for cpu in 0..2 {
        events.iter().filter(|event| event.cpu == cpu).for_each(|event| writer.event(event));
    }
    std::fs::write(path, writer.finish(end_ns, 0).unwrap().0).unwrap();
}

fn shown(file: &Path, args: &[&str]) -> String {
    let mut command = cpumon();
    command
        .env("LC_ALL", "C.UTF-8")
        .env("COLUMNS", "140")
        .arg("trace")
        .arg(args[0])
        .arg(file)
        .args(&args[1..]);
    let output = command.output().unwrap();
    let code = output.status.code().unwrap();
    let (out, error) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    let rest =
        if code == 0 && error.is_empty() { String::new() } else { format!("exit code {code}: {error}") };
    format!("$ cpumon trace {} story.trace {}\n{out}{rest}\n", args[0], args[1..].join(" "))
}

fn all(commands: &[&[&str]]) -> String {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("story.trace");
    write(&file);
    commands.iter().map(|args| shown(&file, args)).collect()
}

#[test]
fn tables() {
    insta::assert_snapshot!(all(&[
        &["report"],
        &["delays", "--limit", "4"],
        &["delays", "--from", "2.5ms", "--to", "5.8ms"],
        &["wakers"],
        &["wakers", "--by", "program", "--to", "2ms"],
        &["path", "--thread", "app", "--at", "4.5ms"],
        &["path", "--thread", "101", "--at", "3ms", "--from", "500us"],
        &["path", "--thread", "worker", "--limit", "2"],
        &["path", "--thread", "app", "--by", "thread", "--limit", "1"],
        &["path", "--process", "app"],
        &["path", "--process", "103", "--by", "thread"],
        &["histogram"],
        &["histogram", "--of", "off-cpu", "--by", "process"],
        &["histogram", "--of", "run", "--by", "program", "--limit", "2"],
        &["histogram", "--of", "blocked"],
        &["report", "--every", "1ms"],
        &["report", "--every", "1ms", "--by", "cpu"],
    ]));
}

#[test]
fn a_narrow_terminal_in_a_locale_without_utf8() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("story.trace");
    write(&file);
    for line in
        ["report", "wakers", "histogram", "report --by cpu", "path --thread app", "report --every 1ms"]
    {
        let mut words = line.split(' ');
        let mut command = cpumon();
        command
            .env("LC_ALL", "C")
            .env("COLUMNS", "60")
            .arg("trace")
            .args(words.next())
            .arg(&file)
            .args(words);
        let output = command.output().unwrap();
        let shown = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && shown.is_ascii(), "{line}: {shown}");
        assert!(shown.contains("PID/TID") || line.contains("cpu"), "{line}: {shown}");
        let is_whole = |id: &str| shown.split_whitespace().any(|word| word == id);
        assert!(line.contains("cpu") || is_whole("101/101"), "{line}: {shown}");
        let widest = shown.lines().map(str::len).max();
        assert!(line.starts_with("path") || widest <= Some(60), "{line}: {widest:?}\n{shown}");
    }
}

#[test]
fn no_line_is_longer_than_a_terminal_of_40_columns() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("story.trace");
    write(&file);
    for (line, titles) in [
        ("delays", &["THREAD", "BEHIND", "WAITED ms"]),
        ("wakers", &["WAKER", "WOKEN", "WAKEUPS"]),
        ("wakers --by process", &["WAKER", "WOKEN", "WAKEUPS"]),
    ] {
        let mut words = line.split(' ');
        let mut command = cpumon();
        command.env("COLUMNS", "40").arg("trace").args(words.next()).arg(&file).args(words);
        let output = command.output().unwrap();
        let shown = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{line}: {shown}");
        assert!(shown.lines().all(|line| line.chars().count() <= 40), "{line}:\n{shown}");
        assert!(titles.iter().all(|title| shown.contains(title)), "{line}:\n{shown}");
    }
}

#[test]
fn csv_and_json() {
    insta::assert_snapshot!(all(&[
        &["delays", "--limit", "3", "--format", "csv"],
        &["delays", "--limit", "1", "--json"],
        &["wakers", "--format", "csv"],
        &["path", "--thread", "app", "--at", "4.5ms", "--format", "csv"],
        &["path", "--thread", "app", "--at", "4.5ms", "--limit", "1", "--json"],
        &["path", "--process", "app", "--by", "thread", "--format", "csv"],
        &["histogram", "--format", "csv"],
        &["report", "--every", "2ms", "--format", "csv"],
        &["report", "--every", "2ms", "--by", "program", "--limit", "1", "--format", "jsonl"],
        &["report", "--every", "2ms", "--by", "cpu", "--from", "1ms", "--format", "csv"],
    ]));
}

#[test]
fn what_cannot_be_answered_says_why() {
    insta::assert_snapshot!(all(&[
        &["path", "--thread", "absent"],
        &["path", "--process", "absent"],
        &["path", "--thread", "app", "--process", "app"],
        &["path"],
        &["path", "--thread", "app", "--at", "1ms", "--from", "2ms"],
        &["report", "--every", "100us"],
        &["wakers", "--from", "2ms", "--to", "1ms"],
        &["delays", "--limit", "0"],
    ]));
}

/// A clock that jumps by 380 years, as in a file with a part cut out: two waits of one program together exceed a count of ns.
#[test]
fn sums_beyond_what_can_be_counted_are_shown_and_end_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("jump.trace");
    let later = 12_000_000_000_000_000;
    let events = [
        switch(100, 0, 0, 1, Leaves::Ready),
        wake(200, 0, 1, 2, 1),
        switch(300, 0, 1, 0, Leaves::Ready),
        switch(later, 0, 0, 1, Leaves::Ready),
        switch(later, 1, 0, 2, Leaves::Ready),
        switch(later + 100, 0, 1, 0, FUTEX),
    ];
    write_events(&file, &events, BEGAN_NS + (later + 200) * 1_000);
    for line in [
        "report",
        "report --by process",
        "report --by program",
        "report --by container",
        "report --by cpu",
        "report --by program --format csv",
        "report --every 1ms",
        "delays",
        "wakers",
        "wakers --by program",
        "histogram",
        "histogram --of off-cpu --by program",
        "path --thread app",
    ] {
        let words: Vec<_> = line.split(' ').collect();
        let shown = shown(&file, &words);
        assert!(!shown.contains("exit code 101") && !shown.contains("panicked"), "{shown}");
        assert!(
            shown.contains("app")
                || line.contains("every")
                || line.contains("cpu")
                || line.contains("container"),
            "{shown}"
        );
    }
}

/// The parts of the trace behind its end were tables without a row, and a success.
#[test]
fn what_is_not_found_has_a_reason_and_is_no_success() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("story.trace");
    write(&file);
    let empty = dir.path().join("empty.trace");
    write_events(&empty, &[], BEGAN_NS + 6_000_000);
    for line in [
        "report",
        "report --by cpu",
        "report --every 1ms",
        "report --every 1ms --by cpu",
        "delays",
        "wakers",
        "histogram",
        "histogram --of run",
        "export --format csv",
    ] {
        for (path, behind) in [(&empty, &[][..]), (&file, &["--from", "1s"])] {
            let mut words = line.split(' ');
            let mut command = cpumon();
            command.arg("trace").arg(words.next().unwrap()).arg(path).args(words).args(behind);
            let output = command.output().unwrap();
            let error = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(1), "{line} {behind:?}: {error}");
            assert!(error.contains(" has no "), "{line} {behind:?}: {error}");
        }
    }
    // Before the first event nothing is known of any thread: it was a heading, and a success.
    let late = dir.path().join("late.trace");
    let later: Vec<_> =
        story().into_iter().map(|event| SchedEvent { at_ns: event.at_ns + 5_000_000, ..event }).collect();
    write_events(&late, &later, BEGAN_NS + 20_000_000);
    for format in ["csv", "parquet"] {
        let out = dir.path().join("none");
        let mut command = cpumon();
        command.args(["trace", "export", "--to", "1ms", "--format", format, "-o"]).arg(&out).arg(&late);
        let output = command.output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(1) && error.contains("has no thread"), "{format}: {error}");
        assert!(!out.exists(), "{format}");
    }
    for line in ["export --format perfetto", "view"] {
        let output = cpumon().arg("trace").args(line.split(' ')).arg(&empty).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(1) && error.contains(" has no event"), "{line}: {error}");
    }
    // Cut off in front of the first event: these did not say so.
    let cut = dir.path().join("cut.trace");
    let whole = std::fs::read(&empty).unwrap();
    std::fs::write(&cut, &whole[..whole.len() - 4]).unwrap();
    for line in ["export --format perfetto", "export --format csv", "view", "top", "path --process app"] {
        let output = cpumon().arg("trace").args(line.split(' ')).arg(&cut).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(3), "{line}: {error}");
        assert!(error.contains("damaged or ends early") && error.contains("no "), "{line}: {error}");
    }
}

#[test]
fn what_no_trace_is_read_from_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let refused = |path: &Path| {
        let output = cpumon().args(["trace", "report"]).arg(path).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", path.display());
        String::from_utf8(output.stderr).unwrap()
    };
    for (begin, name) in [
        (&b"\x1f\x8b\x08\x00"[..], "gzip"),
        (b"PK\x03\x04", "zip"),
        (b"\x28\xb5\x2f\xfd", "zstd"),
        (b"\xfd7zXZ\0", "xz"),
        (b"BZh91AY", "bzip2"),
        (b"\x04\x22\x4d\x18", "lz4"),
        (b"7z\xbc\xaf\x27\x1c", "7-Zip"),
    ] {
        let path = dir.path().join(name);
        std::fs::write(&path, begin).unwrap();
        let error = refused(&path);
        assert!(error.contains(&format!("packed with {name}; unpack it first")), "{error}");
    }
    let fifo = dir.path().join("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    assert!(refused(&fifo).contains("a pipe or a device"), "it has no writer");
    assert!(refused(Path::new("-")).contains("standard input is not read"));
    let threads = dir.path().join("threads");
    std::fs::create_dir(&threads).unwrap();
    std::fs::write(threads.join("data"), "").unwrap();
    std::fs::write(threads.join("data.0"), "").unwrap();
    assert!(refused(&threads).contains("perf record --threads"));
}
