"""Chapter: what is kept. Bytes per row on data recorded from this machine, and the store's and exports' own benches."""

import re
import subprocess
import time

import measure as m

SECONDS = 90


def recorded():
    """This machine under a mixed load, recorded by its own receiver."""
    with m.folder() as folder:
        store = folder / "store.db"
        with m.running([m.CPUMON, "serve", "--udp", "127.0.0.1:0", "--http", "127.0.0.1:0", "--store", store, "--interval", "250ms"]):
            with m.load(2_000, 200, SECONDS + 60):
                m.json_line([m.XTASK, "storm", "--rate", "10", "--seconds", SECONDS])
        sizes = ["cargo", "run", "--quiet", "--release", "--locked", "--package", "cpumon-store", "--example", "store_size", "--", store]
        return m.json_line(sizes, cwd=m.ROOT)


def bench(package, name, *arguments):
    """The text of a criterion-less bench."""
    command = ["cargo", "bench", "--quiet", "--locked", "--package", package, "--bench", name, "--", *arguments]
    done = subprocess.run(command, cwd=m.ROOT, capture_output=True, text=True, timeout=1200)
    lines = [line for line in done.stdout.splitlines() if line.strip() and not re.match(r"(running|test result|Found \d+ outliers|  \d+ \(\d)", line)]
    if done.returncode != 0 or not lines:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}\n{done.stderr}")
    return "\n".join(lines)


def chapter():
    sizes = recorded()
    rows = sizes["thread_rows"]
    out = ["## What is kept", "",
           f"Recorded from this machine for {SECONDS} s at 250 ms: 2,000 idle and 200 active threads and 10 short processes a second; everything in the file "
           "counted, names and sums included. A name costs about 40 bytes once, so the first minute of a recording is the dearest.", "",
           "| | bytes | bytes per active-thread row |", "|---|---:|---:|",
           f"| fresh, {sizes['intervals']} intervals, {rows:,} rows | {sizes['fresh_bytes']:,} | {sizes['fresh_bytes'] / rows:.1f} |",
           f"| sealed | {sizes['sealed_bytes']:,} | {sizes['sealed_bytes'] / rows:.1f} |", "",
           "A made-up day of one host (`cargo bench -p cpumon-store --bench store`):", "", "```", bench("cpumon-store", "store"), "```", "",
           "Exports of such a day (`cargo bench -p cpumon-export --bench day`):", "", "```", bench("cpumon-export", "day"), "```"]
    return "\n".join(out) + "\n"


if __name__ == "__main__":
    print(chapter())
