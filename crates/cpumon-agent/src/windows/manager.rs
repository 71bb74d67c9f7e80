//! [`Manager`]: reports to the service control manager, if it started this process: running, stopping.

use std::io;
use std::sync::OnceLock;
use std::time::Duration;

use windows_service::service::{
    ServiceControlAccept, ServiceExitCode, ServiceState, ServiceStatus, ServiceType,
};
use windows_service::service_control_handler::ServiceStatusHandle;

use crate::process::{Chain, Pulse};

/// The service's name, and that of its messages in the event log.
pub(super) const NAME: &str = "cpumon-agent";
/// How long the manager may wait for the end: unacknowledged snapshots have 5 s, and the spool is written.
const STOPS_WITHIN: Duration = Duration::from_secs(20);

/// Status of the one service in this process.
static STATUS: OnceLock<ServiceStatusHandle> = OnceLock::new();

/// From now on every [`Manager`] reports by this handle.
pub(super) fn report_by(handle: ServiceStatusHandle) {
    // A process is one service, so it is set once.
    let _ = STATUS.set(handle);
}

#[derive(Debug, Default)]
pub struct Manager(());

impl Manager {
    /// The one that started this process. Without one every report does nothing.
    pub fn find() -> Self {
        Self(())
    }

    pub fn ready(&self) {
        report(ServiceState::Running, ServiceExitCode::NO_ERROR);
    }

    pub fn stopping(&self) {
        report(ServiceState::StopPending, ServiceExitCode::NO_ERROR);
    }

    /// Nothing: the service control manager has no watchdog. It starts a process again that ended by itself.
    ///
    /// # Errors
    /// None.
    pub fn watch(&self, _pulse: &Pulse) -> io::Result<WatchdogThread> {
        Ok(WatchdogThread(()))
    }
}

/// The place of a watchdog's thread, which Windows does not need.
#[derive(Debug, Default)]
pub struct WatchdogThread(());

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
