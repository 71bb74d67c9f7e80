// @vitest-environment jsdom
import { expect, it } from 'vitest';
import { newest, nice, options, stack, type PlotData } from './plot';

it('stacks areas, keeps gaps as gaps, leaves lines alone', () => {
  const lines = [
    { label: 'user', color: '', values: [1, null, 3], stroke: 'area' as const },
    { label: 'system', color: '', values: [1, null, 1], stroke: 'area' as const },
    { label: 'line', color: '', values: [9, 9, null], stroke: 'solid' as const },
  ];
  expect(stack(lines)).toEqual([
    [1, null, 3],
    [2, null, 4],
    [9, 9, null],
  ]);
});

it('ends an axis a little above the largest value', () => {
  expect([0, 0.7, 95, 100, 395, 800].map((max) => nice(max))).toEqual(
    [1, 0.8, 100, 150, 500, 1000].map((value) => expect.closeTo(value, 6) as number),
  );
});

it('ends an axis at all CPUs where they are nearly used, to within 1 %', () => {
  expect([20, 120, 140, 199.9, 200.4, 260].map((max) => nice(max, 200))).toEqual([30, 150, 200, 200, 200, 300]);
});

it('has its ticks at whole days of the zone that is shown', () => {
  const before = process.env['TZ'];
  process.env['TZ'] = 'Asia/Kolkata';
  try {
    const setup = {
      width: 400,
      height: 100,
      left: 44,
      unit: '',
      now: () => ({ data: { times: [], lines: [], gaps: [] }, range: null, mark: null, selected: null }),
    };
    const midnight = Date.UTC(2026, 6, 1) / 1000;
    const at = (zone: 'utc' | 'local'): number[] => {
      const date = options({ ...setup, zone }).tzDate!(midnight);
      return [date.getHours(), date.getMinutes()];
    };
    expect([at('utc'), at('local')]).toEqual([
      [0, 0],
      [5, 30],
    ]);
  } finally {
    process.env['TZ'] = before;
  }
});

it('shows the newest point with values, not one of which only the peak is known', () => {
  const data = (own: (number | null)[], peak: (number | null)[]): PlotData => ({
    times: [1, 2, 3],
    lines: [
      { label: 'cc1', color: '#000000', values: own, stroke: 'area' as const },
      { label: 'peak interval', color: '#000000', values: peak, stroke: 'dashed' as const },
    ],
    gaps: [],
  });
  expect(newest(data([5, 0, null], [9, 8, 7]))).toBe(1);
  expect(newest(data([null, null, null], [9, 8, null]))).toBe(1);
  expect(newest(data([null, null, null], [null, null, null]))).toBe(2);
});
