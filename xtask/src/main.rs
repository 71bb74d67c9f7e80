//! Repository chores, run as `cargo xtask NAME`. In: the checkout. Out: an exit status and what is wrong, in words.

mod direction;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "xtask", about = "Repository chores")]
struct Args {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Check that rooms import only what docs/architecture.md allows, and that platforms live in one place
    CheckDirection,
}

fn main() -> ExitCode {
    let result = match Args::parse().chore {
        Chore::CheckDirection => direction::check(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
