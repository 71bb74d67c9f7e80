"""Chapter: does `cpumon why` find what is known to be the cause? Twelve hidden causes, each asked in four ways; whether stored waits are
those of a trace; healthy spans, whose causes people judge; and how long an hour takes. `make bench-why` writes it into docs/lab/results.md.
Measures target/release/cpumon, or CPUMON=FILE. ONLY="A H culprits healthy speed" runs some and only prints; HEALTHY=n spans of 10 s;
STORE=FILE has the hour. `--keep DIR` keeps what was wrong.
Needs root: for BPF, real-time priority, a CPU limit and a network namespace. The loads are bench/why_loads.py."""

import argparse
import collections
import contextlib
import dataclasses
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import culprits
import measure as m
import report
from accounting import sql

LOADS = pathlib.Path(__file__).resolve().with_name("why_loads.py")
# Seconds: recorded before the load, from its start to the live questions, its length, and until its last interval is stored. A load whose
# benchmark is killed ends by itself.
BEFORE_S, LIVE_S, LOAD_S, AFTER_S, LIMIT_S = 8, 18, 28, 3, 38
SECOND_NS = 1_000_000_000
HOUR_NS = 3600 * SECOND_NS
SPAN_S, PROGRAMS, TURNS = 10, 3, 5
QUESTION_S = 60
SPANS = int(os.environ.get("HEALTHY") or "30")
WAYS = ("live", "--at", "--since --until", "--url")
CPUS = os.cpu_count()
GROUP = f"why-{os.getpid()}"
LIMIT_PERCENT = 20
ON_FIRST_CPU = ("taskset", "-c", "0")
# A loopback interface of its own, whose packets the first CPU receives (RPS), and a sender on the last one: so the interrupts, and nothing
# else of it, are in the way of what runs on the first.
RECEIVED_BY_FIRST_CPU = (
    "unshare", "--net", "--mount", "sh", "-c",
    'mount -t sysfs sysfs /sys && ip link set lo up && echo 1 >/sys/class/net/lo/queues/rx-0/rps_cpus && exec "$@"', "sh",
    "taskset", "-c", str(CPUS - 1),
)


@dataclasses.dataclass(frozen=True)
class Load:
    """Processes of one program: its name, its work in why_loads.py, and the commands that start it."""

    program: str
    work: str
    before: tuple = ()
    count: int = 1
    is_limited: bool = False
    is_on_disk: bool = False


@dataclasses.dataclass(frozen=True)
class Case:
    """A hidden cause. Right is the cause `cause`, with `culprit` among its culprits or `words` in its sentence, if these are given."""

    letter: str
    what: str
    cause: str
    loads: tuple
    culprit: str = ""
    words: str = ""


# `shop` is slow in each of them. All are in one session: between sessions the kernel shares first, whatever the nice values are (autogroup).
CASES = (
    Case("A", "waits for db, which needs 20 ms of CPU time for each request", "peer", (Load("db", "answer"), Load("shop", "ask")), culprit="db"),
    Case("B", f"beside {3 * CPUS} indexer of the same priority", "saturated",
         (Load("indexer", "spin", count=3 * CPUS), Load("shop", "spin")), culprit="indexer"),
    Case("C", "starts short processes, one after the other", "starts", (Load("shop", "start"),)),
    Case("D", "on the CPU of audiod, real-time 50, 35 ms on and 15 ms off", "priority",
         (Load("audiod", "beat", (*ON_FIRST_CPU, "chrt", "--fifo", "50")), Load("shop", "spin", ON_FIRST_CPU)), culprit="audiod"),
    Case("E", f"nice 19 beside {CPUS} indexer of nice 0", "priority",
         (Load("indexer", "spin", count=CPUS), Load("shop", "spin", ("nice", "-n", "19"))), culprit="indexer", words="nice 19"),
    Case("F", "on CPU 0 only, with three indexer", "affinity",
         (Load("indexer", "spin", ON_FIRST_CPU, count=3), Load("shop", "spin", ON_FIRST_CPU)), culprit="indexer"),
    Case("G", "its own code: one thread", "one-thread", (Load("shop", "spin"),)),
    Case("H", "eight workers want a lock with which flusher sleeps 20 ms", "lock", (Load("shop", "hold"),), culprit="flusher"),
    Case("I", "on the CPU that receives the datagrams of two probe", "interrupts",
         (Load("probe", "flood", RECEIVED_BY_FIRST_CPU, count=2), Load("shop", "serve", ON_FIRST_CPU)), culprit="probe"),
    Case("J", f"a CPU limit of {LIMIT_PERCENT} %", "quota", (Load("shop", "spin", is_limited=True),), words=GROUP),
    Case("K", "writes 4 KiB and syncs, again and again", "disk", (Load("shop", "write", is_on_disk=True),)),
    Case("L", "nothing: sleeps 20 ms by its timer, works 2 ms", "", (Load("shop", "rest"),)),
)
# Their waits are ended by threads, not by interrupts, which a trace may have as whatever they interrupt.
BY_THREADS = "ABEH"
PARTS = (*(case.letter for case in CASES), "culprits", "healthy", "speed")


