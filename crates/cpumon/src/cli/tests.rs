//! The command line: what is accepted, what is refused, and how the help reads.

use super::*;

fn read(line: &str) -> Result<Cli, clap::Error> {
    parse(std::iter::once("cpumon").chain(line.split_whitespace()).map(OsString::from))
}

#[test]
fn the_definition_is_sound() {
    command().debug_assert();
}

#[test]
fn every_option_has_a_variable() {
    let mut options = 0;
    for subcommand in command().get_subcommands() {
        for arg in subcommand.get_arguments() {
            let Some(long) = arg.get_long().filter(|long| !["help", "version"].contains(long)) else {
                continue;
            };
            let variable = arg.get_env().and_then(|name| name.to_str()).unwrap_or_default();
            assert!(variable.starts_with("CPUMON_"), "{} --{long}: {variable:?}", subcommand.get_name());
            options += 1;
        }
    }
    assert!(options > 40, "only {options} options were looked at");
}

#[test]
fn the_names_that_other_tools_rely_on_are_understood() {
    for line in [
        "serve --udp 0.0.0.0:3001 --http 127.0.0.1:3080 --store x.db --no-agent",
        "serve --udp 0.0.0.0:3001 --udp [::]:3001 --multicast 239.0.0.1 --retain-days 7 --retain-bytes 10GB",
        "run --interval 500ms --source procfs",
        "top",
        "top --host dev --url http://127.0.0.1:1",
        "top --store x.db --at 14:05",
        "top -b -n 3 -d 2 -p 1,2 -H -o json",
        "import ProcessUsage.sqlite --store x.db --host dev --time-zone Europe/Berlin",
        "export processes --store x.db",
        "export threads --store x.db -o y.csv --format csv --since 1405 --until now --process bash --interval 1m",
        "export pivot --store x.db --format jsonl --by program --value pct --host dev",
        "export pivot --store x.db --legacy 2012",
        "export ledger --store x.db --legacy 2013",
        "export chart cpu --store x.db --host dev --since 1405 --until now -o x.svg",
        "export chart tasks --process web --process 10-52000000 --thread 10-5/11-6 --percent host -o x.png",
        "export chart states --process 10 --blocked --width 800 --height 400 --theme dark --zone Europe/Berlin",
        "export chart landscape --by process --rows 20 --zone local --finest",
        "export chart cpus --host dev --since 1405 --until now -o x.png",
        "export chart fleet --host a --host b --sort busy --reverse --rows 20 --offset 40",
        "hosts --json",
        "hosts revoke dev --state d",
        "hosts enrolled --store x.db",
        "hosts pending --store x.db",
        "hosts accept 1234-5678 --state d",
        "hosts reject dev --state d",
        "discover --interface eth0 --wait 2s",
        "enroll --discover --state d",
        "serve --tls 0.0.0.0:3002 --state d",
        "serve --tls 0.0.0.0:3002 --discovery",
        "serve --group-key k --allow-plain --allow-v1",
        "serve --allow-plain=false --allow-v1=false",
        "key new --store x.db",
        "key list --group-key k",
        "key retire 1a2b3c4d --state d",
        "token --expires 10m --address desk:3002 --store x.db",
        "sql --store x.db --format csv SELECT",
        "status --json --url http://127.0.0.1:1",
        "accuracy --seconds 3 --pid 1,2 --name x --all --format csv",
        "doctor --json --no-load --proc-root /host/proc --sys-root /host/sys",
        "man",
        "completions bash",
    ] {
        if let Err(error) = read(line) {
            panic!("cpumon {line}: {error}");
        }
    }
}

#[test]
fn what_is_wrong_is_refused_and_named() {
    for (line, expected) in [
        ("", "Usage"),
        ("exprot", "export"),
        ("serve --udp nowhere", "--udp"),
        ("serve --discovery", "--tls"),
        ("serve --no-store --store x.db", "--store"),
        ("hosts accept", "CODE"),
        ("serve --retain-bytes lots", "10GB"),
        ("top --at soon", "yesterday 14:05"),
        ("top --interval 1s", "--interval"),
        ("run --interval 1ms", "100ms"),
        ("run --source magic", "procfs"),
        ("export", "KIND"),
        ("export everything", "processes"),
        ("export pivot --legacy 2014", "2013"),
        ("export chart", "VIEW"),
        ("export chart pie", "run-queue"),
        ("export chart cpu --width 100000", "320"),
        ("export chart cpu --zone Mars/Olympus", "Europe/Berlin"),
        ("export chart cpu --theme pink", "dark"),
        ("export chart fleet --sort threads", "busy"),
        ("export chart fleet --offset -1", "-1"),
        ("export processes chart", "chart"),
    ] {
        let error = read(line).unwrap_err();
        assert_eq!(error.exit_code(), 2, "{line}");
        assert!(error.to_string().contains(expected), "cpumon {line}: {error}");
    }
}

/// At a fixed width, whatever terminal the test runs in.
#[test]
fn the_help_reads_like_this() {
    let mut text = String::new();
    let mut root = command().term_width(100);
    text.push_str(&root.render_help().to_string());
    for subcommand in root.get_subcommands_mut().filter(|command| command.get_name() != "help") {
        let mut shown =
            subcommand.clone().term_width(100).bin_name(format!("cpumon {}", subcommand.get_name()));
        text.push_str("\n----------------------------------------\n");
        text.push_str(&shown.render_help().to_string());
        if let Some(chart) = shown.find_subcommand("chart") {
            let mut shown = chart.clone().term_width(100).bin_name("cpumon export chart");
            text.push_str("\n----------------------------------------\n");
            text.push_str(&shown.render_help().to_string());
        }
    }
    insta::assert_snapshot!(text);
}
