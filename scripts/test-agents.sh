#!/usr/bin/env bash
# Builds the static agents (scripts/build-agent.sh) and runs them against a receiver on loopback: that of x86-64 as it is, with nothing but
# itself and /proc, and as on a kernel of 2014; that of aarch64 by qemu. The receiver is checked for aarch64, too. They are built without
# optimization, which takes less time; how large the optimized ones are is tested by scripts/agents.sh. In: nothing, or `build`:
# they are only compiled. Out: exit 0 when all hold, or when a toolchain is missing outside CI, which is reported.
set -euo pipefail
cd "$(dirname "$0")/.."
host=x86_64-unknown-linux-musl device=aarch64-unknown-linux-musl

skip() {
  echo "skipped: agents: $1"
  [ -z "${CI:-}" ] || { echo "test-agents: this must run in CI" >&2; exit 1; }
  exit 0
}

[ "$(uname -m)" = x86_64 ] || skip "needs a machine of x86-64"
for target in $host $device; do
  code=0
  reason=$(scripts/build-agent.sh $target dev 2>&1 | tee >(cat >&2) | tail -1) || code=$?
  [ $code -ne 3 ] || skip "$reason"
  [ $code -eq 0 ] || exit $code
done
[ "${1:-}" != build ] || exit 0
host=$PWD/target/agents/tested/$host/cpumon-agent device=$PWD/target/agents/tested/$device/cpumon-agent

scripts/build-tests.sh
run() {
  echo "── by: $1"
  STATIC_AGENT=$1 scripts/run_tests.py --only cpumon/it static_agent:: --ignored "${@:2}"
}
run "$host"
run "python3 $PWD/testing/agents/old_kernel.py $host" --skip bpf
if [ "$(id -u)" -eq 0 ]; then
  run "$PWD/testing/agents/alone.sh $host" --skip bpf
else
  echo "skipped: agents_alone: needs root"
fi
command -v qemu-aarch64-static >/dev/null || skip "that of aarch64 was not run: needs qemu-user-static"
run "qemu-aarch64-static $device" --skip bpf
