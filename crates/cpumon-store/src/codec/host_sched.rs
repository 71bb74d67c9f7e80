//! Scheduler and interrupt events of a host in one interval. Their bytes follow the modes per CPU, so they are read and written
//! wherever those are, and take no space where they are not measured. Layout: docs/store.md, "Scheduler's events".

use std::sync::Arc;

use cpumon_model::{CpuSched, DelayOf, Delays, Fields, Interval, IrqInterval, Probes, SourceHealth};

use super::cgroups::Cgroups;
use super::delays;
use super::varint::{self, Cursor, Malformed};

/// First byte behind the modes per CPU.
const FORMAT: u8 = 1;

/// Appends what is known to the modes per CPU in `out`.
pub(crate) fn encode(interval: &Interval, out: &mut Vec<u8>) {
    let has_drops = drops_of(&interval.health).iter().any(|drops| *drops > 0);
    let cgroups = Cgroups::of(interval);
    // What follows is written even as zeros.
    let has_drops = has_drops || cgroups.is_some();
    if !interval.fields.intersects(Fields::SCHED | Fields::IRQ | Fields::HISTOGRAMS) && !has_drops {
        return;
    }
    if interval.cpus.is_empty() {
        // In place of the modes: those of no CPU. The modes of the host are not the sum of those of its CPUs.
        out.extend([0, 0]);
    }
    out.push(FORMAT);
    let health = &interval.health;
    varint::write_signed(out, interval.ledger.unknown_ns);
    for number in [health.sched_untracked, health.sched_missed_switches, u64::from(health.probes.bits())] {
        varint::write(out, number);
    }
    for cpu in &interval.cpus {
        let sched = &cpu.sched;
        for number in [sched.unknown_ns, sched.run_queue_ns, u64::from(sched.run_queue_max), sched.switches] {
            varint::write(out, number);
        }
        let known = sched.softirq_ns.iter().enumerate().filter(|(_, ns)| **ns != 0);
        varint::write(out, known.fold(0, |mask, (kind, _)| mask | 1 << kind));
        sched.softirq_ns.iter().filter(|ns| **ns != 0).for_each(|ns| varint::write(out, *ns));
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
        for drops in drops_of(health) {
            varint::write(out, drops);
        }
    }
    if let Some(cgroups) = cgroups {
        cgroups.write(out);
    }
}

/// The part before the last, written only where something in it is not 0 or something follows.
fn drops_of(health: &SourceHealth) -> [u64; 6] {
    let lost = [health.ring_drops, health.execs_lost, health.endings_lost, health.cuts_lost];
    let [ring_drops, execs, endings, cuts] = lost;
    [ring_drops, execs, endings, cuts, health.hidden_left_out, health.wakeups_unknown]
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
        delays::write(out, histogram);
    }
}

/// Reads what follows the modes of the CPUs that `interval` has already; nothing is not known.
pub(crate) fn decode(cursor: &mut Cursor<'_>, interval: &mut Interval) -> Result<(), Malformed> {
    let names = std::mem::take(&mut interval.irqs);
    // Those of processes and threads stay: they were filled in before the CPUs.
    Cgroups::default().give(interval);
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
    for _ in 0..cursor.count(4)? {
        irq = irq.wrapping_add(cursor.narrow()?);
        let name = cursor.section()?;
        let length = name.remaining();
        let name = { name }.bytes(length)?;
        let (time_ns, count) = (cursor.u64()?, cursor.u64()?);
        let name = String::from_utf8_lossy(name);
        // Intervals name the same lines again and again.
        let known = names.iter().find(|row| *row.name == *name);
        let name = known.map_or_else(|| Arc::from(&*name), |row| Arc::clone(&row.name));
        interval.irqs.push(IrqInterval { irq, name, time_ns, count });
    }
    // Before schema version 4 nothing followed.
    if cursor.remaining() > 0 {
        decode_delays(cursor, interval)?;
    }
    // Before schema version 5 nothing followed here either; nothing follows where nothing was dropped.
    let mut number = || if cursor.remaining() > 0 { cursor.u64() } else { Ok(0) };
    let health = &mut interval.health;
    health.ring_drops = number()?;
    // Once their sum was all.
    health.execs_lost = number()?;
    health.endings_lost = number()?;
    health.cuts_lost = number()?;
    health.hidden_left_out = number()?;
    health.wakeups_unknown = number()?;
    // Before schema version 14 nothing followed.
    if cursor.remaining() > 0 {
        Cgroups::read(cursor)?.give(interval);
    }
    Ok(())
}

