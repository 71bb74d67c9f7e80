//! [`Agent`]: measures, encodes, sends and records. [`crate::run`], the benchmark and the tests all use it.

use std::fmt::Write as _;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use cpumon_collect::{AllowedPaths, Calls, RetainedCapabilities};
use cpumon_link::tls::{AttachmentOptions, random};
use cpumon_link::{SenderOptions, UdpSender, group};
use cpumon_model::{Rows, SourceKind};
use cpumon_wire::Datagrams;
use cpumon_wire::encrypted::{Encryptor, GroupKey};

use crate::args::describe_targets;
use crate::connection::{Connection, ConnectionTotals};
use crate::encoding::{Encoding, fitting_pace};
use crate::error::{AgentError, DataMissing, MAX_FAILED_PASSES};
use crate::flight::Flight;
use crate::process::{Pulse, in_domain};
use crate::recorder::{Recorder, describe_directory};
use crate::report::{AgentTotals, Reporter};
use crate::sampler::{Sampler, SamplerStep};
use crate::settings::Settings;

pub struct Agent {
    settings: Settings,
    /// Encrypts datagrams; `None`: datagrams are sent in the clear.
    group: Option<GroupKey>,
    sampler: Sampler,
    /// `None` if no datagrams are sent.
    sender: Option<UdpSender>,
    connection: Option<Connection>,
    recorder: Option<Recorder>,
    flight: Option<Flight>,
    encoding: Encoding,
    datagrams: Datagrams,
    reporter: Reporter,
    totals: AgentTotals,
    failed_in_a_row: u64,
    pulse: Pulse,
    /// The sandbox of the threads that resolve host names, as text.
    resolver_sandbox: Option<String>,
}

/// How late the main loop may be before the service manager is no longer informed that it is alive.
const LATE: Duration = Duration::from_secs(30);

impl Agent {
    /// Opens source, sockets and recording. Nothing is measured, sent or recorded yet.
    ///
    /// # Errors
    /// The source, a socket, the group key or the recording cannot be opened.
    pub fn open(settings: &Settings) -> Result<Self, AgentError> {
        let begin = Instant::now();
        let sampler = Sampler::open(&settings.sampler).map_err(AgentError::Measure)?;
        let agent = Self::with_sampler(sampler, settings)?;
        // The cost of the process includes opening the source, so the time it is divided by must start before that too.
        Ok(Self { reporter: Reporter::new(begin), ..agent })
    }

    /// Opens an agent around the caller's sampler (a simulation, a test).
    ///
    /// # Errors
    /// A socket cannot be opened, this machine is not enrolled, or the recording cannot be opened.
    pub fn with_sampler(mut sampler: Sampler, settings: &Settings) -> Result<Self, AgentError> {
        // Version 1 sends idle threads too.
        sampler.set_rows(if settings.v1 { Rows::All } else { Rows::Moved });
        let options = SenderOptions { to: settings.to.clone(), pace: settings.pace };
        let has_other = settings.recording.is_some() || settings.connection.is_some();
        let opened = (!settings.to.is_empty() || !has_other)
            // The threads that resolve host names start here: they inherit the domain, this thread stays
            // unrestricted.
            .then(|| {
                in_domain(AllowedPaths { resolves: true, ..AllowedPaths::default() }, || {
                    UdpSender::open(&options)
                })
            })
            .transpose()
            .map_err(AgentError::Thread)?;
        let (sender, resolver_sandbox) =
            opened.map_or((None, None), |(sender, sandbox)| (Some(sender), Some(sandbox)));
        let sender = sender.transpose().map_err(AgentError::Datagrams)?;
        let agent_start = new_agent_start();
        let flight =
            settings.flight.as_ref().map(|wanted| Flight::open(wanted, sampler.info(), true)).transpose()?;
        let files = settings.flight.as_ref().zip(flight.as_ref());
        let files = files.map(|(wanted, flight)| AttachmentOptions {
            dir: wanted.dir.clone(),
            requests: flight.requests(),
        });
        let connect = |wanted| Connection::open(wanted, sampler.info(), agent_start, files.clone());
        let connection = settings.connection.as_ref().map(connect).transpose();
        let connection = connection.map_err(AgentError::PrepareConnection)?;
        let record = |wanted| Recorder::open(wanted, sampler.info(), agent_start);
        let recorder = settings.recording.as_ref().map(record).transpose().map_err(AgentError::Record)?;
        let keys = settings.group_key.as_deref().map(group::read_keys).transpose();
        let keys = keys.map_err(AgentError::GroupKeys)?;
        let group = keys.and_then(|keys| keys.into_iter().next());
        Ok(Self {
            encoding: Encoding::new(settings, agent_start, encryptor(group.as_ref())?),
            group,
            connection,
            recorder,
            flight,
            settings: settings.clone(),
            sampler,
            sender,
            datagrams: Datagrams::new(),
            reporter: Reporter::new(Instant::now()),
            totals: AgentTotals::default(),
            failed_in_a_row: 0,
            pulse: Pulse::default(),
            resolver_sandbox,
        })
    }

