//! A group's key file and the rights of others.

use std::os::unix::fs::PermissionsExt;

use cpumon_link::group::{GroupError, add_key, read_keys};

#[test]
fn a_file_that_others_may_read_or_that_holds_something_else_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("keys");
    add_key(&path).unwrap();
    let mut text = std::fs::read_to_string(&path).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
    let error = read_keys(&path).unwrap_err().to_string();
    assert!(error.contains("640") && error.contains("chmod 600"), "{error}");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
    text.push_str("\n  # mine\ncpumon-key1.AAAA\n");
    std::fs::write(&path, &text).unwrap();
    assert!(matches!(read_keys(&path), Err(GroupError::NoKey { line: 5, .. })));
}
