//! What keys do.

mod fold;
mod keys;
mod prompt;
mod search;
mod windows;
