"""Chapter: bytes on the wire and the size of the agent."""

import measure as m
from storage import bench


def chapter():
    size = m.AGENT.stat().st_size
    out = ["## On the wire, and the agent's size", "",
           f"Slim `cpumon-agent` (`make agent`), stripped, BPF programs included: {size / 1e6:.2f} MB.", "",
           "Encoding and decoding (`cargo bench -p cpumon-wire --bench wire`):", "",
           "```", bench("cpumon-wire", "wire"), "```", "",
           "The receiver's way from datagram to interval (`cargo bench -p cpumon-receiver --bench demux`):", "",
           "```", bench("cpumon-receiver", "demux"), "```", "",
           "Packed records on the simulated machine, beside zstd alone (`cargo bench -p cpumon-wire --bench packing`; recordings of real machines: "
           "docs/adr/0011-connection-packing.md):", "",
           "```", bench("cpumon-wire", "packing"), "```", "",
           "The agent's whole way, by the thread (`cargo bench -p cpumon-agent --bench agent_cost`):", "",
           "```", bench("cpumon-agent", "agent_cost"), "```", "",
           "What TLS and the spool cost beside that (`cargo bench -p cpumon-agent --bench agent_cost -- 0 200 20 agent tls spool unacked`; `unacked`: a receiver that "
           "acknowledges nothing, so that everything goes over TLS and to the disk; wire, disk: bytes for each thread sent, with headers, CPUs, processes, names of "
           "what is new, and what TLS adds, without TCP). Aims: ≤ 0.2 % of a CPU, ≤ 20 MB, ≤ 12 bytes on the wire:", "",
           "```", bench("cpumon-agent", "agent_cost", "0", "200", "20", "agent", "tls", "spool", "unacked"), "```"]
    return "\n".join(out) + "\n"


if __name__ == "__main__":
    print(chapter())
