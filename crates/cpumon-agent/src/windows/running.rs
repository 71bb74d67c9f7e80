//! The agent as a running service: the service control manager calls it in a thread of its own, and asks it to stop.

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use windows_service::service::{ServiceControl, ServiceExitCode, ServiceState};
use windows_service::service_control_handler::{self, ServiceControlHandlerResult};
use windows_service::{define_windows_service, service_dispatcher};

use super::event_log::log_to_events;
use super::manager::{NAME, report, report_by};
use crate::error::AgentError;
use crate::process::Chain;
use crate::{AgentArgs, run};

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
            // Before the agent has woken up: sending the rest may take seconds.
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
