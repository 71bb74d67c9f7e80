//! [`Encoder`]: writes a snapshot as frames. It remembers which names and exits it has sent already.

use cpumon_model::{
    Delta, ExitSample, Fields, HostInfo, Interval, ProcessKey, Snapshot, ThreadKey, empty_list, trim_list,
};

use super::known::{KnownProcesses, KnownThreads, Turn};
use super::sections::{self, CgroupWriter, DelayWriter};
use super::table::{Spec, TableWriter, TextBudget};
use super::{Frames, Header, rows};
use crate::Datagrams;

/// Shortest `max_datagram`, bytes: header, one section's columns and one row with some text.
pub const MIN_DATAGRAM_BYTES: usize = 768;
/// Longest `max_datagram`, bytes: what UDP over IPv4 carries, rounded down.
const MAX_DATAGRAM: usize = 65_000;
/// What a row of a process needs in an empty datagram beside its texts, bytes: header 87, section 7, columns of 3, their
/// numbers.
const ROW_OVERHEAD: usize = 340;
/// The same for a row of an exit, with up to 51 columns, of which 42 have numbers of up to 8 bytes.
const EXIT_OVERHEAD: usize = 590;

/// Rows of threads that are gathered before they are written: the widths of their columns are chosen for all gathered rows,
/// and a full snapshot of 10,000 threads takes no 3 MB of numbers.
const ROWS_AT_ONCE: usize = 1_024;

/// A new or changed name is sent this many times, so that one lost frame does not leave a task nameless.
const NAME_SENDS: u8 = 2;

/// How an [`Encoder`] divides snapshots into datagrams, and how often it repeats rows.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct EncoderOptions {
    /// Longest datagram, bytes (UDP payload), 768 to 65,000: 1,400 passes every common tunnel.
    pub max_datagram: usize,
    /// Within this many snapshots each task is sent at least once, changed or not. 1 to 65,535.
    pub refresh_snapshots: u32,
    /// This many snapshots after the start hold every task.
    pub full_snapshots: u32,
    /// Distinguishes agent starts: any number that differs from start to start, e.g. the wall clock's ns.
    pub agent_start: u64,
    /// Nothing gets lost on the way, as in a file: names and exits are sent once, and nothing is repeated between two full
    /// snapshots ([`Encoder::begin_again`]).
    pub is_lossless: bool,
}

impl Default for EncoderOptions {
    fn default() -> Self {
        Self {
            max_datagram: 1_400,
            refresh_snapshots: 30,
            full_snapshots: 2,
            agent_start: 0,
            is_lossless: false,
        }
    }
}

/// What one snapshot's frames hold. The last two are for the user to see.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct EncodeReport {
    /// Threads sent because they ran.
    pub changed_threads: u64,
    /// Threads sent only because it was their turn or they were new or renamed.
    pub refreshed_threads: u64,
    /// Processes sent.
    pub processes: u64,
    /// Exits sent, those sent a second time included.
    pub exits: u64,
    /// Texts cut because they were too long for a datagram.
    pub texts_cut: u64,
    /// Rows that were left out because they fit no datagram.
    pub rows_lost: u64,
}

/// Turns snapshots into frames.
#[derive(Debug)]
pub struct Encoder {
    options: EncoderOptions,
    sent: u64,
    /// How many of the next snapshots hold every task.
    full_left: u32,
    host: HostInfo,
    threads: KnownThreads,
    processes: KnownProcesses,
    exits_before: Vec<ExitSample>,
    /// Threads that ended without a record since the snapshot before, and since the one before that.
    gone: Vec<(ProcessKey, ThreadKey)>,
    gone_before: Vec<(ProcessKey, ThreadKey)>,
    /// Numbers of the interrupt lines of the snapshot before, ascending.
    irqs_before: Vec<u32>,
    delays: DelayWriter,
    cgroups: CgroupWriter,
    /// Rows to send by process: key, index in the snapshot, of those without name also in the interval.
    plain_order: Vec<(ProcessKey, u32, usize)>,
    named_order: Vec<(ProcessKey, u32)>,
    exit_order: Vec<(ProcessKey, ThreadKey, bool, u32)>,
    table: TableWriter,
    named_table: TableWriter,
    third_table: TableWriter,
}

