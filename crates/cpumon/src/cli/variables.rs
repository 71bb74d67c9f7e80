//! The `CPUMON_*` variables of the flags. A variable is a default: it does not choose what a command does, and a typed
//! argument wins over a variable that contradicts it. An empty one is not set. Those of `top` have a second name,
//! `CPUMON_TOP_SORT`, so that a user's view can be in a profile without an effect on other commands.

use clap::builder::Resettable;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command, Id};
use cpumon_agent::{variable_of, with_old_variable, with_yes_and_no, without_unset_variable};
use cpumon_export::{Kind, LegacyYear, QueryPart};

/// Adds the variables to the flags of each subcommand, except those that `typed` overrides.
pub(super) fn add_to(root: Command, typed: Option<&ArgMatches>) -> Command {
    root.mut_subcommands(|command| {
        let typed = typed.and_then(|typed| typed.subcommand_matches(command.get_name()));
        let is_top = command.get_name() == "top";
        let command = with_variables(command, typed, is_top);
        command.mut_subcommands(|nested| {
            let typed = typed.and_then(|typed| typed.subcommand_matches(nested.get_name()));
            // `trace top` is another command.
            with_variables(nested, typed, false)
        })
    })
}

fn with_variables(command: Command, typed: Option<&ArgMatches>, is_top: bool) -> Command {
    let overridden = typed.map_or_else(Vec::new, |typed| overridden(&command, typed));
    command.mut_args(|arg| {
        if overridden.contains(arg.get_id()) {
            // Flags of an agent have it already.
            return arg.env(Resettable::Reset);
        }
        let with = with_variable(arg, is_top);
        // Without a command line to parse, help and man pages name all variables.
        if typed.is_some() { without_unset_variable(with) } else { with }
    })
}

fn with_variable(arg: Arg, is_top: bool) -> Arg {
    let Some(long) = arg.get_long().map(str::to_owned) else { return arg };
    let own = variable_of(&format!("top-{long}"));
    let has_own = is_top && std::env::var_os(&own).is_some_and(|value| !value.is_empty());
    let name = if has_own { own } else { variable_of(&long) };
    // One sentence in the help covers all variables; the man pages name each.
    with_yes_and_no(with_old_variable(arg.env(name)).hide_env(true).hide_env_values(true))
}

/// The flags whose variables do not count beside the typed arguments.
fn overridden(command: &Command, typed: &ArgMatches) -> Vec<Id> {
    let is_typed = |id: &Id| {
        typed.try_contains_id(id.as_str()).is_ok()
            && typed.value_source(id.as_str()) == Some(ValueSource::CommandLine)
    };
    let mut all: Vec<Id> = by_command(command.get_name(), typed).map(Id::from).collect();
    for arg in command.get_arguments() {
        // A conflict is declared on one side only.
        let opponents = command.get_arg_conflicts_with(arg);
        if is_typed(arg.get_id()) {
            all.extend(opponents.iter().map(|opponent| opponent.get_id().clone()));
        } else if opponents.iter().any(|opponent| is_typed(opponent.get_id())) {
            all.push(arg.get_id().clone());
        }
    }
    all
}

/// Flags that choose the work of a command, or have no effect on it.
fn by_command(name: &str, typed: &ArgMatches) -> Box<dyn Iterator<Item = &'static str>> {
    let is_typed_output = typed.try_contains_id("output").is_ok()
        && typed.value_source("output") == Some(ValueSource::CommandLine);
    // The ending of a typed file name wins too.
    let formats = ["format", "json"].into_iter().filter(move |_| is_typed_output);
    match name {
        // Without --store they show this machine or a receiver. `top --at` reads the store of the variable, see `paths`.
        "top" => Box::new(std::iter::once("store").chain(formats)),
        "hosts" => Box::new(["store", "stored"].into_iter().chain(formats)),
        // Without --url they read a store.
        "report" | "find" | "gaps" | "list" | "get" => Box::new(std::iter::once("url").chain(formats)),
        // What is slow, and when, is typed; the variable of --record is a directory of the agent's.
        "why" => Box::new(["url", "service", "container", "user", "at", "record"].into_iter().chain(formats)),
        "ledger" => {
            // With --live it is the receiver of --host.
            let has = |id: &str| typed.try_contains_id(id).is_ok_and(|is_given| is_given);
            let is_of_receiver = has("live") && has("host");
            Box::new(std::iter::once("url").filter(move |_| !is_of_receiver).chain(formats))
        }
        "export" => {
            let kind = typed.try_get_one::<Kind>("kind").ok().flatten().copied();
            let is_legacy = typed.try_get_one::<LegacyYear>("legacy").ok().flatten().is_some();
            Box::new(without_effect(kind, is_legacy).chain(std::iter::once("url")).chain(formats))
        }
        _ => Box::new(formats),
    }
}

/// Options of `cpumon export` that have an effect on some kinds only.
pub(super) const PARTS: [(&str, QueryPart); 5] = [
    ("by", QueryPart::GroupBy),
    ("value", QueryPart::PivotValue),
    ("process", QueryPart::Process),
    ("interval", QueryPart::Interval),
    ("active", QueryPart::Active),
];

/// The options without an effect on `kind`, whose variables do not count.
fn without_effect(kind: Option<Kind>, is_legacy: bool) -> impl Iterator<Item = &'static str> {
    let has_effect = move |part: QueryPart| {
        kind.is_none_or(|kind| part.kinds().contains(&kind)) && (!is_legacy || part.is_in_legacy())
    };
    PARTS.iter().filter(move |(_, part)| !has_effect(*part)).map(|(id, _)| *id)
}
