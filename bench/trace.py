"""Chapter: traces. What recording costs and how large its files are, perf and trace-cmd beside it; the flight recorder; how fast reports
are made; the page; from a trigger to the stored trace. Written into docs/lab/results.md by `make bench-trace`. ROUNDS=n, TURNS=n, FLIGHT_SECONDS=n, EVENTS=n (of the
longest report) and PARTS="recording flight" make it shorter. Needs root: without it no recorder runs."""

import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import time

import measure as m
import report

ROUNDS = int(os.environ.get("ROUNDS", "15"))
LOOPS = int(os.environ.get("LOOPS", "300000"))
EVENTS = int(os.environ.get("EVENTS", "100000000"))
# A recorder has begun to record, and has written what its buffers held, within these.
STARTS_S, DRAINS_S = 1.5, 0.3
FLIGHT_S, RATE = int(os.environ.get("FLIGHT_SECONDS", "32")), 40_000
TURNS, TURN_S = int(os.environ.get("TURNS", "9")), 8
REPORT_SPEED = m.ROOT / "target/release/examples/report_speed"
PIPE = ["taskset", "-c", "1", "perf", "bench", "-f", "simple", "sched", "pipe", "-l", str(LOOPS)]
RECORD = [m.CPUMON, "trace", "record"]


def recorders():
    """(name, command that takes a file behind it)."""
    yield "cpumon trace record", [*RECORD, "-o"]
    yield "cpumon trace record --compression none", [*RECORD, "--compression", "none", "-o"]
    yield "cpumon trace record --irq", [*RECORD, "--irq", "-o"]
    yield "perf sched record", ["perf", "sched", "record", "-m", "4096", "-o"]
    yield "trace-cmd record, switches and wakeups", ["trace-cmd", "record", "-e", "sched_switch", "-e", "sched_waking", "-o"]


def read(file):
    """Switches in a file and events that are missing, as `cpumon trace report` counts them."""
    done = subprocess.run([m.CPUMON, "trace", "report", file, "--by", "cpu", "--format", "json"], capture_output=True, text=True)
    rows = json.loads(done.stdout)
    return sum(row["switches"] for row in rows), sum(row["lost"] for row in rows)


def beside(command, file, load):
    """Runs the load beside a recorder."""
    with m.running([*command, file], stop=signal.SIGINT) as process:
        time.sleep(STARTS_S)
        before = m.cpu_ns(process.pid)
        result = load()
        time.sleep(DRAINS_S)
        own_ns, (_, peak_kib) = m.cpu_ns(process.pid) - before, m.rss_kib(process.pid)
    switches, lost = read(file)
    return {"result": result, "own_ns": own_ns, "peak_mb": peak_kib * 1.024e-3, "bytes": file.stat().st_size, "switches": switches, "lost": lost}


def pipe():
    return float(subprocess.run(PIPE, check=True, capture_output=True, text=True).stdout)


def build(folder):
    """Compiles a crate and what it needs, from nothing."""
    target = folder / "build"
    begin = time.monotonic()
    subprocess.run(["cargo", "build", "--quiet", "--locked", "--offline", "--package", "cpumon-wire", "--target-dir", target], check=True, cwd=m.ROOT)
    taken = time.monotonic() - begin
    subprocess.run(["rm", "-r", target], check=True)
    return taken


def usable(folder):
    """Recorders that run on this machine: perf and trace-cmd may be missing, or not be allowed to."""
    for name, command in recorders():
        if not m.have(command[0]):
            continue
        file = folder / "trial"
        with m.running([*command, file], stop=signal.SIGINT) as process:
            time.sleep(STARTS_S)
            runs = process.poll() is None
        file.unlink(missing_ok=True)
        if runs:
            yield name, command
        else:
            print(f"bench: {name} does not run here: exit code {process.returncode}", file=sys.stderr)


def table(load, rounds, found, folder):
    """A row for each recorder: each round begins with another one, and a run alone is shared by its neighbours, so that what the
    machine does meanwhile hits all alike."""
    rows = {name: [] for name, _ in found}
    before = load()
    for each in range(rounds):
        first = each % len(found)
        for number, (name, command) in enumerate(found[first:] + found[:first]):
            file = folder / f"{each}-{number}"
            row = beside(command, file, load)
            after = load()
            rows[name].append({**row, "ratio": row["result"] * 2 / (before + after)})
            before = after
            file.unlink()
    out = ["| recorder | load takes, times as long | least and most | recorder's CPU, µs a switch | bytes a switch | memory, MB | lost |",
           "|---|---:|---:|---:|---:|---:|---:|"]
    for name, runs in rows.items():
        of = lambda value: statistics.median(value(run) for run in runs)
        ratios = [run["ratio"] for run in runs]
        out.append(f"| {name} | {statistics.median(ratios):.3f} | {min(ratios):.2f} to {max(ratios):.2f} | {of(lambda run: run['own_ns'] / run['switches'] / 1e3):.3f} | "
                   f"{of(lambda run: run['bytes'] / run['switches']):.2f} | {of(lambda run: run['peak_mb']):.1f} | {sum(run['lost'] for run in runs):,} |")
    switches = statistics.median(run["switches"] / run["result"] for run in rows["cpumon trace record"])
    return out, switches


