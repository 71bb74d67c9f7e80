//! Repository chores, run as `cargo xtask NAME`. In: the checkout. Out: an exit status and the faults, in words.

mod churn;
mod columns;
mod cycles;
mod direction;
mod load;
mod parameters;
mod repository;
mod simulate;
mod words;

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
    /// Check that crates import only what docs/architecture.md allows, and that platforms are picked in one place
    CheckDirection,
    /// Check that no files of a crate import one another in a cycle (part of check-direction)
    CheckCycles,
    /// Check that functions take structs, not tuples
    CheckParameters,
    /// Check that code, docs and user interface use the field's words (xtask/words.toml)
    CheckWords(words::WordsArgs),
    /// Write the page's columns from the table in cpumon-model
    GenerateColumns(columns::ColumnsArgs),
    /// Hold many idle threads and a few active ones
    Load(load::LoadArgs),
    /// Read every thread's /proc stat file once a second, the plain way
    Floor(load::FloorArgs),
    /// Send the frames of many made-up hosts to a receiver on loopback
    Simulate(simulate::SimulateArgs),
    /// Start short processes at a rate and report the CPU time that they used
    Storm(load::StormArgs),
    /// Send datagrams to itself on loopback
    Flood(churn::FloodArgs),
    /// Threads and processes that come, change, talk and go
    Churn(churn::ChurnArgs),
    /// One thread that works in one way, and reports its exact CPU time
    Work(load::WorkArgs),
    /// Context switches at a steady rate on one CPU, and counting in the rest of the time
    Switches(load::SwitchesArgs),
    /// Burn CPU time, µs (a child of the storm)
    #[command(hide = true)]
    Burn { us: u32 },
}

fn main() -> ExitCode {
    let result = match Args::parse().chore {
        Chore::CheckDirection => direction::check(),
        Chore::CheckCycles => cycles::check(),
        Chore::CheckParameters => parameters::check(),
        Chore::CheckWords(args) => words::check(&args),
        Chore::GenerateColumns(args) => columns::generate(&args),
        Chore::Load(args) => load::threads(&args),
        Chore::Floor(args) => load::poll(&args),
        Chore::Simulate(args) => simulate::simulate(&args),
        Chore::Storm(args) => load::storm(&args),
        Chore::Flood(args) => churn::flood(&args),
        Chore::Churn(args) => churn::churn(&args),
        Chore::Work(args) => load::work(&args),
        Chore::Switches(args) => load::switches(&args),
        Chore::Burn { us } => load::burn(us),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