class NotRun(Exception):
    """A load that cannot run on this machine."""


@contextlib.contextmanager
def serving(folder):
    """A receiver that records its own machine with its usual settings: its store and its address."""
    store = folder / "store.sqlite"
    command = [m.CPUMON, "serve", "--http", "127.0.0.1:0", "--udp", "127.0.0.1:0", "--store", store]
    with m.running(command, stdout=subprocess.PIPE, text=True) as process:
        address = next((found.group(1) for line in process.stdout if (found := re.search(r"^ready .*http=(\S+)", line))), None)
        if address is None:
            raise SystemExit("why: the receiver did not start")
        yield store, f"http://{address}"


def limits_of_cpus():
    """Where control groups with a CPU limit are made, and whether that is cgroup v2; as testing/cgroup.rs."""
    v1 = None
    for line in open("/proc/self/mountinfo"):
        mount, _, source = line.partition(" - ")
        folder, words = pathlib.Path(mount.split()[4]), source.split()
        if words[0] == "cgroup2" and "cpu" in (folder / "cgroup.subtree_control").read_text().split():
            return folder, True
        if words[0] == "cgroup" and "cpu" in words[-1].split(","):
            v1 = v1 or folder
    if v1 is None:
        raise NotRun("no hierarchy with CPU limits is mounted")
    return v1, False


@contextlib.contextmanager
def limited_group():
    """A control group with a CPU limit; its file of processes."""
    root, is_v2 = limits_of_cpus()
    folder, period_us = root / GROUP, 100_000
    quota_us = period_us * LIMIT_PERCENT // 100
    folder.mkdir()
    try:
        if is_v2:
            (folder / "cpu.max").write_text(f"{quota_us} {period_us}")
        else:
            (folder / "cpu.cfs_period_us").write_text(str(period_us))
            (folder / "cpu.cfs_quota_us").write_text(str(quota_us))
        yield folder / "cgroup.procs"
    finally:
        # A process that was ended leaves its group a little later.
        for _ in range(100):
            with contextlib.suppress(OSError):
                folder.rmdir()
                break
            time.sleep(0.02)


@contextlib.contextmanager
def disk():
    """A folder on a disk; /tmp may be in memory."""
    target = m.ROOT / "target"
    target.mkdir(exist_ok=True)
    kind = subprocess.run(["stat", "-f", "-c", "%T", target], check=True, capture_output=True, text=True).stdout.strip()
    if kind in ("tmpfs", "ramfs"):
        raise NotRun(f"{target} is no disk but {kind}")
    with tempfile.TemporaryDirectory(prefix="why-", dir=target) as name:
        yield pathlib.Path(name)


