//! Empties the probe's ring buffer into [`Event`]s, in the order in which they happened, and [`LostExits`]. A thread that ends between
//! two snapshots leaves its final counters here.
//!
//! No thread is woken for an event. A snapshot empties the ring buffer; only when it is half full before that does a helper
//! thread wake and empty it into memory, so that a storm or a long interval loses nothing.

pub(crate) mod events;

use std::num::NonZeroUsize;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use cpumon_model::empty_list;
use libbpf_rs::{RingBuffer, RingBufferBuilder};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};

use self::events::Event;
use super::lifecycle::summed::MAX_PARENTS;
use super::load;
use super::records::{ExitEvent, LostExits, RingDrops, TaskRecord};
use super::sched::{PROBE, Programs, Shared};
use crate::CollectError;
use crate::source::platform::privileges;

/// Ring buffer for each CPU, bytes; a short process takes 1008. A power of two, as the kernel wants it.
const RING_BYTES_PER_CPU: usize = 1 << 19;
const MIN_RING_BYTES: usize = 1 << 20;
const MAX_RING_BYTES: usize = 16 << 20;

/// Events kept until the next snapshot. What is beyond is only summed, and counted as lost.
const MAX_WAITING: usize = 1 << 15;

/// Events for which the lists have capacity from the start.
pub(super) const INITIAL_EVENTS: usize = 256;

/// How many newest events are searched for the ending that an exit replaces. Between the two lie some microseconds.
const NEWEST: usize = 8;

/// What has been taken out of the ring buffer and waits for the next snapshot.
#[derive(Default)]
struct Waiting {
    events: Vec<Event>,
    malformed: u64,
    /// Exits that did not fit `events`.
    overflow: LostExits,
    /// The same since the last snapshot, by the parent's process id; 0: of all beyond [`MAX_PARENTS`].
    overflow_of: Vec<(u32, LostExits)>,
    /// Events that did not fit `events`.
    dropped: RingDrops,
}

/// What emptying the ring buffer gave besides events, all of it since the probe was loaded.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Drained {
    /// Records that made no sense.
    pub(crate) malformed: u64,
    /// Exits that fit no buffer.
    pub(crate) lost: LostExits,
    /// Events that did not fit the ring buffer.
    pub(crate) ring: RingDrops,
    /// Events that the ring buffer held and the list behind it did not.
    pub(crate) list: RingDrops,
}

impl Waiting {
    fn take(&mut self, bytes: &[u8]) {
        let mut event = Event::parse(bytes);
        if let Some(event) = &mut event {
            let task = event.task_mut();
            task.count_by_switches(0);
            task.give_its_id_back();
        }
        match event {
            None => self.malformed += 1,
            Some(Event::Exit(exit)) if self.replace_ending(&exit) => {}
            Some(event) if self.events.len() < MAX_WAITING => self.events.push(event),
            Some(event) => self.drop(&event),
        }
    }
}

impl Waiting {
    /// Counts an event for which there is no space, and sums it if it is an exit.
    fn drop(&mut self, event: &Event) {
        let dropped = &mut self.dropped;
        match event {
            Event::Exit(exit) => {
                dropped.exits += 1;
                self.sum(&exit.task);
            }
            Event::Exec(_) => {
                dropped.execs += 1;
                // In `lost` as well: the tracker then reads the names of all processes again.
                self.overflow.execs += 1;
            }
            Event::Ending(_) => dropped.endings += 1,
            Event::Cut(_) => dropped.cuts += 1,
        }
    }

    fn sum(&mut self, task: &TaskRecord) {
        self.overflow.add(task);
        let known = self.overflow_of.iter().position(|(pid, _)| *pid == task.parent_pid);
        // Bounded: a storm of parents must not make the list of sums longer than the list that it relieves.
        let pid = if known.is_some() || self.overflow_of.len() < MAX_PARENTS { task.parent_pid } else { 0 };
        if let Some((_, sums)) = self.overflow_of.iter_mut().find(|(known, _)| *known == pid) {
            sums.add(task);
        } else {
            let mut sums = LostExits::default();
            sums.add(task);
            self.overflow_of.push((pid, sums));
        }
    }
}

