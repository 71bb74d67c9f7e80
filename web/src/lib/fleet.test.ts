import { expect, it } from 'vitest';
import { chartOf, leftOut, type HostRow } from './fleet';

const many = (count: number): HostRow[] => Array.from({ length: count }, (_, nth) => ({ id: `id${nth}` }) as HostRow);
const RANGE = { since: '1800000000000000001', until: '1800000120000000001' };

it('asks for the sparklines in the order that is shown', () => {
  const of = (sort: string, down: boolean, search = '', count = 3) => chartOf(many(count), sort, down, search, RANGE.until);
  expect(of('name', false)).toEqual({ ...RANGE, sort: '', reverse: '' });
  expect(of('name', true)).toEqual({ ...RANGE, sort: '', reverse: 'true' });
  expect(of('busy', true)).toEqual({ ...RANGE, sort: 'busy', reverse: '' });
  expect(of('busy', false)).toEqual({ ...RANGE, sort: 'busy', reverse: 'true' });
  // The receiver's charts know neither the search nor other columns: the hosts are named.
  expect(of('name', false, ' web ')).toEqual({ ...RANGE, host: 'id0,id1,id2', rows: '' });
  expect(of('threads', true)).toEqual({ ...RANGE, host: 'id0,id1,id2', rows: '' });
  expect(String(of('loss', true, '', 1000)['host']).split(',')).toHaveLength(200);
});

it('says what a chart of named hosts leaves out', () => {
  expect(leftOut(many(1000), 'name', '')).toBe('');
  expect(leftOut(many(200), 'loss', '')).toBe('');
  expect(leftOut(many(201), 'loss', '')).toBe('The first 200 of the 201 hosts that are shown.');
});
