//! `cpumon why`: why a program, a service or the machine is slow, and who did it, in five blocks: WHY, DO, TIME, SURE, MORE.

use std::ffi::OsString;
use std::io::{self, Write};
use std::time::Duration;

use anyhow::{Context, bail};
use cpumon_model::Trust;
use cpumon_query::time::now_ns;
use cpumon_query::why::{Why, WhyQuery, WhySubject, WhyTarget, shell_word};
use cpumon_query::{GroupBy, QueryError};
use textwrap::Options;

use crate::cli::{self, CliCommand, OutputFormat, PastArgs, TraceArgs, TraceCommand, WhyArgs};
use crate::exit::{Outcome, Usage, say};
use crate::output::{paragraph, terminal_columns, write_document};
use crate::past::{Past, answered};
use crate::report::screen;
use crate::trace;

/// Width of the titles of blocks, with the space behind them.
const TITLE_COLUMNS: usize = 6;

fn query(args: &WhyArgs) -> Result<WhyQuery, Usage> {
    let (since_ns, until_ns) = args.range.range_ns()?;
    let groups = [
        (GroupBy::Service, &args.service),
        (GroupBy::Container, &args.container),
        (GroupBy::User, &args.user),
    ];
    let group =
        groups.into_iter().find_map(|(by, name)| Some(WhySubject::Group(by, name.as_deref()?.into())));
    let name = args.name.as_deref().filter(|name| !name.is_empty());
    let named = name.map(|name| WhySubject::Named(name.into()));
    let subject = named.or(group).unwrap_or_default();
    Ok(WhyQuery { subject, since_ns, until_ns, at_ns: args.at.map(|at| at.wall_ns) })
}

pub(crate) fn why(args: &WhyArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let query = query(args)?;
    let past = Past::open(&args.past)?;
    let host = match &args.host {
        Some(name) => Ok(name.clone()),
        None => past.usual_host("this question").map(|host| host.to_string()),
    };
    let made = host.and_then(|host| past.why(&host, &query));
    if let Err(error @ QueryError::NoProcess { .. }) = &made {
        say(&format!(
            "{error}: it did not run, or it waited all the time; `cpumon find` shows when it ran; a longer --since may include it"
        ));
        // It may be in a part of the store that is damaged.
        return Ok(past.end(Outcome::DataMissing));
    }
    let Some(mut why) = answered(made)? else { return Ok(past.end(Outcome::DataMissing)) };
    name_place(&mut why, &place_of(&args.past));
    match args.format.get() {
        OutputFormat::Table => text(&why, out).map_err(anyhow::Error::from),
        format => write_document(&why, format, out),
    }
    .context("cannot write the answer")?;
    let outcome = past.end(Outcome::Done);
    let Some(length) = args.record else { return Ok(outcome) };
    let is_local = past
        .hosts()
        .is_ok_and(|all| all.iter().any(|host| host.info.host == why.host && host.trust == Trust::Local));
    if !is_local {
        return Err(
            Usage("--record records this machine, and the answer is of another one".to_owned()).into()
        );
    }
    out.flush().context("cannot write the answer")?;
    record(length, &why)?;
    Ok(outcome)
}

/// The option by which a command asks the same store or receiver; empty for the usual store, and where a shell would not read it as a word.
fn place_of(past: &PastArgs) -> String {
    let option = match (&past.store.store, &past.url) {
        (Some(file), _) => file.to_str().and_then(shell_word).map(|file| format!(" --store {file}")),
        (None, Some(url)) => shell_word(url).map(|url| format!(" --url {url}")),
        (None, None) => None,
    };
    option.unwrap_or_default()
}

/// Lets the commands of an answer ask where it came from.
fn name_place(why: &mut Why, place: &str) {
    // A trace is taken by a receiver only.
    let more = place.starts_with(" --url").then_some("trace take");
    let asks = |command: &&mut String| {
        ["why", "top", "report"]
            .iter()
            .copied()
            .chain(more)
            .any(|name| command.starts_with(&format!("cpumon {name}")))
    };
    let commands = why.causes.iter_mut().filter_map(|cause| cause.command.as_mut());
    commands.chain(&mut why.more).filter(asks).for_each(|command| command.push_str(place));
    if why.causes.is_empty() {
        why.action.push_str(place);
    }
}

