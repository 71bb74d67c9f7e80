"""Chapter: what polling costs. Every monitor at 1 s beside the same 10,000 idle and 200 active threads."""

import statistics

import measure as m

SECONDS = 8
ROUNDS = 3


FLOOR = "floor: open-read-close of every stat"


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
    rounds = []
    with m.load(idle, active, 600):
        threads = m.thread_count()
        for _ in range(ROUNDS):
            rows = [measured(name, command, threads) for name, command in agents(sink.getsockname()[1])]
            rows.append(measured(FLOOR, [m.XTASK, "floor", "--count", "60"], threads))
            rows += [measured(name, command, threads, sees) for name, command, sees in peers() if m.have(command[0])]
            rounds.append(rows)
    return threads, rounds


def summed_up(rounds):
    """A row for each program: medians over the rounds, least and most of a thread's cost, and its ratio to the floor of the same round."""
    for same in zip(*rounds):
        row = {"name": same[0]["name"], **{key: statistics.median(one[key] for one in same) for key in ("ms_per_s", "rss_mib")}}
        if same[0]["per_thread_us"] is not None:
            each = [one["per_thread_us"] for one in same]
            floors = [next(one for one in rows if one["name"] == FLOOR)["per_thread_us"] for rows in rounds]
            row["each"] = f"{statistics.median(each):.2f} | {min(each):.2f} to {max(each):.2f}"
            row["ratio"] = f"{statistics.median(one / floor for one, floor in zip(each, floors)):.2f}"
        yield row


def chapter():
    threads, rounds = run()
    out = ["## What polling costs", "",
           f"{threads:,} threads (10,000 idle, 200 working 100 µs five times a second, the rest of the machine), interval 1 s; {ROUNDS} rounds, in each every program once, {SECONDS} s "
           "after 3 s warm-up; medians of the rounds; CPU of the program and its children from schedstat. cpumon's figure is collect + diff + encode + send.", "",
           "| program | CPU ms per s | µs per thread and pass | least and most | against the floor | peak RSS MiB |", "|---|---:|---:|---:|---:|---:|"]
    for row in summed_up(rounds):
        out.append(f"| {row['name']} | {row['ms_per_s']:.1f} | {row.get('each', '– | –')} | {row.get('ratio', '–')} | {row['rss_mib']:.1f} |")
    return "\n".join(out) + "\n"


if __name__ == "__main__":
    print(chapter())
