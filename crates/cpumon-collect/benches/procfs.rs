//! Cost of reading every thread. In: a load that this program starts itself (10,000 sleeping threads, 200 active ones,
//! spread in two ways). Out: a table of CPU time per thread and pass for each way of reading, all in the same run, and
//! the ratio to the plain loop. `cargo bench -p cpumon-collect --bench procfs`; takes about a minute, ends its own load.
//! `-- WORDS` measures only the ways whose names contain these words.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use cpumon_collect::{SourceChoice, SourceOptions, open};
use cpumon_model::{Interval, Snapshot};
use io_uring::{IoUring, opcode, types};
use rustix::fs::{Mode, OFlags, openat};
use rustix::time::{ClockId, clock_gettime};

const IDLE: usize = 10_000;
const ACTIVE: usize = 200;
const ROUNDS: usize = 15;
const STACK_BYTES: usize = 64 << 10;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, role, idle, active] = arguments.as_slice()
        && role == "load"
    {
        return hold(idle.parse().unwrap_or(0), active.parse().unwrap_or(0));
    }
    // `cargo test --benches` runs this too: a small round then, to see that it works.
    let (idle, active, rounds) = if arguments.iter().any(|argument| argument == "--bench") {
        (IDLE, ACTIVE, ROUNDS)
    } else {
        (100, 4, 2)
    };
    for (name, spread) in [
        ("active threads in a process of their own", vec![(idle, 0), (0, active)]),
        ("active threads spread over 20 processes, as in `xtask load`", vec![(idle / 20, active / 20); 20]),
        ("active threads in the one big process", vec![(idle, active)]),
    ] {
        let loads: Vec<Load> = spread.iter().map(|&(idle, active)| Load::start(idle, active)).collect();
        report(name, &loads, rounds, arguments.get(1).filter(|only| !only.starts_with('-')));
    }
}

/// A child process that holds threads until its standard input closes.
struct Load {
    child: Child,
    _stdin: Option<ChildStdin>,
}

