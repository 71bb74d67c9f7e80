//! What frames carry of a made-up machine: its delays, and its times as exact as frames have them. Shared with the receiver's tests.

use std::sync::Arc;

use cpumon_model::{DelayOf, Delays, Snapshot, ThreadKey, delay_bucket};

use crate::machine::Machine;

/// The first `busy` processes wait for a CPU, ended ones before living ones: up to five delays each, on one CPU. Their main threads are
/// selected.
pub fn wait_for_cpus(machine: &mut Machine, busy: usize) {
    let (snapshot, random) = (&mut machine.snapshot, &mut machine.random);
    let ended = snapshot.exits.iter().filter(|exit| exit.ends_process).map(|exit| exit.thread.process);
    let keys: Vec<_> = ended.chain(snapshot.processes.iter().map(|row| row.key)).take(busy).collect();
    let lives = |key| snapshot.processes.binary_search_by_key(&key, |row| row.key).is_ok();
    let is_sent = |row: &Delays| match row.of {
        DelayOf::Cpu(_) => true,
        DelayOf::Process(key) | DelayOf::Thread(key, _) => lives(key) || keys.contains(&key),
    };
    let mut delays: Vec<_> = snapshot.delays.iter().filter(|row| is_sent(row)).cloned().collect();
    for key in keys {
        let thread = ThreadKey { tid: key.pid, start_ns: key.start_ns };
        let cpu = u32::try_from(random.below(4)).unwrap();
        for _ in 0..random.below(6) {
            let bucket = delay_bucket(random.log_between(2e3, 2e8));
            let count = 1 + random.below(9);
            for of in [DelayOf::Cpu(cpu), DelayOf::Process(key), DelayOf::Thread(key, thread)] {
                let at = delays.binary_search_by_key(&of, |row: &Delays| row.of).unwrap_or_else(|at| {
                    delays.insert(at, Delays { of, histogram: Arc::default() });
                    at
                });
                Arc::make_mut(&mut delays[at].histogram).add(bucket, count);
            }
        }
    }
    snapshot.delays = delays;
}

/// A snapshot as frames have it: the times of the scheduler's events in whole µs, the sum of waits for blocked time.
pub fn as_carried(snapshot: &Snapshot) -> Snapshot {
    let mut sent = snapshot.clone();
    let cut = |ns: &mut u64| *ns -= *ns % 1_000;
    let exits = sent.exits.iter_mut().map(|exit| &mut exit.thread);
    for thread in sent.threads.iter_mut().chain(exits) {
        let sched = &mut thread.sched;
        sched.blocked_ns -= sched.waits.total_ns().min(sched.blocked_ns);
        cut(&mut sched.blocked_ns);
        cut(&mut sched.delay_after_wakeup_ns);
        cut(&mut sched.longest_delay_ns);
        sched.waits = sched.waits.iter().map(|(reason, ns)| (reason, ns - ns % 1_000)).collect();
        sched.blocked_ns += sched.waits.total_ns();
    }
    for cpu in &mut sent.cpus {
        cut(&mut cpu.sched.unknown_ns);
        cut(&mut cpu.sched.run_queue_ns);
        cpu.sched.softirq_ns.iter_mut().for_each(cut);
    }
    sent.irqs.iter_mut().for_each(|irq| cut(&mut irq.time_ns));
    sent.waits_for.iter_mut().for_each(|row| cut(&mut row.ns));
    sent
}
