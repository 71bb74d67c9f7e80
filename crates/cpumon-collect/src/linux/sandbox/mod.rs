//! What a process that has started may still ask of the kernel. In: what it is to do from now on. Out: a seccomp filter
//! for all its threads, a Landlock domain for the calling one and those it starts. Why: an attacker who takes over a parser gets no more
//! than the parser needs. A kernel that lacks one of them is no reason to end: the result is reported in words.

mod calls;
mod files;

pub(crate) use calls::confine_calls;
pub(crate) use files::confine_files;
