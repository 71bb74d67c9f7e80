//! A host's state in one interval beside its tasks, as a small blob: the modes per CPU, then scheduler and interrupt events, then control
//! groups with their limits and pressure, then waits by who ended them. A host with two CPUs takes a dozen bytes, and unmeasured parts take
//! none. Layout: docs/store.md, "Modes per CPU", "Scheduler's events", "Limits" and "Waits by who ended them".

use std::ops::AddAssign;
use std::sync::Arc;

use cpumon_model::{
    CgroupInterval, CpuInterval, CpuLimit, CpuSched, CpuTimes, DelayOf, Delays, Fields, Interval,
    IrqInterval, MAX_CGROUPS, Pressure, Probes, SourceHealth, Throttle, WaitFor,
};

use super::sched::{HistogramLimit, write_histogram};
use super::varint::{self, Malformed, VarintCursor};
use super::waits_for::WaitsFor;
use super::{
    FREE_GROUP_BYTES, GROUP_TIMES, MAX_CPUS, MAX_GROUP_BYTES, MAX_IRQS, MAX_SUM_GROUPS, Packed, TICK_NS,
};

/// Bit above those of the ten modes: a counter of the CPU went back.
const WENT_BACK: u64 = 1 << 10;
/// First byte behind the modes per CPU.
const FORMAT: u8 = 1;
/// Bits for the known parts of a control group.
const HAS_THROTTLE: u8 = 1;
const HAS_PRESSURE: u8 = 2;
/// Longest path that a writer is given, bytes: sources cut at 4,096.
const MAX_PATH_BYTES: usize = 8_192;
/// Most bytes that the groups of an interval take: no source measures more groups, or finds files at longer paths. What a blob is packed in
/// explains no more, because a full chunk of them packs to some kB.
const MAX_INTERVAL_GROUP_BYTES: usize = MAX_CGROUPS * group_bytes(4_096);

pub(crate) fn encode(interval: &Interval, out: &mut Vec<u8>) {
    encode_modes(&interval.cpus, out);
    encode_events(interval, out);
}

/// Writes nothing for an empty list.
fn encode_modes(cpus: &[CpuInterval], out: &mut Vec<u8>) {
    if cpus.is_empty() {
        return;
    }
    let in_ticks =
        cpus.iter().all(|cpu| cpu.times.to_array().iter().all(|mode| mode % TICK_NS.cast_unsigned() == 0));
    out.push(u8::from(in_ticks));
    let unit = if in_ticks { TICK_NS.cast_unsigned() } else { 1 };
    varint::write(out, cpus.len() as u64);
    let mut previous = 0_u32;
    for cpu in cpus {
        // The number of each CPU, not only how many there are: some may be offline.
        varint::write(out, u64::from(cpu.cpu.wrapping_sub(previous)));
        previous = cpu.cpu;
        let modes = cpu.times.to_array();
        varint::write_known(out, if cpu.went_back { WENT_BACK } else { 0 }, &modes, unit);
    }
}

/// Decodes a blob of [`encode`], and replaces those parts of the interval.
pub(crate) fn decode(bytes: &[u8], interval: &mut Interval) -> Result<(), Malformed> {
    let mut cursor = VarintCursor::new(bytes);
    decode_modes(&mut cursor, &mut interval.cpus)?;
    decode_events(&mut cursor, interval, true)
}

/// [`decode`] without the waits, of which an interval has hundreds: for those who do not ask for scheduler events.
pub(crate) fn decode_without_waits(bytes: &[u8], interval: &mut Interval) -> Result<(), Malformed> {
    let mut cursor = VarintCursor::new(bytes);
    decode_modes(&mut cursor, &mut interval.cpus)?;
    decode_events(&mut cursor, interval, false)
}

fn decode_modes(cursor: &mut VarintCursor<'_>, into: &mut Vec<CpuInterval>) -> Result<(), Malformed> {
    into.clear();
    if cursor.remaining() == 0 {
        return Ok(());
    }
    let unit = if cursor.u8()? & 1 == 0 { 1 } else { TICK_NS.cast_unsigned() };
    let count = cursor.count_to(2, MAX_CPUS, "more CPUs than a host has")?;
    let mut cpu = 0_u32;
    for _ in 0..count {
        cpu = cpu.wrapping_add(cursor.narrow()?);
        let mask = cursor.u64()?;
        let mut modes = [0_u64; 10];
        cursor.known(mask, unit, &mut modes)?;
        let times = CpuTimes::from_array(modes);
        into.push(CpuInterval { cpu, times, went_back: mask & WENT_BACK != 0, ..CpuInterval::default() });
    }
    Ok(())
}

