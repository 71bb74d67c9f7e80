//! Limits of control groups: the kernel's counts for a group that uses up its quota, and passes that allocate nothing.

use std::process::{Child, Command};
use std::time::Duration;

use cpumon_collect::{Opened, SourceChoice, SourceOptions, open};
use cpumon_model::{CgroupSample, CpuLimit, Fields, Interval, Snapshot, Throttle};

use crate::cgroup::{KernelCounts, LimitedGroup};
use crate::counting::allocations;
use crate::support::{Task, Tree};

struct KillOnDrop(Child);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn pass(source: &mut Opened) -> Snapshot {
    let mut snapshot = Snapshot::default();
    source.source.snapshot(&mut snapshot).unwrap();
    snapshot
}

fn row<'s>(snapshot: &'s Snapshot, group: &LimitedGroup) -> Option<&'s CgroupSample> {
    snapshot.cgroups.iter().find(|row| *row.path == *group.path)
}

fn counts(throttle: Throttle) -> KernelCounts {
    let Throttle { periods, throttled_periods, throttled_ns } = throttle;
    KernelCounts { periods, throttled_periods, throttled_ns }
}

#[test]
fn a_group_that_uses_up_its_quota_has_the_kernels_counters() {
    let group = match LimitedGroup::twentieth("cpumon-it") {
        Ok(group) => group,
        Err(error) => return crate::skip::say_skipped(format!("needs root and cgroups: {error}")),
    };
    for choice in [SourceChoice::Procfs, SourceChoice::Bpf] {
        let _turn = crate::bpf::turn();
        let mut source = match open(&SourceOptions { choice, ..SourceOptions::default() }) {
            Ok(source) => source,
            Err(error) => return crate::skip::say_skipped(format!("needs root for BPF: {error}")),
        };
        let burner = KillOnDrop(Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap());
        group.add(burner.0.id());
        let first = (0..10).map(|_| {
            std::thread::sleep(Duration::from_millis(100));
            pass(&mut source)
        });
        let first = first.into_iter().find(|snapshot| row(snapshot, &group).is_some()).unwrap();
        std::thread::sleep(Duration::from_secs(2));
        let before = group.counts();
        let last = pass(&mut source);
        let after = group.counts();
        drop(burner);
        let found = row(&last, &group).unwrap();
        assert_eq!((found.limit, found.limiter()), (CpuLimit::Millionths(50_000), &*group.path));
        let counted = counts(found.throttle.unwrap());
        // Member by member: the kernel does not change them at once.
        assert!(
            before.periods <= counted.periods && counted.periods <= after.periods,
            "{before:?} {counted:?} {after:?}"
        );
        assert!(before.throttled_ns <= counted.throttled_ns && counted.throttled_ns <= after.throttled_ns);
        assert!(before.throttled_periods <= counted.throttled_periods);
        let interval = Interval::between(&first, &last);
        let grown = interval.cgroup(&group.path).unwrap().throttle.unwrap();
        assert!(grown.throttled_periods > 10 && grown.throttled_ns > 300_000_000, "{grown:?}");
        assert!(interval.fields.contains(Fields::CGROUPS));
        let process = interval.processes.iter().find(|row| *row.info.cgroup == *group.path).unwrap();
        let cpu_pct = interval.cpu_pct(process.delta.run_ns).unwrap();
        assert!((1.0..10.0).contains(&cpu_pct), "a twentieth of a CPU: {cpu_pct}");
    }
}

#[test]
fn passes_over_limited_groups_allocate_nothing() {
    let tree = Tree::new();
    tree.put(&Task::new(7, 7));
    tree.put(&Task::new(8, 8));
    let line = "2 0 0:2 / /cg rw - cgroup2 cgroup2 rw\n";
    for (path, content) in [
        ("self/mountinfo", line),
        ("pressure/cpu", "some total=5\n"),
        ("7/cgroup", "0::/a/b\n"),
        ("8/cgroup", "0::/c\n"),
        ("cg/a/cpu.max", "50000 100000\n"),
        ("cg/a/cpu.stat", "nr_periods 3\nnr_throttled 2\nthrottled_usec 9\n"),
        ("cg/a/b/cpu.max", "max 100000\n"),
        ("cg/a/b/cpu.pressure", "some total=4\n"),
        ("cg/c/cpu.max", "max 100000\n"),
    ] {
        let path = tree.options().proc_root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    let options = tree.options();
    let options = SourceOptions { fs_root: options.proc_root.clone(), ..options };
    let mut source = open(&options).unwrap().source;
    let mut snapshot = Snapshot::default();
    for round in 0..70 {
        let before = allocations();
        source.snapshot(&mut snapshot).unwrap();
        assert!(allocations() == before || round <= 5, "round {round}");
        assert_eq!(snapshot.cgroups.len(), 1, "the group without limit and pressure has no row");
    }
    assert_eq!(snapshot.cgroups[0].throttle.unwrap().throttled_ns, 9_000);
}
