//! [`Recorder`]: the local log. In: steps. Out: snapshots in a spool, each told once, and counts for people. Why an encoder of
//! its own: what lies on a disk needs no repetition, and begins anew with each segment.

use std::fmt::Write as _;
use std::time::Duration;

use cpumon_link::spool::{Spool, SpoolOptions, SpoolStatus, SyncPolicy};
use cpumon_model::HostInfo;
use cpumon_wire::Datagrams;
use cpumon_wire::spool::Origin;
use cpumon_wire::v2::{EncodeReport, Encoder, EncoderOptions};

use crate::{LogSettings, Step};

/// Longest frame in a log, bytes: headers are few then.
const MAX_FRAME_BYTES: usize = 65_000;
pub(crate) const DAY: Duration = Duration::from_hours(24);

/// Counts of a log, cumulative since the agent started.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct LogTotals {
    /// Snapshots in the log.
    pub kept: u64,
    /// Snapshots that could not be kept.
    pub lost: u64,
    /// Snapshots that went because the log was full.
    pub dropped: u64,
    /// Snapshots in memory that the disk does not have yet.
    pub waiting: u64,
    /// Bytes of the log now.
    pub bytes: u64,
    /// Bytes written to the disk.
    pub written_bytes: u64,
    /// Writes that this took.
    pub writes: u64,
    /// Texts cut and rows left out because they fit no frame.
    pub misfits: u64,
    /// The disk refuses.
    pub is_in_trouble: bool,
}

impl LogTotals {
    /// What happened since `then`, in words; bytes also as they would be in a day at this rate: flash wears out.
    pub(crate) fn line(&self, then: &Self, length: Duration) -> String {
        let written = self.written_bytes - then.written_bytes;
        let a_day = written as f64 * DAY.as_secs_f64() / length.as_secs_f64().max(1e-9);
        let mut line = format!(
            "logged {} snapshots, wrote {:.1} kB in {} writes ({:.1} MB a day); the log has {:.1} MB",
            self.kept - then.kept,
            written as f64 / 1e3,
            self.writes - then.writes,
            a_day / 1e6,
            self.bytes as f64 / 1e6,
        );
        for (count, before, what) in [
            (self.lost, then.lost, "could not be logged"),
            (self.dropped, then.dropped, "old ones dropped from the log"),
            (self.misfits, then.misfits, "did not fit into the log's frames"),
        ] {
            if count > before {
                // Writing to a String cannot fail.
                let _ = write!(line, "; {} {what}", count - before);
            }
        }
        if self.is_in_trouble {
            let _ = write!(line, "; the disk refuses, {} snapshots wait in memory", self.waiting);
        }
        line
    }
}

/// The directory, how much, when: in words.
pub(crate) fn describe_log(log: &LogSettings) -> String {
    let when = match log.sync {
        SyncPolicy::Always => "each snapshot at once".to_owned(),
        SyncPolicy::Every(every) => format!("each {every:?}"),
        SyncPolicy::AtEnd => "at the end, from memory".to_owned(),
    };
    format!("{}, at most {:.1} MB, written {when}", log.dir.display(), log.max_bytes as f64 / 1e6)
}

/// Keeps snapshots in a directory.
pub(crate) struct Recorder {
    spool: Spool,
    encoder: Encoder,
    datagrams: Datagrams,
    misfits: u64,
    /// What the last snapshot's frames held.
    report: EncodeReport,
}

impl Recorder {
    /// Opens the log; goes on behind what is there. `stream` tells agent starts apart.
    pub(crate) fn open(
        log: &LogSettings,
        info: &HostInfo,
        stream: u64,
        interval: Duration,
    ) -> anyhow::Result<Self> {
        let options =
            SpoolOptions { dir: log.dir.clone(), max_bytes: log.max_bytes, sync: log.sync, interval };
        let spool = Spool::open(&options, Origin { host: info.host, boot: info.boot })?;
        let status = spool.status();
        if status.cut_bytes > 0 {
            log::warn!(
                "the log was not closed: {} bytes of an unfinished snapshot are cut off",
                status.cut_bytes
            );
        }
        Ok(Self {
            spool,
            encoder: encoder(stream),
            datagrams: Datagrams::new(),
            misfits: 0,
            report: EncodeReport::default(),
        })
    }

    /// From here on counters count from elsewhere, as after a start of the agent.
    pub(crate) fn restart(&mut self, stream: u64) {
        self.encoder = encoder(stream);
    }

    /// Takes a step.
    pub(crate) fn record(&mut self, info: &HostInfo, step: &Step<'_>) -> LogTotals {
        if self.spool.wants_full() {
            self.encoder.begin_anew();
        }
        let is_full = self.encoder.is_next_full();
        let report = self.encoder.encode(info, step.snapshot, step.interval, &mut self.datagrams);
        self.misfits += report.texts_cut + report.rows_lost;
        self.report = report;
        // What is lost is counted there.
        let _ = self.spool.append(step.snapshot.end.wall_ns, is_full, self.datagrams.as_slice());
        totals(self.spool.status(), self.misfits)
    }

    /// Threads in the last snapshot's frames because they ran, and those that were told for another reason.
    pub(crate) fn threads_kept(&self) -> (u64, u64) {
        (self.report.changed_threads, self.report.refreshed_threads)
    }

    /// Writes what waits, and tells the last counts.
    pub(crate) fn finish(self) -> LogTotals {
        totals(&self.spool.close(), self.misfits)
    }
}

/// For a sequence of snapshots of which none gets lost: each is told once. `stream` tells agent starts apart.
pub(crate) fn encoder(stream: u64) -> Encoder {
    Encoder::new(EncoderOptions {
        max_datagram: MAX_FRAME_BYTES,
        full_snapshots: 1,
        stream,
        is_lossless: true,
        ..EncoderOptions::default()
    })
}

fn totals(status: &SpoolStatus, misfits: u64) -> LogTotals {
    LogTotals {
        kept: status.kept,
        lost: status.lost,
        dropped: status.dropped,
        waiting: status.waiting,
        bytes: status.bytes,
        written_bytes: status.written_bytes,
        writes: status.writes,
        misfits,
        is_in_trouble: status.trouble.is_some(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_names_what_went_wrong_and_nothing_else() {
        let then = LogTotals { kept: 60, written_bytes: 100_000, writes: 6, ..LogTotals::default() };
        let now = LogTotals { kept: 120, written_bytes: 220_000, writes: 12, bytes: 3_400_000, ..then };
        let minute = Duration::from_mins(1);
        assert_eq!(
            now.line(&then, minute),
            "logged 60 snapshots, wrote 120.0 kB in 6 writes (172.8 MB a day); the log has 3.4 MB"
        );
        let bad = LogTotals { lost: 2, dropped: 600, waiting: 9, is_in_trouble: true, ..now };
        assert!(
            bad.line(&then, minute).ends_with(
                "; 2 could not be logged; 600 old ones dropped from the log; the disk refuses, \
                 9 snapshots wait in memory"
            ),
            "{}",
            bad.line(&then, minute)
        );
    }
}
