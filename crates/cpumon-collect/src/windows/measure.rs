//! [`WindowsSource`] makes complete snapshots, by one call of the kernel or thread by thread. [`read_cycles`] makes a pass over all
//! processes with their CPU cycles, for the comparison of clocks.

use std::io;

use cpumon_model::{CpuSample, KnownCpuTimes, Probes, ProcessInfo, Snapshot, SourceKind};

use super::about::{About, IDLE_PID};
use super::etw::EtwSession;
use super::host;
use super::sys::{self, ListedProcess, ListedThread, Miss};
use crate::nt::{self, CycleSnapshot, Passes, Processes, ReportedProcess, ReportedThread, ThreadNames};
use crate::{CollectError, Source, SourceOptions};

/// `SystemProcessInformation`, `SystemProcessorPerformanceInformation`.
pub(super) const PROCESSES: i32 = 5;
const CPUS: i32 = 8;
/// First size of an answer's memory; it grows as the machine needs, and stays.
const FIRST_BYTES: usize = 256 << 10;

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Method {
    /// `NtQuerySystemInformation`: one call a pass, and no rights.
    Nt,
    /// `CreateToolhelp32Snapshot`, then `OpenThread` and `GetThreadTimes` for each thread.
    Toolhelp,
}

pub(super) struct WindowsSource {
    passes: Passes,
    buffer: Vec<u8>,
    cpu_buffer: Vec<u8>,
    known_cpus: KnownCpuTimes,
    /// `None`: the method is [`Method::Nt`].
    toolhelp: Option<Toolhelp>,
    about: About,
    names: ThreadNames,
    template: Snapshot,
    /// `None`: no probe was asked for.
    events: Option<EtwSession>,
    is_wine: bool,
    malformed: u64,
}

impl WindowsSource {
    /// Makes one pass, to check that the system answers. `probes`: the probes that need events.
    pub(super) fn open(
        method: Method,
        probes: Probes,
        options: &SourceOptions,
    ) -> Result<Self, CollectError> {
        let boot = host::boot_id();
        let is_nt = method == Method::Nt;
        let source = if is_nt { SourceKind::Nt } else { SourceKind::Toolhelp };
        let template = Snapshot { host: host::host_id(boot), boot, source, ..Snapshot::default() };
        let passes = Passes::new(host::base());
        // Wine's CPUs run the rest of Linux as well, and processes that may not be opened are unknown.
        let is_wine = sys::is_wine();
        let sees_all = is_nt && !is_wine;
        let has_events = !probes.is_empty();
        let passes = match (has_events, sees_all) {
            (true, _) => passes.with_events(),
            (false, true) => passes.with_unseen(),
            (false, false) => passes,
        };
        let mut opened = Self {
            passes,
            buffer: vec![0; FIRST_BYTES],
            cpu_buffer: vec![0; 64 * nt::CPU_BYTES],
            known_cpus: KnownCpuTimes::default(),
            toolhelp: (!is_nt).then(|| Toolhelp::new(is_wine)),
            about: About::open(options),
            names: ThreadNames::default(),
            template,
            events: None,
            is_wine,
            malformed: 0,
        };
        if is_nt {
            sys::query(PROCESSES, &mut opened.buffer).map_err(failed("read processes and threads"))?;
        }
        // Last, so that a system that does not answer leaves no session.
        if has_events {
            opened.events = Some(EtwSession::start(probes)?);
        }
        Ok(opened)
    }

    fn read_nt(&mut self, into: &mut Snapshot) -> Result<(), CollectError> {
        let length = sys::query(PROCESSES, &mut self.buffer).map_err(failed("read processes and threads"))?;
        let now = self.is_wine.then(sys::coarse_time);
        let answer = &self.buffer[..length.min(self.buffer.len())];
        for record in Processes::new(answer, answer.as_ptr() as u64) {
            let record = record.inspect_err(|_| self.malformed += 1).map_err(CollectError::Nt)?;
            let process = record.process;
            if process.pid == IDLE_PID {
                continue;
            }
            let about = || self.about.describe(process.pid, &nt::text(record.name));
            let threads = record.threads().map(|thread| {
                let name = self.names.of(thread.tid, thread.created, sys::thread_name);
                let row = ReportedThread { name, ..thread };
                now.map_or(row, |now| row.if_possible(now))
            });
            self.passes.add(&process, threads, about, into);
        }
        Ok(())
    }
}

impl Source for WindowsSource {
    fn snapshot(&mut self, into: &mut Snapshot) -> Result<(), CollectError> {
        into.clear();
        let template = &self.template;
        (into.host, into.boot, into.source) = (template.host, template.boot, template.source);
        into.begin = host::now();
        let cut = self.events.as_mut().map(EtwSession::cut).transpose()?;
        let listed_from = host::now();
        self.names.begin();
        if let Some(services) = self.about.refresh() {
            self.passes.set_services(services);
        }
        self.about.name_products(|pid, product| self.passes.set_product(pid, product));
        match self.toolhelp.take() {
            None => self.read_nt(into)?,
            Some(mut toolhelp) => {
                let read = toolhelp.read(&mut self.passes, &mut self.about, &mut self.names, into);
                self.toolhelp = Some(toolhelp);
                read.map_err(failed("list processes and threads"))?;
            }
        }
        let odd = read_cpus(&mut self.cpu_buffer, &mut self.known_cpus, &mut into.cpus)
            .inspect_err(|error| self.malformed += u64::from(matches!(error, CollectError::Nt(_))))?;
        self.malformed += odd;
        self.names.finish();
        self.passes.finish(into);
        into.end = host::now();
        into.health.malformed = self.malformed;
        if let (Some(events), Some(cut)) = (&mut self.events, cut) {
            events.complete(cut, into);
            // All counters are as of the cut; the distance of the two moments is the length of the pass.
            let pass_ns = into.end.mono_ns.saturating_sub(listed_from.mono_ns);
            (into.begin, into.end) = (cut.before(pass_ns), cut);
        }
        (into.health.own_cpu_ns, into.health.own_rss_bytes) = sys::own_usage();
        Ok(())
    }
}

