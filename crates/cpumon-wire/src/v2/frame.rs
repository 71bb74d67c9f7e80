//! [`Frame`]: one decoded v2 datagram. Its buffers are reused, so a receiver decodes frames without
//! allocating.

use cpumon_model::varint::unzigzag;
use cpumon_model::{
    Comm, Counters, CpuSample, CpuTimes, HostInfo, Moment, Pressure, ProcessInfo, ProcessKey, SourceHealth,
    TaskState, ThreadKey, ThreadSample, WaitFor, trim_list,
};

#[allow(clippy::wildcard_imports)] // One name for each column.
use super::columns::*;
use super::read::{MAX_COLUMNS, TableReader, TextSpan};
use super::rows::{self, IrqRow, STATES};
use super::sections::{self, AboutCgroup, CgroupRow, DelayRow};
use super::{Header, MAX_REASON_BYTES, MAX_TEXT_BYTES};
use crate::{DecodeError, Reason};

/// Number of rows that may be shorter than [`average_bits`]. A frame of 1,400 bytes has no space for more, so every agent keeps to this.
const MIN_ROWS: usize = 4_096;
/// Values of rows for each bit of a frame, on average: those that are the same in each row take no bits, but take time.
const CELLS_OF_BIT: usize = 1;

/// Counts and totals of one snapshot.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotTotals {
    /// Threads alive on the host.
    pub thread_count: u32,
    /// Processes alive on the host.
    pub process_count: u32,
    /// Start of the collection pass.
    pub begin: Moment,
    /// Counters of all threads that ended since the source was opened.
    pub exited_total: Counters,
    /// Pressure on the CPUs of the host, if sent.
    pub pressure: Option<Pressure>,
    /// Number of control groups that are not measured.
    pub cgroups_left_out: u32,
    /// Counts of what the source could not do.
    pub health: SourceHealth,
}

/// A thread's row in a frame.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct FrameThreadRow {
    /// Counters of the thread; the name is empty unless it was sent.
    pub sample: ThreadSample,
    /// The name was sent.
    pub has_name: bool,
}

/// A process's row in a frame.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct FrameProcessRow {
    /// Pid and start of the process.
    pub key: ProcessKey,
    /// Pid of the parent.
    pub parent_pid: u32,
    /// Counters of threads that ended without a row.
    pub ended_threads: Counters,
    /// Description of the process, if sent.
    pub info: Option<InfoText>,
}

/// A thread that ended, as a frame has it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct ExitRow {
    /// The thread with its final counters.
    pub thread: ThreadSample,
    /// Pid of the process's parent.
    pub parent_pid: u32,
    /// End of the thread, ns since boot.
    pub end_ns: u64,
    /// The process ended with this thread.
    pub ends_process: bool,
    /// Description of the process, if sent.
    pub info: Option<InfoText>,
}

/// One decoded datagram. Rows ascend by process and thread within each of the datagram's tables.
#[derive(Clone, Debug, Default)]
pub struct Frame {
    /// Header, as in every datagram.
    pub header: Header,
    /// The machine's description, if sent.
    pub host: Option<HostInfo>,
    /// Totals of the snapshot, if sent.
    pub totals: Option<SnapshotTotals>,
    /// Times of each CPU.
    pub cpus: Vec<CpuSample>,
    /// Processes that are new, changed, or whose turn it is.
    pub processes: Vec<FrameProcessRow>,
    /// Threads that changed, or whose turn it is.
    pub threads: Vec<FrameThreadRow>,
    /// Threads that ended.
    pub exits: Vec<ExitRow>,
    /// Threads that ended without final counters.
    pub gone: Vec<(ProcessKey, ThreadKey)>,
    /// Interrupt lines that are new or were handled, or all lines.
    pub irqs: Vec<IrqRow>,
    /// Buckets of run-delay histograms.
    pub delays: Vec<DelayRow>,
    /// Control groups with a limit or with pressure.
    pub cgroups: Vec<CgroupRow>,
    /// Waits by who ended them, in no order.
    pub waits_for: Vec<WaitFor>,
    texts: Vec<u8>,
    /// Bits that the rows still to come may have on average.
    row_bits_left: usize,
    /// Most values that the rows still to come may have.
    cells_left: usize,
}

