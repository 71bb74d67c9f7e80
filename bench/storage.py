"""Chapter: what is kept. Bytes per row on data recorded from this machine, and the store's and exports' own benches."""

import os
import re
import subprocess

import measure as m

MINUTES = int(os.environ.get("MINUTES", "10"))


def recorded():
    """This machine under a mixed load, recorded by its own receiver at the default interval: sizes of its first minutes."""
    with m.folder() as folder:
        store = folder / "store.db"
        with m.running([m.CPUMON, "serve", "--udp", "127.0.0.1:0", "--http", "127.0.0.1:0", "--store", store]):
            with m.load(2_000, 200, MINUTES * 60 + 60):
                # One storm lasts ten minutes at most.
                for _ in range(MINUTES):
                    m.json_line([m.XTASK, "storm", "--rate", "10", "--seconds", 61])
        sizes = ["cargo", "run", "--quiet", "--release", "--locked", "--package", "cpumon-store", "--example", "store_size", "--", store]
        return {minutes: m.json_line([*sizes, minutes], cwd=m.ROOT) for minutes in sorted({1, min(5, MINUTES), MINUTES})}


def row(minutes, size):
    """A line of the table."""
    rows = size["thread_rows"]
    return (f"| {minutes} min | {rows:,} | {size['threads']:,} | {size['fresh_bytes']:,} | {size['fresh_bytes'] / rows:.1f} | "
            f"{size['compacted_bytes']:,} | {size['compacted_bytes'] / rows:.1f} |")


def bench(package, name, *arguments):
    """The text of a criterion-less bench."""
    command = ["cargo", "bench", "--quiet", "--locked", "--package", package, "--bench", name, "--", *arguments]
    done = subprocess.run(command, cwd=m.ROOT, capture_output=True, text=True, timeout=1800)
    lines = [line for line in done.stdout.splitlines() if line.strip() and not re.match(r"(running|test result|Found \d+ outliers|  \d+ \(\d)", line)]
    if done.returncode != 0 or not lines:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}\n{done.stderr}")
    return "\n".join(lines)


def chapter():
    out = ["## What is stored", "",
           f"Recorded from this machine for {MINUTES} minutes at the default interval of 1 s: 2,000 idle and 200 active threads, 10 short processes a "
           "second, and whatever else ran; everything in the file counted, names, sums and the 262 KB of an empty store included. Aims: 26 bytes per "
           "active-thread row fresh, 16 compacted.", "",
           "| the first | thread rows | threads named | fresh, bytes | per row | compacted, bytes | per row |", "|---|---:|---:|---:|---:|---:|---:|",
           *(row(minutes, size) for minutes, size in recorded().items()), "",
           "A made-up day of one host (`cargo bench -p cpumon-store --bench store`):", "", "```", bench("cpumon-store", "store", "--hosts"), "```", "",
           "Exports of such a day (`cargo bench -p cpumon-export --bench day`):", "", "```", bench("cpumon-export", "day"), "```"]
    return "\n".join(out) + "\n"


if __name__ == "__main__":
    print(chapter())
