//! Answers of Windows about processes, threads and CPUs: any bytes, through to a snapshot.
#![no_main]

use cpumon_collect::nt::{Base, Passes, ProcessRow, Processes, ThreadRow, read_cpus};
use cpumon_model::{ProcessInfo, Snapshot};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut into = Snapshot::default();
    let mut passes = Passes::new(Base(1));
    let _ = read_cpus(bytes, 0, &mut into.cpus);
    // At address 0 names are offsets, which a fuzzer finds.
    for record in Processes::new(bytes, 0).map_while(Result::ok) {
        let row = ProcessRow::from(&record);
        passes.add(&row, record.threads().map(ThreadRow::from), ProcessInfo::default, &mut into);
    }
    passes.finish(&mut into);
    assert!(into.threads.len() * 80 <= bytes.len() && into.processes.len() * 256 <= bytes.len());
});
