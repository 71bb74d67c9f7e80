//! [`Storage`]: the trace store's thread at work. A trace is stored in this order: its part is complete and on the disk, hash and
//! content are right, it has its name, the table has its row; only then the device learns that it may delete its own. Whatever stops
//! in between is deleted at the next start, and comes again.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cpumon_link::attachments::Why;
use cpumon_model::HostId;
use cpumon_model::limits::{Bucket, Rate};
use cpumon_query::status;
use cpumon_store::{TraceIndex, TraceRecord, traces_dir};
use cpumon_trace::TraceSummary;
use cpumon_wire::connection::AttachmentState;

use super::files::{
    checked, delete, delete_parts, free_bytes, numbers, open_part, part_bytes, publish, read_trace, take_back,
};
use super::job::{BROUGHT, OFFER_KIB, OfferedTrace, TraceJob, TraceLimits, TraceSlot, bytes_of, surplus};
use crate::counts::SharedCounts;
use crate::{ReceiverError, mono_ns, wall_ns};

const MAX_TRANSFERS: usize = 8;
/// A transfer has a minute, plus the time for its bytes at this rate; then another host has its turn.
const LEAST_BYTES_PER_S: u64 = 16 << 10;
/// What a trace may be ahead of the receiver's clock: a day.
const MAX_AHEAD_NS: i64 = 24 * 3_600_000_000_000;
const TIDY_EVERY: Duration = Duration::from_mins(1);

struct Transfer {
    slot: Arc<TraceSlot>,
    offered: OfferedTrace,
    file: File,
    path: PathBuf,
    at: u64,
    end: Instant,
}

/// First and last moment of a trace. One that is far ahead of this machine's clock ended when it was received.
fn span(first_wall_ns: i64, length_ns: u64, received_wall_ns: i64) -> (i64, i64) {
    let last_wall_ns = first_wall_ns.saturating_add_unsigned(length_ns);
    if last_wall_ns > received_wall_ns.saturating_add(MAX_AHEAD_NS) {
        (received_wall_ns.saturating_sub_unsigned(length_ns), received_wall_ns)
    } else {
        (first_wall_ns, last_wall_ns)
    }
}

pub(super) enum Unstored {
    /// The trace will never be stored.
    Refused(String),
    /// It may come again: the disk or the store failed, or there is no space.
    Later(String),
}

pub(super) struct Storage {
    dir: PathBuf,
    limits: TraceLimits,
    index: TraceIndex,
    max_files: usize,
    /// The oldest first.
    stored: Vec<TraceRecord>,
    counts: Arc<SharedCounts<status::Traces>>,
    transfers: Vec<Transfer>,
    brought: HashMap<HostId, Bucket>,
    /// Limits what each host may send; tests set a lower limit.
    pub(super) rate: Rate,
    next_tidy: Instant,
    /// Asks the disk for the bytes that traces may still take; tests answer in its place.
    pub(super) free_bytes: fn(&Path) -> io::Result<u64>,
}

impl Storage {
    pub(super) fn open(
        store: &Path,
        limits: TraceLimits,
        max_files: usize,
        counts: Arc<SharedCounts<status::Traces>>,
    ) -> Result<Self, ReceiverError> {
        let dir = traces_dir(store);
        cpumon_files::create_own_dir(&dir)
            .map_err(|source| ReceiverError::Directory { path: dir.clone(), source })?;
        let mut storage = Self {
            dir,
            limits,
            index: TraceIndex::open(store)?,
            max_files,
            stored: Vec::new(),
            counts,
            transfers: Vec::new(),
            brought: HashMap::new(),
            rate: BROUGHT,
            next_tidy: Instant::now(),
            free_bytes,
        };
        storage.tidy();
        Ok(storage)
    }

    pub(super) fn work(&mut self, job: TraceJob) {
        match job {
            TraceJob::Offer(offered, slot) => {
                let host = offered.host;
                if let Err(unstored) = self.begin(offered, &slot) {
                    self.answer(&slot, host, unstored);
                }
            }
            TraceJob::Piece { slot, offset, bytes } => self.piece(&slot, offset, &bytes),
            TraceJob::Abandon(slot) => self.transfers.retain(|one| !Arc::ptr_eq(&one.slot, &slot)),
        }
    }

    fn bucket(&mut self, host: HostId) -> &mut Bucket {
        let rate = self.rate;
        self.brought.entry(host).or_insert_with(|| Bucket::new(rate))
    }

