//! The per-CPU modes of one interval as a small blob: a host with two CPUs takes a dozen bytes, and a row per CPU would cost
//! more than its threads. Layout: docs/store.md, "Modes per CPU".

use cpumon_model::{CpuInterval, CpuTimes, Interval};

use super::host_sched;
use super::values::TICK_NS;
use super::varint::{self, Cursor, Malformed};

/// Bit of the mask above the ten modes.
const WENT_BACK: u64 = 1 << 10;

/// Writes `cpus` to the end of `out`; nothing for an empty list.
pub(crate) fn encode(cpus: &[CpuInterval], out: &mut Vec<u8>) {
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
        let known =
            modes.iter().enumerate().filter(|(_, ns)| **ns != 0).fold(0, |mask, (bit, _)| mask | 1 << bit);
        varint::write(out, known | if cpu.went_back { WENT_BACK } else { 0 });
        modes.iter().filter(|ns| **ns != 0).for_each(|ns| varint::write(out, ns / unit));
    }
}

/// Reads what [`encode`] wrote, and [`host_sched`] behind it, into the interval in place of what it has.
pub(crate) fn decode(bytes: &[u8], interval: &mut Interval) -> Result<(), Malformed> {
    let mut cursor = Cursor::new(bytes);
    decode_modes(&mut cursor, &mut interval.cpus)?;
    host_sched::decode(&mut cursor, interval)
}

fn decode_modes(cursor: &mut Cursor<'_>, into: &mut Vec<CpuInterval>) -> Result<(), Malformed> {
    into.clear();
    if cursor.remaining() == 0 {
        return Ok(());
    }
    let unit = if cursor.u8()? & 1 == 0 { 1 } else { TICK_NS.cast_unsigned() };
    let count = cursor.count(2)?;
    let mut cpu = 0_u32;
    for _ in 0..count {
        cpu = cpu.wrapping_add(cursor.narrow()?);
        let mask = cursor.u64()?;
        let mut modes = [0_u64; 10];
        for (bit, ns) in modes.iter_mut().enumerate() {
            if mask & 1 << bit != 0 {
                *ns = cursor.u64()?.wrapping_mul(unit);
            }
        }
        let times = CpuTimes::from_array(modes);
        into.push(CpuInterval { cpu, times, went_back: mask & WENT_BACK != 0, ..CpuInterval::default() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn modes_come_back(rows in proptest::collection::vec((any::<u32>(), any::<[u64; 10]>(), any::<bool>(), 0..9_u64), 0..6)) {
            let cpus: Vec<_> = rows.iter().map(|(cpu, modes, went_back, ticks)| {
                let modes = modes.map(|ns| if *ticks > 2 { ticks * 10_000_000 } else { ns });
                CpuInterval { cpu: *cpu, times: CpuTimes::from_array(modes), went_back: *went_back, ..CpuInterval::default() }
            }).collect();
            let (mut bytes, mut back) = (Vec::new(), Interval::default());
            encode(&cpus, &mut bytes);
            decode(&bytes, &mut back).unwrap();
            prop_assert_eq!(back.cpus, cpus);
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let mut back = Interval::default();
            let _ = decode(&bytes, &mut back);
            prop_assert!(back.cpus.len() <= bytes.len());
        }
    }
}
