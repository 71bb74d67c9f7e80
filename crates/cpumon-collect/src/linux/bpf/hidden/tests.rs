//! A made-up /proc, and the records that the iterator makes from it.

use std::fs;
use std::path::PathBuf;

use cpumon_model::{Counters, CpuSample, ProcessKey, ProcessSample};

use super::super::super::procfs::MAX_CHOSEN_THREADS;
use super::*;

const SECOND: u64 = 1_000_000_000;
/// The iterator set out then; threads of the tree began in second 1.
const OBSERVED_NS: u64 = 10 * SECOND;

struct Tree(tempfile::TempDir);

impl Tree {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn dir(&self, pid: u32, tid: u32) -> PathBuf {
        self.0.path().join(format!("{pid}/task/{tid}"))
    }

    /// Writes a thread in this state, with its start in ticks after boot and its run time.
    fn put(&self, (pid, tid): (u32, u32), state: char, start_ticks: u64, run_ns: u64) {
        let dir = self.dir(pid, tid);
        fs::create_dir_all(&dir).unwrap();
        let stat = format!(
            "{tid} (init) {state} 7 {pid} {pid} 0 -1 4194304 40 9 3 9 30 10 0 0 19 -1 1 0 {start_ticks} 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 17 3 0 0 0 0 0\n"
        );
        let status =
            "Name:\tinit\nUid:\t5\t5\t5\t5\nvoluntary_ctxt_switches:\t8\nnonvoluntary_ctxt_switches:\t2\n";
        fs::write(dir.join("stat"), &stat).unwrap();
        fs::write(dir.join("status"), status).unwrap();
        fs::write(dir.join("schedstat"), format!("{run_ns} 500 10\n")).unwrap();
        if pid == tid {
            fs::write(self.0.path().join(format!("{pid}/stat")), &stat).unwrap();
        }
    }

    fn end(&self, pid: u32, tid: u32) {
        let dir = if pid == tid { self.0.path().join(pid.to_string()) } else { self.dir(pid, tid) };
        fs::remove_dir_all(dir).unwrap();
    }

    fn hidden(&self) -> Hidden {
        Hidden::with(Some(Chosen::open(self.0.path(), false).unwrap()))
    }
}

/// Records of the iterator.
fn shown_records(threads: &[(u32, u32)]) -> Vec<TaskRecord> {
    threads.iter().map(|&(pid, tid)| TaskRecord { tid, pid, ..TaskRecord::default() }).collect()
}

fn tids(hidden: &Hidden) -> Vec<u32> {
    hidden.threads().iter().map(|task| task.tid).collect()
}

#[test]
fn a_process_in_proc_that_the_iterator_does_not_report_is_hidden() {
    let tree = Tree::new();
    tree.put((1, 1), 'S', 100, 9_000);
    tree.put((1, 6), 'R', 110, 400);
    tree.put((4, 4), 'S', 100, 1);
    // The main thread has ended, another one is reported.
    tree.put((5, 5), 'Z', 100, 1);
    // A zombie, and one that began after the iterator had passed by.
    tree.put((8, 8), 'Z', 100, 1);
    tree.put((9, 9), 'R', 999, 1);
    let mut hidden = tree.hidden();
    assert!(hidden.find(&shown_records(&[(4, 4), (5, 7)]), OBSERVED_NS));
    hidden.read();
    assert_eq!(tids(&hidden), [1, 6]);
    assert_eq!(hidden.describe(), "2 threads of init (1)");
    let task = hidden.threads()[1];
    let shown = task.to_sample();
    assert_eq!((task.start_ns, task.process_key().start_ns, task.pid), (1_100_000_000, SECOND, 1));
    let counters = Counters {
        // Three ticks of four were in user mode.
        user_ns: 300,
        system_ns: 100,
        run_ns: 400,
        run_delay_ns: 500,
        voluntary_switches: 8,
        involuntary_switches: 2,
        minor_faults: 40,
        major_faults: 3,
    };
    assert_eq!(task.counters, counters);
    assert_eq!((task.parent_pid, task.uid, task.cpu, task.priority, task.nice), (7, 5, 3, 19, -1));
    assert_eq!((shown.comm.to_str_lossy().as_ref(), shown.state.letter()), ("init", 'R'));
    assert!(!hidden.find(&shown_records(&[(4, 4), (5, 7)]), OBSERVED_NS), "none is new");
}

