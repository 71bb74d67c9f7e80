"""Sections: run time and run delay of single threads, against `perf sched record` of the same span. Each worker is born and ends
while both record, so that both measure the same nanoseconds."""

import collections
import re
import subprocess
import time

import measure as m

SECONDS = 8
WAYS = ("spin", "read", "nap", "dodge", "nap", "spin")
# perf sched timehist --state: time [cpu] name[tid/pid] wait delay run state
# Runnable. Some versions of perf print W for a thread that was preempted in the kernel (R+ in the event).
PUSHED_OFF = ("R", "W")
LINE = re.compile(r"^\s*(\d+\.\d+) \[(\d+)\]\s+(.*?)\[(\d+)(?:/(\d+))?\]\s+([\d.]+)\s+([\d.]+)\s+([\d.]+)\s+(\S+)")


def timehist(data):
    """tid -> (run ns, run delay ns, slices). After a preemption the time until the next slice is all delay."""
    process = subprocess.Popen(["perf", "sched", "timehist", "-i", data, "--state"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    found, state = collections.defaultdict(lambda: [0, 0, 0]), {}
    for line in process.stdout:
        match = LINE.match(line)
        if not match:
            continue
        tid = int(match[4])
        wait, delay, run = (float(match[at]) * 1e6 for at in (6, 7, 8))
        sums = found[tid]
        sums[0] += run
        sums[1] += wait if state.get(tid, "").startswith(PUSHED_OFF) else delay
        sums[2] += 1
        state[tid] = match[9]
    process.wait()
    return found


def compared(recording, sql):
    with m.folder() as folder:
        data = folder / "perf.data"
        with recording(folder, m.SWITCHES) as store:
            perf = subprocess.Popen(["perf", "sched", "record", "-o", data, "--", "sleep", str(SECONDS + 4)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(2)
            workers = [(way, subprocess.Popen([m.XTASK, "work", way, "--seconds", str(SECONDS)], stdout=subprocess.DEVNULL)) for way in WAYS]
            for _, worker in workers:
                worker.wait()
            perf.wait()
        truth = timehist(data)
        for way, worker in workers:
            rows = sql(store, "SELECT coalesce(sum(run_ns), 0) AS run_ns, coalesce(sum(run_delay_ns), 0) AS run_delay_ns "
                              f"FROM thread_interval WHERE tid = {worker.pid} AND pid = {worker.pid}")
            run, delay, slices = truth[worker.pid]
            yield way, rows[0]["run_ns"], run, rows[0]["run_delay_ns"], delay, slices


def section(recording, sql):
    out = ["### Against perf sched record", "",
           f"{len(WAYS)} workers (`xtask work`) of {SECONDS} s on this machine's CPUs, both tools at once. Aims: run time within max(0.2 %, 12 µs x slices), "
           "run delay within 2 %. Interrupts are inside the threads on both sides (`--probes sched,waits`); steal is inside perf's.", "",
           "| worker | slices | run time, ms | perf, ms | difference | within | run delay, ms | perf, ms | difference |",
           "|---|---:|---:|---:|---:|---|---:|---:|---:|"]
    for way, run, perf_run, delay, perf_delay, slices in compared(recording, sql):
        is_within = abs(run - perf_run) <= max(0.002 * perf_run, 12_000 * slices)
        out.append(f"| {way} | {slices:,} | {run / 1e6:,.2f} | {perf_run / 1e6:,.2f} | {difference(run, perf_run)} | {'yes' if is_within else 'NO'} | "
                   f"{delay / 1e6:,.2f} | {perf_delay / 1e6:,.2f} | {difference(delay, perf_delay)} |")
    return out


def difference(value, truth):
    return f"{(value - truth) / truth * 100:+.2f} %" if truth else "–"