/// One snapshot while it is encoded into frames.
struct EncoderPass<'a> {
    snapshot: &'a Snapshot,
    interval: &'a Interval,
    turn: Turn,
    frames: Frames<'a>,
    texts: TextBudget,
    report: EncodeReport,
}

impl EncoderPass<'_> {
    fn put(&mut self, table: &mut TableWriter, spec: Spec) {
        self.report.rows_lost += table.write(spec, &mut self.frames);
    }
}

impl Encoder {
    /// An encoder for one agent start, from its first snapshot.
    pub fn new(options: EncoderOptions) -> Self {
        let options = EncoderOptions {
            max_datagram: options.max_datagram.clamp(MIN_DATAGRAM_BYTES, MAX_DATAGRAM),
            // Where nothing is lost nothing is repeated: full snapshots alone say when a reader may begin.
            refresh_snapshots: if options.is_lossless {
                u32::from(u16::MAX)
            } else {
                options.refresh_snapshots
            }
            .clamp(1, u32::from(u16::MAX)),
            ..options
        };
        Self {
            full_left: options.full_snapshots,
            options,
            sent: 0,
            host: HostInfo::default(),
            threads: KnownThreads::default(),
            processes: KnownProcesses::default(),
            exits_before: Vec::new(),
            gone: Vec::new(),
            gone_before: Vec::new(),
            irqs_before: Vec::new(),
            delays: DelayWriter::default(),
            cgroups: CgroupWriter::default(),
            plain_order: Vec::new(),
            named_order: Vec::new(),
            exit_order: Vec::new(),
            table: TableWriter::default(),
            named_table: TableWriter::default(),
            third_table: TableWriter::default(),
        }
    }

    /// The options in use, after they were limited.
    pub fn options(&self) -> &EncoderOptions {
        &self.options
    }

    /// Writes the frames of one complete snapshot; `interval` ends with it and says which threads changed.
    /// For the first snapshot, which ends no interval, pass an empty one.
    pub fn encode(
        &mut self,
        host: &HostInfo,
        snapshot: &Snapshot,
        interval: &Interval,
        out: &mut Datagrams,
    ) -> EncodeReport {
        let (turn, texts) = (self.turn(), self.text_budget(ROW_OVERHEAD));
        let frames = Frames::new(self.header(host, snapshot, turn), self.options.max_datagram, out);
        let mut pass =
            EncoderPass { snapshot, interval, turn, frames, texts, report: EncodeReport::default() };
        // A full snapshot must be readable alone, so it has the host's description too.
        if turn.is_of_host() || *host != self.host {
            self.write_host(&mut pass, host);
        }
        self.write_totals(&mut pass);
        // Before `write_processes`: `was_sent` must still answer for the snapshot before.
        self.write_exits(&mut pass);
        // Both choices precede the processes, because a process with gone threads is due as well.
        self.choose_threads(&mut pass);
        self.choose_gone(snapshot);
        self.write_processes(&mut pass);
        self.write_gone(&mut pass);
        self.write_threads(&mut pass);
        self.write_irqs(&mut pass);
        self.write_delays(&mut pass);
        self.write_cgroups(&mut pass);
        sections::push_waits_for(&mut self.table, &snapshot.waits_for);
        pass.put(&mut self.table, sections::WAITS_FOR);
        pass.frames.finish();
        pass.report.texts_cut += pass.texts.cut;
        self.sent += 1;
        self.full_left = self.full_left.saturating_sub(1);
        pass.report
    }

    /// The next snapshot holds every task with its name: a receiver can begin with it, whatever it missed before.
    pub fn begin_again(&mut self) {
        // Those that are due already stay due: a restart during the first snapshots must not shorten them.
        self.full_left = self.full_left.max(1);
    }

    /// Whether the next snapshot holds every task.
    pub fn is_next_full(&self) -> bool {
        self.full_left > 0
    }

    fn turn(&self) -> Turn {
        let slots = if self.options.is_lossless { 0 } else { self.options.refresh_snapshots };
        Turn {
            everything: self.is_next_full(),
            slot: u32::try_from(self.sent.checked_rem(u64::from(slots)).unwrap_or(0)).unwrap_or(0),
            slots,
            name_sends: if self.options.is_lossless { 1 } else { NAME_SENDS },
        }
    }

