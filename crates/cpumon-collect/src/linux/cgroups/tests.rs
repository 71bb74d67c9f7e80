use std::path::PathBuf;

use cpumon_model::{Comm, CpuLimit, Interval, ProcessKey, Throttle};

use super::super::procinfo::About;
use super::*;

/// A machine made of files: processes 1, 2, … in these groups.
struct Machine {
    root: tempfile::TempDir,
    infos: InfoCache,
    cgroups: Cgroups,
    processes: Vec<u32>,
}

const V1: &str = "1 0 0:1 / /cg/cpu rw - cgroup cgroup rw,cpu,cpuacct\n";
const V2: &str = "2 0 0:2 / /cg/unified rw - cgroup2 cgroup2 rw\n";

impl Machine {
    fn new(mounts: &str) -> Self {
        let root = tempfile::tempdir().unwrap();
        for dir in ["proc/self", "proc/pressure", "cg/cpu", "cg/unified"] {
            std::fs::create_dir_all(root.path().join(dir)).unwrap();
        }
        std::fs::write(root.path().join("proc/self/mountinfo"), mounts).unwrap();
        std::fs::write(root.path().join("proc/pressure/cpu"), "some total=5\nfull total=0\n").unwrap();
        let proc_root = root.path().join("proc");
        let infos = InfoCache::open_in(&proc_root, false);
        Self { cgroups: Cgroups::open(&proc_root, root.path()), infos, root, processes: Vec::new() }
    }

    fn file(&self, path: &str) -> PathBuf {
        let path = self.root.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    }

    fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.file(path), content).unwrap();
    }

    fn v1(&self, group: &str, quota: &str, throttled_ns: u64) {
        self.write(&format!("cg/cpu/{group}/cpu.cfs_quota_us"), format!("{quota}\n"));
        self.write(&format!("cg/cpu/{group}/cpu.cfs_period_us"), "100000\n");
        let stat = format!("nr_periods 9\nnr_throttled 4\nthrottled_time {throttled_ns}\n");
        self.write(&format!("cg/cpu/{group}/cpu.stat"), stat);
    }

    fn v2(&self, group: &str, max: &str, throttled_us: u64) {
        self.write(&format!("cg/unified/{group}/cpu.max"), format!("{max}\n"));
        let stat = format!("usage_usec 1\nnr_periods 9\nnr_throttled 4\nthrottled_usec {throttled_us}\n");
        self.write(&format!("cg/unified/{group}/cpu.stat"), stat);
        self.write(
            &format!("cg/unified/{group}/cpu.pressure"),
            format!("some total={throttled_us}\nfull total=1\n"),
        );
    }

    fn process(&mut self, group: &str) {
        let pid = u32::try_from(self.processes.len()).unwrap() + 1;
        self.write(&format!("proc/{pid}/cgroup"), format!("0::{group}\n"));
        self.processes.push(pid);
    }

    fn pass(&mut self) -> Snapshot {
        for &pid in &self.processes {
            let key = ProcessKey { pid, start_ns: 1 };
            self.infos.resolve(&About { key, comm: Comm::default(), is_kernel: false, uid: Some(0) });
        }
        self.infos.end_pass();
        let mut snapshot = Snapshot::default();
        self.cgroups.read(&mut self.infos, &mut snapshot);
        snapshot
    }
}

const HALF: CpuLimit = CpuLimit::Millionths(500_000);

/// Path, limit, its owner, throttled and waiting time, ns.
type Row<'a> = (&'a str, CpuLimit, &'a str, Option<u64>, Option<u64>);

fn rows(snapshot: &Snapshot) -> Vec<Row<'_>> {
    let row = |row: &'_ CgroupSample| (row.throttle.map(|t| t.throttled_ns), row.pressure.map(|p| p.some_ns));
    snapshot
        .cgroups
        .iter()
        .map(|one| (&*one.path, one.limit, one.limiter(), row(one).0, row(one).1))
        .collect()
}

