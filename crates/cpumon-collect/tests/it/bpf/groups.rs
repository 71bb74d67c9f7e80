//! Control groups of processes that ended, and were mostly removed with them, before a pass could read them.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use cpumon_model::Probes;

use super::bpf;
use super::support::{exits_of, pass};
use crate::skip::say_skipped;

super::twice! {
    exits_are_in_the_group_that_they_ended_in
    a_container_of_one_hierarchy_is_not_lost_behind_another
    a_group_deeper_than_is_sent_is_unknown
}

/// Mounts of the hierarchies whose paths are shown: v2, v1 with the controller `cpu`, systemd's own.
fn mounts() -> Vec<PathBuf> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let place = |line: &str| {
        let (mount, rest) = line.split_once(" - ")?;
        let mut rest = rest.split(' ');
        let (kind, options) = (rest.next()?, rest.nth(1)?);
        let is_shown = options.split(',').any(|option| matches!(option, "cpu" | "name=systemd"));
        let is_whole = mount.split(' ').nth(3)? == "/";
        (is_whole && (kind == "cgroup2" || kind == "cgroup" && is_shown))
            .then(|| mount.split(' ').nth(4).map(PathBuf::from))?
    };
    mounts.lines().filter_map(place).collect()
}

/// Begins the names that only this process uses.
fn own_name() -> String {
    format!("cpumon-it-{}", std::process::id())
}

/// A directory in a hierarchy, removed when dropped.
struct Group {
    dir: PathBuf,
    path: String,
}

impl Group {
    /// `None`: this process may not.
    fn new(mount: &Path, name: &str) -> Option<Self> {
        Self::at(mount, format!("/{}-{name}", own_name()))
    }

    fn at(mount: &Path, path: String) -> Option<Self> {
        let dir = mount.join(&path[1..]);
        std::fs::create_dir(&dir).ok().map(|()| Self { dir, path })
    }

    fn add(&self, pid: u32) {
        std::fs::write(self.dir.join("cgroup.procs"), pid.to_string()).unwrap();
    }

    /// Runs a process in it, for about a ms.
    fn run(&self) -> u32 {
        let script = "echo $$ > \"$0\" && exec true";
        let procs = self.dir.join("cgroup.procs");
        let mut child = Command::new("sh").args(["-c", script]).arg(procs).spawn().unwrap();
        assert!(child.wait().unwrap().success());
        child.id()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A process leaves its group a little after it was waited for.
        for _ in 0..1_000 {
            if std::fs::remove_dir(&self.dir).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(6));
        }
    }
}

fn exits_are_in_the_group_that_they_ended_in(probes: Probes) {
    let Some((mut source, _turn)) = bpf(probes) else { return };
    let group = |mount: &PathBuf, name: &str| Group::new(mount, name);
    let mounts: Vec<_> = mounts().into_iter().filter(|mount| group(mount, "try").is_some()).collect();
    if mounts.is_empty() {
        return say_skipped("it may not make control groups");
    }
    // Where the paths begin is known from the first pass on.
    pass(&mut source);
    let (mut pids, mut paths) = (Vec::new(), Vec::new());
    for mount in &mounts {
        for number in 0..60 {
            let group = group(mount, &format!("{number}-\u{1b}[31m docker-{}", "ab".repeat(32))).unwrap();
            pids.push(group.run());
            paths.push(group.path.clone());
        }
    }
    for (exit, path) in exits_of(&mut source, &pids).iter().zip(&paths) {
        assert_eq!((&*exit.info.cgroup, &*exit.info.container), (&**path, "abababababab"));
        assert!(exit.ends_process);
        assert_eq!(&*exit.info.name, "true");
        assert_eq!((exit.info.uid, &*exit.info.user), (0, "root"));
    }

    // One that a pass has read, and that is moved before it ends.
    let groups = ["first", "second"].map(|name| group(&mounts[0], name).unwrap());
    let mut child = Command::new("sh").args(["-c", "read line"]).stdin(Stdio::piped()).spawn().unwrap();
    groups[0].add(child.id());
    let snapshot = pass(&mut source);
    let read = snapshot.processes.iter().find(|process| process.key.pid == child.id()).unwrap();
    assert_eq!(*read.info.cgroup, *groups[0].path);
    groups[1].add(child.id());
    child.stdin.take().unwrap().write_all(b"go\n").unwrap();
    child.wait().unwrap();
    let exit = exits_of(&mut source, &[child.id()]).remove(0);
    assert_eq!((&*exit.info.cgroup, &*exit.info.name), (&*groups[1].path, &*read.info.name));
}

