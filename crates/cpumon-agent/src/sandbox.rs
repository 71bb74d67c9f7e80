//! The sandbox of an agent: a Landlock domain for the threads that read from the network, and a seccomp filter for all threads.
//! The measuring thread is in no Landlock domain, because it could not read the names of other programs from one.

use std::io;

use cpumon_collect::{AllowedPaths, Calls, confine_calls, confine_files};

/// Port of name servers, for answers that are too long for a datagram.
const NAME_SERVERS: u16 = 53;

/// Runs `work` in a Landlock domain, which threads started by it inherit. Returns its result and the domain as text.
pub fn in_domain<T: Send>(
    mut allowed: AllowedPaths,
    work: impl FnOnce() -> T + Send,
) -> io::Result<(T, String)> {
    if allowed.resolves {
        // Landlock restricts TCP only: UDP queries to name servers need no rule.
        allowed.connect.push(NAME_SERVERS);
    }
    let confined = move || {
        let domain = confine_files(&allowed).unwrap_or_else(|error| {
            log::warn!("cannot restrict the files of network threads: {error}");
            "no Landlock".to_owned()
        });
        (work(), domain)
    };
    // A Landlock domain cannot be left. It restricts a thread of its own, so the calling thread stays free.
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("domain".to_owned()).spawn_scoped(scope, confined)?;
        thread.join().map_err(|_| io::Error::other("a thread panicked"))
    })
}

/// Blocks the system calls that this process no longer needs. Returns the filter as text. A kernel without seccomp is only logged.
#[must_use]
pub fn give_up_calls(calls: Calls) -> String {
    confine_calls(calls).unwrap_or_else(|error| {
        log::warn!("cannot give up system calls: {error}");
        "no seccomp".to_owned()
    })
}
