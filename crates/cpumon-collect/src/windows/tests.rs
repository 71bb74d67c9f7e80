//! Tests that run only on Windows, or under Wine (`scripts/test-windows.sh`): threads of known CPU time against both sources.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use cpumon_model::{Fields, Snapshot, ThreadSample};
use windows_sys::Win32::System::Threading::GetCurrentThreadId;

use super::*;
use crate::counting::allocations;

/// Longest tick of Windows; under Wine 10 ms.
const TICK_NS: u64 = 15_625_000;

fn own_id() -> u32 {
    #[expect(unsafe_code, reason = "a number of this thread")]
    // SAFETY: takes and keeps nothing.
    unsafe {
        GetCurrentThreadId()
    }
}

fn opened(choice: SourceChoice) -> Opened {
    open(&SourceOptions { choice, ..SourceOptions::default() }).unwrap()
}

fn pass(of: &mut Opened) -> Snapshot {
    let mut into = Snapshot::default();
    of.source.snapshot(&mut into).unwrap();
    into
}

fn thread(snapshot: &Snapshot, tid: u32) -> ThreadSample {
    *snapshot.threads.iter().find(|thread| thread.key.tid == tid).unwrap()
}

/// Spins until it used this much CPU time by its own clock; reports its id and, at the end, the time used.
fn burn(for_ns: u64, tid: &AtomicU32, go: &AtomicBool, done: &AtomicU32, stop: &AtomicBool) {
    tid.store(own_id(), Ordering::SeqCst);
    while !go.load(Ordering::SeqCst) {
        std::thread::sleep(Duration::from_millis(1));
    }
    let begin = Instant::now();
    let used = || sys::thread_times(own_id()).map_or(0, |times| (times.user + times.kernel) * 100);
    let first = used();
    while used() - first < for_ns && begin.elapsed() < Duration::from_secs(100) {
        (0..20_000).for_each(|_| std::hint::spin_loop());
    }
    done.fetch_add(1, Ordering::SeqCst);
    // Seldom: the check costs time too.
    while !stop.load(Ordering::SeqCst) {
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn loads_of_known_size_are_measured_within_two_ticks_by_both_sources() {
    const LOADS_NS: [u64; 3] = [200_000_000, 600_000_000, 1_200_000_000];
    for choice in [SourceChoice::Nt, SourceChoice::Toolhelp] {
        let mut source = opened(choice);
        let ids = [const { AtomicU32::new(0) }; LOADS_NS.len()];
        let (go, stop, done) = (AtomicBool::new(false), AtomicBool::new(false), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for (id, for_ns) in ids.iter().zip(LOADS_NS) {
                let (go, stop, done) = (&go, &stop, &done);
                scope.spawn(move || burn(for_ns, id, go, done, stop));
            }
            while ids.iter().any(|id| id.load(Ordering::SeqCst) == 0) {
                std::thread::sleep(Duration::from_millis(1));
            }
            let before = pass(&mut source);
            go.store(true, Ordering::SeqCst);
            while done.load(Ordering::SeqCst) < 3 {
                std::thread::sleep(Duration::from_millis(5));
            }
            let after = pass(&mut source);
            stop.store(true, Ordering::SeqCst);
            for (id, for_ns) in ids.iter().zip(LOADS_NS) {
                let id = id.load(Ordering::SeqCst);
                let (before, after) = (thread(&before, id), thread(&after, id));
                assert_eq!((before.key, before.process.pid), (after.key, std::process::id()));
                let ran = after.counters.since(&before.counters).unwrap();
                let ran_ns = u64::try_from(ran.run_ns).unwrap();
                println!("{choice}: {for_ns} ns of load measured as {ran_ns} ns");
                assert!(ran_ns.abs_diff(for_ns) <= 2 * TICK_NS, "{choice}: {ran_ns} of {for_ns}");
                assert_eq!(ran.user_ns + ran.system_ns, ran.run_ns);
            }
        });
    }
}

#[test]
fn this_process_is_there_with_name_user_and_threads_and_ended_ones_are_counted() {
    for choice in [SourceChoice::Nt, SourceChoice::Toolhelp] {
        let mut source = opened(choice);
        let before = pass(&mut source);
        let go = AtomicBool::new(true);
        std::thread::spawn(move || {
            burn(50_000_000, &AtomicU32::new(0), &go, &AtomicU32::new(0), &AtomicBool::new(true));
        })
        .join()
        .unwrap();
        let after = pass(&mut source);
        let own_of = |snapshot: &Snapshot| {
            let own = snapshot.processes.iter().find(|process| process.key.pid == std::process::id());
            own.unwrap().clone()
        };
        let (own, earlier) = (own_of(&after), own_of(&before));
        let image = std::env::current_exe().unwrap();
        assert_eq!(own.info.name.as_ref(), image.file_name().unwrap().to_str().unwrap());
        println!("{choice}: session {:?}, base priority {:?}", own.info.session, own.info.base_priority);
        assert_eq!(own.info.session, sys::session_of(std::process::id()), "{choice}");
        assert!(own.info.session.is_some());
        assert!(!own.info.user.is_empty() && own.info.uid != 65_534, "{:?}", own.info);
        assert!(
            own.key.start_ns > 0 && own.key.start_ns < after.end.boot_ns,
            "{:?} {:?}",
            own.key,
            after.end
        );
        assert!(after.threads.is_sorted_by_key(|thread| thread.key) && after.is_complete);
        assert!(
            after.fields.contains(Fields::RUN | Fields::CPUS) && !after.fields.contains(Fields::SWITCHES)
        );
        assert_eq!((after.sequence, after.cpus.is_empty()), (1, false));
        let ended_ns = own.ended_threads.run_ns - earlier.ended_threads.run_ns;
        println!("{choice}: an ended thread of 50 ms counted as {ended_ns} ns");
        assert!(ended_ns.abs_diff(50_000_000) <= 2 * TICK_NS, "{choice}: {ended_ns}");
    }
}

/// Runs `with` beside this many threads that wait, and ends them.
fn beside_threads(count: usize, with: impl FnOnce()) {
    let (begun, end) = (Barrier::new(count + 1), Barrier::new(count + 1));
    std::thread::scope(|scope| {
        for _ in 0..count {
            let wait = || {
                begun.wait();
                end.wait();
            };
            std::thread::Builder::new().stack_size(64 << 10).spawn_scoped(scope, wait).unwrap();
        }
        begun.wait();
        with();
        end.wait();
    });
}

#[test]
fn both_sources_see_five_hundred_threads() {
    beside_threads(500, || {
        for choice in [SourceChoice::Nt, SourceChoice::Toolhelp] {
            let snapshot = pass(&mut opened(choice));
            let own =
                snapshot.threads.iter().filter(|thread| thread.process.pid == std::process::id()).count();
            assert!(own > 500, "{choice}: {own}");
        }
    });
}

/// CPU time of this process for one of `runs` runs.
fn cpu_time_of(runs: u32, mut run: impl FnMut()) -> Duration {
    let used = || Duration::from_nanos(sys::own_usage().0);
    let first = used();
    (0..runs).for_each(|_| run());
    (used() - first) / runs
}

#[test]
#[ignore = "a part of the next"]
fn threads_that_wait_for_the_end_of_the_input() {
    beside_threads(2_500, || {
        println!("ready");
        std::io::stdin().read_line(&mut String::new()).unwrap();
    });
}

#[test]
#[ignore = "measures: see docs/windows.md"]
fn cpu_time_of_a_pass_over_five_thousand_threads() {
    // More threads in one process have more handles than Wine's limit.
    let mut processes = [(); 2].map(|()| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--ignored", "--nocapture", "threads_that_wait_for_the_end"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
    });
    // The handles stay open, because the processes' last output needs a reader.
    let outputs = processes.each_mut().map(|process| {
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        assert!(lines.by_ref().map_while(Result::ok).any(|line| line.ends_with("ready")));
        lines
    });
    let [mut nt, mut toolhelp] = [SourceChoice::Nt, SourceChoice::Toolhelp].map(opened);
    let (mut into, mut answer, mut threads) = (Snapshot::default(), vec![0; 4 << 20], Vec::new());
    // The first passes make the lists, and read names.
    for _ in 0..10 {
        nt.source.snapshot(&mut into).unwrap();
        toolhelp.source.snapshot(&mut into).unwrap();
    }
    println!("{} threads", into.threads.len());
    assert!(into.threads.len() > 5_000);
    // In turns, so that other load of the machine affects all alike.
    let mut rounds: Vec<[Duration; 4]> = Vec::new();
    for _ in 0..9 {
        rounds.push([
            cpu_time_of(1, || {
                sys::list_threads(&mut threads).unwrap();
                let read = threads.iter().filter(|thread| sys::thread_times(thread.tid).is_ok()).count();
                assert!(read > 5_000);
            }),
            cpu_time_of(8, || {
                sys::query(measure::PROCESSES, &mut answer).unwrap();
            }),
            cpu_time_of(8, || nt.source.snapshot(&mut into).unwrap()),
            cpu_time_of(1, || toolhelp.source.snapshot(&mut into).unwrap()),
        ]);
    }
    let names =
        ["list, OpenThread and GetThreadTimes", "NtQuerySystemInformation", "pass of nt", "pass of toolhelp"];
    for (at, name) in names.into_iter().enumerate() {
        let median = |mut values: Vec<Duration>| {
            values.sort_unstable();
            values[values.len() / 2]
        };
        let spent = median(rounds.iter().map(|round| round[at]).collect());
        let thousandths =
            |round: &[Duration; 4]| Duration::from_secs(1).mul_f64(round[at].div_duration_f64(round[0]));
        println!(
            "{name}: {spent:?}, {:.3} of the first",
            median(rounds.iter().map(thousandths).collect()).as_secs_f64()
        );
    }
    for mut process in processes {
        drop(process.stdin.take());
        assert!(process.wait().unwrap().success());
    }
    drop(outputs);
}

