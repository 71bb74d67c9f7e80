//! Parsers of /proc files (proc(5)). They are pure, so that a fuzzer can drive them; none panics on any bytes, and
//! malformed input is `None`.

use cpumon_model::{CgroupNames, Comm, TaskState};

/// The used fields of /proc/PID/stat and /proc/PID/task/TID/stat. Times are in ticks of `USER_HZ`.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// Field 1: the thread's own id in a file of a task directory.
    pub pid: u32,
    /// Field 2, without its parentheses; at most 15 bytes.
    pub comm: Comm,
    /// Field 3: one letter.
    pub state: TaskState,
    /// Field 4; 0 for a process without a parent.
    pub parent_pid: u32,
    /// Field 9, `PF_*`.
    pub flags: u32,
    /// Field 10: page faults that needed no disk.
    pub minor_faults: u64,
    /// Field 12: page faults that needed one.
    pub major_faults: u64,
    /// Field 14: ticks in user mode, guests included.
    pub user_ticks: u64,
    /// Field 15: ticks in kernel mode.
    pub system_ticks: u64,
    /// Field 18: 20 + nice, or −1 − `rt_priority` for real-time tasks.
    pub priority: i16,
    /// Field 19, −20 to 19.
    pub nice: i8,
    /// Field 20: threads of the whole process.
    pub num_threads: u32,
    /// Field 22, since boot.
    pub start_ticks: u64,
    /// Field 39: the CPU it last ran on.
    pub last_cpu: u16,
}

impl Stat {
    /// `PF_KTHREAD` of include/linux/sched.h; the same since Linux 2.6.
    const PF_KTHREAD: u32 = 0x0020_0000;

    pub fn is_kernel(&self) -> bool {
        self.flags & Self::PF_KTHREAD != 0
    }
}

/// /proc/PID/task/TID/schedstat.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct SchedStat {
    pub run_ns: u64,
    /// Time runnable but waiting, ns.
    pub run_delay_ns: u64,
    /// Times it was put on a CPU.
    pub timeslices: u64,
}

/// The used fields of /proc/PID/task/TID/status.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Real user id; 0 where the file names none.
    pub uid: u32,
    /// `voluntary_ctxt_switches`: times it left its CPU to wait.
    pub voluntary_switches: u64,
    /// `nonvoluntary_ctxt_switches`: times it was pushed off its CPU.
    pub involuntary_switches: u64,
}

/// Number and name of a line of /proc/interrupts: the number, a count for each CPU, the controller, the name of each
/// handler. `None` for lines that are not numbered.
pub fn irq_name(line: &[u8]) -> Option<(u32, &[u8])> {
    let line = line.trim_ascii();
    let colon = line.iter().position(|&byte| byte == b':')?;
    let number = parse_u64(line.get(..colon)?)?.try_into().ok()?;
    // Names of several handlers are parted by ", ", everything else by two blanks or more.
    let text = line.get(colon + 1..)?;
    let start = text.windows(2).rposition(|pair| pair == b"  ").map_or(0, |at| at + 2);
    let name = text.get(start..)?.trim_ascii();
    // Where there is one blank only, as in `0-edge timer`.
    let name = if name.contains(&b',') { name } else { name.rsplit(|&byte| byte == b' ').next()? };
    (!name.is_empty() && parse_u64(name).is_none()).then_some((number, name))
}