def recording():
    with m.folder() as folder:
        found = list(usable(folder))
        rows, rate = table(pipe, ROUNDS, found, folder)
        yield from ["### Recording a pipe", "",
                    f"`perf bench -f simple sched pipe -l {LOOPS}` pinned to one CPU, {rate:,.0f} switches a second; medians of {ROUNDS} rounds, in each every recorder once, compared with the runs without a recorder just before and after it. "
                    "Aims: none lost, at most 1.10 times as long, at most 0.3 µs, at most 8 bytes plain and 3 compressed.", "", *rows, ""]
        subprocess.run(["cargo", "fetch", "--quiet", "--locked"], check=True, cwd=m.ROOT)
        rows, rate = table(lambda: build(folder), 2, found, folder)
        yield from ["### Recording a build", "",
                    f"`cargo build -p cpumon-wire` from nothing, {rate:,.0f} switches a second; medians of 2 rounds. Aim: at most 8 bytes compressed.", "", *rows, ""]


def counted(seconds):
    """Counts on every CPU beside a steady rate of switches."""
    loads = [subprocess.Popen([m.XTASK, "switches", "--cpu", str(cpu), "--rate", str(RATE), "--seconds", str(seconds)], stdout=subprocess.PIPE, text=True)
             for cpu in sorted(os.sched_getaffinity(0))]
    return sum(json.loads(load.communicate()[0])["count"] for load in loads)


def flight():
    """What always recording the last 30 s costs, in memory and on a disk."""
    yield from ["### Flight recorder", "",
                f"`xtask switches`: {RATE:,} switches a second on each CPU, and counting in the rest of the time. Slowdown: counts without a recorder against counts "
                f"beside it, {TURNS} rounds, in each every recorder once for {TURN_S} s, medians. CPU and memory: one run of {FLIGHT_S} s. "
                "Aims: at most 1.05, 64 MB, 2 % of a CPU.", "",
                "| | slowdown | least and most | CPU, % of one | memory, MB |", "|---|---:|---:|---:|---:|"]
    agent = [m.AGENT, "--to", "127.0.0.1:9", "--interval", "1s"]
    on_disk = ["--flight-recorder", "1h", "--flight-bytes", "2GB"]
    kinds = {"in memory: `trace record --last 30s`": lambda folder: [*RECORD, "--last", "30s", "-o", folder / "flight.trace"],
             f"on disk: `cpumon-agent {' '.join(on_disk)}`": lambda folder: [*agent, *on_disk, "--flight-dir", folder],
             "the same agent without a flight recorder": lambda _: agent}
    slowdowns = {name: [] for name in kinds}
    before = counted(TURN_S)
    for number in range(TURNS):
        # Each round begins with another one, and a count alone is shared by its neighbours: what the machine does meanwhile hits all alike.
        names = list(kinds)
        for name in names[number % 3:] + names[:number % 3]:
            beside_it = flown(kinds[name], TURN_S)[0]
            after = counted(TURN_S)
            slowdowns[name].append((before + after) / 2 / beside_it)
            before = after
    for name, command in kinds.items():
        _, own_ns, peak_mb = flown(command, FLIGHT_S)
        each = slowdowns[name]
        yield (f"| {name} | {statistics.median(each):.3f} | {min(each):.3f} to {max(each):.3f} | {own_ns / FLIGHT_S / 1e7:.2f} | {peak_mb:.1f} |")
    yield ""


def flown(command, seconds):
    """Counts beside a recorder, its CPU time and its most memory."""
    with m.folder() as folder, m.running(command(folder), stop=signal.SIGINT) as process:
        time.sleep(STARTS_S)
        before = m.cpu_ns(process.pid)
        count = counted(seconds)
        return count, m.cpu_ns(process.pid) - before, m.rss_kib(process.pid)[1] * 1.024e-3


