#!/usr/bin/env bash
# Builds the static agents (scripts/build-agent.sh) and runs them against a receiver on loopback: that of x86-64 as it is, with nothing but
# itself and /proc, and as on a kernel of 2014; that of aarch64 by qemu. In: nothing. Out: exit 0 when all hold, or when a toolchain is missing
# outside CI, which is reported.
set -euo pipefail
cd "$(dirname "$0")/.."
host=x86_64-unknown-linux-musl device=aarch64-unknown-linux-musl most_bytes=6000000

skip() {
  echo "skipped: agents: $1"
  [ -z "${CI:-}" ] || { echo "test-agents: this must run in CI" >&2; exit 1; }
  exit 0
}

[ "$(uname -m)" = x86_64 ] || skip "needs a machine of x86-64"
for target in $host $device; do
  code=0
  scripts/build-agent.sh $target || code=$?
  [ $code -ne 3 ] || skip "the line above says what is missing"
  [ $code -eq 0 ] || exit $code
  program=target/agents/$target/cpumon-agent
  bytes=$(stat -c %s "$program")
  echo "$target: $bytes bytes"
  [ "$bytes" -le $most_bytes ] || { echo "test-agents: $program is larger than $most_bytes bytes" >&2; exit 1; }
  if readelf --dynamic "$program" | grep NEEDED; then
    echo "test-agents: $program needs libraries" >&2
    exit 1
  fi
done

run() {
  echo "── by: $1"
  STATIC_AGENT=$1 cargo test --locked --quiet --package cpumon --test it static_agent:: -- --ignored "${@:2}"
}
run "$PWD/target/agents/$host/cpumon-agent"
run "python3 $PWD/testing/agents/old_kernel.py $PWD/target/agents/$host/cpumon-agent" --skip bpf
if [ "$(id -u)" -eq 0 ]; then
  run "$PWD/testing/agents/alone.sh $PWD/target/agents/$host/cpumon-agent" --skip bpf
else
  echo "skipped: agents_alone: needs root"
fi
command -v qemu-aarch64-static >/dev/null || skip "built, but not run: needs qemu-user-static"
run "qemu-aarch64-static $PWD/target/agents/$device/cpumon-agent" --skip bpf
