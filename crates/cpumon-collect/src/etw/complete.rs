//! Puts the accounts of a session into a snapshot of the system's lists. The lists are read some time after the instant
//! of the accounts, so tasks that began or ended in between are brought back to that instant.

use std::sync::Arc;

use cpumon_model::{
    ExitSample, Fields, IrqSample, Moment, Probes, ProcessInfo, ProcessKey, ProcessSample, SchedTimes,
    Snapshot, ThreadKey, ThreadSample, WaitReason, Waits,
};
use cpumon_sched::ThreadState;

use super::{Ended, SessionAccounts};

/// A listed thread that is this much older than the instant began before it, though no event reported it.
const SURELY_OLDER_NS: u64 = 1_000_000_000;
/// Passes for which a thread without an end event may be missing from the lists.
const MAX_MISSED: u8 = 2;

/// The instant of a snapshot and that of the one before.
#[derive(Copy, Clone)]
struct Cut {
    at: Moment,
    previous: Moment,
}

impl Cut {
    /// A time of the events' clock on the clock of start times.
    fn boot_ns(self, mono_ns: u64) -> u64 {
        self.at.boot_ns.saturating_sub(self.at.mono_ns.saturating_sub(mono_ns))
    }

    /// The start of a task that no list has shown. That clock has coarse steps: a task that began after the previous
    /// instant must not seem older.
    fn start_ns(self, began_ns: Option<u64>) -> u64 {
        let Some(began_ns) = began_ns else { return 0 };
        let least_ns = if began_ns >= self.previous.mono_ns { self.previous.boot_ns } else { 0 };
        self.boot_ns(began_ns).max(least_ns) / 1_000 * 1_000
    }
}

/// Name of an interrupt vector; `u16::MAX`: all further vectors.
fn line_name(line: u16) -> Arc<str> {
    if line == u16::MAX { "other vectors".into() } else { format!("vector {line:#04x}").into() }
}

impl SessionAccounts {
    /// Completes a snapshot whose threads, processes and CPUs the system listed after `at`, the instant of the last [`SessionAccounts::cut`].
    /// `previous`: that of the snapshot before. Of a waiting thread, [`SchedTimes::open_wait`] is why by the list.
    pub fn complete(&mut self, at: Moment, previous: Moment, probes: Probes, into: &mut Snapshot) {
        self.pass += 1;
        let is_first = self.pass == 1;
        for process in &mut into.processes {
            self.bind_process(process);
        }
        self.lives.left_out = 0;
        self.ended_keys.clear();
        self.ended_keys.extend(self.ended.iter().filter_map(|one| one.life.key));
        self.ended_keys.sort_unstable();
        let mut threads = std::mem::take(&mut into.threads);
        threads.retain_mut(|thread| self.complete_thread(thread, at, is_first, probes));
        let cut = Cut { at, previous };
        self.add_leaving(cut, probes, &mut threads);
        threads.sort_unstable_by_key(|thread| thread.key);
        into.threads = threads;
        self.add_exits(cut, probes, into);
        self.drop_young_processes(at, into);
        let has_interrupts = probes.contains(Probes::IRQ);
        self.cpus.fill(self.tracker.sink(), has_interrupts, &mut into.cpus);
        if has_interrupts {
            let lines = self.tracker.sink().lines();
            let names = &mut self.lines;
            into.irqs.extend(lines.map(|(line, times)| IrqSample {
                irq: line.into(),
                name: Arc::clone(names.entry(line).or_insert_with(|| line_name(line))),
                time_ns: times.time_ns,
                count: times.count,
            }));
        }
        self.tracker.sink().begin_interval();
        into.fields |= Fields::RUN_DELAY | Fields::SWITCHES | Fields::EXITS | Fields::SCHED;
        into.fields.set(Fields::WAITS, probes.contains(Probes::WAITS));
        into.fields.set(Fields::IRQ, has_interrupts);
        into.irq_in_run_time = !has_interrupts;
        into.count_tasks();
        into.exited_total = self.exited;
        self.count(probes, into);
        into.sort();
        self.go_on();
    }

