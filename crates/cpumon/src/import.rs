//! `cpumon import`: a recording (`cpumon-agent --record`) or a database of the original receiver into a store. Importing a recording twice
//! changes nothing: an interval is identified by host, boot, end and sequence, and gaps are noted only behind the position that was read
//! before.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::Path;

use anyhow::{Context, Result};
use cpumon_legacy::{ImportError, ImportOptions};
use cpumon_link::spool::SpoolReader;
use cpumon_model::{HostId, HostStatus, Interval, Trust, escape};
use cpumon_store::{BootSpan, Gap, Put, Reader, SourcePosition, StoreOptions, Writer};
use cpumon_wire::spool::{self, SegmentHeader};

use crate::cli::ImportArgs;
use crate::exit::{Outcome, Usage, say};
use crate::paths::store_for_writing;
use crate::recording::{self, RecordingEvent, RecordingSummary};
use crate::when;

/// Snapshots between two commits.
const COMMIT_EVERY: u64 = 256;
/// A clock that is set after a boot may go back by this much, ns.
const CLOCK_STEP_NS: i64 = 60_000_000_000;

pub fn import(args: &ImportArgs) -> Result<Outcome> {
    let path = store_for_writing(args.store.as_deref());
    if args.file.is_dir() {
        if args.host.is_some() || args.time_zone.is_some() {
            let text = "--host and --time-zone are for databases of the original receiver; a recording contains both";
            return Err(Usage(text.to_owned()).into());
        }
        return import_recording(&args.file, &path);
    }
    let zone = args.time_zone.as_deref().map(str::parse).transpose();
    let zone = zone.map_err(|error: ImportError| Usage(error.to_string()))?.unwrap_or_default();
    let options = ImportOptions { host: args.host.clone(), zone };
    if args.file == Path::new("-") && !args.file.exists() {
        return Err(Usage("standard input is not read; name a file".to_owned()).into());
    }
    // Before the store is opened, so that what is refused creates none.
    cpumon_legacy::check(&args.file, &options)?;
    let mut writer = open_writer(&path)?;
    let report = cpumon_legacy::import(&mut writer, &args.file, &options)?;
    print(&report.lines(), &path)?;
    if report.sets == 0 {
        say(&format!("no interval in {}: it has no row that can be imported", args.file.display()));
    }
    Ok(if report.is_complete() && report.sets > 0 { Outcome::Done } else { Outcome::DataMissing })
}

/// Opens a store without limits: imported data is old, and must not be deleted because of its age.
fn open_writer(path: &Path) -> Result<Writer> {
    let dir = cpumon_files::directory_of(path);
    cpumon_files::create_dir(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    let options =
        StoreOptions { max_age: None, minute_max_age: None, max_bytes: None, ..StoreOptions::default() };
    Writer::open(path, &options).context("cannot open the store")
}

/// Reports the rows imported into the store at `path`.
fn print(lines: &[String], path: &Path) -> Result<()> {
    let mut out = io::stdout().lock();
    let stored_in = format!("stored in {}", path.display());
    let mut all = lines.iter().chain([&stored_in]);
    all.try_for_each(|line| writeln!(out, "{line}")).context("cannot write the report")
}

fn import_recording(dir: &Path, store: &Path) -> Result<Outcome> {
    let reader = SpoolReader::open(dir)?;
    let mut writer = open_writer(store)?;
    let mut import = Import::new(&mut writer);
    let reading = recording::read(&reader, 0..reader.segment_count(), &mut |event| import.add(event))?;
    import.finish()?;
    print(&import.lines(&reading), import.writer.path())?;
    for twins in import.twins()? {
        say(&format!("warning: {twins}"));
    }
    Ok(reading.judge(dir, import.stored + import.known, Outcome::Done))
}

struct Import<'a> {
    writer: &'a mut Writer,
    /// Name of the recording in the store.
    source: String,
    host: HostId,
    /// Position up to which an earlier import read.
    before: SourcePosition,
    place: SourcePosition,
    uncommitted: u64,
    stored: u64,
    known: u64,
    hosts: BTreeSet<(HostId, Box<str>)>,
    range: Option<(i64, i64)>,
    gaps: Vec<spool::Gap>,
}

impl<'a> Import<'a> {
    fn new(writer: &'a mut Writer) -> Self {
        Self {
            writer,
            source: String::new(),
            host: HostId::default(),
            before: SourcePosition::default(),
            place: SourcePosition::default(),
            uncommitted: 0,
            stored: 0,
            known: 0,
            hosts: BTreeSet::new(),
            range: None,
            gaps: Vec::new(),
        }
    }

    fn add(&mut self, event: RecordingEvent<'_>) -> Result<()> {
        match event {
            RecordingEvent::Segment(header) => self.begin_segment(header),
            RecordingEvent::Interval(status, interval) => self.put(status, interval),
            RecordingEvent::Gap(gap) => self.put_gap(gap),
            RecordingEvent::Snapshot { number, wall_ns } => {
                self.place = SourcePosition { number, wall_ns };
                self.uncommitted += 1;
                if self.uncommitted >= COMMIT_EVERY { self.commit() } else { Ok(()) }
            }
        }
    }

