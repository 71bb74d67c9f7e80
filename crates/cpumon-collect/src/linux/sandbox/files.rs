//! Which files a thread reaches: Landlock (landlock(7)). Not for the thread that reads /proc: a domain hides `/proc/PID/exe` of
//! processes outside of it, whatever capabilities there are, and with it the names of programs.

use std::io;
use std::path::PathBuf;

use landlock::{
    ABI, Access, AccessFs, AccessNet, NetPort, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetStatus, Scope,
};

use crate::AllowedPaths;

/// What every thread reads: libraries, time zones, names of users, random bytes. Not /dev: its disks belong to root, so a process of
/// root would read them without any capability.
const READ: [&str; 14] = [
    "/usr",
    "/lib",
    "/lib64",
    "/nix/store",
    "/proc",
    "/sys",
    "/dev/null",
    "/dev/random",
    "/dev/urandom",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/etc/passwd",
    "/etc/group",
    "/etc/nsswitch.conf",
];
/// And a thread that finds the addresses of names. Directories: these files are replaced while it runs. The file itself, where it is a link
/// to elsewhere, such as in `/tmp`.
const RESOLVES: [&str; 3] = ["/etc", "/run", "/etc/resolv.conf"];
/// What the rules are written for; an older kernel holds those that it knows.
const VERSION: ABI = ABI::V6;

pub(crate) fn confine_files(allowed: &AllowedPaths) -> io::Result<String> {
    let status = restrict(allowed).map_err(io::Error::other)?;
    Ok(match status {
        RulesetStatus::FullyEnforced => "Landlock".to_owned(),
        RulesetStatus::PartiallyEnforced => "Landlock, as far as this kernel has it".to_owned(),
        RulesetStatus::NotEnforced => "no Landlock in this kernel".to_owned(),
    })
}

fn restrict(allowed: &AllowedPaths) -> Result<RulesetStatus, landlock::RulesetError> {
    let all = AccessFs::from_all(VERSION);
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let write = all & !(AccessFs::Execute | AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev);
    let mut ruleset = Ruleset::default()
        .handle_access(all)?
        .handle_access(AccessNet::from_all(VERSION))?
        .scope(Scope::from_all(VERSION))?
        .create()?;
    let resolves: &[&str] = if allowed.resolves { &RESOLVES } else { &[] };
    let fixed = READ.iter().chain(resolves).map(PathBuf::from);
    for (path, access) in fixed
        .chain(allowed.read.iter().cloned())
        .map(|path| (path, read))
        .chain(allowed.write.iter().cloned().map(|path| (path, write)))
    {
        // What is not there needs no rule; what cannot be opened gets none.
        let Ok(parent) = PathFd::new(&path) else { continue };
        let access = if path.is_dir() { access } else { access & AccessFs::from_file(VERSION) };
        ruleset = ruleset.add_rule(PathBeneath::new(parent, access))?;
    }
    for port in &allowed.connect {
        ruleset = ruleset.add_rule(NetPort::new(*port, AccessNet::ConnectTcp))?;
    }
    for port in &allowed.bind {
        ruleset = ruleset.add_rule(NetPort::new(*port, AccessNet::BindTcp))?;
    }
    Ok(ruleset.restrict_self()?.ruleset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_writes_only_where_it_may_and_so_do_those_it_starts() {
        let (mine, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (mine_path, other_path) = (mine.path().to_owned(), other.path().to_owned());
        std::fs::write(other_path.join("secret"), "s").unwrap();
        let tried = std::thread::spawn(move || {
            let allowed = AllowedPaths { write: vec![mine_path.clone()], ..AllowedPaths::default() };
            let message = confine_files(&allowed).unwrap();
            let tries = move || {
                (
                    std::fs::write(mine_path.join("a"), "x").is_ok(),
                    std::fs::rename(mine_path.join("a"), mine_path.join("b")).is_ok(),
                    std::fs::write(other_path.join("a"), "x").is_ok(),
                    std::fs::read(other_path.join("secret")).is_ok(),
                    std::fs::read("/proc/self/status").is_ok(),
                    std::process::Command::new("/bin/true").status().is_ok(),
                    std::net::TcpListener::bind("127.0.0.1:0").is_ok(),
                )
            };
            (message, std::thread::spawn(tries).join().unwrap())
        });
        let (message, tried) = tried.join().unwrap();
        if message.starts_with("no Landlock") {
            return crate::source::platform::skip::skip("needs a kernel with Landlock");
        }
        assert_eq!(tried, (true, true, false, false, true, false, false), "{message}");
        assert!(std::fs::write(other.path().join("b"), "x").is_ok(), "others are free");
    }

    #[test]
    fn a_thread_reads_neither_disks_nor_what_root_keeps_in_etc() {
        let tried = std::thread::spawn(|| {
            let message = confine_files(&AllowedPaths::default()).unwrap();
            let reads = |path: &str| std::fs::File::open(path).is_ok();
            (
                message,
                ["/etc/passwd", "/dev/null"].map(reads),
                ["/etc/shadow", "/dev", "/run", "/root"].map(reads),
            )
        });
        let (message, allowed, refused) = tried.join().unwrap();
        if message.starts_with("no Landlock") {
            return crate::source::platform::skip::skip("needs a kernel with Landlock");
        }
        assert_eq!((allowed, refused), ([true; 2], [false; 4]), "{message}");
    }
}
