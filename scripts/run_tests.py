#!/usr/bin/env python3
"""Runs compiled Rust tests, several programs side by side, since most tests wait rather than compute.

In: target/tests.json, which scripts/build-tests.sh writes. Out: how long each program took, the output of one that failed, the ten slowest
tests, what failed and how to run it again; exit status 1 if anything failed. What tests say of having been skipped (testing/skip.rs) is
printed too.

`--only PACKAGE/TARGET ARGUMENTS` becomes that one program. `--runs N` repeats everything, `--load N` adds so many busy processes in every
second run, `--browser` adds the browser tests, and `--log FILE` gets a line for each failure (make flaky).
"""

import argparse
import concurrent.futures
import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

TEST = re.compile(r"^test (?P<name>\S+)(?: - should panic)? \.\.\. (?P<result>ok|FAILED|ignored.*?)(?: <(?P<seconds>[0-9.]+)s>)?$", re.M)
# What a program prints beside its tests may cut a test's line in two; this one is whole.
PASSED = re.compile(r"^test result: .*?(\d+) passed;", re.M)
SEED = re.compile(r"^.*\b(?:seed|SEED)\b.*$", re.M)
# Up to the advice on backtraces.
PANIC = re.compile(r"panicked at .*:\n(?P<words>.*(?:\n(?!note: |\n).*){0,3})")
# Tests of a program that run at once: more than CPUs, as most of them wait.
THREADS = 4
# A busy process. It ends by itself, should this script be killed.
LOAD = ["timeout", "3600", "sh", "-c", "while :; do :; done"]
# Longest first, so that none of them runs alone at the end.
LONGEST = ["page/browser", "cpumon/it", "cpumon-collect/it", "cpumon-store/it", "cpumon-web/cpumon_web", "cpumon-agent/it"]


def scratch():
    """Where tests keep their files: in memory, because most wait for commits, and a disk that others use makes them wait for seconds."""
    memory = "/dev/shm"
    has_space = os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 2 << 30
    return os.environ.get("TMPDIR") or (memory if has_space else tempfile.gettempdir())


# Test programs that run now.
RUNNING = set()


def finish(command, seconds, **options):
    """Runs a command for `seconds` at most: its exit status, output and time."""
    begin = time.monotonic()
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               start_new_session=True, **options)
    RUNNING.add(process)
    try:
        output, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        output += f"\nended after {seconds} s\n".encode()
    finally:
        RUNNING.discard(process)
    return process.returncode, output.decode(errors="replace"), time.monotonic() - begin


class Program:
    """A test program of a package."""

    def __init__(self, message):
        self.path = message["executable"]
        self.directory = os.path.dirname(message["manifest_path"])
        self.package = os.path.basename(self.directory)
        self.target = message["target"]["name"]
        self.kind = message["target"]["kind"][0]
        self.name = f"{self.package}/{self.target}"

    def again(self, test):
        """The command that runs one test again."""
        target = {"test": f"--test {self.target}", "bin": f"--bin {self.target}"}.get(self.kind, "--lib")
        return f"cargo test --locked --package {self.package} {target} -- --exact {test}"

    def environment(self):
        """As cargo sets it. Snapshots of texts are found without cargo."""
        return dict(os.environ, CARGO_MANIFEST_DIR=self.directory, INSTA_WORKSPACE_ROOT=os.getcwd())

    def run(self, seconds):
        # The time of each test is printed by an option that only this variable allows.
        environment = dict(self.environment(), RUSTC_BOOTSTRAP="1", TMPDIR=scratch())
        command = [self.path, "-Zunstable-options", "--report-time", "--test-threads", str(THREADS)]
        return finish(command, seconds, cwd=self.directory, env=environment)

    def tests(self, output):
        """Name, result and seconds of each test."""
        for found in TEST.finditer(output):
            yield found["name"], found["result"], float(found["seconds"]) if found["seconds"] else None

    def excerpt(self, output, test):
        """What a failed test panicked with, or printed last, and lines that name a seed."""
        begin = output.find(f"---- {test} stdout ----")
        own = output[begin:].split("\n---- ", 2)[0] if begin >= 0 else output[-2000:]
        panic = PANIC.search(own)
        words = panic["words"].split() if panic else next((line for line in reversed(own.splitlines()) if line), "").split()
        return " ".join([" ".join(words)[:300], *(seed.strip()[:200] for seed in SEED.findall(own)[:2])])


class Browser:
    """The browser tests, as one more program."""

    name = "page/browser"
    # `  ✓  12 away.spec.ts:33:1 › title (5.2s)`, as Playwright lists it without a terminal.
    results = re.compile(r"^\s*(?P<mark>[✓✘x-])\s+\d+ (?P<name>.*?)(?: \((?P<time>[0-9.]+)(?P<unit>ms|s|m)\))?$", re.M)
    units = {"ms": 1e-3, "s": 1, "m": 60}

    def again(self, test):
        return f"scripts/test-page.sh browser {shlex.quote(test.split(' › ')[0])}"

    def run(self, seconds):
        # All of them are one program, beside the others in a round with load.
        return finish(["scripts/test-page.sh", "browser"], 2 * seconds)

    def tests(self, output):
        words = {"✓": "ok", "-": "ignored"}
        for found in self.results.finditer(output):
            took = float(found["time"]) * self.units[found["unit"]] if found["time"] else None
            yield found["name"].removeprefix("tests/"), words.get(found["mark"], "FAILED"), took

    def excerpt(self, output, test):
        begin = output.find(f") {'tests/' if 'tests/' + test in output else ''}{test}")
        lines = output[begin:].splitlines()[1:] if begin >= 0 else output.splitlines()[-3:]
        return " ".join(line.strip() for line in lines if line.strip())[:300]