    fn header(&self, host: &HostInfo, snapshot: &Snapshot, turn: Turn) -> Header {
        Header {
            host: host.host,
            boot: host.boot,
            agent_start: folded(self.options.agent_start),
            sequence: snapshot.sequence,
            fragment: 0,
            fragment_count: 1,
            end: snapshot.end,
            fields: snapshot.fields.intersection(Fields::CARRIED),
            source: snapshot.source,
            refresh_snapshots: u16::try_from(self.options.refresh_snapshots).unwrap_or(u16::MAX),
            is_complete: turn.everything && snapshot.is_complete,
            irq_in_run_time: snapshot.irq_in_run_time,
        }
    }

    fn text_budget(&self, overhead: usize) -> TextBudget {
        TextBudget::new(self.options.max_datagram - overhead)
    }

    fn write_host(&mut self, pass: &mut EncoderPass<'_>, host: &HostInfo) {
        if *host != self.host {
            self.host.clone_from(host);
        }
        rows::push_host(&mut self.table, host, &mut pass.texts);
        pass.put(&mut self.table, rows::HOST);
    }

    fn write_totals(&mut self, pass: &mut EncoderPass<'_>) {
        rows::push_totals(&mut self.table, pass.snapshot);
        pass.put(&mut self.table, rows::TOTALS);
        for cpu in &pass.snapshot.cpus {
            rows::push_cpu(&mut self.table, cpu);
        }
        pass.put(&mut self.table, rows::CPUS);
    }

    /// Exits of this snapshot and once more those of the one before: one lost frame does not lose them.
    fn write_exits(&mut self, pass: &mut EncoderPass<'_>) {
        let mut texts = self.text_budget(EXIT_OVERHEAD);
        let order = &mut self.exit_order;
        empty_list(order);
        for (again, exits) in [(false, &pass.snapshot.exits), (true, &self.exits_before)] {
            order.extend(
                (0_u32..).zip(exits).map(|(at, exit)| (exit.thread.process, exit.thread.key, again, at)),
            );
        }
        order.sort_unstable();
        // `false` sorts first, so an exit of both snapshots keeps its newer row.
        order.dedup_by_key(|entry| (entry.0, entry.1));
        pass.report.exits = order.len() as u64;
        let boot_ns = pass.snapshot.end.boot_ns;
        for &(process, _, again, at) in &self.exit_order {
            let exits = if again { &self.exits_before } else { &pass.snapshot.exits };
            let Some(exit) = exits.get(at as usize) else { continue };
            // A full snapshot must be readable alone, so there the names go with every exit.
            if !exit.ends_process && !pass.turn.everything && self.processes.was_sent(process) {
                rows::push_plain_exit(&mut self.table, exit, boot_ns);
            } else {
                rows::push_exit(&mut self.named_table, exit, boot_ns, &mut texts);
            }
        }
        pass.put(&mut self.table, rows::PLAIN_EXITS);
        pass.put(&mut self.named_table, rows::EXITS);
        pass.report.texts_cut += texts.cut;
        if !self.options.is_lossless {
            self.exits_before.clone_from(&pass.snapshot.exits);
            trim_list(&mut self.exits_before);
        }
    }

    /// Which threads are due, with and without their names, by process.
    fn choose_threads(&mut self, pass: &mut EncoderPass<'_>) {
        empty_list(&mut self.plain_order);
        empty_list(&mut self.named_order);
        self.threads.begin();
        let mut rows_at = 0;
        for (at, thread) in (0_u32..).zip(&pass.snapshot.threads) {
            // Both lists ascend by thread, so one pass matches them.
            while pass.interval.threads.get(rows_at).is_some_and(|row| row.key < thread.key) {
                rows_at += 1;
            }
            let row = pass.interval.threads.get(rows_at).filter(|row| row.key == thread.key);
            let changed = row.is_some_and(|row| row.delta != Delta::default());
            if self.threads.next(thread, changed, pass.turn) {
                self.named_order.push((thread.process, at));
            } else if changed {
                self.plain_order.push((thread.process, at, rows_at));
            }
            pass.report.changed_threads += u64::from(changed);
        }
        self.threads.finish();
        let sent = (self.plain_order.len() + self.named_order.len()) as u64;
        // Every changed thread is in one of the two lists; the others were due for another reason.
        pass.report.refreshed_threads = sent.saturating_sub(pass.report.changed_threads);
        // By process: its key is written once for all of its threads.
        self.plain_order.sort_unstable();
        self.named_order.sort_unstable();
    }

