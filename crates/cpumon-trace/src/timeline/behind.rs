//! Who ran while others waited: the antagonists of a thread, of all threads in a window, and the delays between programs.
//!
//! For programs, waits and slices are walked once, in the order of time: memory is by thread and pair, not by wait.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap};
use std::hash::Hash;

use foldhash::fast::RandomState;

use super::cpus::{CpuParts, CpuTimeline, CpuWho, is_run, who};
use super::sums::CpuChanges;
use super::{Timeline, TraceThread, unnamed};

/// Antagonists that are named.
const SHOWN: usize = 20;
/// Slices that are compared with the waits of one answer at most.
const MAX_SLICES: usize = 4_000_000;

/// The antagonists of one or several threads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Behind {
    /// Who, and for how long, ns; the longest first.
    pub by: Vec<(CpuWho, u64)>,
    /// Waiting time without a known antagonist, ns: the CPU was idle or in an unknown state, or there was too much to compare.
    pub rest_ns: u64,
}

/// Time and whom it is of.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "json", derive(serde::Serialize, utoipa::ToSchema))]
pub struct TraceShare {
    /// Who.
    pub who: TraceThread,
    /// How long.
    pub ns: u64,
}

/// Whom threads waited behind.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "json", derive(serde::Serialize, utoipa::ToSchema))]
pub struct TraceBehind {
    /// The longest first, 20 at most.
    pub by: Vec<TraceShare>,
    /// Time for which no thread is named: the CPU was idle or unknown, or there was too much to compare.
    pub rest_ns: u64,
    /// Threads that are not named here.
    pub more: usize,
}

/// Time waited, in total and by antagonist.
struct WaitSums<K> {
    by: HashMap<K, u64, RandomState>,
    waited_ns: u64,
    /// Slices or steps that were compared.
    steps: usize,
}

impl<K> Default for WaitSums<K> {
    fn default() -> Self {
        Self { by: HashMap::default(), waited_ns: 0, steps: 0 }
    }
}

impl<K: Hash + Eq> WaitSums<K> {
    /// Adds time to a key. Beyond `most` keys, further ones are left out.
    fn add(&mut self, key: K, ns: u64, most: usize) {
        if ns > 0 && (self.by.len() < most || self.by.contains_key(&key)) {
            let sum = self.by.entry(key).or_default();
            *sum = sum.saturating_add(ns);
        }
    }

    fn wait(&mut self, ns: u64) {
        self.waited_ns = self.waited_ns.saturating_add(ns);
    }

    fn rest_ns(&self) -> u64 {
        self.waited_ns.saturating_sub(self.by.values().fold(0, |sum, ns| sum.saturating_add(*ns)))
    }
}

impl WaitSums<u32> {
    /// What a CPU ran between two times, except one thread.
    fn add_slices(&mut self, parts: &CpuParts, from_ns: u64, until_ns: u64, except: u32) {
        let left = MAX_SLICES.saturating_sub(self.steps);
        for (who, ns) in parts.slices_between(from_ns, until_ns).take(left) {
            self.steps += 1;
            if is_run(who) && who != except {
                self.add(who, ns, usize::MAX);
            }
        }
    }

    fn sorted(self) -> Behind {
        let rest_ns = self.rest_ns();
        let mut by: Vec<(u32, u64)> = self.by.into_iter().collect();
        by.sort_unstable_by_key(|(code, ns)| (Reverse(*ns), *code));
        Behind { by: by.into_iter().map(|(code, ns)| (who(code), ns)).collect(), rest_ns }
    }
}

impl Timeline {
    /// The first 20 antagonists, by name.
    pub fn named_behind(&self, behind: &Behind) -> TraceBehind {
        let by = behind.by.iter().take(SHOWN);
        TraceBehind {
            by: by.map(|(who, ns)| TraceShare { who: self.named(*who), ns: *ns }).collect(),
            rest_ns: behind.rest_ns,
            more: behind.by.len().saturating_sub(SHOWN),
        }
    }

    /// The antagonists of a thread in a window: the threads that its CPU ran while it waited.
    pub fn behind_thread(&self, place: u32, from_ns: u64, until_ns: u64) -> Behind {
        self.behind_threads(&[place], from_ns, until_ns, &|_| true)
    }

