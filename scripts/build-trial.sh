#!/usr/bin/env bash
# Builds cpumon for trying: target/trial/cpumon, which compiles in a third of the time of an optimized build. In: nothing; installs what is
# missing. Out: the program; exit 0, or what failed.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/install-deps.sh run
[ -e target/trial/cpumon ] || echo "building cpumon for trying, about 4 minutes on 2 CPUs (make install builds the optimized program)"
mkdir -p target
# The page is built beside the compiler, which waits for it before it embeds it.
scripts/build-page.sh >target/page.log 2>&1 &
page=$!
cargo build --profile trial --locked --package cpumon
wait $page || { cat target/page.log >&2; exit 1; }