/// Appends the known events, control groups and waits to the modes per CPU in `out`.
fn encode_events(interval: &Interval, out: &mut Vec<u8>) {
    let mut health = interval.health;
    let drops = drops_of(&mut health).map(|drops| *drops);
    let has_drops = drops.iter().any(|drops| *drops > 0);
    let waits_for = WaitsFor::of(interval);
    // What follows is written even as zeros.
    let cgroups = Cgroups::of(interval).or_else(|| waits_for.is_some().then(Cgroups::default));
    let has_drops = has_drops || cgroups.is_some();
    if !interval.fields.intersects(Fields::SCHED | Fields::IRQ | Fields::HISTOGRAMS) && !has_drops {
        return;
    }
    if interval.cpus.is_empty() {
        // Instead of the modes: a list of no CPUs. The modes of the host are not the sum over its CPUs.
        out.extend([0, 0]);
    }
    out.push(FORMAT);
    varint::write_signed(out, interval.ledger.unknown_ns);
    for number in [health.sched_untracked, health.sched_missed_switches, u64::from(health.probes.bits())] {
        varint::write(out, number);
    }
    for cpu in &interval.cpus {
        let sched = &cpu.sched;
        for number in [sched.unknown_ns, sched.run_queue_ns, u64::from(sched.run_queue_max), sched.switches] {
            varint::write(out, number);
        }
        varint::write_known(out, 0, &sched.softirq_ns, 1);
    }
    varint::write(out, interval.irqs.len() as u64);
    let mut before = 0;
    for irq in &interval.irqs {
        varint::write(out, u64::from(irq.irq.wrapping_sub(before)));
        before = irq.irq;
        varint::write_section(out, irq.name.as_bytes());
        varint::write(out, irq.time_ns);
        varint::write(out, irq.count);
    }
    // The drops follow the histograms, so with drops the counts of histograms are written even as zeros.
    if interval.fields.contains(Fields::HISTOGRAMS) || has_drops {
        encode_delays(interval, out);
    }
    if has_drops {
        for count in drops {
            varint::write(out, count);
        }
    }
    if let Some(cgroups) = cgroups {
        cgroups.write(out);
    }
    if let Some(waits_for) = waits_for {
        waits_for.write(WaitFor::MAX_ROWS, out);
    }
}

/// The part before control groups, written only where something in it is not 0 or something follows.
fn drops_of(health: &mut SourceHealth) -> [&mut u64; 6] {
    let SourceHealth { ring_drops, execs_lost, endings_lost, cuts_lost, .. } = health;
    let (hidden, unknown) = (&mut health.hidden_left_out, &mut health.wakeups_unknown);
    [ring_drops, execs_lost, endings_lost, cuts_lost, hidden, unknown]
}

fn encode_delays(interval: &Interval, out: &mut Vec<u8>) {
    varint::write(out, interval.health.histogram_drops);
    let of_cpus = || {
        let rows = interval.delays.iter();
        rows.filter_map(|row| if let DelayOf::Cpu(cpu) = row.of { Some((cpu, &row.histogram)) } else { None })
    };
    varint::write(out, of_cpus().count() as u64);
    let mut before = 0;
    for (cpu, histogram) in of_cpus() {
        varint::write(out, u64::from(cpu.wrapping_sub(before)));
        before = cpu;
        write_histogram(out, histogram);
    }
}

/// Reads what follows the modes of the CPUs that `interval` has already; nothing is not known.
pub(super) fn decode_events(
    cursor: &mut VarintCursor<'_>,
    interval: &mut Interval,
    with_waits: bool,
) -> Result<(), Malformed> {
    let names = std::mem::take(&mut interval.irqs);
    // Those of processes and threads stay: they were filled in before the CPUs.
    Cgroups::default().give(interval);
    WaitsFor::default().give(interval);
    interval.delays.retain(|row| !matches!(row.of, DelayOf::Cpu(_)));
    if cursor.remaining() == 0 {
        return Ok(());
    }
    if cursor.u8()? != FORMAT {
        // A later version may have another layout here. The modes before it are read all the same.
        return Ok(());
    }
    interval.ledger.unknown_ns = cursor.i64()?;
    interval.health.sched_untracked = cursor.u64()?;
    interval.health.sched_missed_switches = cursor.u64()?;
    interval.health.probes = Probes::from_bits_truncate(cursor.narrow()?);
    for cpu in &mut interval.cpus {
        cpu.sched = decode_cpu(cursor)?;
    }
    let mut irq = 0_u32;
    for at in 0..cursor.count_to(4, MAX_IRQS, "more interrupt lines than a host has")? {
        irq = irq.wrapping_add(cursor.narrow()?);
        let name = cursor.section_bytes()?;
        let (time_ns, count) = (cursor.u64()?, cursor.u64()?);
        let name = String::from_utf8_lossy(name);
        // Intervals name the same lines again and again, mostly in the same places. They ascend.
        let known = names.get(at).filter(|row| row.irq == irq);
        let known = known.or_else(|| names.get(names.binary_search_by_key(&irq, |row| row.irq).ok()?));
        let known = known.filter(|row| *row.name == *name);
        let name = known.map_or_else(|| Arc::from(&*name), |row| Arc::clone(&row.name));
        interval.irqs.push(IrqInterval { irq, name, time_ns, count });
    }
    // Before schema version 4 nothing followed.
    if cursor.remaining() > 0 {
        decode_delays(cursor, interval)?;
    }
    // Before schema version 5 nothing followed here either; nothing follows where nothing was dropped. Early writers stored only the first
    // number, then the sum of the next three.
    for drops in drops_of(&mut interval.health) {
        *drops = if cursor.remaining() > 0 { cursor.u64()? } else { 0 };
    }
    // Before schema version 14 nothing followed.
    if cursor.remaining() > 0 {
        Cgroups::read(cursor, MAX_INTERVAL_GROUP_BYTES)?.give(interval);
    }
    // Before schema version 20 nothing followed.
    if with_waits && cursor.remaining() > 0 {
        WaitsFor::read(cursor)?.give(interval);
    }
    Ok(())
}