@contextlib.contextmanager
def loaded(case, folder):
    """The processes of a case while the block runs."""
    log = folder / "loads.log"
    with contextlib.ExitStack() as stack:
        errors = stack.enter_context(open(log, "w"))
        processes = []
        for load in case.loads:
            program, place, before = folder / load.program, folder, load.before
            program.symlink_to(LOADS)
            if load.is_on_disk:
                place = stack.enter_context(disk())
            if load.is_limited:
                before = ("sh", "-c", 'echo $$ >"$0" && exec "$@"', stack.enter_context(limited_group()), *before)
            command = [*before, sys.executable, program, load.work, LIMIT_S, place]
            processes += [stack.enter_context(m.running(command, stderr=errors)) for _ in range(load.count)]
        yield
        if any(process.poll() is not None for process in processes):
            raise NotRun(f"a load ended: {' '.join(log.read_text().splitlines()[-1:]) or 'without a message'}")


def ask(*arguments):
    """The answer of `cpumon why`, or what it reported in place of one."""
    command = [str(part) for part in (m.CPUMON, "why", "--json", *arguments)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=QUESTION_S)
        return json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        return {"error": f"no answer within {QUESTION_S} s"}
    except ValueError:
        return {"error": done.stderr.strip() or f"exit code {done.returncode}"}


def answers(case, folder):
    """Runs a case; the answer of each way."""
    with serving(folder) as (store, url):
        time.sleep(BEFORE_S)
        with loaded(case, folder):
            begin_ns, begin = time.time_ns(), time.monotonic()
            time.sleep(LIVE_S)
            live, by_url = ask("shop", "--store", store), ask("shop", "--url", url)
            time.sleep(max(0, begin + LOAD_S - time.monotonic()))
            end_ns = time.time_ns()
        time.sleep(AFTER_S)
    middle_ns = (begin_ns + end_ns) // 2
    at = ask("shop", "--store", store, "--at", middle_ns)
    after = ask("shop", "--store", store, "--since", begin_ns, "--until", end_ns)
    return dict(zip(WAYS, (live, at, after, by_url)))


def is_right(case, cause):
    """Whether a cause of an answer is that of the case."""
    names = [culprit["name"] for culprit in cause["culprits"]]
    is_named = case.culprit in names or case.words != "" and case.words in cause["sentence"]
    return cause["cause"] == case.cause and (is_named or not case.culprit and not case.words)


def judge(case, answer):
    """`right`; `second`: the cause and who did it, but behind another cause; or `wrong`."""
    if "error" in answer:
        return "wrong"
    each = [is_right(case, cause) for cause in answer["causes"]]
    if not case.cause:
        return "wrong" if each else "right"
    return "right" if each[:1] == [True] else "second" if True in each else "wrong"


def first_kind(answer):
    kinds = [cause["cause"] for cause in answer.get("causes", [])]
    return "error" if "error" in answer else kinds[0] if kinds else "none"


def first_sentence(answer):
    """As a cell of a table has it."""
    if "error" in answer:
        text = answer["error"].splitlines()[0]
    else:
        text = answer["causes"][0]["sentence"] if answer["causes"] else answer["summary"][0]
    return text.replace("|", "\\|")


def keep(folder, name, what):
    """An answer that was not right, to find out why."""
    if folder is not None:
        (folder / f"{name}.json").write_text(json.dumps(what, indent=1) + "\n")