    fn count(&mut self, probes: Probes, into: &mut Snapshot) {
        let counts = self.counts();
        let health = &mut into.health;
        health.malformed = health.malformed.saturating_add(counts.malformed).saturating_add(counts.packed);
        health.exits_lost = counts.exits_lost;
        health.tasks_vanished = health.tasks_vanished.saturating_add(counts.vanished);
        health.ring_drops = counts.lost.saturating_add(counts.late).saturating_add(counts.exits_lost);
        health.sched_untracked = self.lives.left_out;
        health.sched_missed_switches = self.tracker.sink().holes;
        health.wakeups_unknown = self.tracker.sink().unknown_wakeups;
        health.probes = probes | Probes::EXITS;
    }

    fn bind_process(&mut self, process: &mut ProcessSample) {
        let (pid, pass) = (process.key.pid, self.pass);
        let Some(life) = self.lives.process(pid, None) else { return };
        life.seen = pass;
        life.parent_pid = process.parent_pid;
        match &mut life.listed {
            Some((key, info)) if *key == process.key => {
                if !Arc::ptr_eq(info, &process.info) {
                    *info = Arc::clone(&process.info);
                }
            }
            listed => *listed = Some((process.key, Arc::clone(&process.info))),
        }
    }

    /// Replaces the listed values by the account. False: the thread began after the instant.
    fn complete_thread(
        &mut self,
        thread: &mut ThreadSample,
        at: Moment,
        is_first: bool,
        probes: Probes,
    ) -> bool {
        let tid = thread.key.tid;
        let is_older = thread.key.start_ns.saturating_add(SURELY_OLDER_NS) < at.boot_ns;
        let is_another = |key: ThreadKey| key != thread.key;
        if self.lives.threads.get(&tid).and_then(|life| life.key).is_some_and(is_another) {
            if !is_older {
                return false;
            }
            // The id is used again, and no event reported it.
            self.vanish(tid, at.mono_ns);
        }
        let reason = std::mem::take(&mut thread.sched.open_wait);
        if !self.lives.threads.contains_key(&tid) {
            // It has made its last switch, and the list still has it.
            let has_ended = self.ended_keys.binary_search(&thread.key).is_ok();
            if has_ended || (!is_first && !is_older) {
                return false;
            }
            if self.begin(tid, None).is_none() {
                self.lives.left_out += 1;
                thread.sched = SchedTimes::unwatched();
                return true;
            }
        }
        let pass = self.pass;
        let Some(life) = self.lives.threads.get_mut(&tid) else { return true };
        if reason.is_some() {
            self.tracker.assume(life.task, at.mono_ns, ThreadState::Blocked(reason), thread.last_cpu);
        }
        let account = self.tracker.sink().thread(life.task).copied().unwrap_or_default();
        let sampled = thread.counters;
        if life.key.is_none() {
            life.key = Some(thread.key);
            // Born in the session, so its account has all of its time.
            if life.began_ns.is_none() {
                life.base_ns = sampled.run_ns.saturating_sub(account.counters().run_ns);
            }
        }
        (life.pid, life.seen, life.missed) = (Some(thread.process.pid), pass, 0);
        (life.comm, life.priority) = (thread.comm, thread.priority);
        life.sampled = (sampled.user_ns, sampled.system_ns);
        thread.counters = life.counters(account.counters());
        (thread.sched, thread.last_cpu) = (without_reasons(account.sched(), probes), account.cpu);
        true
    }

    /// Threads that lived at the instant and are in no list: they ended since, or no event will report it.
    fn add_leaving(&mut self, cut: Cut, probes: Probes, threads: &mut Vec<ThreadSample>) {
        let pass = self.pass;
        self.gone.clear();
        for (tid, life) in &mut self.lives.threads {
            if life.seen == pass {
                continue;
            }
            life.missed += 1;
            let process = life.pid.and_then(|pid| {
                let of = self.lives.processes.get_mut(&pid)?;
                if of.listed.is_none() {
                    // It keeps the key under which it is shown first.
                    let key = ProcessKey { pid, start_ns: cut.start_ns(of.began_ns) };
                    of.listed = Some((key, Arc::new(of.info(pid))));
                }
                of.listed.as_ref().map(|(key, _)| *key)
            });
            let Some(process) = process.filter(|_| life.missed <= MAX_MISSED) else {
                self.gone.push(*tid);
                continue;
            };
            let start_ns = cut.start_ns(life.began_ns);
            let key = *life.key.get_or_insert(ThreadKey { tid: *tid, start_ns });
            let account = self.tracker.sink().thread(life.task).copied().unwrap_or_default();
            threads.push(ThreadSample {
                key,
                process,
                comm: life.comm,
                state: account.letter(),
                priority: life.priority,
                last_cpu: account.cpu,
                counters: life.counters(account.counters()),
                sched: without_reasons(account.sched(), probes),
                ..ThreadSample::default()
            });
        }
        while let Some(tid) = self.gone.pop() {
            self.vanish(tid, cut.at.mono_ns);
        }
    }