def trigger():
    """From a signal to the listed trace."""
    taken = []
    with m.folder() as folder:
        state, store = folder / "state", folder / "store.db"
        serve = [m.CPUMON, "serve", "--no-agent", "--udp", "127.0.0.1:0", "--http", "127.0.0.1:0", "--tls", "127.0.0.1:0", "--state", state, "--store", store]
        with m.running(serve, stdout=subprocess.PIPE, text=True) as process:
            address = next(found.group(1) for line in process.stdout if (found := re.search(r"^ready .*tls=(\S+)", line)))
            token = subprocess.run([m.CPUMON, "token", "--state", state], check=True, capture_output=True, text=True).stdout.split()[-1]
            keys = folder / "keys"
            subprocess.run([m.AGENT, "enroll", address, token, "--state", keys, "--host-name", "bench"], check=True, capture_output=True)
            agent = [m.AGENT, "--to", f"tls://{address}", "--state", keys, "--no-discovery", "--flight-recorder", "30s", "--flight-dir", folder / "flights"]
            for number in range(3):
                with m.running(agent) as device:
                    time.sleep(STARTS_S)
                    loads = [subprocess.Popen([m.XTASK, "switches", "--cpu", str(cpu), "--rate", str(RATE), "--seconds", str(FLIGHT_S + 8)], stdout=subprocess.DEVNULL)
                             for cpu in sorted(os.sched_getaffinity(0))]
                    time.sleep(FLIGHT_S)
                    begin = time.monotonic()
                    device.send_signal(signal.SIGUSR1)
                    # A listing takes CPU from what is measured: the first one comes when the file is there.
                    while len(files(store)) <= number and time.monotonic() < begin + 60:
                        time.sleep(0.02)
                    while len(listed(store)) <= number and time.monotonic() < begin + 60:
                        time.sleep(0.02)
                    taken.append(time.monotonic() - begin)
                    for load in loads:
                        load.wait()
            size = statistics.median(int(trace["bytes"]) for trace in listed(store))
    yield from ["### From a trigger to the stored trace", "",
                f"SIGUSR1 to an agent with `--flight-recorder 30s` beside {RATE:,} switches a second on each CPU, until `cpumon trace list` of the receiver has "
                f"the trace ({size / 1e6:.1f} MB), over TLS on loopback; a second of that is recorded after the signal. Aim: at most 5 s. "
                f"Measured: {', '.join(f'{each:.1f} s' for each in taken)}.", ""]


def files(store):
    """Of the receiver's traces, those that are complete."""
    return list(pathlib.Path(f"{store}.traces").glob("*.trace"))


def listed(store):
    done = subprocess.run([m.CPUMON, "trace", "list", "--format", "json", "--store", store], capture_output=True, text=True)
    return json.loads(done.stdout or "[]")


def analysis():
    yield from ["### Reports", "",
                "`report_speed`: made-up traces, whole report and index of the timeline, CPU time of one core. Aim: 10 million events a second for the whole report.", "",
                "| load | events | CPUs | threads ready | decode, M events/s | with states | whole report | memory, MB | index of the timeline, s | bytes an event | most behind, of the exact time |",
                "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|"]
    for load, events in (("pipe", 10_000_000), ("mixed", 10_000_000), ("short-lived", 10_000_000), ("overloaded", 10_000_000), ("large", 10_000_000), ("mixed", EVENTS)):
        # An index of the longest one is none that a page would show.
        row = m.json_line([REPORT_SPEED, str(events), load, *(["--no-index"] if events == EVENTS else [])])
        index = f"{row['index_s']:.2f} | {row['index_bytes']:.1f} | {row['behind_part']:.1%}" if "index_s" in row else "| | "
        yield (f"| {load} | {row['events']:,} | {row['cpus']} | {row['ready']:.1f} | {row['decode']:.1f} | {row['states']:.1f} | {row['report']:.1f} | "
               f"{row['peak_mb']:.1f} | {index} |")
    yield ""


def page():
    """The timeline in Chromium."""
    with m.folder() as folder:
        file = folder / "mixed.trace"
        subprocess.run([REPORT_SPEED, "10000000", "mixed", file], check=True, capture_output=True)
        with m.running([m.CPUMON, "trace", "view", file], stop=signal.SIGINT, stdout=subprocess.PIPE, text=True) as process:
            url = next(found.group(0) for line in process.stdout if (found := re.search(r"http://\S+", line)))
            done = subprocess.run(["node", "bench/trace.mjs", url], cwd=m.ROOT / "web", check=True, capture_output=True, text=True)
            memory = m.rss_kib(process.pid)[1] * 1.024e-3
    yield from ["### The timeline in the page", "",
                "10 million events of 500 threads on 4 CPUs, `cpumon trace view`, Chromium. Aims: first picture within 1 s, 50 frames a second (20 ms between frames), 300 MB.", "",
                *[f"- {line}" for line in done.stdout.strip().splitlines()], f"- cpumon: at most {memory:.0f} MB", ""]


PARTS = {"recording": recording, "flight": flight, "trigger": trigger, "analysis": analysis, "page": page}


def chapter(names):
    out = ["## Traces", "", "`make bench-trace`; how run times agree with `perf sched timehist` is checked by the test `trace_perf`.", ""]
    for name in names:
        print(f"bench: {name}", file=sys.stderr, flush=True)
        for line in PARTS[name]():
            print(line, file=sys.stderr, flush=True)
            out.append(line)
    return "\n".join(out)


if __name__ == "__main__":
    wanted = os.environ.get("PARTS", "").split() or list(PARTS)
    unknown = [name for name in wanted if name not in PARTS]
    if unknown:
        raise SystemExit(f"bench: no part {', '.join(unknown)}; there are {', '.join(PARTS)}")
    if os.geteuid() != 0:
        raise SystemExit("bench: recording needs root")
    text = chapter(wanted)
    if "--write" in sys.argv and len(wanted) == len(PARTS):
        report.put(text)
