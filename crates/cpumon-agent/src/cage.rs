//! The cage of an agent. In: what it goes on to do. Out: a process that can do little else, and one line that says how it is held.
//! Why two parts: a Landlock domain would hide the names of programs from the thread that measures, so only the threads that
//! read what comes from the network are in one; the filter of system calls is for all.

use std::io;

use cpumon_collect::{AllowedPaths, Calls, confine_calls, confine_files};

/// Port of name servers, for answers that are too long for a datagram.
const NAME_SERVERS: u16 = 53;

/// Does something in a Landlock domain, where threads that it starts stay. Says how they are held.
pub fn in_domain<T: Send>(
    mut allowed: AllowedPaths,
    work: impl FnOnce() -> T + Send,
) -> io::Result<(T, String)> {
    allowed.connect.push(NAME_SERVERS);
    let confined = move || {
        let said = confine_files(&allowed).unwrap_or_else(|error| {
            log::warn!("cannot keep network threads from files: {error}");
            "no Landlock".to_owned()
        });
        (work(), said)
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("domain".to_owned()).spawn_scoped(scope, confined)?;
        thread.join().map_err(|_| io::Error::other("a thread panicked"))
    })
}

/// Takes the system calls from this process that it does not need any more; in words. A kernel that refuses is no reason to end.
pub(crate) fn give_up_calls(calls: Calls) -> String {
    confine_calls(calls).unwrap_or_else(|error| {
        log::warn!("cannot give up system calls: {error}");
        "no seccomp".to_owned()
    })
}