#[test]
fn threads_that_begin_run_and_end_are_followed_and_what_the_ended_ran_stays_with_their_process() {
    let tree = Tree::new();
    tree.put((1, 1), 'S', 100, 9_000);
    tree.put((1, 6), 'S', 110, 400);
    let mut hidden = tree.hidden();
    hidden.find(&[], OBSERVED_NS);
    hidden.read();
    tree.put((1, 6), 'S', 110, 700);
    tree.put((1, 12), 'S', 500, 50);
    hidden.read();
    let runs: Vec<u64> = hidden.threads().iter().map(|task| task.counters.run_ns).collect();
    assert_eq!((tids(&hidden), runs), (vec![1, 6, 12], vec![9_000, 700, 50]));
    tree.end(1, 6);
    hidden.read();
    assert_eq!(tids(&hidden), [1, 12]);
    let key = ProcessKey { pid: 1, start_ns: SECOND };
    let mut snapshot = Snapshot {
        processes: vec![ProcessSample { key, ..ProcessSample::default() }],
        ..Snapshot::default()
    };
    hidden.complete(&mut snapshot);
    assert!(snapshot.processes[0].ended_threads.run_ns >= 700, "{:?}", snapshot.processes[0].ended_threads);
    // The id is used again.
    tree.end(1, 1);
    tree.put((1, 1), 'S', 2_000, 3);
    hidden.read();
    assert_eq!(tids(&hidden), [] as [u32; 0]);
    assert!(hidden.find(&[], 30 * SECOND));
    hidden.read();
    assert_eq!((tids(&hidden), hidden.threads()[0].start_ns), (vec![1], 20 * SECOND));
}

#[test]
fn a_process_that_the_iterator_reports_later_is_hidden_no_more() {
    let tree = Tree::new();
    tree.put((1, 1), 'S', 100, 9_000);
    tree.put((3, 3), 'S', 100, 9_000);
    let mut hidden = tree.hidden();
    hidden.find(&[], OBSERVED_NS);
    hidden.read();
    assert_eq!((tids(&hidden), hidden.describe().as_str()), (vec![1, 3], "2 threads of init (1) and 1 more"));
    // The records of a pass have the hidden ones as well.
    let mut records = hidden.threads().to_vec();
    records[1].flags = 0;
    hidden.find_again(&records, OBSERVED_NS, 1, &Snapshot::default());
    hidden.read();
    assert_eq!((tids(&hidden), hidden.describe().as_str()), (vec![1], "1 thread of init (1)"));
}

#[test]
fn a_process_with_too_many_threads_is_left_out() {
    let tree = Tree::new();
    tree.put((1, 1), 'S', 100, 9_000);
    for tid in 0..MAX_CHOSEN_THREADS {
        fs::create_dir_all(tree.dir(3, 3 + u32::try_from(tid).unwrap())).unwrap();
    }
    tree.put((3, 3), 'S', 100, 9_000);
    let mut hidden = tree.hidden();
    hidden.find(&[], OBSERVED_NS);
    hidden.read();
    assert_eq!(tids(&hidden), [1], "{MAX_CHOSEN_THREADS} fit");
    let left_out = |hidden: &Hidden| {
        let mut snapshot = Snapshot::default();
        hidden.complete(&mut snapshot);
        usize::try_from(snapshot.health.hidden_left_out).unwrap()
    };
    assert_eq!(left_out(&hidden), MAX_CHOSEN_THREADS);
    hidden.find(&[], OBSERVED_NS);
    assert_eq!(left_out(&hidden), MAX_CHOSEN_THREADS, "counted once, however often they are read");
    // One that grows beyond that is no longer updated.
    for tid in 0..MAX_CHOSEN_THREADS {
        fs::create_dir_all(tree.dir(1, 100_000 + u32::try_from(tid).unwrap())).unwrap();
    }
    tree.put((1, 1), 'S', 100, 9_500);
    hidden.read();
    assert_eq!((tids(&hidden), hidden.threads()[0].counters.run_ns), (vec![1], 9_000));
    assert_eq!(left_out(&hidden), 2 * MAX_CHOSEN_THREADS + 1);
    // One goes, the other one shrinks.
    fs::remove_dir_all(tree.0.path().join("3")).unwrap();
    for tid in 0..MAX_CHOSEN_THREADS {
        tree.end(1, 100_000 + u32::try_from(tid).unwrap());
    }
    tree.put((1, 1), 'S', 100, 9_700);
    hidden.find(&[], OBSERVED_NS);
    hidden.read();
    assert_eq!((tids(&hidden), hidden.threads()[0].counters.run_ns, left_out(&hidden)), (vec![1], 9_700, 0));
}

