#!/usr/bin/env bash
# The examples in doc comments, rustdoc's lints over all libraries, and the book: its links, and what a search in it finds.
# In: nothing. Out: exit 0 when all hold.
set -euo pipefail
cd "$(dirname "$0")/.."
# The build of scripts/build-tests.sh, so that nothing is compiled again. No other test has such a name.
export RUSTC_WORKSPACE_WRAPPER=clippy-driver CLIPPY_ARGS=-Dwarnings__CLIPPY_HACKERY__
RUSTDOC=$PWD/scripts/rustdoc-lints.sh cargo test --quiet --workspace --locked -- '.rs - '

# With MDBOOK or what scripts/install-deps.sh installed.
if [ -z "${MDBOOK:-}" ] && [ ! -x target/tools/mdbook ]; then
  [ -z "${CI:-}" ] || { echo "Error: no mdBook in target/tools, and CI is set" >&2; exit 1; }
  echo "skipped: the book: no mdBook"
  exit 0
fi
scripts/book.py
node scripts/test-book.mjs