def hidden(cases, kept):
    """Lines of the table of hidden causes, and of what was not right in it."""
    rows, wrong, count, asked = [], [], collections.Counter(), 0
    for case in cases:
        print(f"bench: why: {case.letter}", file=sys.stderr, flush=True)
        with m.folder() as folder:
            try:
                given = answers(case, folder)
            except NotRun as reason:
                rows.append(f"| {case.letter} | {case.what} | {case.cause or 'none'} | {' | '.join(['not run'] * len(WAYS))} | {reason} |")
                continue
            verdicts = {way: judge(case, answer) for way, answer in given.items()}
            for way, verdict in verdicts.items():
                asked += 1
                count[way, verdict] += 1
                if verdict != "right":
                    wrong.append(f"- {case.letter}, {way}, {verdict}: {first_kind(given[way])}: {first_sentence(given[way])}")
                    keep(kept, f"{case.letter}-{way.replace('-', '').replace(' ', '-')}",
                         {"case": dataclasses.asdict(case), "way": way, "verdict": verdict, "answer": given[way]})
            if kept is not None and set(verdicts.values()) != {"right"}:
                shutil.copy(folder / "store.sqlite", kept / f"{case.letter}.sqlite")
        rows.append(f"| {case.letter} | {case.what} | {case.cause or 'none'} | {' | '.join(verdicts.values())} | {first_sentence(given['live'])} |")
        print(rows[-1], file=sys.stderr, flush=True)
    total = {verdict: sum(count[way, verdict] for way in WAYS) for verdict in ("right", "second")}
    by_way = ", ".join(f"{way} {count[way, 'right']}" for way in WAYS)
    return [
        "### Hidden causes", "",
        f"Each for {LOAD_S} s, after {BEFORE_S} s without it, in a store of its own; `cpumon why shop` after {LIVE_S} s, by the store (live) and by `--url`, and about that "
        "time when it was over. Right: the first cause is the expected one and names who did it. Second: it is named, behind another one.", "",
        f"| | shop | expected | {' | '.join(WAYS)} | first sentence, live |", "|---|---|---|" + "---|" * len(WAYS) + "---|", *rows, "",
        f"Right: {total['right']} of {asked} answers ({by_way}); second: {total['second']}.", "", *wrong, *([""] if wrong else []),
    ]


def busiest(store, since_ns, until_ns):
    """The programs with the most CPU time, without the kernel's threads."""
    rows = sql(store, f"SELECT name, sum(run_ns) AS run_ns FROM process_interval WHERE end_ns > {since_ns} AND end_ns <= {until_ns} "
                      f"AND coalesce(is_kernel, 0) = 0 GROUP BY name ORDER BY 2 DESC LIMIT {PROGRAMS}")
    return [row["name"] for row in rows]


def healthy(folder, spans, kept):
    """Whatever runs on this machine: a table of how often each cause was named. The sentences are printed, for people to judge."""
    print(f"bench: why: {spans} healthy spans", file=sys.stderr, flush=True)
    with serving(folder) as (store, _):
        time.sleep(BEFORE_S)
        begin_ns = time.time_ns()
        time.sleep(spans * SPAN_S + AFTER_S)
    count, asked, sentences = collections.Counter(), collections.Counter(), []
    for number in range(spans):
        since_ns = begin_ns + number * SPAN_S * SECOND_NS
        until_ns = since_ns + SPAN_S * SECOND_NS
        for name in ("", *busiest(store, since_ns, until_ns)):
            who = "programs" if name else "machine"
            answer = ask("--store", store, "--since", since_ns, "--until", until_ns, *(["--", name] if name else []))
            asked[who] += 1
            kinds = [cause["cause"] for cause in answer.get("causes", [])] or [first_kind(answer)]
            count.update((kind, who) for kind in kinds)
            sentences += [f"{number} {name or 'the machine'}: {cause['cause']}, {cause['share']:.0%}: {cause['sentence']}" for cause in answer.get("causes", [])]
            if kinds != ["none"]:
                keep(kept, f"healthy-{number}-{name.replace('/', '_') or 'machine'}", answer)
            if "error" in answer:
                sentences.append(f"{number} {name or 'the machine'}: {first_sentence(answer)}")
    print("\n".join(["Causes named in healthy spans:", *sentences, ""]), flush=True)
    return [
        "### Healthy spans", "",
        f"{spans} spans of {SPAN_S} s of whatever ran on the machine: {asked['machine']} answers for the machine, {asked['programs']} for the {PROGRAMS} programs with the most CPU "
        "time in each. Which causes are true, people judge.", "",
        "| cause named | machine | programs |", "|---|---:|---:|",
        *(f"| {kind} | {count[kind, 'machine']} | {count[kind, 'programs']} |" for kind in sorted({kind for kind, _ in count})), "",
    ]