#[test]
fn files_that_make_no_sense_are_counted_and_refused_ones_leave_the_others_alone() {
    let tree = Tree::new();
    tree.put((1, 1), 'S', 100, 9_000);
    tree.put((2, 2), 'S', 100, 9_000);
    fs::write(tree.dir(2, 2).join("stat"), "2 (no end").unwrap();
    let mut hidden = tree.hidden();
    hidden.find(&[], OBSERVED_NS);
    hidden.read();
    assert_eq!(tids(&hidden), [1]);
    let mut snapshot = Snapshot::default();
    hidden.complete(&mut snapshot);
    assert!(snapshot.health.malformed > 0);
}

#[test]
fn where_ids_may_mean_other_processes_none_is_called_hidden() {
    let tree = Tree::new();
    tree.put((1, 1), 'S', 100, 9_000);
    let mut hidden = Hidden::open(tree.0.path()).unwrap();
    assert!(!hidden.is_known() && !hidden.find(&[], OBSERVED_NS));
    hidden.read();
    assert_eq!(tids(&hidden), [] as [u32; 0]);
}

#[test]
fn rescans_need_unexplained_time_and_become_rarer() {
    let sums = |unknown_ns: u64, ran_ns| HiddenTotals { unknown_ns: Some(unknown_ns), ran_ns };
    let passes_until = |rescan: &mut Rescan, now: HiddenTotals| (1..2_000).find(|_| rescan.is_due(now));
    let mut rescan = Rescan::NEW;
    // CPU time from before the first pass starts no scan.
    assert!(!rescan.is_due(sums(0, 50 * SECOND)));
    assert_eq!(passes_until(&mut rescan, sums(SECOND, 51 * SECOND)), None, "they ran it all");
    let unknown = sums(SECOND + WORTH_A_RESCAN_NS, 51 * SECOND);
    assert_eq!(passes_until(&mut rescan, unknown), Some(1));
    let mut waits = Vec::new();
    for nth in 1..9 {
        let now = sums(nth * SECOND * 2, 51 * SECOND);
        rescan.finish(false, now);
        waits.push(passes_until(&mut rescan, sums((nth * 2 + 1) * SECOND, 51 * SECOND)).unwrap());
    }
    assert_eq!(waits, [16, 32, 64, 128, 256, 512, 512, 512]);
    rescan.finish(true, unknown);
    assert_eq!(rescan.wait, FIRST_WAIT);
    // Where no switch is watched there is no unexplained time: it scans at intervals.
    let blind = HiddenTotals::default();
    let mut rescan = Rescan::NEW;
    assert_eq!(passes_until(&mut rescan, blind), Some(8));
}

#[test]
fn unknown_time_causes_a_rescan_that_finds_a_later_process() {
    let tree = Tree::new();
    tree.put((1, 1), 'S', 100, 9_000);
    let mut hidden = tree.hidden();
    hidden.find(&[], OBSERVED_NS);
    hidden.read();
    tree.put((33, 33), 'S', 1_100, 5_000);
    let mut snapshot =
        Snapshot { fields: Fields::all(), cpus: vec![CpuSample::default()], ..Snapshot::default() };
    for _ in 0..20 {
        hidden.find_again(&[], 20 * SECOND, 0, &snapshot);
        hidden.read();
    }
    assert_eq!(tids(&hidden), [1], "no reason to scan");
    snapshot.cpus[0].sched.unknown_ns = WORTH_A_RESCAN_NS;
    hidden.find_again(&[], 20 * SECOND, 0, &snapshot);
    hidden.read();
    assert_eq!(tids(&hidden), [1, 33]);
    assert_eq!(snapshot.exited_total, Counters::default());
}

#[test]
fn a_hostile_name_stays_on_its_line() {
    let tree = Tree::new();
    tree.put((1, 1), 'S', 100, 9_000);
    let stat = fs::read_to_string(tree.dir(1, 1).join("stat")).unwrap().replace("(init)", "(a\n\x1b[2J)");
    fs::write(tree.dir(1, 1).join("stat"), stat).unwrap();
    let mut hidden = tree.hidden();
    hidden.find(&[], OBSERVED_NS);
    hidden.read();
    let message = hidden.describe();
    assert!(message.starts_with("1 thread of a") && !message.contains(['\n', '\x1b']), "{message:?}");
}
