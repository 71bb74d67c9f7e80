#!/usr/bin/env bash
# Removes what scripts/install.sh installed, and ends its services. In: the prefix (/usr/local) and DESTDIR, as there.
# Out: what was removed, and which recorded data stays.
set -euo pipefail
prefix=${1:-/usr/local}
root=${DESTDIR:-}$prefix

if [ -z "${DESTDIR:-}" ] && [ -d /run/systemd/system ]; then
  systemctl disable --now cpumon.service cpumon-agent.service 2>/dev/null || true
fi
rm -f "$root"/bin/cpumon "$root"/bin/cpumon-agent
rm -f "$root"/lib/systemd/system/cpumon.service "$root"/lib/systemd/system/cpumon-agent.service
rm -f "$root"/share/man/man1/cpumon.1 "$root"/share/man/man1/cpumon-*.1
rm -f "$root/share/bash-completion/completions/cpumon" "$root/share/zsh/site-functions/_cpumon" "$root/share/fish/vendor_completions.d/cpumon.fish"
rm -rf "$root/share/doc/cpumon"
echo "removed: programs, manual pages, completions, units"
for data in "${DESTDIR:-}"/var/lib/cpumon "${DESTDIR:-}"/var/lib/cpumon-agent; do
  [ ! -e "$data" ] || echo "kept: $data (delete with: rm -r $(readlink -f "$data"))"
done
