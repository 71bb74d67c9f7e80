//! The sandbox of a process that has started: a seccomp filter for all its threads, and a Landlock domain for the calling thread and
//! those it starts. An attacker who takes over a parser gets no more than the parser needs. A kernel that lacks one of them is no
//! reason to end: the result is reported in words.

mod calls;
mod files;

pub(crate) use calls::confine_calls;
pub(crate) use files::confine_files;
