//! Causes off the CPUs: locks, other processes, started processes, disks, page faults; and what cannot be known.

use std::collections::BTreeMap;

use cpumon_model::{Delta, Fields, ProcessKey, ThreadKey, WaitedOn};
use foldhash::HashSet;

use super::answer::{Cause, CauseKind, Culprit, SureLevel};
use super::draft::{
    MIN_SHARE, culprits, draft, find_user_of, go_last, has_long_waits, matters, stoppable, waited,
};
use super::facts::{Facts, KeyTime, MIN_STARTS, ProgramTime, by_program};
use super::front::IDLE_CPUS;
use super::states::{CountedWaits, IDLE_WAIT_NS, SubjectRows, WaitClass, at_least_zero, is_input, is_lock};
use super::threads::SeenThread;
use super::words::{and, length, named, named_all, percent, rate, shell_word};
use crate::fields::{decimal, name_text};

/// The most that a short process runs on average, ns.
const SHORT_RUN_NS: u64 = 20_000_000;
/// Long waits for one thread of which fewer are one for its end, or for work.
const MIN_ENDED: u64 = 3;
/// Processes that a chain of waits names at most.
const MAX_HOPS: usize = 3;
/// Share of the time that may stay unexplained.
const MAX_REST: f64 = 0.5;

/// A lock, with the thread that ended most of the waits for it.
pub(super) fn lock(facts: &Facts<'_>) -> Option<Cause> {
    let ns = facts.times.of_class(WaitClass::Lock);
    let wait = facts.longest_of(WaitClass::Lock).filter(|_| matters(facts, ns))?;
    let holder = holder(facts);
    let what = wait.words();
    // Threads of a program also wait for each other at pipes and other things that are no locks.
    let of = if is_lock(wait.reason) { "a" } else { "another thread of it, in" };
    let mut text = format!("{} for {of} {what}", waited(facts, ns));
    let mut evidence = Vec::new();
    let mut action = "Hold the lock for a shorter time, or divide what it protects.".to_owned();
    if let Some(holder) = &holder {
        let name = named(&holder.culprit);
        text = format!(
            "{text}, {} of it until {name} released it",
            percent(holder.culprit.ns as f64 / ns as f64)
        );
        evidence.extend(holder.sentence.clone());
        if holder.sleeps_with_it(ns) {
            action = format!("Release the lock before {name} sleeps or waits.");
        }
    }
    // Where no CPU is free, who works with the lock is held up by the others, and a thread that waits for it loses nothing more.
    // Threads without work have such waits, too: of a lock one thread that sleeps ends most of them.
    let is_slept_with = holder.as_ref().is_some_and(|holder| holder.sleeps_with_it(ns));
    if !is_slept_with && facts.idle_share().is_some_and(|idle| idle < MIN_SHARE) {
        return None;
    }
    let counted = facts.times.counted(WaitClass::Lock);
    // Who waits that long for threads that work waits for their work, or for their end.
    if counted.count > 0 && counted.ns / counted.count >= IDLE_WAIT_NS && enders_work(facts, ns) {
        return None;
    }
    if holder.as_ref().is_some_and(|holder| holder.passes_work) {
        return None;
    }
    if counted.count > 0 {
        let (times, mean) = (rate(counted.count, facts.seconds()), length(counted.ns / counted.count));
        evidence.push(format!("{times} such waits a second, {mean} each."));
    }
    let idle = facts.idle_share().filter(|idle| *idle >= MIN_SHARE);
    evidence
        .extend(idle.map(|idle| format!("CPUs were free meanwhile: idle {} of the time.", percent(idle))));
    Some(Cause {
        evidence,
        action,
        culprits: holder.map(|holder| holder.culprit).into_iter().collect(),
        // Locks are not measured: a queue of work has the same waits.
        sure: SureLevel::Medium,
        ..draft(facts, CauseKind::Lock, ns, text + ".")
    })
}

/// Whether the threads that ended these waits ran, or were ready, for half of `ns`, the sum of the waits.
fn enders_work(facts: &Facts<'_>, ns: u64) -> bool {
    let ended = facts.times.waits.iter().filter(|wait| wait.class == WaitClass::Lock);
    let keys = ended.filter_map(|wait| match wait.on {
        WaitedOn::Thread(key) => facts.threads.each.get_key_value(&key),
        _ => None,
    });
    let threads: BTreeMap<&ThreadKey, &SeenThread> = keys.collect();
    let worked_ns = threads.values().fold(0_u64, |sum, seen| {
        sum.saturating_add(at_least_zero(seen.delta.run_ns.saturating_add(seen.delta.run_delay_ns)))
    });
    worked_ns >= ns / 2
}

