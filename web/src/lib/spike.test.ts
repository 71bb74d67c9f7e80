import { expect, it } from 'vitest';
import { envelope, highest, pieceAt } from './spike';

const buckets = { t_ms: [0, 1000, 2000, 3000], width_ns: 1e9, covered_ns: [1, 1, 0, 1] };

it('finds the point under a click: points stand where their time ends', () => {
  expect(pieceAt(buckets, 2000)).toEqual({ sinceMs: 1000, untilMs: 2000 });
  expect(pieceAt(buckets, 2400)).toEqual({ sinceMs: 1000, untilMs: 2000 });
  expect(pieceAt(buckets, -9000)).toEqual({ sinceMs: 0, untilMs: 1000 });
  expect(pieceAt(buckets, 99_000)).toEqual({ sinceMs: 3000, untilMs: 4000 });
  expect(pieceAt(buckets, 3000)).toBeNull();
  expect(pieceAt({ t_ms: [], width_ns: 0, covered_ns: [] }, 5)).toBeNull();
});

it('finds the highest, in the middle of an interval that spans several points', () => {
  expect(highest(buckets, [1, 9, 2, null])).toEqual({ sinceMs: 1000, untilMs: 2000 });
  expect(highest(buckets, [null, 5, 5, 5])).toEqual({ sinceMs: 2000, untilMs: 3000 });
  expect(highest(buckets, [null, null])).toBeNull();
  expect(
    envelope([
      [1, null, 3],
      [2, null, 1],
    ]),
  ).toEqual([2, null, 3]);
});