def speed(store):
    """How long an answer over the last hour of a store takes, from the start of the program to its end."""
    host = sql(store, "SELECT host_id FROM hosts LIMIT 1")[0]["host_id"]
    until_ns = sql(store, f"SELECT max(end_ns) AS ns FROM host_interval WHERE host = '{host}'")[0]["ns"]
    since_ns = until_ns - HOUR_NS
    within = f"WHERE host = '{host}' AND end_ns > {since_ns}"
    stored = sql(store, f"SELECT count(*) AS intervals, sum(duration_ns) AS ns FROM host_interval {within}")[0]
    rows = sql(store, f"SELECT count(*) AS rows FROM thread_interval {within}")[0]["rows"]
    out = ["### Speed", "",
           f"`cpumon why` over the last hour of a store, which has {stored['ns'] / 60 / SECOND_NS:.0f} minutes of it in {stored['intervals']:,} intervals and {rows:,} rows of threads. "
           f"The program's own start is in it; {TURNS} times each.", "",
           "| of | median, ms | least and most |", "|---|---:|---:|"]
    for name in ("", *busiest(store, since_ns, until_ns)[:1]):
        times = []
        for _ in range(TURNS):
            begin = time.monotonic()
            answer = ask("--store", store, "--host", host, "--since", since_ns, "--until", until_ns, *(["--", name] if name else []))
            times.append((time.monotonic() - begin) * 1e3)
            if "error" in answer:
                raise SystemExit(f"why: {name or 'the machine'}: {answer['error']}")
        out.append(f"| {'a program' if name else 'the machine'} | {statistics.median(times):.0f} | {min(times):.0f} to {max(times):.0f} |")
    return [*out, ""]


def chapter(parts, kept):
    out = ["## Why is it slow?", "",
           f"`make bench-why`: `cpumon why` and causes that are known. A receiver records its own machine with its usual settings; {CPUS} CPUs.", ""]
    cases = [case for case in CASES if case.letter in parts]
    if cases:
        out += hidden(cases, kept)
    if "culprits" in parts:
        out += culprits.section([case for case in CASES if case.letter in BY_THREADS], serving, loaded)
    with m.folder() as folder:
        if "healthy" in parts:
            out += healthy(folder, SPANS, kept)
        if "speed" in parts:
            out += speed(os.environ.get("STORE") or folder / "store.sqlite")
    return "\n".join(out)


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--write", action="store_true", help="write the section, if all parts were run")
    arguments.add_argument("--keep", type=pathlib.Path, metavar="DIR", help="keep answers that were not right there, with the stores")
    given = arguments.parse_args()
    parts = os.environ.get("ONLY", "").split() or list(PARTS)
    unknown = [part for part in parts if part not in PARTS]
    if unknown:
        raise SystemExit(f"why: no part {', '.join(unknown)}; there are {', '.join(PARTS)}")
    if "speed" in parts and "healthy" not in parts and not os.environ.get("STORE"):
        raise SystemExit("why: speed needs STORE=FILE, or the part healthy, whose store it reads")
    if os.geteuid() != 0:
        raise SystemExit("why: needs root")
    m.CPUMON = pathlib.Path(os.environ.get("CPUMON") or m.CPUMON).resolve()
    if not m.CPUMON.exists():
        raise SystemExit(f"why: {m.CPUMON} is missing; run `make bench-why`, or set CPUMON=FILE")
    print(f"bench: why: {m.CPUMON}, of {time.ctime(m.CPUMON.stat().st_mtime)}", file=sys.stderr, flush=True)
    if given.keep is not None:
        given.keep.mkdir(parents=True, exist_ok=True)
    text = chapter(parts, given.keep)
    print(text)
    if given.write and set(parts) == set(PARTS):
        report.put(text)


if __name__ == "__main__":
    main()