    fn answer(&self, slot: &TraceSlot, host: HostId, unstored: Unstored) {
        let (state, text) = self.counts.note(|counts| match unstored {
            Unstored::Refused(text) => {
                counts.refused += 1;
                (AttachmentState::Refused, text)
            }
            Unstored::Later(text) => {
                counts.postponed += 1;
                (AttachmentState::Later, text)
            }
        });
        log::info!("a trace of host {}: {text}", hex::encode(host.0));
        slot.set(state, 0, &text);
    }

    fn begin(&mut self, offered: OfferedTrace, slot: &Arc<TraceSlot>) -> Result<(), Unstored> {
        // Of a connection before this one.
        self.transfers.retain(|one| one.offered.host != offered.host);
        if self.find(offered.host, offered.hash).is_some() {
            slot.set(AttachmentState::Stored, offered.bytes, "");
            return Ok(());
        }
        let most = self.limits.longest();
        if offered.bytes == 0 || offered.bytes > most {
            let text = format!("it has {} bytes; at most {most} are taken here", offered.bytes);
            return Err(Unstored::Refused(text));
        }
        if self.transfers.len() >= MAX_TRANSFERS {
            return Err(Unstored::Later("too many traces are under way".to_owned()));
        }
        // Its bytes count as they come: what arrived before a connection broke is not counted again.
        if self.bucket(offered.host).take_many(OFFER_KIB, mono_ns()).is_err() {
            return Err(Unstored::Later("this host brings too much".to_owned()));
        }
        self.make_space(offered.host, offered.bytes)?;
        let opened = open_part(&self.dir, offered.host, &offered.hash).and_then(|(file, path)| {
            let length = file.metadata()?.len();
            // More than there can be: a part that a crash left.
            let at = if length > offered.bytes { 0 } else { length };
            file.set_len(at)?;
            Ok((file, path, at))
        });
        let (file, path, at) = opened.map_err(|error| self.failed("open a part", &error))?;
        if let Err(unstored) = self.check_disk(&path, offered.bytes, at) {
            // A part is of no use then: the store needs the space more.
            let _ = std::fs::remove_file(&path);
            return Err(unstored);
        }
        let time = Duration::from_secs(60 + (offered.bytes - at) / LEAST_BYTES_PER_S);
        let transfer =
            Transfer { slot: Arc::clone(slot), offered, file, path, at, end: Instant::now() + time };
        slot.set(AttachmentState::Taking, at, "");
        if at == transfer.offered.bytes {
            self.finish(transfer);
        } else {
            self.transfers.push(transfer);
        }
        Ok(())
    }

    /// Something of the disk or the store failed: it is counted.
    fn failed(&self, what: &str, error: &dyn std::error::Error) -> Unstored {
        let text = format!("cannot {what}: {}", cpumon_model::with_causes(error));
        self.counts.note_failure(&text);
        Unstored::Later(text)
    }

    /// Deletes until a trace of this length fits.
    fn make_space(&mut self, host: HostId, bytes: u64) -> Result<(), Unstored> {
        let under_way: u64 = self.transfers.iter().map(|one| one.offered.bytes).sum();
        let of_host = part_bytes(&self.dir).map_err(|error| self.failed("read the directory", &error))?;
        let mut reserved = under_way.max(of_host);
        loop {
            match surplus(&self.stored, self.limits.bytes, self.max_files, host, bytes, reserved) {
                Ok(None) => return Ok(()),
                _ if reserved > under_way => {
                    // Parts that no transfer continues go first.
                    self.delete_unused_parts(None, true);
                    reserved = under_way;
                }
                Ok(Some(id)) => self.delete(id).map_err(|error| self.failed("delete a trace", &error))?,
                Err(why) => return Err(Unstored::Later(why.to_owned())),
            }
        }
    }

    /// Whether the disk has space for the rest of a trace, whose first `at` bytes are in `part`, beside the rest of the transfers under
    /// way. It is asked before the first byte comes: a transfer that fills the disk would stop the store as well.
    fn check_disk(&self, part: &Path, bytes: u64, at: u64) -> Result<(), Unstored> {
        let read =
            || (self.free_bytes)(&self.dir).map_err(|error| self.failed("ask for the disk's space", &error));
        let others: u64 = self.transfers.iter().map(|one| one.offered.bytes - one.at).sum();
        let needed = others.saturating_add(bytes - at);
        if needed <= read()? {
            return Ok(());
        }
        self.delete_unused_parts(Some(part), true);
        if needed <= read()? {
            return Ok(());
        }
        let text =
            format!("the receiver's disk has no space for a trace of {bytes} bytes beside its reserve");
        self.counts.note_failure(&text);
        Err(Unstored::Later(text))
    }

