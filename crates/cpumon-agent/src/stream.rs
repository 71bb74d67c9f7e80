//! [`Stream`]: the secure stream of an agent. In: steps. Out: full and changed snapshots into the backlog, which the uplink's
//! thread brings to a receiver; counts for people. Also how a device is enrolled.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use cpumon_collect::AllowedPaths;
use cpumon_link::spool::{Spool, SpoolOptions};
use cpumon_link::tls::{
    DEFAULT_TLS_PORT, DeviceIdentity, Receiver, Token, Uplink, UplinkOptions, enroll, random,
};
use cpumon_link::{Backlog, RamBacklog, Target};
use cpumon_model::HostInfo;
use cpumon_wire::Datagrams;
use cpumon_wire::spool::Origin;
use cpumon_wire::v2::Encoder;

use crate::recorder::{DAY, describe_log, encoder};
use crate::{LogSettings, Step, in_domain};

/// Memory for snapshots that wait for a receiver, bytes.
pub(crate) const RAM_BYTES: usize = 4 << 20;
/// How long an agent that ends waits for the last acknowledgements.
const LAST_WAIT: Duration = Duration::from_secs(5);

/// To whom to stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamSettings {
    /// `host:port` of receivers, in the order in which to try them; none: all that this machine is enrolled with.
    pub receivers: Vec<String>,
    /// Where identities are kept.
    pub state: PathBuf,
    /// Where snapshots wait; `None`: in memory.
    pub spool: Option<LogSettings>,
    /// Whom to ask for a receiver that is not where it should be; empty: nobody.
    pub ask: Vec<Target>,
}

/// Counts of a stream, cumulative since the agent started.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamTotals {
    /// A receiver is connected.
    pub is_connected: bool,
    /// Snapshots on a receiver's disk.
    pub acked: u64,
    /// Snapshots that no receiver has acknowledged yet.
    pub waiting: u64,
    /// Snapshots that found no room to wait; the receiver is told.
    pub lost: u64,
    /// Connections that failed or broke.
    pub failures: u64,
    /// Bytes on the wire, with what TLS adds.
    pub wire_bytes: u64,
    /// Beacons that somebody made up.
    pub false_beacons: u64,
    /// Texts cut and rows left out because they fit no frame.
    pub misfits: u64,
    /// Bytes written to the disk where they wait; `None`: they wait in memory.
    pub written_bytes: Option<u64>,
}

impl StreamTotals {
    /// Snapshots that are gone if the agent ends now.
    pub(crate) fn unsafe_now(&self) -> u64 {
        self.lost + if self.written_bytes.is_some() { 0 } else { self.waiting }
    }

    /// What happened since `then`, in words; bytes also as they would be in a day at this rate: flash wears out.
    pub(crate) fn line(&self, then: &Self, length: Duration) -> String {
        let mut line = format!(
            "{} snapshots acknowledged, {:.1} kB over TLS",
            self.acked.saturating_sub(then.acked),
            self.wire_bytes.saturating_sub(then.wire_bytes) as f64 / 1e3
        );
        if !self.is_connected {
            line.push_str("; NO RECEIVER");
        }
        // Writing to a String cannot fail.
        if self.waiting > 2 {
            let _ = write!(line, "; {} wait", self.waiting);
        }
        if let Some(written_bytes) = self.written_bytes {
            let written = written_bytes.saturating_sub(then.written_bytes.unwrap_or(0)) as f64;
            let a_day = written * DAY.as_secs_f64() / length.as_secs_f64().max(1e-9);
            let _ = write!(line, "; wrote {:.1} kB ({:.1} MB a day)", written / 1e3, a_day / 1e6);
        }
        for (count, before, what) in [
            (self.lost, then.lost, "lost, no room to wait"),
            (self.failures, then.failures, "connections failed or broke"),
            (self.false_beacons, then.false_beacons, "false beacons ignored"),
            (self.misfits, then.misfits, "texts or rows did not fit into frames"),
        ] {
            if count > before {
                let _ = write!(line, "; {} {what}", count - before);
            }
        }
        line
    }
}

/// What is needed to begin; the thread is started with the first step, when rights were given up.
struct Ready {
    options: UplinkOptions,
    backlog: Box<dyn Backlog>,
    allowed: AllowedPaths,
}

