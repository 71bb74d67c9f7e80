import { expect, it } from 'vitest';
import { lastNight, spanRows } from './fleet-history';

it('gives the night that is over, and the one that is not', () => {
  const utc = (day: number, hour: number) => Date.UTC(2026, 2, day, hour);
  expect(lastNight(utc(10, 9), true)).toEqual([utc(9, 22), utc(10, 6)]);
  expect(lastNight(utc(10, 21), true)).toEqual([utc(9, 22), utc(10, 6)]);
  expect(lastNight(utc(10, 3), true)).toEqual([utc(9, 22), utc(10, 3)]);
  expect(lastNight(utc(10, 23), true)).toEqual([utc(10, 22), utc(10, 23)]);
});

it('has a row a host with percents of all CPUs, and no data apart from zero', () => {
  const rows = spanRows({
    since_ns: '0',
    until_ns: '1',
    resolution: 'minute',
    width_ns: 60e9,
    begin_ns: '0',
    covered_ns: [1, 1],
    hosts: {
      rows: 2,
      total: 2,
      columns: {
        id: ['a', 'b'],
        hostname: ['web', ' '],
        busy_ratio: [0.255, null],
        peak_ratio: [1, null],
        run_queue_per_cpu: [0, null],
      },
    },
    busy_ratio: [
      [0, 0.51],
      [null, null],
    ],
    peak_ratio: [
      [0.1, 1],
      [null, null],
    ],
  } as never);
  expect(rows.map((row) => [row.name, ...row.figures])).toEqual([
    ['web', '25.5', '100.0', '0.00'],
    ['b', '–', '–', '–'],
  ]);
  expect(rows[0]!.values).toEqual([0, 51]);
  expect(rows[1]!.values).toEqual([null, null]);
});