/// The texts of a process's info, with their columns. All but the command line are cut where agents cut them.
macro_rules! info_texts {
    ($($text:ident $column:ident)+) => {
        /// A process's info, its texts still in the frame ([`Frame::info`]).
        #[derive(Copy, Clone, Debug, PartialEq, Eq)]
        pub struct InfoText {
            $($text: TextSpan,)+
            cmdline: TextSpan,
            uid: u32,
            is_kernel: bool,
            session: Option<u32>,
            base_priority: Option<u8>,
        }

        impl Frame {
            /// Decodes a process info that was sent.
            pub fn info(&self, text: &InfoText) -> ProcessInfo {
                let &InfoText { uid, is_kernel, session, base_priority, .. } = text;
                let cmdline = self.text(text.cmdline).into();
                ProcessInfo {
                    $($text: self.short(text.$text).into(),)+ cmdline, uid, is_kernel, session, base_priority
                }
            }

            /// Whether a process info that was sent is this one. Allocates nothing.
            pub fn is_info(&self, text: &InfoText, info: &ProcessInfo) -> bool {
                text.uid == info.uid
                    && text.is_kernel == info.is_kernel
                    && (text.session, text.base_priority) == (info.session, info.base_priority)
                    $(&& self.bytes(text.$text) == info.$text.as_bytes())+
                    && self.bytes(text.cmdline) == info.cmdline.as_bytes()
            }

            /// Length of the texts of a process info that was sent, bytes: as long as [`Frame::info`] makes them, or a few more.
            pub fn info_bytes(&self, text: &InfoText) -> usize {
                let short = [$(text.$text),+].map(|span| (span.len as usize).min(MAX_TEXT_BYTES));
                text.cmdline.len as usize + short.iter().sum::<usize>()
            }
        }

        /// Info of the process; `None` if the table does not have it.
        fn info(table: &TableReader<'_>) -> Result<Option<InfoText>, DecodeError> {
            let read = || {
                Ok(InfoText {
                    $($text: table.span($column),)+
                    cmdline: table.span(CMDLINE),
                    uid: table.narrow(UID)?,
                    is_kernel: table.value(IS_KERNEL) != 0,
                    session: optional(table, SESSION)?,
                    base_priority: optional(table, BASE_PRIORITY)?,
                })
            };
            table.has(NAME).then(read).transpose()
        }
    };
}

info_texts! {
    name NAME
    comm PROCESS_COMM
    cgroup CGROUP
    container CONTAINER
    interpreter INTERPRETER
    user USER_NAME
    product PRODUCT
}

/// Reads one datagram.
///
/// # Errors
/// The bytes are no v2 frame, or a damaged one. The error has the offset.
pub fn decode(bytes: &[u8]) -> Result<Frame, DecodeError> {
    let mut frame = Frame::default();
    frame.decode(bytes)?;
    Ok(frame)
}

impl Frame {
    /// [`decode`] into kept buffers. After an error the frame's content is of no use.
    pub fn decode(&mut self, bytes: &[u8]) -> Result<(), DecodeError> {
        self.clear();
        let (header, mut at) = Header::decode(bytes)?;
        self.header = header;
        self.row_bits_left = (bytes.len() * 8).max(MIN_ROWS * average_bits(section::THREADS));
        self.cells_left = bytes.len() * 8 * CELLS_OF_BIT + MIN_ROWS * MAX_COLUMNS;
        while at < bytes.len() {
            let cut = DecodeError::new(at, Reason::Truncated);
            let (&[kind, low, high], rest) =
                bytes.get(at..).and_then(<[u8]>::split_first_chunk).ok_or(cut)?;
            let length = usize::from(u16::from_le_bytes([low, high]));
            let body = rest.get(..length).ok_or(cut)?;
            self.section(kind, body, at + 3)?;
            at += 3 + length;
        }
        Ok(())
    }

