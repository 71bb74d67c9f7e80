//! [`Encoding`]: encodes a step as datagrams of the chosen protocol. Values that do not fit are counted, and logged the first time.

use std::time::Duration;

use cpumon_model::{HostInfo, counted};
use cpumon_wire::encrypted::{Encryptor, Exhausted, OVERHEAD_BYTES};
use cpumon_wire::v1::{SetEncoder, SetReport};
use cpumon_wire::v2::{EncodeReport, Encoder, EncoderOptions};
use cpumon_wire::{Datagrams, v1};

use crate::platform::utc_offset_s;
use crate::sampler::SamplerStep;
use crate::settings::Settings;

pub enum Encoding {
    /// Version 1 of the protocol: the original's sets.
    V1 {
        encoder: Box<SetEncoder>,
        /// Sums since the start.
        totals: SetReport,
    },
    /// Version 2: frames of cumulative counters.
    V2 {
        encoder: Box<Encoder>,
        /// Encrypts frames with the group key; `None`: frames are sent in the clear.
        encryptor: Option<Box<Encryptor>>,
        /// Counts of values that did not fit, and the thread counts of the last snapshot.
        totals: EncodeReport,
    },
}

impl Encoding {
    /// `agent_start` identifies this start of the agent. `encryptor` must be a new one at each start, because its nonces start at zero.
    pub fn new(settings: &Settings, agent_start: u64, encryptor: Option<Encryptor>) -> Self {
        if settings.v1 {
            let encoder = SetEncoder::new(settings.max_datagram.unwrap_or(v1::MAX_ORIGINAL_DATAGRAM));
            return Self::V1 { encoder: Box::new(encoder), totals: SetReport::default() };
        }
        let default = EncoderOptions::default();
        let overhead = if encryptor.is_some() { OVERHEAD_BYTES } else { 0 };
        let options = EncoderOptions {
            // `AgentArgs::check` ensures that the remaining length is not below the encoder's minimum.
            max_datagram: settings.max_datagram.unwrap_or(default.max_datagram) - overhead,
            refresh_snapshots: settings.refresh.unwrap_or(default.refresh_snapshots),
            agent_start,
            ..default
        };
        let encoder = Box::new(Encoder::new(options));
        Self::V2 { encoder, encryptor: encryptor.map(Box::new), totals: EncodeReport::default() }
    }

    /// Replaces `out` with the datagrams of a step. In version 1 the first step has none, because it ends no interval.
    ///
    /// # Errors
    /// 2^64 datagrams were encrypted with this key: no more may be sent.
    pub fn encode(
        &mut self,
        info: &HostInfo,
        step: &SamplerStep<'_>,
        out: &mut Datagrams,
    ) -> Result<(), Exhausted> {
        match self {
            Self::V1 { .. } if step.is_first => out.clear(),
            Self::V1 { encoder, totals } => {
                // For each step: daylight saving time may begin or end while the agent runs.
                let offset = utc_offset_s(step.interval.end.wall_ns);
                add_and_warn(totals, encoder.encode(step.interval, offset, out));
            }
            Self::V2 { encoder, encryptor, totals } => {
                let report = encoder.encode(info, step.snapshot, step.interval, out);
                warn_of_misfits(totals, &report);
                *totals = EncodeReport {
                    texts_cut: totals.texts_cut + report.texts_cut,
                    rows_lost: totals.rows_lost + report.rows_lost,
                    ..report
                };
                if let Some(encryptor) = encryptor {
                    encryptor.encrypt(out)?;
                }
            }
        }
        Ok(())
    }

    /// Reports, as text, the values that did not fit into datagrams so far; `None` if all did.
    pub fn misfits(&self) -> Option<String> {
        let words = match self {
            Self::V1 { totals, .. } => counted([
                (totals.idle_threads_dropped, "idle threads left out"),
                (totals.processes_split, "processes split"),
                (totals.names_cut, "names cut"),
            ]),
            Self::V2 { totals, .. } => {
                counted([(totals.texts_cut, "texts cut"), (totals.rows_lost, "rows lost")])
            }
        };
        (!words.is_empty()).then(|| words.join(", "))
    }

    /// Threads in the last frames because they ran, and those that were only repeated; version 1 does not distinguish them.
    pub fn threads_sent(&self) -> (u64, u64) {
        match self {
            Self::V1 { .. } => (0, 0),
            Self::V2 { totals, .. } => (totals.changed_threads, totals.refreshed_threads),
        }
    }
}

fn warn_of_misfits(totals: &EncodeReport, now: &EncodeReport) {
    if totals.texts_cut == 0 && now.texts_cut > 0 {
        log::warn!("a name or command line is too long for a datagram: it is cut, and counted");
    }
    if totals.rows_lost == 0 && now.rows_lost > 0 {
        log::warn!("a row fits no datagram: it is left out, and counted");
    }
}

fn add_and_warn(totals: &mut SetReport, set: SetReport) {
    let first = |before: u64, now: u64| before == 0 && now > 0;
    if first(totals.idle_threads_dropped, set.idle_threads_dropped) {
        log::warn!("a process has too many threads for one v1 datagram: idle ones are left out, and counted");
    }
    if first(totals.processes_split, set.processes_split) {
        log::warn!(
            "a process has too many busy threads for one v1 datagram: it is sent as several, and counted"
        );
    }
    if first(totals.names_cut, set.names_cut) {
        log::warn!("a process name is too long for a v1 datagram: it is cut, and counted");
    }
    totals.processes += set.processes;
    totals.threads += set.threads;
    totals.idle_threads_dropped += set.idle_threads_dropped;
    totals.processes_split += set.processes_split;
    totals.names_cut += set.names_cut;
}

/// The pause after each of `count` datagrams: `wanted`, shortened so that all pauses together take at most half of the interval,
/// because a set must be sent before the next one is due.
pub fn fitting_pace(wanted: Duration, count: usize, interval: Duration) -> Duration {
    let count = u32::try_from(count.max(1)).unwrap_or(u32::MAX);
    wanted.min(interval / 2 / count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_set_is_sent_within_half_of_the_interval() {
        let (pace, interval) = (Duration::from_millis(2), Duration::from_secs(3));
        assert_eq!(fitting_pace(pace, 150, interval), pace);
        assert_eq!(fitting_pace(pace, 3000, interval), Duration::from_micros(500));
        assert_eq!(fitting_pace(pace, 0, interval), pace);
    }

    #[test]
    fn what_did_not_fit_adds_up() {
        let mut totals = SetReport::default();
        add_and_warn(&mut totals, SetReport { idle_threads_dropped: 3, ..SetReport::default() });
        add_and_warn(
            &mut totals,
            SetReport { idle_threads_dropped: 4, names_cut: 1, ..SetReport::default() },
        );
        let encoding = Encoding::V1 { encoder: Box::default(), totals };
        assert_eq!(encoding.misfits().unwrap(), "7 idle threads left out, 1 names cut");
    }
}
