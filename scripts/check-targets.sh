#!/usr/bin/env bash
# Checks that the programs compile for aarch64-unknown-linux-gnu: receiver and agent on a small computer. Windows and the static agents need no
# check of their own, because test-windows.sh and test-agents.sh build them. In: nothing. Out: exit 0 when all compile, or when the toolchain is
# missing outside CI, which is reported. Takes a compiler with that target (rustup target add), or Debian's rustc-web, cargo-web and rust-web-src.
set -euo pipefail
cd "$(dirname "$0")/.."
target=aarch64-unknown-linux-gnu

skip() {
  echo "skipped: targets: $target: $1"
  [ -z "${CI:-}" ] || { echo "check-targets: this must run in CI" >&2; exit 1; }
  exit 0
}

# Tests of these programs need no debug information.
export CARGO_TARGET_DIR=$PWD/target/cross CARGO_PROFILE_DEV_DEBUG=0
options=(--locked --target "$target")
if [ ! -d "$(rustc --print sysroot)/lib/rustlib/$target" ]; then
  [ -d /usr/lib/rustlib/src/rust/library ] && [ -x /usr/bin/cargo ] ||
    skip "needs 'rustup target add $target', or Debian's rustc-web, cargo-web and rust-web-src"
  export PATH=/usr/bin:$PATH RUSTC=/usr/bin/rustc RUSTC_BOOTSTRAP=1
  options+=(-Zbuild-std=std)
fi

# Nothing is linked, so C is not compiled: this compiler and archiver leave empty files.
made=$CARGO_TARGET_DIR/toolchain/$target
mkdir -p "$made/lib"
cat >"$made/cc" <<'END'
#!/bin/sh
for word; do
  [ "${before:-}" != -o ] || : >"$word"
  before=$word
done
END
cat >"$made/ar" <<'END'
#!/bin/sh
for word; do
  case $word in *.a) : >"$word" ;; esac
done
END
chmod +x "$made/cc" "$made/ar"
name=${target//-/_}
export "CC_$name=$made/cc" "AR_$name=$made/ar" "LIBBPF_SYS_LIBRARY_PATH_$name=$made/lib"
cargo check "${options[@]}" --package cpumon --package cpumon-agent