    /// Deletes parts of traces that are not in use; `used` stays as well.
    fn delete_unused_parts(&self, used: Option<&Path>, needs_space: bool) {
        let under_way = self.transfers.iter().map(|one| one.path.as_path());
        let in_use: Vec<&Path> = under_way.chain(used).collect();
        if let Err(error) = delete_parts(&self.dir, &in_use, needs_space) {
            self.failed("delete parts of traces", &error);
        }
    }

    /// The file last: without its row the next `tidy` deletes it.
    fn delete(&mut self, id: i64) -> cpumon_store::Result<()> {
        self.index.remove(id)?;
        self.stored.retain(|one| one.id != id);
        if let Err(error) = delete(&self.dir, id) {
            self.failed("delete a trace", &error);
        }
        self.counts.note(|counts| counts.deleted += 1);
        self.count();
        Ok(())
    }

    fn count(&self) {
        self.counts.note(|counts| {
            (counts.files, counts.bytes) = (self.stored.len() as u64, bytes_of(&self.stored));
        });
    }

    fn piece(&mut self, slot: &Arc<TraceSlot>, offset: u64, bytes: &[u8]) {
        // Of a transfer that has ended, for example because the disk was full.
        let Some(at) = self.transfers.iter().position(|one| Arc::ptr_eq(&one.slot, slot)) else { return };
        let mut transfer = self.transfers.swap_remove(at);
        let left = transfer.offered.bytes - transfer.at;
        if offset != transfer.at || bytes.len() as u64 > left {
            let text = "a part of it is at another place".to_owned();
            return self.answer(slot, transfer.offered.host, Unstored::Later(text));
        }
        if let Err(error) = transfer.file.write_all_at(bytes, offset) {
            let unstored = self.failed("write a trace", &error);
            // On a full disk a part is of no use: the store needs the space more.
            if cpumon_files::is_no_space(&error) {
                let _ = std::fs::remove_file(&transfer.path);
            }
            return self.answer(slot, transfer.offered.host, unstored);
        }
        transfer.at += bytes.len() as u64;
        let kib = (bytes.len() as u64).div_ceil(1 << 10);
        self.bucket(transfer.offered.host).spend(kib, mono_ns());
        if transfer.at == transfer.offered.bytes {
            self.finish(transfer);
        } else {
            slot.set(AttachmentState::Taking, transfer.at, "");
            self.transfers.push(transfer);
        }
    }

    fn finish(&mut self, transfer: Transfer) {
        let Transfer { slot, offered, mut file, path, .. } = transfer;
        let checked = file.sync_all().map_err(|error| self.failed("write a trace", &error));
        let checked = checked.and_then(|()| self.check(&mut file, &offered));
        let stored = checked.and_then(|summary| self.store(&offered, &summary, &path));
        match stored {
            Ok(_) => {
                self.counts.note_stored();
                slot.set(AttachmentState::Stored, offered.bytes, "");
            }
            Err(unstored) => {
                // Whole but unusable, or to be sent again from its begin.
                let _ = std::fs::remove_file(&path);
                self.answer(&slot, offered.host, unstored);
            }
        }
    }

    fn check(&self, file: &mut File, offered: &OfferedTrace) -> Result<TraceSummary, Unstored> {
        let (hash, summary) = read_trace(file).map_err(|error| self.failed("read a trace", &error))?;
        if hash != offered.hash {
            return Err(Unstored::Later("it arrived with another hash than announced".to_owned()));
        }
        checked(summary, self.known_cpus(offered.host)?).map_err(Unstored::Refused)
    }

    fn known_cpus(&self, host: HostId) -> Result<u32, Unstored> {
        self.index.max_cpu_count(host).map_err(|error| self.failed("check a trace", &error))
    }

    /// Stores a trace that a recorder of this machine wrote. The file moves into the trace store; gives its number.
    pub(super) fn take_in_own(&mut self, host: HostId, path: &Path, why: Why) -> Result<i64, Unstored> {
        let opened = File::open(path).and_then(|file| Ok((file.metadata()?.len(), file)));
        let (bytes, mut file) = opened.map_err(|error| self.failed("open a trace", &error))?;
        let most = self.limits.longest();
        if bytes > most {
            return Err(Unstored::Refused(format!("it has {bytes} bytes; at most {most} are taken here")));
        }
        let (hash, summary) = read_trace(&mut file).map_err(|error| self.failed("read a trace", &error))?;
        if let Some(known) = self.find(host, hash) {
            return Ok(known.id);
        }
        let summary = checked(summary, self.known_cpus(host)?).map_err(Unstored::Refused)?;
        self.make_space(host, bytes)?;
        let Why { wall_ns, reason } = why;
        let offered = OfferedTrace { host, hash, bytes, wall_ns, shift_ns: 0, reason };
        let id = self.store(&offered, &summary, path)?;
        self.counts.note_stored();
        Ok(id)
    }

