//! The doctor, on trees that a test writes and on this machine. Needs no right: the kernel's type information is open.

use std::os::unix::fs::symlink;
use std::path::Path;

use cpumon_collect::{Check, CheckState, Diagnosis, DoctorOptions, diagnose};

use crate::skip::skip;
use crate::support::Tree;

/// Type information of a BPF object: sound, but without a kernel's tracepoints.
const OTHER_BTF: &str = concat!(env!("OUT_DIR"), "/sched.bpf.o");
const BTF: &str = "sys/kernel/btf/vmlinux";
/// `CAP_BPF` and `CAP_PERFMON`.
const BOTH: &str = "000000c000000000";

fn diagnose_tree(tree: &Tree) -> Diagnosis {
    let root = tree.path();
    diagnose(&DoctorOptions {
        proc_root: root.into(),
        sys_root: root.join("sys"),
        fs_root: root.into(),
        load: false,
    })
}

fn find<'d>(diagnosis: &'d Diagnosis, name: &str) -> &'d Check {
    let found = diagnosis.checks.iter().find(|check| check.name == name);
    found.unwrap_or_else(|| panic!("no check {name}: {diagnosis:?}"))
}

fn state(diagnosis: &Diagnosis, name: &str) -> CheckState {
    find(diagnosis, name).state
}

fn with_rights(effective: &str) -> Tree {
    let tree = Tree::new();
    let status =
        format!("Name:\tx\nUid:\t1000\t1000\t1000\t1000\nCapPrm:\t{effective}\nCapEff:\t{effective}\n");
    tree.write("self/status", status.as_bytes());
    tree
}

fn link_btf(tree: &Tree, to: &Path) {
    std::fs::create_dir_all(tree.path().join("sys/kernel/btf")).unwrap();
    symlink(to, tree.path().join(BTF)).unwrap();
}

#[test]
fn nothing_to_read_is_not_nothing_to_say() {
    let found = diagnose_tree(&Tree::new());
    assert!(!found.is_complete());
    assert_eq!(state(&found, "BTF"), CheckState::Missing);
    assert_eq!(state(&found, "sched_switch"), CheckState::Unknown);
    assert_eq!(state(&found, "version"), CheckState::Unknown);
    assert_eq!(state(&found, "CAP_BPF"), CheckState::Unknown, "no status: not known is not refused");
    assert!(found.checks.iter().all(|check| !check.finding.is_empty() || check.state == CheckState::Unknown));
    assert!(found.checks.iter().all(|check| !check.gives.is_empty()), "each says what it is good for");
}

#[test]
fn missing_rights_come_with_a_remedy() {
    let tree = with_rights("0000000000000000");
    let found = diagnose_tree(&tree);
    for name in ["CAP_BPF", "CAP_PERFMON", "CAP_SYS_PTRACE"] {
        assert_eq!(state(&found, name), CheckState::Missing, "{name}");
        let help = &find(&found, name).help;
        assert!(
            help.contains("setcap cap_bpf,cap_perfmon") && help.contains("AmbientCapabilities="),
            "{help}"
        );
    }
    for name in ["exits", "sched", "waits", "irq"] {
        assert_eq!(state(&found, name), CheckState::Missing, "{name}");
        assert!(
            find(&found, name).finding.contains("not tried") && find(&found, name).help.contains("CAP_BPF")
        );
    }

    let status = b"CapPrm:\t0\nCapEff:\t0\nCapBnd:\t0\n";
    tree.write("self/status", status);
    assert!(find(&diagnose_tree(&tree), "CAP_BPF").help.contains("--cap-add BPF"), "setcap cannot help here");
}

#[test]
fn two_capabilities_are_enough_and_the_great_one_includes_them() {
    for (set, message) in [(BOTH, "granted"), ("0000000000200000", "CAP_SYS_ADMIN")] {
        let found = diagnose_tree(&with_rights(set));
        for name in ["CAP_BPF", "CAP_PERFMON"] {
            assert_eq!(state(&found, name), CheckState::Available);
            assert!(find(&found, name).finding.contains(message), "{:?}", find(&found, name));
        }
        assert_eq!(state(&found, "sched"), CheckState::Note, "the rights are there, nothing was loaded");
    }
    let tree = with_rights(BOTH);
    tree.write("self/uid_map", b"         0       1000          1\n");
    let found = diagnose_tree(&tree);
    assert_eq!(state(&found, "user namespace"), CheckState::Missing);
    assert_eq!(state(&found, "sched"), CheckState::Missing, "capabilities of a user namespace do not count");
}

