"""What a change costs: an older revision beside this one, in pairs. `make bench-against REV=HEAD~20` builds REV below target/against and
prints ratios new to old; nothing is written, because REV is anything. ROUNDS=n pairs a figure, medians are printed."""

import os
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import time

import cost
import fleet
import measure as m

ROUNDS = int(os.environ.get("ROUNDS", "9"))
SECONDS = 8
OTHER = m.ROOT / "target/against"
QUESTIONS = (
    ("report", ["report", "--all-hosts", "--since", "1h"]),
    ("report --by thread", ["report", "--all-hosts", "--since", "1h", "--by", "thread"]),
    ("find", ["find", "program-1", "--host", "sim-00001"]),
    ("export threads", ["export", "threads", "--host", "sim-00001", "--since", "1h", "--format", "csv"]),
    ("export pivot", ["export", "pivot", "--host", "sim-00001", "--since", "1h", "--format", "csv"]),
)


def use(root):
    """What the chapters measure from here on."""
    m.CPUMON, m.AGENT = root / "target/release/cpumon", root / "target/slim/cpumon-agent"


def build(revision):
    """REV in a work tree of its own, with the page as it is here: no figure below is the page's."""
    # Here, because HEAD~1 is another commit in that work tree.
    parse = ["git", "rev-parse", "--verify", f"{revision}^{{commit}}"]
    revision = subprocess.run(parse, cwd=m.ROOT, check=True, capture_output=True, text=True).stdout.strip()
    if not OTHER.exists():
        subprocess.run(["git", "worktree", "add", "--force", "--detach", OTHER, revision], cwd=m.ROOT, check=True)
    subprocess.run(["git", "checkout", "--quiet", "--detach", revision], cwd=OTHER, check=True)
    if not (OTHER / "web/dist/index.html").exists():
        shutil.copytree(m.ROOT / "web/dist", OTHER / "web/dist", dirs_exist_ok=True)
    for arguments in (["--release", "--package", "cpumon"], ["--profile", "slim", "--package", "cpumon-agent"]):
        subprocess.run(["cargo", "build", "--quiet", "--locked", *arguments], cwd=OTHER, check=True)


def switches(pid):
    """How often the process's threads left their CPU."""
    fields = [line.split() for task in os.listdir(f"/proc/{pid}/task") for line in open(f"/proc/{pid}/task/{task}/status")]
    return sum(int(field[1]) for field in fields if field and field[0].endswith("ctxt_switches:"))


def agent(root, threads, watching):
    """One agent beside the load that runs."""
    use(root)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sink:
        sink.bind(("127.0.0.1", 0))
        command = [m.AGENT, "--to", f"127.0.0.1:{sink.getsockname()[1]}", "--interval", "1s", *watching]
        with m.running(command) as process:
            time.sleep(3)
            before, begin, left = m.cpu_ns(process.pid), time.monotonic(), switches(process.pid)
            time.sleep(SECONDS)
            length = time.monotonic() - begin
            yield "ns a thread and pass", (m.cpu_ns(process.pid) - before) / length / threads
            yield "switches a second", (switches(process.pid) - left) / length
            yield "resident, KiB", m.rss_kib(process.pid)[0]


def slowdown(root):
    """`perf bench sched pipe` while everything is watched."""
    use(root)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sink:
        sink.bind(("127.0.0.1", 0))
        with cost.watched([m.AGENT, "--to", f"127.0.0.1:{sink.getsockname()[1]}", "--interval", "1s", *m.EVERYTHING]):
            yield "sched pipe, s", float(subprocess.run(cost.PIPE, check=True, capture_output=True, text=True).stdout)


def receiver(root):
    use(root)
    run = fleet.serve_and_simulate(1_000, 200, 1_000, 10)
    yield "rows a second and core", run["rate"] / run["core"]
    yield "resident at its highest, MiB", run["rss"]
    yield "lost rows", run["lost"]


def recorded(folder):
    """2.4 million rows of 20 hosts that REV received, then a copy for each side that its own receiver has opened."""
    use(OTHER)
    store = folder / "first.db"
    with m.running([m.CPUMON, "serve", "--udp", f"127.0.0.1:{fleet.PORT}", "--http", "127.0.0.1:0", "--store", store, "--no-agent"]):
        time.sleep(2)
        m.json_line([m.XTASK, "simulate", "--hosts", 20, "--threads", 200, "--interval-ms", 100, "--seconds", 60, "--to", f"127.0.0.1:{fleet.PORT}"])
        time.sleep(3)
    stores = {}
    for name, root in (("old", OTHER), ("new", m.ROOT)):
        use(root)
        stores[root] = shutil.copy(store, folder / f"{name}.db")
        with m.running([m.CPUMON, "serve", "--udp", "127.0.0.1:0", "--http", "127.0.0.1:0", "--store", stores[root], "--no-agent"]):
            time.sleep(5)
    return stores


def question(root, stores, arguments):
    use(root)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([m.CPUMON, *arguments, "--store", stores[root]], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise SystemExit(f"against: {root} {' '.join(arguments)}: {done.stderr}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    yield "CPU, ms", (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1e3


def pairs(name, measure):
    """Old and new in turn, so that a drift of the machine falls on both alike: a line for each figure."""
    figures = {}
    for _ in range(ROUNDS):
        for root in (OTHER, m.ROOT):
            for figure, value in measure(root):
                figures.setdefault(figure, {}).setdefault(root, []).append(value)
    for figure, sides in figures.items():
        old, new = sides[OTHER], sides[m.ROOT]
        ratios = sorted(after / before for before, after in zip(old, new) if before)
        ratio = f"{statistics.median(ratios):.3f} | {ratios[0]:.2f} to {ratios[-1]:.2f}" if ratios else "– | –"
        print(f"| {name}: {figure} | {statistics.median(old):,.1f} | {statistics.median(new):,.1f} | {ratio} |", flush=True)


def main(revision):
    build(revision)
    print(f"| {ROUNDS} pairs | {revision} | here | new to old | least and most |\n|---|---:|---:|---:|---:|", flush=True)
    with m.folder() as folder:
        stores = recorded(folder)
        for name, arguments in QUESTIONS:
            pairs(name, lambda root, arguments=arguments: question(root, stores, arguments))
    pairs("receiver of 1,000 hosts", receiver)
    with m.load(10_000, 200, 3_600):
        threads = m.thread_count()
        for name, watching in (("BPF, everything on", m.EVERYTHING), ("procfs", ["--source", "procfs"])):
            pairs(f"agent, {threads:,} threads, {name}", lambda root, watching=watching: agent(root, threads, watching))
    if m.have("perf"):
        pairs("watched by the agent", slowdown)


if __name__ == "__main__":
    main(sys.argv[1])
