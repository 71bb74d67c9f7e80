#!/bin/sh
# Runs a static program where there is nothing but itself, /proc and temporary files: no library, no /etc, no /dev. In: the program and its
# arguments. Needs root. It stays the same process, so what ends this ends the program.
set -eu
program=$(realpath "$1")
shift
[ "${ALONE:-}" ] || exec env ALONE=1 unshare --mount --propagation private "$0" "$program" "$@"
# Mounted on for this process alone.
root=/mnt
mount -t tmpfs tmpfs "$root"
files=${TMPDIR:-/tmp}
mkdir -p "$root/proc" "$root$files"
mount --rbind /proc "$root/proc"
mount --bind "$files" "$root$files"
cp "$program" "$root/program"
unset ALONE
exec chroot "$root" /program "$@"
