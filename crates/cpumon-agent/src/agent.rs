//! [`Agent`]: the whole way from the kernel to the network and the log. In: [`Settings`]; out: datagrams, a secure stream,
//! segments on the disk, and lines about itself.
//! Why: [`crate::run`], the benchmark and the tests go this same way.

use std::fmt::Write as _;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use cpumon_collect::{AllowedPaths, Calls, RetainedCapabilities};
use cpumon_link::tls::random;
use cpumon_link::{SenderOptions, UdpSender, group};
use cpumon_model::{Rows, SourceKind};
use cpumon_wire::Datagrams;
use cpumon_wire::sealed::{GroupKey, Sealer};

use crate::args::in_words;
use crate::encoding::{Encoding, fitting_pace};
use crate::recorder::{Recorder, describe_log};
use crate::report::{Reporter, Totals};
use crate::stream::Stream;
use crate::{DataMissing, Pulse, Sampler, Settings, Step, in_domain};

/// So many failed passes one after the other end the agent: it is not a hiccup.
const MAX_FAILED_PASSES: u64 = 10;

/// Measures, encodes, sends, logs.
pub struct Agent {
    settings: Settings,
    /// Seals datagrams.
    group: Option<GroupKey>,
    sampler: Sampler,
    /// None if snapshots are only logged or streamed.
    sender: Option<UdpSender>,
    stream: Option<Stream>,
    recorder: Option<Recorder>,
    encoding: Encoding,
    datagrams: Datagrams,
    reporter: Reporter,
    totals: Totals,
    failed_in_a_row: u64,
    pulse: Pulse,
    /// How threads are held that look names up.
    names_held: Option<String>,
}

/// The main loop may be late by so much before a service manager should worry.
const LATE: Duration = Duration::from_secs(30);

impl Agent {
    /// Opens source, sockets and log. Nothing is measured, sent or logged yet.
    ///
    /// # Errors
    /// The source cannot run, there is nothing to send or to seal with, or the log cannot be opened.
    pub fn open(settings: &Settings) -> anyhow::Result<Self> {
        let begin = Instant::now();
        let sampler = Sampler::open(&settings.sampler).context("cannot measure this machine")?;
        let agent = Self::with_sampler(sampler, settings)?;
        // Its cost counts from its start on, what opening the source took with it: so does the time that it is held against.
        Ok(Self { reporter: Reporter::new(begin), ..agent })
    }

    /// With a sampler of the caller's own (a simulation, a test).
    ///
    /// # Errors
    /// There is nothing to send with, this machine is not enrolled, or the log cannot be opened.
    pub fn with_sampler(mut sampler: Sampler, settings: &Settings) -> anyhow::Result<Self> {
        // v1 tells of idle threads too.
        sampler.set_rows(if settings.v1 { Rows::All } else { Rows::Moved });
        let options = SenderOptions { to: settings.to.clone(), pace: settings.pace };
        let has_other = settings.log.is_some() || settings.stream.is_some();
        let opened = (!settings.to.is_empty() || !has_other)
            .then(|| in_domain(AllowedPaths::default(), || UdpSender::open(&options)))
            .transpose()
            .context("cannot start a thread")?;
        let (sender, names_held) = opened.map_or((None, None), |(sender, held)| (Some(sender), Some(held)));
        let sender = sender.transpose().context("cannot send")?;
        let stream = new_stream();
        let streaming = |secure| Stream::open(secure, sampler.info(), stream, settings.interval());
        let secure = settings.stream.as_ref().map(streaming).transpose().context("cannot stream")?;
        let log = |log| Recorder::open(log, sampler.info(), stream, settings.interval());
        let recorder = settings.log.as_ref().map(log).transpose().context("cannot log")?;
        let keys = settings.group_key.as_deref().map(group::read_keys).transpose().context("cannot seal")?;
        let group = keys.and_then(|keys| keys.into_iter().next());
        Ok(Self {
            encoding: Encoding::new(settings, stream, sealer(group.as_ref())?),
            group,
            stream: secure,
            recorder,
            settings: settings.clone(),
            sampler,
            sender,
            datagrams: Datagrams::new(),
            reporter: Reporter::new(Instant::now()),
            totals: Totals::default(),
            failed_in_a_row: 0,
            pulse: Pulse::default(),
            names_held,
        })
    }

    /// Which source measures.
    #[must_use]
    pub fn source_kind(&self) -> SourceKind {
        self.sampler.kind()
    }

    /// The capabilities that what is to come needs: a log's directory may belong to somebody else.
    #[must_use]
    pub fn rights_to_keep(&self) -> RetainedCapabilities {
        let has_spool = self.settings.stream.as_ref().is_some_and(|stream| stream.spool.is_some());
        RetainedCapabilities {
            files: self.recorder.is_some() || has_spool,
            probes: self.settings.sampler.max_cpu.is_some(),
        }
    }

    /// The system calls that what is to come needs.
    #[must_use]
    pub fn calls_to_keep(&self) -> Calls {
        Calls {
            writes: self.recorder.is_some() || self.stream.is_some(),
            bpf: self.sampler.kind() == SourceKind::Bpf || self.settings.sampler.max_cpu.is_some(),
        }
    }

    /// Starts the threads that talk to receivers. To be called when rights were given up; else the first step does it. Says how they
    /// are held.
    ///
    /// # Errors
    /// They cannot be started.
    pub fn start_threads(&mut self) -> anyhow::Result<String> {
        let streamed = self.stream.as_mut().map(Stream::start).transpose()?;
        let held = streamed.or_else(|| self.names_held.clone());
        Ok(held.map_or_else(|| "no network".to_owned(), |held| format!("threads of the network to {held}")))
    }

    /// Beats as long as the main loop does.
    #[must_use]
    pub fn pulse(&self) -> &Pulse {
        &self.pulse
    }

