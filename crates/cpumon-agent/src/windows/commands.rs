//! The commands that the agent has on Windows only. `cpumon-agent service …` installs, starts, stops and removes the agent as a service,
//! and the service itself runs here; `cpumon-agent accuracy` compares clocks.

use std::error::Error;
use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use windows_service::service::{
    Service, ServiceAccess, ServiceAction, ServiceActionType, ServiceControl, ServiceErrorControl,
    ServiceExitCode, ServiceFailureActions, ServiceFailureResetPeriod, ServiceInfo, ServiceStartType,
    ServiceState, ServiceType,
};
use windows_service::service_control_handler::{self, ServiceControlHandlerResult};
use windows_service::service_manager::{ServiceManager, ServiceManagerAccess};
use windows_service::{define_windows_service, service_dispatcher};

use super::accuracy::{AccuracyArgs, accuracy};
use super::event_log;
use super::manager::{NAME, report, report_by};
use crate::values::{is_set, with_old_variable};
use crate::{AgentArgs, AgentError, Chain, run};

const DISPLAY_NAME: &str = "cpumon agent";
const DESCRIPTION: &str =
    "Measures where the CPU time of this machine goes, and sends it to a cpumon receiver.";
/// How long a start or a stop may take.
const PATIENCE: Duration = Duration::from_secs(30);
const POLL_EVERY: Duration = Duration::from_millis(100);
/// After a failure the service starts again, soon at first.
const RESTARTS: [Duration; 3] = [Duration::from_secs(5), Duration::from_secs(30), Duration::from_mins(1)];
/// Without a failure for this time the first restart is soon again.
const FORGET_AFTER: Duration = Duration::from_hours(24);

const EXAMPLES: &str = "\
EXAMPLES:
  After `cpumon-agent enroll`, as administrator: queue on disk, send over TLS
    cpumon-agent service install --to enrolled --spool C:\\ProgramData\\cpumon\\spool
    cpumon-agent service start";

const ACCURACY_EXAMPLES: &str = "\
EXAMPLES:
  Compare for a minute and show every process that ran:
    cpumon-agent accuracy --duration 1m --all";

type Outcome = Result<String, Box<dyn Error>>;

/// Commands that only Windows has.
#[derive(Clone, Debug, Subcommand)]
pub enum ServiceCommand {
    /// Run the agent as a service of Windows
    #[command(after_help = EXAMPLES)]
    Service(ServiceArgs),
    /// Compare each process's CPU time by ticks with that by CPU cycles, to see the errors of ticks
    #[command(after_help = ACCURACY_EXAMPLES)]
    Accuracy(AccuracyArgs),
}

/// `cpumon-agent service`.
#[derive(Args, Clone, Debug)]
pub struct ServiceArgs {
    #[command(subcommand)]
    step: ServiceStep,
}

#[derive(Clone, Debug, Subcommand)]
enum ServiceStep {
    /// Register the service with these flags of the agent; it starts with Windows (needs an administrator)
    Install(Box<AgentArgs>),
    /// Start the service
    Start,
    /// Stop the service; what is not acknowledged waits in the spool
    Stop,
    /// Remove the service; keys and spool stay
    Uninstall,
    /// The service itself; only the service control manager starts it
    #[command(hide = true)]
    Run(Box<AgentArgs>),
}

impl ServiceCommand {
    /// Carries out the command. Installs the logger, because the service's messages go to another place than those of the
    /// other commands.
    pub fn run(&self, program: &'static str) -> ExitCode {
        let is_service = matches!(self, Self::Service(ServiceArgs { step: ServiceStep::Run(_) }));
        if !is_service {
            crate::log_to_stderr(program, log::LevelFilter::Info);
        }
        let step = match self {
            Self::Accuracy(args) => return accuracy(args, program),
            Self::Service(ServiceArgs { step }) => step,
        };
        let (verb, done) = match step {
            ServiceStep::Run(args) => return run_as_service(program, args),
            ServiceStep::Install(args) => ("install", install(args)),
            ServiceStep::Start => ("start", start()),
            ServiceStep::Stop => ("stop", stop()),
            ServiceStep::Uninstall => ("uninstall", uninstall()),
        };
        match done {
            Ok(text) => {
                // Standard output may be closed; it is done all the same.
                let _ = writeln!(io::stdout(), "{text}");
                ExitCode::SUCCESS
            }
            Err(error) => {
                let _ = writeln!(io::stderr(), "{program}: cannot {verb} service {NAME}: {}", Chain(&*error));
                ExitCode::FAILURE
            }
        }
    }
}

