//! Frames made of a fuzzer's bytes: snapshots of any tasks as an agent's encoder writes them, and tables of any columns whose
//! lengths fit, up to the longest datagram.

use std::sync::Arc;

use cpumon_model::{
    BootId, CgroupSample, Comm, Counters, CpuLimit, CpuSample, DelayOf, Delays, ExitSample, Fields, HostId, HostInfo, Interval, IrqSample,
    Moment, Pressure, ProcessInfo, ProcessKey, ProcessSample, Snapshot, ThreadKey, ThreadSample, Throttle, WaitFor, WaitKind, WaitedOn,
};
use cpumon_wire::Datagrams;
use cpumon_wire::v2::{Encoder, EncoderOptions, HEADER_BYTES, MAGIC, VERSION};
use libfuzzer_sys::arbitrary::{Result, Unstructured};

const MAX_DATAGRAM: usize = 65_507;

/// Mostly small, as most counters are.
fn value(from: &mut Unstructured<'_>) -> Result<u64> {
    Ok(match from.int_in_range(0..=7)? {
        0 => 0,
        1..=3 => from.arbitrary::<u8>()?.into(),
        4 | 5 => from.arbitrary::<u16>()?.into(),
        6 => from.arbitrary::<u32>()?.into(),
        _ => from.arbitrary()?,
    })
}

fn id(from: &mut Unstructured<'_>) -> Result<u32> {
    Ok(if from.ratio(1, 16)? { from.arbitrary()? } else { from.int_in_range(0..=40)? })
}

fn process_key(from: &mut Unstructured<'_>) -> Result<ProcessKey> {
    Ok(ProcessKey { pid: id(from)?, start_ns: from.int_in_range(0..=2)? })
}

fn thread_key(from: &mut Unstructured<'_>) -> Result<ThreadKey> {
    Ok(ThreadKey { tid: id(from)?, start_ns: from.int_in_range(0..=2)? })
}

fn counters(from: &mut Unstructured<'_>) -> Result<Counters> {
    Ok(Counters {
        run_ns: value(from)?,
        user_ns: value(from)?,
        system_ns: value(from)?,
        run_delay_ns: value(from)?,
        voluntary_switches: value(from)?,
        involuntary_switches: value(from)?,
        minor_faults: value(from)?,
        major_faults: value(from)?,
    })
}

fn thread(from: &mut Unstructured<'_>) -> Result<ThreadSample> {
    Ok(ThreadSample {
        key: thread_key(from)?,
        process: process_key(from)?,
        comm: Comm::new(&from.arbitrary::<[u8; 5]>()?),
        nice: from.arbitrary()?,
        last_cpu: from.arbitrary()?,
        counters: counters(from)?,
        ..ThreadSample::default()
    })
}

fn info(from: &mut Unstructured<'_>) -> Result<Arc<ProcessInfo>> {
    let long = "x".repeat(if from.ratio(1, 20)? { from.int_in_range(0..=70_000)? } else { 0 });
    let name: &str = from.arbitrary()?;
    Ok(Arc::new(ProcessInfo { name: name.into(), cmdline: long.into(), uid: id(from)?, ..ProcessInfo::default() }))
}

fn list<T>(from: &mut Unstructured<'_>, make: impl Fn(&mut Unstructured<'_>) -> Result<T>) -> Result<Vec<T>> {
    let most = if from.ratio(1, 10)? { 300 } else { 6 };
    (0..from.int_in_range(0..=most)?).map(|_| make(from)).collect()
}

fn moment(number: u64) -> Moment {
    let ns = (number + 1) * 1_000_000_000;
    Moment { mono_ns: ns, boot_ns: ns, wall_ns: ns.cast_signed() }
}