/// Lives until it is stopped.
fn wait(stop: &AtomicBool, ready: &AtomicU32) {
    ready.store(own_id(), Ordering::SeqCst);
    while !stop.load(Ordering::SeqCst) {
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn threads_services_and_command_lines_have_names() {
    for choice in [SourceChoice::Nt, SourceChoice::Toolhelp] {
        let mut source = open(&SourceOptions { choice, cmdline: true, ..SourceOptions::default() }).unwrap();
        let (stop, ready, long) = (AtomicBool::new(false), AtomicU32::new(0), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for (name, ready) in [("größe-漢字-thread".to_owned(), &ready), ("漢".repeat(9_000), &long)]
            {
                let begun = std::thread::Builder::new().name(name);
                let stop = &stop;
                begun.spawn_scoped(scope, move || wait(stop, ready)).unwrap();
                while ready.load(Ordering::SeqCst) == 0 {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            let snapshot = pass(&mut source);
            stop.store(true, Ordering::SeqCst);
            let named = thread(&snapshot, ready.load(Ordering::SeqCst)).comm;
            assert_eq!(named.to_str_lossy(), "größe-漢字-", "{choice}: 15 bytes, whole characters");
            let named = thread(&snapshot, long.load(Ordering::SeqCst)).comm;
            assert_eq!(named.to_str_lossy(), "漢漢漢漢漢", "{choice}: of a long name too");
            let infos = snapshot.processes.iter().map(|process| (process.key.pid, &process.info));
            let own = infos.clone().find(|(pid, _)| *pid == std::process::id()).unwrap().1;
            println!("{choice}: {}", own.cmdline);
            assert!(own.cmdline.ends_with("--test-threads=1"), "{choice}: {}", own.cmdline);
            let services: Vec<_> = infos.filter(|(_, info)| !info.service().is_empty()).collect();
            services.iter().for_each(|(_, info)| println!("{choice}: {} is {}", info.name, info.service()));
            assert!(!services.is_empty(), "{choice}");
        });
    }
}

/// Wine's libraries have version resources as those of Windows do, its programs have none, and neither has this one.
#[test]
fn the_product_of_an_executable_is_read_from_a_fixed_disk_only() {
    let product =
        |path: &str, most_bytes| sys::product_of(&path.encode_utf16().collect::<Vec<_>>(), most_bytes);
    let system = r"C:\windows\system32\kernel32.dll";
    let name = product(system, sys::MAX_VERSION_BYTES).unwrap();
    println!("{system}: {name}");
    assert!(if sys::is_wine() { name == "Wine" } else { name.contains("Windows") }, "{name}");
    assert_eq!(product(system, 64), None, "larger version data than this");
    let own = std::env::current_exe().unwrap();
    assert_eq!(product(own.to_str().unwrap(), sys::MAX_VERSION_BYTES), None, "no resource");
    for refused in [
        "",
        "kernel32.dll",
        r"\windows\system32\kernel32.dll",
        r"\\localhost\c$\windows\system32\kernel32.dll",
        r"\\?\C:\windows\system32\kernel32.dll",
        r"Q:\windows\system32\kernel32.dll",
        r"C:\windows\system32",
        r"C:\windows\system32\no such file.exe",
    ] {
        assert_eq!(product(refused, sys::MAX_VERSION_BYTES), None, "{refused}");
    }
    assert_eq!(product(&format!(r"C:\{}", "x\\".repeat(40_000)), sys::MAX_VERSION_BYTES), None);
}

#[test]
fn a_steady_pass_allocates_nothing() {
    let mut source =
        open(&SourceOptions { choice: SourceChoice::Nt, cmdline: true, ..SourceOptions::default() }).unwrap();
    let mut into = Snapshot::default();
    (0..20).for_each(|_| source.source.snapshot(&mut into).unwrap());
    // Others come and go, so not every pass is steady. Sixty passes read the services again.
    let steady = (0..70).filter(|_| {
        let before = allocations();
        source.source.snapshot(&mut into).unwrap();
        allocations() == before
    });
    let steady = steady.count();
    println!("{steady} of 70 passes allocate nothing");
    assert!(steady > 50, "{steady}");
}

#[test]
fn what_windows_has_not_is_refused_and_the_host_has_a_stable_id() {
    let refused = |options: SourceOptions| open(&options).unwrap_err().to_string();
    let text = refused(SourceOptions { probes: Probes::HISTOGRAMS, ..SourceOptions::default() });
    assert_eq!(text, "histograms of run delay: not available on this operating system");
    refused(SourceOptions { proc_root: "x".into(), ..SourceOptions::default() });
    let (first, second) =
        (host_info(&SourceOptions::default()).unwrap(), host_info(&SourceOptions::default()).unwrap());
    assert_eq!(first, second);
    assert!(!first.hostname.is_empty() && first.kernel.starts_with("Windows "), "{first:?}");
    assert_eq!(
        "procfs".parse::<SourceChoice>().unwrap_err().to_string(),
        "\"procfs\" is not a source: expected auto, nt or toolhelp"
    );
}

/// Wine has none, and reports so; on Windows an administrator's session gives run time by switches, and another user's
/// error names the remedy.
#[test]
fn events_of_the_kernel_need_an_administrator_and_a_real_windows() {
    let with = |choice| open(&SourceOptions { choice, probes: Probes::WAITS, ..SourceOptions::default() });
    let text = with(SourceChoice::Toolhelp).unwrap_err().to_string();
    assert_eq!(text, "events of the kernel (ETW session): it needs --source nt, whose list has all threads");
    let mut source = match with(SourceChoice::Auto) {
        Err(error) => {
            let text = error.to_string();
            println!("{text}");
            let helps = if sys::is_wine() { "Wine has no sessions" } else { "run as administrator" };
            assert!(text.contains(helps), "{text}");
            return;
        }
        Ok(source) => source,
    };
    assert!(!sys::is_wine() && source.probes == Probes::SCHED | Probes::WAITS);
    let before = pass(&mut source);
    let (go, done) = (AtomicBool::new(true), AtomicU32::new(0));
    burn(100_000_000, &AtomicU32::new(0), &go, &done, &AtomicBool::new(true));
    let (after, own) = (pass(&mut source), own_id());
    let ran = thread(&after, own).counters.since(&thread(&before, own).counters).unwrap();
    println!("100 ms of load measured as {} ns by its switches", ran.run_ns);
    assert!(ran.run_ns > 80_000_000 && ran.voluntary_switches > 0, "{ran:?}");
    assert!(after.fields.contains(Fields::SCHED | Fields::WAITS | Fields::EXITS));
}
