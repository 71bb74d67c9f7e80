"""Chapter: figures that cannot be. A mixed run with storms, crowds and mass exits; then SQL counts the rows that no machine can
have produced. `make truth` writes it into docs/lab/results.md; SECONDS=n makes it shorter or longer."""

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import measure as m
import report
from accounting import sql

SECONDS = int(os.environ.get("SECONDS", "2880"))
ROUND = 240
# Two clocks are read one after the other, and a pass over 11,000 threads takes 10 ms.
SLACK_NS = 1_000_000
KNOWN = "instr(coalesce(flags, ''), 'spans_loss') = 0 AND instr(coalesce(flags, ''), 'first_sight') = 0"
# A name, the table, what makes a row impossible.
CHECKS = (
    ("exited time > capacity", "host_interval", "ledger_exited_ns > capacity_ns"),
    ("threads + exited > capacity, by 1 %", "host_interval", "ledger_threads_ns + ledger_exited_ns > 1.01 * capacity_ns"),
    # Threads that end while a snapshot is made leave a copy of how they stood at its instant; where those had no space, what they ran
    # is missing, and cuts_lost says so.
    ("ledger open by more than 5 %, no copy lost", "host_interval", "abs(unattributed_ratio) > 0.05 AND end_ns NOT IN "
     "(SELECT end_ns FROM (SELECT end_ns, cuts_lost - lag(cuts_lost) OVER (ORDER BY end_ns) AS lost FROM host_interval) WHERE lost > 0)"),
    ("run queue < threads that ran, by 0.1", "host_interval",
     "run_queue_mean < 1.0 * (ledger_threads_ns + ledger_exited_ns) / duration_ns - 0.1"),
    ("run queue of a CPU negative", "cpu_interval", "run_queue_mean < 0"),
    ("a thread ran longer than the interval", "thread_interval", f"run_ns > duration_ns + {SLACK_NS}"),
    ("a thread was ready longer than the interval", "thread_interval", f"run_delay_ns > duration_ns + {SLACK_NS}"),
    ("run + ready + blocked of a thread > interval", "thread_interval",
     f"run_ns + run_delay_ns + blocked_ns > duration_ns + {2 * SLACK_NS}"),
    # Once is no contradiction: a thread may run for the first time, and sleep, between the interval's end and the moment at which
    # its state is read.
    ("a sleeper ready for whole intervals, thrice", "thread_interval",
     "(tid, start_ns) IN (SELECT tid, start_ns FROM thread_interval WHERE state = 'S' AND run_ns = 0 AND "
     "run_delay_ns > 0.9 * duration_ns AND life = 'alive' GROUP BY 1, 2 HAVING count(*) >= 3)"),
    ("p99 > longest, process", "process_interval", "run_delay_p99_ns > longest_run_delay_ns"),
    ("p99 > longest, thread", "thread_interval", "run_delay_p99_ns > longest_run_delay_ns"),
)


@contextlib.contextmanager
def crowd(arguments):
    """`xtask load` in a session of its own: at the end all of its processes are killed at once."""
    process = subprocess.Popen([m.XTASK, "load", *map(str, arguments)], start_new_session=True,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextlib.contextmanager
def burners(count, seconds):
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            stack.enter_context(m.running([m.XTASK, "work", "spin", "--seconds", seconds], stop=signal.SIGKILL))
        yield


def sleepers():
    """200 short sleepers beside 4 burners."""
    with burners(4, 14):
        children = [subprocess.Popen(["sleep", "9"]) for _ in range(200)]
        time.sleep(12)
        for child in children:
            child.wait()


def storm():
    subprocess.run([m.XTASK, "storm", "--seconds", "30"], stdout=subprocess.DEVNULL, check=True)


def mass_exit():
    with burners(4, 40), crowd(["--idle", 11_000, "--active", 50, "--processes", 3, "--seconds", 60]):
        time.sleep(20)


def many_runnable():
    with crowd(["--idle", 0, "--active", 4_800, "--processes", 3, "--seconds", 60]):
        time.sleep(20)


def run_round(until):
    begin = time.monotonic()
    for step in (storm, sleepers, mass_exit, many_runnable):
        if time.monotonic() < until:
            step()
            time.sleep(10)
    time.sleep(max(0, min(begin + ROUND, until) - time.monotonic()))


def record(folder):
    """The receiver's own machine, all probes, while the rounds run. Returns the store."""
    store = folder / "store.db"
    serve = [m.CPUMON, "serve", "--udp", "127.0.0.1:0", "--http", "127.0.0.1:0", "--store", store, *m.WITH_HISTOGRAMS]
    with m.running(serve) as receiver:
        time.sleep(3)
        if receiver.poll() is not None:
            raise SystemExit("truth: the receiver did not start; it needs root for --source bpf")
        until = time.monotonic() + SECONDS
        with m.running([m.XTASK, "churn", "--seconds", str(SECONDS)], stop=signal.SIGKILL):
            while time.monotonic() < until:
                run_round(until)
        time.sleep(3)
    return store


def count(store, table, condition):
    known = f"({condition}) AND {KNOWN}" if table != "cpu_interval" else condition
    return sql(store, f"SELECT count(*) AS rows FROM {table} WHERE {known}")[0]["rows"]


@contextlib.contextmanager
def folder():
    """Where the store is; STORE=DIR keeps it whatever is found."""
    if "STORE" in os.environ:
        yield pathlib.Path(os.environ["STORE"])
    else:
        with m.folder() as temporary:
            yield temporary


def keep(store):
    """The store of a run that found something, for queries."""
    kept = m.ROOT / "target/truth.db"
    if "STORE" not in os.environ:
        shutil.copy(store, kept)
        print(f"truth: the store with these rows is {kept}", file=sys.stderr)


def chapter():
    with folder() as place:
        store = record(place)
        total = {table: count(store, table, "1") for table in sorted({table for _, table, _ in CHECKS})}
        found = [(name, table, count(store, table, condition)) for name, table, condition in CHECKS]
        unknown = sql(store, "SELECT count(*) AS rows FROM host_interval WHERE run_queue_mean IS NULL")[0]["rows"]
        if any(rows for _, _, rows in found):
            keep(store)
        lost = sql(store, "SELECT max(exits_lost) AS exits, max(ring_drops) AS drops FROM host_interval")[0]
    out = ["## Figures that cannot be", "",
           f"`make truth`: {SECONDS} s in rounds of {ROUND} s beside `xtask churn`: a storm of 390 processes a second; 200 sleepers beside 4 burners; 11,000 "
           "sleeping threads and 4 burners, all killed at once; 4,800 threads that are runnable. One receiver records its own machine at 1 s with all probes.", "",
           "| cannot be | rows | found |", "|---|---:|---:|"]
    out += [f"| {name} | {total[table]:,} | {rows:,} |" for name, table, rows in found]
    out += ["", f"Events were lost ({lost['exits']:,} exit records, {lost['drops']:,} events for which the ring had no space): {unknown:,} of "
            f"{total['host_interval']:,} intervals have no run queue and say so."]
    return "\n".join(out) + "\n", [name for name, _, rows in found if rows]


if __name__ == "__main__":
    text, impossible = chapter()
    print(text)
    if "--write" in sys.argv:
        report.put(text)
    if impossible:
        raise SystemExit(f"truth: impossible: {', '.join(impossible)}")
