// @vitest-environment jsdom
import { expect, it } from 'vitest';
import type { Report, Series } from './api';
import { groupingOf, nameOf, rowsOf, sortOf, withinOf } from './report';
import { GroupColors, highestIn, whoPlot } from './who-plot';

const report: Report = {
  since_ns: '0',
  until_ns: '4000000000',
  duration_ns: 4e9,
  used_ns: 2.5e9,
  before: null,
  total: 3,
  t_ms: [0, 2000],
  width_ns: 2e9,
  covered_ns: [2e9, 2e9],
  rows: {
    rows: 4,
    total: 4,
    columns: {
      kind: { values: ['group', 'short-lived', 'rest', 'not attributed'], index: [0, 1, 2, 3] },
      name: ['cc1', 'true', '(1 other)', '(not attributed)'],
      pid: [7, null, null, null],
      start_ns: { values: ['9007199254740993'], index: [0] },
      run_ns: [2e9, 3e8, 1e8, 1e8],
      peak_end_ns: ['2000000000', null, null, null],
    },
  },
  points: [[1.5e9, 5e8], [0, 3e8], [], []],
  used_points: [1.6e9, 9e8],
} as unknown as Report;
const series = {
  t_ms: [0, 1000, 2000, 3000],
  width_ns: 1e9,
  covered_ns: [1e9, 1e9, 1e9, 1e9],
  gaps: [],
  columns: { busy_ns: { max: [1e9, 2e9, null, 5e8] } },
} as unknown as Series;

it('areas are the groups and what is left, and add up to all', () => {
  const { data, colors } = whoPlot(report, series, { by: 'process', divide: 1, colors: new GroupColors(), kept: null });
  expect(data.times).toEqual([2, 4]);
  expect(data.lines.map((line) => line.label)).toEqual(['cc1 7', 'true (short-lived)', 'others', 'peak interval']);
  const values = data.lines.map((line) => line.values.map((value) => Math.round(value ?? NaN)));
  expect(values).toEqual([
    [75, 25],
    [0, 15],
    [5, 5],
    [200, 50],
  ]);
  expect([...colors.values()]).toEqual([0, 1]);
  // Threads of one process and of one name have their ids beside it.
  const threads = structuredClone(report);
  Object.assign(threads.rows.columns, {
    kind: ['group', 'group', 'rest', 'not attributed'],
    name: ['rustc', 'rustc', '(1 other)', '(not attributed)'],
    pid: [7, 7, null, null],
    tid: [8, 9, null, null],
    process_start_ns: ['5', '5', null, null],
  });
  const byThread = whoPlot(threads, series, { by: 'thread', divide: 1, colors: new GroupColors(), kept: null });
  expect(byThread.data.lines.slice(0, 2).map((line) => line.label)).toEqual(['rustc 8', 'rustc 9']);
  expect(byThread.colors.size).toBe(2);
  expect(rowsOf(threads)[0]!.process).toBe('7-5');
});

it('the end of a span within an interval is no hole; more than an interval is one', () => {
  const gapsOf = (covered_ns: number[], interval_ns: number): number => {
    const stored = { kept: { interval_ns } } as Series;
    const points = { ...report, t_ms: covered_ns.map((_, at) => at * 2000), covered_ns };
    const measured = { ...series, ...stored };
    const options = { by: 'program', divide: 1, colors: new GroupColors(), kept: null } as const;
    return whoPlot(points, measured, options).data.gaps.length;
  };
  expect(gapsOf([2e9, 2e9, 0], 1e9)).toBe(0);
  expect(gapsOf([2e9, 0, 0, 0], 5e9)).toBe(0);
  expect(gapsOf([2e9, 0, 0, 0], 1e9)).toBe(1);
  expect(gapsOf([2e9, 0, 2e9], 1e9)).toBe(1);
});

it('a group has the colour that it had, unless another one of the plot has it', () => {
  const colors = new GroupColors();
  expect(colors.assign(['a', 'b', 'c'])).toEqual([0, 1, 2]);
  expect(colors.assign(['c', 'd', 'a'])).toEqual([2, 1, 0]);
  expect(colors.assign(['b', 'd'])).toEqual([1, 0]);
});

it('the highest of a finer line is in the point that holds it', () => {
  expect(highestIn({ t_ms: [0, 2000], width_ns: 2e9 }, series, [1, 3, null, 2])).toEqual([3, 2]);
  expect(highestIn({ t_ms: [2000], width_ns: 2e9 }, series, [1, 3, null, null])).toEqual([null]);
});

it('rows have exact keys, and lead to what they are of', () => {
  const [cc1, short] = rowsOf(report);
  expect(cc1).toMatchObject({ process: '7-9007199254740993', peakNs: '2000000000', runNs: 2e9 });
  expect(short!.process).toBe('');
  expect(withinOf(cc1!, 'program')).toBe('program:cc1');
  expect([withinOf(cc1!, 'process'), withinOf(short!, 'program')]).toEqual(['', '']);
  expect(nameOf({ ...cc1!, name: '0' }, 'user')).toBe('root');
  const rest = (name: string): string => nameOf({ ...cc1!, kind: 'rest', name }, 'program');
  expect(['(49000 others)', '(1 other)', '(others)'].map(rest)).toEqual(['(49,000 others)', '(1 other)', '(others)']);
  expect(nameOf({ ...cc1!, name: '\u202e' }, 'program')).toBe('\ufffd');
});

it('the grid’s words for rows and orders mean the same here', () => {
  expect(['list', 'threads', 'user', undefined, 'nonsense'].map(groupingOf)).toEqual([
    'process',
    'thread',
    'user',
    'program',
    'program',
  ]);
  expect(['-vcsw', 'ready', 'name', undefined].map((sort) => sortOf(sort, false))).toEqual([
    'switches',
    'ready',
    'cpu',
    'cpu',
  ]);
  expect([sortOf(undefined, true), sortOf('-change', false), sortOf('-cpu', true)]).toEqual(['change', 'cpu', 'cpu']);
});
