//! [`Connection`]: the TLS connection of an agent. It encodes each step into the backlog, from which the uplink thread of
//! `cpumon-link` sends it to a receiver, and removes acknowledged snapshots.

use std::fmt::Write as _;
use std::time::Duration;

use cpumon_collect::AllowedPaths;
use cpumon_link::spool::{Spool, SpoolError, SpoolOptions};
use cpumon_link::tls::{
    AttachmentOptions, DEFAULT_TLS_PORT, DeviceIdentity, Receiver, Uplink, UplinkOptions, UplinkStatus,
    random,
};
use cpumon_link::{Backlog, RamBacklog};
use cpumon_model::HostInfo;
use cpumon_wire::spool::Origin;

use crate::error::ConnectionError;
use crate::process::in_domain;
use crate::recorder::{DAY, LosslessEncoding, describe_directory};
use crate::sampler::SamplerStep;
use crate::settings::ConnectionSettings;

/// Memory for snapshots that wait for a receiver, bytes.
pub(crate) const RAM_BYTES: usize = 4 << 20;
/// How long an agent that ends waits for the last acknowledgements.
const LAST_WAIT: Duration = Duration::from_secs(5);

/// Counts of the TLS connection, cumulative since the agent started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConnectionTotals {
    /// State and counts of the connection, and its queue.
    pub uplink: UplinkStatus,
    /// Texts cut and rows left out because they fit no frame.
    pub misfits: u64,
    /// The queue is on the disk, not in memory.
    pub is_on_disk: bool,
}

impl ConnectionTotals {
    /// Snapshots that would be lost if the agent ended now.
    pub(crate) fn unsafe_now(&self) -> u64 {
        // A spool survives this process: the next run sends it.
        self.uplink.backlog.lost + if self.is_on_disk { 0 } else { self.uplink.backlog.waiting }
    }

    /// The changes since `then` as text. Written bytes are also given per day, because flash memory wears out.
    pub(crate) fn line(&self, then: &Self, length: Duration) -> String {
        let (now, before) = (&self.uplink, &then.uplink);
        let mut line = format!(
            "{} snapshots acknowledged, {:.1} kB over TLS",
            now.backlog.acked.saturating_sub(before.backlog.acked),
            now.wire_bytes.saturating_sub(before.wire_bytes) as f64 / 1e3
        );
        if now.connected_to.is_none() {
            line.push_str("; NO RECEIVER");
        }
        // Writing to a String cannot fail.
        if now.backlog.waiting > 2 {
            let _ = write!(line, "; {} waiting", now.backlog.waiting);
        }
        if self.is_on_disk {
            let written = now.backlog.written_bytes.saturating_sub(before.backlog.written_bytes) as f64;
            let a_day = written * DAY.as_secs_f64() / length.as_secs_f64().max(1e-9);
            let _ = write!(line, "; wrote {:.1} kB ({:.1} MB a day)", written / 1e3, a_day / 1e6);
        }
        for (count, before, what) in [
            (now.backlog.lost, before.backlog.lost, "lost, the backlog is full"),
            (now.failures, before.failures, "connections failed or broke"),
            (now.ignored_answers, before.ignored_answers, "answers to searches ignored"),
            (self.misfits, then.misfits, "texts or rows did not fit into frames"),
            (now.attachments_stored, before.attachments_stored, "traces stored"),
            (now.attachments_refused, before.attachments_refused, "traces refused by the receiver"),
        ] {
            if count > before {
                let _ = write!(line, "; {} {what}", count - before);
            }
        }
        line
    }
}

/// Parts that the uplink needs to start. Its thread starts after the agent has dropped its privileges, so that it inherits fewer.
struct UplinkParts {
    options: UplinkOptions,
    backlog: Box<dyn Backlog>,
    allowed: AllowedPaths,
}

pub(crate) struct Connection {
    ready: Option<UplinkParts>,
    uplink: Option<Uplink>,
    pub encoding: LosslessEncoding,
    receivers: String,
    spool: Option<SpoolOptions>,
}

impl Connection {
    /// Reads the identities and opens the backlog. `agent_start` identifies this start of the agent.
    pub(crate) fn open(
        settings: &ConnectionSettings,
        info: &HostInfo,
        agent_start: u64,
        attachments: Option<AttachmentOptions>,
    ) -> Result<Self, ConnectionError> {
        let receiver = |address: &String| {
            let identity = DeviceIdentity::find(&settings.state, address)?;
            Ok(Receiver { address: address.clone(), identity })
        };
        let receivers: Vec<Receiver> = if settings.receivers.is_empty() {
            DeviceIdentity::all(&settings.state)?.into_iter().map(Receiver::from).collect()
        } else {
            settings.receivers.iter().map(receiver).collect::<Result<_, ConnectionError>>()?
        };
        let addresses: Vec<String> = receivers.iter().map(|receiver| receiver.address.clone()).collect();
        let options = UplinkOptions {
            receivers,
            host: info.host.0,
            agent: info.agent.to_string(),
            boot: info.boot.0,
            clocks,
            ask: settings.ask.clone(),
            attachments,
        };
        let backlog: Box<dyn Backlog> = match &settings.spool {
            Some(spool) => Box::new(open_spool(spool, info)?),
            None => Box::new(RamBacklog::new(random()?, RAM_BYTES)),
        };
        Ok(Self {
            ready: Some(UplinkParts {
                allowed: allowed_paths(settings, &options, &addresses),
                options,
                backlog,
            }),
            uplink: None,
            encoding: LosslessEncoding::new(agent_start),
            receivers: addresses.join(", "),
            spool: settings.spool.clone(),
        })
    }

