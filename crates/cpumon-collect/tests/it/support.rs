//! A /proc tree that a test writes file by file.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use cpumon_collect::{SourceChoice, SourceOptions};

/// A tree with one CPU and no process.
pub struct Tree {
    root: tempfile::TempDir,
}

/// A thread's data in the tree. Times are ticks of 10 ms.
#[derive(Clone)]
pub struct Task {
    pub pid: u32,
    pub tid: u32,
    pub comm: Vec<u8>,
    pub start: u64,
    pub user: u64,
    pub system: u64,
    pub run_ns: u64,
    pub delay_ns: u64,
    pub switches: (u64, u64),
}

impl Task {
    pub fn new(pid: u32, tid: u32) -> Self {
        Self {
            pid,
            tid,
            comm: b"task".to_vec(),
            start: 100,
            user: 0,
            system: 0,
            run_ns: 0,
            delay_ns: 0,
            switches: (0, 0),
        }
    }

    pub fn stat(&self) -> Vec<u8> {
        let mut line = format!("{} (", self.tid).into_bytes();
        line.extend_from_slice(&self.comm);
        let Self { user, system, start, .. } = self;
        line.extend_from_slice(
            format!(
                ") S 1 {pid} {pid} 0 -1 4194304 40 9 3 9 {user} {system} 0 0 20 0 1 0 {start} 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 17 3 0 0 0 0 0\n",
                pid = self.pid
            )
            .as_bytes(),
        );
        line
    }
}

impl Tree {
    pub fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let tree = Self { root };
        tree.write("stat", b"cpu  1 2 3 4\ncpu0 10 20 30 40 5 6 7 8 0 0\nintr 0\n");
        tree.write("sys/kernel/random/boot_id", b"3b2c7a9e-0f1d-4c5b-8a69-778899aabbcc\n");
        tree
    }

    pub fn path(&self) -> &Path {
        self.root.path()
    }

    pub fn options(&self) -> SourceOptions {
        SourceOptions {
            choice: SourceChoice::Procfs,
            proc_root: self.path().into(),
            fs_root: self.path().into(),
            ..SourceOptions::default()
        }
    }

    pub fn write(&self, file: &str, bytes: &[u8]) {
        let path = self.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    pub fn task_dir(&self, task: &Task) -> PathBuf {
        self.path().join(format!("{}/task/{}", task.pid, task.tid))
    }

    /// Writes all files of a thread, and those of its process if it is the main one.
    pub fn put(&self, task: &Task) {
        let dir = format!("{}/task/{}", task.pid, task.tid);
        let status = format!(
            "Name:\tx\nUid:\t1000\t1000\t1000\t1000\nvoluntary_ctxt_switches:\t{}\nnonvoluntary_ctxt_switches:\t{}\n",
            task.switches.0, task.switches.1
        );
        let schedstat = format!("{} {} {}\n", task.run_ns, task.delay_ns, task.switches.0 + task.switches.1);
        self.write(&format!("{dir}/stat"), &task.stat());
        self.write(&format!("{dir}/status"), status.as_bytes());
        self.write(&format!("{dir}/schedstat"), schedstat.as_bytes());
        if task.pid == task.tid {
            self.write(&format!("{}/stat", task.pid), &task.stat());
            self.write(&format!("{}/status", task.pid), status.as_bytes());
            self.write(&format!("{}/cgroup", task.pid), b"0::/system.slice/test.service\n");
            let _ = symlink("/usr/bin/program", self.path().join(format!("{}/exe", task.pid)));
        }
    }

    /// Writes the process's own stat: its totals.
    pub fn put_total(&self, total: &Task) {
        self.write(&format!("{}/stat", total.pid), &total.stat());
    }

    pub fn end(&self, task: &Task) {
        let dir =
            if task.pid == task.tid { self.path().join(task.pid.to_string()) } else { self.task_dir(task) };
        fs::remove_dir_all(dir).unwrap();
    }
}
