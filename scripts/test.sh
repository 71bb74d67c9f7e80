#!/usr/bin/env bash
# Every check, in the order in which it fails fastest. In: nothing. Out: exit 0 when all hold, and how long each took.
# With CI set, a test that needs root or BPF fails where it cannot run; elsewhere it says that it was skipped.
set -euo pipefail
cd "$(dirname "$0")/.."

step() {
  local name=$1; shift
  local begin=$SECONDS
  echo "── $name"
  "$@"
  echo "   $name: $((SECONDS - begin)) s"
}

step "format" cargo fmt --all --check
step "direction" cargo xtask check-direction
step "clippy" cargo clippy --workspace --all-targets --locked -- -D warnings
step "docs" env RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked --quiet
step "tests" cargo test --workspace --locked --no-fail-fast
step "extension" scripts/test-extension.sh
step "page" scripts/test-page.sh
echo "all checks passed in $SECONDS s"