/// See the module.
pub(crate) struct Stream {
    ready: Option<Ready>,
    uplink: Option<Uplink>,
    encoder: Encoder,
    datagrams: Datagrams,
    misfits: u64,
    /// In the last snapshot's frames because they ran, and for another reason.
    threads: (u64, u64),
    receivers: String,
    spool: Option<LogSettings>,
}

impl Stream {
    /// Reads the identities, opens what snapshots wait in. `stream` tells agent starts apart.
    pub(crate) fn open(
        settings: &StreamSettings,
        info: &HostInfo,
        stream: u64,
        interval: Duration,
    ) -> anyhow::Result<Self> {
        let receiver = |address: &String| {
            let identity = DeviceIdentity::find(&settings.state, address)?;
            Ok(Receiver { address: address.clone(), identity })
        };
        let receivers: Vec<Receiver> = if settings.receivers.is_empty() {
            DeviceIdentity::all(&settings.state)?.into_iter().map(Receiver::from).collect()
        } else {
            settings.receivers.iter().map(receiver).collect::<anyhow::Result<_>>()?
        };
        let addresses: Vec<String> = receivers.iter().map(|receiver| receiver.address.clone()).collect();
        let options = UplinkOptions {
            receivers,
            host: info.host.0,
            agent: info.agent.to_string(),
            boot: info.boot.0,
            clocks,
            ask: settings.ask.clone(),
        };
        let backlog: Box<dyn Backlog> = match &settings.spool {
            Some(spool) => Box::new(open_spool(spool, info, interval)?),
            None => Box::new(RamBacklog::new(random()?, RAM_BYTES)),
        };
        Ok(Self {
            ready: Some(Ready { options, backlog, allowed: allowed_paths(settings, &addresses) }),
            uplink: None,
            encoder: encoder(stream),
            datagrams: Datagrams::new(),
            misfits: 0,
            threads: (0, 0),
            receivers: addresses.join(", "),
            spool: settings.spool.clone(),
        })
    }

    /// To whom, in words.
    pub(crate) fn describe(&self) -> String {
        let receivers = &self.receivers;
        match &self.spool {
            Some(spool) => {
                format!("{receivers} over TLS; what they do not have waits in {}", describe_log(spool))
            }
            None => format!("{receivers} over TLS; what they do not have waits in memory"),
        }
    }

    /// From here on counters count from elsewhere, as after a start of the agent.
    pub(crate) fn restart(&mut self, stream: u64) {
        self.encoder = encoder(stream);
    }

    /// Starts the thread that talks to receivers; says how it is held. Does nothing if it runs.
    pub(crate) fn start(&mut self) -> anyhow::Result<String> {
        let Some(Ready { options, backlog, allowed }) = self.ready.take() else { return Ok(String::new()) };
        let (uplink, held) = in_domain(allowed, || Uplink::start(options, backlog))
            .context("cannot start the secure stream")?;
        self.uplink = Some(uplink.context("cannot start the secure stream")?);
        Ok(held)
    }

    /// Takes a step.
    pub(crate) fn send(&mut self, info: &HostInfo, step: &Step<'_>) -> anyhow::Result<StreamTotals> {
        self.start()?;
        let Some(uplink) = &self.uplink else { return Ok(StreamTotals::default()) };
        if uplink.wants_full() {
            self.encoder.begin_anew();
        }
        let is_full = self.encoder.is_next_full();
        let report = self.encoder.encode(info, step.snapshot, step.interval, &mut self.datagrams);
        self.misfits += report.texts_cut + report.rows_lost;
        self.threads = (report.changed_threads, report.refreshed_threads);
        uplink.append(is_full, step.snapshot.end.wall_ns, &self.datagrams);
        Ok(self.totals(uplink))
    }

    /// Threads in the last snapshot's frames because they ran, and those that were told for another reason.
    pub(crate) fn threads_sent(&self) -> (u64, u64) {
        self.threads
    }

    /// Waits a little for the last acknowledgements.
    pub(crate) fn finish(self) -> StreamTotals {
        let Some(uplink) = &self.uplink else { return StreamTotals::default() };
        if uplink.status().connected_to.is_some() {
            // What is not acknowledged by then is in the counts.
            let _ = uplink.drain(LAST_WAIT);
        }
        self.totals(uplink)
    }

