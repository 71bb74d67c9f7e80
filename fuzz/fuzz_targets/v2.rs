//! v2 frames: any bytes are refused or taken; the header is put in front so that the fuzzer spends its time on tables.
#![no_main]

use cpumon_wire::v2::{HEADER_BYTES, MAGIC, VERSION, decode};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = decode(bytes);
    let mut framed = [0; HEADER_BYTES].to_vec();
    framed[..4].copy_from_slice(&MAGIC);
    framed[4] = VERSION;
    framed[5] = HEADER_BYTES as u8;
    framed[54] = 1;
    framed.extend_from_slice(bytes);
    if let Ok(frame) = decode(&framed) {
        for row in &frame.processes {
            let _ = row.info.map(|info| frame.info(&info));
        }
        for row in &frame.irqs {
            let _ = frame.irq_name(row);
        }
        for about in frame.cgroups.iter().filter_map(|row| row.about) {
            let _ = frame.cgroup_path(&about);
        }
    }
});