impl Load {
    fn start(idle: usize, active: usize) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("own path"))
            .args(["load", &idle.to_string(), &active.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("starting a load");
        let mut line = String::new();
        let out = child.stdout.take().expect("its output");
        BufReader::new(out).read_line(&mut line).expect("its ready line");
        let stdin = child.stdin.take();
        Self { child, _stdin: stdin }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The child: sleeping threads, and active ones that work 100 µs every 200 ms.
fn hold(idle: usize, active: usize) {
    for nth in 0..idle + active {
        let builder = std::thread::Builder::new().stack_size(STACK_BYTES);
        let body = move || {
            if nth < idle {
                std::thread::park();
            }
            std::thread::sleep(Duration::from_micros(200_000 * (nth as u64 % 97) / 97));
            loop {
                let start = std::time::Instant::now();
                while start.elapsed() < Duration::from_micros(100) {
                    std::hint::spin_loop();
                }
                std::thread::sleep(Duration::from_millis(200));
            }
        };
        builder.spawn(body).expect("starting a thread");
    }
    println!("ready");
    let _ = std::io::stdin().read(&mut [0]);
}

/// One way of reading: makes a pass and returns how many threads it read.
type Way = Box<dyn FnMut() -> usize>;

/// Measures every way, round by round, so that all see the same machine.
fn report(name: &str, loads: &[Load], rounds: usize, only: Option<&String>) {
    let mut ways: Vec<(&str, Way)> = vec![
        ("open-read-close of stat, by path (the plain loop)", Box::new(plain_loop(loads))),
        ("openat-read-close of schedstat from kept directories", Box::new(kept_directories(loads))),
        ("pread of schedstat, kept descriptors", Box::new(kept_descriptors(loads))),
        ("io_uring batches of 256 on kept descriptors", Box::new(ring(loads))),
        ("procfs source, whole snapshot of the machine", Box::new(source())),
        ("procfs source and differ", Box::new(source_and_differ())),
    ];
    ways.retain(|(way, _)| only.is_none_or(|only| way.contains(only.as_str())));
    let mut costs = vec![Vec::new(); ways.len()];
    for round in 0..rounds + 6 {
        for ((_, way), costs) in ways.iter_mut().zip(&mut costs) {
            // In between, most of the active threads run once more.
            std::thread::sleep(Duration::from_millis(120));
            let before = cpu_ns();
            let threads = way();
            let cost = (cpu_ns() - before) as f64 / threads as f64;
            if round >= 6 {
                costs.push(cost);
            }
        }
    }
    println!("\n{name}: {} processes", loads.len());
    let mut plain = None;
    for ((way, _), costs) in ways.iter().zip(&mut costs) {
        costs.sort_by(f64::total_cmp);
        let median = costs[costs.len() / 2];
        let plain = *plain.get_or_insert(median);
        println!("| {way} | {:.2} µs | {:.2} |", median / 1000.0, median / plain);
    }
}

fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

fn tasks(loads: &[Load]) -> Vec<(u32, u32)> {
    let tids = |pid: u32| {
        let entries = fs::read_dir(format!("/proc/{pid}/task")).expect("task list");
        entries.filter_map(move |entry| Some((pid, entry.ok()?.file_name().to_str()?.parse().ok()?)))
    };
    loads.iter().flat_map(|load| tids(load.child.id())).collect()
}

fn plain_loop(loads: &[Load]) -> impl FnMut() -> usize + use<> {
    let tasks = tasks(loads);
    let (mut path, mut buffer) = (String::new(), [0; 4096]);
    move || {
        for (pid, tid) in &tasks {
            path.clear();
            let _ = write!(path, "/proc/{pid}/task/{tid}/stat");
            let read = File::open(&path).and_then(|mut file| file.read(&mut buffer));
            assert!(read.is_ok_and(|count| count > 0));
        }
        tasks.len()
    }
}

fn kept_directories(loads: &[Load]) -> impl FnMut() -> usize + use<> {
    let pids: Vec<u32> = loads.iter().map(|load| load.child.id()).collect();
    let dirs: Vec<File> =
        pids.iter().map(|pid| File::open(format!("/proc/{pid}/task")).expect("task")).collect();
    let tasks = tasks(loads);
    let places: Vec<(usize, u32)> =
        tasks.iter().map(|(pid, tid)| (pids.iter().position(|p| p == pid).unwrap_or(0), *tid)).collect();
    let (mut path, mut buffer) = (String::new(), [0; 4096]);
    move || {
        for &(dir, tid) in &places {
            path.clear();
            let _ = write!(path, "{tid}/schedstat");
            let fd = openat(&dirs[dir], path.as_str(), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
            let read = File::from(fd.expect("schedstat")).read(&mut buffer);
            assert!(read.is_ok_and(|count| count > 0));
        }
        places.len()
    }
}

fn schedstats(loads: &[Load]) -> Vec<File> {
    // Opening a source raises the limit of open files.
    let _ = open(&SourceOptions { choice: SourceChoice::Procfs, ..SourceOptions::default() });
    let open =
        |(pid, tid): &(u32, u32)| File::open(format!("/proc/{pid}/task/{tid}/schedstat")).expect("schedstat");
    // A part of the threads: the sources need descriptors too.
    tasks(loads).iter().take(2_000).map(open).collect()
}

fn kept_descriptors(loads: &[Load]) -> impl FnMut() -> usize + use<> {
    let files = schedstats(loads);
    let mut buffer = [0; 128];
    move || {
        for file in &files {
            assert!(file.read_at(&mut buffer, 0).is_ok_and(|count| count > 0));
        }
        files.len()
    }
}

fn ring(loads: &[Load]) -> impl FnMut() -> usize + use<> {
    let files = schedstats(loads);
    let mut ring = IoUring::new(256).expect("io_uring");
    let mut buffers = vec![[0_u8; 128]; 256];
    move || {
        for batch in files.chunks(256) {
            for (file, buffer) in batch.iter().zip(&mut buffers) {
                let read = opcode::Read::new(types::Fd(file.as_raw_fd()), buffer.as_mut_ptr(), 128).build();
                // SAFETY: descriptors and buffers outlive their use by the ring: the batch is waited for below.
                #[expect(unsafe_code, reason = "io_uring takes raw pointers")]
                unsafe {
                    ring.submission().push(&read).expect("space for a batch");
                }
            }
            ring.submit_and_wait(batch.len()).expect("reading");
            assert!(ring.completion().all(|done| done.result() > 0));
        }
        files.len()
    }
}

fn source() -> impl FnMut() -> usize {
    let options = SourceOptions { choice: SourceChoice::Procfs, ..SourceOptions::default() };
    let mut source = open(&options).expect("a source").source;
    let mut snapshot = Snapshot::default();
    move || {
        source.snapshot(&mut snapshot).expect("a snapshot");
        snapshot.threads.len()
    }
}

fn source_and_differ() -> impl FnMut() -> usize {
    let options = SourceOptions { choice: SourceChoice::Procfs, ..SourceOptions::default() };
    let mut source = open(&options).expect("a source").source;
    let (mut previous, mut current, mut interval) =
        (Snapshot::default(), Snapshot::default(), Interval::default());
    move || {
        std::mem::swap(&mut previous, &mut current);
        source.snapshot(&mut current).expect("a snapshot");
        interval.fill(&previous, &current);
        current.threads.len()
    }
}
