//! [`Frame`]: one decoded v2 datagram. Its buffers are reused, so a receiver decodes frames without
//! allocating.

use cpumon_model::{
    Comm, Counters, CpuSample, CpuTimes, HostInfo, Moment, ProcessInfo, ProcessKey, SourceHealth, TaskState,
    ThreadKey, ThreadSample, trim_list,
};

use super::bits::unzigzag;
#[allow(clippy::wildcard_imports)] // One name for each column.
use super::columns::*;
use super::header::{Header, MAX_REASON_BYTES, MAX_TEXT_BYTES};
use super::read::{MAX_COLUMNS, Span, TableReader};
use super::rows::{self, IrqRow, STATES};
use super::sections::{self, AboutCgroup, CgroupRow, DelayRow};
use super::{ExitRow, InfoText, ProcessRow, ThreadRow, Totals};
use crate::{DecodeError, Reason};

/// So many rows may be shorter than [`average_bits`]. A frame of 1,400 bytes has no space for more, so every agent keeps to this.
const MIN_ROWS: usize = 4_096;
/// Values of rows for each bit of a frame, on average: those that are the same in each row take no bits, but take time.
const CELLS_OF_BIT: usize = 1;

/// One decoded datagram. Rows ascend by process and thread within each of the datagram's tables.
#[derive(Clone, Debug, Default)]
pub struct Frame {
    /// What every datagram says.
    pub header: Header,
    /// The machine's description, if sent.
    pub host: Option<HostInfo>,
    /// Totals, if sent.
    pub totals: Option<Totals>,
    /// Per-CPU times.
    pub cpus: Vec<CpuSample>,
    /// Processes that are new, changed, or whose turn it is.
    pub processes: Vec<ProcessRow>,
    /// Threads that changed, or whose turn it is.
    pub threads: Vec<ThreadRow>,
    /// Threads that ended.
    pub exits: Vec<ExitRow>,
    /// Threads that ended without final counters.
    pub gone: Vec<(ProcessKey, ThreadKey)>,
    /// Interrupt lines that were handled, or all of them.
    pub irqs: Vec<IrqRow>,
    /// Buckets of run-delay histograms.
    pub delays: Vec<DelayRow>,
    /// Control groups with a limit or with pressure.
    pub cgroups: Vec<CgroupRow>,
    texts: Vec<u8>,
    /// Bits that the rows still to come may have on average.
    row_bits_left: usize,
    /// Values of rows that may still come.
    cells_left: usize,
}

