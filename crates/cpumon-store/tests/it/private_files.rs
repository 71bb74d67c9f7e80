//! A store's files are for their owner only.

use std::os::unix::fs::{MetadataExt, PermissionsExt};

use cpumon_model::Trust;
use cpumon_store::{StoreOptions, Writer};

use crate::data;

#[test]
fn a_new_store_is_readable_by_its_owner_only_and_an_old_one_keeps_its_mode() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sqlite");
    let write = || {
        let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
        let info = data::host(1);
        for interval in &data::day(&info, 1, 3, 3) {
            writer.put(&info, Trust::Local, None, interval).unwrap();
        }
        writer.commit().unwrap();
        writer
    };
    let modes = || -> Vec<(String, u32)> {
        let entries = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap());
        let mut modes: Vec<_> = entries
            .map(|entry| (entry.file_name().into_string().unwrap(), entry.metadata().unwrap().mode() & 0o777))
            .collect();
        modes.sort();
        modes
    };
    let files = ["s.sqlite", "s.sqlite-shm", "s.sqlite-wal", "s.sqlite-writer"];
    let writer = write();
    assert_eq!(modes(), files.map(|name| (name.to_owned(), 0o600)));
    drop(writer);
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
    let _writer = write();
    assert!(modes().contains(&("s.sqlite".to_owned(), 0o640)), "the user's choice");
}
