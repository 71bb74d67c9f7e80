// @vitest-environment jsdom
import { expect, it } from 'vitest';
import type { Report, ReportRow, Series } from './api';
import { groupingOf, limitOf, nameOf, processOf, sortOf, switchesOf, throttledShare, withinOf } from './report';
import { GroupColors, highestIn, whoPlot } from './who-plot';

const row = (kind: ReportRow['kind'], name: string, more: Partial<ReportRow> = {}): ReportRow => ({
  kind,
  name,
  waits: [],
  points: [],
  ...more,
});
const cc1 = row('group', 'cc1', { pid: 7, process_start_ns: '9007199254740993', points: [1.5e9, 5e8] });
const short = row('short-lived', 'true', { points: [0, 3e8] });
const left = [row('rest', '(1 other)'), row('not attributed', '(not attributed)')];
const times = { begin_ns: '0', width_ns: 2e9, covered_ns: [2e9, 2e9] };
const reportOf = (rows: ReportRow[], covered_ns = times.covered_ns): Report =>
  ({ rows, hosts: [{ times: { ...times, covered_ns }, used: [1.6e9, 9e8] }] }) as unknown as Report;
const report = reportOf([cc1, short, ...left]);
const series = {
  begin_ns: '0',
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
  const thread = (tid: number): ReportRow => row('group', 'rustc', { pid: 7, tid, process_start_ns: '5' });
  const threads = [thread(8), thread(9)];
  const byThread = whoPlot(reportOf([...threads, ...left]), series, {
    by: 'thread',
    divide: 1,
    colors: new GroupColors(),
    kept: null,
  });
  expect(byThread.data.lines.slice(0, 2).map((line) => line.label)).toEqual(['rustc 8', 'rustc 9']);
  expect(byThread.colors.size).toBe(2);
  expect(processOf(threads[0]!)).toBe('7-5');
});

it('the end of a span within an interval is no hole; more than an interval is one', () => {
  const gapsOf = (covered_ns: number[], interval_ns: number): number => {
    const stored = { kept: { interval_ns } } as Series;
    const points = reportOf(report.rows, covered_ns);
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
  expect(highestIn(times, series, [1, 3, null, 2])).toEqual([3, 2]);
  const later = { begin_ns: '2000000000', width_ns: 2e9, covered_ns: [2e9] };
  expect(highestIn(later, series, [1, 3, null, null])).toEqual([null]);
});

it('rows have exact keys, and lead to what they are of', () => {
  expect(processOf(cc1)).toBe('7-9007199254740993');
  expect(processOf(short)).toBe('');
  expect(withinOf(cc1, 'program')).toBe('program:cc1');
  expect([withinOf(cc1, 'process'), withinOf(short, 'program')]).toEqual(['', '']);
  expect(nameOf({ ...cc1, name: '0' }, 'user')).toBe('root');
  const rest = (name: string): string => nameOf({ ...cc1, kind: 'rest', name }, 'program');
  expect(['(49000 others)', '(1 other)', '(others)'].map(rest)).toEqual(['(49,000 others)', '(1 other)', '(others)']);
  expect(nameOf({ ...cc1, name: '\u202e' }, 'program')).toBe('\ufffd');
});

it('no data, no limit and zero are three different things', () => {
  const limited = (millionths: number, periods: number): ReportRow =>
    row('group', 'web', {
      limits: { limit: { millionths }, throttle: { periods, throttled_periods: 1, throttled_ns: 5 } },
    });
  expect([limitOf(limited(500_000, 4)), throttledShare(limited(500_000, 4))]).toEqual([0.5, 0.25]);
  expect([limitOf(cc1), throttledShare(cc1), throttledShare(limited(1, 0))]).toEqual([null, null, null]);
  expect(limitOf(row('group', 'web', { limits: { limit: 'unlimited' } }))).toBeNull();
  expect([switchesOf(cc1), switchesOf({ ...cc1, voluntary_switches: 0, involuntary_switches: 0 })]).toEqual([null, 0]);
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