/// Reads one datagram.
///
/// # Errors
/// With the offset: what is no v2 frame, or a damaged one.
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

    /// A process info that was sent.
    #[must_use]
    pub fn info(&self, text: &InfoText) -> ProcessInfo {
        ProcessInfo {
            name: self.short(text.name).into(),
            comm: self.short(text.comm).into(),
            cmdline: self.text(text.cmdline).into(),
            cgroup: self.short(text.cgroup).into(),
            container: self.short(text.container).into(),
            interpreter: self.short(text.interpreter).into(),
            user: self.short(text.user).into(),
            uid: text.uid,
            is_kernel: text.is_kernel,
            session: text.session,
            base_priority: text.base_priority,
            product: self.short(text.product).into(),
        }
    }

    /// Whether a process info that was sent is this one. Allocates nothing.
    #[must_use]
    pub fn is_info(&self, text: &InfoText, info: &ProcessInfo) -> bool {
        text.uid == info.uid
            && text.is_kernel == info.is_kernel
            && text.session == info.session
            && text.base_priority == info.base_priority
            && self.bytes(text.name) == info.name.as_bytes()
            && self.bytes(text.comm) == info.comm.as_bytes()
            && self.bytes(text.cmdline) == info.cmdline.as_bytes()
            && self.bytes(text.cgroup) == info.cgroup.as_bytes()
            && self.bytes(text.container) == info.container.as_bytes()
            && self.bytes(text.interpreter) == info.interpreter.as_bytes()
            && self.bytes(text.user) == info.user.as_bytes()
            && self.bytes(text.product) == info.product.as_bytes()
    }

    /// Length of the texts of a process info that was sent, bytes: as long as [`Frame::info`] makes them, or a few more.
    #[must_use]
    pub fn info_bytes(&self, text: &InfoText) -> usize {
        let short =
            [text.name, text.comm, text.cgroup, text.container, text.interpreter, text.user, text.product];
        let length = |span: Span| span.len as usize;
        length(text.cmdline) + short.into_iter().map(|span| length(span).min(MAX_TEXT_BYTES)).sum::<usize>()
    }

    /// The name of an interrupt line, if sent.
    #[must_use]
    pub fn irq_name(&self, row: &IrqRow) -> Option<&str> {
        row.name.map(|name| self.short(name))
    }

    /// The path of a control group.
    #[must_use]
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
        self.texts.clear();
    }

    fn bytes(&self, span: Span) -> &[u8] {
        let begin = span.begin as usize;
        self.texts.get(begin..begin + span.len as usize).unwrap_or_default()
    }

    /// Empty for bytes that are no text, which are never asked for.
    fn text(&self, span: Span) -> &str {
        std::str::from_utf8(self.bytes(span)).unwrap_or_default()
    }

    /// A text, cut where agents cut it: the sender chooses its length, and the receiver keeps it.
    fn short(&self, span: Span) -> &str {
        self.cut(span, MAX_TEXT_BYTES)
    }

    fn cut(&self, span: Span, most: usize) -> &str {
        // Cut before it is checked, because rows may repeat a long text.
        let bytes = self.bytes(span);
        let kept = bytes.get(..most).unwrap_or(bytes);
        std::str::from_utf8(kept)
            .unwrap_or_else(|cut| std::str::from_utf8(&kept[..cut.valid_up_to()]).unwrap_or_default())
    }

    fn section(&mut self, kind: u8, body: &[u8], offset: usize) -> Result<(), DecodeError> {
        // A section of a later release: its length is enough to skip it.
        if !matches!(kind, section::HOST..=section::CGROUPS) {
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
            section::CPUS => self.read_cpus(&mut table),
            section::PROCESSES => self.read_processes(&mut table),
            section::THREADS => self.read_threads(&mut table),
            section::EXITS => self.read_exits(&mut table),
            section::GONE => self.read_gone(&mut table),
            section::IRQS => self.read_irqs(&mut table),
            section::DELAYS => self.read_delays(&mut table),
            _ => self.read_cgroups(&mut table),
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
        let mut totals = Totals {
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
            health: SourceHealth {
                tasks_vanished: table.value(HEALTH_0),
                permission_denied: table.value(HEALTH_1),
                malformed: table.value(HEALTH_2),
                exits_lost: table.value(HEALTH_3),
                intervals_late: table.value(HEALTH_4),
                intervals_skipped: table.value(HEALTH_5),
                own_cpu_ns: table.value(HEALTH_6),
                own_rss_bytes: table.value(HEALTH_7),
                ..SourceHealth::default()
            },
        };
        rows::read_health(table, &mut totals.health);
        self.totals = Some(totals);
        Ok(())
    }

    fn read_cpus(&mut self, table: &mut TableReader<'_>) -> Result<(), DecodeError> {
        // A section may come several times in a frame. Rows ascend within each, not from one to the next.
        let first = self.cpus.len();
        self.cpus.reserve(table.rows_left());
        while table.next_row(&mut self.texts)? {
            let cpu = table.narrow(CPU)?;
            if self.cpus[first..].last().is_some_and(|before| before.cpu >= cpu) {
                return Err(table.error(Reason::Unsorted));
            }
            let column = |mode: usize| MODE_0 + u8::try_from(mode).unwrap_or(0);
            let modes: [u64; 10] = std::array::from_fn(|mode| table.value(column(mode)));
            if let Some(mode) = modes.iter().position(|&ns| ns > CpuTimes::MAX_NS) {
                return Err(table.out_of_range(column(mode)));
            }
            let times = CpuTimes::from_array(modes);
            self.cpus.push(CpuSample { cpu, times, sched: rows::cpu_sched(table)? });
        }
        Ok(())
    }

    fn read_processes(&mut self, table: &mut TableReader<'_>) -> Result<(), DecodeError> {
        let first = self.processes.len();
        self.processes.reserve(table.rows_left());
        while table.next_row(&mut self.texts)? {
            let key = process_key(table)?;
            if self.processes[first..].last().is_some_and(|before| before.key >= key) {
                return Err(table.error(Reason::Unsorted));
            }
            self.processes.push(ProcessRow {
                key,
                parent_pid: table.narrow(PARENT_PID)?,
                ended_threads: counters(table),
                info: info(table)?,
            });
        }
        Ok(())
    }

    fn read_threads(&mut self, table: &mut TableReader<'_>) -> Result<(), DecodeError> {
        let has_name = table.has(COMM);
        let mut order = Order::default();
        self.threads.reserve(table.rows_left());
        while table.next_row(&mut self.texts)? {
            let sample = self.thread(table)?;
            order.check((sample.process, sample.key), table)?;
            self.threads.push(ThreadRow { sample, has_name });
        }
        Ok(())
    }

    fn read_exits(&mut self, table: &mut TableReader<'_>) -> Result<(), DecodeError> {
        let mut order = Order::default();
        self.exits.reserve(table.rows_left());
        while table.next_row(&mut self.texts)? {
            let thread = self.thread(table)?;
            order.check((thread.process, thread.key), table)?;
            self.exits.push(ExitRow {
                thread,
                parent_pid: table.narrow(PARENT_PID)?,
                end_ns: self.header.end.boot_ns.wrapping_sub(unzigzag(table.value(END)).cast_unsigned()),
                ends_process: table.value(ENDS_PROCESS) != 0,
                info: info(table)?,
            });
        }
        Ok(())
    }

    fn read_gone(&mut self, table: &mut TableReader<'_>) -> Result<(), DecodeError> {
        let mut order = Order::default();
        self.gone.reserve(table.rows_left());
        while table.next_row(&mut self.texts)? {
            let thread = ThreadKey { tid: table.narrow(TID)?, start_ns: table.value(START) };
            let gone = (process_key(table)?, thread);
            order.check(gone, table)?;
            self.gone.push(gone);
        }
        Ok(())
    }

    fn read_irqs(&mut self, table: &mut TableReader<'_>) -> Result<(), DecodeError> {
        let first = self.irqs.len();
        self.irqs.reserve(table.rows_left());
        while table.next_row(&mut self.texts)? {
            let row = rows::irq(table)?;
            if self.irqs[first..].last().is_some_and(|before| before.irq >= row.irq) {
                return Err(table.error(Reason::Unsorted));
            }
            self.irqs.push(row);
        }
        Ok(())
    }

    fn read_delays(&mut self, table: &mut TableReader<'_>) -> Result<(), DecodeError> {
        self.delays.reserve(table.rows_left());
        while table.next_row(&mut self.texts)? {
            self.delays.push(sections::delay(table)?);
        }
        Ok(())
    }

    fn read_cgroups(&mut self, table: &mut TableReader<'_>) -> Result<(), DecodeError> {
        let first = self.cgroups.len();
        self.cgroups.reserve(table.rows_left());
        while table.next_row(&mut self.texts)? {
            let row = sections::cgroup(table)?;
            if self.cgroups[first..].last().is_some_and(|before| before.id >= row.id) {
                return Err(table.error(Reason::Unsorted));
            }
            self.cgroups.push(row);
        }
        Ok(())
    }

    fn thread(&self, table: &TableReader<'_>) -> Result<ThreadSample, DecodeError> {
        let nice = unzigzag(table.value(NICE));
        let above = unzigzag(table.value(PRIORITY));
        let nice: i8 = table.narrow_signed(NICE, nice)?;
        let priority = above.checked_add(20 + i64::from(nice)).ok_or(table.out_of_range(PRIORITY))?;
        Ok(ThreadSample {
            key: ThreadKey { tid: table.narrow(TID)?, start_ns: table.value(START) },
            process: process_key(table)?,
            comm: Comm::new(self.bytes(table.span(COMM))),
            state: state(table)?,
            nice,
            priority: table.narrow_signed(PRIORITY, priority)?,
            last_cpu: table.narrow(LAST_CPU)?,
            counters: counters(table),
            sched: rows::thread_sched(table),
        })
    }
}

