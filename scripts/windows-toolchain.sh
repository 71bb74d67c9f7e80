# How this machine builds for Windows. To be sourced from the root of the repository; sets target, options, CARGO_TARGET_DIR and what
# Debian's compiler needs, or calls `missing` with the reason. Takes a compiler with the target x86_64-pc-windows-gnu (rustup target
# add), or Debian's rustc-web, cargo-web and rust-web-src, which build the standard library first; and gcc-mingw-w64-x86-64.
# shellcheck shell=bash disable=SC2034
target=x86_64-pc-windows-gnu
options=(--locked --target "$target")

command -v x86_64-w64-mingw32-gcc >/dev/null || missing "needs gcc-mingw-w64-x86-64"
if [ ! -d "$(rustc --print sysroot)/lib/rustlib/$target" ]; then
  [ -d /usr/lib/rustlib/src/rust/library ] && [ -x /usr/bin/cargo ] ||
    missing "needs 'rustup target add $target', or Debian's rustc-web, cargo-web and rust-web-src"
  # Debian's compiler has no library for this target, and builds it from the sources, which the stable compiler does only so.
  export PATH=/usr/bin:$PATH RUSTC=/usr/bin/rustc RUSTC_BOOTSTRAP=1
  options+=(-Zbuild-std=std,panic_abort,test)
fi
# Sections on pages of the file: Wine maps such a program, and reads one with sections at other places (512 bytes apart by default) into private
# memory as a whole. Windows maps both.
flags=-Clink-arg=-Wl,--file-alignment=4096
# In the place of bcrypt.dll (scripts/windows-random.c). The linker runs here, so the path is relative: a path with a space would be two flags.
random=target/cross/random
mkdir -p "$random"
printf 'LIBRARY bcryptprimitives.dll\nEXPORTS\n  ProcessPrng\n' >"$random/bcryptprimitives.def"
x86_64-w64-mingw32-dlltool --input-def "$random/bcryptprimitives.def" --output-lib "$random/libbcrypt.a"
x86_64-w64-mingw32-gcc -c -Os -Wall -Wextra -Werror -o "$random/random.o" scripts/windows-random.c
x86_64-w64-mingw32-ar r "$random/libbcrypt.a" "$random/random.o"
export CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUSTFLAGS="$flags -Lnative=$random"
# Tests of these programs need no debug information.
export CARGO_TARGET_DIR=$PWD/target/cross CARGO_PROFILE_DEV_DEBUG=0
