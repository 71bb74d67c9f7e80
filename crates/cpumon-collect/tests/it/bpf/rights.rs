//! Permissions of the source: without them it says which to grant.

use cpumon_collect::{SourceChoice, SourceOptions, open};
use cpumon_model::SourceKind;

/// Drops this thread's privileges.
#[expect(unsafe_code, reason = "capset(2)")]
fn drop_capabilities() {
    #[repr(C)]
    struct Header {
        version: u32,
        pid: i32,
    }
    // _LINUX_CAPABILITY_VERSION_3; effective, permitted and inheritable sets of 2 x 32 bits: none.
    let (header, none) = (Header { version: 0x2008_0522, pid: 0 }, [0_u32; 6]);
    // SAFETY: both pointers are to live values of the layout that capset(2) documents.
    let result = unsafe { libc::syscall(libc::SYS_capset, &raw const header, none.as_ptr()) };
    assert_eq!(result, 0);
}

#[test]
fn without_permission_the_reason_says_what_to_grant() {
    let unprivileged = std::thread::spawn(|| {
        drop_capabilities();
        let choose = |choice| open(&SourceOptions { choice, ..SourceOptions::default() });
        let refused = choose(SourceChoice::Bpf).unwrap_err().to_string();
        assert!(refused.contains("CAP_BPF CAP_PERFMON") && !refused.contains('\n'), "{refused}");
        println!("{refused}");
        let fallen_back = choose(SourceChoice::Auto).unwrap();
        assert_eq!(fallen_back.kind, SourceKind::Procfs);
        assert!(fallen_back.reason.starts_with("procfs: ") && fallen_back.reason.contains("CAP_BPF"));
    });
    unprivileged.join().unwrap();
}
