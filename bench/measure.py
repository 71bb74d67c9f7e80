"""Starts programs, measures them from outside and ends them by pid. Used by the benchmark chapters.

CPU is read from /proc/PID/task/TID/schedstat (first field, ns on CPU), the same for cpumon and every peer, children
included. Medians are quoted; the machine is never quiet."""

import contextlib
import json
import os
import pathlib
import signal
import shutil
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
XTASK = ROOT / "target/release/xtask"
CPUMON = ROOT / "target/release/cpumon"
AGENT = ROOT / "target/slim/cpumon-agent"
# What a ledger needs.
EVERYTHING = ["--source", "bpf", "--probes", "sched,waits,irq"]
# With these, what `wakers` adds: who ended waits.
WITH_WAKERS = ["--source", "bpf", "--probes", "sched,waits,irq,wakers"]
# Every probe: also how long each run delay was, and who ended waits.
WITH_HISTOGRAMS = ["--source", "bpf", "--probes", "sched,waits,irq,hist,wakers"]
# Everything on, but with interrupts inside the threads, as other tools have them.
SWITCHES = ["--source", "bpf", "--probes", "sched,waits"]


def descendants(pid):
    """pid and everything below it."""
    found, stack = [], [pid]
    while stack:
        parent = stack.pop()
        found.append(parent)
        with contextlib.suppress(OSError):
            for task in os.listdir(f"/proc/{parent}/task"):
                text = pathlib.Path(f"/proc/{parent}/task/{task}/children").read_text()
                stack += [int(child) for child in text.split()]
    return found


def cpu_ns(pid):
    """CPU time of a process, its threads and its living children, plus that of children it has reaped, ns."""
    total = 0
    for each in descendants(pid):
        with contextlib.suppress(OSError):
            for task in os.listdir(f"/proc/{each}/task"):
                with contextlib.suppress(OSError):
                    total += int(pathlib.Path(f"/proc/{each}/task/{task}/schedstat").read_text().split()[0])
            fields = pathlib.Path(f"/proc/{each}/stat").read_text().rsplit(")", 1)[1].split()
            total += (int(fields[13]) + int(fields[14])) * 10_000_000
    return total


def rss_kib(pid):
    """Resident memory now and at its highest, KiB."""
    lines = dict(line.split(":", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(lines["VmRSS"].split()[0]), int(lines["VmHWM"].split()[0])


@contextlib.contextmanager
def running(command, stop=signal.SIGTERM, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options):
    """A program while the block runs; ended by its pid, killed after 10 s."""
    process = subprocess.Popen([str(part) for part in command], stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, **options)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(stop)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def cpu_ms_per_s(pid, seconds, warm_up=3):
    """Mean CPU of a running program over `seconds`, ms per second."""
    time.sleep(warm_up)
    begin, before = time.monotonic(), cpu_ns(pid)
    time.sleep(seconds)
    used, length = cpu_ns(pid) - before, time.monotonic() - begin
    return used / length / 1e6


def thread_count():
    return sum(len(os.listdir(f"/proc/{pid}/task")) for pid in os.listdir("/proc") if pid.isdigit() and os.path.exists(f"/proc/{pid}/task"))


def have(program):
    return shutil.which(program) is not None


@contextlib.contextmanager
def load(idle, active, seconds, processes=20):
    """Idle and active threads, standing when the block begins."""
    command = [XTASK, "load", "--idle", idle, "--active", active, "--processes", processes, "--seconds", seconds]
    before = thread_count()
    with running(command) as process:
        for _ in range(200):
            if thread_count() >= before + idle + active:
                break
            time.sleep(0.1)
        yield process
        for child in descendants(process.pid)[1:]:
            with contextlib.suppress(OSError):
                os.kill(child, signal.SIGTERM)


@contextlib.contextmanager
def folder():
    with tempfile.TemporaryDirectory(prefix="cpumon-bench-") as name:
        yield pathlib.Path(name)


def json_line(command, **options):
    """The last line of a command's output, as JSON."""
    out = subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True, **options).stdout
    return json.loads(out.strip().splitlines()[-1])


def machine():
    """One line about where this was run."""
    model = next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "unknown CPU")
    return f"{os.cpu_count()} CPUs ({model}), {os.uname().sysname} {os.uname().release}, {time.strftime('%Y-%m-%d')}"
