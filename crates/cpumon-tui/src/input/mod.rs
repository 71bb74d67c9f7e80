//! What keys do.

mod command_lines;
mod fold;
mod keys;
mod mouse;
mod moving;
mod prompt;
mod report_keys;
mod search;
mod windows;
