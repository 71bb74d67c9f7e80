#!/usr/bin/env bash
# Every check. In: nothing. Out: exit 0 when all hold; how long each step took, and at the end of a red run what failed and how to run it
# again. With CI set, a test that needs root or BPF fails where it cannot run; elsewhere it says that it was skipped, and all are counted.
# What a step prints is kept in target/test-logs.
set -euo pipefail
cd "$(dirname "$0")/.."
logs=target/test-logs
rm -rf $logs
mkdir -p $logs
touch $logs/steps
# In CI each build is the first and the last: nothing is kept for the next one.
[ -z "${CI:-}" ] || export CARGO_INCREMENTAL=0

# Ticks of all CPUs since boot: those that the hypervisor gave to others, and all.
ticks() {
  awk '/^cpu / { for (i = 2; i <= 9; i++) all += $i; print $9, all }' /proc/stat
}
began=$(ticks)

# Runs a step: name, command. Says how long it took, and prints all of its output if it failed.
step() {
  local name=$1 begin=$SECONDS code=0
  shift
  "$@" >"$logs/$name.log" 2>&1 </dev/null || code=$?
  printf '%s %s %s %s\n' "$name" $((SECONDS - begin)) $code "$*" >>$logs/steps
  if [ $code -eq 0 ]; then
    echo "── $name: $((SECONDS - begin)) s"
  else
    echo "── $name failed after $((SECONDS - begin)) s:"
    cat "$logs/$name.log"
  fi
  return $code
}

# First everything is compiled, side by side; then it is tested, one step after another: beside a compiler, tests wait for CPUs, and take
# longer than both would.
other_machines() {
  step packages scripts/install-deps.sh test || true
  step windows-compile scripts/test-windows.sh build || true
  step agents-compile scripts/test-agents.sh build || true
  # Last: it waits until the programs of the tests are compiled.
  step extension scripts/test-extension.sh || true
}

dependencies() {
  step dependencies scripts/test-deny.sh || true
}

# What everything else needs.
front() {
  step format cargo fmt --all --check && step page scripts/build-page.sh && step compile scripts/build-tests.sh
}

test_all() {
  step tests scripts/run_tests.py || true
  step browser scripts/test-page.sh browser || true
  # The first two mostly wait, and go first where they do not.
  step agents scripts/test-agents.sh || true &
  local agents=$!
  step docs nice scripts/test-docs.sh || true &
  local docs=$!
  step windows scripts/test-windows.sh || true
  wait $agents $docs
}

failures() {
  awk '$3 != 0' $logs/steps
}

# In three lines a failure: what, whether it may be the machine, how to run it again.
report_failures() {
  local name seconds code command machine
  machine=$(ticks | awk -v began="$began" -v cpus="$(nproc)" -v load="$(cut -d' ' -f1 /proc/loadavg)" -v disk="$(df -Pk . | awk 'END { print int($4 / 1048576) }')" \
    '{ split(began, b); printf "%.1f %% of the CPU time was taken by other machines, load %s on %d CPUs, %d GB of disk free", 100 * ($1 - b[1]) / ($2 - b[2] + 1), load, cpus, disk }')
  failures | while read -r name seconds code command; do
    # Without colours.
    sed -i 's/\x1b\[[0-9;]*m//g' "$logs/$name.log"
    grep -h '^failed: ' "$logs/$name.log" || echo "failed: $name: $(grep -m 1 -A 1 -E '^error|^ FAIL |^Error: ' "$logs/$name.log" | tr '\n' ' ' | grep . || grep -v '^ *$' "$logs/$name.log" | tail -1)" | cut -c1-300
    echo "  the machine: $machine; what was measured beside it is in $logs/$name.log"
    grep -h '^  again: ' "$logs/$name.log" || echo "  again: $command"
  done
}

trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
other_machines &
first=$!
dependencies &
second=$!
front || true
# What all others need is broken: nothing else is worth the time.
if grep -qE '^(format|page|compile) [0-9]+ [1-9]' $logs/steps; then
  report_failures
  exit 1
fi
# While the others still compile: most of it runs on one CPU.
step page-checks scripts/test-page.sh checks || true
wait $first $second
test_all
echo
sort -k2,2nr $logs/steps | awk 'BEGIN { printf "%-16s %7s\n", "step", "seconds" } { printf "%-16s %7d%s\n", $1, $2, $3 == 0 ? "" : "  failed" }'
grep -h -A 10 '^slowest tests:' $logs/tests.log || true
grep -hE '^[0-9]+ passed, [0-9]+ failed$' $logs/tests.log || true
skipped=$(grep -h '^skipped: ' $logs/*.log | sort -u || true)
if [ -n "$skipped" ]; then
  echo "$(wc -l <<<"$skipped") tests skipped$([ "$(id -u)" -eq 0 ] || echo ": not root"):"
  sed 's/^/  /' <<<"$skipped"
fi
if [ -n "$(failures)" ]; then
  report_failures
  exit 1
fi
echo "all checks passed in $SECONDS s"
