"""Part of the chapter *Why is it slow?*: are the waits that a receiver stores those of a trace of the same seconds? Sums of waits of 1 ms and
more by who waited, what for and on whom, from both. `ONLY=culprits make bench-why` prints it."""

import bisect
import collections
import csv
import struct
import subprocess
import time

import measure as m
from accounting import sql

TRACE_S, LONG_NS = 12, 1_000_000
# Of the header of a trace: its start on the wall clock.
WALL_AT = 44
OTHERS = "others"


def traced(path):
    """The slices of a trace, with times on the wall clock; of a wait that goes on in the queue of another CPU one."""
    with open(path, "rb") as file:
        began_ns = struct.unpack_from("<q", file.read(WALL_AT + 8), WALL_AT)[0]
    command = [str(m.CPUMON), "trace", "export", str(path), "--format", "csv"]
    rows = csv.DictReader(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines())
    slices = []
    for row in rows:
        begin_ns, end_ns = began_ns + int(row["start_ns"]), began_ns + int(row["end_ns"])
        slices.append((begin_ns, end_ns, row["cpu"], row["tid"], row["program"], row["state"], row["woken_by_tid"], row["is_over"] == "1"))
    return slices


def of_trace(slices, since_ns, until_ns):
    """Long waits that ended in the range, by program, kind and program that was waited on."""
    programs = {tid: program for *_, tid, program, _, _, _ in slices}
    runs = collections.defaultdict(list)
    for begin_ns, end_ns, cpu, tid, program, state, _, _ in slices:
        if state == "running":
            runs[cpu].append((begin_ns, end_ns, program))
    begins = {cpu: [begin_ns for begin_ns, *_ in of_cpu] for cpu, of_cpu in runs.items()}
    by_thread = collections.defaultdict(list)
    for each in slices:
        by_thread[each[3]].append(each)
    sums = collections.Counter()
    for of_thread in by_thread.values():
        since, kind = 0, ""
        for place, (begin_ns, end_ns, _, _, program, state, _, is_over) in enumerate(of_thread):
            state = "ready" if state == "preempted" else state
            if state not in ("ready", "blocked"):
                kind = ""
                continue
            if state != kind:
                since, kind = begin_ns, state
            later = of_thread[place + 1] if place + 1 < len(of_thread) else None
            if not later or not (is_over or later[5] == "running") or not since_ns < end_ns <= until_ns or end_ns - since < LONG_NS:
                continue
            if kind == "blocked":
                sums[program, kind, programs.get(later[6], OTHERS)] += end_ns - since
                continue
            # On the CPU that it got.
            cpu, left = later[2], end_ns - since
            first = max(bisect.bisect_right(begins[cpu], since) - 1, 0)
            for run_begin, run_end, runner in runs[cpu][first:]:
                if run_begin >= end_ns:
                    break
                part = min(run_end, end_ns) - max(run_begin, since)
                if part > 0:
                    sums[program, kind, runner] += part
                    left -= part
            sums[program, kind, OTHERS] += left
    return sums


def of_store(store, since_ns, until_ns):
    query = (f"SELECT name, kind, waited_on, on_name, sum(wait_ns) AS ns FROM wait_for_interval WHERE begin_ns >= {since_ns} AND end_ns <= {until_ns} "
             "GROUP BY 1, 2, 3, 4")
    sums = collections.Counter()
    for row in sql(store, query):
        on = {"process": row["on_name"], "thread": row["name"]}.get(row["waited_on"]) or OTHERS
        sums[row["name"], row["kind"], on] += row["ns"]
    return sums


def compared(store, folder):
    """While the loads run. Sums of the trace and of the store over the same intervals, and the length of these."""
    path = folder / "culprits.trace"
    subprocess.run([m.CPUMON, "trace", "record", "--for", f"{TRACE_S}s", "-o", path], check=True, capture_output=True)
    time.sleep(3)
    slices = traced(path)
    begin_ns, end_ns = min(each[0] for each in slices), max(each[1] for each in slices)
    # A wait that began before the trace is not whole in it.
    row = sql(store, "SELECT min(begin_ns) AS since_ns, max(end_ns) AS until_ns FROM host_interval "
                     f"WHERE begin_ns > {begin_ns + 1_000_000_000} AND end_ns < {end_ns}")[0]
    since_ns, until_ns = row["since_ns"], row["until_ns"]
    trace, stored = of_trace(slices, since_ns, until_ns), of_store(store, since_ns, until_ns)
    return trace, stored, until_ns - since_ns


def section(cases, serving, loaded):
    """A table. In: cases, and what why.py runs them with."""
    out = ["### Waits by culprit, beside a trace", "",
           f"Sums of waits of 1 ms and more that ended in the same intervals of some {TRACE_S - 2} s, of the programs of the load, from the store and from a trace; those with 2 % of the time and more. "
           "The trace has no interrupts: it has the thread that one came in as who ended a wait, where the store has others.", "",
           "| load | who | what for | on whom | trace, s | store, s | difference, % of all its waits |", "|---|---|---|---|---:|---:|---:|"]
    for case in cases:
        with m.folder() as folder, serving(folder) as (store, _), loaded(case, folder):
            time.sleep(4)
            trace, stored, length_ns = compared(store, folder)
        programs = {load.program for load in case.loads}
        for who, kind, on in sorted(trace.keys() | stored.keys(), key=lambda key: -max(trace[key], stored[key])):
            key = (who, kind, on)
            if who in programs and max(trace[key], stored[key]) >= length_ns // 50:
                whole = sum(ns for (waiter, *_), ns in trace.items() if waiter == who)
                difference = (stored[key] - trace[key]) / whole if whole else 1
                out.append(f"| {case.letter} | {who} | {kind} | {on} | {trace[key] / 1e9:.3f} | {stored[key] / 1e9:.3f} | {difference:+.2%} |")
    return [*out, ""]