    /// The antagonists of several threads together, while they waited for one of `cpus`.
    pub fn behind_threads(
        &self,
        places: &[u32],
        from_ns: u64,
        until_ns: u64,
        cpus: &dyn Fn(u16) -> bool,
    ) -> Behind {
        let (from_ns, until_ns) = self.clip(from_ns, until_ns);
        let mut sums = WaitSums::default();
        for place in places {
            let Some(thread) = self.thread(*place) else { continue };
            for (at, ns) in thread.between(from_ns, until_ns) {
                let part = &thread.parts[at];
                if !part.is_ready() || !cpus(part.cpu) {
                    continue;
                }
                sums.wait(ns);
                if let Some(cpu) = self.cpu(part.cpu) {
                    let (from_ns, until_ns) = (part.start_ns.max(from_ns), thread.end_of(at).min(until_ns));
                    sums.add_slices(&cpu.parts, from_ns, until_ns, *place);
                }
            }
        }
        sums.sorted()
    }

    /// Who ran while any threads waited for that CPU: each ns counts once for each waiting thread.
    pub fn culprits(&self, from_ns: u64, until_ns: u64, cpus: &dyn Fn(u16) -> bool) -> Behind {
        let (from_ns, until_ns) = self.clip(from_ns, until_ns);
        let mut sums = WaitSums::default();
        for number in self.cpus().filter(|number| cpus(*number)) {
            let Some(cpu) = self.cpu(number) else { continue };
            let waited = |until_ns| cpu.queue.waited_until(until_ns);
            sums.wait(waited(until_ns).saturating_sub(waited(from_ns)));
            let (mut changes, mut at_ns) = (CpuChanges::new(cpu, from_ns), from_ns);
            while at_ns < until_ns {
                let next_ns = changes.next_ns().map_or(until_ns, |next_ns| next_ns.min(until_ns));
                let now = changes.now;
                sums.add(now.who, now.waiting().saturating_mul(next_ns - at_ns), usize::MAX);
                changes.take(next_ns);
                at_ns = next_ns;
            }
        }
        sums.sorted()
    }
}

/// Most steps in one answer: begins and ends of waits, and comparisons of a slice with a program that waits.
const MAX_STEPS: usize = 4_000_000;
/// Pairs in one answer at most.
const MAX_PAIRS: usize = 100_000;
/// Name of threads that ran, but are not followed.
const NOT_FOLLOWED: &str = "not followed";

/// A program that waited for CPUs which another one had. It may be the same: threads of one program delay each other, too.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "json", derive(serde::Serialize, utoipa::ToSchema), schema(as = TraceDelay))]
pub struct Delay {
    /// Name of the program that waited, of the thread where the trace names no program. Hostile.
    pub waited: Box<str>,
    /// Name of the one that ran meanwhile. Hostile.
    pub behind: Box<str>,
    /// How long: once for each thread that waited, ns.
    pub ns: u64,
}

/// Delays between programs in a window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delays {
    /// The longest first.
    pub by: Vec<Delay>,
    /// Time waited before `until_ns` that no pair accounts for, ns: the CPU was idle, who ran is unknown, or a limit was reached.
    pub rest_ns: u64,
    /// The answer covers the window up to here; it ends early if there was too much to compare.
    pub until_ns: u64,
}

/// Numbers of two programs.
#[derive(Copy, Clone, PartialEq, Eq, Hash)]
struct ProgramPair {
    waited: u32,
    behind: u32,
}

/// A CPU with the programs that wait for it.
struct WaitedCpu<'t> {
    parts: &'t CpuParts,
    /// A slice that ends behind `at_ns`, or the last one before that.
    place: usize,
    at_ns: u64,
    /// Programs, and how many threads of each.
    waiting: Vec<(u32, u32)>,
    threads: u64,
}

impl<'t> WaitedCpu<'t> {
    fn new(parts: &'t CpuParts, at_ns: u64) -> Self {
        Self { parts, place: parts.line.first_behind(at_ns), at_ns, waiting: Vec::new(), threads: 0 }
    }

    /// Moves to a time: the slices until then delayed the programs that wait now.
    fn advance(&mut self, to_ns: u64, programs: &Programs<'_>, pairs: &mut WaitSums<ProgramPair>) {
        let from_ns = std::mem::replace(&mut self.at_ns, to_ns);
        pairs.wait(self.threads.saturating_mul(to_ns.saturating_sub(from_ns)));
        let line = &self.parts.line;
        while let Some(part) = line.parts.get(self.place).filter(|part| part.start_ns < to_ns) {
            let (who, ns) = (part.who, line.ns_in(self.place, from_ns, to_ns));
            // A damaged trace can have any number of slices between two waits.
            if ns > 0 && is_run(who) && self.threads > 0 && pairs.steps < 2 * MAX_STEPS {
                pairs.steps += self.waiting.len();
                let behind = programs.of(who);
                for (program, threads) in &self.waiting {
                    let ns = ns.saturating_mul((*threads).into());
                    pairs.add(ProgramPair { waited: *program, behind }, ns, MAX_PAIRS);
                }
            }
            if line.end_of(self.place) > to_ns {
                break;
            }
            self.place += 1;
        }
    }