fn install(args: &AgentArgs) -> Outcome {
    args.check()?;
    if let Some((flag, path)) = relative_path(args) {
        let path = path.display();
        return Err(format!(
            "{flag} {path}: give an absolute path, such as C:\\ProgramData\\cpumon\\spool: a service runs in the system's directory"
        )
        .into());
    }
    let program = std::env::current_exe()?;
    let access = ServiceManagerAccess::CONNECT | ServiceManagerAccess::CREATE_SERVICE;
    let info = ServiceInfo {
        name: NAME.into(),
        display_name: DISPLAY_NAME.into(),
        service_type: ServiceType::OWN_PROCESS,
        start_type: ServiceStartType::AutoStart,
        error_control: ServiceErrorControl::Normal,
        executable_path: program.clone(),
        launch_arguments: launch_arguments(std::env::args_os()),
        dependencies: Vec::new(),
        // The system's own account: it may see the owner of every process, and read an administrator's enrolment.
        account_name: None,
        account_password: None,
    };
    let service = ServiceManager::local_computer(None::<&str>, access)?
        .create_service(&info, ServiceAccess::CHANGE_CONFIG | ServiceAccess::START)?;
    let mut notes = String::new();
    let mut note = |what: &str, result: Result<(), Box<dyn Error>>| {
        if let Err(error) = result {
            notes.push_str(&not_set(what, &*error));
        }
    };
    note("the description", service.set_description(DESCRIPTION).map_err(Into::into));
    note("the restart after a failure", restart_after_failures(&service).map_err(Into::into));
    note("the source of the event log", event_log::register(NAME).map_err(Into::into));
    for variable in variables(is_set) {
        notes.extend([
            "\n",
            &variable,
            " is set here: the service has it only if it is a system variable; better give its flag",
        ]);
    }
    Ok(format!(
        "installed service {NAME}: {}{notes}\nnow run: {NAME} service start\n\
         Windows lets programs send unless a rule forbids it. If outgoing traffic is blocked here, allow it:\n  \
         netsh advfirewall firewall add rule name={NAME} dir=out action=allow program=\"{}\"",
        info.launch_arguments.join(OsStr::new(" ")).display(),
        program.display()
    ))
}

/// `service run` and the flags behind `service install`, as they were given.
fn launch_arguments(given: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let flags = given.skip_while(|word| word != "install").skip(1);
    ["service", "run"].into_iter().map(OsString::from).chain(flags).collect()
}