    fn begin_segment(&mut self, header: &SegmentHeader) -> Result<()> {
        let mut source = String::new();
        for byte in header.spool {
            // Writing to a String cannot fail.
            let _ = write!(source, "{byte:02x}");
        }
        if source == self.source {
            return Ok(());
        }
        // Before the source changes: the position is stored under the name of the current one.
        self.commit()?;
        self.before = self.writer.source_position(&source)?;
        (self.source, self.host, self.place) = (source, header.origin.host, SourcePosition::default());
        Ok(())
    }

    fn put(&mut self, status: &HostStatus, interval: &Interval) -> Result<()> {
        match self.writer.put(&status.info, Trust::Imported, None, interval)? {
            Put::Stored => self.stored += 1,
            Put::Duplicate => self.known += 1,
        }
        self.hosts.insert((interval.host, status.info.hostname.clone()));
        let end = interval.end.wall_ns;
        let (first, last) = self.range.unwrap_or((end, end));
        self.range = Some((first.min(end), last.max(end)));
        Ok(())
    }

    /// Notes the part of a gap behind the position of an earlier import.
    fn put_gap(&mut self, gap: spool::Gap) -> Result<()> {
        self.gaps.push(gap);
        // An earlier import noted this gap already.
        if gap.last <= self.before.number {
            return Ok(());
        }
        let is_partly_known = gap.first <= self.before.number;
        let first = if is_partly_known { self.before.number + 1 } else { gap.first };
        let gap = spool::Gap { first, ..gap };
        let row = Gap {
            begin_wall_ns: if is_partly_known { self.before.wall_ns } else { gap.begin_wall_ns },
            end_wall_ns: gap.end_wall_ns,
            intervals: gap.count(),
            reason: gap.reason.words().to_owned(),
            ..Gap::default()
        };
        self.writer.put_gap(self.host, &row)?;
        self.place = SourcePosition { number: gap.last, wall_ns: gap.end_wall_ns };
        Ok(())
    }

    fn commit(&mut self) -> Result<()> {
        // A recording that was imported before must not move the position back.
        if self.place.number > self.before.number {
            self.writer.put_source_position(&self.source, self.place)?;
        }
        self.writer.commit()?;
        self.uncommitted = 0;
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        self.commit()?;
        for (host, _) in &self.hosts {
            // An imported past does not grow, so it can be compacted at once, to half of its size.
            self.writer.compact_host(*host)?;
        }
        Ok(())
    }

    /// Hosts with two boots that measured at the same time: machines that were cloned with their id.
    fn twins(&self) -> Result<Vec<String>> {
        let reader = Reader::open(self.writer.path())?;
        let ids: BTreeSet<HostId> = self.hosts.iter().map(|(host, _)| *host).collect();
        let boots =
            ids.into_iter().map(|host| Ok((host, reader.boots(host)?))).collect::<Result<Vec<_>>>()?;
        Ok(boots.iter().filter_map(|(host, boots)| describe_twins(*host, boots)).collect())
    }

    fn lines(&self, reading: &RecordingSummary) -> Vec<String> {
        let report = reading.report;
        let names: Vec<String> = self.hosts.iter().map(|(_, name)| escape(name).to_string()).collect();
        let of = if names.is_empty() { String::new() } else { format!(" of {}", names.join(", ")) };
        let mut lines = vec![format!(
            "{} snapshots{of} in {} segments: {} intervals stored, {} already in the store",
            report.snapshots, report.segments, self.stored, self.known
        )];
        if let Some((first, last)) = self.range {
            lines.push(format!("from {} to {}", when::show(first), when::show(last)));
        }
        lines.extend(reading.missing_lines(&self.gaps));
        lines
    }
}

/// Describes boots that overlap; `None` if they follow one another.
fn describe_twins(host: HostId, boots: &[BootSpan]) -> Option<String> {
    let mut before: &BootSpan = boots.first()?;
    for boot in &boots[1..] {
        // Clocks are set soon after a boot, so those of one machine may overlap a little.
        let overlap_ns = if boot.hostname == before.hostname { CLOCK_STEP_NS } else { 0 };
        if before.last_wall_ns.saturating_sub(boot.first_wall_ns) > overlap_ns {
            let until_ns = before.last_wall_ns.min(boot.last_wall_ns);
            return Some(format!(
                "two machines have the host id {host}, {} and {}: both measured from {} to {}, and their data is mixed in the store; \
                 give each its own /etc/machine-id (machines cloned from one image share it), unless a clock was wrong",
                escape(&before.hostname),
                escape(&boot.hostname),
                when::show(boot.first_wall_ns),
                when::show(until_ns),
            ));
        }
        if boot.last_wall_ns > before.last_wall_ns {
            before = boot;
        }
    }
    None
}
