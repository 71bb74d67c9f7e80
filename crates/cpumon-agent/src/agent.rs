//! [`Agent`]: the whole way from the kernel to the network. In: [`Settings`]; out: datagrams, and lines about itself.
//! Why: [`crate::run`], the benchmark and the tests go this same way.

use std::sync::atomic::AtomicBool;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use cpumon_link::{SenderOptions, UdpSender};
use cpumon_model::SourceKind;
use cpumon_wire::Datagrams;

use crate::args::in_words;
use crate::encoding::{Encoding, fitting_pace};
use crate::report::{Reporter, Totals};
use crate::{DataMissing, Sampler, Settings, Step};

/// So many failed passes one after the other end the agent: it is not a hiccup.
const MAX_FAILED_PASSES: u64 = 10;

/// Measures, encodes, sends.
pub struct Agent {
    settings: Settings,
    sampler: Sampler,
    sender: UdpSender,
    encoding: Encoding,
    datagrams: Datagrams,
    reporter: Reporter,
    totals: Totals,
    failed_in_a_row: u64,
}

impl Agent {
    /// Opens source and sockets. Nothing is measured or sent yet.
    ///
    /// # Errors
    /// The source cannot run, or there is nothing to send with.
    pub fn open(settings: &Settings) -> anyhow::Result<Self> {
        let sampler = Sampler::open(&settings.sampler).context("cannot measure this machine")?;
        Self::with_sampler(sampler, settings)
    }

    /// With a sampler of the caller's own (a simulation, a test).
    ///
    /// # Errors
    /// There is nothing to send with.
    pub fn with_sampler(sampler: Sampler, settings: &Settings) -> anyhow::Result<Self> {
        let options = SenderOptions { to: settings.to.clone(), pace: settings.pace };
        let sender = UdpSender::open(&options).context("cannot send")?;
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let stream = u64::try_from(since_epoch.as_nanos()).unwrap_or(u64::MAX);
        Ok(Self {
            encoding: Encoding::new(settings, stream),
            settings: settings.clone(),
            sampler,
            sender,
            datagrams: Datagrams::new(),
            reporter: Reporter::new(Instant::now()),
            totals: Totals::default(),
            failed_in_a_row: 0,
        })
    }

    /// Which source measures.
    #[must_use]
    pub fn source_kind(&self) -> SourceKind {
        self.sampler.kind()
    }

    /// Who measures and why, how often, to whom: one line.
    #[must_use]
    pub fn start_line(&self) -> String {
        let info = self.sampler.info();
        let protocol = if self.settings.v1 { " as v1 datagrams" } else { "" };
        format!(
            "measuring {} every {:?} with {}; sending{protocol} to {}",
            cpumon_model::escape(&info.hostname),
            self.settings.interval(),
            info.source_reason,
            in_words(&self.settings.to, self.sender.destinations()),
        )
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
        let line = self.reporter.line(&self.totals, Instant::now());
        self.say(&line);
        let (unsent, failed) = (self.totals.sent.errors, self.totals.failed);
        if self.settings.count.is_some() && unsent + failed > 0 {
            return Err(DataMissing { unsent, failed }.into());
        }
        Ok(())
    }

    /// Waits for the next point of the schedule, measures and sends. False once `stop` is set.
    ///
    /// # Errors
    /// Measuring failed ten times in a row.
    pub fn step(&mut self, stop: &AtomicBool) -> anyhow::Result<bool> {
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
        self.encoding.encode(info, &step, &mut self.datagrams);
        if let Some(pace) = self.settings.pace {
            self.sender.set_pace(Some(fitting_pace(pace, self.datagrams.len(), self.settings.interval())));
        }
        self.sender.send_batch(self.datagrams.as_slice());
        self.totals.snapshots += 1;
        self.totals.health = step.snapshot.health;
        self.totals.threads = step.snapshot.thread_count;
        self.totals.sent = *self.sender.stats();
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

    /// Threads in the last step's frames because they ran, and those that were only repeated (v2).
    #[must_use]
    pub fn threads_sent(&self) -> (u64, u64) {
        self.encoding.threads_sent()
    }

    fn say(&self, line: &str) {
        match self.encoding.misfits() {
            Some(misfits) => log::info!("{line}; did not fit into datagrams so far: {misfits}"),
            None => log::info!("{line}"),
        }
    }
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
