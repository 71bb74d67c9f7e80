import { expect, it } from 'vitest';
import type { Fleet } from '../lib/api';
import { joinable, roll } from './head';

const STEP = 1e9;
const fleetOf = (hosts: { id: string; age: number; busy: number }[]): Fleet =>
  ({
    hosts: {
      rows: hosts.length,
      columns: {
        id: hosts.map((host) => host.id),
        age_ns: hosts.map((host) => host.age * STEP),
        busy_ratio: hosts.map((host) => host.busy),
      },
    },
  }) as unknown as Fleet;

it('joins the first live value to the sparkline without a hole', () => {
  const fleet = fleetOf([{ id: 'a', age: 0.4, busy: 0.5 }]);
  const first = joinable({ step_ns: STEP, host_ids: ['a'], busy_ratio: [[0.1, null, 0.3, null]] }, fleet);
  // The measured hole stays; a second on its way is none.
  expect(first.busy_ratio).toEqual([[null, 0.1, null, 0.3]]);
  expect(roll(first, fleet).busy_ratio).toEqual([[0.1, null, 0.3, 0.5]]);
});

it('leaves the hole of a host that is silent, and of one that was away for long', () => {
  const spark = (line: (number | null)[]) => ({ step_ns: STEP, host_ids: ['a'], busy_ratio: [line] });
  const silent = spark([0.1, 0.2, null]);
  expect(joinable(silent, fleetOf([{ id: 'a', age: 60, busy: 0 }]))).toEqual(silent);
  const back = spark([0.1, null, null, null, null]);
  expect(joinable(back, fleetOf([{ id: 'a', age: 0, busy: 0 }]))).toEqual(back);
});