impl Waiting {
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

/// Empties the ring buffer.
pub(crate) struct EventRing {
    ring: Arc<Ring>,
    lost: Shared<LostExits>,
    drops: Shared<RingDrops>,
    helper: Option<JoinHandle<()>>,
    stop: Arc<OwnedFd>,
}

struct Ring {
    /// The holder of the lock empties the ring buffer: its callback fills `waiting`.
    ring: Mutex<RingBuffer<'static>>,
    waiting: Arc<Mutex<Waiting>>,
}

/// Size of the ring buffer for this machine.
pub(crate) fn ring_bytes() -> u32 {
    let cpus = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let bytes = cpus.next_power_of_two().saturating_mul(RING_BYTES_PER_CPU);
    u32::try_from(bytes.clamp(MIN_RING_BYTES, MAX_RING_BYTES)).unwrap_or(u32::MAX)
}

impl EventRing {
    /// With a thread that empties the buffer when it is half full.
    pub(crate) fn open(programs: &Programs) -> Result<Self, CollectError> {
        let mut events = Self::open_alone(programs)?;
        events.helper = Some(
            spawn_helper(&events.ring, &events.stop).map_err(|error| refused("start a thread", &error))?,
        );
        Ok(events)
    }

    /// Without the helper thread: a full ring buffer loses events, and counts them.
    pub(crate) fn open_alone(programs: &Programs) -> Result<Self, CollectError> {
        let waiting = Waiting { events: Vec::with_capacity(INITIAL_EVENTS), ..Waiting::default() };
        let waiting = Arc::new(Mutex::new(waiting));
        let ring = open_ring(programs, &waiting)?;
        let lost = Shared::map(programs, "lost", false)?;
        let drops = Shared::map(programs, "ring_drops", false)?;
        let stop =
            eventfd(0, EventfdFlags::CLOEXEC).map_err(|error| refused("make an eventfd", &error.into()))?;
        let stop = Arc::new(stop);
        let ring = Arc::new(Ring { ring: Mutex::new(ring), waiting });
        Ok(Self { ring, lost, drops, helper: None, stop })
    }

    /// Replaces `into` by every event since the last call.
    pub(crate) fn drain(&self, into: &mut Vec<Event>) -> Result<Drained, CollectError> {
        // Before `waiting` is locked: the callback of the ring buffer takes that lock.
        self.ring.empty()?;
        let mut waiting = lock(&self.ring.waiting);
        empty_list(into);
        // The two lists change places, so that both keep their memory.
        std::mem::swap(into, &mut waiting.events);
        Ok(Drained {
            malformed: waiting.malformed,
            lost: self.lost.read(0).unwrap_or_default().plus(&waiting.overflow),
            ring: self.drops.read(0).unwrap_or_default(),
            list: waiting.dropped,
        })
    }

    /// Replaces `into` by what did not fit the waiting list since the last call, by the parent's process id.
    pub(crate) fn take_overflow(&self, into: &mut Vec<(u32, LostExits)>) {
        into.clear();
        into.append(&mut lock(&self.ring.waiting).overflow_of);
    }
}

impl Drop for EventRing {
    fn drop(&mut self) {
        let written = rustix::io::write(&*self.stop, &1_u64.to_ne_bytes());
        // Joined only if it was woken: otherwise the join would never return.
        if let (Ok(_), Some(helper)) = (written, self.helper.take())
            && helper.join().is_err()
        {
            log::warn!("the thread that empties the BPF ring buffer had failed");
        }
    }
}

impl Ring {
    fn empty(&self) -> Result<(), CollectError> {
        lock(&self.ring).consume().map_err(|error| CollectError::Bpf {
            operation: "empty the ring buffer",
            error: std::io::Error::other(error.to_string()),
        })
    }
}

/// A panic elsewhere leaves plain data behind: it stays usable.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn refused(step: &str, error: &std::io::Error) -> CollectError {
    CollectError::BpfUnavailable { reason: format!("cannot {step}: {error}") }
}

