#!/usr/bin/env bash
# The pictures of the README and of the book, from the real program. In: nothing. Out: docs/images/*.png.
# A receiver measures this machine beside a small made-up fleet and a storm of short processes; all on loopback, all ended here.
set -euo pipefail
cd "$(dirname "$0")/.."

chromium=${CHROMIUM:-$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)}
[ -n "$chromium" ] || { echo "screenshots: no Chromium (set CHROMIUM to its path)" >&2; exit 1; }
cargo build --quiet --release --locked --package cpumon --package xtask
directory=$(mktemp -d)
started=()
finish() {
  # A load has children of its own, which would outlive it.
  for pid in "${started[@]}"; do pkill -P "$pid" || true; kill "$pid" 2>/dev/null || true; done
  wait 2>/dev/null || true
  rm -rf "$directory"
}
trap finish EXIT

target/release/cpumon serve --probes sched,waits,irq,wakers --http 127.0.0.1:0 --udp 127.0.0.1:0 --store "$directory/store.sqlite" >"$directory/log" 2>&1 &
started+=($!)
for _ in $(seq 100); do grep -q '^ready ' "$directory/log" && break; sleep 0.1; done
udp=$(sed -n 's/^ready udp=\([^ ]*\).*/\1/p' "$directory/log")
http=$(sed -n 's/^ready .* http=\([^ ]*\).*/\1/p' "$directory/log")
[ -n "$http" ] || { cat "$directory/log" >&2; exit 1; }

target/release/xtask simulate --hosts 14 --threads 120 --seconds 300 --to "$udp" >/dev/null &
started+=($!)
target/release/xtask load --idle 200 --active 60 --processes 4 --seconds 300 >/dev/null &
started+=($!)
sleep 35
target/release/xtask storm --seconds 20 >/dev/null &
started+=($!)
sleep 50
CHROMIUM=$chromium node web/bench/screenshots.mjs "http://$http" docs/images
ls -l docs/images/*.png
