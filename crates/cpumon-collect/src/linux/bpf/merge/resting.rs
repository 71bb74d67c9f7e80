//! A made-up host whose threads sleep, run, begin and end. Records of one word for idle threads, in buffers of earlier passes, must
//! make the same snapshots as full records in new buffers. So must threads read from /proc between those of the iterator.

use std::collections::BTreeSet;

use cpumon_model::Moment;

use super::super::pass::{Oddities, Take};
use super::super::records::{PLAIN_RECORD_BYTES, SentHeader, bytes_of};
use super::*;

const SECOND: u64 = 1_000_000_000;

/// The host, and the records that the iterator has sent.
struct RestingHost {
    random: u64,
    pass: u64,
    /// Ascending by tid.
    threads: Vec<TaskRecord>,
    /// Threads that have been idle since they were sent.
    rested: BTreeSet<u32>,
    /// Ended threads whose exit event has not arrived yet.
    on_their_way: Vec<TaskRecord>,
    /// Threads that end right after the iterator visited them.
    ending: Vec<u32>,
    last_tid: u32,
}

impl RestingHost {
    fn new() -> Self {
        let mut host = Self {
            random: 0x9e37_79b9_7f4a_7c15,
            pass: 1,
            threads: Vec::new(),
            rested: BTreeSet::new(),
            on_their_way: Vec::new(),
            ending: Vec::new(),
            last_tid: 100,
        };
        (0..60).for_each(|_| host.begin());
        host
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random.is_multiple_of(count)
    }

    /// A thread begins, of a process that is there or of its own; now and then under an id that lies between others.
    fn begin(&mut self) {
        let tid = if self.one_in(4) {
            (100..self.last_tid).find(|tid| self.threads.iter().all(|task| task.tid != *tid))
        } else {
            None
        };
        let tid = tid.filter(|tid| self.on_their_way.iter().all(|task| task.tid != *tid));
        let tid = tid.unwrap_or(self.last_tid + 1);
        self.last_tid = self.last_tid.max(tid);
        let is_own = self.one_in(3);
        let start_ns = self.pass * SECOND - u64::from(tid) * 1_000;
        let leader = self.threads.iter().rfind(|task| task.is_leader() && task.tid < tid);
        let (pid, process_start_ns) = match leader {
            Some(leader) if !is_own => (leader.pid, leader.start_ns),
            _ => (tid, start_ns),
        };
        let task =
            TaskRecord { tid, pid, start_ns, process_start_ns, parent_pid: 1, ..TaskRecord::default() };
        let at = self.threads.partition_point(|other| other.tid < tid);
        self.threads.insert(at, task);
        self.rested.remove(&tid);
    }

    /// Advances by one second; returns its events.
    fn go_on(&mut self) -> Vec<Event> {
        self.pass += 1;
        let end_ns = self.pass * SECOND;
        let exit =
            |task| Event::Exit(ExitEvent { kind: 1, threads_left: 1, end_ns, cut_ns: 0, group: 0, task });
        let mut events: Vec<Event> = self.on_their_way.drain(..).map(exit).collect();
        let ending = std::mem::take(&mut self.ending);
        self.threads.retain(|task| !ending.contains(&task.tid));
        for at in (0..self.threads.len()).rev() {
            if self.one_in(4) {
                let counters = &mut self.threads[at].counters;
                counters.run_ns += 1_500_000;
                counters.user_ns += 1_000_000;
                counters.voluntary_switches += 1;
                self.rested.remove(&self.threads[at].tid);
            }
            let task = self.threads[at];
            let others = self.threads.iter().filter(|other| other.pid == task.pid).count();
            if (others == 1 || !task.is_leader()) && self.one_in(30) {
                let mut ended = task;
                ended.counters.run_ns += 300_000;
                if self.one_in(3) {
                    events.push(exit(ended));
                    self.ending.push(task.tid);
                    continue;
                }
                self.threads.remove(at);
                if self.one_in(2) {
                    self.on_their_way.push(ended);
                } else {
                    events.push(exit(ended));
                }
            }
        }
        while self.threads.len() < 60 {
            self.begin();
        }
        events
    }