#[test]
fn a_limit_of_v1_has_its_counters() {
    let mut machine = Machine::new(V1);
    machine.v1("", "-1", 0);
    machine.v1("a", "50000", 7_000);
    machine.v1("b", "-1", 0);
    machine.process("/a");
    machine.process("/b");
    machine.process("/");
    let snapshot = machine.pass();
    assert_eq!(rows(&snapshot), [("/a", HALF, "/a", Some(7_000), None)], "no row: no limit");
    assert_eq!(
        snapshot.cgroups[0].throttle.unwrap(),
        Throttle { periods: 9, throttled_periods: 4, throttled_ns: 7_000 }
    );
    assert!(snapshot.fields.contains(Fields::CGROUPS) && snapshot.cgroups_left_out == 0);
    assert_eq!(snapshot.pressure, Some(Pressure { some_ns: 5_000, full_ns: 0 }));
}

#[test]
fn the_tightest_limit_on_the_path_counts() {
    let mut machine = Machine::new(V2);
    machine.v2("pod", "50000 100000", 3);
    machine.v2("pod/a", "max 100000", 0);
    machine.v2("pod/b", "20000 100000", 8);
    machine.v2("pod/c", "90000 100000", 9);
    for group in ["/pod/a", "/pod/b", "/pod/c"] {
        machine.process(group);
    }
    let fifth = CpuLimit::Millionths(200_000);
    let snapshot = machine.pass();
    let mut found = rows(&snapshot);
    found.sort_by_key(|row| row.0);
    assert_eq!(
        found,
        [
            ("/pod/a", HALF, "/pod", Some(3_000), Some(0)),
            ("/pod/b", fifth, "/pod/b", Some(8_000), Some(8_000)),
            ("/pod/c", HALF, "/pod", Some(3_000), Some(9_000)),
        ]
    );
}

#[test]
fn on_a_mixed_host_v1_has_the_limit_and_v2_the_pressure() {
    let mut machine = Machine::new(&format!("{V1}{V2}"));
    machine.v1("a", "50000", 7_000);
    machine.write("cg/unified/a/cpu.pressure", "some total=2\n");
    machine.write("cg/unified/a/cpu.stat", "usage_usec 5\n");
    machine.process("/a");
    assert_eq!(rows(&machine.pass()), [("/a", HALF, "/a", Some(7_000), Some(2_000))]);
}

#[test]
fn missing_and_hostile_files_are_no_data() {
    let mut machine = Machine::new(V2);
    machine.write("cg/unified/a/cpu.max", b"\xff\xfe\0");
    machine.write("cg/unified/b/cpu.max", "50000 100000\n");
    machine.write("cg/unified/c/cpu.max", "99999999999999999999999 1\n");
    machine.write("cg/unified/d/other", "");
    machine.v2("e", "-5 100000", 1);
    for group in ["/a", "/b", "/c", "/d", "/e", "/gone", "no path", ""] {
        machine.process(group);
    }
    let snapshot = machine.pass();
    let mut found = rows(&snapshot);
    found.sort_by_key(|row| row.0);
    let unknown = CpuLimit::Unknown;
    assert_eq!(
        found,
        [
            ("/a", unknown, "/", None, None),
            ("/b", HALF, "/b", None, None),
            ("/c", unknown, "/", None, None),
            ("/e", unknown, "/", None, Some(1_000)),
        ]
    );
    assert_eq!(snapshot.cgroups_left_out, 1, "{:?}", machine.cgroups.left_out);
}

/// It had no limit.
#[test]
fn a_group_whose_directory_cannot_be_opened_has_an_unknown_limit() {
    let mut machine = Machine::new(&format!("{V1}{V2}"));
    // Opened as a directory, a file is an error other than that nothing is there.
    machine.write("cg/cpu/a", "");
    machine.write("cg/cpu/b", "");
    machine.v2("b", "50000 100000", 3);
    for group in ["/a", "/b", "/gone"] {
        machine.process(group);
    }
    let snapshot = machine.pass();
    let mut found = rows(&snapshot);
    found.sort_by_key(|row| row.0);
    let unknown = CpuLimit::Unknown;
    assert_eq!(found, [("/a", unknown, "/", None, None), ("/b", HALF, "/b", Some(3_000), Some(3_000))]);

    let mut machine = Machine::new(V1);
    machine.v1("c", "50000", 7_000);
    machine.process("/c");
    assert_eq!(rows(&machine.pass()), [("/c", HALF, "/c", Some(7_000), None)]);
    std::fs::remove_dir_all(machine.file("cg/cpu/c")).unwrap();
    machine.write("cg/cpu/c", "");
    let seen = (0..=RECHECK).any(|_| rows(&machine.pass()) == [("/c", unknown, "/", None, None)]);
    assert!(seen, "within {RECHECK} passes");

    // Its pressure comes with its limit.
    let mut machine = Machine::new(V2);
    machine.write("cg/unified/d", "");
    machine.process("/d");
    assert_eq!(rows(&machine.pass()), [("/d", unknown, "/", None, None)]);
    std::fs::remove_file(machine.file("cg/unified/d")).unwrap();
    machine.v2("d", "50000 100000", 3);
    let known = [("/d", HALF, "/d", Some(3_000), Some(3_000))];
    assert!((0..=RECHECK).any(|_| rows(&machine.pass()) == known), "within {RECHECK} passes");
}