#[test]
fn what_a_kernel_lacks_is_named() {
    let tree = Tree::new();
    link_btf(&tree, Path::new(OTHER_BTF));
    let found = diagnose_tree(&tree);
    assert_eq!(state(&found, "BTF"), CheckState::Available);
    for name in ["iter/task", "ring buffer", "task storage", "tp_btf", "sched_switch", "softirq_entry, _exit"]
    {
        assert_eq!(state(&found, name), CheckState::Missing, "{name}");
        assert!(find(&found, name).finding.contains("lacks"), "{:?}", find(&found, name));
    }
    let vectors = find(&found, "irq vectors (x86)");
    assert_eq!(vectors.state, CheckState::Note, "no defect on another architecture");
}

#[test]
fn damaged_type_information_is_refused_in_words() {
    let tree = Tree::new();
    tree.write(BTF, &[0xa5; 4096]);
    let found = diagnose_tree(&tree);
    assert_eq!(state(&found, "BTF"), CheckState::Missing);
    assert!(find(&found, "BTF").finding.contains("unusable"), "{:?}", find(&found, "BTF"));
}

#[test]
fn old_locked_and_hidden_is_seen() {
    let tree = with_rights("0");
    tree.write("sys/kernel/osrelease", b"5.4.0-42-generic\n");
    tree.write("sys/kernel/security/lockdown", b"none integrity [confidentiality]\n");
    tree.write(
        "self/limits",
        b"Max locked memory         65536                65536                bytes     \n",
    );
    let mount =
        format!("21 20 0:19 / {} rw,relatime - proc proc rw,hidepid=invisible\n", tree.path().display());
    tree.write("self/mountinfo", mount.as_bytes());
    tree.write("self/schedstat", b"0 0 0\n");
    assert_eq!(state(&diagnose_tree(&tree), "time namespace"), CheckState::Available);
    tree.write("self/timens_offsets", b"monotonic           0         0\nboottime       100000         0\n");
    let found = diagnose_tree(&tree);
    for (name, message) in [
        ("version", "older than 5.8"),
        ("lockdown", "confidentiality"),
        ("RLIMIT_MEMLOCK", "65536"),
        ("hidepid", "hidepid=invisible"),
        ("sched_info", "zeros"),
        ("time namespace", "shifted"),
    ] {
        assert_eq!(state(&found, name), CheckState::Missing, "{name}");
        assert!(find(&found, name).finding.contains(message), "{:?}", find(&found, name));
    }
    tree.write("sys/kernel/osrelease", b"6.1.0-18-amd64\n");
    tree.write("sys/kernel/security/lockdown", b"[none] integrity confidentiality\n");
    let found = diagnose_tree(&tree);
    assert_eq!(state(&found, "RLIMIT_MEMLOCK"), CheckState::Available, "memory is charged to the cgroup now");
    assert_eq!(state(&found, "lockdown"), CheckState::Available);
}

#[test]
fn surroundings_are_named() {
    let tree = Tree::new();
    tree.write("cpuinfo", b"processor\t: 0\nflags\t\t: fpu vme hypervisor sse\n");
    tree.write("sys/class/dmi/id/sys_vendor", b"QEMU\n");
    tree.write("stat", b"cpu  10 0 10 70 0 0 0 10 0 0\n");
    tree.write("self/cgroup", b"0::/kubepods/burstable/pod1\n");
    let found = diagnose_tree(&tree);
    assert!(find(&found, "hypervisor").finding.contains("QEMU"));
    assert!(find(&found, "steal").finding.starts_with("10.000 %"), "{:?}", find(&found, "steal"));
    assert!(find(&found, "container").finding.contains("kubepods"));
    tree.write(".dockerenv", b"");
    assert!(find(&diagnose_tree(&tree), "container").finding.contains("docker"));
}

#[test]
fn hostile_files_break_nothing() {
    let files = [
        "self/status",
        "self/uid_map",
        "self/mountinfo",
        "self/limits",
        "self/schedstat",
        "self/cgroup",
        "cpuinfo",
        "stat",
        "sys/kernel/osrelease",
        "sys/kernel/security/lockdown",
        "sys/kernel/unprivileged_bpf_disabled",
        "sys/kernel/perf_event_paranoid",
        BTF,
    ];
    let long = vec![b'9'; 200_000];
    for bytes in [&b""[..], b"\xff\xfe\0\0", b"CapEff: -1\ncpu \nflags\n:\n", &long] {
        let tree = Tree::new();
        for file in files {
            tree.write(file, bytes);
        }
        assert!(!diagnose_tree(&tree).is_complete());
    }
}

#[test]
fn this_kernel_shows_its_tracepoints_to_everybody() {
    let own = Path::new("/sys/kernel/btf/vmlinux");
    if !own.exists() {
        return skip(format!("{} is missing", own.display()));
    }
    let found = diagnose(&DoctorOptions { load: false, ..DoctorOptions::default() });
    for name in ["iter/task", "ring buffer", "task storage", "tp_btf", "sched_switch", "sched_process_exit"] {
        assert_eq!(state(&found, name), CheckState::Available, "{name}: {:?}", find(&found, name));
    }
    assert_eq!(state(&found, "procfs"), CheckState::Available);
}
