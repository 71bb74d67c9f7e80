//! A real-time session of the kernel's events: switches, wakeups, interrupts, threads and processes, in a thread of its own, which
//! brings them to [`crate::etw::SessionAccounts`]. It ends with this process's source; one that a killed agent left is stopped at the next start.
//!
//! Not yet run on a real Windows: docs/windows.md has the steps. Under Wine the system refuses it.

mod calls;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use cpumon_model::{Moment, Probes, Snapshot};
use cpumon_sched::windows::TickClock;
use windows_sys::Win32::Foundation::{ERROR_ACCESS_DENIED, ERROR_NO_SYSTEM_RESOURCES};
use windows_sys::Win32::System::Diagnostics::Etw::{
    EVENT_TRACE_FLAG, EVENT_TRACE_FLAG_CSWITCH, EVENT_TRACE_FLAG_DISPATCHER, EVENT_TRACE_FLAG_DPC,
    EVENT_TRACE_FLAG_INTERRUPT, EVENT_TRACE_FLAG_PROCESS, EVENT_TRACE_FLAG_THREAD,
};

use self::calls::{Consumer, SessionController, SessionName, Take};
use super::{host, sys};
use crate::CollectError;
use crate::etw::{Record, SessionAccounts};

/// The session of the agent: one at a time.
const AGENT: SessionName =
    SessionName { name: "cpumon-agent", id: 0x5c0f_9a3e_6f1d_4b7a_9d0e_63b2_7a81_44c5 };
/// Session of `doctor`, which must not end the agent's.
const DOCTOR: SessionName =
    SessionName { name: "cpumon-doctor", id: 0x0d5e_7c41_2b96_4e0d_8a3c_17f0_95ce_2ab8 };
/// How long a pass waits for earlier events, at most, and how long from one request to the next.
const MOST_WAITS: u32 = 20;
const WAIT: Duration = Duration::from_millis(5);

struct SharedSession {
    session: Mutex<SessionAccounts>,
    has_ended: AtomicBool,
}

impl SharedSession {
    fn session(&self) -> MutexGuard<'_, SessionAccounts> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Take for SharedSession {
    fn take(&self, record: &Record<'_>) {
        self.session().take(record);
    }
}

pub(super) struct EtwSession {
    /// `None` while the session is dropped.
    control: Option<SessionController>,
    shared: Arc<SharedSession>,
    thread: Option<JoinHandle<()>>,
    probes: Probes,
    previous: Moment,
}

/// Wait reasons and interrupts need switches. Ends of threads alone ([`Probes::EXITS`], which is always in on Linux) need no session.
pub(super) fn with_needed(probes: Probes) -> Probes {
    let probes = probes - Probes::EXITS;
    if probes.intersects(Probes::WAITS | Probes::IRQ) { probes | Probes::SCHED } else { probes }
}

fn flags(probes: Probes) -> EVENT_TRACE_FLAG {
    let switches = EVENT_TRACE_FLAG_PROCESS
        | EVENT_TRACE_FLAG_THREAD
        | EVENT_TRACE_FLAG_CSWITCH
        | EVENT_TRACE_FLAG_DISPATCHER;
    let interrupts = EVENT_TRACE_FLAG_DPC | EVENT_TRACE_FLAG_INTERRUPT;
    if probes.contains(Probes::IRQ) { switches | interrupts } else { switches }
}

impl EtwSession {
    /// Fails with [`CollectError::EtwUnavailable`], which says what helps.
    pub(super) fn start(probes: Probes) -> Result<Self, CollectError> {
        Self::start_as(AGENT, probes)
    }

    /// Starts a session of another name and ends it.
    pub(super) fn try_starting() -> Result<(), CollectError> {
        Self::start_as(DOCTOR, Probes::SCHED).map(drop)
    }

    fn start_as(name: SessionName, probes: Probes) -> Result<Self, CollectError> {
        let clock = TickClock::new(sys::counter_frequency(), 0)
            .ok_or_else(|| unavailable("the performance counter has an impossible frequency".to_owned()))?;
        let cpus = sys::cpu_count();
        let control = SessionController::start(name, flags(probes), cpus)
            .map_err(|error| unavailable(reason("start", &error)))?;
        // Earlier events are skipped: from here on nothing is missing.
        let begin_ticks = sys::counter();
        let session = SessionAccounts::new(clock, begin_ticks, u16::try_from(cpus).unwrap_or(u16::MAX));
        let shared =
            Arc::new(SharedSession { session: Mutex::new(session), has_ended: AtomicBool::new(false) });
        let consumer =
            Consumer::open(name, Arc::clone(&shared)).map_err(|error| unavailable(reason("read", &error)))?;
        let in_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("cpumon-events".to_owned()).spawn(move || {
            if let Err(error) = consumer.process() {
                log::warn!("the ETW session ended: {error}");
            }
            in_thread.has_ended.store(true, Ordering::Release);
        });
        let thread = thread.map_err(|error| unavailable(reason("read", &error)))?;
        Ok(Self { control: Some(control), shared, thread: Some(thread), probes, previous: host::now() })
    }

    /// Brings all accounts to this instant, which it returns, once the events up to it have come.
    pub(super) fn cut(&mut self) -> Result<Moment, CollectError> {
        let at = host::now();
        let failed = |error| CollectError::System { operation: "query the ETW session", error };
        let Some(control) = &mut self.control else { return Ok(at) };
        for _ in 0..MOST_WAITS {
            if self.shared.has_ended.load(Ordering::Acquire) {
                let reason = "another program stopped it, perhaps a second agent on this machine";
                return Err(unavailable(reason.to_owned()));
            }
            control.flush().map_err(failed)?;
            // This sleep causes events of its own, which come after those before it.
            std::thread::sleep(WAIT);
            if self.shared.session().newest_ns() >= at.mono_ns {
                break;
            }
        }
        let lost = control.lost().map_err(failed)?;
        let mut session = self.shared.session();
        session.cut(at.mono_ns);
        session.set_lost(lost);
        Ok(at)
    }

    /// Completes a snapshot whose rows were listed after the cut.
    pub(super) fn complete(&mut self, at: Moment, into: &mut Snapshot) {
        self.shared.session().complete(at, self.previous, self.probes, into);
        self.previous = at;
    }
}

impl Drop for EtwSession {
    fn drop(&mut self) {
        // Stopped first: that ends the thread.
        drop(self.control.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn unavailable(reason: String) -> CollectError {
    CollectError::EtwUnavailable { reason }
}

fn reason(step: &str, error: &std::io::Error) -> String {
    let code = error.raw_os_error().and_then(|code| u32::try_from(code).ok());
    if sys::is_wine() {
        return format!("cannot {step}: Wine has no sessions of the kernel's events ({error})");
    }
    match code {
        Some(ERROR_ACCESS_DENIED) => {
            format!("cannot {step}: access is denied; run as administrator, or as the service")
        }
        Some(ERROR_NO_SYSTEM_RESOURCES) => {
            format!(
                "cannot {step}: too many sessions of the kernel's events run; `logman query -ets` lists them"
            )
        }
        _ => format!("cannot {step}: {error}"),
    }
}
