#!/usr/bin/env bash
# Builds what runs on Windows, and tests it under Wine: the crates' own tests, then the agent's program against a receiver of this machine
# (crates/cpumon/tests/it/windows_agent.rs). In: nothing, or `build`: it is only compiled. Out: exit 0 when all pass, or when the toolchain
# (scripts/windows-toolchain.sh) is missing, which is reported. Without wine nothing runs.
set -euo pipefail
cd "$(dirname "$0")/.."

missing() {
  echo "skipped: windows: $1"
  exit 0
}
messages=$(mktemp)
programs=()

# In a subshell: what it sets is for builds only.
build() (
  source scripts/windows-toolchain.sh
  cargo test --no-run "${options[@]}" --package cpumon-files --package cpumon-collect --package cpumon-link \
    --package cpumon-agent --lib \
    2> >(tee "$messages" >&2)
  cargo build "${options[@]}" --package cpumon-agent --bin cpumon-agent
)

end() {
  rm -f "$messages"
  # Ends the programs of this prefix and no others.
  [ -z "${WINEPREFIX:-}" ] || "${wineserver[@]}" -k || true
}
trap end EXIT

build_messages=$(build) || { echo "$build_messages"; exit 1; }
echo "$build_messages"
case $build_messages in *"skipped: windows:"*) exit 0 ;; esac
mapfile -t programs < <(sed -n 's/^ *Executable.*(\(.*\.exe\))$/\1/p' "$messages")
[ ${#programs[@]} -eq 4 ] || { echo "test-windows: ${#programs[@]} of 4 test programs were built" >&2; exit 1; }
[ "${1:-}" != build ] || exit 0

command -v wine >/dev/null || missing "built, but not run: needs wine"
wineserver=(wineserver)
command -v wineserver >/dev/null || wineserver=(/usr/lib/wine/wineserver)
built=$PWD/target/cross/x86_64-pc-windows-gnu/debug
export WINEPREFIX=$PWD/target/cross/wine WINEARCH=win64 WINEDEBUG=-all
x86_64-w64-mingw32-gcc -shared -Os -o "$built/bcryptprimitives.dll" testing/wine/bcryptprimitives.c -ladvapi32
cp "$built/bcryptprimitives.dll" "$built/deps/"

# The server and its programs stay between tests, which would otherwise wait for them again and again. One of an ended run may be there.
mkdir -p "$WINEPREFIX"
"${wineserver[@]}" -k || true
"${wineserver[@]}" -p

# Wine makes its directory first, which takes some seconds. One test at a time: loads beside each other would be no known loads.
for program in "${programs[@]}"; do
  case $program in /*) ;; *) program=$PWD/$program ;; esac
  # Without CI: what needs Linux's root or BPF is skipped here, and runs in the tests of Linux. Snapshots of texts are found without cargo,
  # which does not run under Wine; builds must not see that variable, or all that use snapshots is compiled again, under running tests.
  env -u CI INSTA_WORKSPACE_ROOT="$PWD" timeout 240 wine "$program" --test-threads=1 | tr -d '\r'
done
x86_64-w64-mingw32-windres -o "$built/load.o" testing/wine/load.rc
x86_64-w64-mingw32-gcc -Os -Wall -Wextra -Werror -o "$built/load.exe" testing/wine/load.c "$built/load.o"
scripts/build-tests.sh
WINDOWS_AGENT="wine $built/cpumon-agent.exe" WINDOWS_LOAD="wine $built/load.exe" \
  scripts/run_tests.py --only cpumon/it windows_agent:: --ignored --test-threads=1