    fn begin(&mut self, program: u32) {
        self.threads += 1;
        match self.waiting.iter_mut().find(|(waiting, _)| *waiting == program) {
            Some((_, threads)) => *threads += 1,
            None => self.waiting.push((program, 1)),
        }
    }

    fn end(&mut self, program: u32) {
        let Some(at) = self.waiting.iter().position(|(waiting, _)| *waiting == program) else { return };
        self.threads -= 1;
        self.waiting[at].1 -= 1;
        if self.waiting[at].1 == 0 {
            self.waiting.swap_remove(at);
        }
    }
}

struct Programs<'t> {
    names: Vec<Cow<'t, str>>,
    /// By place of a thread.
    numbers: Vec<u32>,
}

impl<'t> Programs<'t> {
    fn new(timeline: &'t Timeline) -> Self {
        let mut known: HashMap<Cow<'t, str>, u32, RandomState> = HashMap::default();
        let mut names = vec![NOT_FOLLOWED.into()];
        let numbers = timeline.threads().map(|task| {
            let name = match timeline.tasks.find(task) {
                Some(names) if names.program.is_empty() => names.comm,
                Some(names) => names.program,
                None => unnamed(task).into_string().into(),
            };
            *known.entry(name).or_insert_with_key(|name| {
                names.push(name.clone());
                u32::try_from(names.len() - 1).unwrap_or(0)
            })
        });
        Self { numbers: numbers.collect(), names }
    }

    fn of(&self, place: u32) -> u32 {
        self.numbers.get(place as usize).copied().unwrap_or(0)
    }

    fn name(&self, number: u32) -> Box<str> {
        self.names.get(number as usize).map_or(NOT_FOLLOWED, |name| name).into()
    }
}

/// Where a walk through the states of a thread is.
struct WaitCursor {
    thread: u32,
    /// Its next wait, or the one it is in.
    part: usize,
    is_waiting: bool,
}

struct WaitWalk<'t> {
    timeline: &'t Timeline,
    programs: Programs<'t>,
    /// By number of the CPU; `None`: its waits do not count.
    cpus: Vec<Option<WaitedCpu<'t>>>,
    cursors: Vec<WaitCursor>,
    /// Begins and ends of waits: time, and index of the cursor.
    next: BinaryHeap<Reverse<(u64, usize)>>,
    from_ns: u64,
    until_ns: u64,
    pairs: WaitSums<ProgramPair>,
}

impl<'t> WaitWalk<'t> {
    fn new(timeline: &'t Timeline, from_ns: u64, until_ns: u64, cpus: &dyn Fn(u16) -> bool) -> Self {
        let (from_ns, until_ns) = timeline.clip(from_ns, until_ns);
        let chosen = |(number, cpu): (usize, &'t Option<CpuTimeline>)| {
            let is_chosen = u16::try_from(number).is_ok_and(cpus);
            cpu.as_ref().filter(|_| is_chosen).map(|cpu| WaitedCpu::new(&cpu.parts, from_ns))
        };
        Self {
            timeline,
            programs: Programs::new(timeline),
            cpus: timeline.cpus.iter().enumerate().map(chosen).collect(),
            cursors: Vec::new(),
            next: BinaryHeap::new(),
            from_ns,
            until_ns,
            pairs: WaitSums::default(),
        }
    }

    fn add(&mut self, thread: u32) {
        let Some(parts) = self.timeline.thread(thread) else { return };
        self.cursors.push(WaitCursor { thread, part: parts.first_behind(self.from_ns), is_waiting: false });
        self.seek(self.cursors.len() - 1);
    }

    /// Queues the begin of the next wait.
    fn seek(&mut self, at: usize) {
        let cursor = &mut self.cursors[at];
        let Some(thread) = self.timeline.thread(cursor.thread) else { return };
        while let Some(part) = thread.parts.get(cursor.part).filter(|part| part.start_ns < self.until_ns) {
            let from_ns = part.start_ns.max(self.from_ns);
            let is_chosen = self.cpus.get(usize::from(part.cpu)).is_some_and(Option::is_some);
            if part.is_ready() && is_chosen && thread.end_of(cursor.part) > from_ns {
                self.next.push(Reverse((from_ns, at)));
                return;
            }
            cursor.part += 1;
        }
    }

