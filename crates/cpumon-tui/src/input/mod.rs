//! What keys do.

mod fold;
mod keys;
mod moving;
mod prompt;
mod report_keys;
mod search;
mod windows;
