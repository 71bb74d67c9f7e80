//! Access lists, on NTFS or on Wine's emulation (the modes of the files beneath).

use std::path::PathBuf;

use super::*;

fn everyone_may_read(path: &Path) {
    // icacls is not part of Wine; a file that inherits its rights is like one of another program.
    std::fs::write(path, "x").unwrap();
}

#[test]
fn what_is_made_is_private_and_what_is_there_stays() {
    let dir = tempfile::tempdir().unwrap();
    let new = dir.path().join("a/b");
    create_dir(&new).unwrap();
    create_dir(&new).unwrap();
    let (first, second) = (new.join("first"), new.join("second"));
    assert!(crate::create_empty(&first).unwrap() && !crate::create_empty(&first).unwrap());
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

/// In `%ProgramData%` any user could make the directory before the service came, and then replace its files.
#[test]
fn a_directory_that_another_user_made_where_all_may_is_refused() {
    let shared = tempfile::tempdir().unwrap();
    let (us, other) = (security::this_user().unwrap(), Sid(vec![1, 1, 0, 0, 0, 0, 0, 5, 7, 0, 0, 0]));
    let dir = shared.path().join("cpumon").join("spool");
    create_dir(&dir).unwrap();
    let check = |path: &Path, owner: &Sid| {
        let is_made = |at: &Path| at.file_name().is_some_and(|name| name.eq_ignore_ascii_case("cpumon"));
        let owner_of = |at: &Path| Ok(if is_made(at) { owner.clone() } else { us.clone() });
        check_makers(path, shared.path(), &us, owner_of).map_err(|error| error.to_string())
    };
    for owner in [&us, &Sid(Sid::SYSTEM.to_vec()), &Sid(Sid::ADMINISTRATORS.to_vec())] {
        check(&dir, owner).unwrap();
    }
    let upper = PathBuf::from(dir.to_str().unwrap().to_uppercase());
    for path in [&dir, &upper, &dir.join(".")] {
        let error = check(path, &other).unwrap_err();
        assert!(error.contains("belongs to user S-1-5-7") && error.contains("remove it"), "{error}");
    }
    // Elsewhere the user who names a directory knows its owner.
    check_makers(&dir, &shared.path().join("cpumon").join("spool"), &us, |_| Ok(other.clone())).unwrap();
    assert!(security::owner_of(&dir).unwrap().is_trusted(&us));
}