fn snapshot(from: &mut Unstructured<'_>, sequence: u64) -> Result<Snapshot> {
    let mut made = Snapshot {
        host: HostId([from.int_in_range(1..=3)?; 16]),
        boot: BootId([from.int_in_range(1..=2)?; 16]),
        sequence,
        fields: if from.arbitrary()? { Fields::all() } else { Fields::FIRST_RELEASE },
        is_complete: from.arbitrary()?,
        begin: moment(sequence),
        end: moment(sequence),
        ..Snapshot::default()
    };
    made.cpus = list(from, |from| Ok(CpuSample { cpu: from.arbitrary()?, ..CpuSample::default() }))?;
    made.processes = list(from, |from| {
        Ok(ProcessSample { key: process_key(from)?, info: info(from)?, ended_threads: counters(from)?, parent_pid: id(from)? })
    })?;
    made.threads = list(from, thread)?;
    made.exits = list(from, |from| {
        let (thread, info) = (thread(from)?, info(from)?);
        Ok(ExitSample { thread, info, parent_pid: id(from)?, end_ns: value(from)?, ends_process: from.arbitrary()? })
    })?;
    made.gone = list(from, thread_key)?;
    made.irqs = list(from, |from| {
        let name: &str = from.arbitrary()?;
        Ok(IrqSample { irq: id(from)?, name: name.into(), time_ns: value(from)?, count: value(from)? })
    })?;
    made.delays = list(from, |from| {
        let of = match from.int_in_range(0..=2)? {
            0 => DelayOf::Cpu(from.arbitrary()?),
            1 => DelayOf::Process(process_key(from)?),
            _ => DelayOf::Thread(process_key(from)?, thread_key(from)?),
        };
        let buckets = list(from, |from| Ok((from.arbitrary()?, value(from)?)))?;
        Ok(Delays { of, histogram: Arc::new(sorted(buckets, |row| row.0).into_iter().collect()) })
    })?;
    made.cgroups = list(from, cgroup)?;
    made.cgroups_left_out = from.arbitrary()?;
    made.waits_for = list(from, wait_for)?;
    made.pressure = pressure(from)?;
    made.cpus = sorted(made.cpus, |row| row.cpu);
    made.processes = sorted(made.processes, |row| row.key);
    made.threads = sorted(made.threads, |row| row.key);
    made.exits = sorted(made.exits, |row| row.thread.key);
    made.gone = sorted(made.gone, |row| *row);
    made.irqs = sorted(made.irqs, |row| row.irq);
    made.delays = sorted(made.delays, |row| row.of);
    made.cgroups = sorted(made.cgroups, |row| row.id);
    made.waits_for = sorted(made.waits_for, WaitFor::key);
    (made.thread_count, made.process_count) = (made.threads.len() as u32, made.processes.len() as u32);
    Ok(made)
}

fn pressure(from: &mut Unstructured<'_>) -> Result<Option<Pressure>> {
    let is_known: bool = from.arbitrary()?;
    let pressure = Pressure { some_ns: value(from)?, full_ns: value(from)? };
    Ok(is_known.then_some(pressure))
}

fn cgroup(from: &mut Unstructured<'_>) -> Result<CgroupSample> {
    let path: &str = from.arbitrary()?;
    let is_known: bool = from.arbitrary()?;
    let throttle = Throttle { periods: value(from)?, throttled_periods: value(from)?, throttled_ns: value(from)? };
    Ok(CgroupSample {
        id: id(from)?.into(),
        path: path.into(),
        limit: CpuLimit::from_code(value(from)?),
        limiter_bytes: from.arbitrary()?,
        throttle: is_known.then_some(throttle),
        pressure: pressure(from)?,
    })
}

fn wait_for(from: &mut Unstructured<'_>) -> Result<WaitFor> {
    Ok(WaitFor {
        waiter: process_key(from)?,
        kind: WaitKind::from_code(value(from)?),
        on: WaitedOn::from_code(from.int_in_range(0..=4)?, id(from)?, from.int_in_range(0..=2)?),
        ns: value(from)?,
        count: value(from)?,
    })
}

/// As a source gives its lists: ascending, each key once.
fn sorted<T, K: Ord>(mut list: Vec<T>, key: impl Fn(&T) -> K) -> Vec<T> {
    list.sort_by_key(&key);
    list.dedup_by(|a, b| key(a) == key(b));
    list
}

