// The page's font holds each character of the page's own words that the whole font has. In: the source, both fonts. Why: one that is
// missing is drawn in another font, and nothing else says so.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { brotliDecompressSync } from 'node:zlib';
import { expect, it } from 'vitest';

const src = join(import.meta.dirname, '../src');
const WHOLE = '../node_modules/@fontsource-variable/inter/files/inter-latin-wght-normal.woff2';

/** Tables whose bytes a WOFF2 file changes, by their numbers in it: glyf and loca unless their version is 3, any other unless it is 0. */
const GLYF = [10, 11];

/** The tables of a WOFF2 font from where each begins. */
function tablesOf(path: string): Map<number, Buffer> {
  const file = readFileSync(path);
  let at = 48;
  const long = (): number => {
    let value = 0;
    for (;;) {
      const byte = file[at++]!;
      value = (value << 7) | (byte & 127);
      if (byte < 128) return value;
    }
  };
  let begin = 0;
  const starts = new Map<number, number>();
  for (let left = file.readUInt16BE(12); left > 0; left -= 1) {
    const flags = file[at++]!;
    const [table, version] = [flags & 63, flags >> 6];
    if (table === 63) at += 4;
    const plain = long();
    starts.set(table, begin);
    begin += (GLYF.includes(table) ? version !== 3 : version !== 0) ? long() : plain;
  }
  const bytes = brotliDecompressSync(file.subarray(at));
  return new Map([...starts].map(([table, start]) => [table, bytes.subarray(start)]));
}

const charactersOf = (path: string): Set<number> => ofCmap(tablesOf(path).get(0)!);

/** Of the subtable with segments (format 4). */
function ofCmap(cmap: Buffer): Set<number> {
  const found = new Set<number>();
  for (let nth = 0; nth < cmap.readUInt16BE(2); nth += 1) {
    const table = cmap.subarray(cmap.readUInt32BE(8 + nth * 8));
    if (table.readUInt16BE(0) !== 4) continue;
    const segments = table.readUInt16BE(6) / 2;
    for (let segment = 0; segment < segments; segment += 1) {
      const end = table.readUInt16BE(14 + segment * 2);
      const first = table.readUInt16BE(16 + segments * 2 + segment * 2);
      for (let code = first; code <= end && code !== 0xffff; code += 1) found.add(code);
    }
  }
  return found;
}

it('has the characters of the page', () => {
  const [ours, whole] = [charactersOf(join(src, 'fonts/inter.woff2')), charactersOf(join(src, WHOLE))];
  expect(whole.size).toBeGreaterThan(220);
  const used = new Set<number>();
  for (let code = 0x20; code < 0x7f; code += 1) used.add(code);
  for (const file of readdirSync(src, { recursive: true, encoding: 'utf8' })) {
    if (!/\.(svelte|ts|json)$/.test(file) || file.endsWith('.test.ts')) continue;
    for (const letter of readFileSync(join(src, file), 'utf8')) used.add(letter.codePointAt(0)!);
  }
  const missing = [...used].filter((code) => whole.has(code) && !ours.has(code));
  expect(missing.map((code) => String.fromCodePoint(code))).toEqual([]);
});

it('has the box for a character that no font has', () => {
  // The contours of glyph 0 (.notdef) are the first number after the head of a glyf table as WOFF2 has it.
  const contours = (path: string): number => tablesOf(join(src, path)).get(10)!.readInt16BE(36);
  expect(contours(WHOLE)).toBeGreaterThan(0);
  expect(contours('fonts/inter.woff2')).toBe(contours(WHOLE));
});
