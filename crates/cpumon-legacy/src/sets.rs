//! Groups the rows of a legacy file into sets, one for each device and time, because the original stored loose rows. Each set becomes an
//! interval with sorted rows; [`LegacyOrder`] keeps the order in which they came.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::Path;
use std::sync::Arc;

use cpumon_model::{
    Delta, Fields, Flags, HostId, HostInfo, Interval, Ledger, Moment, ProcessInfo, ProcessInterval,
    ProcessKey, SourceKind, ThreadInterval, ThreadKey, escape,
};
use cpumon_store::{LegacyOrder, StoreError};

use crate::file::{LegacyFile, LegacyProcess, LegacyThread, ThreadCursor, odd_or};
use crate::report::{ImportError, ImportReport, ImportedHost, OddRows, Schema};
use crate::zone::{Resolved, Zone};

/// Most rows of one set, which is in memory, at up to 1 KB a row. The original's datagrams hold at most 1,818 threads each.
const MAX_SET_ROWS: usize = 1 << 16;
/// Most bytes of names of one set. A name can have 32 KB, and is in memory twice.
const MAX_SET_NAME_BYTES: usize = 32 << 20;
const MAX_HOSTS: usize = 1 << 16;
/// Name of the device when neither the user nor the file nor its name gives one.
const NAMELESS_HOST: &str = "device";
/// The original receiver gave all of its files this name, so it names no device.
const ORIGINAL_STEM: &str = "ProcessUsage";

/// What the file does not say.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// Name for the device; in 2013 it replaces the address if there is only one. The 2012 schema names none: without this it
    /// is the file's name without its ending, or `device` if the file has the name the original gave it.
    pub host: Option<String>,
    /// The zone of the file's local times.
    pub zone: Zone,
}

/// Called for each interval; an error ends the import.
pub(crate) type SetSink<'a> = dyn FnMut(&HostInfo, &Interval, &LegacyOrder) -> Result<(), StoreError> + 'a;

