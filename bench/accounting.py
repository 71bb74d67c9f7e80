"""Chapter: every nanosecond accounted for. Does the ledger close, who gets the CPU time of a fork storm, how far from other
tools' figures, and what does it cost. Written into docs/lab/results.md by `make bench-accounting`."""

import concurrent.futures
import contextlib
import json
import os
import re
import statistics
import subprocess
import sys
import time

import cost
import measure as m
import oracle
import report
import storm

SECONDS = int(os.environ.get("SECONDS", "15"))
NAME = "stormchild"


@contextlib.contextmanager
def recording(folder, watching=m.EVERYTHING):
    """The receiver's own machine, recorded into a store at 1 s."""
    store = folder / "store.db"
    command = [m.CPUMON, "serve", "--udp", "127.0.0.1:0", "--http", "127.0.0.1:0", "--store", store, *watching]
    with m.running(command):
        time.sleep(3)
        yield store
        time.sleep(2)


def sql(store, query):
    done = subprocess.run([m.CPUMON, "sql", "--store", store, "--format", "jsonl", query], capture_output=True, text=True)
    # 3: an answer without rows.
    if done.returncode not in (0, 3):
        raise ValueError(f"{query}: {done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def has_column(store, table, column):
    try:
        sql(store, f"SELECT {column} FROM {table} LIMIT 1")
    except ValueError:
        return False
    return True


def counter(name):
    """A counter of /proc/stat."""
    return int(next(line for line in open("/proc/stat") if line.startswith(name + " ")).split()[1])


def idle():
    time.sleep(SECONDS)
    return "nothing but the machine's own"


def spinning():
    spinners = [subprocess.Popen([m.XTASK, "work", "spin", "--seconds", str(SECONDS)], stdout=subprocess.DEVNULL) for _ in range(os.cpu_count())]
    for spinner in spinners:
        spinner.wait()
    return f"{len(spinners)} spinning processes"


def fork_storm():
    truth = m.json_line([m.XTASK, "storm", "--rate", "700", "--seconds", SECONDS, "--name", NAME, "--burn-min-us", "500", "--burn-max-us", "1500"])
    return f"{truth['started'] / truth['seconds']:,.0f} processes per s"


def switch_storm():
    """A pair that talks on each CPU, pinned to it: each message is a switch."""
    before, begin = counter("ctxt"), time.monotonic()

    def talk(cpu):
        while time.monotonic() < begin + SECONDS:
            subprocess.run(["taskset", "-c", str(cpu), "perf", "bench", "-f", "simple", "sched", "pipe", "-l", "500000"], check=True, stdout=subprocess.DEVNULL)

    with concurrent.futures.ThreadPoolExecutor() as pool:
        list(pool.map(talk, sorted(os.sched_getaffinity(0))))
    return f"{(counter('ctxt') - before) / (time.monotonic() - begin):,.0f} switches per s"


def udp_flood():
    sent = m.json_line([m.XTASK, "flood", "--seconds", SECONDS])
    return f"{sent['sent'] / sent['seconds']:,.0f} datagrams per s"


def ledger():
    """Every 1 s interval of each load: how far from closed."""
    for name, load in (("idle", idle), ("spinning", spinning), ("fork storm", fork_storm), ("switch storm", switch_storm), ("UDP flood", udp_flood)):
        with m.folder() as folder:
            with recording(folder) as store:
                begin_ns = time.time_ns()
                what = load()
                end_ns = time.time_ns()
            cause = "unknown_ns" if has_column(store, "host_interval", "unknown_ns") else "0"
            rows = sql(store, f"SELECT capacity_ns, unattributed_ns, {cause} AS unknown_ns FROM host_interval "
                              f"WHERE begin_ns >= {begin_ns} AND end_ns <= {end_ns}")
        shares = [abs(row["unattributed_ns"]) / row["capacity_ns"] * 100 for row in rows]
        unexplained = [abs(row["unattributed_ns"] - (row["unknown_ns"] or 0)) / row["capacity_ns"] * 100 for row in rows]
        yield name, what, len(rows), statistics.median(shares), max(shares), max(unexplained)


def busy_ticks():
    """Busy time of the whole host since boot, seconds: all that /proc/stat calls neither idle nor steal."""
    fields = [int(field) for field in open("/proc/stat").readline().split()[1:]]
    return (sum(fields[:8]) - fields[3] - fields[4] - fields[7]) / os.sysconf("SC_CLK_TCK")


def blow():
    return m.json_line([m.XTASK, "storm", "--rate", "700", "--seconds", SECONDS, "--name", NAME, "--burn-min-us", "500", "--burn-max-us", "1500"])


def with_cpumon(watching):
    with m.folder() as folder:
        with recording(folder, watching) as store:
            begin_ns = time.time_ns()
            truth = blow()
            end_ns = time.time_ns()
        span = f"begin_ns >= {begin_ns} AND end_ns <= {end_ns}"
        rows = sql(store, f"SELECT capacity_ns - ledger_idle_ns - ledger_steal_ns AS busy_ns, unattributed_ns FROM host_interval WHERE {span}")
        child = sql(store, f"SELECT coalesce(sum(run_ns), 0) AS run_ns FROM process_interval WHERE name = '{NAME}'")
    busy_ns = sum(row["busy_ns"] for row in rows)
    return (busy_ns - sum(abs(row["unattributed_ns"]) for row in rows)) / busy_ns, child[0]["run_ns"] / truth["children_cpu_ns"]


def with_peer(command, read, marker=None):
    """The sum of all that a monitor shows, and what it shows under the children's name. The first screen of top and atop is about
    the time since boot: samples before the second `marker` are left out."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env={**os.environ, "LC_ALL": "C"})
    time.sleep(1.5)
    before = busy_ticks()
    truth = blow()
    busy = busy_ticks() - before
    process.terminate()
    lines = process.communicate(timeout=20)[0].splitlines()
    if marker:
        heads = [at for at, line in enumerate(lines) if line.startswith(marker)]
        lines = lines[heads[1]:] if len(heads) > 1 else []
    named = [(read(line), NAME in line) for line in lines]
    total, child = sum(share for share, _ in named if share), sum(share for share, is_child in named if share and is_child)
    return min(1.0, total / 100 / busy), child * 1e7 / truth["children_cpu_ns"]


def pidstat(line):
    fields = line.split()
    # Time UID PID %usr %system %guest %wait %CPU CPU Command; the averages at the end are the same time again.
    is_row = len(fields) >= 10 and not line.startswith("Average") and fields[2].isdigit()
    return float(fields[7]) if is_row else 0.0


def top(line):
    fields = line.split()
    return float(fields[8]) if len(fields) >= 12 and fields[0].isdigit() else 0.0


def atop(line):
    return storm.atop(line) if f"({NAME})" in line else atop_any(line)


def atop_any(line):
    match = re.match(r"PRC \S+ \d+ \S+ \S+ \d+ \d+ \(.*\) \S+ (\d+) (\d+) (\d+)", line)
    return (int(match[2]) + int(match[3])) / int(match[1]) * 100 if match else 0.0


@contextlib.contextmanager
def process_accounting():
    """The kernel's own record of each process that ended (acct(5)), which atop reads when it finds it switched on."""
    with m.folder() as folder:
        file = folder / "pacct"
        file.touch()
        subprocess.run(["accton", file], check=True, stdout=subprocess.DEVNULL)
        try:
            yield
        finally:
            subprocess.run(["accton", "off"], check=True, stdout=subprocess.DEVNULL)


def attribution():
    yield "cpumon, BPF source", *with_cpumon(m.EVERYTHING)
    yield "cpumon, procfs source", *with_cpumon(["--source", "procfs"])
    if m.have("pidstat"):
        yield "pidstat 1", *with_peer(["pidstat", "1"], pidstat)
    if m.have("top"):
        yield "top -b -d 1", *with_peer(["top", "-b", "-d", "1", "-w", "200"], top, "top - ")
    if m.have("atop"):
        yield "atop -P PRC 1, no process accounting", *with_peer(["atop", "-P", "PRC", "1"], atop, ("RESET", "SEP"))
        if m.have("accton"):
            with process_accounting():
                yield "atop -P PRC 1, process accounting", *with_peer(["atop", "-P", "PRC", "1"], atop, ("RESET", "SEP"))


def chapter():
    out = ["## Every nanosecond accounted for", "",
           "`make bench-accounting`; the receiver records its own machine at 1 s with the BPF source, everything on (`--probes sched,waits,irq`).", "",
           "### The ledger closes", "",
           f"abs(unattributed) ÷ capacity of each 1 s interval, {SECONDS} s of each load. Aims: median ≤ 0.1 %, worst ≤ 1 %; the last column leaves out "
           "what a counted cause explains (time that no switch event explains).", "",
           "| load | what it was | intervals | median | worst | worst, unexplained |", "|---|---|---:|---:|---:|---:|"]
    out += [f"| {name} | {what} | {count} | {median:.3f} % | {worst:.3f} % | {rest:.3f} % |" for name, what, count, median, worst, rest in ledger()]
    out += ["", "### Who gets the CPU time of a fork storm", "",
            f"`xtask storm --rate 700` for {SECONDS} s, children of 0.5 to 1.5 ms. Share of the host's busy time under named processes or kernel lines (aim: ≥ 99.5 %), "
            "and share of the children's own time (getrusage) under their name. Peers against busy time of /proc/stat. htop has no batch mode to read.", "",
            "| program | busy time attributed | children's time under their name |", "|---|---:|---:|"]
    out += [f"| {name} | {share * 100:.1f} % | {child * 100:.1f} % |" for name, share, child in attribution()]
    out += ["", *oracle.section(recording, sql), "", *cost.section()]
    return "\n".join(out) + "\n"


if __name__ == "__main__":
    text = chapter()
    print(text)
    if "--write" in sys.argv:
        report.put(text)