#[test]
fn a_group_that_is_made_again_is_another_one() {
    let mut machine = Machine::new(V1);
    machine.v1("a", "50000", 7_000);
    machine.process("/a");
    let before = machine.pass();
    machine.v1("a", "50000", 9_000);
    let after = machine.pass();
    let row = Interval::between(&before, &after).cgroups.remove(0);
    assert_eq!(row.throttle.unwrap().throttled_ns, 2_000);
    // Sets the state after a read error of a removed group; here the files live on.
    machine.cgroups.dirs.iter_mut().find(|dir| &*dir.path == "/a").unwrap().is_gone = true;
    machine.v1("a", "20000", 1_000);
    let again = machine.pass();
    assert_eq!(rows(&again), [("/a", CpuLimit::Millionths(200_000), "/a", Some(1_000), None)]);
    assert!(again.cgroups[0].id > after.cgroups[0].id);
    assert_eq!(Interval::between(&after, &again).cgroups[0].throttle, None, "no growth is known");
}

#[test]
fn a_quota_that_changes_is_seen_and_unused_groups_are_forgotten() {
    let mut machine = Machine::new(V1);
    machine.v1("a/b", "-1", 0);
    machine.process("/a/b");
    assert_eq!(rows(&machine.pass()), []);
    machine.v1("a/b", "50000", 7);
    let seen = (0..=RECHECK).any(|_| rows(&machine.pass()) == [("/a/b", HALF, "/a/b", Some(7), None)]);
    assert!(seen, "within {RECHECK} passes");
    machine.processes.clear();
    (0..=RECHECK).for_each(|_| drop(machine.pass()));
    assert!(machine.cgroups.dirs.is_empty() && machine.cgroups.places.is_empty());
    machine.process("/a/b");
    assert_eq!(machine.pass().cgroups.len(), 1);
}

#[test]
fn groups_beyond_the_limit_and_outside_of_the_namespace_are_counted() {
    let mut machine = Machine::new("2 0 0:2 /docker/1 /cg/unified rw - cgroup2 cgroup2 rw\n");
    machine.v2("", "50000 100000", 3);
    for group in ["/docker/1", "/docker/2", "/../x", "/docker/1/../../x"] {
        machine.process(group);
    }
    let snapshot = machine.pass();
    assert_eq!(rows(&snapshot), [("/docker/1", HALF, "/docker/1", Some(3_000), Some(3_000))]);
    assert_eq!(snapshot.cgroups_left_out, 3);

    let mut machine = Machine::new(V1);
    for at in 0..MAX_CGROUPS + 7 {
        machine.v1(&format!("g{at}"), "50000", 1);
        machine.process(&format!("/g{at}"));
    }
    (0..RECHECK).for_each(|_| drop(machine.pass()));
    let snapshot = machine.pass();
    assert_eq!((snapshot.cgroups.len(), snapshot.cgroups_left_out), (MAX_CGROUPS, 7));
    assert!(!Interval::between(&snapshot, &snapshot).knows_limits());
}

#[test]
fn without_hierarchies_only_the_host_is_known() {
    let mut machine = Machine::new("");
    machine.process("/a");
    let snapshot = machine.pass();
    assert!(!snapshot.fields.contains(Fields::CGROUPS) && snapshot.pressure.is_some());
}
