//! Groups the rows of a legacy file into one interval for each device and time, in that order: the original stored loose rows.

use std::path::Path;

use cpumon_model::{HostId, HostInfo, Interval, escape};

use super::error::ImportError;
use super::file::{LegacyFile, Schema};
use super::order::SetOrder;
use super::report::{ImportReport, ImportedHost, OddRows};
use super::rows::{ProcessRow, ThreadCursor, odd_or};
use super::set::Set;
use super::zone::{Resolved, Zone};

/// Most rows of one set, which is in memory, at up to 1 KB a row. The original's datagrams hold at most 1,818 threads each.
const MAX_SET_ROWS: usize = 1 << 16;
/// Devices in one file at most.
const MAX_HOSTS: usize = 1 << 16;
/// Name of the device when neither the user nor the file nor its name gives one.
const NAMELESS_HOST: &str = "device";
/// The original receiver gave all of its files this name, so it names no device.
const ORIGINAL_STEM: &str = "ProcessUsage";

/// What the user knows about the file.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// Name for the device; in 2013 it replaces the address if there is only one. The 2012 schema names none: without this it
    /// is the file's name without its ending, or `device` if the file has the name the original gave it.
    pub host: Option<String>,
    /// The zone of the file's local times.
    pub zone: Zone,
}

/// Called for each interval; an error ends the import.
pub type SetSink<'a> =
    dyn FnMut(&HostInfo, &Interval, &SetOrder) -> Result<(), Box<dyn std::error::Error + Send + Sync>> + 'a;

pub(super) struct Sets<'a> {
    file: &'a LegacyFile,
    zone: Resolved,
    given_host: Option<&'a str>,
    /// For a file that names no device.
    guessed_host: String,
    report: ImportReport,
    host: HostInfo,
}

impl<'a> Sets<'a> {
    pub fn new(
        file: &'a LegacyFile,
        options: &'a ImportOptions,
        zone: Resolved,
    ) -> Result<Self, ImportError> {
        let report = ImportReport {
            schema: file.schema,
            hosts: Vec::new(),
            zone: zone.shown.clone(),
            process_rows_read: 0,
            thread_rows_read: 0,
            process_rows: 0,
            thread_rows: 0,
            sets: 0,
            sets_known: 0,
            span: None,
            odd: OddRows::default(),
            guesses: Vec::new(),
        };
        let given_host = options.host.as_deref();
        let guessed_host = guess_host(&file.path);
        let mut sets = Self { file, zone, given_host, guessed_host, report, host: HostInfo::default() };
        sets.check_host_count()?;
        sets.report_guesses();
        Ok(sets)
    }

    fn check_host_count(&self) -> Result<(), ImportError> {
        if self.file.schema == Schema::Y2012 {
            return Ok(());
        }
        let count = self.count("Processes", "SELECT count(DISTINCT [RemoteIP]) FROM [Processes]")?;
        match self.given_host {
            // One name for several devices would make one host of them.
            Some(_) if count > 1 => Err(ImportError::HostForMany { path: self.file.path.clone(), count }),
            _ if count > MAX_HOSTS as u64 => Err(self.too_many("devices", MAX_HOSTS)),
            _ => Ok(()),
        }
    }

    fn too_many(&self, what: &'static str, limit: usize) -> ImportError {
        ImportError::TooMany { path: self.file.path.clone(), what, limit }
    }

    fn report_guesses(&mut self) {
        if self.file.schema == Schema::Y2012 && self.given_host.is_none() {
            let after = if self.guessed_host == NAMELESS_HOST { "" } else { " after the file" };
            self.report.guesses.push(format!(
                "the host is named '{}'{after}, because the 2012 schema names none (use --host NAME)",
                escape(&self.guessed_host)
            ));
        }
        if self.zone.is_guess {
            let guess = "times are taken as UTC, because the file names no zone (use --time-zone ZONE)";
            self.report.guesses.push(guess.to_owned());
        }
    }

    fn count(&self, table: &'static str, sql: &str) -> Result<u64, ImportError> {
        let count: i64 =
            self.file.connection.query_row(sql, [], |row| row.get(0)).map_err(self.file.read_error(table))?;
        Ok(count.try_into().unwrap_or(0))
    }

