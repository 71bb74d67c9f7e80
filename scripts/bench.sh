#!/usr/bin/env bash
# Builds what is measured and runs the chapters of bench/. In: names of chapters (none: all, and docs/lab/results.md is written),
# or `--section NAME`: one that has a section of its own and writes only that; or `--against REV`: an older revision beside this one.
# Needs root for the BPF source.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --quiet --release --locked --package cpumon --package xtask
cargo build --quiet --release --locked --package cpumon-trace --example report_speed
cargo build --quiet --profile slim --locked --package cpumon-agent
if [ "${1:-}" = --section ]; then
  exec python3 "bench/$2.py" --write
fi
if [ "${1:-}" = --against ]; then
  exec python3 bench/against.py "$2"
fi
exec python3 bench/run.py "$@"