    /// The threads read from /proc.
    fn hidden(&self) -> Vec<TaskRecord> {
        self.threads.iter().filter(|task| is_hidden(task)).copied().collect()
    }

    /// The iterator's output: in full, or one word for each thread that rested.
    fn send_pass(&mut self, all: bool) -> Vec<u8> {
        let mut bytes = Vec::new();
        for task in self.threads.clone().into_iter().filter(|task| !is_hidden(task)) {
            if !all && !self.one_in(16) && self.rested.contains(&task.tid) {
                bytes.extend(head(1, task.tid));
            } else {
                bytes.extend(head(2, task.tid));
                bytes.extend(plain(&task));
            }
            self.rested.insert(task.tid);
        }
        bytes
    }
}

fn is_hidden(task: &TaskRecord) -> bool {
    task.tid.is_multiple_of(5)
}

fn head(kind: u32, tid: u32) -> Vec<u8> {
    bytes_of(&SentHeader { kind, tid }).to_vec()
}

fn plain(task: &TaskRecord) -> Vec<u8> {
    bytes_of(task)[..PLAIN_RECORD_BYTES].to_vec()
}

struct Side {
    merger: PassMerger,
    infos: InfoCache,
    records: PassRecords,
    snapshots: [Snapshot; 2],
    _proc: tempfile::TempDir,
}

impl Side {
    fn new() -> Self {
        let proc = tempfile::tempdir().unwrap();
        Self {
            merger: PassMerger::new(),
            infos: InfoCache::open_in(proc.path(), false),
            records: PassRecords::default(),
            snapshots: Default::default(),
            _proc: proc,
        }
    }

    fn take(&mut self, bytes: &[u8], hidden: &[TaskRecord]) {
        let mut take = Take::new(self.merger.before(), hidden, false, &mut self.records);
        take.all(bytes);
        assert_eq!(take.end(), Oddities::default());
    }

    fn merge(&mut self, pass: u64, events: &[Event]) -> &Snapshot {
        self.snapshots.swap(0, 1);
        let into = &mut self.snapshots[1];
        let left = std::mem::take(&mut into.threads);
        into.clear();
        into.threads = left;
        let boot_ns = pass * SECOND;
        into.begin = Moment { mono_ns: boot_ns, boot_ns, wall_ns: 0 };
        self.merger.merge(&mut self.records, events, boot_ns, LostExits::default(), &mut self.infos, into);
        self.infos.end_pass();
        into
    }
}

#[test]
fn one_word_for_who_rests_makes_the_same_snapshots() {
    let (mut host, mut words, mut full) = (RestingHost::new(), Side::new(), Side::new());
    let (mut settled, mut has_failed) = (0, true);
    for _ in 0..400 {
        let events = host.go_on();
        if host.one_in(20) {
            // A pass that fails half way.
            let bytes = host.send_pass(has_failed);
            let half = host.threads.len() / 2;
            Take::new(words.merger.before(), &host.hidden(), false, &mut words.records).all(&bytes);
            words.records.truncate(half);
            has_failed = true;
        }
        let bytes = host.send_pass(has_failed);
        has_failed = false;
        words.take(&bytes, &host.hidden());
        let is_settled = |place: &&RecordPlace| place.age == RecordPlace::SETTLED;
        settled += words.records.places().iter().filter(is_settled).count();
        full.records = PassRecords::default();
        full.snapshots = Default::default();
        let bytes: Vec<u8> =
            host.threads.iter().flat_map(|task| [head(2, task.tid), plain(task)].concat()).collect();
        full.take(&bytes, &[]);
        let expected = full.merge(host.pass, &events);
        let seen = words.merge(host.pass, &events);
        assert_eq!(seen.threads, expected.threads);
        assert_eq!(seen.processes, expected.processes);
        assert_eq!(seen.exits, expected.exits);
        assert_eq!(seen.exited_total, expected.exited_total);
    }
    assert!(settled > 1_000, "{settled}");
}
