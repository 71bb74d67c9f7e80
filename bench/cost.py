"""Sections: what watching costs. The slowdown of a benchmark that does nothing but switch, against doing without and against
peers; and the agent's own CPU time."""

import contextlib
import os
import socket
import statistics
import subprocess
import tempfile
import time

import polling
import measure as m

RUNS = int(os.environ.get("RUNS", "11"))
LOOPS = int(os.environ.get("LOOPS", "300000"))
PIPE = ["taskset", "-c", "1", "perf", "bench", "-f", "simple", "sched", "pipe", "-l", str(LOOPS)]
# On-CPU time of each thread, summed in the kernel: the least that a peer does for the same figure.
BPFTRACE = "tracepoint:sched:sched_switch { $s = @begin[cpu]; if ($s) { @run[args->prev_pid] = sum(nsecs - $s); } @begin[cpu] = nsecs; }"


@contextlib.contextmanager
def nothing():
    yield


@contextlib.contextmanager
def watched(command):
    """Watched by a program that has settled."""
    with m.running(command):
        time.sleep(1.5)
        yield


def watchers(sink, folder):
    agent = [m.AGENT, "--to", f"127.0.0.1:{sink.getsockname()[1]}", "--interval", "1s"]
    yield "nothing", nothing
    yield "cpumon-agent, BPF, sched,waits,irq", lambda: watched([*agent, *m.EVERYTHING])
    yield "cpumon-agent, BPF, sched,waits,irq,wakers", lambda: watched([*agent, *m.WITH_WAKERS])
    yield "cpumon-agent, BPF, every probe", lambda: watched([*agent, *m.WITH_HISTOGRAMS])
    yield "cpumon-agent, BPF, its default (wakers)", lambda: watched([*agent, "--source", "bpf"])
    yield "cpumon-agent, BPF, no probes", lambda: watched([*agent, "--source", "bpf", "--probes", "none"])
    yield "cpumon-agent, procfs", lambda: watched([*agent, "--source", "procfs"])
    if m.have("perf"):
        yield "perf sched record", lambda: watched(["perf", "sched", "record", "-o", f"{folder}/perf.data"])
    if m.have("runqlat"):
        yield "runqlat (libbpf-tools)", lambda: watched(["runqlat", "1"])
    if m.have("bpftrace"):
        yield "bpftrace, on-CPU sum", lambda: watched(["bpftrace", "-e", BPFTRACE])


def slowdown():
    """Alternating, so that a drift of the machine falls on all alike."""
    sink = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sink.bind(("127.0.0.1", 0))
    with tempfile.TemporaryDirectory(prefix="cpumon-bench-") as folder:
        all_watchers = list(watchers(sink, folder))
        times = {name: [] for name, _ in all_watchers}
        for _ in range(RUNS):
            for name, watch in all_watchers:
                with watch():
                    times[name].append(float(subprocess.run(PIPE, check=True, capture_output=True, text=True).stdout))
    base = statistics.median(times["nothing"])
    for name, seconds in times.items():
        # Each run against the one without a watcher of the same round; the median of those.
        ratios = [each / alone for each, alone in zip(seconds, times["nothing"])]
        yield name, statistics.median(seconds), statistics.median(seconds) / base, min(ratios), max(ratios)


def agent_cost(idle, active, watching):
    sink = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sink.bind(("127.0.0.1", 0))
    with m.load(idle, active, 300):
        threads = m.thread_count()
        command = [m.AGENT, "--to", f"127.0.0.1:{sink.getsockname()[1]}", "--interval", "1s", *watching]
        rows = [polling.measured("agent", command, threads) for _ in range(3)]
    return threads, {key: statistics.median(row[key] for row in rows) for key in ("ms_per_s", "per_thread_us", "rss_mib")}


def section():
    out = ["### What it costs those who are watched", "",
           f"`perf bench -f simple sched pipe -l {LOOPS}` pinned to one CPU: {RUNS} rounds, in each every watcher once. Aim: ≤ 1.12 and less than a quarter of "
           "what `perf sched record` adds. runqlat and bpftrace print or sum one figure each.", "",
           "| watcher | median, s | against nothing | least and most of the rounds |", "|---|---:|---:|---:|"]
    out += [f"| {name} | {median:.3f} | {ratio:.3f} | {least:.2f} to {most:.2f} |" for name, median, ratio, least, most in slowdown()]
    out += ["", "### What the agent costs", "",
            f"Slim `cpumon-agent`, BPF source, 1 s, median of three runs of {polling.SECONDS} s after 3 s; CPU of the process (what the probes cost the watched programs is in the table above). "
            "Aims: ≤ 1.0 µs per thread at 10,000; ≤ 0.3 % of one CPU and ≤ 15 MB at 2,000 idle threads.", "",
            "| `--probes` | threads | of them active | CPU, % of one | µs per thread and pass | peak RSS, MB |", "|---|---:|---:|---:|---:|---:|"]
    for watching in (m.EVERYTHING, m.WITH_WAKERS, m.WITH_HISTOGRAMS):
        for idle, active in ((10_000, 200), (2_000, 0)):
            threads, row = agent_cost(idle, active, watching)
            out.append(f"| {watching[-1]} | {threads:,} | {active} | {row['ms_per_s'] / 10:.2f} | {row['per_thread_us']:.2f} | {row['rss_mib'] * 1.048576:.1f} |")
    return out