/// Some snapshots of an agent.
pub fn encoded(from: &mut Unstructured<'_>, first: u64) -> Result<Vec<Vec<u8>>> {
    let max_datagram = [768, 1_400, 65_000][from.int_in_range(0..=2)?];
    let is_lossless = from.arbitrary()?;
    let agent_start = from.int_in_range(0..=2)?;
    let mut encoder = Encoder::new(EncoderOptions { max_datagram, is_lossless, agent_start, ..EncoderOptions::default() });
    let (mut before, mut all) = (Snapshot::default(), Vec::new());
    for sequence in first..first + from.int_in_range(1..=4)? {
        let now = snapshot(from, sequence)?;
        let host = HostInfo { host: now.host, boot: now.boot, ..HostInfo::default() };
        let mut frames = Datagrams::new();
        encoder.encode(&host, &now, &Interval::between(&before, &now), &mut frames);
        all.extend(frames.iter().map(|frame| frame.to_vec()));
        before = now;
    }
    Ok(all)
}

/// A table of any columns: as many bytes of rows as it says, taken from the input again and again.
fn table(from: &mut Unstructured<'_>, most: usize) -> Result<Vec<u8>> {
    let columns = if from.ratio(1, 10)? { 64 } else { 6 };
    let columns: Vec<[u8; 3]> = (0..from.int_in_range(1..=columns)?)
        .map(|_| {
            // Kind, prefix and width as they may be, in all numbers of columns.
            let (kind, width) = (from.int_in_range(0_u16..=3)?, from.int_in_range(0_u16..=20)?);
            let prefix = if kind == 0 { 0 } else { from.int_in_range(0_u16..=3)? };
            let zero = if kind == 0 { 0 } else { u16::from(from.arbitrary::<bool>()?) };
            let [low, high] = (kind | prefix << 2 | width << 5 | zero << 12).to_le_bytes();
            Ok([from.int_in_range(0..=151)?, low, high])
        })
        .collect::<Result<_>>()?;
    let pattern: Vec<u8> = (0..from.int_in_range(1..=40)?).map(|_| from.arbitrary()).collect::<Result<_>>()?;
    let length = if from.ratio(1, 4)? { from.int_in_range(0..=60_000)? } else { from.int_in_range(0..=200)? };
    let groups = if from.ratio(1, 4)? { from.int_in_range(0..=columns.len())? } else { 0 };
    let rows: u16 = if from.arbitrary()? { from.int_in_range(0..=50)? } else { from.arbitrary()? };
    let mut body = vec![columns.len() as u8, groups as u8];
    body.extend(columns.concat());
    body.extend(rows.to_le_bytes());
    body.extend(pattern.iter().cycle().take(length.min(most.saturating_sub(body.len() + 8))));
    let mut section = vec![from.int_in_range(1..=11)?];
    section.extend((body.len() as u16).to_le_bytes());
    section.extend(body);
    Ok(section)
}

/// A frame of any tables behind a sound header.
pub fn framed(from: &mut Unstructured<'_>, sequence: u64) -> Result<Vec<u8>> {
    let mut frame = Vec::with_capacity(1_024);
    frame.extend(MAGIC);
    frame.extend([VERSION, HEADER_BYTES as u8, u8::from(from.arbitrary::<bool>()?), 0]);
    frame.extend([from.int_in_range(1_u8..=3)?; 16]);
    frame.extend([from.int_in_range(1_u8..=2)?; 16]);
    frame.extend(from.int_in_range(0_u32..=2)?.to_le_bytes());
    frame.extend(sequence.to_le_bytes());
    let fragments = from.int_in_range(1_u16..=3)?;
    frame.extend(from.int_in_range(0..=fragments - 1)?.to_le_bytes());
    frame.extend(fragments.to_le_bytes());
    let end = moment(sequence);
    frame.extend([end.mono_ns, end.boot_ns, end.wall_ns.cast_unsigned()].map(u64::to_le_bytes).concat());
    frame.extend(from.arbitrary::<u32>()?.to_le_bytes());
    frame.extend([2, from.int_in_range(0..=5)?, 0]);
    for _ in 0..from.int_in_range(1..=4)? {
        let table = table(from, MAX_DATAGRAM - frame.len())?;
        if frame.len() + table.len() <= MAX_DATAGRAM {
            frame.extend(table);
        }
    }
    Ok(frame)
}

/// Changes some bytes.
pub fn change(from: &mut Unstructured<'_>, bytes: &mut [u8]) -> Result<()> {
    for _ in 0..from.int_in_range(0..=3)? {
        if let Some(most) = bytes.len().checked_sub(1) {
            bytes[from.int_in_range(0..=most)?] ^= from.arbitrary::<u8>()?;
        }
    }
    Ok(())
}
