//! The probe's ring buffer, emptied into [`Event`]s in the order in which they happened; among them the final counters of each thread that
//! ends between two snapshots. [`EventRing`] is the buffer, and counts the exits that did not fit into it.
//!
//! No thread is woken for an event. A snapshot empties the ring buffer; only when it is half full before that does a helper thread wake and
//! empty it into memory, so that a storm or a long interval loses nothing.

use std::convert::Infallible;
use std::num::NonZeroUsize;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use cpumon_model::empty_list;
use libbpf_rs::{MapCore, RingBuffer, RingBufferBuilder};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};

use super::super::sandbox;
use super::groups::{ControlGroups, GroupEvent, NewGroups};
use super::load;
use super::records::{
    ExecEvent, ExitEvent, LostAtCut, LostExits, LostSides, RingDrops, ScriptEvent, TaskRecord, read_plain,
};
use super::sched::{MappedArray, PROBE, Programs};
use crate::CollectError;
use crate::script::{ExecScript, ScriptCommand};

/// Ring buffer for each CPU, bytes; a short process takes 1,000, one of an interpreter 1,300. A power of two, as the kernel wants it.
const RING_BYTES_PER_CPU: usize = 1 << 19;
const MIN_RING_BYTES: usize = 1 << 20;
const MAX_RING_BYTES: usize = 16 << 20;

/// Events that wait for the next snapshot, beyond which the helper thread takes no more: then the ring buffer fills up, and the probe
/// sums the exits that do not fit.
const MAX_WAITING: usize = 1 << 15;

/// Events for which the lists have capacity from the start.
pub(super) const INITIAL_EVENTS: usize = 256;

/// How many newest events are searched for the ending that an exit replaces. Between the two lie some microseconds.
const NEWEST: usize = 8;

/// A record of the ring buffer, parsed.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    Exit(ExitEvent),
    Ending(ExitEvent),
    /// How a thread stood at the cut after which it ended.
    Cut(ExitEvent),
    /// Boxed: it is twice as long as the others, and rarer.
    Exec(Box<ExecEvent>, ExecScript),
}

const EVENT_EXIT: u32 = 1;
const EVENT_EXEC: u32 = 2;
const EVENT_ENDING: u32 = 3;
const EVENT_CUT: u32 = 4;
const EVENT_SCRIPT: u32 = 6;

impl Event {
    /// Reads a record of the ring buffer; `None` for one that makes no sense.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        match u32::from_ne_bytes(*bytes.first_chunk()?) {
            EVENT_EXIT => read_plain(bytes).map(Self::Exit),
            EVENT_EXEC => read_plain(bytes).map(|exec| Self::Exec(Box::new(exec), ExecScript::Unread)),
            EVENT_SCRIPT => read_plain(bytes)
                .map(|event: ScriptEvent| Self::Exec(Box::new(event.exec), script_of(&event))),
            EVENT_ENDING => read_plain(bytes).map(Self::Ending),
            EVENT_CUT => read_plain(bytes).map(Self::Cut),
            _ => None,
        }
    }

    /// The newest cut that was past when it happened.
    pub(crate) fn cut_ns(&self) -> u64 {
        match self {
            Self::Exit(exit) | Self::Ending(exit) | Self::Cut(exit) => exit.cut_ns,
            Self::Exec(exec, _) => exec.cut_ns,
        }
    }

    /// Moves the event's time back to `boot_ns` if it is later.
    pub(crate) fn not_after(&mut self, boot_ns: u64) {
        let at_ns = match self {
            Self::Exit(exit) | Self::Ending(exit) | Self::Cut(exit) => &mut exit.end_ns,
            Self::Exec(exec, _) => &mut exec.at_ns,
        };
        *at_ns = boot_ns.min(*at_ns);
    }

    pub(crate) fn task_mut(&mut self) -> &mut TaskRecord {
        match self {
            Self::Exit(exit) | Self::Ending(exit) | Self::Cut(exit) => &mut exit.task,
            Self::Exec(exec, _) => &mut exec.task,
        }
    }
}

/// Extracts the script from the arguments. The other arguments are dropped here.
fn script_of(event: &ScriptEvent) -> ExecScript {
    let executable = String::from_utf8_lossy(event.exec.name());
    let cmdline = event.arguments.get(..event.bytes as usize).unwrap_or_default();
    let comm = event.exec.task.comm();
    ScriptCommand { executable: &executable, comm, cmdline, is_cut: event.is_cut != 0 }.at_exec()
}

