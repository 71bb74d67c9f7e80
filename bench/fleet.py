"""Chapter: the receiver. A thousand hosts on loopback, and as many as one core takes without losing a datagram."""

import time

import measure as m

PORT = 3999


def serve_and_simulate(hosts, threads, interval_ms, seconds):
    """One run: CPU and memory of the receiver, what arrived against what was sent."""
    with m.folder() as folder:
        store = folder / "store.db"
        command = [m.CPUMON, "serve", "--udp", f"127.0.0.1:{PORT}", "--http", "127.0.0.1:0", "--store", store, "--no-agent"]
        with m.running(command) as process:
            time.sleep(2)
            before, begin = m.cpu_ns(process.pid), time.monotonic()
            sent = m.json_line([m.XTASK, "simulate", "--hosts", hosts, "--threads", threads, "--interval-ms", interval_ms,
                                "--seconds", seconds, "--to", f"127.0.0.1:{PORT}"])
            length = time.monotonic() - begin
            time.sleep(3)
            cpu = (m.cpu_ns(process.pid) - before) / 1e9
            rss = m.rss_kib(process.pid)[1] / 1024
        query = "SELECT count(*) AS rows, coalesce(sum(run_ns), 0) AS run_ns FROM thread_interval"
        kept = m.json_line([m.CPUMON, "sql", "--store", store, "--format", "jsonl", query])
    return {
        "hosts": hosts, "threads": threads, "rate": sent["thread_rows"] / length, "core": cpu / length, "rss": rss,
        "rows": sent["thread_rows"], "lost": sent["thread_rows"] - kept["rows"], "missing_ns": sent["run_ns"] - kept["run_ns"],
    }


def chapter():
    runs = [serve_and_simulate(1_000, 200, 1_000, 20), serve_and_simulate(1_000, 200, 400, 10), serve_and_simulate(1_000, 200, 300, 10)]
    out = ["## The receiver", "",
           "`xtask simulate`: each host sends real v2 frames from an address of its own; 200 threads run in every interval. One `cpumon serve` receives, "
           "decodes, subtracts and stores. The simulation shares the machine's two CPUs. Lost: rows sent less rows that SQL finds in the store.", "",
           "| hosts x threads | rows sent | rows per s | receiver, cores | rows per s and core | lost rows | lost CPU time | peak RSS MiB |",
           "|---|---:|---:|---:|---:|---:|---:|---:|"]
    for r in runs:
        out.append(f"| {r['hosts']:,} x {r['threads']} | {r['rows']:,} | {r['rate']:,.0f} | {r['core']:.2f} | {r['rate'] / r['core']:,.0f} | "
                   f"{r['lost']:,} | {r['missing_ns'] / 1e9:.3f} s | {r['rss']:.0f} |")
    return "\n".join(out) + "\n"


if __name__ == "__main__":
    print(chapter())
