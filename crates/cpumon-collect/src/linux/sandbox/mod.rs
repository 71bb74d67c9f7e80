//! What a process that has started may still ask of the kernel. In: what it is to do from now on. Out: a seccomp filter
//! for all its threads, a Landlock domain for the calling one and those it starts. Why: whoever takes over a parser gets no more
//! than the parser needs. A kernel that lacks one of them is no reason to end: what was got is said.

mod calls;
mod files;

pub(crate) use calls::confine_calls;
pub(crate) use files::confine_files;
