"""Chapter: who did it? A fork storm, and the share of its CPU time that each monitor puts under the right name."""

import json
import re
import subprocess
import time

import measure as m

NAME = "stormchild"
SECONDS = 12


def storm():
    """Runs the storm to its end; its own truth: CPU of all children by getrusage(RUSAGE_CHILDREN)."""
    return m.json_line([m.XTASK, "storm", "--rate", "390", "--seconds", SECONDS, "--name", NAME])


def cpumon(source):
    """The receiver's own machine, recorded into a store and asked by SQL."""
    with m.folder() as folder:
        store = folder / "store.db"
        command = [m.CPUMON, "serve", "--udp", "127.0.0.1:0", "--http", "127.0.0.1:0", "--store", store, "--source", source]
        with m.running(command):
            time.sleep(4)
            truth = storm()
            time.sleep(3)
        query = f"SELECT coalesce(sum(run_ns), 0) AS run_ns FROM process_interval WHERE name = '{NAME}'"
        answer = m.json_line([m.CPUMON, "sql", "--store", store, "--format", "jsonl", query])
        return answer["run_ns"], truth


def lines_of(command, read):
    """Runs a monitor beside the storm and sums what `read` finds in its lines, CPU percent of 1 s each."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    time.sleep(2)
    truth = storm()
    time.sleep(2)
    process.terminate()
    out = process.communicate(timeout=20)[0]
    return sum(read(line) for line in out.splitlines() if NAME in line) * 1e7, truth


def pidstat(line):
    fields = line.split()
    return float(fields[-3])


def top(line):
    fields = line.split()
    return float(fields[8])


def atop(line):
    # PRC: label host epoch date time interval pid name state hertz user-ticks system-ticks ...
    match = re.search(r"\(" + NAME + r"\) \S+ (\d+) (\d+) (\d+)", line)
    return (int(match[2]) + int(match[3])) / int(match[1]) * 100 if match else 0.0


def rows():
    yield "cpumon, BPF source", *cpumon("bpf")
    yield "cpumon, procfs source", *cpumon("procfs")
    if m.have("pidstat"):
        yield "pidstat 1", *lines_of(["pidstat", "1"], pidstat)
    if m.have("top"):
        yield "top -b -d 1", *lines_of(["top", "-b", "-d", "1", "-w", "200"], top)
    if m.have("atop"):
        yield "atop -P PRC 1", *lines_of(["atop", "-P", "PRC", "1"], atop)


def chapter():
    out = ["## Who did it? A fork storm", "",
           f"390 fork+exec per second for {SECONDS} s, each child burning 2–5 ms of CPU. The truth is getrusage(RUSAGE_CHILDREN) of the storm. "
           "htop has no batch mode to read.", "",
           "| program | processes | CPU of the children, s | under their name, s | share |", "|---|---:|---:|---:|---:|"]
    for name, found_ns, truth in rows():
        real_ns = truth["children_cpu_ns"]
        out.append(f"| {name} | {truth['started']} | {real_ns / 1e9:.2f} | {found_ns / 1e9:.2f} | {found_ns / real_ns * 100:.1f} % |")
    return "\n".join(out) + "\n"


if __name__ == "__main__":
    print(chapter())
