#!/usr/bin/env bash
# Reads every CSV export and report as pandas, DuckDB and LibreOffice do without options, and compares them with JSON Lines. On demand:
# it needs a package index for the first two (into target/csv-readers) and LibreOffice (Debian: libreoffice-calc-nogui, 290 MB).
set -euo pipefail
cd "$(dirname "$0")/.."

readers=csv,pandas,duckdb
venv=target/csv-readers
if ! "$venv/bin/python" -c 'import duckdb, pandas' 2>/dev/null; then
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet duckdb pandas
fi
if command -v soffice >/dev/null 2>&1; then
  readers+=,libreoffice
else
  echo "LibreOffice: skipped, there is no soffice"
fi
"$venv/bin/python" -c 'import duckdb, pandas; print(f"DuckDB {duckdb.__version__}, pandas {pandas.__version__}")'
CSV_PYTHON="$PWD/$venv/bin/python" CSV_READERS=$readers \
  cargo test --locked --package cpumon --test it -- csv_readers --nocapture
