#!/usr/bin/env bash
# Holds deny.toml: licences, sources and versions of every dependency, and known vulnerabilities where their database can be fetched.
# Builds cargo-deny into target/tools when it is not on the path.
set -euo pipefail
cd "$(dirname "$0")/.."

version=0.20.2
deny=$(command -v cargo-deny || true)
if [ -z "$deny" ]; then
  deny=target/tools/bin/cargo-deny
  # Without optimization: it builds in a third of the time and runs for seconds.
  [ -x $deny ] || CARGO_PROFILE_DEV_DEBUG=0 cargo install --quiet --locked --debug --root target/tools --target-dir target/tools/build "cargo-deny@$version"
fi

"$deny" --log-level error check --hide-inclusion-graph bans licenses sources
if timeout 60 "$deny" --log-level off fetch db >/dev/null 2>&1; then
  "$deny" --log-level error check --hide-inclusion-graph --disable-fetch advisories
else
  echo "advisories: skipped, their database cannot be fetched here"
fi
