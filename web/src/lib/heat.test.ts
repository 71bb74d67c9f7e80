import { expect, test } from 'vitest';
import { drawCells, lifeMark } from './heat';

function drawn(values: (number | null)[], pixels: number): number[][] {
  const all: number[][] = [];
  drawCells(values, pixels, (...cell) => all.push(cell));
  return all;
}

test('cells lie beside each other on whole pixels', () => {
  expect(drawn([1, null, 0, 4], 10)).toEqual([
    [0, 2, 1],
    [5, 2, 0],
    [7, 3, 4],
  ]);
  expect(drawn([], 10)).toEqual([]);
});

test('a busy second narrower than a pixel is seen wherever it is', () => {
  for (const pixels of [7, 333, 1000, 2999]) {
    for (let busy = 0; busy < 3000; busy += 1) {
      if (busy % 97 && busy < 2990) continue;
      const values = Array.from({ length: 3000 }, (_, at) => (at === busy ? 100 : at % 3 ? 1 : null));
      const cells = drawn(values, pixels);
      const at = Math.floor((busy * pixels) / 3000);
      expect(cells.filter(([, , value]) => value === 100).map(([left, wide]) => [left, (wide ?? 0) > 0])).toEqual([
        [at, true],
      ]);
      const last = cells.at(-1)!;
      expect(last[0]! + last[1]!).toBe(pixels);
    }
  }
});

test('what began and what ended is marked', () => {
  const mark = (life: string): string => lifeMark({ name: '', values: [], highest: [], life });
  expect(['alive', 'born', 'ended', 'born_ended'].map(mark)).toEqual(['', '+', '†', '‡']);
});