/// A decimal number that is all of `digits` and fits.
pub fn parse_u64(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |number, &digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

fn parse_i64(text: &[u8]) -> Option<i64> {
    match text.strip_prefix(b"-") {
        Some(digits) => parse_u64(digits).and_then(|n| 0_i64.checked_sub_unsigned(n)),
        None => parse_u64(text).and_then(|n| i64::try_from(n).ok()),
    }
}

fn parse_u32(digits: &[u8]) -> Option<u32> {
    parse_u64(digits).and_then(|n| u32::try_from(n).ok())
}

/// /proc/PID/stat. The name may hold anything, `)` and newlines too, so it ends at the last `)`.
pub fn parse_stat(bytes: &[u8]) -> Option<Stat> {
    let open = bytes.iter().position(|&b| b == b'(')?;
    let close = bytes.iter().rposition(|&b| b == b')').filter(|&close| close > open)?;
    let pid = parse_u32(bytes[..open].trim_ascii())?;
    // A cut file could end inside a number: the last field used must be followed by a separator.
    let rest = bytes.get(close + 1..)?;
    let whole = rest.iter().rposition(|&b| b == b' ' || b == b'\n')?;
    let mut fields = rest[..whole].split(|&b| b == b' ').skip(1);
    let mut stat = Stat { pid, comm: Comm::new(&bytes[open + 1..close]), ..Stat::default() };
    let state = fields.next()?;
    stat.state = TaskState(*state.first().filter(|_| state.len() == 1)?);
    stat.parent_pid = parse_u32(fields.next()?)?;
    stat.flags = parse_u32(fields.nth(4)?)?;
    stat.minor_faults = parse_u64(fields.next()?)?;
    // Behind each count is that of the children that were waited for.
    stat.major_faults = parse_u64(fields.nth(1)?)?;
    stat.user_ticks = parse_u64(fields.nth(1)?)?;
    stat.system_ticks = parse_u64(fields.next()?)?;
    stat.priority = parse_i64(fields.nth(2)?)?.try_into().ok()?;
    stat.nice = parse_i64(fields.next()?)?.try_into().ok()?;
    stat.num_threads = parse_u32(fields.next()?)?;
    stat.start_ticks = parse_u64(fields.nth(1)?)?;
    stat.last_cpu = u16::try_from(parse_u64(fields.nth(16)?)?).ok()?;
    Some(stat)
}

/// Parses /proc/PID/task/TID/schedstat: three numbers and a newline.
pub fn parse_schedstat(bytes: &[u8]) -> Option<SchedStat> {
    let line = bytes.strip_suffix(b"\n")?;
    let mut fields = line.split(|&b| b == b' ');
    let run_ns = parse_u64(fields.next()?)?;
    let run_delay_ns = parse_u64(fields.next()?)?;
    let timeslices = parse_u64(fields.next()?)?;
    Some(SchedStat { run_ns, run_delay_ns, timeslices })
}

/// /proc/PID/task/TID/status. The kernel writes both switch counters last; without them (a cut file) it is `None`.
pub fn parse_status(bytes: &[u8]) -> Option<Status> {
    // The counters are found from the end: that is short, and a name cannot forge them.
    let value = |name: &[u8]| {
        let mut lines = bytes.rsplit(|&b| b == b'\n');
        lines.find_map(|line| line.strip_prefix(name)).map(<[u8]>::trim_ascii).and_then(parse_u64)
    };
    bytes.strip_suffix(b"\n")?;
    Some(Status {
        uid: parse_uid(bytes).unwrap_or(0),
        voluntary_switches: value(b"voluntary_ctxt_switches:")?,
        involuntary_switches: value(b"nonvoluntary_ctxt_switches:")?,
    })
}

/// The real user id out of a status file.
pub fn parse_uid(bytes: &[u8]) -> Option<u32> {
    let ids = bytes.split(|&b| b == b'\n').find_map(|line| line.strip_prefix(b"Uid:"))?;
    ids.split(u8::is_ascii_whitespace).find(|id| !id.is_empty()).and_then(parse_u32)
}

/// /proc/stat: hands number and modes of the `cpuN` lines to `each`, ticks turned into ns. Columns that an old kernel does not have are 0;
/// one that is no number, or does not fit, is `None`.
/// Returns how many lines were handed out, `None` if a `cpuN` line makes no sense.
pub fn parse_cpu_stat(
    bytes: &[u8],
    ns_per_tick: u64,
    mut each: impl FnMut(u32, [Option<u64>; 10]),
) -> Option<usize> {
    let mut count = 0;
    for line in bytes.split_inclusive(|&b| b == b'\n') {
        let Some(rest) = line.strip_prefix(b"cpu").filter(|rest| rest.first() != Some(&b' ')) else {
            if count == 0 {
                continue;
            }
            // The cpu lines are the first ones; the others can be long.
            break;
        };
        let mut columns = rest.strip_suffix(b"\n")?.split(|&b| b == b' ').filter(|column| !column.is_empty());
        let cpu = parse_u32(columns.next()?)?;
        let mut modes = [Some(0); 10];
        for (mode, column) in modes.iter_mut().zip(columns) {
            *mode = parse_u64(column).and_then(|ticks| ticks.checked_mul(ns_per_tick));
        }
        each(cpu, modes);
        count += 1;
    }
    Some(count)
}

/// /proc/PID/cgroup (cgroups(7)): of the v2 path, the path under the v1 `cpu` controller, and that under systemd's own v1 hierarchy the
/// one that says most ([`CgroupNames::rank`]); the first of those that say as much. `None` if there is no such line.
pub fn parse_cgroup(bytes: &[u8]) -> Option<&[u8]> {
    let mut found: [Option<&[u8]>; 3] = [None; 3];
    // A file longer than the buffer ends inside a line, whose path is not the process's.
    let lines = bytes.get(..bytes.iter().rposition(|&b| b == b'\n')?)?;
    for line in lines.split(|&b| b == b'\n') {
        let mut parts = line.splitn(3, |&b| b == b':');
        let (Some(id), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
            continue;
        };
        // The v2 line has no controllers. On a mixed host it often says only `/`, or names the engine, and v1 names the container.
        let rank = match controllers {
            b"" if id == b"0" => 0,
            b"name=systemd" => 2,
            list if list.split(|&b| b == b',').any(|name| name == b"cpu") => 1,
            _ => continue,
        };
        found[rank].get_or_insert(path);
    }
    // Nearly always there is one, and nothing to compare.
    let mut paths = found.into_iter().flatten();
    let first = paths.next()?;
    let rank = |path: &[u8]| std::str::from_utf8(path).map_or(u8::from(path.len() > 1), CgroupNames::rank);
    let most = paths.fold((None, first), |(known, best), path| {
        let (best_rank, here) = (known.unwrap_or_else(|| rank(best)), rank(path));
        if here > best_rank { (Some(here), path) } else { (Some(best_rank), best) }
    });
    Some(most.1)
}

/// The container or systemd unit that a cgroup path names; empty if none. Containers come as their id's first 12 digits,
/// the way their tools print it.
pub fn container_name(path: &str) -> String {
    CgroupNames::of(path).container_or_service().into_owned()
}

/// Runs every parser on `bytes` and checks the invariants that hold for any input. For fuzzers; panics if one does not.
#[doc(hidden)]
pub fn exercise(bytes: &[u8]) {
    if let Some(stat) = parse_stat(bytes) {
        assert!(bytes.contains(&b')') && stat.comm.as_bytes().len() <= Comm::MAX_BYTES, "{stat:?}");
    }
    if let Some(sched) = parse_schedstat(bytes) {
        let again = format!("{} {} {}\n", sched.run_ns, sched.run_delay_ns, sched.timeslices);
        assert_eq!(parse_schedstat(again.as_bytes()), Some(sched), "a value survives its text");
    }
    assert!(parse_status(bytes).is_none() || bytes.ends_with(b"\n"), "a cut status was read");
    let mut count = 0;
    let counted = parse_cpu_stat(bytes, 10_000_000, |_, _| count += 1);
    assert!(counted.is_none_or(|counted| counted == count), "lines were miscounted");
    let cgroup = String::from_utf8_lossy(parse_cgroup(bytes).unwrap_or_default()).into_owned();
    assert!(container_name(&cgroup).len() <= cgroup.len(), "a name out of nothing");
    let mut cmdline = String::new();
    crate::scrub::scrub_cmdline(bytes, &mut cmdline);
    assert!(cmdline.len() <= bytes.len() * 6 + 3, "a command line grew");
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A valid file with a few bytes replaced, cut out or doubled: closer to what parsers accept than noise.
    fn mangled() -> impl Strategy<Value = Vec<u8>> {
        const FILES: [&[u8]; 5] = [
            LINE,
            b"328779 51717 1\n",
            b"Name:\tx\nUid:\t1000\t0\t0\t0\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t3\n",
            b"cpu  9 9 9 9\ncpu0 1 2 3 4 5 6 7 8 9 10\ncpu7 1 2 3 4\nintr 5\n",
            b"1:cpu:/a\n0::/machine.slice/machine-a\\x2db.scope\n",
        ];
        let edit = (any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u8>(), 0..3);
        (prop::sample::select(&FILES), prop::collection::vec(edit, 0..6)).prop_map(|(file, edits)| {
            let mut bytes = file.to_vec();
            for (at, to, byte, kind) in edits {
                if bytes.is_empty() {
                    break;
                }
                let (at, to) = (at.index(bytes.len()), to.index(bytes.len()));
                match kind {
                    0 => bytes[at] = byte,
                    1 => drop(bytes.drain(at.min(to)..at.max(to))),
                    _ => bytes.extend_from_within(at.min(to)..at.max(to)),
                }
            }
            bytes
        })
    }

    #[test]
    fn what_the_fuzzer_kept_is_read_again() {
        let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/proc_parsers");
        let files: Vec<_> = std::fs::read_dir(corpus).unwrap().map(|file| file.unwrap().path()).collect();
        assert!(files.len() > 100, "{} inputs", files.len());
        for file in files {
            exercise(&std::fs::read(file).unwrap());
        }
    }

    proptest! {
        #[test]
        fn parsers_survive_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            exercise(&bytes);
        }

        #[test]
        fn parsers_survive_mangled_files(bytes in mangled()) {
            exercise(&bytes);
        }
    }

    const LINE: &[u8] = b"42 (a) R 1 2 (b) S 7 42 42 0 -1 4194304 100 7 5 9 11 22 0 0 -2 0 3 0 9001 1000 200 18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 5 1 1 0 0 0\n";

    #[test]
    fn a_name_full_of_stat_is_only_a_name() {
        let stat = parse_stat(LINE).unwrap();
        assert_eq!(stat.comm.as_bytes(), b"a) R 1 2 (b");
        assert_eq!((stat.pid, stat.parent_pid, stat.state.letter()), (42, 7, 'S'));
        assert_eq!((stat.user_ticks, stat.system_ticks, stat.start_ticks), (11, 22, 9001));
        assert_eq!((stat.minor_faults, stat.major_faults), (100, 5));
        assert_eq!((stat.priority, stat.nice, stat.num_threads, stat.last_cpu), (-2, 0, 3, 5));
        assert!(!stat.is_kernel());
    }

    #[test]
    fn a_cut_stat_is_refused_not_misread() {
        let end_of_cpu = LINE.len() - b" 1 1 0 0 0\n".len();
        for cut in 0..=end_of_cpu {
            assert_eq!(parse_stat(&LINE[..cut]), None, "{cut}");
        }
        assert!(parse_stat(&LINE[..=end_of_cpu]).is_some());
    }

    #[test]
    fn numbers_that_do_not_fit_are_refused() {
        assert_eq!(parse_u64(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(parse_u64(b"18446744073709551616"), None);
        assert_eq!(parse_schedstat(b"99999999999999999999999 1 2\n"), None);
        assert_eq!(parse_schedstat(b"1 2 3"), None, "cut");
        assert_eq!(parse_schedstat(b"1 2\n"), None);
        assert_eq!(parse_schedstat(b"-1 2 3\n"), None);
        let stat = parse_schedstat(b"328779 51717 1\n").unwrap();
        assert_eq!((stat.run_ns, stat.run_delay_ns, stat.timeslices), (328_779, 51_717, 1));
    }

    #[test]
    fn status_gives_uid_and_switches() {
        let text =
            b"Name:\tx\nUid:\t1000\t0\t0\t0\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t3\n";
        let status = parse_status(text).unwrap();
        assert_eq!((status.uid, status.voluntary_switches, status.involuntary_switches), (1000, 12, 3));
        assert_eq!(parse_status(&text[..text.len() - 1]), None, "cut");
    }

    #[test]
    fn cpu_lines_of_old_and_new_kernels() {
        let text = b"cpu  9 9 9 9\ncpu0 1 2 3 4 5 6 7 8 9 10\ncpu7 1 2 3 4\nintr 5 cpu9 1\n";
        let mut seen = Vec::new();
        assert_eq!(parse_cpu_stat(text, 10, |cpu, modes| seen.push((cpu, modes))), Some(2));
        assert_eq!(seen[0], (0, [10, 20, 30, 40, 50, 60, 70, 80, 90, 100].map(Some)));
        assert_eq!(seen[1], (7, [10, 20, 30, 40, 0, 0, 0, 0, 0, 0].map(Some)));
        assert_eq!(parse_cpu_stat(b"cpu0 1 2 3 4", 10, |_, _| {}), None, "cut");
        assert_eq!(parse_cpu_stat(b"cpux 1 2 3 4\n", 10, |_, _| {}), None);
    }

    #[test]
    fn an_odd_column_leaves_the_others() {
        let text = b"cpu0 1 -2 3 x 18446744073709551615 18446744073709551616 7\n";
        let mut seen = [None; 10];
        assert_eq!(parse_cpu_stat(text, 10, |_, modes| seen = modes), Some(1));
        let no = None;
        assert_eq!(seen, [Some(10), no, Some(30), no, no, no, Some(70), Some(0), Some(0), Some(0)]);
    }

    #[test]
    fn the_cgroup_line_with_a_path_wins() {
        let v2 = b"0::/system.slice/ssh.service\n";
        assert_eq!(parse_cgroup(v2), Some(&b"/system.slice/ssh.service"[..]));
        let hybrid = b"9:name=systemd:/s\n2:cpuacct:/x\n1:cpu,cpuacct:/c\n0::/\n";
        assert_eq!(parse_cgroup(hybrid), Some(&b"/c"[..]));
        assert_eq!(parse_cgroup(b"1:cpu:/\n0::/\n"), Some(&b"/"[..]));
        assert_eq!(parse_cgroup(b"garbage\n\xff"), None);
        assert_eq!(parse_cgroup(b"1:cpu:/c\n0::/system.slice/ssh.serv"), Some(&b"/c"[..]), "cut");
        assert_eq!(parse_cgroup(b"0::/system.slice/ssh.serv"), None, "cut");
        let systemd = b"2:cpu:/system.slice\n1:name=systemd:/system.slice/ssh.service\n0::/\n";
        assert_eq!(parse_cgroup(systemd), Some(&b"/system.slice/ssh.service"[..]));
    }

    #[test]
    fn a_container_of_v1_is_not_lost_behind_the_engines_unit_of_v2() {
        let id = "4f2a22ec61550a1ac3173f9384c70fb83e98d72b0123456789abcdef01234567";
        for (v1, v2) in [
            (format!("/docker/{id}"), "/system.slice/containerd.service"),
            (
                format!("/kubepods/burstable/pod3cac3187-5e77-11ea-9c85-2c600c7b896a/{id}"),
                "/system.slice/docker.service",
            ),
            ("/lxc/web".to_owned(), "/user.slice/user-0.slice/session-3.scope"),
        ] {
            let file = format!("4:cpu,cpuacct:{v1}\n1:name=systemd:{v1}\n0::{v2}\n");
            assert_eq!(parse_cgroup(file.as_bytes()), Some(v1.as_bytes()));
            let file = format!("4:cpu,cpuacct:{v2}\n1:name=systemd:{v2}\n0::{v1}\n");
            assert_eq!(parse_cgroup(file.as_bytes()), Some(v1.as_bytes()));
        }
        assert_eq!(container_name(&format!("/docker/{id}")), "4f2a22ec6155");
    }

    #[test]
    fn cgroup_paths_name_containers_and_units() {
        let id = "0123456789abcdef".repeat(4);
        for (path, name) in [
            (format!("/system.slice/docker-{id}.scope"), "0123456789ab"),
            (format!("/docker/{id}"), "0123456789ab"),
            (format!("/kubepods.slice/kubepods-pod1.slice/cri-containerd-{id}.scope"), "0123456789ab"),
            (format!("/machine.slice/libpod-{id}.scope/container"), "0123456789ab"),
            (format!("/kubepods/besteffort/pod-1/{id}"), "0123456789ab"),
            (format!("/kubepods-x.slice:cri-containerd:{id}"), "0123456789ab"),
            ("/lxc.payload.web/init.scope".into(), "web"),
            ("/lxc.payload.web".into(), "web"),
            ("/machine.slice/machine-a\\x2db.scope".into(), "a-b"),
            ("/system.slice/system-getty.slice/getty@tty1.service".into(), "getty@tty1.service"),
            ("/user.slice/user-0.slice/session-3.scope".into(), "session-3.scope"),
            ("/user.slice".into(), ""),
            ("/".into(), ""),
            (String::new(), ""),
        ] {
            assert_eq!(container_name(&path), name, "{path}");
        }
    }
}