    /// Name of an interrupt line; `None` if it was not sent.
    pub fn irq_name(&self, row: &IrqRow) -> Option<&str> {
        row.name.map(|name| self.short(name))
    }

    /// The path of a control group.
    pub fn cgroup_path(&self, about: &AboutCgroup) -> &str {
        self.short(about.path)
    }

    /// Empties it, and gives back memory that only few datagrams need.
    pub fn trim(&mut self) {
        self.clear();
        trim_list(&mut self.cpus);
        trim_list(&mut self.processes);
        trim_list(&mut self.threads);
        trim_list(&mut self.exits);
        trim_list(&mut self.gone);
        trim_list(&mut self.irqs);
        trim_list(&mut self.delays);
        trim_list(&mut self.cgroups);
        trim_list(&mut self.waits_for);
    }

    fn clear(&mut self) {
        self.host = None;
        self.totals = None;
        self.cpus.clear();
        self.processes.clear();
        self.threads.clear();
        self.exits.clear();
        self.gone.clear();
        self.irqs.clear();
        self.delays.clear();
        self.cgroups.clear();
        self.waits_for.clear();
        self.texts.clear();
    }

    fn bytes(&self, span: TextSpan) -> &[u8] {
        bytes(&self.texts, span)
    }

    /// Empty for bytes that are no text, which are never asked for.
    fn text(&self, span: TextSpan) -> &str {
        std::str::from_utf8(self.bytes(span)).unwrap_or_default()
    }

    /// A text, cut where agents cut it: the sender chooses its length, and the receiver keeps it.
    fn short(&self, span: TextSpan) -> &str {
        self.cut(span, MAX_TEXT_BYTES)
    }

    fn cut(&self, span: TextSpan, most: usize) -> &str {
        // Cut before it is checked, because rows may repeat a long text.
        let bytes = self.bytes(span);
        let kept = bytes.get(..most).unwrap_or(bytes);
        std::str::from_utf8(kept)
            .unwrap_or_else(|cut| std::str::from_utf8(&kept[..cut.valid_up_to()]).unwrap_or_default())
    }

    fn section(&mut self, kind: u8, body: &[u8], offset: usize) -> Result<(), DecodeError> {
        // A section of a later release: its length is enough to skip it.
        if !matches!(kind, section::HOST..=section::WAITS_FOR) {
            return Ok(());
        }
        let mut table = TableReader::new(body, offset)?;
        let too_many = DecodeError::new(offset, Reason::TooManyRows);
        self.cells_left = self.cells_left.checked_sub(table.cells_left()).ok_or(too_many)?;
        let bits = table.rows_left() * average_bits(kind);
        self.row_bits_left = self.row_bits_left.checked_sub(bits).ok_or(too_many)?;
        match kind {
            section::HOST => self.read_host(&mut table),
            section::TOTALS => self.read_totals(&mut table),
            _ => self.read_list(kind, &mut table),
        }
    }

