//! Threads and processes come and go beside the agent: neither its memory nor the kernel's maps grow. `make soak` is the long
//! form of this.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::scene::{PATIENCE, Scene, Stop};

/// Until the buffers have their size, and after that: then it grows no more.
const WARM_UP: Duration = Duration::from_secs(5);
const LONG_ENOUGH: Duration = Duration::from_secs(8);

/// Memory and descriptors of the agent.
#[derive(Debug)]
struct Held {
    rss_kib: u64,
    /// Bytes of each BPF map, by its id.
    maps: BTreeMap<u64, u64>,
    descriptors: usize,
    /// Files of threads in /proc that are read again and again; not among the descriptors.
    kept: usize,
}

impl Held {
    fn by(pid: u32) -> Self {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let rss = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        let files: Vec<_> = fs::read_dir(format!("/proc/{pid}/fdinfo")).unwrap().collect();
        let maps = files.iter().filter_map(|file| {
            // It may be closed by now.
            let text = fs::read_to_string(file.as_ref().ok()?.path()).ok()?;
            let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key))?.trim().parse().ok();
            Some((value("map_id:")?, value("memlock:")?))
        });
        let links = fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
        let links = links.filter_map(|file| fs::read_link(file.ok()?.path()).ok());
        let kept = links.filter(|link| link.to_string_lossy().contains("/task")).count().min(files.len());
        Self {
            rss_kib: rss.split_whitespace().next().unwrap().parse().unwrap(),
            maps: maps.collect(),
            descriptors: files.len() - kept,
            kept,
        }
    }

    fn has_not_grown(&self, early: &Self) -> bool {
        // Three for each thread of process 1, which some virtual machines hide from BPF, and its directory.
        let most_kept = fs::read_dir("/proc/1/task").unwrap().count() * 3 + 1;
        self.maps == early.maps
            && self.descriptors <= early.descriptors + 1
            && self.kept <= most_kept
            && self.rss_kib <= early.rss_kib + 2048
    }
}

/// Short threads and processes, and a crowd that comes and goes.
fn churn(stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let wait = || thread::sleep(Duration::from_millis(20));
        let crowd: Vec<_> = (0..50).map(|_| thread::spawn(wait)).collect();
        assert!(Command::new("true").status().unwrap().success());
        for thread in crowd {
            thread.join().unwrap();
        }
    }
}

#[test]
fn churn_leaves_nothing_behind() {
    let Some(scene) = Scene::set() else { return };
    let agent = scene.start(&[], &["--source", "bpf"]);
    scene.receive(1);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let _stop = Stop(&stop);
        scope.spawn(|| churn(&stop));
        thread::sleep(WARM_UP);
        let (begin, mut early) = (Instant::now(), Held::by(agent.0.id()));
        assert!(!early.maps.is_empty(), "{early:?}");
        // A crowd of threads of another program makes it grow once. A leak grows all the time.
        loop {
            thread::sleep(LONG_ENOUGH);
            let late = Held::by(agent.0.id());
            if late.has_not_grown(&early) {
                break;
            }
            assert!(begin.elapsed() < PATIENCE, "{early:?} {late:?}");
            early = late;
        }
    });
    let messages = agent.end();
    assert!(!messages.contains("malformed"), "{messages}");
}
