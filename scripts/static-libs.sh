#!/usr/bin/env bash
# Compiles libelf and zlib, which libbpf needs, as static libraries. In: a C compiler and a directory. Out: there lib/libelf.a, lib/libz.a
# and include/. The sources are those that the crate libbpf-sys comes with; its own way (feature `vendored`) needs autotools and argp,
# fts and obstack, which musl lacks and libelf itself does not use.
set -euo pipefail
compiler=$1 out=$2

manifest=$(cargo metadata --locked --format-version 1 | python3 -c '
import json, sys
print(next(p["manifest_path"] for p in json.load(sys.stdin)["packages"] if p["name"] == "libbpf-sys"))')
source=$(dirname "$manifest")
# A newer crate has newer sources.
stamp="$out/$(basename "$source")"
[ ! -e "$stamp" ] || exit 0

mkdir -p "$out/include" "$out/lib"
objects=$(mktemp -d)
trap 'rm -rf "$objects"' EXIT
# What configure would find out of musl 1.2.
cat >"$objects/config.h" <<'END'
#define _GNU_SOURCE 1
#define HAVE_ERR_H 1
#define HAVE_VISIBILITY 1
#define HAVE_FALLTHROUGH 1
#define HAVE_DECL_MEMRCHR 1
#define HAVE_DECL_MEMPCPY 1
#define HAVE_DECL_POWEROF2 1
#define HAVE_DECL_REALLOCARRAY 1
#include <eu-config.h>
END
options=(-c -Os -fPIC -ffunction-sections -fdata-sections -DHAVE_CONFIG_H -DHAVE_UNISTD_H -DHAVE_HIDDEN "-I$objects" "-I$source/zlib")
(
  cd "$objects"
  "$compiler" "${options[@]}" "$source"/zlib/*.c
  ar rcs libz.a ./*.o
  rm -- *.o
  "$compiler" "${options[@]}" "-I$source/elfutils/lib" "-I$source/elfutils/libelf" "$source"/elfutils/libelf/*.c
  ar rcs libelf.a ./*.o
)
cp "$objects"/*.a "$out/lib"
cp "$source"/elfutils/libelf/{elf,gelf,libelf,nlist}.h "$source"/zlib/{zlib,zconf}.h "$out/include"
touch "$stamp"
