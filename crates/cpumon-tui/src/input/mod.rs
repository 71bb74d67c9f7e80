//! What keys do.

mod fold;
mod keys;
mod moving;
mod prompt;
mod search;
mod windows;
