// @vitest-environment jsdom
import { expect, it } from 'vitest';
import type { Chart } from './api';
import { GroupColors, NO_PLOT, plotOf } from './chart-plot';
import { AFTER, NOT_YET } from './shares';

const chart: Chart = {
  title: 'kitchen: CPU use',
  unit: '%CPU: 100 = one CPU',
  since_ms: 0,
  until_ms: 4000,
  times: { begin_ms: [0, 2000], width_ms: 2000, covered_ms: [1, 1] },
  body: {
    kind: 'lines',
    lines: [
      { label: '7-5', key: '7-5', ink: { nth: 0 }, stroke: 'solid', values: [75, null], highest: [] },
      { label: 'user', ink: { named: 'user' }, stroke: 'area', values: [20, null], highest: [] },
      { label: 'peak interval', ink: { named: 'dim' }, stroke: 'dashed', values: [200, null], highest: [] },
    ],
    max: 400,
  },
  holes: [{ begin_ms: 2000, end_ms: 4000, reason: AFTER }],
  absences: [],
  notes: [],
};

it('a point is drawn where it ends, and a line is named as it was chosen', () => {
  const plot = plotOf(chart, { names: new Map([['7-5', 'cc1']]), place: (key) => (key === '7-5' ? 3 : undefined) });
  expect(plot.times).toEqual([2, 4]);
  expect(plot.lines.map(({ label, stroke }) => [label, stroke])).toEqual([
    ['cc1', 'solid'],
    ['user', 'area'],
    ['peak interval', 'dashed'],
  ]);
  expect(plot.lines[0]!.color).not.toBe(plotOf(chart).lines[0]!.color);
  expect(plot.gaps.map((gap) => gap.reason)).toEqual([NOT_YET]);
  const stopped = plotOf(chart, { kept: { firstMs: 0, lastMs: 2000, sends: false } });
  expect(stopped.gaps).toEqual([{ begin_ms: 2000, end_ms: 4000, reason: AFTER, lastMs: 2000 }]);
});

it('before the answer, and of another kind of chart, there is nothing to draw', () => {
  expect(plotOf(undefined)).toBe(NO_PLOT);
  expect(plotOf({ ...chart, body: { kind: 'heatmap', rows: [], cells: 'mean', max: 1 } })).toBe(NO_PLOT);
});

it('a group has the colour that it had, unless another one of the plot has it', () => {
  const colors = new GroupColors();
  const places = (...keys: string[]): number[] => [...colors.assign(keys).values()];
  expect(places('a', 'b', 'c')).toEqual([0, 1, 2]);
  expect(places('c', 'd', 'a')).toEqual([2, 1, 0]);
  expect(places('b', 'd')).toEqual([1, 0]);
});