fn decode_delays(cursor: &mut Cursor<'_>, interval: &mut Interval) -> Result<(), Malformed> {
    interval.health.histogram_drops = cursor.u64()?;
    let mut cpu = 0_u32;
    for _ in 0..cursor.count(2)? {
        cpu = cpu.wrapping_add(cursor.narrow()?);
        let histogram = Arc::new(delays::read(cursor)?);
        interval.delays.push(Delays { of: DelayOf::Cpu(cpu), histogram });
    }
    // The list has those of processes and threads already, and must be ascending as a whole.
    interval.delays.sort_unstable_by_key(|row| row.of);
    Ok(())
}

fn decode_cpu(cursor: &mut Cursor<'_>) -> Result<CpuSched, Malformed> {
    let mut sched = CpuSched {
        unknown_ns: cursor.u64()?,
        run_queue_ns: cursor.u64()?,
        run_queue_max: cursor.narrow()?,
        switches: cursor.u64()?,
        ..CpuSched::default()
    };
    let mask = cursor.u64()?;
    for (kind, ns) in sched.softirq_ns.iter_mut().enumerate() {
        if mask & 1 << kind != 0 {
            *ns = cursor.u64()?;
        }
    }
    Ok(sched)
}

#[cfg(test)]
mod tests {
    use cpumon_model::{CpuInterval, Ledger};
    use proptest::prelude::*;

    use super::*;
    use crate::codec::cgroups::tests::any_cgroups;
    use crate::codec::cpus;

    prop_compose! {
        fn any_interval()(
            numbers in any::<[u64; 3]>(), unknown_ns in any::<i64>(), drops in 0..3_u64, ring_drops in prop::array::uniform6(0..2_u64), probes in any::<u16>(),
            cpus in prop::collection::vec((any::<[u64; 3]>(), any::<u32>(), any::<[u64; 10]>()), 0..4),
            cgroups in any_cgroups(), irqs in prop::collection::btree_map(any::<u32>(), ("\\PC{0,9}", any::<u64>(), any::<u64>()), 0..5),
        ) -> Interval {
            let mut interval = Interval {
                fields: Fields::SCHED | Fields::IRQ | if drops == 0 { Fields::empty() } else { Fields::HISTOGRAMS },
                ledger: Ledger { unknown_ns, ..Ledger::default() },
                ..Interval::default()
            };
            if drops > 0 {
                interval.health.histogram_drops = drops;
                let histogram = Arc::new([(9, drops), (255, 1)].into_iter().collect());
                let of = interval.cpus.first().map_or(0, |cpu| cpu.cpu) + 3;
                interval.delays = vec![Delays { of: DelayOf::Cpu(of), histogram }];
            }
            (interval.health.sched_untracked, interval.health.sched_missed_switches) = (numbers[0], numbers[1]);
            let health = &mut interval.health;
            [health.ring_drops, health.execs_lost, health.endings_lost, health.cuts_lost, health.hidden_left_out, health.wakeups_unknown] = ring_drops;
            if probes % 2 == 0 {
                interval.fields |= Fields::CGROUPS;
                cgroups.give(&mut interval);
            }
            interval.health.probes = Probes::from_bits_truncate(probes);
            interval.cpus = (0..).zip(cpus).map(|(cpu, (some, run_queue_max, softirq_ns))| {
                let [unknown_ns, run_queue_ns, switches] = some;
                let sched = CpuSched { unknown_ns, run_queue_ns, run_queue_max, switches, softirq_ns };
                CpuInterval { cpu, sched, ..CpuInterval::default() }
            }).collect();
            interval.irqs = irqs.into_iter().map(|(irq, (name, time_ns, count))| {
                IrqInterval { irq, name: name.into(), time_ns, count }
            }).collect();
            interval
        }
    }

    proptest! {
        #[test]
        fn it_comes_back_behind_the_cpus(interval in any_interval()) {
            let mut bytes = Vec::new();
            cpus::encode(&interval.cpus, &mut bytes);
            encode(&interval, &mut bytes);
            let mut back = Interval { fields: interval.fields, ..Interval::default() };
            cpus::decode(&bytes, &mut back).unwrap();
            prop_assert_eq!(back, interval);
        }

        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let mut back = Interval { cpus: vec![CpuInterval::default()], ..Interval::default() };
            let _ = decode(&mut Cursor::new(&bytes), &mut back);
            prop_assert!(back.irqs.len() <= bytes.len());
        }
    }
}