/// Adds all CPUs: one answer for each group of up to 64; the numbers go on from group to group. Returns how many times cannot be.
fn read_cpus(
    buffer: &mut Vec<u8>,
    known: &mut KnownCpuTimes,
    into: &mut Vec<CpuSample>,
) -> Result<u64, CollectError> {
    let (groups, mut odd) = (sys::cpu_groups(), 0);
    for group in 0..groups {
        // Wine has only the call without groups.
        let length =
            if groups == 1 { sys::query(CPUS, buffer) } else { sys::query_group(CPUS, group, buffer) };
        let length = length.map_err(failed("read times of CPUs"))?;
        let first = u32::try_from(into.len()).unwrap_or(u32::MAX);
        odd += nt::read_cpus(&buffer[..length.min(buffer.len())], first, known, into)
            .map_err(CollectError::Nt)?;
    }
    Ok(odd)
}

/// A closure for `map_err` on calls of the system.
fn failed(operation: &'static str) -> impl FnOnce(io::Error) -> CollectError {
    move |error| CollectError::System { operation, error }
}

pub fn read_cycles(into: &mut CycleSnapshot) -> Result<(), CollectError> {
    let (mut buffer, mut cpu_buffer) = (vec![0; FIRST_BYTES], vec![0; 64 * nt::CPU_BYTES]);
    // Once before: the first call makes the memory grow, which would lie between the clocks and the list.
    sys::query(PROCESSES, &mut buffer).map_err(failed("read processes"))?;
    let (stamp, mono_ns) = sys::stamp_and_counter_ns();
    let length = sys::query(PROCESSES, &mut buffer).map_err(failed("read processes"))?;
    *into = CycleSnapshot { stamp, mono_ns, ..CycleSnapshot::new() };
    read_cpus(&mut cpu_buffer, &mut KnownCpuTimes::default(), &mut into.cpus)?;
    let answer = &buffer[..length.min(buffer.len())];
    into.add(answer, answer.as_ptr() as u64).map_err(CollectError::Nt)
}

/// The documented way, which the original used: a list of processes and one of threads, then the times of each thread by
/// a handle. It needs the right to open each thread, and three calls a thread. Its lists are used again in each pass.
#[derive(Default)]
struct Toolhelp {
    processes: Vec<ListedProcess>,
    /// Processes whose times could be read, with their place in the list.
    rows: Vec<(usize, ReportedProcess)>,
    threads: Vec<ListedThread>,
    is_wine: bool,
    /// Tasks that could not be read so far.
    vanished: u64,
    denied: u64,
}

impl Toolhelp {
    fn new(is_wine: bool) -> Self {
        Self { is_wine, ..Self::default() }
    }

    fn read(
        &mut self,
        passes: &mut Passes,
        about: &mut About,
        names: &mut ThreadNames,
        into: &mut Snapshot,
    ) -> io::Result<()> {
        let Self { processes, rows, threads, is_wine, vanished, denied } = self;
        let mut count = |miss: Miss| match miss {
            Miss::Gone => *vanished += 1,
            Miss::Denied => *denied += 1,
        };
        sys::list_processes(processes)?;
        rows.clear();
        for (at, process) in processes.iter().enumerate().filter(|(_, process)| process.pid != IDLE_PID) {
            let times = match sys::process_times(process.pid) {
                Ok(times) => times,
                Err(miss) => {
                    count(miss);
                    continue;
                }
            };
            let row = ReportedProcess {
                pid: process.pid,
                parent_pid: process.parent_pid,
                created: times.created,
                user: times.user,
                kernel: times.kernel,
                base_priority: nt::priority(process.base_priority),
                ..ReportedProcess::default()
            };
            rows.push((at, row));
        }
        // Only now: run time of a thread that is in its process's times but not in the list would count as that of an
        // ended one, and again as its own in the next pass.
        sys::list_threads(threads)?;
        threads.sort_unstable_by_key(|thread| (thread.pid, thread.tid));
        for (at, row) in rows.iter() {
            let process = &processes[*at];
            let first = threads.partition_point(|thread| thread.pid < process.pid);
            let own = threads[first..].iter().take_while(|thread| thread.pid == process.pid);
            let threads = own.filter_map(|thread| match sys::thread_times(thread.tid) {
                Ok(times) => {
                    let row = ReportedThread {
                        tid: thread.tid,
                        created: times.created,
                        user: times.user,
                        kernel: times.kernel,
                        priority: thread.priority,
                        state: None,
                        name: names.of(thread.tid, times.created, sys::thread_name),
                    };
                    Some(if *is_wine { row.if_possible(sys::coarse_time()) } else { row })
                }
                Err(miss) => {
                    count(miss);
                    None
                }
            });
            let describe = || ProcessInfo {
                session: sys::session_of(process.pid),
                ..about.describe(process.pid, &process.name())
            };
            passes.add(row, threads, describe, into);
        }
        (into.health.tasks_vanished, into.health.permission_denied) = (*vanished, *denied);
        Ok(())
    }
}
