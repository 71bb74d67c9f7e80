"""Reads CSV files as another program does, without options, and compares them with the same rows as JSON Lines.

Usage: read_csv.py csv|pandas|duckdb|libreoffice FILE.csv…; beside each FILE.csv is FILE.jsonl, where the command writes both. Equal are:
names of columns, number of rows, sums of numbers (cell by cell with Python's own module), and which cells are empty. Exit code 1: they differ.
"""

import csv
import json
import os
import subprocess
import sys
import tempfile
from fractions import Fraction


def flat(row):
    """Cells of a pivot are an object."""
    return {**{name: cell for name, cell in row.items() if name != "values"}, **row.get("values", {})}


def is_number(cell):
    return isinstance(cell, (int, float))


def by_csv(path):
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file, strict=True))
    if any(len(row) != len(rows[0]) for row in rows):
        sys.exit(f"{path}: rows of different lengths")
    return rows[0], rows[1:]


def by_pandas(path):
    import pandas

    table = pandas.read_csv(path, low_memory=False)
    cells = table.astype(object).where(table.notna(), None)
    return list(table.columns), cells.values.tolist()


def by_duckdb(path):
    import duckdb

    table = duckdb.read_csv(path)
    return table.columns, [list(row) for row in table.fetchall()]


def by_libreoffice(path):
    """As a spreadsheet shows it: saved as CSV again, with the cells' own values."""
    with tempfile.TemporaryDirectory() as directory:
        # 44,34,76,1,,0,false,false: commas, quotes, UTF-8, from line 1, cells as they are and not as shown.
        subprocess.run(
            ["soffice", f"-env:UserInstallation=file://{directory}/profile", "--headless", "--convert-to",
             "csv:Text - txt - csv (StarCalc):44,34,76,1,,0,false,false", "--outdir", directory, path],
            check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=300,
        )
        return by_csv(os.path.join(directory, os.path.basename(path)))


READERS = {"csv": by_csv, "pandas": by_pandas, "duckdb": by_duckdb, "libreoffice": by_libreoffice}


def number_of(cell):
    if is_number(cell):
        return cell
    for kind in (int, float):
        try:
            return kind(cell)
        except ValueError:
            pass
    return cell


def differences(reader, path):
    titles, rows = READERS[reader](path)
    lines = path.removesuffix(".csv") + ".jsonl"
    if not os.path.exists(lines):
        if not rows:
            yield "no rows"
        return
    with open(lines, encoding="utf-8") as file:
        expected = [json.loads(line) for line in file]
    if len(rows) != len(expected):
        yield f"{len(rows)} rows, JSON Lines have {len(expected)}"
        return
    if len(titles) != len(set(titles)):
        yield f"columns of the same name: {titles}"
    # A pivot's titles are names, which CSV escapes: there a column is that of the name in the same place.
    is_pivot = any("values" in row for row in expected)
    expected = [flat(row) for row in expected]
    names = list(dict.fromkeys(name for row in expected for name in row))
    if not names:
        return
    if len(titles) != len(names) or not is_pivot and set(titles) != set(names):
        yield f"columns {titles}, JSON Lines have {names}"
        return
    for at, title in enumerate(titles):
        name = names[at] if is_pivot else title
        wanted = [row.get(name) for row in expected]
        cells = [row[at] for row in rows]
        if any(is_number(cell) for cell in wanted):
            cells = [number_of(cell) if cell not in (None, "") else None for cell in cells]
            yield from numbers_differ(reader, title, cells, wanted)
        elif reader in ("csv", "duckdb"):
            if [cell in (None, "") for cell in cells] != [cell in (None, "") for cell in wanted]:
                yield f"{title}: other cells are empty"


def numbers_differ(reader, title, cells, wanted):
    has, wants = [cell is not None for cell in cells], [cell is not None for cell in wanted]
    if has != wants:
        yield f"{title}: other cells have data"
    elif not all(is_number(cell) for cell in cells if cell is not None):
        yield f"{title}: text among numbers"
    elif reader == "csv":
        for row, (cell, right) in enumerate(zip(cells, wanted), 2):
            if cell != right:
                yield f"{title}, row {row}: {cell}, JSON Lines have {right}"
                return
    else:
        # Without rounding; a reader's sums of doubles would differ by their order.
        total, right = (sum(Fraction(cell) for cell in all if cell is not None) for all in (cells, wanted))
        # Readers keep numbers as doubles.
        if abs(total - right) > abs(right) * Fraction(1, 10**12):
            yield f"{title}: sum {float(total)}, JSON Lines have {float(right)}"


def main(reader, paths):
    if not paths:
        sys.exit("no files")
    wrong = [f"{os.path.basename(path)}: {one}" for path in paths for one in differences(reader, path)]
    print(f"{reader}: {len(paths)} files, {len(wrong)} differences", *wrong, sep="\n")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
