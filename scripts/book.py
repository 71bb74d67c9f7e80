#!/usr/bin/env python3
"""Builds the book: the pages that docs/SUMMARY.md lists, with the commands, the HTTP API and the decisions, by mdBook.

In: the program whose `--help` becomes a page (CPUMON, default target/debug/cpumon), mdBook (MDBOOK, default target/tools/mdbook).
Out: target/book, and how many pages and links it has. A link that leads nowhere and a page of docs/ that is not in the summary end it with
exit status 1. A link to a file that is not a page, such as source code, leads to a copy of that file, so the book needs no network.
"""

import html.parser
import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
import time
import urllib.parse
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
SOURCE = ROOT / "target/book-source"
BOOK = ROOT / "target/book"
# What is made here and is in no file of the repository.
GENERATED = ("commands.md", "api-requests.md", "api-types.md")
ENTRY = re.compile(r"^(?P<indent> *)(?P<mark>- )?\[(?P<title>.*)\]\((?P<target>[^)]+)\)$")
LINK = re.compile(r"(\]\()([^)\s]+)(\))")
FENCE = re.compile(r"^ *```")


def fail(problems):
    for problem in problems:
        print(f"book: {problem}", file=sys.stderr)
    sys.exit(1)


def page_of(path):
    """Where a file of the repository is in the book; the first page is the book's index."""
    if path == DOCS / "questions.md":
        return "index.md"
    if path == DOCS / "adr":
        return "adr/index.md"
    if path.is_relative_to(DOCS):
        return str(path.relative_to(DOCS))
    return {"README.md": "overview.md"}.get(path.name, path.name.lower())


def decisions():
    return sorted((DOCS / "adr").glob("*.md"))


def title_of(path):
    return next(line[2:].strip() for line in path.read_text().splitlines() if line.startswith("# "))


def read_summary():
    """The summary as mdBook reads it, and the page of each file."""
    pages, lines, problems = {}, [], []
    for line in (DOCS / "SUMMARY.md").read_text().splitlines():
        entry = ENTRY.match(line)
        if not entry:
            lines.append(line)
            continue
        target = entry["target"]
        path = (DOCS / target).resolve()
        page = target if target in GENERATED else page_of(path)
        if path in pages:
            problems.append(f"docs/SUMMARY.md: {target} is there twice")
        if target not in GENERATED and not path.exists():
            problems.append(f"docs/SUMMARY.md: there is no {target}")
        pages[path] = page
        lines.append(f"{entry['indent']}{entry['mark'] or ''}[{entry['title']}]({page})")
        if path == DOCS / "adr":
            for decision in decisions():
                pages[decision] = page_of(decision)
                lines.append(f"{entry['indent']}  - [{title_of(decision)}]({pages[decision]})")
    for path in sorted(DOCS.rglob("*.md")):
        if path not in pages and path.name != "SUMMARY.md":
            problems.append(f"{path.relative_to(ROOT)} is not in docs/SUMMARY.md")
    if problems:
        fail(problems)
    return pages, "\n".join(lines) + "\n"


def write(page, text):
    target = SOURCE / "src" / page
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)


def copy(path, page):
    target = SOURCE / "src" / page
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, target)