/// Events that were taken out of the ring buffer for the next snapshot.
#[derive(Default)]
struct WaitingEvents {
    events: Vec<Event>,
    groups: NewGroups,
    malformed: u64,
}

impl WaitingEvents {
    fn take(&mut self, bytes: &[u8]) {
        if let Some(group) = GroupEvent::parse(bytes) {
            return self.groups.push(group);
        }
        let mut event = Event::parse(bytes);
        if let Some(event) = &mut event {
            let task = event.task_mut();
            task.count_by_switches(0);
            task.give_its_id_back();
        }
        match event {
            None => self.malformed += 1,
            Some(Event::Exit(exit)) if self.replace_ending(&exit) => {}
            Some(event) => self.events.push(event),
        }
    }

    /// How many more events the helper thread may take.
    fn space(&self) -> usize {
        MAX_WAITING.saturating_sub(self.events.len())
    }
}

impl WaitingEvents {
    /// Puts an exit in the place of its ending, if that is among the newest events: the ending adds nothing then.
    fn replace_ending(&mut self, exit: &ExitEvent) -> bool {
        let ending = self.events.iter_mut().rev().take(NEWEST).find_map(|event| match event {
            // On either side of a cut both are needed: one for each interval.
            Event::Ending(ending) if ending.task.key() == exit.task.key() && ending.cut_ns == exit.cut_ns => {
                Some((ending.task, event))
            }
            _ => None,
        });
        let Some((ending, event)) = ending else { return false };
        let mut exit = *exit;
        // At the exit the kernel's pointer to the leader can be stale; at the ending it was not yet.
        if exit.task.process_start_ns == 0 {
            exit.task.process_start_ns = ending.process_start_ns;
        }
        *event = Event::Exit(exit);
        true
    }
}

pub(crate) struct EventRing {
    ring: Arc<Ring>,
    lost: MappedArray<LostSides>,
    lost_at_cut: LostAtCut,
    drops: MappedArray<RingDrops>,
    helper: Option<JoinHandle<()>>,
}

struct Ring {
    /// The holder of the lock empties the ring buffer: its callback fills `waiting`.
    buffer: Mutex<RingBuffer<'static>>,
    waiting: Arc<Mutex<WaitingEvents>>,
    /// Most events that the ring buffer holds.
    capacity: usize,
    /// Written to when there is space again, or when the helper thread has to stop.
    wake: OwnedFd,
    stops: AtomicBool,
}

pub(crate) fn ring_bytes() -> u32 {
    let cpus = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let bytes = cpus.next_power_of_two().saturating_mul(RING_BYTES_PER_CPU);
    u32::try_from(bytes.clamp(MIN_RING_BYTES, MAX_RING_BYTES)).unwrap_or(u32::MAX)
}

impl EventRing {
    /// With a thread that empties the buffer when it is half full.
    pub(crate) fn open(programs: &Programs) -> Result<Self, CollectError> {
        let mut events = Self::open_alone(programs)?;
        events.helper = Some(spawn_helper(&events.ring).map_err(|error| refused("start a thread", &error))?);
        Ok(events)
    }

    /// Without the helper thread: a full ring buffer loses events, and counts them.
    pub(crate) fn open_alone(programs: &Programs) -> Result<Self, CollectError> {
        let waiting =
            WaitingEvents { events: Vec::with_capacity(INITIAL_EVENTS), ..WaitingEvents::default() };
        let waiting = Arc::new(Mutex::new(waiting));
        let (ring, bytes) = open_ring(programs, &waiting)?;
        let lost = MappedArray::map(programs, "lost", false)?;
        let drops = MappedArray::map(programs, "ring_drops", false)?;
        let wake =
            eventfd(0, EventfdFlags::CLOEXEC).map_err(|error| refused("make an eventfd", &error.into()))?;
        let capacity = bytes / size_of::<ExitEvent>();
        let ring = Ring { buffer: Mutex::new(ring), waiting, capacity, wake, stops: AtomicBool::new(false) };
        let lost_at_cut = LostAtCut::default();
        Ok(Self { ring: Arc::new(ring), lost, lost_at_cut, drops, helper: None })
    }

