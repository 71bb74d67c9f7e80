"""docs/benchmarks.md as sections that are replaced one by one: a section is what stands below its own heading of level 2."""

import re

import measure as m

FILE = m.ROOT / "docs/benchmarks.md"


def put(text):
    """Replaces the section with this heading, or adds it at the end. The machine and the day stand below the heading."""
    heading, body = text.strip().split("\n", 1)
    section = f"{heading}\n\nMeasured on {m.machine()}.\n{body}\n"
    old = FILE.read_text()
    parts = re.split(r"(?m)^(?=## )", old)
    same = [at for at, part in enumerate(parts) if part.split("\n", 1)[0] == heading]
    if same:
        parts[same[0]] = section + ("\n" if same[0] + 1 < len(parts) else "")
    else:
        parts[-1] = parts[-1].rstrip("\n") + "\n\n"
        parts.append(section)
    FILE.write_text("".join(parts))


def kept(headings):
    """The sections that other commands wrote: all whose heading is not among these."""
    parts = re.split(r"(?m)^(?=## )", FILE.read_text())[1:] if FILE.exists() else []
    return [part.rstrip("\n") + "\n" for part in parts if part.split("\n", 1)[0] not in headings]
