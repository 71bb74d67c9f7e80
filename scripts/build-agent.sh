#!/usr/bin/env bash
# Builds the agent as one static file. In: x86_64-unknown-linux-musl or aarch64-unknown-linux-musl; and a profile of Cargo: slim, unless
# given, or dev, which takes less time, for tests. Out: target/agents/TARGET/cpumon-agent, for dev target/agents/tested/TARGET/cpumon-agent;
# exit code 3 and on standard error what is missing; 1 if it needs libraries or the slim one is larger than 6 MB. Takes a compiler with that
# target (rustup target add), or Debian's rustc-web, cargo-web and rust-web-src, which build the standard library first; for C, gcc for that
# machine and Debian's musl-dev of its architecture.
set -euo pipefail
cd "$(dirname "$0")/.."

target=${1:?say for what: x86_64-unknown-linux-musl or aarch64-unknown-linux-musl}
profile=${2:-slim} largest=6000000
case $profile in
  slim) out=$PWD/target/agents/$target built=slim ;;
  dev) out=$PWD/target/agents/tested/$target built=debug ;;
  *) echo "build-agent: unknown profile '$profile'" >&2; exit 2 ;;
esac
machine=${target%%-*}
musl=/usr/lib/$machine-linux-musl
case $machine in
  x86_64) gcc=gcc architecture=amd64 kernel_headers=/usr/include/x86_64-linux-gnu kernel_package=linux-libc-dev ;;
  # Atomic operations in place: the functions that gcc would call for them are in a library of its own, which is not linked.
  aarch64)
    gcc=aarch64-linux-gnu-gcc architecture=arm64 c_options=-mno-outline-atomics
    kernel_headers=/usr/aarch64-linux-gnu/include kernel_package=linux-libc-dev-arm64-cross
    ;;
  *) echo "build-agent: unknown target '$target'" >&2; exit 2 ;;
esac

missing() {
  echo "$target: needs $1" >&2
  exit 3
}

command -v $gcc >/dev/null || missing "$gcc (Debian: gcc-$machine-linux-gnu)"
[ -e "$kernel_headers/asm/types.h" ] || missing "headers of the kernel (Debian: $kernel_package)"
[ -e "$musl/musl-gcc.specs" ] || missing "musl-dev:$architecture (Debian: dpkg --add-architecture $architecture, apt-get update, then install it)"

# Tests of these programs need no debug information.
export CARGO_TARGET_DIR=$PWD/target/cross CARGO_PROFILE_DEV_DEBUG=0
made=$CARGO_TARGET_DIR/toolchain/$target
mkdir -p "$made" "$out"

# Headers of musl first; those of the kernel are the last to be searched.
cat >"$made/cc" <<END
#!/bin/sh
exec $gcc ${c_options:-} "\$@" -specs $musl/musl-gcc.specs -idirafter $made/include -idirafter $kernel_headers -idirafter /usr/include
END
chmod +x "$made/cc"
options=(--target "$target")
flags=()
if [ ! -d "$(rustc --print sysroot)/lib/rustlib/$target" ]; then
  [ -d /usr/lib/rustlib/src/rust/library ] && [ -x /usr/bin/cargo ] ||
    missing "'rustup target add $target', or Debian's rustc-web, cargo-web and rust-web-src"
  # Debian's compiler has no library for this target, and builds it from the sources, which the stable compiler does only so.
  export PATH=/usr/bin:$PATH RUSTC=/usr/bin/rustc RUSTC_BOOTSTRAP=1
  options+=(-Zbuild-std=std,panic_abort)
  # What rustup would have beside that library: the C library's objects, where the compiler searches for them.
  objects=$made/sysroot/lib/rustlib/$target/lib/self-contained
  mkdir -p "$objects"
  ln -sfn /usr/lib/rustlib/src "$made/sysroot/lib/rustlib/src"
  ln -sf "$musl"/{crt1.o,rcrt1.o,crti.o,crtn.o,libc.a} "$objects/"
  for name in crtbegin.o crtbeginS.o crtend.o crtendS.o; do
    ln -sf "$($gcc -print-file-name=$name)" "$objects/$name"
  done
  # Debian's unwinder asks glibc where the tables are. A panic of this program aborts, and its backtrace would be numbers only.
  cp --remove-destination "$($gcc -print-file-name=libgcc_eh.a)" "$objects/libunwind.a"
  echo 'int _dl_find_object(void *at, void *found) { return -1; }' | "$made/cc" -x c -c -Os -fPIC -o "$made/find_object.o" -
  ar rs "$objects/libunwind.a" "$made/find_object.o"
  flags+=(--sysroot "$made/sysroot")
fi
name=${target//-/_}
upper=${name^^}
scripts/static-libs.sh "$made/cc" "$made"
export "CC_$name=$made/cc" "AR_$name=ar" "LIBBPF_SYS_LIBRARY_PATH_$name=$made/lib"
export "CARGO_TARGET_${upper}_LINKER=$gcc" "CARGO_TARGET_${upper}_RUSTFLAGS=${flags[*]}"
cargo build --profile "$profile" --locked "${options[@]}" --package cpumon-agent --bin cpumon-agent
# The receiver is only checked: it is for small computers of this kind, too.
[ "$profile $machine" != "dev aarch64" ] || cargo check --locked "${options[@]}" --package cpumon --lib
install -m 755 "$CARGO_TARGET_DIR/$target/$built/cpumon-agent" "$out/cpumon-agent"

failed() {
  echo "build-agent: $1" >&2
  exit 1
}
if readelf --dynamic "$out/cpumon-agent" | grep NEEDED; then
  failed "$out/cpumon-agent needs libraries"
fi
bytes=$(stat -c %s "$out/cpumon-agent")
echo "$out/cpumon-agent: $bytes bytes"
[ "$profile" != slim ] || [ "$bytes" -le "$largest" ] || failed "it is larger than $largest bytes"
