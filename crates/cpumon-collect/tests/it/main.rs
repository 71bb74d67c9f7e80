//! Integration tests of the collector: made-up /proc trees, the real /proc, and a steady state that allocates nothing.

mod alloc;
mod real;
mod support;
mod tree;
