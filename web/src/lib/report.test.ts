import { expect, it } from 'vitest';
import type { ReportRow } from './api';
import { groupingOf, limitOf, nameOf, processOf, rowId, sortOf, switchesOf, throttledShare, withinOf } from './report';

const row = (kind: ReportRow['kind'], name: string, more: Partial<ReportRow> = {}): ReportRow => ({
  kind,
  name,
  waits: [],
  points: [],
  ...more,
});
const cc1 = row('group', 'cc1', { pid: 7, process_start_ns: '9007199254740993' });
const short = row('short-lived', 'true');

it('rows have exact keys, and lead to what they are of', () => {
  expect(processOf(cc1)).toBe('7-9007199254740993');
  expect(processOf(short)).toBe('');
  const thread = row('group', 'rustc', { pid: 7, tid: 8, process_start_ns: '5' });
  expect([cc1, short, thread].map(rowId)).toEqual(['group:7-9007199254740993', 'short-lived:true', 'group:7-5/8']);
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