fn not_set(what: &str, error: &(dyn Error + 'static)) -> String {
    format!("\n{what} was not set: {}", Chain(error))
}

/// The first flag whose path begins in the directory of this prompt.
fn relative_path(args: &AgentArgs) -> Option<(&'static str, &Path)> {
    let paths = [
        ("--state", &args.state),
        ("--group-key", &args.group_key),
        ("--record", &args.record),
        ("--spool", &args.spool),
    ];
    let given = paths.into_iter().filter_map(|(flag, path)| Some((flag, path.as_deref()?)));
    given.into_iter().find(|(_, path)| !path.is_absolute())
}

/// Environment variables of the agent's flags for which `is_set`.
fn variables(is_set: impl Fn(&OsStr) -> bool) -> Vec<String> {
    let flags = AgentArgs::augment_args(clap::Command::new(NAME)).mut_args(with_old_variable);
    let names = flags.get_arguments().filter_map(clap::Arg::get_env);
    names.filter(|name| is_set(name)).map(|name| name.to_string_lossy().into_owned()).collect()
}

fn restart_after_failures(service: &Service) -> windows_service::Result<()> {
    let restart = |delay| ServiceAction { action_type: ServiceActionType::Restart, delay };
    service.update_failure_actions(ServiceFailureActions {
        reset_period: ServiceFailureResetPeriod::After(FORGET_AFTER),
        reboot_msg: None,
        command: None,
        actions: Some(RESTARTS.map(restart).to_vec()),
    })?;
    // Also when the agent itself reports a failure, not only when it crashes.
    service.set_failure_actions_on_non_crash_failures(true)
}

fn start() -> Outcome {
    let service = open(ServiceAccess::START | ServiceAccess::QUERY_STATUS)?;
    service.start::<&str>(&[])?;
    wait_for(&service, ServiceState::Running)?;
    Ok(format!("service {NAME} runs; its messages are in the event log, under Application"))
}

fn stop() -> Outcome {
    let service = open(ServiceAccess::STOP | ServiceAccess::QUERY_STATUS)?;
    stop_and_wait(&service)?;
    Ok(format!("service {NAME} has stopped"))
}

fn stop_and_wait(service: &Service) -> Result<(), Box<dyn Error>> {
    // One that is stopping takes no second request.
    if service.query_status()?.current_state != ServiceState::StopPending {
        service.stop()?;
    }
    wait_for(service, ServiceState::Stopped)
}

fn uninstall() -> Outcome {
    let service = open(ServiceAccess::STOP | ServiceAccess::QUERY_STATUS | ServiceAccess::DELETE)?;
    if service.query_status()?.current_state != ServiceState::Stopped {
        stop_and_wait(&service)?;
    }
    service.delete()?;
    event_log::unregister(NAME)?;
    Ok(format!("service {NAME} is removed; its keys and its spool are where they were"))
}

fn open(access: ServiceAccess) -> windows_service::Result<Service> {
    ServiceManager::local_computer(None::<&str>, ServiceManagerAccess::CONNECT)?.open_service(NAME, access)
}

fn wait_for(service: &Service, wanted: ServiceState) -> Result<(), Box<dyn Error>> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let state = service.query_status()?.current_state;
        if state == wanted {
            return Ok(());
        }
        // It ended before it ran: its messages say why.
        if wanted == ServiceState::Running && state == ServiceState::Stopped {
            return Err("it has ended; the event log says why, under Application".into());
        }
        if Instant::now() >= deadline {
            return Err(format!("it is still {state:?} after {PATIENCE:?}").into());
        }
        std::thread::sleep(POLL_EVERY);
    }
}

/// The flags of this process, which the manager's thread cannot be given.
static ARGS: OnceLock<AgentArgs> = OnceLock::new();

define_windows_service!(service_entry, service_main);

/// Connects to the service control manager and is its service until it stops: the manager calls it in a thread of its own. Fails where
/// no manager started this process.
fn run_as_service(program: &'static str, args: &AgentArgs) -> ExitCode {
    if let Err(error) = event_log::log_to_events(NAME, args.log_level()) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_service_gets_the_flags_behind_install() {
        let given = ["cpumon-agent.exe", "service", "install", "--to", "10.0.0.1", "--host-name", "install"];
        let arguments = launch_arguments(given.into_iter().map(OsString::from));
        assert_eq!(arguments, ["service", "run", "--to", "10.0.0.1", "--host-name", "install"]);
    }

    /// `--spool spool` was C:\Windows\System32\spool, which is that of printers.
    #[test]
    fn a_path_must_be_whole() {
        #[derive(clap::Parser)]
        struct Cli {
            #[command(flatten)]
            agent: AgentArgs,
        }
        let found = |flags: &[&str]| {
            let words = ["x", "--to", "enrolled"].iter().chain(flags);
            let args = <Cli as clap::Parser>::try_parse_from(words).unwrap().agent;
            relative_path(&args).map(|(flag, path)| (flag, path.to_owned()))
        };
        assert_eq!(found(&["--spool", r"C:\ProgramData\cpumon\spool", "--state", r"\\server\share\x"]), None);
        for flag in ["--spool", "--state", "--record"] {
            for path in ["spool", r".\spool", r"\spool", "C:spool"] {
                assert_eq!(found(&[flag, path]), Some((flag, path.into())));
            }
        }
        assert_eq!(found(&["--to", "10.0.0.1", "--group-key", "k"]), Some(("--group-key", "k".into())));
    }

    #[test]
    fn what_was_not_set_has_its_cause_and_variables_are_named() {
        let error = windows_service::Error::Winapi(io::Error::other("access is denied"));
        let text = not_set("the description", &error);
        assert!(
            text.contains("the description was not set") && text.ends_with(": access is denied"),
            "{text}"
        );
        assert_eq!(variables(|name| name == "CPUMON_SPOOL" || name == "CPUMON_NONE"), ["CPUMON_SPOOL"]);
    }
}
