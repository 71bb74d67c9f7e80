import { expect, it } from 'vitest';
import { barOf, lossesOf } from './accounts';

it('names what was lost, and not what was not', () => {
  const summary = { exits_lost: 3, cuts_lost: 1, malformed: 0, permission_denied: null, hidden_left_out: 7, run_ns: 5 };
  expect(lossesOf(summary)).toEqual({
    counted: [
      { label: 'exits lost', count: 3 },
      { label: 'running thread not split at the interval end', count: 1 },
    ],
    hidden: 7,
  });
  expect(lossesOf({})).toEqual({ counted: [], hidden: 0 });
});

it('stacks the modes of a CPU, each on the one before', () => {
  const bar = barOf({ cpu: 3, modes: { user_ns: 30, system_ns: 20, idle_ns: 45, iowait_ns: 5 } }, 1.5);
  expect(bar.busy).toBe(50);
  expect(bar.parts.filter((part) => part.share > 0).map(({ label, from, share }) => [label, from, share])).toEqual([
    ['user', 0, 30],
    ['system', 30, 20],
  ]);
  expect(bar.text).toBe('user 30.0 %, system 20.0 %, iowait 5.0 %, idle 45.0 %, run queue 1.5');
});

it('counts a mode that is not measured as none', () => {
  const bar = barOf({ cpu: 0, modes: { user_ns: 10, steal_ns: NaN, idle_ns: 30 } }, null);
  expect(bar.busy).toBe(25);
  expect(bar.text).toBe('user 25.0 %, iowait 0.0 %, idle 75.0 %');
});

it('has no share of a CPU of which nothing was measured', () => {
  const bar = barOf({ cpu: 0, modes: {} }, null);
  expect(bar.busy).toBeNaN();
  expect(bar.text).toBe('no data');
});
