import { expect, it } from 'vitest';
import type { Sums } from './api';
import { compare } from './compare';

const sums = (covered_ns: number, runs: Record<string, number>): Sums =>
  ({ covered_ns, processes: { rows: Object.keys(runs).length, columns: { name: Object.keys(runs), run_ns: Object.values(runs) } } }) as unknown as Sums;

it('puts the largest change first', () => {
  const rows = compare(sums(100, { a: 10, b: 50 }), sums(100, { a: 30, c: 5 }));
  expect(rows.map(({ name, change }) => [name, change])).toEqual([['b', -50], ['a', 20], ['c', 5]]);
});

it('of a span without data nothing is known: the other one orders the rows', () => {
  const rows = compare(sums(0, {}), sums(100, { a: 1, b: 20, c: 3 }));
  expect(rows.map(({ name, before, change }) => [name, before, change])).toEqual([['b', null, null], ['c', null, null], ['a', null, null]]);
});
