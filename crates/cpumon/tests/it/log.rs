//! A local recorder that is killed, and the import of its log: every accepted interval once, and the recorder's own sums.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use cpumon_agent::{Agent, Sampler, SamplerOptions, Settings};
use cpumon_collect::SourceOptions;
use cpumon_link::spool::{SpoolOptions, SyncPolicy};
use cpumon_model::{BootId, HostInfo, SourceKind};
use cpumon_store::{Query, Reader};

use crate::made_up::{HOST, MadeUp, write_log_of};
use crate::support::{clean, ok, run, text};

/// Time between two snapshots of the recorder.
const INTERVAL: Duration = Duration::from_millis(100);
/// Time between two writes where they are gathered.
const GATHERED: Duration = Duration::from_millis(500);

/// Not a test of its own: the recorder that the tests below start and kill. After each snapshot it says its sequence number
/// and the run time of all threads since its first one.
#[test]
#[ignore = "started by other tests"]
fn recorder() {
    let Ok(dir) = std::env::var("TEST_LOG") else { return };
    let number = |name: &str| std::env::var(name).unwrap().parse::<u64>().unwrap();
    let source = SourceOptions { interval: INTERVAL, ..SourceOptions::default() };
    let made_up = MadeUp::new(number("TEST_SEED"), BootId([u8::try_from(number("TEST_RUN")).unwrap(); 16]));
    let (boot, total) = (made_up.boot, made_up.total());
    let info = HostInfo { host: HOST, boot, hostname: "made-up".into(), ..HostInfo::default() };
    let sampler = Sampler::from_source(Box::new(made_up), SourceKind::Simulated, info, &source);
    let sync = if number("TEST_GATHERS") == 1 { SyncPolicy::Every(GATHERED) } else { SyncPolicy::Always };
    let settings = Settings {
        sampler: SamplerOptions { source, hostname: None, max_cpu: None },
        to: Vec::new(),
        v1: false,
        group_key: None,
        pace: None,
        max_datagram: None,
        refresh: None,
        count: None,
        connection: None,
        flight: None,
        recording: Some(SpoolOptions {
            dir: dir.into(),
            max_bytes: number("TEST_BYTES"),
            sync,
            interval: INTERVAL,
        }),
    };
    let mut agent = Agent::with_sampler(sampler, &settings).unwrap();
    // It ends when it is killed, and not much later by itself.
    for sequence in 0..600 {
        agent.step(&AtomicBool::new(false)).unwrap();
        let line = format!("made {sequence} {}\n", total.lock().unwrap());
        std::io::stdout().write_all(line.as_bytes()).unwrap();
    }
}

/// A directory in memory where there is one: a kill costs nothing that was written, and a slow disk would only cost time.
fn place() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| tempfile::tempdir().unwrap())
}

/// A recorder; killed when dropped.
struct Recorder {
    child: Child,
    /// Its messages: sequence and run time.
    messages: BTreeMap<u64, i64>,
}