pub(crate) struct Sets<'a> {
    file: &'a LegacyFile,
    zone: Resolved,
    given_host: Option<&'a str>,
    /// Host name for a file that names no device.
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
        let report =
            ImportReport { schema: file.schema, zone: zone.shown.clone(), ..ImportReport::default() };
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
            // One name for several devices would merge them into one host.
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
        // Not count(*), which is one step of SQLite's machine: nothing would end it.
        self.report.thread_rows_read = self.count("Threads", "SELECT count(1) FROM [Threads]")?;
        let read = file.read_error("Processes");
        let mut statement = file.connection.prepare(&LegacyProcess::query(file.schema)).map_err(&read)?;
        let mut rows = statement.query([]).map_err(&read)?;
        let mut thread_statement =
            file.connection.prepare(&ThreadCursor::query(file.schema)).map_err(file.read_error("Threads"))?;
        let mut threads = ThreadCursor::new(file, &mut thread_statement)?;
        // A set ends where a row of another device or time comes, so one set is in memory at a time.
        let mut set: Option<Set> = None;
        while let Some(row) = rows.next().map_err(&read)? {
            self.report.process_rows_read += 1;
            let idx: i64 = row.get(1).map_err(&read)?;
            let instant = LegacyProcess::parse(row, &mut self.report.odd).and_then(|row| {
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
            // A file that gives all rows one time would otherwise be read into memory whole. Rows that repeat a name are not held.
            if set.is_full() {
                return Err(self.too_many("rows of one time stamp", MAX_SET_ROWS));
            }
            if set.name_bytes > MAX_SET_NAME_BYTES {
                return Err(self.too_many("bytes of names of one time stamp", MAX_SET_NAME_BYTES));
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

const NS_PER_MS: i64 = 1_000_000;

pub(crate) struct Set {
    pub ip: String,
    ticks: i64,
    wall_ns: i64,
    duration_ms: u32,
    first_idx: i64,
    /// Process rows with their `Processes.idx`, in order of arrival.
    processes: Vec<(ProcessInterval, i64)>,
    /// Index in `processes` by id and name. With a list of names for each id, each row would be compared with all names of its id.
    by_name: HashMap<u32, HashMap<Box<str>, usize>>,
    name_bytes: usize,
    threads: Vec<ThreadInterval>,
    by_tid: HashMap<u32, usize>,
}

/// Times of one row; the flag is set if they cannot be.
fn delta(user_ms: i64, kernel_ms: i64) -> (Delta, Flags) {
    let user_ns = user_ms.saturating_mul(NS_PER_MS);
    let system_ns = kernel_ms.saturating_mul(NS_PER_MS);
    // A time that does not divide back was cut off by the multiplication above.
    let exact = |ns: i64, ms: i64| ns / NS_PER_MS == ms && ms >= 0;
    let run_ns = user_ns.checked_add(system_ns);
    let is_possible = exact(user_ns, user_ms) && exact(system_ns, kernel_ms) && run_ns.is_some();
    let run_ns = run_ns.unwrap_or_else(|| user_ns.saturating_add(system_ns));
    let flags = if is_possible { Flags::empty() } else { Flags::IMPOSSIBLE };
    (Delta { user_ns, system_ns, run_ns, ..Delta::default() }, flags)
}

impl Set {
    pub fn new(row: &LegacyProcess, wall_ns: i64) -> Self {
        Self {
            ip: row.ip.clone(),
            ticks: row.ticks,
            wall_ns,
            duration_ms: row.duration_ms,
            first_idx: row.idx,
            processes: Vec::new(),
            by_name: HashMap::new(),
            name_bytes: 0,
            threads: Vec::new(),
            by_tid: HashMap::new(),
        }
    }

    pub fn takes(&self, row: &LegacyProcess) -> bool {
        self.ticks == row.ticks && self.ip == row.ip
    }

    /// Whether it has more rows than it may have.
    pub fn is_full(&self) -> bool {
        self.processes.len() + self.threads.len() > MAX_SET_ROWS
    }

    /// Adds a process row; returns its index for [`Set::add_thread`].
    pub fn add_process(&mut self, row: &LegacyProcess, odd: &mut OddRows) -> usize {
        let (delta, flags) = delta(row.user_ms, row.kernel_ms);
        odd.impossible += u64::from(!flags.is_empty());
        odd.nameless += u64::from(row.name.is_empty());
        odd.other_duration += u64::from(row.duration_ms != self.duration_ms);
        // Rows of one set were measured together; the longest duration covers them all.
        self.duration_ms = self.duration_ms.max(row.duration_ms);
        let names = self.by_name.entry(row.pid).or_default();
        if let Some(&at) = names.get(row.name.as_str()) {
            let (first, _) = &mut self.processes[at];
            if first.delta == delta {
                odd.duplicates += 1;
            } else {
                odd.merged += 1;
                first.delta += &delta;
                first.flags |= flags;
            }
            return at;
        }
        let at = self.processes.len();
        // Two names under one id stay apart, as in sets that arrive live: no start time is known to separate them by.
        let key = ProcessKey { pid: row.pid, start_ns: names.len() as u64 };
        names.insert(row.name.as_str().into(), at);
        self.name_bytes += row.name.len();
        let info = Arc::new(ProcessInfo { name: row.name.as_str().into(), ..ProcessInfo::default() });
        self.processes
            .push((ProcessInterval { key, info, flags, delta, ..ProcessInterval::default() }, row.idx));
        at
    }

    /// Adds a thread row of the process at `process`.
    pub fn add_thread(&mut self, process: usize, row: &LegacyThread, odd: &mut OddRows) {
        // One row of `Processes` may have any number of threads, and the caller asks only behind them.
        if self.is_full() {
            return;
        }
        let Some((owner, _)) = self.processes.get_mut(process) else { return };
        let (delta, flags) = delta(row.user_ms, row.kernel_ms);
        odd.impossible += u64::from(!flags.is_empty());
        owner.flags |= flags;
        match self.by_tid.entry(row.tid) {
            Entry::Occupied(at) => {
                let first = &mut self.threads[*at.get()];
                if first.delta == delta && first.process == owner.key {
                    odd.duplicates += 1;
                } else {
                    odd.merged += 1;
                    first.delta += &delta;
                    first.flags |= flags;
                }
            }
            Entry::Vacant(at) => {
                at.insert(self.threads.len());
                owner.thread_rows = owner.thread_rows.saturating_add(1);
                // The file has no start times.
                let key = ThreadKey { tid: row.tid, start_ns: 0 };
                self.threads.push(ThreadInterval {
                    key,
                    process: owner.key,
                    flags,
                    delta,
                    ..ThreadInterval::default()
                });
            }
        }
    }

    /// The interval, without its host, and the order its rows came in.
    pub fn finish(self) -> (Interval, LegacyOrder) {
        let (begin, end) = self.ends();
        let mut processes = self.processes;
        processes.sort_by_key(|(row, _)| row.key);
        let mut threads: Vec<_> = self.threads.into_iter().zip(0_u32..).collect();
        threads.sort_by_key(|(row, _)| row.key);
        let order = LegacyOrder {
            process_idx: processes.iter().map(|(_, idx)| *idx).collect(),
            thread_position: threads.iter().map(|(_, position)| *position).collect(),
        };
        let processes: Vec<_> = processes.into_iter().map(|(row, _)| row).collect();
        let threads: Vec<_> = threads.into_iter().map(|(row, _)| row).collect();
        let threads_ns = processes.iter().fold(0_i64, |sum, row| sum.saturating_add(row.delta.run_ns));
        let flags = processes.iter().fold(Flags::empty(), |all, row| all | row.flags);
        let interval = Interval {
            // The store knows a duplicate by end and sequence, and this is the same at each import of the
            // file.
            sequence: self.first_idx.try_into().unwrap_or(0),
            source: SourceKind::Legacy,
            fields: Fields::USER | Fields::SYSTEM | Fields::RUN,
            flags,
            begin,
            end,
            v1_ticks: Some(self.ticks),
            thread_count: threads.len().try_into().unwrap_or(u32::MAX),
            process_count: processes.len().try_into().unwrap_or(u32::MAX),
            processes,
            threads,
            ledger: Ledger { threads_ns, ..Ledger::default() },
            ..Interval::default()
        };
        (interval, order)
    }

    /// The stamp is the set's end; its length is the longest duration. The monotonic clock, which the file does not
    /// know, runs with the wall clock.
    fn ends(&self) -> (Moment, Moment) {
        let duration_ns = u64::from(self.duration_ms) * NS_PER_MS.unsigned_abs();
        // At least the duration, because the start on this clock cannot be negative.
        let end_mono_ns = u64::try_from(self.wall_ns).unwrap_or(0).max(duration_ns);
        let begin_wall_ns = self.wall_ns.saturating_sub_unsigned(duration_ns);
        let begin = Moment { mono_ns: end_mono_ns - duration_ns, boot_ns: 0, wall_ns: begin_wall_ns };
        (begin, Moment { mono_ns: end_mono_ns, boot_ns: 0, wall_ns: self.wall_ns })
    }
}
