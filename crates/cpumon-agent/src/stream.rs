//! [`Stream`]: the secure stream of an agent. In: steps. Out: full and changed snapshots into the backlog, which the uplink's
//! thread brings to a receiver; counts for people. Also how a device is enrolled.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use cpumon_link::tls::{DeviceIdentity, Receiver, Token, Uplink, UplinkOptions, enroll, random};
use cpumon_link::{Backlog, RamBacklog};
use cpumon_model::HostInfo;
use cpumon_wire::Datagrams;
use cpumon_wire::v2::{Encoder, EncoderOptions};

use crate::Step;

/// Longest frame, bytes: headers are few then.
const MAX_FRAME_BYTES: usize = 65_000;
/// Memory for snapshots that wait for a receiver, bytes.
pub(crate) const RAM_BYTES: usize = 4 << 20;
/// How long an agent that ends waits for the last acknowledgements.
const LAST_WAIT: Duration = Duration::from_secs(5);

/// To whom to stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamSettings {
    /// `host:port` of receivers, in the order in which to try them.
    pub receivers: Vec<String>,
    /// Where identities are kept.
    pub state: PathBuf,
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
    /// Texts cut and rows left out because they fit no frame.
    pub misfits: u64,
}

impl StreamTotals {
    /// What happened since `then`, in words.
    pub(crate) fn line(&self, then: &Self) -> String {
        let mut line = format!(
            "{} snapshots acknowledged, {:.1} kB over TLS",
            self.acked.saturating_sub(then.acked),
            self.wire_bytes.saturating_sub(then.wire_bytes) as f64 / 1e3
        );
        if !self.is_connected {
            line.push_str("; NO RECEIVER");
        }
        if self.waiting > 2 {
            // Writing to a String cannot fail.
            let _ = write!(line, "; {} wait", self.waiting);
        }
        for (count, before, what) in [
            (self.lost, then.lost, "lost, no room to wait"),
            (self.failures, then.failures, "connections failed or broke"),
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
}

/// See the module.
pub(crate) struct Stream {
    ready: Option<Ready>,
    uplink: Option<Uplink>,
    encoder: Encoder,
    datagrams: Datagrams,
    misfits: u64,
    receivers: String,
}

impl Stream {
    /// Reads the identities. `stream` tells agent starts apart.
    pub(crate) fn open(settings: &StreamSettings, info: &HostInfo, stream: u64) -> anyhow::Result<Self> {
        let receiver = |address: &String| {
            let identity = DeviceIdentity::find(&settings.state, address)?;
            Ok(Receiver { address: address.clone(), identity })
        };
        let receivers: Vec<Receiver> =
            settings.receivers.iter().map(receiver).collect::<anyhow::Result<_>>()?;
        let options = UplinkOptions { receivers, host: info.host.0, agent: info.agent.to_string() };
        let backlog = Box::new(RamBacklog::new(random()?, RAM_BYTES));
        Ok(Self {
            ready: Some(Ready { options, backlog }),
            uplink: None,
            encoder: encoder(stream),
            datagrams: Datagrams::new(),
            misfits: 0,
            receivers: settings.receivers.join(", "),
        })
    }

    /// To whom, in words.
    pub(crate) fn describe(&self) -> String {
        format!("{} over TLS", self.receivers)
    }

    /// From here on counters count from elsewhere, as after a start of the agent.
    pub(crate) fn restart(&mut self, stream: u64) {
        self.encoder = encoder(stream);
    }

    /// Takes a step.
    pub(crate) fn send(&mut self, info: &HostInfo, step: &Step<'_>) -> anyhow::Result<StreamTotals> {
        if let Some(Ready { options, backlog }) = self.ready.take() {
            self.uplink = Some(Uplink::start(options, backlog).context("cannot start the secure stream")?);
        }
        let Some(uplink) = &self.uplink else { return Ok(StreamTotals::default()) };
        if uplink.wants_full() {
            self.encoder.begin_anew();
        }
        let is_full = self.encoder.is_next_full();
        let report = self.encoder.encode(info, step.snapshot, step.interval, &mut self.datagrams);
        self.misfits += report.texts_cut + report.rows_lost;
        uplink.append(is_full, step.snapshot.end.wall_ns, &self.datagrams);
        Ok(totals(uplink, self.misfits))
    }

    /// Waits a little for the last acknowledgements.
    pub(crate) fn finish(self) -> StreamTotals {
        let Some(uplink) = self.uplink else { return StreamTotals::default() };
        if uplink.status().connected_to.is_some() {
            // What is not acknowledged by then is in the counts.
            let _ = uplink.drain(LAST_WAIT);
        }
        totals(&uplink, self.misfits)
    }
}

fn encoder(stream: u64) -> Encoder {
    Encoder::new(EncoderOptions {
        max_datagram: MAX_FRAME_BYTES,
        full_snapshots: 1,
        stream,
        is_lossless: true,
        ..EncoderOptions::default()
    })
}

fn totals(uplink: &Uplink, misfits: u64) -> StreamTotals {
    let status = uplink.status();
    StreamTotals {
        is_connected: status.connected_to.is_some(),
        acked: status.acked,
        waiting: status.waiting,
        lost: status.lost,
        failures: status.failures,
        wire_bytes: status.wire_bytes,
        misfits,
    }
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
        assert_eq!(good.line(&StreamTotals::default()), "60 snapshots acknowledged, 12.3 kB over TLS");
        let bad = StreamTotals { is_connected: false, waiting: 9, lost: 3, failures: 2, ..good };
        assert_eq!(
            bad.line(&good),
            "0 snapshots acknowledged, 0.0 kB over TLS; NO RECEIVER; 9 wait; 3 lost, no room to wait; \
             2 connections failed or broke"
        );
    }
}