    fn read_list(&mut self, kind: u8, table: &mut TableReader<'_>) -> Result<(), DecodeError> {
        let texts = &mut self.texts;
        match kind {
            section::CPUS => {
                read_rows(table, texts, &mut self.cpus, |a, b| a.cpu < b.cpu, |table, _| cpu(table))
            }
            section::PROCESSES => {
                read_rows(table, texts, &mut self.processes, |a, b| a.key < b.key, |table, _| process(table))
            }
            section::THREADS => {
                let has_name = table.has(COMM);
                let row = |table: &TableReader<'_>, texts: &[u8]| {
                    Ok(FrameThreadRow { sample: thread(table, texts)?, has_name })
                };
                read_rows(table, texts, &mut self.threads, |a, b| place(&a.sample) < place(&b.sample), row)
            }
            section::EXITS => {
                let end_ns = self.header.end.boot_ns;
                let row = |table: &TableReader<'_>, texts: &[u8]| exit(table, texts, end_ns);
                read_rows(table, texts, &mut self.exits, |a, b| place(&a.thread) < place(&b.thread), row)
            }
            section::GONE => {
                let row = |table: &TableReader<'_>, _: &[u8]| Ok((process_key(table)?, thread_key(table)?));
                read_rows(table, texts, &mut self.gone, |a, b| a < b, row)
            }
            section::IRQS => {
                read_rows(table, texts, &mut self.irqs, |a, b| a.irq < b.irq, |table, _| rows::irq(table))
            }
            section::DELAYS => {
                read_rows(table, texts, &mut self.delays, |_, _| true, |table, _| sections::delay(table))
            }
            section::CGROUPS => read_rows(
                table,
                texts,
                &mut self.cgroups,
                |a, b| a.id < b.id,
                |table, _| sections::cgroup(table),
            ),
            _ => read_rows(
                table,
                texts,
                &mut self.waits_for,
                |_, _| true,
                |table, _| sections::wait_for(table),
            ),
        }
    }

    fn read_host(&mut self, table: &mut TableReader<'_>) -> Result<(), DecodeError> {
        if table.next_row(&mut self.texts)? {
            self.host = Some(HostInfo {
                host: self.header.host,
                boot: self.header.boot,
                hostname: self.short(table.span(HOSTNAME)).into(),
                kernel: self.short(table.span(KERNEL)).into(),
                arch: self.short(table.span(ARCH)).into(),
                agent: self.short(table.span(AGENT)).into(),
                source_reason: self.cut(table.span(SOURCE_REASON), MAX_REASON_BYTES).into(),
                cpu_count: table.narrow(CPU_COUNT)?,
                interval_ns: table.value(INTERVAL),
            });
        }
        Ok(())
    }

    fn read_totals(&mut self, table: &mut TableReader<'_>) -> Result<(), DecodeError> {
        if !table.next_row(&mut self.texts)? {
            return Ok(());
        }
        let end = self.header.end;
        let before = |id| unzigzag(table.value(id));
        let totals = SnapshotTotals {
            thread_count: table.narrow(THREAD_COUNT)?,
            process_count: table.narrow(PROCESS_COUNT)?,
            begin: Moment {
                mono_ns: end.mono_ns.wrapping_sub(before(PASS_MONO).cast_unsigned()),
                boot_ns: end.boot_ns.wrapping_sub(before(PASS_BOOT).cast_unsigned()),
                wall_ns: end.wall_ns.wrapping_sub(before(PASS_WALL)),
            },
            exited_total: counters(table),
            pressure: sections::pressure(table),
            cgroups_left_out: table.narrow(CGROUPS_LEFT_OUT)?,
            health: rows::health(table),
        };
        self.totals = Some(totals);
        Ok(())
    }
}