fn open_ring(
    programs: &Programs,
    waiting: &Arc<Mutex<Waiting>>,
) -> Result<RingBuffer<'static>, CollectError> {
    let failed = |error: libbpf_rs::Error| load::refused(PROBE, "open the ring buffer of", &error);
    let map = programs.map("events")?;
    let waiting = Arc::clone(waiting);
    let mut builder = RingBufferBuilder::new();
    let take = move |bytes: &[u8]| {
        lock(&waiting).take(bytes);
        0
    };
    builder.add(&map, take).map_err(failed)?;
    builder.build().map_err(failed)
}

/// Sleeps until the probe finds the ring buffer half full, or `stop` is written to.
fn spawn_helper(ring: &Arc<Ring>, stop: &Arc<OwnedFd>) -> std::io::Result<JoinHandle<()>> {
    let (ring, stop) = (Arc::clone(ring), Arc::clone(stop));
    std::thread::Builder::new().name("cpumon-ring".to_owned()).spawn(move || {
        // It inherits the capabilities of the thread that opened the source, and only reads mapped memory.
        privileges::drop_all();
        let ring_fd = lock(&ring.ring).epoll_fd();
        #[expect(unsafe_code, reason = "libbpf hands out a number only")]
        // SAFETY: the ring buffer lives in `ring`, which this thread holds, and keeps the descriptor open.
        let ring_fd = unsafe { BorrowedFd::borrow_raw(ring_fd) };
        loop {
            let mut fds =
                [PollFd::from_borrowed_fd(ring_fd, PollFlags::IN), PollFd::new(&*stop, PollFlags::IN)];
            match poll(&mut fds, None) {
                Ok(_) if fds.last().is_some_and(|stop| !stop.revents().is_empty()) => return,
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                // Snapshots go on emptying the buffer without this thread; what does not fit is counted.
                Err(error) => return log::warn!("cannot wait for the BPF ring buffer: {error}"),
            }
            if let Err(error) = ring.empty() {
                return log::warn!("{error}");
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use cpumon_model::Probes;

    use super::*;

    fn bytes_of(exit: &ExitEvent) -> Vec<u8> {
        let mut bytes = vec![0; size_of::<ExitEvent>()];
        bytes[..4].copy_from_slice(&exit.kind.to_ne_bytes());
        bytes[40..48].copy_from_slice(&exit.task.run_ns.to_ne_bytes());
        bytes
    }

    #[test]
    fn what_does_not_fit_is_summed_and_nonsense_counted() {
        let mut waiting = Waiting::default();
        let task = TaskRecord { run_ns: 7, ..TaskRecord::default() };
        let bytes = bytes_of(&ExitEvent { kind: 1, task, ..ExitEvent::default() });
        for _ in 0..MAX_WAITING + 3 {
            waiting.take(&bytes);
        }
        waiting.take(&bytes[..100]);
        waiting.take(&[9, 9, 9, 9]);
        waiting.take(&[]);
        let dropped = RingDrops { exits: 3, ..RingDrops::default() };
        assert_eq!((waiting.events.len(), waiting.malformed, waiting.dropped), (MAX_WAITING, 3, dropped));
        for kind in [3, 3, 4] {
            waiting.take(&bytes_of(&ExitEvent { kind, task, ..ExitEvent::default() }));
        }
        assert_eq!(waiting.dropped, RingDrops { endings: 2, cuts: 1, ..dropped });
        assert_eq!((waiting.overflow.count, waiting.overflow.run_ns), (3, 21));
        let of: Vec<_> =
            waiting.overflow_of.iter().map(|(pid, sums)| (*pid, sums.count, sums.run_ns)).collect();
        assert_eq!(of, [(0, 3, 21)]);
        let both =
            LostExits { count: 2, run_ns: 9, execs: 1, ..LostExits::default() }.plus(&waiting.overflow);
        assert_eq!((both.count, both.run_ns, both.execs), (5, 30, 1));
    }

    #[test]
    fn a_full_ring_buffer_counts_what_it_loses() {
        let opened = Programs::open(Probes::EXITS, 4096)
            .and_then(|programs| Ok((EventRing::open_alone(&programs)?, programs)));
        let (ring, _probe) = match opened {
            Ok(opened) => opened,
            Err(error) => return crate::skip::skip(format!("needs root for BPF: {error}")),
        };
        for _ in 0..100 {
            std::thread::spawn(|| ()).join().unwrap();
        }
        let mut events = Vec::new();
        let Drained { malformed, lost, ring, list } = ring.drain(&mut events).unwrap();
        assert_eq!((malformed, list), (0, RingDrops::default()));
        assert_eq!((ring.exits, ring.execs), (lost.count, lost.execs), "exits and execs are summed besides");
        assert!(ring.endings > 0 && ring.total() >= ring.exits + ring.endings, "{ring:?}");
        assert!(events.len() <= 4096 / 296, "{}", events.len());
        let reported = events.iter().filter(|event| matches!(event, Event::Exit(_))).count() as u64;
        // The last thread may not have made its last switch.
        assert!(reported + lost.count >= 99, "{reported} {lost:?}");
        assert!(lost.run_ns > lost.count * 1_000, "a thread takes more than a microsecond: {lost:?}");
        assert!(lost.voluntary_switches >= lost.count, "{lost:?}");
    }
    #[test]
    fn an_exit_takes_the_place_of_its_ending() {
        let task = |tid, process_start_ns| TaskRecord { process_start_ns, tid, ..TaskRecord::default() };
        let event =
            |tid, process_start_ns| ExitEvent { task: task(tid, process_start_ns), ..ExitEvent::default() };
        let mut waiting = Waiting {
            events: vec![Event::Ending(event(5, 77)), Event::Ending(event(6, 78))],
            ..Waiting::default()
        };
        assert!(waiting.replace_ending(&event(5, 0)));
        assert!(!waiting.replace_ending(&event(5, 0)), "only once");
        assert!(matches!(waiting.events[0], Event::Exit(exit) if exit.task == task(5, 77)));
        assert!(matches!(waiting.events[1], Event::Ending(_)));
    }

    #[test]
    fn a_storm_longer_than_the_ring_buffer_is_drained_while_it_runs() {
        let opened = Programs::open(Probes::EXITS, ring_bytes())
            .and_then(|programs| Ok((EventRing::open(&programs)?, programs)));
        let (ring, _probe) = match opened {
            Ok(opened) => opened,
            Err(error) => return crate::skip::skip(format!("needs root for BPF: {error}")),
        };
        // On two CPUs about 4 MB of events for a buffer of 1 MiB; on more CPUs the buffer is not filled.
        let count = 15_000;
        for _ in 0..count {
            std::thread::spawn(|| ()).join().unwrap();
        }
        let mut events = Vec::new();
        let lost = ring.drain(&mut events).unwrap().lost;
        let is_ours =
            |event: &&Event| matches!(event, Event::Exit(exit) if exit.task.pid == std::process::id());
        let reported = events.iter().filter(is_ours).count();
        // The last thread may not have made its last switch. On a machine too busy to let the drain run in time some are
        // counted instead of reported: fewer than without a drain, and none is missing.
        let lost_count = usize::try_from(lost.count).unwrap();
        assert!(reported + lost_count + 1 >= count, "{reported} {lost:?}");
        let held = ring_bytes() as usize / size_of::<ExitEvent>();
        assert!(reported > held.min(count - 2), "no more than the buffer holds: {reported} {lost:?}");
    }
}
