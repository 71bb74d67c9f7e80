//! A trace of Perfetto: any bytes, and any events, columns and processes in sound packets, plain and compressed.
#![no_main]

mod cost;

#[path = "../../crates/cpumon-trace-import/tests/it/made_perfetto.rs"]
mod made_perfetto;

use std::io::Cursor;

use cpumon_trace::{ReportBy, TraceRange, TraceSource, analyse};
use cpumon_trace_import::AnyTrace;
use libfuzzer_sys::fuzz_target;
use made_perfetto::{
    bundle, bytes, clocks, compact, compressed, event, new_task, number, packet, processes, release, switch, waking,
};

fn read(bytes: &[u8]) {
    cost::within(bytes.len(), || report(bytes));
}

fn report(bytes: &[u8]) {
    let Ok(mut trace) = AnyTrace::open(Cursor::new(bytes)) else { return };
    let Ok((report, _ending)) = analyse(&mut trace, TraceRange::default()) else { return };
    let totals = report.totals();
    assert!(totals.ledger.capacity_ns() <= totals.length_ns.saturating_mul(totals.cpus));
    let _ = report.rows(ReportBy::Process, trace.tasks());
}

/// Four bytes of input make a part: the first selects its kind, the first two set how far the time advances.
fn packets(mut rest: &[u8]) -> Vec<u8> {
    let (mut out, mut at_ns, mut held) = (clocks(1, 1_700_000_000_000_000_000), 1, Vec::new());
    let (mut switches, mut wakings) = (Vec::new(), Vec::new());
    while let Some((&[what, step, first, second], behind)) = rest.split_first_chunk() {
        rest = behind;
        at_ns += u64::from(step) << (what >> 4) * 3;
        let (first, second) = (u64::from(first), u64::from(second));
        match what % 16 {
            0..3 => held.extend(switch(at_ns, (first % 8, "a"), second, (second % 8, "b"))),
            3 => held.extend(waking(at_ns, [17, 20, 114][what as usize / 16 % 3], first % 8, (second % 8, "c"), first)),
            4 => held.extend(new_task(at_ns, first % 8, (second % 8, "d"), first << 12)),
            5 => held.extend(event(at_ns, first, [24, 25, 36, 37][what as usize / 16 % 4], &number(1, second % 4))),
            6 => held.extend(event(at_ns, first, 235 + second % 5, &rest[..rest.len().min(20)])),
            7..10 => switches.push([at_ns, first % 8, first % 3, second]),
            10 => wakings.push([at_ns, first % 8, first % 3, second]),
            11 => out.extend(processes(at_ns, &[(first % 8, second % 4, "/bin/e")], &[(second % 8, first % 8, "f")])),
            12 => out.extend(packet(&bytes(first % 60, &rest[..rest.len().min(40)]))),
            13 => out.extend(release(["4.9", "6.1", "x"][what as usize / 16 % 3])),
            _ => {
                held.extend(compact(&["g", "", "h"], &switches, &wakings));
                out.extend(bundle(first % 4, second % 4 == 0, &held));
                held.clear();
                switches.clear();
                wakings.clear();
            }
        }
    }
    held.extend(compact(&["g", "", "h"], &switches, &wakings));
    out.extend(bundle(0, false, &held));
    out
}

fuzz_target!(|bytes: &[u8]| {
    read(bytes);
    let mut any = clocks(1, 2);
    any.extend(bytes);
    read(&any);
    read(&bundle(0, false, bytes));
    let mut packets = packets(bytes);
    read(&packets);
    read(&compressed(&packets));
    for change in bytes.chunks_exact(4).take(8) {
        let at = usize::from(u16::from_le_bytes([change[0], change[1]])) % packets.len();
        packets[at] ^= change[2];
    }
    read(&packets);
});