    /// Replaces `into` by every event since the last call; `groups` receives the names that they use. Returns how many records made
    /// no sense, since the probe was loaded.
    pub(crate) fn drain(
        &self,
        into: &mut Vec<Event>,
        groups: &mut ControlGroups,
    ) -> Result<u64, CollectError> {
        // Before `waiting` is locked, because the callback of the ring buffer takes that lock. The limit covers all that
        // is in the buffer at this instant, and keeps a storm of events from holding up the pass.
        self.ring.take(self.ring.capacity)?;
        let mut waiting = lock(&self.ring.waiting);
        let was_full = waiting.space() == 0;
        empty_list(into);
        // The two lists change places, so that both keep their memory.
        std::mem::swap(into, &mut waiting.events);
        groups.learn(&mut waiting.groups);
        if was_full {
            self.ring.wake();
        }
        Ok(waiting.malformed)
    }

    /// Exits that did not fit, since the probe was loaded: those before the newest cut, on this side, or all.
    pub(crate) fn lost(&mut self, side: Option<usize>) -> LostExits {
        self.lost_at_cut.read(&self.lost.read(0).unwrap_or_default(), side)
    }

    /// Events that did not fit, since the probe was loaded.
    pub(crate) fn drops(&self) -> RingDrops {
        self.drops.read(0).unwrap_or_default()
    }
}

impl Drop for EventRing {
    fn drop(&mut self) {
        self.ring.stops.store(true, Ordering::SeqCst);
        let is_woken = self.ring.wake();
        // Joined only if it was woken: otherwise the join would never return.
        if let Some(helper) = self.helper.take().filter(|_| is_woken)
            && helper.join().is_err()
        {
            log::warn!("the thread that empties the BPF ring buffer had failed");
        }
    }
}

impl Ring {
    /// Takes at most this many records.
    fn take(&self, most: usize) -> Result<(), CollectError> {
        let taken = lock(&self.buffer).consume_raw_n(most);
        if taken >= 0 {
            return Ok(());
        }
        let error = std::io::Error::from_raw_os_error(taken.saturating_neg());
        Err(CollectError::Bpf { operation: "empty the ring buffer", error })
    }

    fn wake(&self) -> bool {
        rustix::io::write(&self.wake, &1_u64.to_ne_bytes()).is_ok()
    }
}

/// A panic elsewhere leaves plain data behind: it stays usable.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn refused(step: &str, error: &std::io::Error) -> CollectError {
    CollectError::BpfUnavailable { reason: format!("cannot {step}: {error}") }
}

/// Returns the ring buffer and its size in bytes.
fn open_ring(
    programs: &Programs,
    waiting: &Arc<Mutex<WaitingEvents>>,
) -> Result<(RingBuffer<'static>, usize), CollectError> {
    let failed = |error: libbpf_rs::Error| load::refused(PROBE, "open the ring buffer of", &error);
    let map = programs.map("events")?;
    let waiting = Arc::clone(waiting);
    let mut builder = RingBufferBuilder::new();
    let take = move |bytes: &[u8]| {
        lock(&waiting).take(bytes);
        0
    };
    builder.add(&map, take).map_err(failed)?;
    Ok((builder.build().map_err(failed)?, map.max_entries() as usize))
}

/// Sleeps until the probe finds the ring buffer half full, or the ring says that it has to stop.
fn spawn_helper(ring: &Arc<Ring>) -> std::io::Result<JoinHandle<()>> {
    let ring = Arc::clone(ring);
    let (has_rights, gave_up) = std::sync::mpsc::channel::<Infallible>();
    let helper = std::thread::Builder::new().name("cpumon-ring".to_owned()).spawn(move || {
        // It inherits the capabilities of the thread that opened the source, and only reads mapped memory.
        sandbox::drop_all();
        drop(has_rights);
        let ring_fd = lock(&ring.buffer).epoll_fd();
        #[expect(unsafe_code, reason = "libbpf hands out a number only")]
        // SAFETY: the ring buffer lives in `ring`, which this thread holds, and keeps the descriptor open.
        let ring_fd = unsafe { BorrowedFd::borrow_raw(ring_fd) };
        while !ring.stops.load(Ordering::SeqCst) {
            if let Err(error) = help(&ring, ring_fd) {
                // Snapshots continue to empty the buffer without this thread; events that do not fit are counted.
                return log::warn!("the BPF ring buffer is emptied by snapshots only: {error}");
            }
        }
    })?;
    // A busy machine may run it much later, and the caller must not believe that its rights are gone before. Returns once the sender is
    // dropped.
    let _gone = gave_up.recv();
    Ok(helper)
}

