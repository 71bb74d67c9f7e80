//! The agent: measures this machine and sends what it measured. In: the kernel and what the user asked for; out: datagrams.
//! Why a library: the slim `cpumon-agent`, `cpumon agent` and the desk's own agent are the same code.

mod sampler;

pub use sampler::{Sampler, SamplerOptions, Step};
