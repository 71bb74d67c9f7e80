//! What access lists do, on NTFS or on what Wine makes of them (the modes of the files beneath).

use super::*;

fn everyone_may_read(path: &Path) {
    // icacls is not part of Wine; a file that inherits its rights is what another program would make.
    std::fs::write(path, "x").unwrap();
}

#[test]
fn what_is_made_is_private_and_what_is_there_stays() {
    let dir = tempfile::tempdir().unwrap();
    let new = dir.path().join("a/b");
    create_dir(&new).unwrap();
    create_dir(&new).unwrap();
    let (first, second) = (new.join("first"), new.join("second"));
    assert!(create_empty(&first).unwrap() && !create_empty(&first).unwrap());
    drop(open_to_write(&second).unwrap());
    for path in [&first, &second] {
        open_private(path).unwrap();
    }
    std::fs::write(&first, "text").unwrap();
    drop(open_to_write(&first).unwrap());
    assert_eq!(std::fs::read_to_string(&first).unwrap(), "text");
    assert_eq!(create_new(&first).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    assert!(open_private(&new).unwrap_err().to_string().contains("regular file"));
    assert_eq!(open_private(&new.join("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
}

#[test]
fn a_secret_that_others_may_read_is_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("open");
    everyone_may_read(&path);
    let error = open_private(&path).unwrap_err().to_string();
    assert!(error.contains("others may use it (S-1-") && error.contains("icacls"), "{error}");
}

#[test]
fn names_of_a_file_are_counted_and_the_user_has_an_id() {
    let dir = tempfile::tempdir().unwrap();
    let (path, other) = (dir.path().join("one"), dir.path().join("two"));
    let file = create_new(&path).unwrap();
    assert!(!has_other_names(&file).unwrap());
    std::fs::hard_link(&path, &other).unwrap();
    assert!(has_other_names(&file).unwrap());
    assert!(this_user().starts_with("sid S-1-5-"), "{}", this_user());
    assert_eq!(Sid(Sid::ADMINISTRATORS.to_vec()).to_string(), "S-1-5-32-544");
}