/// Checks that keys ascend within a table.
#[derive(Default)]
struct Order {
    before: Option<(ProcessKey, ThreadKey)>,
}

impl Order {
    fn check(&mut self, key: (ProcessKey, ThreadKey), table: &TableReader<'_>) -> Result<(), DecodeError> {
        if self.before.is_some_and(|before| before >= key) {
            return Err(table.error(Reason::Unsorted));
        }
        self.before = Some(key);
        Ok(())
    }
}

fn process_key(table: &TableReader<'_>) -> Result<ProcessKey, DecodeError> {
    Ok(ProcessKey { pid: table.narrow(PID)?, start_ns: table.value(PROCESS_START) })
}

fn counters(table: &TableReader<'_>) -> Counters {
    let (run_ns, user_ns) = (table.value(RUN), table.value(USER));
    let rest = unzigzag(table.value(SYSTEM_REST)).cast_unsigned();
    Counters {
        user_ns,
        system_ns: if table.has(SYSTEM) {
            table.value(SYSTEM)
        } else {
            run_ns.wrapping_sub(user_ns).wrapping_add(rest)
        },
        run_ns,
        run_delay_ns: table.value(RUN_DELAY),
        voluntary_switches: table.value(VOLUNTARY),
        involuntary_switches: table.value(INVOLUNTARY),
    }
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

/// The process's info, if the table has it.
fn info(table: &TableReader<'_>) -> Result<Option<InfoText>, DecodeError> {
    if !table.has(NAME) {
        return Ok(None);
    }
    Ok(Some(InfoText {
        name: table.span(NAME),
        comm: table.span(PROCESS_COMM),
        cmdline: table.span(CMDLINE),
        cgroup: table.span(CGROUP),
        container: table.span(CONTAINER),
        interpreter: table.span(INTERPRETER),
        user: table.span(USER_NAME),
        uid: table.narrow(UID)?,
        is_kernel: table.value(IS_KERNEL) != 0,
        session: optional(table, SESSION)?,
        base_priority: optional(table, BASE_PRIORITY)?,
        product: table.span(PRODUCT),
    }))
}

/// A number that is sent as one more, because 0 is none.
fn optional<T: TryFrom<u64>>(table: &TableReader<'_>, id: u8) -> Result<Option<T>, DecodeError> {
    let number = table.value(id).checked_sub(1).map(T::try_from).transpose();
    number.map_err(|_| table.out_of_range(id))
}