    /// Which threads ended without a record; those of the snapshot before are sent once more.
    fn choose_gone(&mut self, snapshot: &Snapshot) {
        let has_record =
            |key: &ThreadKey| snapshot.exits.binary_search_by_key(key, |exit| exit.thread.key).is_ok();
        std::mem::swap(&mut self.gone_before, &mut self.threads.gone);
        std::mem::swap(&mut self.gone, &mut self.threads.gone);
        // `gone_before` now holds the new ones, `gone` those sent before.
        self.gone_before.retain(|(_, key)| !has_record(key));
        if self.options.is_lossless {
            self.gone.clear();
        }
        self.gone.extend_from_slice(&self.gone_before);
        self.gone.sort_unstable();
        self.gone.dedup();
    }

    fn write_processes(&mut self, pass: &mut EncoderPass<'_>) {
        self.processes.begin();
        for process in &pass.snapshot.processes {
            let due = self.processes.next(process, pass.turn);
            // Counters of its ended threads go with the news that threads are gone.
            let has_gone = || {
                let at = self.gone.partition_point(|gone| gone.0 < process.key);
                self.gone.get(at).is_some_and(|gone| gone.0 == process.key)
            };
            if due.with_names {
                rows::push_process(&mut self.named_table, process, &mut pass.texts);
            } else if due.changed || has_gone() {
                rows::push_plain_process(&mut self.table, process);
            } else {
                continue;
            }
            pass.report.processes += 1;
        }
        pass.put(&mut self.named_table, rows::PROCESSES);
        pass.put(&mut self.table, rows::PLAIN_PROCESSES);
    }

    fn write_gone(&mut self, pass: &mut EncoderPass<'_>) {
        for &(process, thread) in &self.gone {
            rows::push_thread_key(&mut self.table, process, thread);
        }
        pass.put(&mut self.table, rows::GONE);
    }

    fn write_threads(&mut self, pass: &mut EncoderPass<'_>) {
        for chosen in self.plain_order.chunks(ROWS_AT_ONCE) {
            for &(_, at, row) in chosen {
                if let (Some(thread), Some(row)) =
                    (pass.snapshot.threads.get(at as usize), pass.interval.threads.get(row))
                {
                    rows::push_plain_thread(&mut self.table, thread, Some(&row.sched.waits));
                }
            }
            pass.put(&mut self.table, rows::PLAIN_THREADS);
        }
        for chosen in self.named_order.chunks(ROWS_AT_ONCE) {
            for thread in chosen.iter().filter_map(|&(_, at)| pass.snapshot.threads.get(at as usize)) {
                rows::push_thread(&mut self.table, thread);
            }
            pass.put(&mut self.table, rows::THREADS);
        }
    }

    /// Writes new and handled interrupt lines, new ones with names; all lines, with names, when the host's turn comes.
    fn write_irqs(&mut self, pass: &mut EncoderPass<'_>) {
        for irq in &pass.snapshot.irqs {
            let is_new = self.irqs_before.binary_search(&irq.irq).is_err();
            if pass.turn.is_of_host() || is_new {
                rows::push_named_irq(&mut self.named_table, irq, &mut pass.texts);
            } else if pass.interval.irqs.binary_search_by_key(&irq.irq, |row| row.irq).is_ok() {
                rows::push_irq(&mut self.table, irq);
            }
        }
        pass.put(&mut self.named_table, rows::IRQS);
        pass.put(&mut self.table, rows::PLAIN_IRQS);
        self.irqs_before.clear();
        self.irqs_before.extend(pass.snapshot.irqs.iter().map(|irq| irq.irq));
    }

    fn write_cgroups(&mut self, pass: &mut EncoderPass<'_>) {
        let tables = [&mut self.named_table, &mut self.table];
        let lost = self.cgroups.write(pass.snapshot, pass.turn, tables, &mut pass.texts, &mut pass.frames);
        pass.report.rows_lost += lost;
    }

    fn write_delays(&mut self, pass: &mut EncoderPass<'_>) {
        let tables = [&mut self.table, &mut self.named_table, &mut self.third_table];
        let lost = self.delays.write(pass.snapshot, pass.interval, pass.turn, tables, &mut pass.frames);
        pass.report.rows_lost += lost;
    }
}

/// Folds a number to the 32 bits that a header has for it.
fn folded(number: u64) -> u32 {
    u32::try_from((number ^ number >> 32) & 0xffff_ffff).unwrap_or(0)
}