    fn store(
        &mut self,
        offered: &OfferedTrace,
        summary: &TraceSummary,
        part: &Path,
    ) -> Result<i64, Unstored> {
        let began = summary.header.began;
        let known_ns = self.index.known_wall_ns().map_err(|error| self.failed("read the time", &error))?;
        // Received while the clock is behind, it would be too old once the clock is right.
        let received_wall_ns = wall_ns().max(known_ns.unwrap_or(0));
        let length_ns = summary.ended_ns.saturating_sub(began.mono_ns);
        let first_wall_ns = began.wall_ns.saturating_sub(offered.shift_ns);
        let (first_wall_ns, last_wall_ns) = span(first_wall_ns, length_ns, received_wall_ns);
        let id = self.index.next_id().map_err(|error| self.failed("number a trace", &error))?;
        let record = TraceRecord {
            id,
            host: offered.host,
            hash: offered.hash,
            wall_ns: offered.wall_ns.clamp(first_wall_ns, last_wall_ns),
            first_wall_ns,
            last_wall_ns,
            received_wall_ns,
            reason: offered.reason.clone(),
            bytes: summary.bytes,
            events: summary.events,
            lost: summary.lost,
        };
        publish(&self.dir, part, id).map_err(|error| self.failed("name a trace", &error))?;
        let added = match self.index.add(&record) {
            Ok(true) => Ok(()),
            Ok(false) => Err(Unstored::Later("nothing else of this host is stored yet".to_owned())),
            Err(error) => Err(self.failed("store a trace", &error)),
        };
        if let Err(unstored) = added {
            // Without a row the next `tidy` would delete it.
            take_back(&self.dir, part, id);
            return Err(unstored);
        }
        log::info!(
            "trace {id} of host {}: {}",
            hex::encode(record.host.0),
            cpumon_model::escape(&record.reason)
        );
        self.stored.push(record);
        self.count();
        Ok(id)
    }

    fn find(&self, host: HostId, hash: [u8; 32]) -> Option<&TraceRecord> {
        self.stored.iter().find(|one| (one.host, one.hash) == (host, hash))
    }

    /// Once a minute: deletes old traces and parts, rows without a file and files without a row; ends transfers that take too long.
    pub(super) fn tidy(&mut self) {
        if Instant::now() < self.next_tidy {
            return;
        }
        self.next_tidy = Instant::now() + TIDY_EVERY;
        let is_late = |one: &mut Transfer| Instant::now() >= one.end;
        let late: Vec<Transfer> = self.transfers.extract_if(.., is_late).collect();
        for one in late {
            self.answer(&one.slot, one.offered.host, Unstored::Later("it takes too long".to_owned()));
        }
        self.delete_unused_parts(None, false);
        if let Err(error) = self.compare() {
            self.failed("list traces", &error);
        }
    }

    /// Makes the table and the directory agree.
    fn compare(&mut self) -> cpumon_store::Result<()> {
        let rows = self.index.all()?;
        let files = match numbers(&self.dir) {
            Ok(files) => files,
            Err(error) => {
                self.failed("read the directory", &error);
                return Ok(());
            }
        };
        for id in files.iter().filter(|id| !rows.iter().any(|row| row.id == **id)) {
            if let Err(error) = delete(&self.dir, *id) {
                self.failed("delete a trace", &error);
            }
        }
        self.stored.clear();
        // Not by the clock alone: a wrong clock would delete all traces.
        let age_ns = self.limits.age.map(|age| u64::try_from(age.as_nanos()).unwrap_or(u64::MAX));
        let oldest = age_ns
            .zip(self.index.known_wall_ns()?)
            .map(|(age_ns, now_ns)| now_ns.saturating_sub_unsigned(age_ns));
        for row in rows {
            if !files.contains(&row.id) || oldest.is_some_and(|oldest| row.received_wall_ns < oldest) {
                self.delete(row.id)?;
            } else {
                self.stored.push(row);
            }
        }
        self.count();
        Ok(())
    }
}
