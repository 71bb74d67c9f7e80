//! What `perf script` prints of a recording by `perf sched record`, added up by chains: a slice is a thread's only if the switch that ends
//! it takes the CPU from the thread to which the CPU's last switch gave it. Any other time is unknown. `perf sched timehist` charges it to
//! the thread that leaves next, which is wrong where switches are not recorded, as those of hidden threads are not.

use std::collections::HashMap;
use std::path::Path;
use std::process::{Command, Stdio};

/// An event that changes what a thread does.
pub enum Event<'a> {
    /// The state is perf's letter: `R` for a thread that was pushed off the CPU.
    Switch {
        prev: u32,
        state: &'a str,
        next: u32,
    },
    Waking(u32),
    /// The end of a wakeup; older kernels report no begin.
    Wakeup(u32),
    Born(u32),
}

/// What the recorded switches say of a thread.
#[derive(Copy, Clone, Debug, Default)]
pub struct ThreadSums {
    pub run_ns: u64,
    pub delay_ns: u64,
    /// How often it left a CPU.
    pub slices: u64,
    /// Spans in which it came or left unseen: whether it ran, was ready or was blocked is unknown.
    pub unknown_ns: u64,
    /// It came to a CPU and was not seen since.
    pub is_open: bool,
    ready_ns: Option<u64>,
    /// When it came or left last.
    seen_ns: u64,
}

/// What `perf script` prints of all CPUs, in the order of time.
pub fn script(data: &Path) -> String {
    let output = Command::new("perf")
        .args(["script", "--ns", "-F", "cpu,time,event,trace", "-i"])
        .arg(data)
        .stderr(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "perf script: {}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// `[001]  123.456789012: sched:sched_switch: prev_comm=NAME prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=NAME next_pid=8 next_prio=120`:
/// CPU, time in ns, event.
pub fn parse(line: &str) -> Option<(u32, u64, Event<'_>)> {
    let (cpu, rest) = line.trim_start().strip_prefix('[')?.split_once(']')?;
    let (time, rest) = rest.trim_start().split_once(": ")?;
    let (seconds, nanos) = time.split_once('.')?;
    let at_ns = seconds.parse::<u64>().ok()? * 1_000_000_000 + nanos.parse::<u64>().ok()?;
    let (name, what) = rest.trim_start().strip_prefix("sched:")?.split_once(": ")?;
    let tid = |title| field(what, title)?.parse().ok();
    let event = match name {
        "sched_switch" => switch(what)?,
        "sched_waking" => Event::Waking(tid(" pid=")?),
        "sched_wakeup" => Event::Wakeup(tid(" pid=")?),
        "sched_wakeup_new" => Event::Born(tid(" pid=")?),
        _ => return None,
    };
    Some((cpu.parse().ok()?, at_ns, event))
}

/// The fields as above, or where perf prints the record in its own way, `name:12 [120] S ==> name:13 [120]`.
fn switch(what: &str) -> Option<Event<'_>> {
    let (prev, next) = what.rsplit_once(" ==> ")?;
    if let Some(state) = field(prev, "prev_state=") {
        let (prev, next) = (field(prev, "prev_pid=")?, field(next, "next_pid=")?);
        return Some(Event::Switch { prev: prev.parse().ok()?, state, next: next.parse().ok()? });
    }
    let tid = |side: &str| side.rsplit_once(" [")?.0.rsplit(':').next()?.parse().ok();
    Some(Event::Switch { prev: tid(prev)?, state: prev.rsplit(' ').next()?, next: tid(next)? })
}

/// The last field of this name: a task's name, which may hold anything, comes before its numbers.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.get(text.rfind(name)? + name.len()..)?.split_whitespace().next()
}

/// By tid; the idle threads of all CPUs are 0.
pub fn sums(script: &str) -> HashMap<u32, ThreadSums> {
    let mut threads = HashMap::<u32, ThreadSums>::new();
    // By CPU: who came last, and when.
    let mut current = HashMap::<u32, (u32, u64)>::new();
    for (cpu, at_ns, event) in script.lines().filter_map(parse) {
        let (prev, state, next) = match event {
            Event::Switch { prev, state, next } => (prev, state, next),
            Event::Waking(tid) | Event::Wakeup(tid) | Event::Born(tid) => {
                threads.entry(tid).or_default().ready_ns.get_or_insert(at_ns);
                continue;
            }
        };
        let came = current.insert(cpu, (next, at_ns));
        let left = threads.entry(prev).or_default();
        match came.filter(|(tid, _)| *tid == prev && left.is_open) {
            Some((_, since_ns)) => left.run_ns += at_ns - since_ns,
            None => left.unknown_ns += at_ns.saturating_sub(left.seen_ns),
        }
        // Some versions of perf print W for who was preempted in the kernel (R+ in the event).
        let ready_ns = state.starts_with(['R', 'W']).then_some(at_ns);
        *left = ThreadSums { slices: left.slices + 1, is_open: false, ready_ns, seen_ns: at_ns, ..*left };
        let comes = threads.entry(next).or_default();
        if comes.is_open {
            comes.unknown_ns += at_ns - comes.seen_ns;
        }
        comes.delay_ns += comes.ready_ns.take().map_or(0, |ready_ns| at_ns - ready_ns);
        (comes.is_open, comes.seen_ns) = (true, at_ns);
    }
    threads
}