/// Reads the rows of a table, which must ascend; `texts` takes the texts in them.
fn read_rows<Row>(
    table: &mut TableReader<'_>,
    texts: &mut Vec<u8>,
    into: &mut Vec<Row>,
    ascends: impl Fn(&Row, &Row) -> bool,
    read: impl Fn(&TableReader<'_>, &[u8]) -> Result<Row, DecodeError>,
) -> Result<(), DecodeError> {
    // A section may come several times in a frame. Rows ascend within each, not from one to the next.
    let first = into.len();
    into.reserve(table.rows_left());
    while table.next_row(texts)? {
        let row = read(table, texts)?;
        if into[first..].last().is_some_and(|before| !ascends(before, &row)) {
            return Err(table.error(Reason::Unsorted));
        }
        into.push(row);
    }
    Ok(())
}

fn bytes(texts: &[u8], span: TextSpan) -> &[u8] {
    let begin = span.begin as usize;
    texts.get(begin..begin + span.len as usize).unwrap_or_default()
}

fn cpu(table: &TableReader<'_>) -> Result<CpuSample, DecodeError> {
    let column = |mode: usize| MODE_0 + u8::try_from(mode).unwrap_or(0);
    let modes: [u64; 10] = std::array::from_fn(|mode| table.value(column(mode)));
    if let Some(mode) = modes.iter().position(|&ns| ns > CpuTimes::MAX_NS) {
        return Err(table.out_of_range(column(mode)));
    }
    let times = CpuTimes::from_array(modes);
    Ok(CpuSample { cpu: table.narrow(CPU)?, times, sched: rows::cpu_sched(table)? })
}

fn process(table: &TableReader<'_>) -> Result<FrameProcessRow, DecodeError> {
    Ok(FrameProcessRow {
        key: process_key(table)?,
        parent_pid: table.narrow(PARENT_PID)?,
        ended_threads: counters(table),
        info: info(table)?,
    })
}

fn thread(table: &TableReader<'_>, texts: &[u8]) -> Result<ThreadSample, DecodeError> {
    let nice = unzigzag(table.value(NICE));
    let above = unzigzag(table.value(PRIORITY));
    let nice: i8 = table.narrow_signed(NICE, nice)?;
    let priority = above.checked_add(20 + i64::from(nice)).ok_or(table.out_of_range(PRIORITY))?;
    Ok(ThreadSample {
        key: thread_key(table)?,
        process: process_key(table)?,
        comm: Comm::new(bytes(texts, table.span(COMM))),
        state: state(table)?,
        nice,
        priority: table.narrow_signed(PRIORITY, priority)?,
        last_cpu: table.narrow(LAST_CPU)?,
        has_one_cpu: table.value(ONE_CPU) != 0,
        counters: counters(table),
        sched: rows::thread_sched(table),
    })
}

fn exit(table: &TableReader<'_>, texts: &[u8], end_boot_ns: u64) -> Result<ExitRow, DecodeError> {
    Ok(ExitRow {
        thread: thread(table, texts)?,
        parent_pid: table.narrow(PARENT_PID)?,
        end_ns: end_boot_ns.wrapping_sub(unzigzag(table.value(END)).cast_unsigned()),
        ends_process: table.value(ENDS_PROCESS) != 0,
        info: info(table)?,
    })
}

/// Sort key of rows of threads.
fn place(thread: &ThreadSample) -> (ProcessKey, ThreadKey) {
    (thread.process, thread.key)
}

fn thread_key(table: &TableReader<'_>) -> Result<ThreadKey, DecodeError> {
    Ok(ThreadKey { tid: table.narrow(TID)?, start_ns: table.value(START) })
}

fn process_key(table: &TableReader<'_>) -> Result<ProcessKey, DecodeError> {
    Ok(ProcessKey { pid: table.narrow(PID)?, start_ns: table.value(PROCESS_START) })
}

fn counters(table: &TableReader<'_>) -> Counters {
    counters_of(|id| table.value(id), table.has(SYSTEM))
}

fn state(table: &TableReader<'_>) -> Result<TaskState, DecodeError> {
    let code = table.value(STATE);
    let known = usize::try_from(code).ok().and_then(|code| STATES.get(code));
    match known {
        Some(&letter) => Ok(TaskState(letter)),
        // Every code below 10 is in `STATES`, so this cannot underflow.
        None => u8::try_from(code - 10).map(TaskState).map_err(|_| table.out_of_range(STATE)),
    }
}

/// A number that is sent as one more, because 0 is none.
fn optional<T: TryFrom<u64>>(table: &TableReader<'_>, id: u8) -> Result<Option<T>, DecodeError> {
    let number = table.value(id).checked_sub(1).map(T::try_from).transpose();
    number.map_err(|_| table.out_of_range(id))
}
