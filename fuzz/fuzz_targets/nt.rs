//! Answers of Windows about processes, threads, CPUs, services and names: any bytes, through to a snapshot.
#![no_main]

use cpumon_collect::nt::{
    CycleComparison, CycleSnapshot, Passes, Processes, Services, SystemStart, counted_text, name_of_thread,
    read_cpus, scrubbed_command_line,
};
use cpumon_model::{KnownCpuTimes, ProcessInfo, Snapshot};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut into = Snapshot::default();
    let mut passes = Passes::new(SystemStart(1)).with_unseen();
    let _ = read_cpus(bytes, 0, &mut KnownCpuTimes::default(), &mut into.cpus);
    // At address 0 names are offsets, which a fuzzer finds.
    for record in Processes::new(bytes, 0).map_while(Result::ok) {
        passes.add(&record.process, record.threads(), ProcessInfo::default, &mut into);
    }
    let mut services = Services::default();
    let count = bytes.first().map_or(0, |count| usize::from(*count));
    if services.add(bytes, 0, count).is_ok() {
        services.finish();
        passes.set_services(&services);
    }
    passes.finish(&mut into);
    let processes = into.processes.iter().filter(|process| process.key.pid != 0).count();
    assert!(into.threads.len() * 80 <= bytes.len() && processes * 256 <= bytes.len());
    let mut cycles = CycleSnapshot { stamp: 9, mono_ns: 3, cpus: into.cpus.clone(), ..CycleSnapshot::default() };
    let _ = cycles.add(bytes, 0);
    let none = CycleSnapshot::default();
    if let Ok(found) = CycleComparison::between(&none, &cycles) {
        assert!(found.rows.len() <= cycles.processes.len());
    }
    let _ = CycleComparison::between(&cycles, &CycleSnapshot { stamp: 90, mono_ns: 30, ..cycles.clone() });
    if let Some(text) = counted_text(bytes, 0) {
        let _ = name_of_thread(text);
        let _ = scrubbed_command_line(text);
    }
    let _ = scrubbed_command_line(bytes);
});