    fn add_exits(&mut self, cut: Cut, probes: Probes, into: &mut Snapshot) {
        let mut ended = std::mem::take(&mut self.ended);
        into.exits.extend(ended.drain(..).map(|one| self.exit(one, cut, probes)));
        self.ended = ended;
    }

    fn exit(&self, one: Ended, cut: Cut, probes: Probes) -> ExitSample {
        let began_ns = one.life.began_ns;
        let key =
            one.life.key.unwrap_or_else(|| ThreadKey { tid: one.tid, start_ns: cut.start_ns(began_ns) });
        let (process, parent_pid, info, ends_process) = match one.process {
            Some((pid, process)) => {
                let now = self.lives.processes.get(&pid).filter(|now| now.number == process.number);
                // A list may have shown it since.
                let listed = now.and_then(|now| now.listed.clone()).or_else(|| process.listed.clone());
                let (key, info) = listed.unwrap_or_else(|| {
                    let key = ProcessKey { pid, start_ns: cut.start_ns(process.began_ns) };
                    (key, Arc::new(process.info(pid)))
                });
                (key, process.parent_pid, info, process.has_ended)
            }
            None => (
                ProcessKey { pid: one.life.pid.unwrap_or(0), start_ns: 0 },
                0,
                Arc::<ProcessInfo>::default(),
                false,
            ),
        };
        let thread = ThreadSample {
            key,
            process,
            comm: one.life.comm,
            state: one.state,
            priority: one.life.priority,
            last_cpu: one.cpu,
            counters: one.counters,
            sched: without_reasons(one.sched, probes),
            ..ThreadSample::default()
        };
        ExitSample { thread, parent_pid, info, end_ns: cut.boot_ns(one.end_ns), ends_process }
    }

    /// Processes that began after the instant are in the list of processes, but none of their threads is in that of threads. Those that
    /// ended are forgotten once their exits have rows.
    fn drop_young_processes(&mut self, at: Moment, into: &mut Snapshot) {
        let threads = &into.threads;
        self.listed.clear();
        self.listed.extend(threads.iter().map(|thread| thread.process));
        self.listed.sort_unstable();
        let listed = &self.listed;
        into.processes.retain(|process| {
            let is_older = process.key.start_ns.saturating_add(SURELY_OLDER_NS) < at.boot_ns;
            is_older || listed.binary_search(&process.key).is_ok()
        });
        // One that ended after the instant is in no list, but its threads are.
        let pass = self.pass;
        self.lives.processes.retain(|_, life| {
            let key = life.listed.as_ref().map(|(key, _)| *key);
            let has_threads = key.is_some_and(|key| listed.binary_search(&key).is_ok());
            if has_threads
                && life.seen != pass
                && let Some((key, info)) = &life.listed
            {
                into.processes.push(ProcessSample {
                    key: *key,
                    parent_pid: life.parent_pid,
                    info: Arc::clone(info),
                    ..ProcessSample::default()
                });
            }
            // Events named it, and the list may not have it yet.
            let is_new = key.is_none() && !life.has_ended;
            if is_new && life.seen == 0 {
                life.seen = pass;
            }
            life.seen == pass || has_threads || (is_new && pass - life.seen <= MAX_MISSED.into())
        });
    }
}

/// Removes wait reasons unless `probes` contains `WAITS`.
fn without_reasons(sched: SchedTimes, probes: Probes) -> SchedTimes {
    if probes.contains(Probes::WAITS) {
        return sched;
    }
    let open_wait = if sched.open_wait.is_some() { WaitReason::OTHER } else { WaitReason::NONE };
    SchedTimes { waits: Waits::default(), open_wait, ..sched }
}
