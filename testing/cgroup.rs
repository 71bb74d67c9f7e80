//! A control group with a CPU quota on this machine, for tests as root: of cgroup v2 where its `cpu` controller is there, else of v1.

use std::path::{Path, PathBuf};

/// A group that is removed when it goes out of scope; its processes must have ended.
pub struct LimitedGroup {
    dir: PathBuf,
    /// As /proc/PID/cgroup shows it.
    pub path: String,
    is_v2: bool,
}

/// The kernel's counters of a group.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KernelCounts {
    pub periods: u64,
    pub throttled_periods: u64,
    pub throttled_ns: u64,
}

impl LimitedGroup {
    /// A group with a quota of 0.05 CPU, which a spinner uses up on a busy machine too. `Err`: why not.
    pub fn twentieth(name: &str) -> Result<Self, String> {
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let found = |kind: &str, option: &str| {
            let is_it = |line: &&str| {
                line.split_once(" - ").is_some_and(|(_, rest)| {
                    let mut words = rest.split(' ');
                    let options = words.clone().nth(2).unwrap_or_default();
                    words.next() == Some(kind)
                        && (option.is_empty() || options.split(',').any(|one| one == option))
                })
            };
            mounts.lines().find(is_it).and_then(|line| line.split(' ').nth(4)).map(PathBuf::from)
        };
        let has_cpu = |root: &Path| {
            let list = std::fs::read_to_string(root.join("cgroup.subtree_control")).unwrap_or_default();
            list.split_whitespace().any(|one| one == "cpu")
        };
        let name = format!("{name}-{}", std::process::id());
        let v2 = found("cgroup2", "").filter(|root| has_cpu(root)).map(|root| (root, true));
        let root = v2.or_else(|| found("cgroup", "cpu").map(|root| (root, false)));
        let (root, is_v2) = root.ok_or("no hierarchy with quotas is mounted")?;
        let dir = root.join(&name);
        std::fs::create_dir(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
        let group = Self { dir, path: format!("/{name}"), is_v2 };
        let (file, quota) = if is_v2 { ("cpu.max", "5000 100000") } else { ("cpu.cfs_quota_us", "5000") };
        std::fs::write(group.dir.join(file), quota).map_err(|error| format!("{file}: {error}"))?;
        Ok(group)
    }

    /// Puts a process in, by its id.
    pub fn add(&self, pid: u32) {
        std::fs::write(self.dir.join("cgroup.procs"), pid.to_string()).unwrap();
    }

    /// What the kernel has counted up to now.
    pub fn counts(&self) -> KernelCounts {
        let text = std::fs::read_to_string(self.dir.join("cpu.stat")).unwrap();
        let value = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            line.unwrap().parse::<u64>().unwrap()
        };
        let throttled_ns = if self.is_v2 { value("throttled_usec") * 1_000 } else { value("throttled_time") };
        KernelCounts { periods: value("nr_periods"), throttled_periods: value("nr_throttled"), throttled_ns }
    }
}

impl Drop for LimitedGroup {
    fn drop(&mut self) {
        // A process that was killed leaves its group a little later.
        for _ in 0..100 {
            if std::fs::remove_dir(&self.dir).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}
