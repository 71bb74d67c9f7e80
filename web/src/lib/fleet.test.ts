import { expect, it } from 'vitest';
import type { Fleet } from './api';
import { chartOf, leftOut, Losses, shortAgent, type HostRow } from './fleet';

const many = (count: number): HostRow[] => Array.from({ length: count }, (_, nth) => ({ id: `id${nth}` }) as HostRow);
const RANGE = { since: '1800000000000000001', until: '1800000120000000001' };

it('asks for the sparklines in the order that is shown', () => {
  const of = (sort: string, down: boolean, search = '', count = 3) =>
    chartOf(many(count), { sort, descending: down, filter: search }, RANGE.until);
  expect(of('name', false)).toEqual({ ...RANGE, sort: '', reverse: '' });
  expect(of('name', true)).toEqual({ ...RANGE, sort: '', reverse: 'true' });
  expect(of('busy', true)).toEqual({ ...RANGE, sort: 'busy', reverse: '' });
  expect(of('busy', false)).toEqual({ ...RANGE, sort: 'busy', reverse: 'true' });
  // The receiver's charts know neither the search nor other columns: the hosts are named.
  expect(of('name', false, ' web ')).toEqual({ ...RANGE, host: 'id0,id1,id2', rows: '' });
  expect(of('threads', true)).toEqual({ ...RANGE, host: 'id0,id1,id2', rows: '' });
  expect(String(of('health', true, '', 1000)['host']).split(',')).toHaveLength(200);
});

it('says what a chart of named hosts leaves out', () => {
  const by = (sort: string) => ({ sort, descending: true, filter: '' });
  expect(leftOut(many(1000), by('name'))).toBe('');
  expect(leftOut(many(200), by('health'))).toBe('');
  expect(leftOut(many(201), by('health'))).toBe('The first 200 of the 201 hosts that are shown.');
});

it('ends a chart where all reporting hosts have data', () => {
  const host = (state: string, endMs: number | null): HostRow => ({ id: state, state, endMs }) as HostRow;
  const order = { sort: 'name', descending: false, filter: '' };
  const untilOf = (...hosts: HostRow[]) => chartOf(hosts, order, RANGE.until)['until'];
  expect(untilOf(host('reporting', 1_800_000_119_500.75), host('reporting', 1_800_000_118_000.5))).toBe(
    '1800000118000000000',
  );
  // The silent ones are not waited for, and a clock that is far off sets no end.
  expect(
    untilOf(host('silent', 1_800_000_090_000), host('reporting', null), host('reporting', 1_700_000_000_000)),
  ).toBe(RANGE.until);
});

it('shortens the names of our own agents only', () => {
  expect(['cpumon 0.1.0', 'cpumon', 'cpumonitor 2', 'my cpumon 1', ''].map(shortAgent)).toEqual([
    '0.1.0',
    'cpumon',
    'cpumonitor 2',
    'my cpumon 1',
    '',
  ]);
});

const health = (more: Partial<Fleet['receiver']> = {}): Fleet['receiver'] => ({
  store: 'ok',
  store_error: '',
  store_clock: '',
  stored_error: '',
  store_dropped: 0,
  datagrams: 0,
  udp: [],
  rejected: 0,
  rejected_why: '',
  kernel_dropped: 0,
  ...more,
});
const texts = (losses: Losses, of: Fleet['receiver'], ms: number) => losses.take(of, ms).map((one) => one.text);

it('says nothing of a healthy receiver, and each count that happened', () => {
  expect(texts(new Losses(), health(), 0)).toEqual([]);
  expect(texts(new Losses(), health({ rejected: 5000, kernel_dropped: 1, store_dropped: 2 }), 0)).toEqual([
    '5,000 datagrams refused',
    '1 dropped by the kernel',
    '2 intervals not stored',
  ]);
  expect(texts(new Losses(), health({ store: 'failing', store_dropped: 2 }), 0)).toEqual([]);
});

it('gives the rate of the last minute while a count grows, and only then calls it current', () => {
  const losses = new Losses();
  const why = '10.0.0.9: all bytes are zero';
  losses.take(health({ rejected: 100 }), 0);
  expect(losses.take(health({ rejected: 120, rejected_why: why }), 10_000)).toEqual([
    { text: '120 datagrams refused (2.0/s)', isNow: true, why },
  ]);
  expect(losses.take(health({ rejected: 120, rejected_why: why }), 75_000)).toEqual([
    { text: '120 datagrams refused', isNow: false, why },
  ]);
  // The receiver was started again.
  expect(losses.take(health({ rejected: 3 }), 76_000)).toEqual([
    { text: '3 datagrams refused', isNow: false, why: '' },
  ]);
});
