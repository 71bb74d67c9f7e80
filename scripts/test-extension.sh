#!/usr/bin/env bash
# The SQLite extension in the programs that will load it: the sqlite3 shell and Python. In: nothing. Out: exit 0 when all hold.
# Lints included: the extension is a workspace of its own, which the main checks do not see.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo fmt --manifest-path extension/Cargo.toml --check
# One compiler run lints and builds, as in scripts/build-tests.sh.
RUSTC_WORKSPACE_WRAPPER=clippy-driver CLIPPY_ARGS=-Dwarnings__CLIPPY_HACKERY__ CARGO_PROFILE_DEV_DEBUG=0 \
  cargo build --quiet --locked --manifest-path extension/Cargo.toml --all-targets
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
store=$directory/store.sqlite
library=$PWD/extension/target/debug/libcpumon_sqlite
scripts/build-tests.sh
target/debug/examples/sample_store "$store"

expect() { # what, expected, found
  if [ "$2" != "$3" ]; then
    printf 'extension: %s\n  expected: %s\n  found:    %s\n' "$1" "$2" "$3" >&2
    exit 1
  fi
}
shell() { sqlite3 "$1" ".load $library" "$2" 2>&1 || true; }

expect "rows" "web|20
=cmd()|10" "$(shell "$store" "SELECT process_name, count(*) FROM thread_interval GROUP BY 1 ORDER BY 2 DESC")"
expect "a bound" "5" "$(shell "$store" "SELECT count(*) FROM process_interval WHERE host = 'sample' AND pid = 100 AND end_ns > 1767225605000000000")"
expect "every table" "1|2|3|20|30|10|10" "$(shell "$store" "SELECT (SELECT count(*) FROM hosts), (SELECT count(*) FROM processes),
  (SELECT count(*) FROM threads), (SELECT count(*) FROM process_interval), (SELECT count(*) FROM thread_interval),
  (SELECT count(*) FROM cpu_interval), (SELECT count(*) FROM host_interval)")"
expect "a function" "5119" "$(shell "$store" "SELECT run_delay_percentile_ns(histogram, 99) FROM (SELECT '[[5119,3]]' AS histogram UNION ALL SELECT NULL)")"
case "$(shell "$store" "DELETE FROM process_interval")" in
  *"may not be modified"*) ;;
  *) echo "extension: a virtual table could be written" >&2; exit 1 ;;
esac
case "$(shell ":memory:" "SELECT 1")" in
  *"open a cpumon store first"*) ;;
  *) echo "extension: loading without a store is not reported" >&2; exit 1 ;;
esac

# Not every Python is built with loadable extensions; Debian's is.
python=/usr/bin/python3
found=$("$python" - "$store" "$library" <<'PYTHON'
import sqlite3, sys
store, library = sys.argv[1:]
connection = sqlite3.connect(f"file:{store}?mode=ro", uri=True)
connection.enable_load_extension(True)
connection.load_extension(library)
print(connection.execute("SELECT sum(run_ns) FROM process_interval WHERE name = 'web'").fetchone()[0])
connection.close()
PYTHON
)
expect "Python" "110000000" "$found"
echo "extension: sqlite3 $(sqlite3 --version | cut -d' ' -f1) and $("$python" --version) read a store"
