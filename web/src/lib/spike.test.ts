import { expect, it } from 'vitest';
import type { Chart } from './api';
import { highest, pieceAt, findPeak, newestMoment } from './spike';

const points = { begin_ms: [0, 1000, 2000, 3000], width_ms: 1000, covered_ms: [1, 1, 0, 1] };

function chart(values: (number | null)[], width_ms = 1000): Chart {
  const begin_ms = values.map((_, nth) => nth * width_ms);
  const lines = [{ label: 'user', values }];
  const covered_ms = values.map((value) => (value === null ? 0 : width_ms));
  return { times: { begin_ms, width_ms, covered_ms }, body: { kind: 'lines', lines } } as unknown as Chart;
}

it('finds the point under a click: points stand where their time ends', () => {
  expect(pieceAt(chart([1, 0, null, 1]), 2000)).toEqual({ sinceMs: 1000, untilMs: 2000 });
  expect(pieceAt(chart([1, 0, null, 1]), 2400)).toEqual({ sinceMs: 1000, untilMs: 2000 });
  expect(pieceAt(chart([1, 0, null, 1]), -9000)).toEqual({ sinceMs: 0, untilMs: 1000 });
  expect(pieceAt(chart([1, 0, null, 1]), 99_000)).toEqual({ sinceMs: 3000, untilMs: 4000 });
  expect(pieceAt(chart([1, 0, null, 1]), 3000)).toBeNull();
  expect(pieceAt(chart([]), 5)).toBeNull();
});

it('finds the highest, in the middle of an interval that spans several points', () => {
  expect(
    highest(points, [
      [1, 3, 2, null],
      [1, 9, 2, null],
    ]),
  ).toEqual({ sinceMs: 1000, untilMs: 2000 });
  expect(highest(points, [[null, 5, 5, 5]])).toEqual({ sinceMs: 2000, untilMs: 3000 });
  expect(highest(points, [[null, null]])).toBeNull();
});

it('finds the interval of a peak by zooming in', async () => {
  const peakMs = 61_234;
  const spans: number[] = [];
  const found = await findPeak({ sinceMs: 0, untilMs: 3_600_000 }, 1000, ({ sinceMs, untilMs }, points) => {
    spans.push(untilMs - sinceMs);
    const width = Math.max((untilMs - sinceMs) / points, 500);
    const first = sinceMs + Math.floor((peakMs - sinceMs) / width) * width;
    return Promise.resolve({ sinceMs: first, untilMs: first + width });
  });
  expect(Math.abs(found - peakMs)).toBeLessThan(1000);
  expect(spans.length).toBeLessThanOrEqual(4);
});

it('stays with the last piece where nothing more is known', async () => {
  expect(await findPeak({ sinceMs: 1000, untilMs: 9000 }, 1000, () => Promise.resolve(null))).toBe(5000);
});

it('begins with the newest moment that has data', () => {
  const charts = [chart([5, 0, null])];
  expect(newestMoment({ charts })).toBe('1999000000');
  expect(newestMoment({ charts, kept: { first_ns: '0', last_ns: '1500000000', interval_ns: 1e9 } })).toBe('1499999999');
  expect(newestMoment({ charts: [chart([null, null])] })).toBeNull();
});