    /// The begin or end of a wait.
    fn step(&mut self, at_ns: u64, at: usize) {
        let Self { timeline, programs, cpus, cursors, next, pairs, .. } = self;
        let cursor = &mut cursors[at];
        let Some(thread) = timeline.thread(cursor.thread) else { return };
        let number = usize::from(thread.parts[cursor.part].cpu);
        let Some(cpu) = cpus.get_mut(number).and_then(Option::as_mut) else { return };
        pairs.steps += 1 + cpu.waiting.len() / 8;
        cpu.advance(at_ns, programs, pairs);
        let program = programs.of(cursor.thread);
        if cursor.is_waiting {
            cpu.end(program);
            (cursor.part, cursor.is_waiting) = (cursor.part + 1, false);
            self.seek(at);
        } else {
            cpu.begin(program);
            cursor.is_waiting = true;
            let end_ns = thread.end_of(cursor.part).min(self.until_ns);
            next.push(Reverse((end_ns, at)));
        }
    }

    fn finish(mut self, max_steps: usize) -> Delays {
        while let Some(Reverse((at_ns, at))) = self.next.pop() {
            self.step(at_ns, at);
            if self.pairs.steps >= max_steps {
                self.until_ns = at_ns;
                break;
            }
        }
        let Self { cpus, programs, pairs, until_ns, .. } = &mut self;
        cpus.iter_mut().flatten().for_each(|cpu| cpu.advance(*until_ns, programs, pairs));
        let delay = |(pair, ns): (&ProgramPair, &u64)| Delay {
            waited: self.programs.name(pair.waited),
            behind: self.programs.name(pair.behind),
            ns: *ns,
        };
        let mut by: Vec<Delay> = self.pairs.by.iter().map(delay).collect();
        by.sort_by(|a, b| (Reverse(a.ns), &a.waited, &a.behind).cmp(&(Reverse(b.ns), &b.waited, &b.behind)));
        Delays { by, rest_ns: self.pairs.rest_ns(), until_ns: self.until_ns }
    }
}

impl Timeline {
    /// Which programs ran while others waited for their CPUs. `cpus` says whose waits count; without `threads` those of all.
    pub fn delays(
        &self,
        from_ns: u64,
        until_ns: u64,
        cpus: &dyn Fn(u16) -> bool,
        threads: Option<&[u32]>,
    ) -> Delays {
        let mut walk = WaitWalk::new(self, from_ns, until_ns, cpus);
        let all = 0..u32::try_from(self.threads.len()).unwrap_or(u32::MAX);
        let chosen: BTreeSet<u32> = threads.unwrap_or_default().iter().copied().collect();
        for thread in all.filter(|thread| threads.is_none() || chosen.contains(thread)) {
            walk.add(thread);
        }
        walk.finish(MAX_STEPS)
    }
}

#[cfg(test)]
mod tests {
    use cpumon_model::Moment;
    use cpumon_sched::{Leaves, SchedEvent, SchedEventKind, TraceTask};

    use super::*;
    use crate::{Compression, FileHeader, TimelineLimits, TraceReader, TraceWriter};

    /// Two threads push each other off one CPU, each µs.
    fn contended(switches: u32) -> Timeline {
        let began = Moment { mono_ns: 1_000, ..Moment::default() };
        let header = FileHeader { began, cpus: 1, ..FileHeader::default() };
        let mut writer = TraceWriter::new(Vec::new(), &header, Compression::None).unwrap();
        for nth in 1..=switches {
            let [prev, next] = [nth, nth + 1].map(|number| TraceTask(1 + number % 2));
            let kind = SchedEventKind::Switch { prev, next, leaves: Leaves::Ready };
            writer.event(&SchedEvent { at_ns: 1_000 + 1_000 * u64::from(nth), cpu: 0, kind });
        }
        let bytes = writer.finish(2_000 + 1_000 * u64::from(switches), 0).unwrap().0;
        let limits = TimelineLimits { bytes: usize::MAX, from_ns: 0 };
        Timeline::read(&mut TraceReader::open(bytes.as_slice()).unwrap(), limits).unwrap()
    }

    #[test]
    fn what_is_too_much_to_compare_is_left_out_at_the_end_and_reported() {
        let timeline = contended(1_000);
        let within = |max_steps| {
            let mut walk = WaitWalk::new(&timeline, 0, u64::MAX, &|_| true);
            (0..2).for_each(|thread| walk.add(thread));
            walk.finish(max_steps)
        };
        let sum = |delays: &Delays| delays.by.iter().map(|delay| delay.ns).sum::<u64>() + delays.rest_ns;
        let whole = within(usize::MAX);
        assert_eq!((whole.until_ns, whole.by.len()), (1_001_000, 2));
        let part = within(500);
        assert!((50_000..600_000).contains(&part.until_ns), "{part:?}");
        // Up to there it is all that a window that ends there has.
        assert_eq!(part, timeline.delays(0, part.until_ns, &|_| true, None));
        assert!(sum(&part) < sum(&whole));
    }
}
