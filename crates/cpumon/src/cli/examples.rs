//! The examples of each help page and man page.

use clap::Command;

#[derive(Copy, Clone, Debug)]
pub struct Example {
    /// What the command does: a sentence without a full stop.
    pub purpose: &'static str,
    /// The command as a user types it.
    pub line: &'static str,
}

/// Text below the examples of the main page.
pub const VARIABLES: &str = "Each flag has an environment variable, such as CPUMON_STORE=FILE for --store. The command line overrides variables, an empty one is not set, and a variable never selects what a command does. CPUMON_TOP_SORT=ready is --sort of top alone, likewise for its other flags: a shell profile can have them.";
pub const EXIT_CODES: &str =
    "0 success, 1 failure, 2 wrong usage, 3 finished but data is missing, 130 interrupted.";

/// Pages, and below each its examples: the purpose, and the command line.
const EXAMPLES: &str = "\
cpumon
    Show this machine; on a terminal `cpumon` does the same | cpumon top
    Receive from devices, store, and serve the web page | cpumon serve
    Show what ran yesterday at 14:05 | cpumon top --at 'yesterday 14:05'

cpumon top
    Show this machine | cpumon top
    Show a host of the receiver on this machine | cpumon top --host device1
    Show what ran an hour ago | cpumon top --at 1h
    Print the 10 processes of alice that waited longest for a CPU | cpumon top -b -n 1 --user alice --active --sort ready --limit 10
    Print ten intervals of 2 seconds as JSON lines | cpumon top -b -n 10 -d 2s --json

cpumon run
    Try cpumon on this machine | cpumon run

cpumon serve
    Receive datagrams on port 3001 and serve http://127.0.0.1:3080 | cpumon serve
    Accept enrolled devices over TLS, and answer their search | cpumon serve --tls 0.0.0.0:3002 --discovery
    Serve the web page to other machines | cpumon serve --http 0.0.0.0:3080 --http-name monitor.example
    Store at most 5 GB and 90 days | cpumon serve --retain-bytes 5GB --retain-days 90

cpumon agent
    Broadcast on the subnet | cpumon agent
    Send to one receiver, with all probes | cpumon agent --to 10.77.0.1 --probes sched,waits,irq
    Send over TLS, and queue on disk | cpumon agent --to enrolled --spool /var/lib/cpumon-agent/spool
    Record without a network | cpumon agent --record /var/tmp/cpumon --spool-bytes 1GB

cpumon token
    Print a command that enrolls a device within 10 minutes | cpumon token --expires 10m
    Enroll a host again that was revoked | cpumon token --host web1 --again

cpumon key
    Make a group key beside the default store | cpumon key new

cpumon key new
    Make a group key in a file of its own | cpumon key new --group-key group.keys

cpumon key list
    List the group keys | cpumon key list

cpumon key retire
    Refuse datagrams that are encrypted with a group key | cpumon key retire 1a2b3c4d

cpumon enroll
    Enter the command that `cpumon token` printed | cpumon enroll 10.77.0.1:3002 cpumon1.…
    Find the receiver on the subnet and print a code for its user | cpumon enroll --discover

cpumon discover
    Ask on one interface for 3 seconds | cpumon discover --interface eth0 --wait 3s

cpumon hosts
    List the hosts of the receiver on this machine | cpumon hosts
    List the busiest processes of all hosts as CSV | cpumon hosts --busiest --format csv
    List the hosts of a store | cpumon hosts --store cpumon.db
    List what the receiver has stored | cpumon hosts --stored

cpumon hosts revoke
    Refuse a device from now on | cpumon hosts revoke device1

cpumon hosts forget
    Remove a host and all of its data | cpumon hosts forget device1
    Remove it by its id, without being asked | cpumon hosts forget --yes 0f3a5c77

cpumon hosts enrolled
    List the enrolled hosts as JSON | cpumon hosts enrolled --json

cpumon hosts pending
    List the devices that wait to be enrolled | cpumon hosts pending

cpumon hosts accept
    Enroll the device that shows this code | cpumon hosts accept 12345-67890

cpumon hosts reject
    Reject the device that shows this code | cpumon hosts reject 12345-67890

cpumon audit
    List what happened since yesterday | cpumon audit --since yesterday
    List all entries as JSON lines | cpumon audit --format jsonl

cpumon status
    Show the receiver on this machine | cpumon status
    Show another receiver as JSON | cpumon status --url https://monitor:3080 --ca cert.pem --json

cpumon ledger
    Show the ledger of the last hour | cpumon ledger --since 1h
    Measure this machine for 10 seconds | cpumon ledger --live 10s

cpumon report
    Show who used the CPU in the last hour | cpumon report
    Show the users of yesterday | cpumon report --by user --since yesterday --until today
    Show what changed since yesterday | cpumon report --since 1h --compare yesterday
    Ask the receiver of another machine | cpumon report --url http://10.77.0.1:3080
    Write the programs of all hosts as Parquet | cpumon report --all-hosts --since 1d -o hosts.parquet

cpumon why
    Say why shop was slow in the last five minutes | cpumon why shop
    Say why the machine is slow | cpumon why
    Explain the minute around a moment of yesterday | cpumon why shop --at 'yesterday 14:05'
    Explain a service of another machine, and give the answer to a program | cpumon why --service nginx --host web1 --json

cpumon find
    Find a program on all hosts | cpumon find backup
    Find what root ran on one host | cpumon find root --host device1
    Check in a script whether it ever ran (exit code 1: no) | cpumon find backup --json

cpumon gaps
    List what is missing of the last day | cpumon gaps --since 1d
    List all gaps of a host as CSV | cpumon gaps --host device1 --format csv

