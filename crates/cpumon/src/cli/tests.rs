//! The command line: accepted and refused lines, help texts, examples.

use cpumon_tui::BatchFormat;

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
    assert!(options > 40, "only {options} options were checked");
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
        "top -b --delay 2s --format json -o x.jsonl",
        "top --interval 2s --json",
        "top --sort %CPU --limit 5 --active --user root --filter x",
        "top --at -1h",
        "export processes --since -1h --until -30m --json",
        "report",
        "report --since 1d --until 1h --host dev --host b --by thread --sort ready --limit 5 --format csv",
        "report --all-hosts --by host --compare yesterday --json",
        "report --compare 3h..2h --store x.db",
        "find web --host dev --store x.db --format jsonl",
        "why",
        "why shop --since 1h --until 30m --host dev --store x.db --json",
        "why 4711 --at 14:05 --record 5s",
        "why --service nginx --url http://127.0.0.1:1",
        "why --container web --format csv",
        "why --user 1000",
        "export pivot --by service",
        "export compare --before -3h..-2h --after 1h..now",
        "status --format jsonl",
        "hosts --busiest",
        "store check x.db --format csv",
        "store check x.db --json",
        "doctor -v",
        "agent --max-cpu 1",
        "export threads --active --store x.db -o y.jsonl",
        "hosts enrolled --format csv",
        "key list --json",
        "login-token list --json",
        "discover --json --wait 2s",
        "doctor --format csv",
        "accuracy --seconds 10s",
        "accuracy --duration 10s --format text",
        "agent --log d",
        "agent --record d",
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
        "export chart who --by thread --filter web --within service:cron.service --percent host -o x.svg",
        "export chart cpus --host dev --since 1405 --until now -o x.png",
        "export chart fleet --host a --host b --sort busy --reverse --rows 20 --offset 40",
        "hosts --json",
        "hosts revoke dev --state d",
        "hosts forget dev --yes --store x.db",
        "hosts enrolled --store x.db",
        "hosts pending --store x.db",
        "hosts accept 12345-67890 --state d",
        "hosts reject dev --state d",
        "discover --interface eth0 --wait 2s",
        "enroll --discover --state d",
        "serve --tls 0.0.0.0:3002 --state d",
        "serve --tls 0.0.0.0:3002 --discovery",
        "serve --group-key k --allow-plain --allow-v1",
        "serve --allow-plain=false --allow-v1=false",
        "serve --no-udp --tls 0.0.0.0:3002",
        "key new --store x.db",
        "key list --group-key k",
        "key retire 1a2b3c4d --state d",
        "token --expires 10m --address receiver:3002 --store x.db",
        "token --host web1 --again",
        "audit --since 1h --format jsonl --state d",
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
        ("serve --no-udp --udp 0.0.0.0:3001", "--no-udp"),
        ("serve --discovery", "--tls"),
        ("serve --no-store --store x.db", "--store"),
        ("hosts accept", "CODE"),
        ("token --again", "--host"),
        ("serve --retain-bytes lots", "10GB"),
        ("top --at soon", "yesterday 14:05"),
        ("top --sort colour", "columns: pid, uid, state"),
        ("top --limit 0", "--limit"),
        ("top --interval 5ms", "100ms"),
        ("top -b --json --format text", "--format"),
        ("export processes --json --format csv", "--format"),
        ("report --by colour", "container"),
        ("report --limit 0", "--limit"),
        ("report --compare tomorrow", "yesterday"),
        ("report --host a --all-hosts", "--all-hosts"),
        ("find", "TEXT"),
        ("why shop --service x", "--service"),
        ("why shop --at 1h --since 2h", "--since"),
        ("why --record 5s --url http://127.0.0.1:1", "--url"),
        ("export processes --format table", "csv"),
        ("status --json --format csv", "--format"),
        ("accuracy --duration 2h", "1s to 1h"),
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

/// Every page: the path of its command without the program's name, and its definition.
fn pages() -> Vec<(String, clap::Command)> {
    fn add(command: &clap::Command, path: &str, pages: &mut Vec<(String, clap::Command)>) {
        let line = format!("cpumon {path}").trim_end().to_owned();
        pages.push((path.to_owned(), command.clone().bin_name(line)));
        for nested in command.get_subcommands().filter(|nested| nested.get_name() != "help") {
            add(nested, format!("{path} {}", nested.get_name()).trim_start(), pages);
        }
    }
    let mut pages = Vec::new();
    add(&command(), "", &mut pages);
    pages
}

/// A snapshot of each page at a fixed width, so that a change of a text is seen in review.
#[test]
fn help_of_every_command() {
    for (path, page) in pages() {
        let text = page.term_width(100).render_help().to_string();
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        let name = if path.is_empty() { "main".to_owned() } else { path.replace(' ', "_") };
        insta::assert_snapshot!(
            format!("help_{name}"),
            lines.join(
                "
"
            )
        );
    }
}

#[test]
fn every_page_has_examples_that_are_understood() {
    for (path, page) in pages() {
        let text = page.clone().render_help().to_string();
        assert!(
            text.contains(
                "EXAMPLES:
"
            ),
            "cpumon {path}"
        );
        for example in examples::of(&path) {
            let line = example.line.split(" > ").next().unwrap();
            // The token of the example is shortened; quoted words have no spaces outside of SQL and times.
            let words = shell_words(&line.replace("cpumon1.…", &token()));
            if let Err(error) = parse(words.into_iter().map(OsString::from)) {
                panic!("{line}: {error}");
            }
        }
    }
}

fn token() -> String {
    cpumon_link::tls::Token { pin: [1; 32], secret: [2; 32] }.to_string()
}

/// Splits at spaces outside of single quotes.
fn shell_words(line: &str) -> Vec<String> {
    let pieces = line.split('\'').enumerate();
    let words = pieces.flat_map(|(at, piece)| match at % 2 {
        0 => piece.split_whitespace().map(str::to_owned).collect::<Vec<_>>(),
        _ => vec![piece.to_owned()],
    });
    words.collect()
}

/// No line is wider than the terminal, except for words that are longer than it.
#[test]
fn help_fits_the_terminal() {
    for width in [40, 80, 200] {
        for (path, page) in pages() {
            let text = page.term_width(width).render_help().to_string();
            let is_example = |line: &str| line.starts_with("    cpumon ") || line.starts_with("Usage:");
            for line in text.lines().filter(|line| !is_example(line)) {
                let is_long_word = line.trim().split(' ').any(|word| word.chars().count() + 10 > width);
                assert!(line.chars().count() <= width || is_long_word, "cpumon {path} at {width}: {line}");
            }
        }
    }
}

#[test]
fn the_formats_of_top_before_0_1_are_still_formats() {
    let output = |line: &str| match read(line).unwrap().command {
        CliCommand::Top(args) => {
            let (format, path) = args.batch_output();
            (format, path.map(std::path::Path::to_owned))
        }
        _ => unreachable!(),
    };
    assert_eq!(output("top -b -o json"), (BatchFormat::Json, None));
    assert_eq!(output("top -b -o text"), (BatchFormat::Text, None));
    assert_eq!(output("top -b --json -o x"), (BatchFormat::Json, Some("x".into())));
    assert_eq!(output("top -b"), (BatchFormat::Text, None));
}
