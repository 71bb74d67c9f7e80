#!/bin/sh
# Cuts the page's font (Inter, of the npm package @fontsource-variable/inter) to the characters and weights that the page itself
# uses: web/src/fonts/inter.woff2. Other letters are drawn in the system's font. Needs Python with fonttools and brotli; the file
# is committed, so a build does not.
set -eu
cd "$(dirname "$0")/.."
from=web/node_modules/@fontsource-variable/inter/files/inter-latin-wght-normal.woff2
into=web/src/fonts/inter.woff2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# ASCII; no-break space, µ, ·, ×; dashes, quotes, …, ‹, ›, arrows, minus, and the mark for no character.
characters=U+0020-007E,U+00A0,U+00B5,U+00B7,U+00D7,U+2013,U+2014,U+2018-201D,U+2026,U+2039,U+203A,U+2190-2193,U+2212,U+FFFD
python3 -m fontTools.varLib.instancer --quiet --no-recalc-timestamp --output "$work/inter.ttf" "$from" wght=400:700
# All numbers of the page stand in columns: digits of one width take the place of the usual ones, which are left out.
python3 - "$work/inter.ttf" <<'END'
import sys
from fontTools.ttLib import TTFont

font = TTFont(sys.argv[1])
gsub = font["GSUB"].table
tabular = {}
for record in gsub.FeatureList.FeatureRecord:
    for nth in record.Feature.LookupListIndex if record.FeatureTag == "tnum" else []:
        for table in gsub.LookupList.Lookup[nth].SubTable:
            tabular |= getattr(table, "ExtSubTable", table).mapping
assert len(tabular) > 40, "the font has no digits of one width"
for table in font["cmap"].tables:
    table.cmap = {code: tabular.get(glyph, glyph) for code, glyph in table.cmap.items()}
font.save(sys.argv[1])
END
# The outline of .notdef is the box that browsers draw for a character of no font: without it such a name is blank. STAT and MVAR
# are for font menus, and for lines under words that follow the weight.
python3 -m fontTools.subset "$work/inter.ttf" --flavor=woff2 --unicodes="$characters" --layout-features=kern \
	--name-IDs=0,1,2,13,14 --notdef-outline --drop-tables+=STAT,MVAR --output-file="$into"
cp web/node_modules/@fontsource-variable/inter/LICENSE web/src/fonts/OFL.txt
ls -l "$into"