fn help(ring: &Ring, ring_fd: BorrowedFd<'_>) -> Result<(), CollectError> {
    let failed =
        |operation| move |error: rustix::io::Errno| CollectError::Bpf { operation, error: error.into() };
    let space = lock(&ring.waiting).space();
    let mut fds = [PollFd::new(&ring.wake, PollFlags::IN), PollFd::from_borrowed_fd(ring_fd, PollFlags::IN)];
    // Without space the buffer stays as it is until a snapshot has taken the waiting events: polling it would return at once.
    let polled = if space == 0 { &mut fds[..1] } else { &mut fds[..] };
    match poll(polled, None) {
        Ok(_) => {}
        Err(rustix::io::Errno::INTR) => return Ok(()),
        Err(error) => return Err(failed("wait for the ring buffer")(error)),
    }
    if !fds[0].revents().is_empty() {
        rustix::io::read(&ring.wake, &mut [0; 8]).map_err(failed("be woken for the ring buffer"))?;
    }
    ring.take(space)
}

#[cfg(test)]
mod tests {
    use cpumon_model::{Counters, Probes};

    use super::super::records::bytes_of;
    use super::super::sched::Setup;
    use super::*;
    use crate::source::platform::eventually::eventually;

    fn setup(ring_bytes: u32) -> Setup {
        Setup { probes: Probes::EXITS, ring_bytes, script_names: true }
    }

    #[test]
    fn the_helper_takes_no_more_than_the_list_holds_and_nonsense_is_counted() {
        let mut waiting = WaitingEvents::default();
        let counters = Counters { run_ns: 7, ..Counters::default() };
        let task = TaskRecord { counters, ..TaskRecord::default() };
        let exit = ExitEvent { kind: 1, task, ..ExitEvent::default() };
        let bytes = bytes_of(&exit);
        for taken in 0..MAX_WAITING {
            assert_eq!(waiting.space(), MAX_WAITING - taken);
            waiting.take(bytes);
        }
        assert_eq!(waiting.space(), 0, "the ring buffer fills up, and the probe sums what does not fit");
        waiting.take(&bytes[..100]);
        waiting.take(&[9, 9, 9, 9]);
        waiting.take(&[]);
        assert_eq!((waiting.events.len(), waiting.malformed), (MAX_WAITING, 3));
    }

    #[test]
    fn a_full_ring_buffer_counts_what_it_loses() {
        let opened = Programs::open(setup(4096))
            .and_then(|programs| Ok((EventRing::open_alone(&programs)?, programs)));
        let (mut ring, _probe) = match opened {
            Ok(opened) => opened,
            Err(error) => return crate::source::platform::skip::skip(format!("needs root for BPF: {error}")),
        };
        for _ in 0..100 {
            std::thread::spawn(|| ()).join().unwrap();
        }
        let (mut events, mut reported) = (Vec::new(), 0);
        // A thread is joined before its last switch, and those of other programs end all the time.
        let lost =
            eventually("each exit is reported or lost, and exits and execs are summed besides", || {
                assert_eq!(ring.drain(&mut events, &mut ControlGroups::default()).unwrap(), 0);
                assert!(events.len() <= ring.ring.capacity, "{}", events.len());
                reported += events.iter().filter(|event| matches!(event, Event::Exit(_))).count() as u64;
                let (lost, drops) = (ring.lost(None), ring.drops());
                assert!(drops.endings > 0 && drops.total() >= drops.exits + drops.endings, "{drops:?}");
                let is_summed = (drops.exits, drops.execs) == (lost.count, lost.execs);
                (is_summed && reported + lost.count >= 100).then_some(lost)
            });
        let least_ns = lost.count * 1_000;
        assert!(lost.counters.run_ns > least_ns, "a thread takes more than a microsecond: {lost:?}");
        assert!(lost.counters.voluntary_switches >= lost.count, "{lost:?}");
    }

