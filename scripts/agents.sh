#!/usr/bin/env bash
# Builds the agent for every kind of device, each in one file that needs nothing else. In: nothing. Out: target/agents/TARGET/ with
# the programs, target/agents/SHA256SUMS, and a table. What a missing toolchain leaves out is reported; without any program it fails.
set -euo pipefail
cd "$(dirname "$0")/.."
out=target/agents
rm -f "$out/SHA256SUMS"

for target in x86_64-unknown-linux-musl aarch64-unknown-linux-musl; do
  rm -rf "${out:?}/$target"
  code=0
  scripts/build-agent.sh "$target" || code=$?
  # 3: its toolchain is missing, which it reported.
  [ $code -eq 0 ] || [ $code -eq 3 ] || exit $code
done

code=0
scripts/agent-windows.sh || code=$?
[ $code -eq 0 ] || [ $code -eq 3 ] || exit $code

# Name, and what is in it.
contents() {
  case $1 in
    *-linux-musl/*) echo "static, sources bpf and procfs" ;;
    *.exe) echo "no runtime to install, sources nt and toolhelp" ;;
  esac
}
cd "$out"
programs=$(find . -type f \( -name cpumon-agent -o -name '*.exe' \) -printf '%P\n' | sort)
[ -n "$programs" ] || { echo "agents: no program was built" >&2; exit 1; }
# shellcheck disable=SC2086
sha256sum $programs >SHA256SUMS
printf '\n%-50s %12s  %s\n' "target/agents/" bytes contents
for program in $programs; do
  printf '%-50s %12s  %s\n' "$program" "$(stat -c %s "$program")" "$(contents "$program")"
done