    /// The receivers and the backlog, for the start line.
    pub(crate) fn describe(&self) -> String {
        let receivers = &self.receivers;
        match &self.spool {
            Some(spool) => {
                format!(
                    "{receivers} over TLS; unacknowledged snapshots wait in {}",
                    describe_directory(spool)
                )
            }
            None => format!("{receivers} over TLS; unacknowledged snapshots wait in memory"),
        }
    }

    /// Starts the uplink thread if it does not run yet. Returns the sandbox of the thread as text.
    pub(crate) fn start(&mut self) -> Result<String, ConnectionError> {
        let Some(UplinkParts { options, backlog, allowed }) = self.ready.take() else {
            return Ok(String::new());
        };
        let (uplink, sandbox) = in_domain(allowed, || Uplink::start(options, backlog))?;
        self.uplink = Some(uplink?);
        Ok(sandbox)
    }

    /// Encodes a step and appends it to the backlog.
    pub(crate) fn send(
        &mut self,
        info: &HostInfo,
        step: &SamplerStep<'_>,
    ) -> Result<ConnectionTotals, ConnectionError> {
        self.start()?;
        let Some(uplink) = &self.uplink else { return Ok(ConnectionTotals::default()) };
        // A receiver that knows nothing must begin at a full snapshot, so the backlog needs one now and then.
        let is_full = self.encoding.encode(info, step, uplink.wants_full());
        uplink.append(is_full, step.snapshot.end.wall_ns, &self.encoding.datagrams);
        Ok(self.totals(uplink))
    }

    /// Waits up to five seconds for the last acknowledgements.
    pub(crate) fn finish(self) -> ConnectionTotals {
        let Some(uplink) = &self.uplink else { return ConnectionTotals::default() };
        // Without a connection no acknowledgement can arrive: waiting would only delay the exit.
        if uplink.status().connected_to.is_some() {
            // Snapshots that stay unacknowledged are in the totals.
            let _ = uplink.drain(LAST_WAIT);
        }
        self.totals(uplink)
    }

    fn totals(&self, uplink: &Uplink) -> ConnectionTotals {
        let is_on_disk = self.spool.is_some();
        ConnectionTotals { uplink: uplink.status(), misfits: self.encoding.misfits, is_on_disk }
    }
}

fn clocks() -> (i64, u64) {
    let now = cpumon_collect::now();
    (now.wall_ns, now.boot_ns)
}

/// The paths and ports that the uplink thread needs: the identities (certificates are renewed in place), the spool, the files that are
/// sent beside it, the receivers' ports, and the default port for a receiver found by discovery.
fn allowed_paths(
    settings: &ConnectionSettings,
    options: &UplinkOptions,
    receivers: &[String],
) -> AllowedPaths {
    // The last colon: an IPv6 address has others before it.
    let port = |receiver: &String| receiver.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
    let spool = settings.spool.iter().map(|spool| spool.dir.clone());
    let files = options.attachments.iter().map(|wanted| wanted.dir.clone());
    AllowedPaths {
        resolves: true,
        read: Vec::new(),
        write: std::iter::once(settings.state.clone()).chain(spool).chain(files).collect(),
        connect: receivers
            .iter()
            .filter_map(port)
            .chain((!settings.ask.is_empty()).then_some(DEFAULT_TLS_PORT))
            .collect(),
        bind: Vec::new(),
    }
}

fn open_spool(options: &SpoolOptions, info: &HostInfo) -> Result<Spool, SpoolError> {
    let spool = Spool::open_backlog(options, Origin { host: info.host, boot: info.boot })?;
    let waiting = spool.counts().waiting;
    if waiting > 0 {
        log::info!("{waiting} snapshots of an earlier run wait in {}", options.dir.display());
    }
    Ok(spool)
}

#[cfg(test)]
mod tests {
    use cpumon_link::BacklogCounts;

    use super::*;

    #[test]
    fn the_line_lists_only_problems_that_occurred() {
        let good = UplinkStatus {
            connected_to: Some("10.0.0.9".to_owned()),
            backlog: BacklogCounts { acked: 60, ..Default::default() },
            wire_bytes: 12_300,
            ..Default::default()
        };
        let totals = |uplink: &UplinkStatus, is_on_disk| ConnectionTotals {
            uplink: uplink.clone(),
            misfits: 0,
            is_on_disk,
        };
        let then = totals(&good, false);
        let minute = Duration::from_mins(1);
        assert_eq!(
            then.line(&ConnectionTotals::default(), minute),
            "60 snapshots acknowledged, 12.3 kB over TLS"
        );
        let backlog = BacklogCounts { waiting: 9, lost: 3, ..good.backlog };
        let bad = UplinkStatus { connected_to: None, backlog, failures: 2, ..good.clone() };
        let bad = totals(&bad, false);
        assert_eq!(
            bad.line(&then, minute),
            "0 snapshots acknowledged, 0.0 kB over TLS; NO RECEIVER; 9 waiting; 3 lost, the backlog is full; \
             2 connections failed or broke"
        );
        let backlog = BacklogCounts { written_bytes: 5_000, waiting: 7, ..good.backlog };
        let on_disk = totals(&UplinkStatus { backlog, ..good }, true);
        assert_eq!(
            on_disk.line(&then, minute),
            "0 snapshots acknowledged, 0.0 kB over TLS; 7 waiting; wrote 5.0 kB (7.2 MB a day)"
        );
        assert_eq!(
            (on_disk.unsafe_now(), bad.unsafe_now()),
            (0, 12),
            "snapshots on the disk are not missing"
        );
    }
}
