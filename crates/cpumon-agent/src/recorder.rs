//! [`Recorder`]: the recording on this machine. It encodes each step into segments of a directory, from which `cpumon import` reads
//! them. It has an encoder of its own, because a recording loses nothing: no repetition is needed, and each segment starts in full.

use std::fmt::Write as _;
use std::time::Duration;

use cpumon_link::spool::{Spool, SpoolError, SpoolOptions, SpoolStatus, SyncPolicy};
use cpumon_model::HostInfo;
use cpumon_wire::Datagrams;
use cpumon_wire::spool::Origin;
use cpumon_wire::v2::{Encoder, EncoderOptions};

use crate::sampler::SamplerStep;

/// Longest frame in a recording, bytes. Long frames need few headers.
const MAX_FRAME_BYTES: usize = 65_000;
pub(crate) const DAY: Duration = Duration::from_hours(24);

/// Counts of a recording, cumulative since the agent started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordingTotals {
    /// Snapshots in the recording, in memory and lost, and bytes written.
    pub spool: SpoolStatus,
    /// Texts cut and rows left out because they fit no frame.
    pub misfits: u64,
}

impl RecordingTotals {
    /// The changes since `then` as text. Written bytes are also given per day, because flash memory wears out.
    pub(crate) fn line(&self, then: &Self, length: Duration) -> String {
        let (now, before) = (&self.spool, &then.spool);
        let written = now.written_bytes - before.written_bytes;
        let a_day = written as f64 * DAY.as_secs_f64() / length.as_secs_f64().max(1e-9);
        let mut line = format!(
            "recorded {} snapshots, wrote {:.1} kB in {} writes ({:.1} MB a day); the recording has {:.1} MB",
            now.stored - before.stored,
            written as f64 / 1e3,
            now.writes - before.writes,
            a_day / 1e6,
            now.bytes as f64 / 1e6,
        );
        for (count, before, what) in [
            (now.lost, before.lost, "could not be recorded"),
            (now.dropped, before.dropped, "old ones deleted from the recording"),
            (self.misfits, then.misfits, "did not fit into the recording's frames"),
        ] {
            if count > before {
                // Writing to a String cannot fail.
                let _ = write!(line, "; {} {what}", count - before);
            }
        }
        if now.trouble.is_some() {
            let _ = write!(line, "; writing fails, {} snapshots wait in memory", now.waiting);
        }
        line
    }
}

/// Directory, largest size and write policy, for the start line.
pub(crate) fn describe_directory(settings: &SpoolOptions) -> String {
    let when = match settings.sync {
        SyncPolicy::Always => "after each snapshot".to_owned(),
        SyncPolicy::Every(every) => format!("every {every:?}"),
        SyncPolicy::AtEnd => "at the end".to_owned(),
    };
    format!("{}, at most {:.1} MB, written {when}", settings.dir.display(), settings.max_bytes as f64 / 1e6)
}

/// Encodes steps as a lossless sequence of snapshots, in which each change is sent once: a recording, or what waits for a connection.
pub(crate) struct LosslessEncoding {
    encoder: Encoder,
    /// The frames of the last step.
    pub datagrams: Datagrams,
    /// Texts cut and rows left out because they fit no frame.
    pub misfits: u64,
    /// Threads in the last snapshot's frames because they ran, and threads in them for another reason.
    pub threads: (u64, u64),
}

impl LosslessEncoding {
    /// `agent_start` identifies this start of the agent.
    pub(crate) fn new(agent_start: u64) -> Self {
        let (datagrams, misfits, threads) = (Datagrams::new(), 0, (0, 0));
        Self { encoder: encoder(agent_start), datagrams, misfits, threads }
    }

    /// Starts again: after a change of source, counters restart from another base.
    pub(crate) fn restart(&mut self, agent_start: u64) {
        self.encoder = encoder(agent_start);
    }

    /// Encodes a step. Returns whether it has every task, as with `wants_full`.
    pub(crate) fn encode(&mut self, info: &HostInfo, step: &SamplerStep<'_>, wants_full: bool) -> bool {
        if wants_full {
            self.encoder.begin_again();
        }
        let is_full = self.encoder.is_next_full();
        let report = self.encoder.encode(info, step.snapshot, step.interval, &mut self.datagrams);
        self.misfits += report.texts_cut + report.rows_lost;
        self.threads = (report.changed_threads, report.refreshed_threads);
        is_full
    }
}

fn encoder(agent_start: u64) -> Encoder {
    Encoder::new(EncoderOptions {
        max_datagram: MAX_FRAME_BYTES,
        // The default repeats the full snapshot, because a datagram may be lost. Here nothing is lost.
        full_snapshots: 1,
        agent_start,
        is_lossless: true,
        ..EncoderOptions::default()
    })
}

pub(crate) struct Recorder {
    spool: Spool,
    pub encoding: LosslessEncoding,
}

impl Recorder {
    /// Opens the directory and appends to an existing recording. `agent_start` identifies this start of the agent.
    pub(crate) fn open(
        options: &SpoolOptions,
        info: &HostInfo,
        agent_start: u64,
    ) -> Result<Self, SpoolError> {
        let spool = Spool::open(options, Origin { host: info.host, boot: info.boot })?;
        let status = spool.status();
        if status.cut_bytes > 0 {
            log::warn!(
                "the recording was not closed: {} bytes of an unfinished snapshot are cut off",
                status.cut_bytes
            );
        }
        Ok(Self { spool, encoding: LosslessEncoding::new(agent_start) })
    }

    pub(crate) fn record(&mut self, info: &HostInfo, step: &SamplerStep<'_>) -> RecordingTotals {
        // A segment must be readable alone: the ones before it may be deleted when the recording is full.
        let is_full = self.encoding.encode(info, step, self.spool.wants_full());
        // The spool counts the snapshots that it could not append.
        let _ = self.spool.append(step.snapshot.end.wall_ns, is_full, self.encoding.datagrams.as_slice());
        RecordingTotals { spool: self.spool.status().clone(), misfits: self.encoding.misfits }
    }

    /// Writes the snapshots that still wait, and returns the final counts.
    pub(crate) fn finish(self) -> RecordingTotals {
        RecordingTotals { spool: self.spool.close(), misfits: self.encoding.misfits }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_lists_only_problems_that_occurred() {
        let totals = |spool| RecordingTotals { spool, misfits: 0 };
        let then =
            totals(SpoolStatus { stored: 60, written_bytes: 100_000, writes: 6, ..SpoolStatus::default() });
        let written = SpoolStatus {
            stored: 120,
            written_bytes: 220_000,
            writes: 12,
            bytes: 3_400_000,
            ..SpoolStatus::default()
        };
        let now = totals(written.clone());
        let minute = Duration::from_mins(1);
        assert_eq!(
            now.line(&then, minute),
            "recorded 60 snapshots, wrote 120.0 kB in 6 writes (172.8 MB a day); the recording has 3.4 MB"
        );
        let trouble = Some("no space".into());
        let bad = totals(SpoolStatus { lost: 2, dropped: 600, waiting: 9, trouble, ..written });
        assert!(
            bad.line(&then, minute).ends_with(
                "; 2 could not be recorded; 600 old ones deleted from the recording; writing fails, \
                 9 snapshots wait in memory"
            ),
            "{}",
            bad.line(&then, minute)
        );
    }
}
