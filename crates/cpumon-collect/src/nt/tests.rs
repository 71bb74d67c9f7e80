//! From bytes to a ledger.

use cpumon_model::{CpuSample, CpuTimes, Flags, Interval, Moment, ProcessInfo, Snapshot, SourceKind};

use super::testing::{ADDRESS, MadeProcess, MadeThread, answer};
use super::{Passes, Processes, ReportedThread, Services, SystemStart, ThreadNames};
use crate::counting::allocations;

/// A second in the system's units.
const SECOND: u64 = 10_000_000;

/// A process of one thread with this user time.
fn process(pid: u32, created: u64, user: u64) -> MadeProcess {
    let thread = MadeThread { tid: u64::from(pid) + 1, created, user, ..MadeThread::default() };
    MadeProcess {
        pid: pid.into(),
        created,
        user,
        name: "x.exe",
        threads: vec![thread],
        ..MadeProcess::default()
    }
}

fn read(passes: &mut Passes, names: &mut ThreadNames, bytes: &[u8], cpu_user: u64, into: &mut Snapshot) {
    into.clear();
    names.begin();
    for record in Processes::new(bytes, ADDRESS) {
        let record = record.unwrap();
        let threads = record
            .threads()
            .map(|thread| ReportedThread { name: names.of(thread.tid, thread.created, |_| None), ..thread });
        passes.add(&record.process, threads, ProcessInfo::default, into);
    }
    names.finish();
    let idle_ns = 100 * SECOND * 100 - cpu_user * 100;
    let times = CpuTimes { user_ns: cpu_user * 100, idle_ns, ..CpuTimes::default() };
    into.cpus.push(CpuSample { times, ..CpuSample::default() });
    let mono_ns = cpu_user * 1_000;
    (into.begin, into.source) = (Moment { mono_ns, boot_ns: mono_ns, wall_ns: 0 }, SourceKind::Nt);
    into.end = into.begin;
    passes.finish(into);
}

#[test]
fn what_began_and_ended_between_two_passes_is_exited_time_of_the_ledger() {
    let mut passes = Passes::new(SystemStart(0)).with_unseen();
    let mut names = ThreadNames::default();
    let mut pass = |processes: &[MadeProcess], cpu_user| {
        let mut into = Snapshot::default();
        read(&mut passes, &mut names, &answer(processes), cpu_user, &mut into);
        into
    };
    let first = pass(&[process(8, 1, 70), process(20, 1, 30)], 5_000);
    // Process 8 ran 40; process 20 ran 25 after the last pass that saw it, and ended; one in between ran 35.
    let second = pass(&[process(8, 1, 110)], 5_100);
    let interval = Interval::between(&first, &second);
    assert_eq!((interval.ledger.threads_ns, interval.ledger.exited_ns), (4_000, 6_000));
    let rows: Vec<_> =
        interval.processes.iter().map(|row| (row.key.pid, row.delta.run_ns, row.flags)).collect();
    assert_eq!(rows[0], (0, 6_000, Flags::SUMMED), "{rows:?}");
    assert_eq!((second.process_count, second.processes.len()), (1, 2), "no process");
    // Nothing more ended, and 10 of process 8 are in the CPU's time a tick late.
    let third = pass(&[process(8, 1, 130)], 5_110);
    let interval = Interval::between(&second, &third);
    assert_eq!((interval.ledger.threads_ns, interval.ledger.exited_ns), (2_000, 0));
    let fourth = pass(&[process(8, 1, 130)], 5_120);
    assert_eq!(Interval::between(&third, &fourth).ledger.exited_ns, 0);
}

#[test]
fn a_process_has_its_session_and_the_priority_class_of_the_moment() {
    let mut passes = Passes::new(SystemStart(0));
    let mut info_of = |base_priority| {
        let made = MadeProcess { session: 2, base_priority, ..process(8, 1, 70) };
        let mut into = Snapshot::default();
        read(&mut passes, &mut ThreadNames::default(), &answer(&[made]), 0, &mut into);
        into.processes[0].info.clone()
    };
    for (base_priority, class) in
        [(8, Some("normal")), (13, Some("high")), (9, Some("9")), (32, None), (-1, None)]
    {
        let info = info_of(base_priority);
        assert_eq!((info.session, info.priority_class().as_deref()), (Some(2), class), "{base_priority}");
    }
    assert!(std::sync::Arc::ptr_eq(&info_of(8), &info_of(8)), "nothing changed");
}

#[test]
fn a_service_that_begins_in_a_running_process_names_it() {
    let mut passes = Passes::new(SystemStart(0));
    let (bytes, mut into) = (answer(&[process(8, 1, 70)]), Snapshot::default());
    read(&mut passes, &mut ThreadNames::default(), &bytes, 0, &mut into);
    assert_eq!(into.processes[0].info.service(), "");
    let mut record = [0; super::SERVICE_BYTES + 8];
    record[..8].copy_from_slice(&56_u64.to_le_bytes());
    record[0x2c] = 8;
    record[56..60].copy_from_slice(&[b'D', 0, b'h', 0]);
    let mut services = Services::default();
    services.add(&record, 0, 1).unwrap();
    services.finish();
    passes.set_services(&services);
    read(&mut passes, &mut ThreadNames::default(), &bytes, 0, &mut into);
    assert_eq!(into.processes[0].info.service(), "Dh.service");
    let before = allocations();
    passes.set_services(&services);
    assert_eq!(allocations() - before, 0, "nothing changed");
}

#[test]
fn a_steady_pass_allocates_nothing() {
    let (mut passes, mut names) = (Passes::new(SystemStart(0)).with_unseen(), ThreadNames::default());
    let mut into = Snapshot::default();
    for round in 0..40_u64 {
        let processes: Vec<_> = (0..200).map(|n| process(n * 8 + 8, 1, round * u64::from(n % 2))).collect();
        let bytes = answer(&processes);
        let before = allocations();
        read(&mut passes, &mut names, &bytes, 5_000, &mut into);
        let taken = allocations() - before;
        assert!(taken == 0 || round < 3, "round {round}: {taken}");
        assert_eq!(into.threads.len(), 200);
    }
}
