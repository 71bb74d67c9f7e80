"""Chapter: what looking costs. Every monitor at 1 s beside the same 10,000 idle and 200 active threads."""

import subprocess
import time

import measure as m

SECONDS = 10


def peers():
    """(name, command, sees threads); each writes its screen to nowhere, at an interval of 1 s."""
    yield "pidstat -t 1", ["pidstat", "-t", "1"], True
    yield "top -b -H -d 1", ["top", "-b", "-H", "-d", "1"], True
    yield "atop 1", ["atop", "1"], True
    yield "htop -d 10", ["script", "-qfc", "htop -d 10", "/dev/null"], True
    yield "pidstat 1", ["pidstat", "1"], False
    yield "top -b -d 1", ["top", "-b", "-d", "1"], False


def agents(port):
    to = ["--to", f"127.0.0.1:{port}", "--interval", "1s"]
    yield "cpumon-agent, BPF", [m.AGENT, *to, "--source", "bpf"]
    yield "cpumon-agent, procfs", [m.AGENT, *to, "--source", "procfs"]


def measured(name, command, threads, sees_threads=True):
    import os
    with m.running(command, env={**os.environ, "TERM": "xterm", "LINES": "50", "COLUMNS": "160"}) as process:
        cost = m.cpu_ms_per_s(process.pid, SECONDS)
        rss = max((m.rss_kib(pid)[1] for pid in m.descendants(process.pid)), default=0)
    per_thread_us = cost * 1000 / threads if sees_threads else None
    return {"name": name, "ms_per_s": cost, "per_thread_us": per_thread_us, "rss_mib": rss / 1024}


def run(idle=10_000, active=200):
    import socket
    sink = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sink.bind(("127.0.0.1", 0))
    rows = []
    with m.load(idle, active, 600):
        threads = m.thread_count()
        for name, command in agents(sink.getsockname()[1]):
            rows.append(measured(name, command, threads))
        rows.append(measured("floor: open-read-close of every stat", [m.XTASK, "floor", "--count", "60"], threads))
        for name, command, sees_threads in peers():
            if m.have(command[0]):
                rows.append(measured(name, command, threads, sees_threads))
    return threads, rows


def chapter():
    threads, rows = run()
    floor = next(row for row in rows if row["name"].startswith("floor"))
    out = ["## What looking costs", "",
           f"{threads:,} threads (10,000 idle, 200 working 100 µs five times a second, the rest of the machine), interval 1 s, mean of {SECONDS} s "
           "after 3 s warm-up; CPU of the program and its children from schedstat. cpumon's figure is collect + diff + encode + send.", "",
           "| program | CPU ms per s | µs per thread and look | against the floor | peak RSS MiB |", "|---|---:|---:|---:|---:|"]
    for row in rows:
        each = "–" if row["per_thread_us"] is None else f"{row['per_thread_us']:.2f}"
        ratio = "–" if row["per_thread_us"] is None else f"{row['per_thread_us'] / floor['per_thread_us']:.2f}"
        out.append(f"| {row['name']} | {row['ms_per_s']:.1f} | {each} | {ratio} | {row['rss_mib']:.1f} |")
    return "\n".join(out) + "\n"


if __name__ == "__main__":
    print(chapter())