    fn totals(&self, uplink: &Uplink) -> StreamTotals {
        let status = uplink.status();
        StreamTotals {
            is_connected: status.connected_to.is_some(),
            acked: status.acked,
            waiting: status.waiting,
            lost: status.lost,
            failures: status.failures,
            wire_bytes: status.wire_bytes,
            false_beacons: status.false_beacons,
            misfits: self.misfits,
            written_bytes: self.spool.is_some().then_some(status.written_bytes),
        }
    }
}

fn clocks() -> (i64, u64) {
    let now = cpumon_collect::now();
    (now.wall_ns, now.boot_ns)
}

/// Its own keys, which are renewed, what waits, and the receivers; one that moved is reached at the usual port too.
fn allowed_paths(settings: &StreamSettings, receivers: &[String]) -> AllowedPaths {
    let port = |receiver: &String| receiver.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
    let spool = settings.spool.iter().map(|spool| spool.dir.clone());
    AllowedPaths {
        read: Vec::new(),
        write: std::iter::once(settings.state.clone()).chain(spool).collect(),
        connect: receivers
            .iter()
            .filter_map(port)
            .chain((!settings.ask.is_empty()).then_some(DEFAULT_TLS_PORT))
            .collect(),
        bind: Vec::new(),
    }
}

fn open_spool(settings: &LogSettings, info: &HostInfo, interval: Duration) -> anyhow::Result<Spool> {
    let options = SpoolOptions {
        dir: settings.dir.clone(),
        max_bytes: settings.max_bytes,
        sync: settings.sync,
        interval,
    };
    let spool = Spool::open_backlog(&options, Origin { host: info.host, boot: info.boot })?;
    let waiting = Backlog::waiting(&spool).0;
    if waiting > 0 {
        log::info!("{waiting} snapshots of before wait in {}", settings.dir.display());
    }
    Ok(spool)
}

/// Enrols this machine with a receiver. Gives what to say about it.
///
/// # Errors
/// This machine cannot tell who it is, or the receiver does not take the token.
pub fn enroll_here(
    address: &str,
    token: &Token,
    state: &Path,
    host_name: Option<&str>,
) -> anyhow::Result<String> {
    let info = cpumon_collect::host_info(&cpumon_collect::SourceOptions::default())
        .context("cannot tell who this machine is")?;
    let name = host_name.unwrap_or(&info.hostname);
    let identity = enroll(state, address, token, info.host.0, name).context("cannot enrol")?;
    Ok(format!(
        "enrolled with {address} as {name}; the key is in {}\nnow run: cpumon-agent --to tls://{address}",
        identity.place().1.display()
    ))
}

/// Where identities are unless the user says: the service's state directory for root, else the user's.
#[must_use]
pub fn default_state_dir() -> PathBuf {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(listed) = variable("STATE_DIRECTORY") {
        // systemd.exec(5): several directories are separated by colons.
        return std::env::split_paths(&listed).next().unwrap_or_default().join("identities");
    }
    let is_root =
        std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    if is_root {
        return PathBuf::from("/var/lib/cpumon-agent/identities");
    }
    let xdg = variable("XDG_STATE_HOME").filter(|dir| dir.is_absolute());
    let home = || variable("HOME").map(|home| home.join(".local/state"));
    xdg.or_else(home).map_or_else(|| PathBuf::from("identities"), |dir| dir.join("cpumon-agent/identities"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_what_is_wrong_and_only_that() {
        let good = StreamTotals { is_connected: true, acked: 60, wire_bytes: 12_300, ..Default::default() };
        let minute = Duration::from_mins(1);
        assert_eq!(
            good.line(&StreamTotals::default(), minute),
            "60 snapshots acknowledged, 12.3 kB over TLS"
        );
        let bad = StreamTotals { is_connected: false, waiting: 9, lost: 3, failures: 2, ..good };
        assert_eq!(
            bad.line(&good, minute),
            "0 snapshots acknowledged, 0.0 kB over TLS; NO RECEIVER; 9 wait; 3 lost, no room to wait; \
             2 connections failed or broke"
        );
        let on_disk = StreamTotals { written_bytes: Some(5_000), waiting: 7, ..good };
        assert_eq!(
            on_disk.line(&good, minute),
            "0 snapshots acknowledged, 0.0 kB over TLS; 7 wait; wrote 5.0 kB (7.2 MB a day)"
        );
        assert_eq!((on_disk.unsafe_now(), bad.unsafe_now()), (0, 12), "what is on the disk is not missing");
    }
}
