// What the page weighs. In: dist. Out: fail where opening a view takes more than 136 kB compressed, or all views together more than
// 183 kB; the 3D chunk and the view of a trace, which load only when they are opened, are left out: that view has a limit of its own.
import { readdirSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { expect, it } from 'vitest';

const dist = join(import.meta.dirname, '../dist');
const files = readdirSync(dist, { recursive: true, withFileTypes: true })
  .filter((file) => file.isFile())
  .map((file) => join(file.parentPath, file.name))
  .filter((file) => !/landscape3d/.test(file));
const isOfTrace = (file: string): boolean => /^Trace-/.test(basename(file));
const weigh = (names: Iterable<string>): number =>
  [...names].reduce((sum, file) => {
    const plain = readFileSync(file);
    return sum + Math.min(gzipSync(plain).length, plain.length);
  }, 0);
const named = (pattern: RegExp): string[] => files.filter((file) => pattern.test(basename(file)));

/** A file with all that it imports at once; what is imported later is left out. */
function withImports(file: string, found = new Set<string>()): Set<string> {
  if (found.has(file)) return found;
  found.add(file);
  for (const [, name] of readFileSync(file, 'utf8').matchAll(/(?:from|import)\s*["'`]\.\/([^"'`]+\.js)["'`]/g)) {
    const imported = files.find((one) => basename(one) === name);
    if (imported) withImports(imported, found);
  }
  return found;
}

const VIEWS = ['LivePlot', 'History', 'Process', 'Landscape', 'Export', 'Trace'];

it.each(VIEWS)('%s opens with at most 136 kB', (view) => {
  const all = new Set([...named(/^index\.html$|^icon|\.css$|\.woff2$|feed\.worker/)]);
  for (const first of [...named(/^index-.*\.js$/), ...named(new RegExp(`^${view}-.*\\.js$`))])
    for (const file of withImports(first)) all.add(file);
  const gzip = weigh(all);
  console.log(`${view}: ${gzip} bytes gzip in ${all.size} files`);
  expect(gzip).toBeGreaterThan(70_000);
  expect(gzip).toBeLessThanOrEqual(136_000);
});

// A module that a dialog and every view share belongs to the base: otherwise each view waits for all dialogs.
it('begins without dialogs and charts', () => {
  const loaded = (view: string): string[] =>
    named(new RegExp(`^${view}-.*\\.js$`))
      .flatMap((file) => [...withImports(file)])
      .map((file) => basename(file).split('-')[0]!);
  expect(loaded('index').sort()).toEqual(['base', 'index']);
  for (const view of VIEWS) expect(loaded(view), view).not.toContain('dialogs');
});

it('has at most 20 kB more for the view of a trace', () => {
  const gzip = weigh(files.filter(isOfTrace));
  console.log(`trace: ${gzip} bytes gzip`);
  expect(gzip).toBeGreaterThan(5_000);
  expect(gzip).toBeLessThanOrEqual(20_000);
});

it('weighs at most 183 kB without the 3D chunk and the view of a trace', () => {
  const gzip = weigh(files.filter((file) => !isOfTrace(file)));
  console.log(`page: ${gzip} bytes gzip`);
  expect(gzip).toBeGreaterThan(50_000);
  expect(gzip).toBeLessThanOrEqual(183_000);
});

it('has no code that its own policy forbids', () => {
  const html = readFileSync(join(dist, 'index.html'), 'utf8');
  expect(html).not.toMatch(/<script(?![^>]*\ssrc=)[^>]*>|<style|\sstyle=|\son\w+=|https?:/i);
  for (const file of files.filter((name) => name.endsWith('.js')))
    expect(readFileSync(file, 'utf8')).not.toMatch(/new Function\(|[^.\w]eval\(/);
});
