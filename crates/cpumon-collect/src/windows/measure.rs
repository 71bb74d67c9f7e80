//! [`WindowsSource`]: makes complete snapshots, by one call of the kernel or thread by thread.

use cpumon_model::{Moment, Probes, Snapshot, SourceKind};

use super::about::{About, IDLE_PID};
use super::answers::{FIRST_BYTES, PROCESSES, failed, read_cpus};
use super::etw::EtwSession;
use super::toolhelp::Toolhelp;
use super::{host, sys};
use crate::nt::{self, Passes, Processes, ReportedProcess, ReportedThread, ThreadNames};
use crate::{CollectError, Source, SourceOptions};

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
            (true, _) => passes.with_reasons(),
            (false, true) => passes.with_unseen(),
            (false, false) => passes,
        };
        let mut opened = Self {
            passes,
            buffer: vec![0; FIRST_BYTES],
            cpu_buffer: vec![0; 64 * nt::CPU_BYTES],
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
            if record.pid == IDLE_PID {
                continue;
            }
            let about = || self.about.describe(record.pid, &nt::text(record.name));
            let threads = record.threads().map(|thread| {
                let name = self.names.of(thread.tid, thread.created, sys::thread_name);
                let row = ReportedThread { name, ..ReportedThread::from(thread) };
                now.map_or(row, |now| row.if_possible(now))
            });
            self.passes.add(&ReportedProcess::from(&record), threads, about, into);
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
        let odd = read_cpus(&mut self.cpu_buffer, &mut into.cpus)
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
            (into.begin, into.end) = (earlier(cut, pass_ns), cut);
        }
        (into.health.own_cpu_ns, into.health.own_rss_bytes) = sys::own_usage();
        Ok(())
    }
}

fn earlier(moment: Moment, ns: u64) -> Moment {
    Moment {
        mono_ns: moment.mono_ns.saturating_sub(ns),
        boot_ns: moment.boot_ns.saturating_sub(ns),
        wall_ns: moment.wall_ns.saturating_sub_unsigned(ns),
    }
}
