#!/bin/sh
# usage: fuzz/run.sh TARGET [libFuzzer options], e.g. fuzz/run.sh v2 -max_total_time=600
# Limits: 512 MB of memory, a second for an input. For inputs with datagrams of 64 kB: fuzz/run.sh demux -max_len=200000.
# Builds a target with coverage on the stable toolchain and runs it. The corpus grows in fuzz/corpus/TARGET.
set -eu
cd "$(dirname "$0")"
target=$1
shift
flags="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4"
flags="$flags -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table"
flags="$flags -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1 --cfg fuzzing"
host=$(rustc -vV | sed -n 's/^host: //p')
RUSTFLAGS="$flags" cargo build --release --target "$host" --bin "$target"
mkdir -p "corpus/$target"
exec "target/$host/release/$target" "corpus/$target" -max_len=4096 -rss_limit_mb=512 -timeout=1 "$@"
