"""Runs the chapters and writes docs/lab/results.md. Arguments: names of chapters to run alone, which then only print."""

import sys

import fleet
import storage
import polling
import measure as m
import report
import storm
import wire

CHAPTERS = {"polling": polling, "storm": storm, "fleet": fleet, "storage": storage, "wire": wire}


def main(names):
    unknown = [name for name in names if name not in CHAPTERS]
    if unknown:
        raise SystemExit(f"bench: no chapter {', '.join(unknown)}; there are {', '.join(CHAPTERS)}")
    for program in (m.XTASK, m.CPUMON, m.AGENT):
        if not program.exists():
            raise SystemExit(f"bench: {program} is missing; run `make bench`")
    texts = []
    for name in names or CHAPTERS:
        print(f"bench: {name}", file=sys.stderr, flush=True)
        texts.append(CHAPTERS[name].chapter())
        print(texts[-1], flush=True)
    if not names:
        head = ("# Benchmarks\n\nWritten by `make bench`; peers run beside cpumon in the same session. Absolute times are of one machine, ratios hold better.\n\n"
                f"Machine: {m.machine()}.\n\n")
        # What other commands measured (`make bench-accounting`, `make soak`) stays as it is.
        others = report.kept({text.split("\n", 1)[0] for text in texts})
        report.FILE.write_text(head + "\n".join([*map(report.with_remarks, texts), *others]))


if __name__ == "__main__":
    main(sys.argv[1:])