/// Whether a thread did not sleep with a lock although it ended long waits: they are few, it woke again and again meanwhile, or its sleeps
/// are far longer than they.
fn passes_work(facts: &Facts<'_>, ended: CountedWaits, thread: &Delta) -> bool {
    // The time of a wait is due to the one that had the lock, and its count to the one that passed it on.
    let passed_on = facts.times.counted(WaitClass::Lock).count.max(ended.count);
    if ended.count == 0 || ended.ns / passed_on < IDLE_WAIT_NS {
        return false;
    }
    let slept_ns = facts.now.length_ns.saturating_sub(at_least_zero(thread.run_ns));
    let sleeps = at_least_zero(thread.voluntary_switches);
    let are_longer =
        slept_ns.checked_div(sleeps).is_some_and(|sleep_ns| ended.ns / ended.count < sleep_ns / 2);
    ended.count < MIN_ENDED || ended.count.saturating_mul(2) < sleeps || are_longer
}

/// The thread that ended most of the waits for locks.
struct Holder {
    culprit: Culprit,
    /// What it did itself.
    sentence: Option<String>,
    is_asleep: bool,
    /// Whether none of its sleeps can have been with a lock.
    passes_work: bool,
}

impl Holder {
    /// Whether waits for locks are mostly for this one, and it sleeps. `ns`: the sum of the waits.
    fn sleeps_with_it(&self, ns: u64) -> bool {
        self.is_asleep && self.culprit.ns >= ns / 2
    }
}

fn holder(facts: &Facts<'_>) -> Option<Holder> {
    let mut by_thread: BTreeMap<ThreadKey, CountedWaits> = BTreeMap::new();
    for wait in facts.times.waits.iter().filter(|wait| wait.class == WaitClass::Lock) {
        if let WaitedOn::Thread(key) = wait.on {
            by_thread.entry(key).or_default().add(wait);
        }
    }
    let (key, ended) = by_thread.into_iter().max_by_key(|(_, ended)| ended.ns)?;
    let ns = ended.ns;
    let seen = facts.threads.each.get(&key);
    let passes_work = seen.is_some_and(|seen| passes_work(facts, ended, &seen.delta));
    let ran = seen.map(|seen| at_least_zero(seen.delta.run_ns) as f64 / facts.now.length_ns.max(1) as f64);
    let name = seen.map_or_else(|| "unknown".to_owned(), |seen| seen.comm.to_str_lossy().into_owned());
    let longest = seen.filter(|_| facts.has(Fields::WAITS)).and_then(|seen| seen.waits.longest());
    let sleep = longest.filter(|(reason, _)| reason.words() == "sleep");
    let is_at_disk = seen.is_some_and(|seen| seen.in_disk > 0 && seen.in_disk * 2 >= seen.intervals);
    let sentence = match (sleep, ran) {
        (Some((reason, ns)), _) => {
            let share = ns as f64 / facts.now.length_ns.max(1) as f64;
            Some(format!("That thread itself sleeps {} of the time, in {}.", percent(share), reason.name()))
        }
        (None, _) if is_at_disk => Some("That thread itself waited for a disk.".to_owned()),
        (None, Some(ran)) => Some(format!("That thread ran {} of the time.", percent(ran))),
        (None, None) => None,
    };
    let culprit = Culprit {
        name: name.into(),
        pid: seen.map(|seen| seen.process.pid),
        tid: Some(key.tid),
        pids: seen.map(|seen| seen.process.pid).into_iter().collect(),
        processes: 1,
        ns,
        cpu_pct: ran.unwrap_or_default() * 100.0,
        ..Culprit::default()
    };
    let is_asleep = sleep.is_some() || is_at_disk || ran.is_some_and(|ran| ran < MIN_SHARE);
    Some(Holder { culprit, sentence, is_asleep, passes_work })
}