cpumon export
    Write the processes of the last hour as CSV | cpumon export processes --since 1h -o processes.csv
    Write run time by container, one row for each minute | cpumon export pivot --by container --value run --interval 1m
    Compare two hours | cpumon export compare --before 3h..2h --after 1h..now

cpumon export chart
    Draw the CPU time of the last hour | cpumon export chart cpu --since 1h -o cpu.svg
    Draw which services used it | cpumon export chart who --by service --since 1h -o who.svg
    Draw the busiest processes of yesterday | cpumon export chart landscape --since yesterday --until today -o day.png

cpumon login-token
    Make a login token | cpumon login-token add alice

cpumon login-token add
    Make a login token | cpumon login-token add alice

cpumon login-token list
    List the login tokens | cpumon login-token list

cpumon login-token revoke
    Revoke a login token | cpumon login-token revoke alice

cpumon store
    Check the store of this machine | cpumon store check /var/lib/cpumon/cpumon.db

cpumon store check
    Check a store | cpumon store check cpumon.db
    Copy what can be read of a damaged store | cpumon store check cpumon.db --salvage rescued.db
    Export what was rescued | cpumon export processes --store rescued.db -o all.csv

cpumon store backup
    Back up the store of this machine | cpumon store backup /var/lib/cpumon/cpumon.db /backup/cpumon.db

cpumon import
    Import a recording | cpumon import /var/tmp/cpumon
    Import a database of the original | cpumon import ProcessUsage.sqlite --time-zone Europe/Berlin

cpumon sql
    Count the intervals of each host | cpumon sql 'SELECT host, count(*) FROM host_interval GROUP BY host'

cpumon doctor
    Check this machine | cpumon doctor
    Show every check and its reason | cpumon doctor -v
    Check it without loading BPF programs | cpumon doctor --no-load

cpumon accuracy
    Compare for 30 seconds, and show every thread | cpumon accuracy --duration 30s --all

cpumon trace
    Record for 10 seconds to cpumon.trace | cpumon trace record --for 10s

cpumon trace record
    Record for 10 seconds to cpumon.trace | cpumon trace record --for 10s
    Record while a command runs | cpumon trace record -o build.trace -- make -j8

cpumon trace export
    Write a file for ui.perfetto.dev | cpumon trace export cpumon.trace --format perfetto -o cpumon.pftrace
    Write slices of threads as CSV | cpumon trace export perf.data --format csv -o slices.csv

cpumon trace view
    Show a trace in the browser, until Ctrl-C | cpumon trace view cpumon.trace
    Show a recording of perf on a port of your own | cpumon trace view perf.data --http 127.0.0.1:3081

cpumon trace list
    List the traces of a host | cpumon trace list --host kitchen --since 1d
    The same, from a receiver | cpumon trace list --host kitchen --url http://127.0.0.1:3080

cpumon trace get
    Copy trace 7 out of the store | cpumon trace get 7 -o spike.trace

cpumon trace take
    Ask a device for its last seconds | cpumon trace take --host kitchen

cpumon trace report
    Show each thread, the one that ran most first | cpumon trace report cpumon.trace
    Show the ledger of each CPU | cpumon trace report cpumon.trace --by cpu
    Write half a second of it as CSV | cpumon trace report cpumon.trace --from 2s --to 2.5s --format csv
    Show each CPU and its run queue every 10 ms | cpumon trace report cpumon.trace --by cpu --every 10ms

cpumon trace delays
    List the 50 longest waits for a CPU | cpumon trace delays cpumon.trace --limit 50

cpumon trace top
    Play a trace, ten screens a second | cpumon trace top cpumon.trace -d 100ms

cpumon trace wakers
    Show who wakes whom | cpumon trace wakers cpumon.trace --by program

cpumon trace path
    Show what a thread waited for before a moment | cpumon trace path cpumon.trace --thread 4711 --at 2.5s

cpumon trace histogram
    Show how long waits for a CPU are | cpumon trace histogram cpumon.trace
    Write how long each program is off its CPU | cpumon trace histogram cpumon.trace --of off-cpu --by program --format csv

cpumon man
    Write the man pages to a directory | cpumon man /usr/local/share/man/man1

cpumon completions
    Install the completions of bash for this user | cpumon completions bash > ~/.local/share/bash-completion/completions/cpumon
";

/// The examples of a command, by its path without the program's name (`hosts revoke`).
pub fn of(path: &str) -> Vec<Example> {
    let page = format!("cpumon {path}");
    let below = EXAMPLES.lines().skip_while(|line| *line != page.trim_end()).skip(1);
    let example = |line: &'static str| {
        let (purpose, line) = line.strip_prefix("    ")?.split_once(" | ")?;
        Some(Example { purpose, line })
    };
    below.map_while(example).collect()
}

/// Adds the examples to the help of the program and of each command.
pub fn add_to(root: Command) -> Command {
    let after = format!("{}\n\n{VARIABLES}\nExit codes: {EXIT_CODES}", section(&of("")));
    with_examples(root.after_help(after), "")
}

fn with_examples(command: Command, path: &str) -> Command {
    command.mut_subcommands(|subcommand| {
        let path = format!("{path} {}", subcommand.get_name()).trim_start().to_owned();
        let examples = of(&path);
        let shown = if examples.is_empty() { subcommand } else { subcommand.after_help(section(&examples)) };
        with_examples(shown, &path)
    })
}

fn section(examples: &[Example]) -> String {
    let lines = examples.iter().map(|one| format!("  {}:\n    {}", one.purpose, one.line));
    format!("EXAMPLES:\n{}", lines.collect::<Vec<_>>().join("\n"))
}