    /// Reads all rows and hands out a set when the next one begins: both tables come in the order of sets.
    pub fn run(mut self, sink: &mut SetSink<'_>) -> Result<ImportReport, ImportError> {
        let file = self.file;
        self.report.thread_rows_read = self.count("Threads", "SELECT count(*) FROM [Threads]")?;
        let read = file.read_error("Processes");
        let mut statement = file.connection.prepare(&ProcessRow::query(file.schema)).map_err(&read)?;
        let mut rows = statement.query([]).map_err(&read)?;
        let mut thread_statement =
            file.connection.prepare(&ThreadCursor::query(file.schema)).map_err(file.read_error("Threads"))?;
        let mut threads = ThreadCursor::new(file, &mut thread_statement)?;
        // A set ends where a row of another device or time comes, so one set is in memory at a time.
        let mut set: Option<Set> = None;
        while let Some(row) = rows.next().map_err(&read)? {
            self.report.process_rows_read += 1;
            let idx: i64 = row.get(1).map_err(&read)?;
            let instant = ProcessRow::parse(row, &mut self.report.odd).and_then(|row| {
                odd_or(self.zone.instant(row.ticks), &mut self.report.odd.bad_time).map(|at| (row, at))
            });
            // The two tables are read in step, so the threads of a row that is left out must be passed over.
            let Some((row, at)) = instant else {
                threads.for_each_of(idx, &mut |_, odd| odd.threads_of_left_out += 1, &mut self.report.odd)?;
                continue;
            };
            self.report.odd.ambiguous_time += u64::from(at.is_ambiguous);
            if set.as_ref().is_some_and(|set| !set.takes(&row)) {
                self.hand_out(set.take(), sink)?;
            }
            let set = set.get_or_insert_with(|| Set::new(&row, at.wall_ns));
            let process = set.add_process(&row, &mut self.report.odd);
            threads.for_each_of(
                idx,
                &mut |thread, odd| set.add_thread(process, thread, odd),
                &mut self.report.odd,
            )?;
            // A file that gives all rows one time would otherwise be read into memory whole.
            if set.len() > MAX_SET_ROWS {
                return Err(self.too_many("rows of one time stamp", MAX_SET_ROWS));
            }
        }
        self.hand_out(set, sink)?;
        // The join leaves out threads without a process row: the rest of the count is they.
        self.report.odd.orphan_threads = self.report.thread_rows_read.saturating_sub(threads.seen);
        Ok(self.report)
    }

    fn hand_out(&mut self, set: Option<Set>, sink: &mut SetSink<'_>) -> Result<(), ImportError> {
        let Some(set) = set else { return Ok(()) };
        self.enter_host(&set.ip);
        let (mut interval, order) = set.finish();
        interval.host = self.host.host;
        self.report.sets += 1;
        self.report.process_rows += interval.processes.len() as u64;
        self.report.thread_rows += interval.threads.len() as u64;
        let (begin, end) = (interval.begin.wall_ns, interval.end.wall_ns);
        self.report.span =
            Some(self.report.span.map_or((begin, end), |(first, last)| (first.min(begin), last.max(end))));
        if let Some(host) = self.report.hosts.last_mut() {
            host.sets += 1;
        }
        sink(&self.host, &interval, &order).map_err(ImportError::Sink)
    }

    /// Rows come device by device, so a new address is a new device.
    fn enter_host(&mut self, ip: &str) {
        let name = match self.given_host {
            Some(name) => name,
            None if ip.is_empty() => &self.guessed_host,
            None => ip,
        };
        if !self.report.hosts.is_empty() && *self.host.hostname == *name {
            return;
        }
        let id = host_id(name);
        self.host = HostInfo {
            host: id,
            hostname: name.into(),
            agent: format!("cpumon2 (receiver of {})", self.file.schema.year()).into(),
            source_reason: format!(
                "imported from a legacy database, local times read as {}",
                self.zone.shown
            )
            .into(),
            ..HostInfo::default()
        };
        self.report.hosts.push(ImportedHost { name: name.to_owned(), id, sets: 0 });
    }
}

/// A name for the device of a file that names none: the file's own, without its ending.
fn guess_host(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let is_usable = !stem.is_empty() && !stem.eq_ignore_ascii_case(ORIGINAL_STEM);
    if is_usable { stem.into_owned() } else { NAMELESS_HOST.to_owned() }
}

/// A device's id derived from its name (FNV-1a, 128 bits): the same name is the same host at each import.
fn host_id(name: &str) -> HostId {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let bytes = b"cpumon legacy import\0".iter().chain(name.as_bytes());
    HostId(bytes.fold(OFFSET, |hash, byte| (hash ^ u128::from(*byte)).wrapping_mul(PRIME)).to_be_bytes())
}
