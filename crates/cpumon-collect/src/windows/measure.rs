//! [`WindowsSource`]: makes complete snapshots, by one call of the kernel or thread by thread.

use cpumon_model::{Snapshot, SourceKind};

use super::about::{IDLE_PID, describe};
use super::toolhelp::Toolhelp;
use super::users::Users;
use super::{clock, host, sys};
use crate::nt::{self, Passes, ProcessRow, Processes, ThreadRow};
use crate::{CollectError, Source};

/// `SystemProcessInformation` and `SystemProcessorPerformanceInformation`.
const PROCESSES: i32 = 5;
const CPUS: i32 = 8;
/// First size of the answer's memory; it grows to what the machine needs, and stays.
const FIRST_BYTES: usize = 256 << 10;
/// How processes and threads are read.
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
    /// `None`: the kernel is asked.
    toolhelp: Option<Toolhelp>,
    users: Users,
    template: Snapshot,
    malformed: u64,
}

impl WindowsSource {
    /// Makes one pass, to see that the system answers.
    pub(super) fn open(method: Method) -> Result<Self, CollectError> {
        let boot = host::boot_id();
        let is_nt = method == Method::Nt;
        let source = if is_nt { SourceKind::Nt } else { SourceKind::Toolhelp };
        let template = Snapshot { host: host::host_id(boot), boot, source, ..Snapshot::default() };
        let mut opened = Self {
            passes: Passes::new(clock::base()),
            buffer: vec![0; FIRST_BYTES],
            cpu_buffer: vec![0; 64 * nt::CPU_BYTES],
            toolhelp: (!is_nt).then(Toolhelp::default),
            users: Users::default(),
            template,
            malformed: 0,
        };
        if is_nt {
            sys::query(PROCESSES, &mut opened.buffer).map_err(failed("read processes and threads"))?;
        }
        Ok(opened)
    }

    fn read_nt(&mut self, into: &mut Snapshot) -> Result<(), CollectError> {
        let length = sys::query(PROCESSES, &mut self.buffer).map_err(failed("read processes and threads"))?;
        let answer = &self.buffer[..length.min(self.buffer.len())];
        for record in Processes::new(answer, answer.as_ptr() as u64) {
            let record = record.inspect_err(|_| self.malformed += 1).map_err(CollectError::Nt)?;
            if record.pid == IDLE_PID {
                continue;
            }
            let about = || describe(record.pid, &text(record.name), &mut self.users);
            let threads = record.threads().map(ThreadRow::from);
            self.passes.add(&ProcessRow::from(&record), threads, about, into);
        }
        Ok(())
    }

    fn read_cpus(&mut self, into: &mut Snapshot) -> Result<(), CollectError> {
        let length = sys::query(CPUS, &mut self.cpu_buffer).map_err(failed("read times of CPUs"))?;
        let answer = &self.cpu_buffer[..length.min(self.cpu_buffer.len())];
        nt::read_cpus(answer, 0, &mut into.cpus)
            .inspect_err(|_| self.malformed += 1)
            .map_err(CollectError::Nt)
    }
}

impl Source for WindowsSource {
    fn snapshot(&mut self, into: &mut Snapshot) -> Result<(), CollectError> {
        into.clear();
        let template = &self.template;
        (into.host, into.boot, into.source) = (template.host, template.boot, template.source);
        into.begin = clock::now();
        match self.toolhelp.take() {
            None => self.read_nt(into)?,
            Some(mut toolhelp) => {
                let read = toolhelp.read(&mut self.passes, &mut self.users, into);
                self.toolhelp = Some(toolhelp);
                read.map_err(failed("list processes and threads"))?;
            }
        }
        self.read_cpus(into)?;
        self.passes.finish(into);
        into.end = clock::now();
        into.health.malformed = self.malformed;
        (into.health.own_cpu_ns, into.health.own_rss_bytes) = sys::own_usage();
        Ok(())
    }
}

/// UTF-16 in little-endian bytes; what is none becomes U+FFFD.
fn text(bytes: &[u8]) -> String {
    let units = bytes.as_chunks::<2>().0.iter().map(|two| u16::from_le_bytes(*two));
    char::decode_utf16(units).map(|one| one.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
}

fn failed(operation: &'static str) -> impl FnOnce(std::io::Error) -> CollectError {
    move |error| CollectError::System { operation, error }
}
