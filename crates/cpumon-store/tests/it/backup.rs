//! Copies of a store that is being written.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cpumon_model::Trust;
use cpumon_store::{Query, Reader, StoreOptions, Writer, back_up, check};

use crate::data;
use crate::round_trip::read_all;

#[test]
fn a_copy_has_all_up_to_a_moment_while_a_writer_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let (path, info) = (dir.path().join("s.db"), data::host(1));
    let day = data::day(&info, 1, 400, 8);
    let options = StoreOptions { compact_intervals: 20, ..StoreOptions::default() };
    let mut writer = Writer::open(&path, &options).unwrap();
    let (first, later) = day.split_at(100);
    for interval in first {
        writer.put(&info, Trust::Local, None, interval).unwrap();
    }
    data::compact_all(&mut writer);
    let is_done = AtomicBool::new(false);
    let copies = std::thread::scope(|scope| {
        let copying = scope.spawn(|| {
            let mut copies = Vec::new();
            // The last one is made after all was written.
            loop {
                let is_last = is_done.load(Ordering::Relaxed);
                let to = dir.path().join(format!("copy-{}.db", copies.len()));
                let report = back_up(&path, &to, &Arc::default()).unwrap();
                assert!(report.is_sound(), "{report:?}");
                copies.push(to);
                if is_last {
                    return copies;
                }
            }
        });
        for interval in later {
            writer.put(&info, Trust::Local, None, interval).unwrap();
            writer.commit().unwrap();
        }
        data::compact_all(&mut writer);
        is_done.store(true, Ordering::Relaxed);
        copying.join().unwrap()
    });
    let all: Vec<_> = day.iter().map(data::active).collect();
    let mut least = first.len();
    for copy in &copies {
        assert_eq!(copy.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let found = read_all(&Reader::open(copy).unwrap(), &Query::new(info.host));
        assert!(found.len() >= least && found[..] == all[..found.len()], "{} of {}", found.len(), all.len());
        least = found.len();
    }
    assert_eq!(least, all.len());
    // A receiver goes on with it.
    drop(Writer::open(&copies[0], &options).unwrap());
}

#[test]
fn a_copy_replaces_nothing_and_a_stopped_one_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (path, to, info) = (dir.path().join("s.db"), dir.path().join("copy.db"), data::host(1));
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    for interval in &data::day(&info, 1, 10, 4) {
        writer.put(&info, Trust::Local, None, interval).unwrap();
    }
    drop(writer);
    let copies = || {
        let names = dir.path().read_dir().unwrap().map(|entry| entry.unwrap().file_name());
        // SQLite makes files beside a store that is read.
        names.filter(|name| !name.to_str().unwrap().starts_with("s.db")).collect::<Vec<_>>()
    };
    assert!(back_up(&path, &to, &Arc::new(AtomicBool::new(true))).is_err());
    assert!(back_up(&dir.path().join("none.db"), &to, &Arc::default()).is_err());
    assert_eq!(copies(), [""; 0]);
    std::fs::write(&to, "precious").unwrap();
    let words = back_up(&path, &to, &Arc::default()).unwrap_err().with_causes();
    assert!(words.contains("cannot back up to") && words.contains("copy.db"), "{words}");
    assert_eq!(std::fs::read(&to).unwrap(), b"precious");
    std::fs::remove_file(&to).unwrap();
    assert!(back_up(&path, &to, &Arc::default()).unwrap().is_sound());
    assert!(check(&to, None, &Arc::default()).unwrap().is_sound());
}