impl Recorder {
    fn start(dir: &Path, run: u64, gathers: bool, max_bytes: u64) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        clean(&mut command);
        command.args(["--exact", "log::recorder", "--ignored", "--nocapture", "--test-threads=1"]);
        for (name, value) in
            [("RUN", run), ("SEED", 77 + run), ("GATHERS", u64::from(gathers)), ("BYTES", max_bytes)]
        {
            command.env(format!("TEST_{name}"), value.to_string());
        }
        let child = command.env("TEST_LOG", dir).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        Self { child: child.unwrap(), messages: BTreeMap::new() }
    }

    /// Lets it make this many snapshots, then kills it with SIGKILL and reads its last messages.
    fn kill_after(&mut self, snapshots: u64) {
        let mut lines = BufReader::new(self.child.stdout.take().unwrap()).lines();
        while self.messages.len() < usize::try_from(snapshots).unwrap() {
            let line = lines.next().expect("it makes snapshots").unwrap();
            self.hear(&line);
        }
        self.child.kill().unwrap();
        while let Some(Ok(line)) = lines.next() {
            self.hear(&line);
        }
        self.child.wait().unwrap();
    }

    fn hear(&mut self, line: &str) {
        // The test harness begins its own line before.
        if let Some((_, words)) = line.split_once("made ")
            && let Some((sequence, run_ns)) = words.split_once(' ')
            && let (Ok(sequence), Ok(run_ns)) = (sequence.parse(), run_ns.parse())
        {
            self.messages.insert(sequence, run_ns);
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Run time of all processes by sequence number, of one boot.
fn stored(store: &Path, boot: BootId) -> BTreeMap<u64, i64> {
    let mut sums = BTreeMap::new();
    let reader = Reader::open(store).unwrap();
    let mut reading = reader.intervals(&Query::new(HOST)).unwrap();
    while let Some(stored) = reading.read().unwrap() {
        let interval = &stored.interval;
        // An interval without length marks where another agent start begins.
        if interval.boot == boot && interval.duration_ns() > 0 {
            let run_ns: i64 = interval.processes.iter().map(|row| row.delta.run_ns).sum();
            assert_eq!(sums.insert(interval.sequence, run_ns), None, "twice: {}", interval.sequence);
        }
    }
    sums
}

fn import(log: &Path, store: &Path) -> (i32, String) {
    let output = run(&["import", &log.display().to_string(), "--store", &store.display().to_string()]);
    (output.status.code().unwrap(), text(&output.stdout) + &text(&output.stderr))
}

#[test]
fn a_killed_recorder_loses_nothing_that_was_accepted_and_the_sums_agree() {
    kill_and_import(false);
}

#[test]
fn a_killed_recorder_that_gathers_loses_no_more_than_it_says() {
    kill_and_import(true);
}

fn kill_and_import(gathers: bool) {
    let dir = place();
    let (log, store) = (dir.path().join("log"), dir.path().join("s.db"));
    for run in 1..=3_u64 {
        let mut recorder = Recorder::start(&log, run, gathers, 8 << 20);
        recorder.kill_after(8 + run * 5 % 9);
        let (code, messages) = import(&log, &store);
        assert_eq!(code, 0, "{messages}");
        let boot = BootId([u8::try_from(run).unwrap(); 16]);
        let sums = stored(&store, boot);
        let (&last_acked, _) = recorder.messages.last_key_value().unwrap();
        let &last = sums.last_key_value().unwrap().0;
        // Written together: a kill may cost the snapshots gathered in that time.
        let may_wait = if gathers { GATHERED.as_millis() / INTERVAL.as_millis() + 1 } else { 0 };
        assert!(u128::from(last) + may_wait >= u128::from(last_acked), "{last} of {last_acked}: {messages}");
        assert_eq!(sums.keys().copied().collect::<Vec<_>>(), (1..=last).collect::<Vec<_>>());
        let upto = last.min(last_acked);
        let total: i64 = sums.range(..=upto).map(|row| row.1).sum();
        assert_eq!(total, recorder.messages[&upto], "run {run}");
        assert!(total > 0);
    }
    // Once more: nothing changes.
    let before = ok(&["export", "threads", "--store", &store.display().to_string()]);
    let (code, messages) = import(&log, &store);
    assert!(code == 0 && messages.contains(": 0 intervals stored, "), "{messages}");
    assert_eq!(ok(&["export", "threads", "--store", &store.display().to_string()]), before);
}

#[test]
fn what_a_full_log_dropped_is_a_hole_in_the_store_noted_once() {
    let dir = place();
    let (log, store) = (dir.path().join("log"), dir.path().join("s.db"));
    let mut recorder = Recorder::start(&log, 1, false, 64 << 10);
    recorder.kill_after(60);
    let boot = BootId([1; 16]);
    let mut all = BTreeMap::new();
    let mut missing = Vec::new();
    for round in 0..2 {
        let (code, messages) = import(&log, &store);
        assert_eq!(code, 3, "{messages}");
        assert!(messages.contains("dropped, the device's log was full"), "{messages}");
        all = stored(&store, boot);
        let gaps = Reader::open(&store).unwrap().losses(HOST, cpumon_store::TimeRange::ALL, 10).unwrap();
        missing = gaps.iter().map(|gap| gap.intervals).collect();
        assert_eq!(missing.len(), 1, "round {round}: {gaps:?}");
    }
    let (&first, &last) = (all.first_key_value().unwrap().0, all.last_key_value().unwrap().0);
    assert_eq!(all.len() as u64, last - first + 1);
    // The snapshots 0 to first − 2 are gone; first − 1 is where the remaining ones begin.
    assert_eq!(missing, [first - 1]);
    // The recorder continues and drops more, imported snapshots too: only snapshots that were never imported are missing.
    let mut recorder = Recorder::start(&log, 2, false, 64 << 10);
    recorder.kill_after(40);
    import(&log, &store);
    let gaps = Reader::open(&store).unwrap().losses(HOST, cpumon_store::TimeRange::ALL, 10).unwrap();
    let missing: u64 = gaps.iter().map(|gap| gap.intervals).sum();
    let second = stored(&store, BootId([2; 16]));
    let accepted = last + 1 + second.last_key_value().unwrap().0 + 1;
    // The first snapshot of each recorder ends no interval.
    assert_eq!(all.len() as u64 + second.len() as u64 + missing + 2, accepted, "{gaps:?}");
}

#[test]
fn damage_in_a_log_is_counted_and_the_rest_is_imported() {
    let dir = place();
    let (log, store) = (dir.path().join("log"), dir.path().join("s.db"));
    for run in 1..=2 {
        Recorder::start(&log, run, false, 8 << 20).kill_after(12);
    }
    let segment = log.join("00000000000000000001.segment");
    let mut bytes = std::fs::read(&segment).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x40;
    std::fs::write(&segment, bytes).unwrap();
    let (code, messages) = import(&log, &store);
    assert_eq!(code, 3, "{messages}");
    assert!(
        messages.contains("damaged on the device") && messages.contains("1 damaged parts were skipped"),
        "{messages}"
    );
    assert!(!stored(&store, BootId([1; 16])).is_empty() && stored(&store, BootId([2; 16])).len() >= 11);
}

#[test]
fn clones_with_one_machine_id_are_named_when_their_recordings_are_imported() {
    let dir = place();
    let store = dir.path().join("s.db");
    let hour_ns = 3_600_000_000_000;
    let begin_ns = cpumon_store::wall_now_ns() + hour_ns;
    let record = |boot: u8, name: &str, begin_ns: i64| {
        let log = dir.path().join(name);
        write_log_of(MadeUp::new(5, BootId([boot; 16])).at(begin_ns), name, &log, 20, 8 << 20);
        import(&log, &store)
    };
    let (code, messages) = record(1, "kitchen", begin_ns);
    assert!(code == 0 && !messages.contains("machine-id"), "{messages}");
    let (code, messages) = record(2, "kitchen-again", begin_ns + hour_ns);
    assert!(code == 0 && !messages.contains("machine-id"), "a later boot is the same machine: {messages}");
    let (code, messages) = record(3, "cellar", begin_ns);
    assert_eq!(code, 0, "{messages}");
    for part in [&*format!("the host id {HOST}, "), "kitchen", "cellar", "/etc/machine-id"] {
        assert!(messages.contains(part), "{part}: {messages}");
    }
}

#[test]
fn an_import_of_nothing_says_so() {
    let dir = place();
    let store = dir.path().join("s.db");
    let (code, messages) = import(dir.path(), &store);
    assert!(code == 1 && messages.contains("holds no recording"), "{messages}");
    let path = dir.path().display().to_string();
    let wrong = run(&["import", &path, "--host", "x", "--store", &store.display().to_string()]);
    assert_eq!(wrong.status.code(), Some(2));
}