/// On a host with hierarchies of both versions, the engine's unit is in one and the container in another.
fn a_container_of_one_hierarchy_is_not_lost_behind_another(probes: Probes) {
    let Some((mut source, _turn)) = bpf(probes) else { return };
    let own = own_name();
    // An id, and names that are shorter: of the group and of the one above it.
    let containers = [
        (format!("/{own}-{}", "ab".repeat(32)), "abababababab"),
        (format!("/lxc.payload.{own}"), &*own),
        (format!("/machine-{own}.scope"), &*own),
        (format!("/garden/{own}"), &*own),
    ];
    let mounts: Vec<_> = mounts().into_iter().filter(|mount| Group::new(mount, "try").is_some()).collect();
    let (Some(first), Some(last)) = (mounts.first(), mounts.last().filter(|_| mounts.len() > 1)) else {
        return say_skipped("it has no two hierarchies of control groups");
    };
    pass(&mut source);
    let both = [(first, last), (last, first)];
    for ((of_engine, of_container), (path, name)) in
        both.into_iter().flat_map(|mounts| containers.iter().map(move |container| (mounts, container)))
    {
        let engine = Group::new(of_engine, "engine.service").unwrap();
        let _garden = path.starts_with("/garden/").then(|| Group::at(of_container, "/garden".to_owned()));
        let inner = Group::at(of_container, path.clone()).unwrap();
        // Both in the file and, for one that ends at once, from the probe.
        let mut living = Command::new("sleep").arg("600").spawn().unwrap();
        engine.add(living.id());
        inner.add(living.id());
        let script = "echo $$ > \"$0\" && echo $$ > \"$1\" && exec true";
        let files = [&engine, &inner].map(|group| group.dir.join("cgroup.procs"));
        let mut short = Command::new("sh").args(["-c", script]).args(files).spawn().unwrap();
        assert!(short.wait().unwrap().success());
        let ended = exits_of(&mut source, &[short.id()]).remove(0);
        let snapshot = pass(&mut source);
        living.kill().unwrap();
        living.wait().unwrap();
        let lives = snapshot.processes.iter().find(|process| process.key.pid == living.id()).unwrap();
        for info in [&lives.info, &ended.info] {
            assert_eq!((&*info.cgroup, &*info.container), (&*inner.path, *name));
        }
    }
}

fn a_group_deeper_than_is_sent_is_unknown(probes: Probes) {
    let Some((mut source, _turn)) = bpf(probes) else { return };
    let Some(top) = mounts().first().and_then(|mount| Group::new(mount, "deep")) else {
        return say_skipped("it may not make control groups");
    };
    pass(&mut source);
    let mut groups = vec![top];
    for _ in 0..32 {
        let above = groups.last().unwrap();
        let (dir, path) = (above.dir.join("x"), format!("{}/x", above.path));
        std::fs::create_dir(&dir).unwrap();
        groups.push(Group { dir, path });
    }
    let pids = [groups[32].run(), groups[31].run()];
    let [deepest, nearer] = &exits_of(&mut source, &pids)[..] else { panic!("two exits") };
    assert_eq!((&*deepest.info.cgroup, &*deepest.info.container), ("", ""));
    assert_eq!(*nearer.info.cgroup, *groups[31].path);
    while groups.pop().is_some() {}
}