    /// Who measures and why, how often, to whom: one line.
    #[must_use]
    pub fn start_line(&self) -> String {
        let info = self.sampler.info();
        let protocol = match &self.group {
            Some(group) => format!(" sealed with key {}", group.id()),
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
            let to = in_words(&self.settings.to, sender.destinations());
            let _ = write!(line, "; sending{protocol} to {to}");
        }
        if let Some(stream) = &self.stream {
            let _ = write!(line, "; sending to {}", stream.describe());
        }
        if let Some(log) = &self.settings.log {
            let _ = write!(line, "; logging to {}", describe_log(log));
        }
        line
    }

    /// Runs until `stop` is set or the wanted number of snapshots was made.
    ///
    /// # Errors
    /// Measuring failed again and again; [`DataMissing`] if some of a wanted number of snapshots did not get out.
    pub fn run(&mut self, stop: &AtomicBool) -> anyhow::Result<()> {
        while self.settings.count.is_none_or(|count| self.totals.snapshots < count) {
            if !self.step(stop)? {
                break;
            }
            if let Some(line) = self.reporter.line_if_due(&self.totals, Instant::now()) {
                self.say(&line);
            }
        }
        self.totals.log = self.recorder.take().map(Recorder::finish);
        self.totals.stream = self.stream.take().map(Stream::finish);
        let line = self.reporter.line(&self.totals, Instant::now());
        self.say(&line);
        let (unsent, failed) = (self.totals.sent.errors, self.totals.failed);
        let unlogged = self.totals.log.map_or(0, |log| log.lost + log.waiting);
        let unacknowledged = self.totals.stream.map_or(0, |stream| stream.unsafe_now());
        if self.settings.count.is_some() && unsent + failed + unlogged + unacknowledged > 0 {
            return Err(DataMissing { unsent, unlogged, unacknowledged, failed }.into());
        }
        Ok(())
    }

    /// Waits for the next point of the schedule, measures and sends. False once `stop` is set.
    ///
    /// # Errors
    /// Measuring failed ten times in a row.
    pub fn step(&mut self, stop: &AtomicBool) -> anyhow::Result<bool> {
        self.pulse.beat(self.settings.interval() + LATE);
        let (info, step) = match self.sampler.step_with_info(stop) {
            Ok(None) => return Ok(false),
            Ok(Some(both)) => both,
            Err(error) => {
                self.totals.failed += 1;
                self.failed_in_a_row += 1;
                if self.failed_in_a_row == 1 {
                    log::warn!("a pass failed: {error}; the next one covers its time");
                }
                if self.failed_in_a_row >= MAX_FAILED_PASSES {
                    return Err(error).context(format!("{MAX_FAILED_PASSES} passes failed in a row"));
                }
                return Ok(true);
            }
        };
        self.failed_in_a_row = 0;
        if step.is_first && self.totals.snapshots > 0 {
            // What is watched has changed, and with it what the counters count from: for receivers another start.
            let stream = new_stream();
            self.encoding = Encoding::new(&self.settings, stream, sealer(self.group.as_ref())?);
            if let Some(secure) = &mut self.stream {
                secure.restart(stream);
            }
            if let Some(recorder) = &mut self.recorder {
                recorder.restart(stream);
            }
        }
        if let Some(sender) = &mut self.sender {
            self.encoding.encode(info, &step, &mut self.datagrams)?;
            if let Some(pace) = self.settings.pace {
                sender.set_pace(Some(fitting_pace(pace, self.datagrams.len(), self.settings.interval())));
            }
            sender.send_batch(self.datagrams.as_slice());
            self.totals.sent = *sender.stats();
        }
        if let Some(stream) = &mut self.stream {
            self.totals.stream = Some(stream.send(info, &step)?);
        }
        if let Some(recorder) = &mut self.recorder {
            self.totals.log = Some(recorder.record(info, &step));
        }
        self.totals.snapshots += 1;
        self.totals.health = step.snapshot.health;
        self.totals.threads = step.snapshot.thread_count;
        if log::log_enabled!(log::Level::Debug) {
            log::debug!("{}", describe(&step, &self.datagrams));
        }
        Ok(true)
    }

    /// What was done so far.
    #[must_use]
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// The datagrams of the last step.
    #[must_use]
    pub fn datagrams(&self) -> &Datagrams {
        &self.datagrams
    }

    /// How long the last collection pass took, ns.
    #[must_use]
    pub fn last_pass_ns(&self) -> u64 {
        self.sampler.last_interval().pass_ns
    }

    /// Threads in the last step's frames because they ran, and those that were only repeated (v2); those of the log or
    /// the stream if no datagrams are sent.
    #[must_use]
    pub fn threads_sent(&self) -> (u64, u64) {
        match (&self.sender, &self.recorder, &self.stream) {
            (None, Some(recorder), _) => recorder.threads_kept(),
            (None, None, Some(stream)) => stream.threads_sent(),
            _ => self.encoding.threads_sent(),
        }
    }

    fn say(&self, line: &str) {
        match self.encoding.misfits() {
            Some(misfits) => log::info!("{line}; did not fit into datagrams so far: {misfits}"),
            None => log::info!("{line}"),
        }
    }
}

/// A new one for each start: no number of it was used before.
fn sealer(group: Option<&GroupKey>) -> anyhow::Result<Option<Sealer>> {
    let new = |group| Ok(Sealer::new(group, cpumon_collect::now().boot_ns, random()?));
    group.map(new).transpose()
}

/// Tells starts apart.
fn new_stream() -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_epoch.as_nanos()).unwrap_or(u64::MAX)
}

/// One snapshot in one line.
fn describe(step: &Step<'_>, datagrams: &Datagrams) -> String {
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
