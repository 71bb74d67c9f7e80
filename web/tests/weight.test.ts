// What the page weighs. In: dist. Out: fail above 183 kB compressed without the 3D chunk, which loads only when it is opened.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { brotliCompressSync, gzipSync } from 'node:zlib';
import { expect, it } from 'vitest';

const dist = join(import.meta.dirname, '../dist');
const files = readdirSync(dist, { recursive: true, withFileTypes: true })
  .filter((file) => file.isFile())
  .map((file) => join(file.parentPath, file.name));

it('weighs at most 183 kB without the 3D chunk', () => {
  const first = files.filter((file) => !/landscape3d/.test(file));
  const weigh = (pack: (data: Buffer) => Buffer): number =>
    first.reduce((sum, file) => sum + Math.min(pack(readFileSync(file)).length, readFileSync(file).length), 0);
  const [gzip, brotli] = [weigh(gzipSync), weigh(brotliCompressSync)];
  console.log(`page: ${gzip} bytes gzip, ${brotli} bytes brotli`);
  expect(gzip).toBeGreaterThan(50_000);
  expect(gzip).toBeLessThanOrEqual(183_000);
});

it('has no code that its own policy forbids', () => {
  const html = readFileSync(join(dist, 'index.html'), 'utf8');
  expect(html).not.toMatch(/<script(?![^>]*\ssrc=)[^>]*>|<style|\sstyle=|\son\w+=|https?:/i);
  for (const file of files.filter((name) => name.endsWith('.js')))
    expect(readFileSync(file, 'utf8')).not.toMatch(/new Function\(|[^.\w]eval\(/);
});