    pub fn source_kind(&self) -> SourceKind {
        self.sampler.kind()
    }

    /// The capabilities that the main loop needs. The directory of a recording may belong to another user.
    pub fn rights_to_keep(&self) -> RetainedCapabilities {
        let has_spool = self.settings.connection.as_ref().is_some_and(|wanted| wanted.spool.is_some());
        RetainedCapabilities {
            names: true,
            // Segments are created and deleted as long as the agent runs, in a directory of another user
            // perhaps.
            files: self.recorder.is_some() || has_spool || self.flight.is_some(),
            // The CPU budget loads BPF programs again whenever it switches a probe.
            probes: self.settings.sampler.max_cpu.is_some(),
        }
    }

    /// The system calls that the main loop needs.
    pub fn calls_to_keep(&self) -> Calls {
        Calls {
            writes: self.recorder.is_some() || self.connection.is_some() || self.flight.is_some(),
            bpf: self.sampler.kind() == SourceKind::Bpf
                || self.settings.sampler.max_cpu.is_some()
                || self.flight.is_some(),
            serves: false,
        }
    }

    /// Starts the threads that talk to receivers. Call it after rights were given up, else the first step does it. Returns their
    /// sandbox as text.
    ///
    /// # Errors
    /// They cannot be started.
    pub fn start_threads(&mut self) -> Result<String, AgentError> {
        let connected = self.connection.as_mut().map(Connection::start).transpose();
        let connected = connected.map_err(AgentError::StartConnection)?;
        let sandbox = connected.or_else(|| self.resolver_sandbox.clone());
        Ok(sandbox.map_or_else(|| "no network threads".to_owned(), |text| format!("network threads: {text}")))
    }

    /// The pulse of the main loop, for the watchdog.
    pub fn pulse(&self) -> &Pulse {
        &self.pulse
    }

    /// Log line at the start: source, interval and targets.
    pub fn start_line(&self) -> String {
        let info = self.sampler.info();
        let protocol = match &self.group {
            Some(group) => format!(" encrypted with key {}", group.id()),
            None if self.settings.v1 => " as v1 datagrams".to_owned(),
            None => String::new(),
        };
        let mut line = format!(
            "measuring {} every {:?} with {}",
            cpumon_model::escape(&info.hostname),
            self.settings.interval(),
            info.source_reason,
        );
        // Writing to a String cannot fail.
        if let Some(sender) = &self.sender {
            let to = describe_targets(&self.settings.to, sender.destinations());
            let _ = write!(line, "; sending{protocol} to {to}");
        }
        if let Some(connection) = &self.connection {
            let _ = write!(line, "; sending to {}", connection.describe());
        }
        if let Some(recording) = &self.settings.recording {
            let _ = write!(line, "; recording to {}", describe_directory(recording));
        }
        if let Some(flight) = &self.settings.flight {
            let (length, dir) = (flight.length, flight.dir.display());
            let _ = match flight.disk {
                Some(disk) => write!(
                    line,
                    "; the last {length:?} of context switches are in {dir}, at most {:.1} MB",
                    disk.bytes as f64 / 1e6
                ),
                None => write!(
                    line,
                    "; the last {length:?} of context switches, at most {:.1} MB, go to {dir} on demand",
                    flight.memory as f64 / 1e6
                ),
            };
        }
        line
    }

    /// Runs until `stop` is set or the wanted number of snapshots was made.
    ///
    /// # Errors
    /// Ten passes in a row failed; [`DataMissing`] if a wanted number of snapshots was not sent or recorded in full.
    pub fn run(&mut self, stop: &AtomicBool) -> Result<(), AgentError> {
        while self.settings.count.is_none_or(|count| self.totals.snapshots < count) {
            if !self.step(stop)? {
                break;
            }
            if let Some(line) = self.reporter.line_if_due(&self.totals, Instant::now()) {
                self.log_line(&line);
            }
        }
        // Finishing writes and drains the queues, so the last line and the exit code report the final counts.
        self.totals.recording = self.recorder.take().map(Recorder::finish);
        self.totals.connection = self.connection.take().map(Connection::finish);
        let line = self.reporter.line(&self.totals, Instant::now());
        self.log_line(&line);
        let (unsent, failed) = (self.totals.sent.errors, self.totals.failed);
        let unrecorded =
            self.totals.recording.as_ref().map_or(0, |totals| totals.spool.lost + totals.spool.waiting);
        let unacknowledged = self.totals.connection.as_ref().map_or(0, ConnectionTotals::unsafe_now);
        // Only a fixed number of snapshots is a promise. An agent without one reports losses in its lines.
        if self.settings.count.is_some() && unsent + failed + unrecorded + unacknowledged > 0 {
            return Err(DataMissing { unsent, unrecorded, unacknowledged, failed }.into());
        }
        Ok(())
    }