class Links:
    """Rewrites the links of pages, and copies what they lead to."""

    def __init__(self, pages):
        self.pages = pages
        self.problems = []

    def target(self, path, page, link, line):
        if re.match(r"[a-z]+:", link) or link.startswith("#"):
            return link
        name, _, anchor = link.partition("#")
        there = (path.parent / urllib.parse.unquote(name)).resolve()
        if not there.exists() or not there.is_relative_to(ROOT):
            self.problems.append(f"{path.relative_to(ROOT)}:{line}: there is no {name}")
            return link
        if there in self.pages:
            to = self.pages[there]
        elif there.is_dir():
            self.problems.append(f"{path.relative_to(ROOT)}:{line}: {name} is a directory")
            return link
        elif there.is_relative_to(DOCS) and there.suffix != ".md":
            to = str(there.relative_to(DOCS))
            copy(there, to)
        else:
            # A browser shows a text file, and saves one that it does not know. mdBook takes any `.md` in a name for a page.
            to = f"source/{there.relative_to(ROOT)}.txt".replace(".md.txt", ".txt")
            copy(there, to)
        relative = os.path.relpath(to, os.path.dirname(page) or ".")
        return relative + (f"#{anchor}" if anchor else "")

    def rewrite(self, path, page):
        lines, code = [], False
        for number, line in enumerate(path.read_text().splitlines(), 1):
            code ^= bool(FENCE.match(line))
            if not code:
                line = LINK.sub(lambda found: found[1] + self.target(path, page, found[2], number) + found[3], line)
            lines.append(line)
        return "\n".join(lines) + "\n"


def write_commands(program):
    """Every command with its `--help`, as the program prints it."""
    parts = ["# Commands\n\nWhat `cpumon COMMAND --help` prints. `cpumon man DIRECTORY` writes the same as manual pages.\n"]
    environment = {**{name: value for name, value in os.environ.items() if not name.startswith("CPUMON")}, "COLUMNS": "100"}

    def add(words):
        text = subprocess.run([program, *words, "--help"], check=True, capture_output=True, text=True, env=environment).stdout
        parts.append(f"{'#' * (len(words[:1]) + 1 + (len(words) > 1))} {' '.join(['cpumon', *words])}\n\n```text\n{text.rstrip()}\n```\n")
        listed = re.search(r"^Commands:\n((?:  .*\n)+)", text, re.M)
        for name in re.findall(r"^  (\S+)", listed[1], re.M) if listed else []:
            if name != "help":
                add([*words, name])

    add([])
    write("commands.md", "\n".join(parts))


class Api:
    """The pages that web/openapi.json becomes."""

    def __init__(self, document):
        self.document = document

    def kind(self, schema):
        """A type in words, with links to those that have names."""
        if "$ref" in schema:
            name = schema["$ref"].rsplit("/", 1)[1]
            return f"[{name}](api-types.md#{name.lower()})"
        for join in ("oneOf", "anyOf", "allOf"):
            if join in schema:
                kinds = [self.kind(part) for part in schema[join] if part.get("type") != "null"]
                return (" and " if join == "allOf" else " or ").join(dict.fromkeys(kinds))
        if "enum" in schema:
            return " or ".join(f"`{value}`" for value in schema["enum"])
        kind = schema.get("type", "any")
        kinds = [one for one in (kind if isinstance(kind, list) else [kind]) if one != "null"]
        if kinds == ["array"]:
            return f"list of {self.kind(schema.get('items') or {})}"
        return " or ".join(kinds)

    def rows(self, entries, header):
        lines = [f"| {header} | type | |", "|---|---|---|"]
        for name, schema, required, text in entries:
            text = " ".join((text or "").split()).replace("|", "\\|")
            mark = "" if required else " (optional)"
            lines.append(f"| `{name}`{mark} | {self.kind(schema)} | {escape(text)} |")
        return "\n".join(lines) + "\n"

    def write_requests(self):
        parts = [f"# All requests\n\n{self.document['info']['description']} [HTTP API](http-api.md) says how to use it.\n"]
        for path, methods in self.document["paths"].items():
            for method, request in methods.items():
                parts.append(f"## {method.upper()} `{path}`\n")
                parts.append(escape(request.get("summary", "")) + "\n")
                if request.get("parameters"):
                    rows = [(one["name"], one["schema"], one.get("required"), one.get("description")) for one in request["parameters"]]
                    parts.append(self.rows(rows, "parameter"))
                for status, response in request["responses"].items():
                    if status[0] == "2":
                        contents = response.get("content", {}).items()
                        answers = [f"`{media}`: {self.kind(content.get('schema') or {})}" for media, content in contents]
                        parts.append(f"Answer {status}: {'; '.join(answers) or 'nothing'}.\n")
                others = [status for status in request["responses"] if status[0] not in "2"]
                parts.append(f"Other answers: {', '.join(others)}.\n")
        write("api-requests.md", "\n".join(parts))

    def write_types(self):
        parts = ["# All types\n\nThe answers of the [requests](api-requests.md), by name.\n"]
        for name, schema in sorted(self.document["components"]["schemas"].items(), key=lambda entry: entry[0].lower()):
            parts.append(f"## {name}\n\n{escape(schema.get('description', ''))}\n")
            required, bases = schema.get("required", []), []
            properties = dict(schema.get("properties", {}))
            for base in schema.get("allOf", []):
                required = required + base.get("required", [])
                properties.update(base.get("properties", {}))
                bases += [self.kind(base)] if "$ref" in base else []
            if bases:
                parts.append(f"All fields of {', '.join(bases)}, and:\n")
            if properties:
                rows = [(field, one, field in required, one.get("description")) for field, one in properties.items()]
                parts.append(self.rows(rows, "field"))
            elif not bases:
                parts.append(self.kind(schema) + ".\n")
        write("api-types.md", "\n".join(parts))


