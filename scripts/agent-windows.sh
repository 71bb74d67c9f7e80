#!/usr/bin/env bash
# Builds the slim agent for Windows: target/agents/cpumon-agent-x86_64-windows.exe, which needs no runtime to be installed. In: nothing.
# Out: exit 0, and how large it is; 3 if the toolchain is missing, which is reported; 1 if the program is larger than 6 MB.
set -euo pipefail
cd "$(dirname "$0")/.."

missing() {
  echo "skipped: agent-windows: $1"
  exit 3
}
failed() {
  echo "agent-windows: $1" >&2
  exit 1
}
source scripts/windows-toolchain.sh

largest=6000000
program=target/agents/cpumon-agent-x86_64-windows.exe
cargo build --profile slim "${options[@]}" --package cpumon-agent --bin cpumon-agent
mkdir -p target/agents
cp "$CARGO_TARGET_DIR/$target/slim/cpumon-agent.exe" "$program"
# Only libraries that every Windows has: none of the compiler's.
if x86_64-w64-mingw32-objdump -p "$program" | grep -iE 'DLL Name: (libgcc|libwinpthread|libstdc)'; then
  failed "$program needs libraries that Windows does not have"
fi
if x86_64-w64-mingw32-objdump -p "$program" | grep -i 'DLL Name: bcrypt\.dll'; then
  failed "$program loads bcrypt.dll (scripts/windows-random.c)"
fi
# Not grep -q, which ends before it has read all, and objdump by a signal.
x86_64-w64-mingw32-objdump -p "$program" | grep '^FileAlignment[[:space:]]*00001000$' >/dev/null ||
  failed "the sections of $program do not begin on pages (scripts/windows-toolchain.sh)"
bytes=$(stat -c %s "$program")
echo "$program: $bytes bytes"
[ "$bytes" -le "$largest" ] || failed "$program is larger than $largest bytes"