fn decode_delays(cursor: &mut VarintCursor<'_>, interval: &mut Interval) -> Result<(), Malformed> {
    interval.health.histogram_drops = cursor.u64()?;
    let mut limit = HistogramLimit::default();
    let mut cpu = 0_u32;
    for _ in 0..cursor.count(2)? {
        cpu = cpu.wrapping_add(cursor.narrow()?);
        let histogram = limit.read(cursor)?;
        interval.delays.push(Delays { of: DelayOf::Cpu(cpu), histogram });
    }
    // The list has those of processes and threads already, and must be ascending as a whole.
    interval.delays.sort_unstable_by_key(|row| row.of);
    Ok(())
}

fn decode_cpu(cursor: &mut VarintCursor<'_>) -> Result<CpuSched, Malformed> {
    let mut sched = CpuSched {
        unknown_ns: cursor.u64()?,
        run_queue_ns: cursor.u64()?,
        run_queue_max: cursor.narrow()?,
        switches: cursor.u64()?,
        ..CpuSched::default()
    };
    let mask = cursor.u64()?;
    cursor.known(mask, 1, &mut sched.softirq_ns)?;
    Ok(sched)
}

/// Known state of the control groups of an interval, or of several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cgroups {
    /// Pressure of the whole host.
    pub(crate) pressure: Option<Pressure>,
    pub(crate) left_out: u32,
    /// Ascending by path, each path once.
    pub(crate) rows: Vec<CgroupInterval>,
}

impl Cgroups {
    /// The groups of an interval; `None` if neither groups nor the pressure of the host are known.
    pub(crate) fn of(interval: &Interval) -> Option<Self> {
        let is_known = interval.fields.contains(Fields::CGROUPS) || interval.pressure.is_some();
        is_known.then(|| {
            let mut of = Self {
                pressure: interval.pressure,
                left_out: interval.cgroups_left_out,
                rows: interval.cgroups.clone(),
            };
            of.rows.sort_by(|one, other| one.path.cmp(&other.path));
            of.rows.dedup_by(|one, other| one.path == other.path);
            of
        })
    }

    /// Moves the groups into an interval.
    pub(crate) fn give(self, interval: &mut Interval) {
        (interval.pressure, interval.cgroups_left_out) = (self.pressure, self.left_out);
        interval.cgroups = self.rows;
    }

    fn write(&self, out: &mut Vec<u8>) {
        varint::write(out, u64::from(self.pressure.is_some()));
        if let Some(pressure) = self.pressure {
            write_pressure(pressure, out);
        }
        varint::write(out, u64::from(self.left_out));
        varint::write(out, self.rows.len() as u64);
        let mut before: &[u8] = &[];
        for row in &self.rows {
            let path = row.path.as_bytes();
            // Groups of one service or pod have most of their paths in common.
            let shared = path.iter().zip(before).take_while(|(one, other)| one == other).count();
            varint::write(out, shared as u64);
            varint::write_section(out, &path[shared..]);
            before = path;
            varint::write(out, row.limit.code());
            varint::write(out, u64::from(row.limiter_bytes));
            let bit = |is_known: bool, bit: u8| if is_known { bit } else { 0 };
            out.push(bit(row.throttle.is_some(), HAS_THROTTLE) | bit(row.pressure.is_some(), HAS_PRESSURE));
            if let Some(throttle) = row.throttle {
                let Throttle { periods, throttled_periods, throttled_ns } = throttle;
                for value in [periods, throttled_periods, throttled_ns] {
                    varint::write(out, value);
                }
            }
            if let Some(pressure) = row.pressure {
                write_pressure(pressure, out);
            }
        }
    }