def escape(text):
    """Text without a meaning to HTML."""
    return "".join(part if index % 2 else part.replace("<", "&lt;") for index, part in enumerate(re.split(r"(`[^`]*`)", text)))


class Page(html.parser.HTMLParser):
    """The anchors of a page, and where it leads to."""

    def __init__(self, text):
        super().__init__()
        self.anchors, self.links = set(), []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name in ("id", "name") and value:
                self.anchors.add(value)
            elif name in ("href", "src") and value is not None and tag != "base":
                self.links.append(value)


def check_links():
    """The links of the built pages that lead nowhere, and how many there are."""
    pages = {path: Page(path.read_text()) for path in sorted(BOOK.rglob("*.html")) if path.name != "404.html"}
    dead, count = set(), 0
    for path, page in pages.items():
        for link in page.links:
            count += 1
            parts = urllib.parse.urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            there = (path.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else path
            anchor = urllib.parse.unquote(parts.fragment)
            if not there.is_file() or (anchor and there in pages and anchor not in pages[there].anchors):
                dead.add(f"{path.relative_to(BOOK)}: the link {link} leads nowhere")
    return sorted(dead), count, len(pages)


def main():
    begin = time.monotonic()
    program = os.environ.get("CPUMON") or str(ROOT / "target/debug/cpumon")
    mdbook = os.environ.get("MDBOOK") or str(ROOT / "target/tools/mdbook")
    for directory in (SOURCE, BOOK):
        shutil.rmtree(directory, ignore_errors=True)
    pages, summary = read_summary()
    write("SUMMARY.md", summary)
    links = Links(pages)
    for path, page in pages.items():
        if path.is_file():
            write(page, links.rewrite(path, page))
    if links.problems:
        fail(links.problems)
    write("adr/index.md", textwrap.dedent("""\
        # Decisions

        Why things are as they are: one record for each decision, in the order in which they were made.

        """) + "".join(f"- [{title_of(path)}]({path.name})\n" for path in decisions()))
    write_commands(program)
    api = Api(json.loads((ROOT / "web/openapi.json").read_text()))
    api.write_requests()
    api.write_types()
    for path in (DOCS / "book").iterdir():
        shutil.copyfile(path, SOURCE / path.name)
    built = subprocess.run([mdbook, "build", "--dest-dir", str(BOOK), str(SOURCE)], capture_output=True, text=True)
    # A warning is a fault of a page, such as HTML that is not closed.
    complaints = [line.strip() for line in built.stderr.splitlines() if re.search(r"\b(WARN|ERROR)\b", line)]
    if built.returncode or complaints:
        fail(complaints or [built.stderr])
    dead, count, number = check_links()
    if dead:
        fail(dead)
    print(f"target/book: {number} pages, {count} links, none dead, in {time.monotonic() - begin:.1f} s")


if __name__ == "__main__":
    main()
