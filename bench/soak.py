"""Chapter: a long run under mixed churn. Do memory, descriptors or the kernel's maps grow? `make soak` writes it into
docs/lab/results.md; SECONDS=n makes it shorter or longer."""

import os
import pathlib
import re
import socket
import statistics
import subprocess
import sys
import time

import measure as m
import report

SECONDS = int(os.environ.get("SECONDS", "600"))
EVERY = 5
WARM_UP = 30


def map_bytes(pid):
    """Memory of the BPF maps that a process holds, as the kernel counts it (bpf(2), fdinfo), each map once."""
    maps = {}
    for file in pathlib.Path(f"/proc/{pid}/fdinfo").iterdir():
        try:
            fields = dict(re.findall(r"(?m)^(\w+):\t(\S+)$", file.read_text()))
        except OSError:
            continue
        if "map_id" in fields:
            maps[fields["map_id"]] = int(fields["memlock"])
    return sum(maps.values()), len(maps)


def unreclaimable_kib():
    """Kernel memory that nothing can give back; storage of tasks is in it."""
    return int(next(line for line in open("/proc/meminfo") if line.startswith("SUnreclaim")).split()[1])


def sample(pid):
    total, count = map_bytes(pid)
    return {"rss": m.rss_kib(pid)[0], "maps": total / 1024, "map_count": count, "slab": unreclaimable_kib(),
            "fds": len(os.listdir(f"/proc/{pid}/fd")), "threads": len(os.listdir(f"/proc/{pid}/task"))}


def run():
    sink = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sink.bind(("127.0.0.1", 0))
    samples, before = [], unreclaimable_kib()
    agent = [m.AGENT, "--to", f"127.0.0.1:{sink.getsockname()[1]}", "--interval", "1s", *m.EVERYTHING]
    log = subprocess.PIPE
    with m.running(agent, stderr=log, text=True) as process:
        with m.running([m.XTASK, "churn", "--seconds", str(SECONDS)], stdout=subprocess.PIPE, text=True) as churn:
            begin = time.monotonic()
            while churn.poll() is None:
                time.sleep(EVERY)
                if time.monotonic() > begin + WARM_UP and churn.poll() is None:
                    samples.append(sample(process.pid))
            done = churn.stdout.read().strip()
        time.sleep(3)
        after = unreclaimable_kib()
        process.terminate()
        messages = process.stderr.read()
    return samples, done, messages, before, after


def thirds(samples, key):
    """Medians of the three thirds, and the most."""
    third = max(1, len(samples) // 3)
    parts = samples[:third], samples[third:-third] or samples, samples[-third:]
    return *(statistics.median(one[key] for one in part) for part in parts), max(one[key] for one in samples)


def chapter():
    samples, done, messages, before, after = run()
    troubles = sorted(set(re.findall(r"(?:exit records lost|malformed|failed passes|skipped) \d+", messages)))
    out = ["## Soak", "",
           f"`make soak`: {SECONDS} s of `xtask churn` ({done}) beside a slim agent at 1 s, BPF source, everything on; a sample each {EVERY} s after {WARM_UP} s. "
           "Lists grow once to the largest crowd they met; what grew on would show between the thirds.", "",
           "| | median of the first third | of the second | of the last | most |", "|---|---:|---:|---:|---:|"]
    for key, name in (("rss", "resident memory of the agent, KiB"), ("maps", "BPF maps, KiB"), ("map_count", "BPF maps, count"),
                      ("fds", "file descriptors"), ("threads", "threads of the agent"), ("slab", "kernel memory of the whole host that cannot be reclaimed, KiB")):
        out.append(f"| {name} | " + " | ".join(f"{figure:,.0f}" for figure in thirds(samples, key)) + " |")
    out += ["", f"Kernel memory that cannot be reclaimed was {before:,} KiB before the agent and {after:,} KiB after the churn. "
            f"What the agent says it missed: {', '.join(troubles) if troubles else 'nothing'}."]
    return "\n".join(out) + "\n", growth(samples)


def growth(samples):
    """What grew by more than a tenth and 1 MiB (counts: at all)."""
    grown = []
    for key, slack in (("rss", 1024), ("maps", 0), ("map_count", 0), ("fds", 2), ("threads", 0)):
        first, _, last, _ = thirds(samples, key)
        if last > first * (1.1 if key == "rss" else 1.0) + slack:
            grown.append(key)
    return grown


if __name__ == "__main__":
    text, grown = chapter()
    print(text)
    if "--write" in sys.argv:
        report.put(text)
    if grown:
        raise SystemExit(f"soak: grew: {', '.join(grown)}")
