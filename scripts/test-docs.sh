#!/usr/bin/env bash
# The examples in doc comments, and rustdoc's lints over all libraries. In: nothing. Out: exit 0 when all hold.
set -euo pipefail
cd "$(dirname "$0")/.."
# The build of scripts/build-tests.sh, so that nothing is compiled again. No other test has such a name.
export RUSTC_WORKSPACE_WRAPPER=clippy-driver CLIPPY_ARGS=-Dwarnings__CLIPPY_HACKERY__
RUSTDOC=$PWD/scripts/rustdoc-lints.sh cargo test --quiet --workspace --locked -- '.rs - '
