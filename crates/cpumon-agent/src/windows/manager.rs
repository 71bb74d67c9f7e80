//! [`Manager`]: reports to the service control manager, if it started this process: running, stopping; and the agent as a running service,
//! which the manager calls in a thread of its own, and asks to stop.

use std::ffi::OsString;
use std::io;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use windows_service::service::{
    ServiceControl, ServiceControlAccept, ServiceExitCode, ServiceState, ServiceStatus, ServiceType,
};
use windows_service::service_control_handler::{self, ServiceControlHandlerResult, ServiceStatusHandle};
use windows_service::{define_windows_service, service_dispatcher};

use super::event_log::log_to_events;
use crate::error::AgentError;
use crate::process::{Chain, Pulse};
use crate::{AgentArgs, run};

/// The service's name, and that of its messages in the event log.
pub(super) const NAME: &str = "cpumon-agent";
/// What the manager may wait for the end: unacknowledged snapshots have 5 s, and the spool is written.
const STOPS_WITHIN: Duration = Duration::from_secs(20);

/// Of the one service that this process is.
static STATUS: OnceLock<ServiceStatusHandle> = OnceLock::new();

/// From now on every [`Manager`] reports by this handle.
fn report_by(handle: ServiceStatusHandle) {
    // A process is one service, so it is set once.
    let _ = STATUS.set(handle);
}

/// The service control manager, or none.
#[derive(Debug, Default)]
pub struct Manager(());

impl Manager {
    /// The one that started this process. Without one every report does nothing.
    #[must_use]
    pub fn find() -> Self {
        Self(())
    }

    /// Reports that the service runs.
    pub fn ready(&self) {
        report(ServiceState::Running, ServiceExitCode::NO_ERROR);
    }

    /// Reports that the service is stopping as requested.
    pub fn stopping(&self) {
        report(ServiceState::StopPending, ServiceExitCode::NO_ERROR);
    }

    /// Nothing: the service control manager has no watchdog. It starts a process again that ended by itself.
    ///
    /// # Errors
    /// None.
    pub fn watch(&self, _pulse: &Pulse) -> io::Result<Watch> {
        Ok(Watch(()))
    }
}

/// A watchdog's thread, of which there is none.
#[derive(Debug, Default)]
pub struct Watch(());

/// Reports a state, if this process is a service.
pub(super) fn report(state: ServiceState, exit_code: ServiceExitCode) {
    let is_waiting = matches!(state, ServiceState::StartPending | ServiceState::StopPending);
    let accepts = match state {
        ServiceState::Running => ServiceControlAccept::STOP | ServiceControlAccept::SHUTDOWN,
        _ => ServiceControlAccept::empty(),
    };
    let status = ServiceStatus {
        service_type: ServiceType::OWN_PROCESS,
        current_state: state,
        controls_accepted: accepts,
        exit_code,
        checkpoint: u32::from(is_waiting),
        wait_hint: if is_waiting { STOPS_WITHIN } else { Duration::ZERO },
        process_id: None,
    };
    if let Some(handle) = STATUS.get()
        && let Err(error) = handle.set_service_status(status)
    {
        log::warn!("cannot report {state:?} to the service control manager: {}", Chain(&error));
    }
}

/// The flags of this process, which the manager's thread cannot be given.
static ARGS: OnceLock<AgentArgs> = OnceLock::new();

define_windows_service!(service_entry, service_main);

/// Connects to the service control manager and is its service until it stops. Fails where no manager started this process.
pub fn run_as_service(program: &'static str, args: &AgentArgs) -> ExitCode {
    if let Err(error) = log_to_events(NAME, args.log_level()) {
        crate::log_to_stderr(program, args.log_level());
        log::warn!("cannot write to the event log: {error}");
    }
    // Called once.
    let _ = ARGS.set(args.clone());
    match service_dispatcher::start(NAME, service_entry) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let text = format!("only the service control manager starts this; use: {program} service start");
            log::error!("{text}: {}", Chain(&error));
            eprintln!("{program}: {text}");
            ExitCode::FAILURE
        }
    }
}

fn service_main(_arguments: Vec<OsString>) {
    let Some(args) = ARGS.get() else { return };
    let (stop, sleeper) = (Arc::new(AtomicBool::new(false)), std::thread::current());
    let asked = Arc::clone(&stop);
    let handler = move |control| match control {
        ServiceControl::Stop | ServiceControl::Shutdown => {
            // Before the agent has woken up: what it must still send may take seconds.
            report(ServiceState::StopPending, ServiceExitCode::NO_ERROR);
            asked.store(true, Ordering::Relaxed);
            sleeper.unpark();
            ServiceControlHandlerResult::NoError
        }
        ServiceControl::Interrogate => ServiceControlHandlerResult::NoError,
        _ => ServiceControlHandlerResult::NotImplemented,
    };
    match service_control_handler::register(NAME, handler) {
        Ok(handle) => report_by(handle),
        Err(error) => {
            log::error!("cannot register with the service control manager: {}", Chain(&error));
            return;
        }
    }
    report(ServiceState::StartPending, ServiceExitCode::NO_ERROR);
    report(ServiceState::Stopped, exit_code(&run(args, &stop)));
}

/// A code of its own for an agent that failed, so that the manager starts it again; 3 as in the exit codes of the program.
fn exit_code(result: &Result<(), AgentError>) -> ServiceExitCode {
    match result {
        Ok(()) => ServiceExitCode::NO_ERROR,
        Err(error) => {
            log::error!("{}", Chain(error));
            ServiceExitCode::ServiceSpecific(if matches!(error, AgentError::DataMissing(_)) { 3 } else { 1 })
        }
    }
}
