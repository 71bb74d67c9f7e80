#!/usr/bin/env bash
# Installs cpumon, the slim agent, manual pages, shell completions and systemd units. In: the prefix (/usr/local) and DESTDIR for packagers.
# Needs `cargo` for what is not built yet and the right to write below the prefix.
set -euo pipefail
cd "$(dirname "$0")/.."
root=${DESTDIR:-}${1:?say where to: scripts/install.sh PREFIX}

cargo build --quiet --release --locked --package cpumon
cargo build --quiet --profile slim --locked --package cpumon-agent
install -D -m 755 target/release/cpumon "$root/bin/cpumon"
install -D -m 755 target/slim/cpumon-agent "$root/bin/cpumon-agent"
install -d "$root/share/man/man1" "$root/share/bash-completion/completions" "$root/share/zsh/site-functions" "$root/share/fish/vendor_completions.d"
target/release/cpumon man "$root/share/man/man1" >/dev/null
target/release/cpumon completions bash >"$root/share/bash-completion/completions/cpumon"
target/release/cpumon completions zsh >"$root/share/zsh/site-functions/_cpumon"
target/release/cpumon completions fish >"$root/share/fish/vendor_completions.d/cpumon.fish"
for unit in cpumon cpumon-agent; do
    install -d "$root/lib/systemd/system"
    sed "s#@PREFIX@#$1#g" "packaging/systemd/$unit.service" >"$root/lib/systemd/system/$unit.service"
    chmod 644 "$root/lib/systemd/system/$unit.service"
done
install -D -m 644 docs/security.md "$root/share/doc/cpumon/security.md"
echo "installed below $root: bin/cpumon, bin/cpumon-agent, manual pages, completions, units cpumon.service and cpumon-agent.service"