fn text(why: &Why, out: &mut dyn Write) -> io::Result<()> {
    let columns = terminal_columns();
    paragraph(&why.head(screen()), columns, out)?;
    for block in why.blocks(screen()) {
        if ["WHY", "TIME", "SURE"].contains(&block.title) {
            writeln!(out)?;
        }
        let mut title = format!("{:<TITLE_COLUMNS$}", block.title);
        for line in &block.lines {
            // A command is one line: it can be pasted.
            if block.is_command(line) {
                writeln!(out, "{title}{line}")?;
                title = " ".repeat(TITLE_COLUMNS);
                continue;
            }
            let indent = " ".repeat(TITLE_COLUMNS);
            let options = Options::new(columns).initial_indent(&title).subsequent_indent(&indent);
            textwrap::wrap(line, options).iter().try_for_each(|line| writeln!(out, "{line}"))?;
            title = indent;
        }
    }
    Ok(())
}

/// Records a trace as `cpumon trace record` does, and names the command that reads it.
fn record(length: Duration, why: &Why) -> anyhow::Result<()> {
    let file = format!("why-{}.trace", now_ns() / 1_000_000_000);
    let length = format!("{}ms", length.as_millis());
    let words = ["cpumon", "trace", "record", "--for", &length, "-o", &file].map(OsString::from);
    let CliCommand::Trace(TraceArgs { command: TraceCommand::Record(args) }) = cli::parse(words)?.command
    else {
        bail!("trace record is no command");
    };
    trace::record(&args)?;
    say(&reader_of(&file, &why.subject));
    Ok(())
}

/// The command that reads a trace of the subject. A name comes from elsewhere: where it is no plain word, the pid names the process.
fn reader_of(file: &str, target: &WhyTarget) -> String {
    let is_program = matches!(target.by.as_deref(), Some("name" | "process"));
    let name = shell_word(&target.name).map(str::to_owned);
    match name.or_else(|| target.pid.map(|pid| pid.to_string())).filter(|_| is_program) {
        Some(process) => format!("cpumon trace path {file} --process {process}"),
        None => format!("cpumon trace report {file} --by program"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_ask_the_store_or_the_receiver_of_the_answer() {
        let answer: Why = serde_json::from_value(serde_json::json!({
            "host": "06060606060606060606060606060606", "host_name": "web1", "subject": { "name": "web1", "processes": 0 },
            "since_ns": "1", "until_ns": "2", "causes": [], "summary": [], "action": "Ask: cpumon why CALLER",
            "time": { "range": { "since_ns": "1", "until_ns": "2" }, "measured_ns": 1, "total_ns": 1, "states": [] },
            "sure": { "level": "high", "rests_on": [], "not_measured": [], "sentences": [] },
            "more": ["cpumon why db", "cpumon top --at 5", "cpumon trace take --host web1", "cpumon trace record --for 5s"],
        }))
        .unwrap();
        for (place, taken) in [(" --store s.db", ""), (" --url http://web1:3080", " --url http://web1:3080")]
        {
            let mut why = answer.clone();
            name_place(&mut why, place);
            let expected = [
                format!("cpumon why db{place}"),
                format!("cpumon top --at 5{place}"),
                format!("cpumon trace take --host web1{taken}"),
                "cpumon trace record --for 5s".to_owned(),
            ];
            assert_eq!((why.more, why.action), (expected.to_vec(), format!("Ask: cpumon why CALLER{place}")));
        }
    }

    #[test]
    fn a_name_of_a_process_is_no_shell_command() {
        let target = |name: &str, pid: Option<u32>| {
            let by = Some("name".to_owned());
            WhyTarget { by, name: name.into(), pid, ..WhyTarget::default() }
        };
        let path = |process: &str| format!("cpumon trace path a.trace --process {process}");
        assert_eq!(reader_of("a.trace", &target("shop", Some(7))), path("shop"));
        assert_eq!(reader_of("a.trace", &target("x;rm -rf ~", Some(7))), path("7"));
        for name in ["$(reboot)", "a b", "-rf", "`id`", "a\nb"] {
            let command = reader_of("a.trace", &target(name, None));
            assert_eq!(command, "cpumon trace report a.trace --by program", "{name}");
        }
        let machine = WhyTarget { name: "vm".into(), ..WhyTarget::default() };
        assert_eq!(reader_of("a.trace", &machine), "cpumon trace report a.trace --by program");
    }
}