    /// Waits for the next point of the schedule, measures and sends. False once `stop` is set.
    ///
    /// # Errors
    /// Measuring failed ten times in a row.
    pub fn step(&mut self, stop: &AtomicBool) -> Result<bool, AgentError> {
        // A step sleeps up to one interval on purpose: only a delay beyond that means that the loop hangs.
        self.pulse.beat(self.sampler.interval() + LATE);
        let (info, step) = match self.sampler.step_with_info(stop) {
            Ok(None) => return Ok(false),
            Ok(Some(both)) => both,
            Err(error) => {
                self.totals.failed += 1;
                self.failed_in_a_row += 1;
                // One warning for a series of failures: a lasting error would fill the log.
                if self.failed_in_a_row == 1 {
                    log::warn!("a pass failed: {error}; the next one covers its time");
                }
                if self.failed_in_a_row >= MAX_FAILED_PASSES {
                    return Err(AgentError::Passes(error));
                }
                return Ok(true);
            }
        };
        self.failed_in_a_row = 0;
        if step.is_first && self.totals.snapshots > 0 {
            // The source was replaced, so its counters start at another base. For receivers this is another start of the agent.
            let agent_start = new_agent_start();
            self.encoding = Encoding::new(&self.settings, agent_start, encryptor(self.group.as_ref())?);
            if let Some(connection) = &mut self.connection {
                connection.encoding.restart(agent_start);
            }
            if let Some(recorder) = &mut self.recorder {
                recorder.encoding.restart(agent_start);
            }
        }
        if let Some(sender) = &mut self.sender {
            self.encoding.encode(info, &step, &mut self.datagrams)?;
            if let Some(pace) = self.settings.pace {
                // Each step has another number of datagrams, so the pause is fitted each time.
                sender.pace = Some(fitting_pace(pace, self.datagrams.len(), self.settings.interval()));
            }
            sender.send_batch(self.datagrams.as_slice());
            self.totals.sent = sender.stats;
        }
        if let Some(connection) = &mut self.connection {
            self.totals.connection = Some(connection.send(info, &step).map_err(AgentError::StartConnection)?);
        }
        if let Some(recorder) = &mut self.recorder {
            self.totals.recording = Some(recorder.record(info, &step));
        }
        if let Some(flight) = &mut self.flight {
            flight.check(step.interval);
        }
        self.totals.snapshots += 1;
        self.totals.health = step.snapshot.health;
        self.totals.threads = step.snapshot.thread_count;
        if log::log_enabled!(log::Level::Debug) {
            log::debug!("{}", describe(&step, &self.datagrams));
        }
        Ok(true)
    }

    pub fn totals(&self) -> &AgentTotals {
        &self.totals
    }

    /// The datagrams of the last step.
    pub fn datagrams(&self) -> &Datagrams {
        &self.datagrams
    }

    pub fn last_pass_ns(&self) -> u64 {
        self.sampler.last_interval().pass_ns
    }

    /// Threads in the last step's frames because they ran, and threads that were only repeated (version 2). Without datagrams,
    /// those of the recording or of the TLS connection.
    pub fn threads_sent(&self) -> (u64, u64) {
        match (&self.sender, &self.recorder, &self.connection) {
            (None, Some(recorder), _) => recorder.encoding.threads,
            (None, None, Some(connection)) => connection.encoding.threads,
            _ => self.encoding.threads_sent(),
        }
    }

    fn log_line(&self, line: &str) {
        match self.encoding.misfits() {
            Some(misfits) => log::info!("{line}; did not fit into datagrams so far: {misfits}"),
            None => log::info!("{line}"),
        }
    }
}

/// A new encryptor for each start, so that no nonce is used twice.
fn encryptor(group: Option<&GroupKey>) -> Result<Option<Encryptor>, AgentError> {
    let new = |group| Ok(Encryptor::new(group, cpumon_collect::now().boot_ns, random()?));
    group.map(new).transpose().map_err(AgentError::Random)
}

/// Identifies a start of the agent: the time of day in ns.
fn new_agent_start() -> u64 {
    cpumon_collect::now().wall_ns.unsigned_abs()
}

/// Formats the log line about one snapshot.
fn describe(step: &SamplerStep<'_>, datagrams: &Datagrams) -> String {
    let changed = step.interval.threads.iter().filter(|row| !row.delta.is_zero()).count();
    format!(
        "snapshot {}: {} threads in {} processes, {changed} changed, {} ended; pass {:.2} ms; {} datagrams, {} bytes",
        step.snapshot.sequence,
        step.snapshot.thread_count,
        step.snapshot.process_count,
        step.snapshot.exits.len(),
        step.interval.pass_ns as f64 / 1e6,
        datagrams.len(),
        datagrams.byte_count(),
    )
}
