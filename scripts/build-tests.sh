#!/usr/bin/env bash
# Compiles every library, program, example and test once, linted by clippy as it is compiled: lints, tests, browser tests and the scripts that
# run programs all use this build. In: web/dist, if the page was built. Out: target/debug, and target/tests.json, where
# scripts/run_tests.py finds the test programs. Does nothing if nothing changed.
set -euo pipefail
cd "$(dirname "$0")/.."

# As `cargo clippy` does it, which only checks: here the same compiler makes the programs too.
export RUSTC_WORKSPACE_WRAPPER=clippy-driver CLIPPY_ARGS=-Dwarnings__CLIPPY_HACKERY__
mkdir -p target
# Several steps call this at once.
messages=$(mktemp target/tests.json.XXXXXX)
trap 'rm -f "$messages"' EXIT
cargo test --workspace --locked --no-run --message-format json-render-diagnostics >"$messages"
mv "$messages" target/tests.json
