//! The examples of each help page and man page.

use clap::Command;

/// What a command line does, and the command line.
#[derive(Copy, Clone, Debug)]
pub struct Example {
    /// A sentence without a full stop.
    pub purpose: &'static str,
    /// The command as a user types it.
    pub line: &'static str,
}

const fn example(purpose: &'static str, line: &'static str) -> Example {
    Example { purpose, line }
}

/// Text below the examples of the main page.
pub const VARIABLES: &str = "Each flag has an environment variable, such as CPUMON_STORE=FILE for --store. The command line overrides variables, an empty one is not set, and a variable never selects what a command does. CPUMON_TOP_SORT=ready is --sort of top alone, likewise for its other flags: a shell profile can have them.";
/// The exit codes, for the main page.
pub const EXIT_CODES: &str =
    "0 success, 1 failure, 2 wrong usage, 3 finished but data is missing, 130 interrupted.";

/// Examples by command; the main page has an empty name.
const EXAMPLES: &[(&str, &[Example])] = &[
    (
        "",
        &[
            example("Show this machine; on a terminal `cpumon` does the same", "cpumon top"),
            example("Receive from devices, store, and serve the web page", "cpumon serve"),
            example("Show what ran yesterday at 14:05", "cpumon top --at 'yesterday 14:05'"),
        ],
    ),
    (
        "top",
        &[
            example("Show this machine", "cpumon top"),
            example("Show a host of the receiver on this machine", "cpumon top --host device1"),
            example("Show what ran an hour ago", "cpumon top --at 1h"),
            example(
                "Print the 10 processes of alice that waited longest for a CPU",
                "cpumon top -b -n 1 --user alice --active --sort ready --limit 10",
            ),
            example("Print ten intervals of 2 seconds as JSON lines", "cpumon top -b -n 10 -d 2s --json"),
        ],
    ),
    ("run", &[example("Try cpumon on this machine", "cpumon run")]),
    (
        "serve",
        &[
            example("Receive datagrams on port 3001 and serve http://127.0.0.1:3080", "cpumon serve"),
            example(
                "Accept enrolled devices over TLS, and answer their search",
                "cpumon serve --tls 0.0.0.0:3002 --discovery",
            ),
            example(
                "Serve the web page to other machines",
                "cpumon serve --http 0.0.0.0:3080 --http-name monitor.example",
            ),
            example("Store at most 5 GB and 90 days", "cpumon serve --retain-bytes 5GB --retain-days 90"),
        ],
    ),
    (
        "agent",
        &[
            example("Broadcast on the subnet", "cpumon agent"),
            example(
                "Send to one receiver, with all probes",
                "cpumon agent --to 10.77.0.1 --probes sched,waits,irq",
            ),
            example(
                "Send over TLS, and queue on disk",
                "cpumon agent --to enrolled --spool /var/lib/cpumon-agent/spool",
            ),
            example("Record without a network", "cpumon agent --record /var/tmp/cpumon --spool-bytes 1GB"),
        ],
    ),
    (
        "token",
        &[
            example("Print a command that enrolls a device within 10 minutes", "cpumon token --expires 10m"),
            example("Enroll a host again that was revoked", "cpumon token --host web1 --again"),
        ],
    ),
    ("key", &[example("Make a group key beside the default store", "cpumon key new")]),
    ("key new", &[example("Make a group key in a file of its own", "cpumon key new --group-key group.keys")]),
    ("key list", &[example("List the group keys", "cpumon key list")]),
    (
        "key retire",
        &[example("Refuse datagrams that are encrypted with a group key", "cpumon key retire 1a2b3c4d")],
    ),
    (
        "enroll",
        &[
            example(
                "Enter the command that `cpumon token` printed",
                "cpumon enroll 10.77.0.1:3002 cpumon1.…",
            ),
            example(
                "Find the receiver on the subnet and print a code for its user",
                "cpumon enroll --discover",
            ),
        ],
    ),
    (
        "discover",
        &[example("Ask on one interface for 3 seconds", "cpumon discover --interface eth0 --wait 3s")],
    ),
    (
        "hosts",
        &[
            example("List the hosts of the receiver on this machine", "cpumon hosts"),
            example("List the busiest processes of all hosts as CSV", "cpumon hosts --busiest --format csv"),
            example("List the hosts of a store", "cpumon hosts --store cpumon.db"),
            example("List what the receiver has stored", "cpumon hosts --stored"),
        ],
    ),
    ("hosts revoke", &[example("Refuse a device from now on", "cpumon hosts revoke device1")]),
    (
        "hosts forget",
        &[
            example("Remove a host and all of its data", "cpumon hosts forget device1"),
            example("Remove it by its id, without being asked", "cpumon hosts forget --yes 0f3a5c77"),
        ],
    ),
    ("hosts enrolled", &[example("List the enrolled hosts as JSON", "cpumon hosts enrolled --json")]),
    ("hosts pending", &[example("List the devices that wait to be enrolled", "cpumon hosts pending")]),
    ("hosts accept", &[example("Enroll the device that shows this code", "cpumon hosts accept 12345-67890")]),
    ("hosts reject", &[example("Reject the device that shows this code", "cpumon hosts reject 12345-67890")]),
    (
        "audit",
        &[
            example("List what happened since yesterday", "cpumon audit --since yesterday"),
            example("List all entries as JSON lines", "cpumon audit --format jsonl"),
        ],
    ),
    (
        "status",
        &[
            example("Show the receiver on this machine", "cpumon status"),
            example(
                "Show another receiver as JSON",
                "cpumon status --url https://monitor:3080 --ca cert.pem --json",
            ),
        ],
    ),
    (
        "ledger",
        &[
            example("Show the ledger of the last hour", "cpumon ledger --since 1h"),
            example("Measure this machine for 10 seconds", "cpumon ledger --live 10s"),
        ],
    ),
    (
        "report",
        &[
            example("Show who used the CPU in the last hour", "cpumon report"),
            example("Show the users of yesterday", "cpumon report --by user --since yesterday --until today"),
            example("Show what changed since yesterday", "cpumon report --since 1h --compare yesterday"),
            example("Ask the receiver of another machine", "cpumon report --url http://10.77.0.1:3080"),
            example(
                "Write the programs of all hosts as Parquet",
                "cpumon report --all-hosts --since 1d -o hosts.parquet",
            ),
        ],
    ),
    (
        "find",
        &[
            example("Find a program on all hosts", "cpumon find backup"),
            example("Find what root ran on one host", "cpumon find root --host device1"),
            example("Check in a script whether it ever ran (exit code 1: no)", "cpumon find backup --json"),
        ],
    ),
    (
        "gaps",
        &[
            example("List what is missing of the last day", "cpumon gaps --since 1d"),
            example("List all gaps of a host as CSV", "cpumon gaps --host device1 --format csv"),
        ],
    ),
    (
        "export",
        &[
            example(
                "Write the processes of the last hour as CSV",
                "cpumon export processes --since 1h -o processes.csv",
            ),
            example(
                "Write run time by container, one row for each minute",
                "cpumon export pivot --by container --value run --interval 1m",
            ),
            example("Compare two hours", "cpumon export compare --before 3h..2h --after 1h..now"),
        ],
    ),
    (
        "export chart",
        &[
            example("Draw the CPU time of the last hour", "cpumon export chart cpu --since 1h -o cpu.svg"),
            example(
                "Draw which services used it",
                "cpumon export chart who --by service --since 1h -o who.svg",
            ),
            example(
                "Draw the busiest processes of yesterday",
                "cpumon export chart landscape --since yesterday --until today -o day.png",
            ),
        ],
    ),
    ("login-token", &[example("Make a login token", "cpumon login-token add alice")]),
    ("login-token add", &[example("Make a login token", "cpumon login-token add alice")]),
    ("login-token list", &[example("List the login tokens", "cpumon login-token list")]),
    ("login-token revoke", &[example("Revoke a login token", "cpumon login-token revoke alice")]),
    ("store", &[example("Check the store of this machine", "cpumon store check /var/lib/cpumon/cpumon.db")]),
    (
        "store check",
        &[
            example("Check a store", "cpumon store check cpumon.db"),
            example(
                "Copy what can be read of a damaged store",
                "cpumon store check cpumon.db --salvage rescued.db",
            ),
            example("Export what was rescued", "cpumon export processes --store rescued.db -o all.csv"),
        ],
    ),
    (
        "import",
        &[
            example("Import a recording", "cpumon import /var/tmp/cpumon"),
            example(
                "Import a database of the original",
                "cpumon import ProcessUsage.sqlite --time-zone Europe/Berlin",
            ),
        ],
    ),
    (
        "sql",
        &[example(
            "Count the intervals of each host",
            "cpumon sql 'SELECT host, count(*) FROM host_interval GROUP BY host'",
        )],
    ),
    (
        "doctor",
        &[
            example("Check this machine", "cpumon doctor"),
            example("Show every check and its reason", "cpumon doctor -v"),
            example("Check it without loading BPF programs", "cpumon doctor --no-load"),
        ],
    ),
    (
        "accuracy",
        &[example("Compare for 30 seconds, and show every thread", "cpumon accuracy --duration 30s --all")],
    ),
    ("trace", &[example("Record for 10 seconds to cpumon.trace", "cpumon trace record --for 10s")]),
    (
        "trace record",
        &[
            example("Record for 10 seconds to cpumon.trace", "cpumon trace record --for 10s"),
            example("Record while a command runs", "cpumon trace record -o build.trace -- make -j8"),
        ],
    ),
    (
        "trace export",
        &[
            example(
                "Write a file for ui.perfetto.dev",
                "cpumon trace export cpumon.trace --format perfetto -o cpumon.pftrace",
            ),
            example(
                "Write slices of threads as CSV",
                "cpumon trace export perf.data --format csv -o slices.csv",
            ),
        ],
    ),
    (
        "trace view",
        &[
            example("Show a trace in the browser, until Ctrl-C", "cpumon trace view cpumon.trace"),
            example(
                "Show a recording of perf on a port of your own",
                "cpumon trace view perf.data --http 127.0.0.1:3081",
            ),
        ],
    ),
    (
        "trace list",
        &[
            example("List the traces of a host", "cpumon trace list --host kitchen --since 1d"),
            example(
                "The same, from a receiver",
                "cpumon trace list --host kitchen --url http://127.0.0.1:3080",
            ),
        ],
    ),
    ("trace get", &[example("Copy trace 7 out of the store", "cpumon trace get 7 -o spike.trace")]),
    ("trace take", &[example("Ask a device for its last seconds", "cpumon trace take --host kitchen")]),
    (
        "trace report",
        &[
            example("Show each thread, the one that ran most first", "cpumon trace report cpumon.trace"),
            example("Show the ledger of each CPU", "cpumon trace report cpumon.trace --by cpu"),
            example(
                "Write half a second of it as CSV",
                "cpumon trace report cpumon.trace --from 2s --to 2.5s --format csv",
            ),
            example(
                "Show each CPU and its run queue every 10 ms",
                "cpumon trace report cpumon.trace --by cpu --every 10ms",
            ),
        ],
    ),
    (
        "trace delays",
        &[example("List the 50 longest waits for a CPU", "cpumon trace delays cpumon.trace --limit 50")],
    ),
    ("trace top", &[example("Play a trace, ten screens a second", "cpumon trace top cpumon.trace -d 100ms")]),
    ("trace wakers", &[example("Show who wakes whom", "cpumon trace wakers cpumon.trace --by program")]),
    (
        "trace path",
        &[example(
            "Show what a thread waited for before a moment",
            "cpumon trace path cpumon.trace --thread 4711 --at 2.5s",
        )],
    ),
    (
        "trace histogram",
        &[
            example("Show how long waits for a CPU are", "cpumon trace histogram cpumon.trace"),
            example(
                "Write how long each program is off its CPU",
                "cpumon trace histogram cpumon.trace --of off-cpu --by program --format csv",
            ),
        ],
    ),
    ("man", &[example("Write the man pages to a directory", "cpumon man /usr/local/share/man/man1")]),
    (
        "completions",
        &[example(
            "Install the completions of bash for this user",
            "cpumon completions bash > ~/.local/share/bash-completion/completions/cpumon",
        )],
    ),
];

/// The examples of a command, by its path without the program's name (`hosts revoke`).
#[must_use]
pub fn of(path: &str) -> &'static [Example] {
    EXAMPLES.iter().find(|(name, _)| *name == path).map_or(&[], |(_, examples)| examples)
}

/// Adds the examples to the help of the program and of each command.
#[must_use]
pub fn add_to(root: Command) -> Command {
    let after = format!("{}\n\n{VARIABLES}\nExit codes: {EXIT_CODES}", section(of("")));
    with_examples(root.after_help(after), "")
}

fn with_examples(command: Command, path: &str) -> Command {
    command.mut_subcommands(|subcommand| {
        let path = format!("{path} {}", subcommand.get_name()).trim_start().to_owned();
        let examples = of(&path);
        let shown = if examples.is_empty() { subcommand } else { subcommand.after_help(section(examples)) };
        with_examples(shown, &path)
    })
}

fn section(examples: &[Example]) -> String {
    let lines = examples.iter().map(|one| format!("  {}:\n    {}", one.purpose, one.line));
    format!("EXAMPLES:\n{}", lines.collect::<Vec<_>>().join("\n"))
}