/// Another process for which it waits, and the processes for which that one waits.
pub(super) fn peer(facts: &Facts<'_>, class: WaitClass) -> Option<Cause> {
    let ns = facts.times.of_class(class);
    let wait = facts.longest_of(class).filter(|_| matters(facts, ns))?;
    let programs = facts.waited_for(class);
    let is_child = class == WaitClass::Child;
    let what = wait.words();
    let Some(first) = programs.first() else {
        let who = if is_child { "a child" } else { "another process" };
        let text = format!("{} for {who}, whose name is not known, in {what}.", waited(facts, ns));
        return Some(Cause { sure: SureLevel::Medium, ..traced(draft(facts, CauseKind::Peer, ns, text)) });
    };
    let mut all = culprits(facts, &programs);
    let who = match (is_child, named_all(&all, 2)) {
        (true, names) if names.is_empty() => "many children".to_owned(),
        (false, names) if names.is_empty() => "many programs".to_owned(),
        (true, names) => format!("its child {names}"),
        (false, names) => names,
    };
    let text = format!("{} for {who}, in {what}.", waited(facts, ns));
    let seen = facts.rows.keys.clone().unwrap_or_default();
    let mut chain = Chain { seen, ..Chain::default() };
    chain.follow(facts, first);
    all.extend(chain.culprits);
    let own = name_text(&facts.target.name);
    let is_of_kernel = first.keys.iter().all(|one| facts.is_of_kernel(one.key.pid));
    let why = shell_word(&first.name).filter(|_| !is_of_kernel);
    let why = why.map(|name| format!("cpumon why {name}{}", facts.same_question));
    let usual = || {
        let name = name_text(&first.name);
        if is_of_kernel {
            return find_user_of(&name);
        }
        format!(
            "Make the work of {name} for it cheaper, or send it fewer requests. A restart of {own} does not help."
        )
    };
    // Which of the two sends requests is not measured.
    let may_be_input = is_input(wait.reason) && !is_child;
    let input = format!("If {} sends requests to it, it waited for these: no delay.", name_text(&first.name));
    Some(Cause {
        evidence: may_be_input.then_some(input).into_iter().chain(chain.sentences).collect(),
        action: chain.action.unwrap_or_else(usual),
        command: chain.command.or(why),
        culprits: all,
        sure: if may_be_input { SureLevel::Medium } else { SureLevel::High },
        ..draft(facts, CauseKind::Peer, ns, text)
    })
}

/// What the processes did for which the subject waited, and for which others they waited.
#[derive(Default)]
struct Chain {
    sentences: Vec<String>,
    culprits: Vec<Culprit>,
    action: Option<String>,
    command: Option<String>,
    seen: HashSet<ProcessKey>,
}

impl Chain {
    fn follow(&mut self, facts: &Facts<'_>, program: &ProgramTime) {
        let keys: HashSet<ProcessKey> = program.keys.iter().map(|one| one.key).collect();
        if self.sentences.len() >= MAX_HOPS || !self.seen.is_disjoint(&keys) {
            return;
        }
        self.seen.extend(&keys);
        let rows = SubjectRows { keys: Some(keys), ..SubjectRows::default() };
        let peer = Facts::new(facts.target, &rows, facts.now, facts.before, facts.threads);
        let name = name_text(&program.name);
        let states = [
            ("ran", peer.times.ran_ns()),
            ("was ready", peer.times.ready_ns()),
            ("was kept off the CPUs by a CPU limit", peer.times.throttled_ns),
            ("waited for a disk", peer.times.of_class(WaitClass::Disk)),
            ("waited for a lock", peer.times.of_class(WaitClass::Lock)),
            ("waited for others", peer.times.of_class(WaitClass::Peer)),
            ("waited for a child", peer.times.of_class(WaitClass::Child)),
            ("was in waits shorter than 1 ms", peer.times.short_waits_ns()),
        ];
        let long = states.iter().filter(|(_, ns)| peer.times.share(*ns) >= MIN_SHARE);
        let words: Vec<String> =
            long.map(|(state, ns)| format!("{state} {}", percent(peer.times.share(*ns)))).collect();
        if words.is_empty() {
            return;
        }
        let front = if matters(&peer, peer.delayed_at_cpus_ns()) { peer.in_front() } else { Vec::new() };
        let front = culprits(&peer, &front);
        let behind =
            if front.is_empty() { String::new() } else { format!(", behind {}", named_all(&front, 2)) };
        self.sentences.push(format!("{name} {} of the time{behind}.", and(&words)));
        let able = stoppable(&peer, &front);
        // One that sleeps most of that time is not made faster by a CPU.
        let ready_ns = peer.delayed_at_cpus_ns();
        if !able.is_empty() && ready_ns > peer.times.ran_ns() && ready_ns >= program.ns / 2 {
            let (names, command) = (named_all(&able, 2), go_last(&peer, &able, 2));
            let last = if command.is_some() { " or let it go last" } else { "" };
            self.action = Some(format!("Let {name} have a CPU: stop {names}{last}."));
            self.command = command;
        }
        self.culprits.extend(front.into_iter().take(1));
        let next = [WaitClass::Peer, WaitClass::Child].map(|class| peer.waited_for(class).into_iter().next());
        if let Some(next) = next.into_iter().flatten().max_by_key(|next| next.ns) {
            self.follow(facts, &next);
        }
    }
}