def programs():
    """Each test program that cargo reported."""
    with open("target/tests.json", encoding="utf-8") as messages:
        for line in messages:
            message = json.loads(line)
            if message.get("reason") == "compiler-artifact" and message.get("executable") and message["profile"]["test"]:
                yield Program(message)


def rank(program):
    return LONGEST.index(program.name) if program.name in LONGEST else len(LONGEST)


@contextlib.contextmanager
def ended_with(pool):
    """Ends the running programs, and starts no other, when the script is ended from outside."""
    try:
        yield
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in list(RUNNING):
            os.killpg(process.pid, signal.SIGTERM)
        raise


def run_all(chosen, arguments, is_quiet):
    """Runs every program once: what failed, and how long each test took."""
    failed, times, passed = [], [], 0
    jobs = arguments.jobs + sum(isinstance(program, Browser) for program in chosen)
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool, ended_with(pool):
        running = {pool.submit(program.run, arguments.timeout): program for program in sorted(chosen, key=rank)}
        for done in concurrent.futures.as_completed(running):
            program, (status, output, seconds) = running[done], done.result()
            results = list(program.tests(output))
            bad = [name for name, result, _ in results if result == "FAILED"]
            counted = PASSED.search(output)
            passed += int(counted[1]) if counted else sum(result == "ok" for _, result, _ in results)
            times += [(took, program.name, name) for name, _, took in results if took]
            if status != 0 and not bad:
                bad = [f"{program.name} (exit status {status})"]
            failed += [(program, test, output) for test in bad]
            if bad or not is_quiet:
                print(f"── {program.name}: {len(results)} tests, {seconds:.0f} s")
            if bad:
                print(output)
            for line in re.findall(r"^(?:skipped|again): .*$", output, re.M):
                print(line, file=sys.stderr)
            sys.stdout.flush()
    return failed, times, passed


def become(chosen, name, *arguments):
    program = next((program for program in chosen if program.name == name), None)
    if program is None:
        sys.exit(f"run_tests: no program {name}: one of {', '.join(program.name for program in chosen)}")
    environment = program.environment()
    os.chdir(program.directory)
    os.execve(program.path, [program.path, *arguments], environment)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--load", type=int, default=0)
    parser.add_argument("--browser", action="store_true")
    parser.add_argument("--jobs", type=int, default=2, help="programs at once")
    parser.add_argument("--timeout", type=int, default=900, help="seconds for each program")
    parser.add_argument("--log", help="a file that gets a line for each failure")
    parser.add_argument("--only", nargs=argparse.REMAINDER, help="a program and its arguments")
    arguments = parser.parse_args()
    chosen = list(programs())
    if arguments.only:
        become(chosen, *arguments.only)
    if not chosen:
        sys.exit("run_tests: cargo reported no test program")
    ever = {}
    # As after Ctrl-C.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    for run in range(1, arguments.runs + 1):
        begin = time.monotonic()
        load = [subprocess.Popen(LOAD) for _ in range(arguments.load if run % 2 == 0 else 0)]
        try:
            browser = [Browser()] if arguments.browser else []
            # Beside a load all at once, which is more of it, and sooner over: the load gets a smaller part of the CPUs.
            parts = [chosen + browser] if load else [chosen, browser]
            failed, times, passed = [], [], 0
            for part in parts:
                more = run_all(part, arguments, arguments.runs > 1)
                failed, times, passed = failed + more[0], times + more[1], passed + more[2]
        finally:
            for process in load:
                process.terminate()
                process.wait()
        at = time.strftime("%Y-%m-%dT%H:%M:%S")
        for program, test, output in failed:
            line = f"{at} run {run} load {len(load)} {program.name} {test}: {program.excerpt(output, test)}"
            ever.setdefault(f"{program.name} {test}", []).append(line)
            if arguments.log:
                with open(arguments.log, "a", encoding="utf-8") as log:
                    print(line, file=log)
        if arguments.runs > 1:
            print(f"run {run} of {arguments.runs}, load {len(load)}: {passed} passed, {len(failed)} failed, {time.monotonic() - begin:.0f} s", flush=True)
    if arguments.runs == 1:
        print("slowest tests:")
        for seconds, program, test in sorted(times, reverse=True)[:10]:
            print(f"  {seconds:6.1f} s  {program} {test}")
        print(f"{passed} passed, {len(failed)} failed")
        for program, test, output in failed:
            print(f"failed: {program.name} {test}: {program.excerpt(output, test)}\n  again: {program.again(test)}")
    elif ever:
        print("tests that ever failed:")
        for lines in ever.values():
            print("\n".join(f"  {line}" for line in lines))
    sys.exit(1 if ever else 0)


if __name__ == "__main__":
    main()
