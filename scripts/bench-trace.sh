#!/usr/bin/env bash
# What recording a trace costs, `perf sched record` beside it in the same run, and how fast and in how much memory reports are made.
# Needs root for the BPF source, and perf. In: number of events of the long trace.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --quiet --release --locked --package cpumon --bin cpumon --example trace_cost
cargo build --quiet --release --locked --package cpumon-trace --example report_speed
target/release/examples/trace_cost target/release/cpumon
target/release/examples/report_speed 10000000
# Longer, and no more memory.
target/release/examples/report_speed "${1:-100000000}" mixed