/// Many short processes that it starts.
pub(super) fn starts(facts: &Facts<'_>) -> Option<Cause> {
    let starts = facts.starts();
    let per_s = starts.count as f64 / facts.seconds();
    let child_ns = facts.times.of_class(WaitClass::Child);
    let used_ns = starts.run_ns.saturating_add(starts.delay_ns);
    let ns = child_ns.max(used_ns);
    let is_short = starts.run_ns <= starts.count.saturating_mul(SHORT_RUN_NS);
    // On idle CPUs they delay no other.
    let is_free = facts.rows.is_machine() && facts.idle_share().is_some_and(|idle| idle > IDLE_CPUS);
    if per_s < MIN_STARTS || !is_short || is_free || !matters(facts, ns) {
        return None;
    }
    let all = culprits(facts, &by_program(facts.now, starts.parents));
    let who = if facts.rows.is_machine() { "Programs start" } else { "It starts" };
    let mut text = format!("{who} {} processes a second", rate(starts.count, facts.seconds()));
    if matters(facts, child_ns) {
        text = format!("{text} and waits for them {} of the time", percent(facts.times.share(child_ns)));
    }
    let each = |ns: u64| length(ns / starts.count.max(1));
    let evidence =
        format!("Each runs {} and waits {} for a CPU.", each(starts.run_ns), each(starts.delay_ns));
    let parent = facts.rows.is_machine().then(|| format!("Most are started by {}.", named_all(&all, 2)));
    Some(Cause {
        evidence: [Some(evidence), parent.filter(|_| !all.is_empty())].into_iter().flatten().collect(),
        action: "Do that work in the process itself, or in a few long-lived workers.".to_owned(),
        culprits: all,
        ..draft(facts, CauseKind::Starts, ns, text + ".")
    })
}

/// Waits for a disk.
pub(super) fn disk(facts: &Facts<'_>) -> Option<Cause> {
    let others = others_at_disk(facts);
    // Threads of the kernel wait for others, or in the same state for a timer.
    let of_kernel = |one: &&KeyTime| {
        facts.rows.is_machine() && facts.now.processes.get(&one.key).is_some_and(|seen| seen.info.is_kernel)
    };
    let kernel_ns = others.iter().filter(of_kernel).fold(0_u64, |sum, one| sum.saturating_add(one.ns));
    let ns = facts.times.of_class(WaitClass::Disk).saturating_sub(kernel_ns);
    if !has_long_waits(facts, ns) {
        return None;
    }
    let counted = facts.times.counted(WaitClass::Disk);
    let switches = at_least_zero(facts.times.delta.voluntary_switches);
    let is_counted = counted.count > 0 && counted.ns >= ns / 2;
    let how = if is_counted && kernel_ns == 0 {
        let (times, mean) = (rate(counted.count, facts.seconds()), length(counted.ns / counted.count));
        format!(", {times} times a second for {mean} each")
    } else if switches > 0 && facts.has(Fields::SWITCHES) && !facts.rows.is_machine() {
        let (times, mean) = (rate(switches, facts.seconds()), length(ns / switches));
        format!(", in about {times} waits a second of {mean} each")
    } else {
        String::new()
    };
    let mut others = by_program(facts.now, others);
    // Who waited far shorter than the subject does not keep the disk busy.
    others.retain(|one| facts.rows.is_machine() || one.ns as f64 >= ns as f64 * MIN_SHARE);
    let all = culprits(facts, &others);
    let shared = (!all.is_empty()).then(|| format!("{} waited for a disk, too.", named_all(&all, 3)));
    Some(Cause {
        evidence: shared.into_iter().collect(),
        action: "Let it read and write in larger pieces and sync less often, or use a faster disk."
            .to_owned(),
        culprits: all,
        sure: if is_counted || facts.has(Fields::WAITS) { SureLevel::High } else { SureLevel::Medium },
        ..draft(facts, CauseKind::Disk, ns, format!("{} for a disk{how}.", waited(facts, ns)))
    })
}

