"""docs/lab/results.md as sections that are replaced one by one: a section is the text below a heading of level 2. What people
wrote at its end, from the heading "Remarks" of level 3 on, stays."""

import re

import measure as m

FILE = m.ROOT / "docs/lab/results.md"


REMARKS = "### Remarks\n"


def sections():
    """The text before the first heading, then each section."""
    return re.split(r"(?m)^(?=## )", FILE.read_text()) if FILE.exists() else [""]


def with_remarks(text):
    """The section with the remarks that its forerunner has."""
    heading = text.split("\n", 1)[0]
    old = [part for part in sections()[1:] if part.split("\n", 1)[0] == heading and REMARKS in part]
    return text.rstrip("\n") + "\n" + ("\n" + old[0][old[0].index(REMARKS):].rstrip("\n") + "\n" if old else "")


def put(text):
    """Replaces the section with this heading, or adds it at the end. The machine and the day come below the heading."""
    heading, body = text.strip().split("\n", 1)
    section = with_remarks(f"{heading}\n\nMeasured on {m.machine()}.\n{body}\n")
    parts = sections()
    same = [at for at, part in enumerate(parts) if part.split("\n", 1)[0] == heading]
    if same:
        parts[same[0]] = section + ("\n" if same[0] + 1 < len(parts) else "")
    else:
        parts[-1] = parts[-1].rstrip("\n") + "\n\n"
        parts.append(section)
    FILE.write_text("".join(parts))


def kept(headings):
    """The sections that other commands wrote: all whose heading is not among these."""
    return [part.rstrip("\n") + "\n" for part in sections()[1:] if part.split("\n", 1)[0] not in headings]