    #[test]
    fn arguments_are_read_of_interpreters_and_only_for_names() {
        let script = tempfile::NamedTempFile::new().unwrap();
        let name = script.path().file_name().unwrap().to_str().unwrap();
        // Programs, with the scripts in their execs' arguments.
        let execs = |script_names| {
            let opened = Programs::open(Setup { script_names, ..setup(1 << 20) })
                .and_then(|programs| Ok((EventRing::open_alone(&programs)?, programs)));
            let (ring, _probe) = opened.map_err(|error| error.to_string())?;
            for words in [&["/bin/sh", script.path().to_str().unwrap()][..], &["/bin/true", "x"]] {
                assert!(std::process::Command::new(words[0]).args(&words[1..]).status().unwrap().success());
            }
            let mut events = Vec::new();
            ring.drain(&mut events, &mut ControlGroups::default()).unwrap();
            let execs = events.iter().filter_map(|event| match event {
                Event::Exec(exec, script) if exec.task.parent_pid == std::process::id() => {
                    Some((String::from_utf8_lossy(exec.name()).into_owned(), script.clone()))
                }
                _ => None,
            });
            Ok::<Vec<_>, String>(execs.collect())
        };
        let read = match execs(true) {
            Ok(read) => read,
            Err(error) => return crate::source::platform::skip::skip(format!("needs root for BPF: {error}")),
        };
        let of_script = |execs: &[(String, ExecScript)], script: &ExecScript| {
            execs.iter().any(|(program, found)| program != "true" && found == script)
        };
        assert!(of_script(&read, &ExecScript::Named(name.into())), "{read:?}");
        assert!(read.contains(&("true".to_owned(), ExecScript::Unread)), "{read:?}");
        let unread = execs(false).unwrap();
        assert!(of_script(&unread, &ExecScript::Unread), "{unread:?}");
        assert!(unread.iter().all(|(_, script)| *script == ExecScript::Unread), "{unread:?}");
    }

    #[test]
    fn an_exit_takes_the_place_of_its_ending() {
        let task = |tid, process_start_ns| TaskRecord { process_start_ns, tid, ..TaskRecord::default() };
        let event =
            |tid, process_start_ns| ExitEvent { task: task(tid, process_start_ns), ..ExitEvent::default() };
        let mut waiting = WaitingEvents {
            events: vec![Event::Ending(event(5, 77)), Event::Ending(event(6, 78))],
            ..WaitingEvents::default()
        };
        assert!(waiting.replace_ending(&event(5, 0)));
        assert!(!waiting.replace_ending(&event(5, 0)), "only once");
        assert!(matches!(waiting.events[0], Event::Exit(exit) if exit.task == task(5, 77)));
        assert!(matches!(waiting.events[1], Event::Ending(_)));
    }

    #[test]
    fn a_storm_longer_than_the_ring_buffer_is_drained_while_it_runs() {
        let opened = Programs::open(setup(ring_bytes()))
            .and_then(|programs| Ok((EventRing::open(&programs)?, programs)));
        let (mut ring, _probe) = match opened {
            Ok(opened) => opened,
            Err(error) => return crate::source::platform::skip::skip(format!("needs root for BPF: {error}")),
        };
        // On two CPUs about 4 MB of events for a buffer of 1 MiB; on more CPUs the buffer is not filled.
        let count = 15_000;
        for _ in 0..count {
            std::thread::spawn(|| ()).join().unwrap();
        }
        let is_ours =
            |event: &&Event| matches!(event, Event::Exit(exit) if exit.task.pid == std::process::id());
        let (mut events, mut reported) = (Vec::new(), 0);
        // A thread is joined before its last switch. On a machine too busy to let the drain run in time some are counted instead of
        // reported: fewer than without a drain, and none is missing.
        let lost = eventually("each exit is reported or lost", || {
            ring.drain(&mut events, &mut ControlGroups::default()).unwrap();
            reported += events.iter().filter(is_ours).count();
            let lost = ring.lost(None);
            (reported + usize::try_from(lost.count).unwrap() >= count).then_some(lost)
        });
        let held = ring_bytes() as usize / size_of::<ExitEvent>();
        assert!(reported > held.min(count - 2), "no more than the buffer holds: {reported} {lost:?}");
    }
}