/// Other processes that waited for a disk; of a machine all.
fn others_at_disk(facts: &Facts<'_>) -> Vec<KeyTime> {
    let rows = facts.now.waits.iter().filter(|row| facts.rows.is_machine() || !facts.rows.has(row.waiter));
    let at_disk = rows.filter(|row| WaitClass::of_row(facts.now, facts.rows, row) == Some(WaitClass::Disk));
    at_disk.map(|row| KeyTime { key: row.waiter, ns: row.ns }).collect()
}

/// Pages that have to be read from a disk.
pub(super) fn faults(facts: &Facts<'_>) -> Option<Cause> {
    let ns = facts.times.of_class(WaitClass::Faults);
    if !has_long_waits(facts, ns) {
        return None;
    }
    let faults =
        facts.faults_per_s().map(|faults| format!(": {} major page faults a second", decimal(faults, 0)));
    let text = format!("{} for pages from a disk{}.", waited(facts, ns), faults.unwrap_or_default());
    Some(Cause {
        action: "Give it more memory, or stop what takes it.".to_owned(),
        command: Some("ps -eo pid,rss,comm --sort -rss | head".to_owned()),
        ..draft(facts, CauseKind::Faults, ns, text)
    })
}

/// What was not measured and would decide. `has_causes`: others explain much already.
pub(super) fn unknown(facts: &Facts<'_>, has_causes: bool) -> Option<Cause> {
    let times = &facts.times;
    let (blocked_ns, rest_ns) = (times.of_class(WaitClass::Unknown), times.rest_ns());
    let short_ns = times.short_waits_ns();
    let (blocked, rest) = (times.share_of(WaitClass::Unknown, blocked_ns), times.share(rest_ns));
    let knows_waits = facts.has(Fields::WAITS_FOR) || facts.has(Fields::WAITS);
    let (ns, share, reason) = if !facts.has(Fields::RUN_DELAY)
        && times.share(times.ran_ns()) < 1.0 - MIN_SHARE
    {
        (rest_ns, rest, "how long it waited for a CPU was not measured".to_owned())
    } else if facts.rows.is_machine() {
        return None;
    } else if let Some(wait) = facts.longest_of(WaitClass::Unknown).filter(|_| blocked >= MIN_SHARE) {
        let (part, what) = (percent(blocked), wait.reason.words_and_name());
        let is_of_threads = is_lock(wait.reason) || matches!(wait.on, WaitedOn::Thread(_));
        let is_unread = facts.now.has_sums && facts.threads.each.is_empty();
        let missing = if is_unread && is_of_threads && facts.has(Fields::WAITS_FOR) {
            "threads are not read over so long a range: ask for a part of it"
        } else {
            "who ended these waits was not measured"
        };
        (blocked_ns, blocked, format!("it waited {part} of the time in {what}, and {missing}"))
    } else if !has_causes && !knows_waits && rest >= MAX_REST {
        let part = percent(rest);
        (
            rest_ns,
            rest,
            format!("it was off the CPUs {part} of the time, and what it waited for was not measured"),
        )
    } else if !has_causes && times.share(short_ns) >= MAX_REST {
        let per_s = rate(at_least_zero(times.delta.voluntary_switches), facts.seconds());
        (
            short_ns,
            times.share(short_ns),
            format!(
                "it left the CPU {per_s} times a second for waits shorter than 1 ms, of which only the sum is measured"
            ),
        )
    } else {
        return None;
    };
    let cause = draft(facts, CauseKind::Unknown, ns, format!("The cause is not known: {reason}."));
    Some(Cause { share, sure: SureLevel::Low, ..traced(cause) })
}

/// A cause that only a trace can make more precise.
fn traced(cause: Cause) -> Cause {
    Cause {
        action: "Record a trace while it is slow: it has every wait and who ended it.".to_owned(),
        command: Some("cpumon trace record --for 5s -o why.trace".to_owned()),
        ..cause
    }
}
