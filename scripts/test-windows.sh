#!/usr/bin/env bash
# Builds what measures on Windows for Windows, and runs its tests under Wine. In: nothing. Out: exit 0 when all pass, or when the
# toolchain is missing, which is reported. Takes a compiler with the target x86_64-pc-windows-gnu (rustup target add), or Debian's
# rustc-web, cargo-web and rust-web-src, which build the standard library first; and gcc-mingw-w64-x86-64. Without wine nothing runs.
set -euo pipefail
cd "$(dirname "$0")/.."

target=x86_64-pc-windows-gnu
export CARGO_TARGET_DIR=$PWD/target/windows
options=(--target "$target")

skip() {
  echo "skipped: windows: $1"
  exit 0
}

command -v x86_64-w64-mingw32-gcc >/dev/null || skip "needs gcc-mingw-w64-x86-64"
if [ ! -d "$(rustc --print sysroot)/lib/rustlib/$target" ]; then
  [ -d /usr/lib/rustlib/src/rust/library ] && [ -x /usr/bin/cargo ] ||
    skip "needs 'rustup target add $target', or Debian's rustc-web, cargo-web and rust-web-src"
  # Debian's compiler has no library for this target, and builds it from the sources, which the stable compiler does only so.
  export PATH=/usr/bin:$PATH RUSTC=/usr/bin/rustc RUSTC_BOOTSTRAP=1
  options+=(-Zbuild-std=std,panic_abort,test)
fi

messages=$(mktemp)
trap 'rm -f "$messages"' EXIT
cargo test --no-run --locked "${options[@]}" --package cpumon-collect --lib 2> >(tee "$messages" >&2)
program=$(sed -n 's/.*Executable.*(\(.*\.exe\))$/\1/p' "$messages")
[ -n "$program" ] || { echo "test-windows: no program was built" >&2; exit 1; }

wine=$(command -v wine || true)
[ -n "$wine" ] || skip "built, but not run: needs wine"
x86_64-w64-mingw32-gcc -shared -Os -o "$(dirname "$program")/bcryptprimitives.dll" testing/wine/bcryptprimitives.c -ladvapi32
export WINEPREFIX=$CARGO_TARGET_DIR/wine WINEARCH=win64 WINEDEBUG=-all
# Wine makes its directory first, which takes some seconds. One test at a time: loads beside each other would be no known loads.
timeout 240 "$wine" "$program" --test-threads=1 | tr -d '\r'
