#!/usr/bin/env bash
# Every check, in the order in which it fails fastest. In: nothing. Out: exit 0 when all hold, and how long each took.
# With CI set, a test that needs root or BPF fails where it cannot run; elsewhere it says that it was skipped, and all are counted.
set -euo pipefail
cd "$(dirname "$0")/.."

step() {
  local name=$1; shift
  local begin=$SECONDS
  echo "── $name"
  "$@"
  echo "   $name: $((SECONDS - begin)) s"
}

# Tests report on standard error that they were skipped (testing/skip.rs).
tests() {
  cargo test --workspace --locked --no-fail-fast 2> >(tee "$messages" >&2)
}
# A missing toolchain counts as one skipped test.
other_targets() {
  "$1" | tee -a "$messages"
}
messages=$(mktemp)
trap 'rm -f "$messages"' EXIT

step "format" cargo fmt --all --check
step "direction" cargo xtask check-direction
step "parameters" cargo xtask check-parameters
step "words" cargo xtask check-words
step "clippy" cargo clippy --workspace --all-targets --locked -- -D warnings
step "dependencies" scripts/test-deny.sh
step "docs" env RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked --quiet
step "tests" tests
step "extension" scripts/test-extension.sh
step "page" scripts/test-page.sh
step "windows" other_targets scripts/test-windows.sh
step "agents" other_targets scripts/test-agents.sh
step "targets" other_targets scripts/check-targets.sh
skipped=$(sed -n 's/^skipped: \([^ ]*\): .*/\1/p' "$messages" | sort -u | wc -l)
if [ "$skipped" -gt 0 ]; then
  echo "$skipped tests skipped$([ "$(id -u)" -eq 0 ] || echo ": not root"); lines above that begin with \"skipped:\" say which and why"
fi
echo "all checks passed in $SECONDS s"
