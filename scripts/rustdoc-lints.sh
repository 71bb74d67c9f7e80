#!/usr/bin/env bash
# rustdoc for `cargo test --doc`: runs the examples of a crate as it is asked to, and then rustdoc's lints over the same crate with the same
# libraries, which `cargo doc` would compile once more. In: rustdoc's arguments. Out: its exit status.
set -euo pipefail

rustdoc "$@"
[[ " $* " == *" --test "* ]] || exit 0
lints=()
while [ $# -gt 0 ]; do
  case $1 in
    --test) ;;
    --test-run-directory | --test-args | --test-runtool | --test-runtool-arg) shift ;;
    *) lints+=("$1") ;;
  esac
  shift
done
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
rustdoc "${lints[@]}" -Dwarnings --out-dir "$out"