    /// `bytes_left`: the most that the groups take.
    fn read(cursor: &mut VarintCursor<'_>, mut bytes_left: usize) -> Result<Self, Malformed> {
        let pressure = if cursor.u64()? == 0 { None } else { Some(read_pressure(cursor)?) };
        let left_out = cursor.narrow()?;
        let mut rows = Vec::new();
        let mut path: Vec<u8> = Vec::new();
        for _ in 0..cursor.count(5)? {
            // No longer than the path before, whatever the bytes claim.
            path.truncate(cursor.narrow()?);
            path.extend_from_slice(cursor.section_bytes()?);
            // A chain of prefixes must not make more memory than there are bytes for.
            if path.len() > MAX_PATH_BYTES {
                return Err(cursor.malformed("a path that is too long"));
            }
            let left = bytes_left.checked_sub(group_bytes(path.len()));
            bytes_left = left.ok_or_else(|| cursor.malformed("more control groups than a host has"))?;
            let (limit, limiter_bytes) = (CpuLimit::from_code(cursor.u64()?), cursor.narrow()?);
            let known = cursor.u8()?;
            let throttle = if known & HAS_THROTTLE == 0 {
                None
            } else {
                let (periods, throttled_periods, throttled_ns) =
                    (cursor.u64()?, cursor.u64()?, cursor.u64()?);
                Some(Throttle { periods, throttled_periods, throttled_ns })
            };
            let pressure = if known & HAS_PRESSURE == 0 { None } else { Some(read_pressure(cursor)?) };
            // Whole paths are text, whatever a part of one is. Making text of other bytes takes three times the memory, slowly.
            let text = std::str::from_utf8(&path).map_err(|_| cursor.malformed("a path that is not text"))?;
            let path = Arc::from(text);
            rows.push(CgroupInterval { id: 0, path, limit, limiter_bytes, throttle, pressure });
        }
        Ok(Self { pressure, left_out, rows })
    }
}

/// Memory of a control group, by the length of its path.
const fn group_bytes(path_bytes: usize) -> usize {
    size_of::<CgroupInterval>() + path_bytes
}

impl AddAssign<&Cgroups> for Cgroups {
    /// Adds another interval, or a sum of some. A limit is that of the later one added. Further groups than a sum may have are left out, and
    /// counted.
    fn add_assign(&mut self, more: &Cgroups) {
        if let Some(pressure) = more.pressure {
            self.pressure.get_or_insert_default().add(pressure);
        }
        let (known, mut left_out) = (self.rows.len(), more.left_out);
        let mut bytes: usize = self.rows.iter().map(|row| group_bytes(row.path.len())).sum();
        for row in &more.rows {
            let row_bytes = group_bytes(row.path.len());
            match self.rows[..known].binary_search_by(|other| other.path.cmp(&row.path)) {
                Ok(at) => self.rows[at].add(row),
                Err(_) if self.rows.len() < MAX_SUM_GROUPS && bytes + row_bytes <= FREE_GROUP_BYTES => {
                    bytes += row_bytes;
                    self.rows.push(row.clone());
                }
                Err(_) => left_out = left_out.saturating_add(1),
            }
        }
        self.left_out = self.left_out.max(left_out);
        if self.rows.len() == known {
            return;
        }
        // Two ascending lists, which a stable sort merges: an insertion for each new group would move all behind it.
        self.rows.sort_by(|one, other| one.path.cmp(&other.path));
        // Damaged bytes may have a group twice.
        self.rows.dedup_by(|later, row| {
            let is_same = later.path == row.path;
            if is_same {
                row.add(later);
            }
            is_same
        });
    }
}

impl Packed for Cgroups {
    const COLUMN: &'static str = "cgroups";
    const WORDS: &'static str = "control groups";

    fn pack(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.write(&mut out);
        out
    }

    fn unpack(bytes: &[u8]) -> Result<Self, Malformed> {
        let explained = GROUP_TIMES.saturating_mul(bytes.len()).saturating_add(FREE_GROUP_BYTES);
        Self::read(&mut VarintCursor::new(bytes), explained.min(MAX_GROUP_BYTES))
    }
}

fn write_pressure(pressure: Pressure, out: &mut Vec<u8>) {
    varint::write(out, pressure.some_ns);
    varint::write(out, pressure.full_ns);
}

fn read_pressure(cursor: &mut VarintCursor<'_>) -> Result<Pressure, Malformed> {
    Ok(Pressure { some_ns: cursor.u64()?, full_ns: cursor.u64()? })
}

#[cfg(test)]
mod tests;
