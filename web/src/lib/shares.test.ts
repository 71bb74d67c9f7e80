import { expect, test } from 'vitest';
import { AFTER, holesOf, keptOf, NOT_YET, partsOf, queueOf } from './shares';

test('a run queue that was not measured is none, and a gap in it is a gap', () => {
  expect(queueOf({ covered_ns: [1], columns: {} })).toBeNull();
  const columns = { run_queue_ns: { sum: [3e9, null, 0], max: [2e9, null, 0] }, run_queue_max: { max: [4, null, 0] } };
  expect(queueOf({ covered_ns: [2e9, 0, 1e9], columns })).toEqual({
    mean: [1.5, null, 0],
    busiest: [2, null, 0],
    longest: [4, null, 0],
  });
});

test('the parts of a host of Windows have its words, of modes and of sums', () => {
  const ran = { sum: [1] };
  const labels = (names: string[], isWindows: boolean): string[] =>
    partsOf({ columns: Object.fromEntries(names.map((name) => [name, ran])), is_windows: isWindows }).map(
      (part) => part.label,
    );
  const modes = ['user_ns', 'irq_ns', 'softirq_ns'];
  expect(labels(modes, true)).toEqual(['user', 'system', 'ISR', 'DPC']);
  expect(labels(modes, false)).toEqual(['user', 'system', 'irq', 'softirq']);
  expect(labels(['ledger_softirq_ns'], true)).toEqual(['threads', 'DPC']);
});

test('the last point is no gap while its interval has not ended', () => {
  const answer = { begin_ns: '0', width_ns: 5e8, covered_ns: [1, 1, 0, 0], gaps: [] };
  const reasons = (lastMs: number | null, nowMs: number): string[] =>
    holesOf(answer, lastMs === null ? null : { firstMs: -1e6, lastMs, sends: true }, nowMs).map((hole) => hole.reason);
  expect(reasons(1000, 2000)).toEqual([NOT_YET]);
  // What is stored was read a moment after the points, and has the next interval.
  expect(reasons(2000, 2000)).toEqual([NOT_YET]);
  expect(reasons(2000, 60_000), 'drawn again later').toEqual([NOT_YET]);
  expect(reasons(null, 2000), 'of a process').toEqual([NOT_YET]);
  // Long past, and data came later: that is a hole.
  expect(reasons(50_000, 60_000)).toEqual(['no data']);
  expect(reasons(null, 60_000)).toEqual(['no data']);
});

test('what is after the last data of a host that has stopped is not awaited, and it says when it ended', () => {
  const answer = { begin_ns: '0', width_ns: 5e8, covered_ns: [1, 1, 0, 0], gaps: [] };
  const stored = { first_ns: '0', last_ns: '1000000000', interval_ns: 1e9 };
  const silent = { balanced_ratio: 0.005, late_intervals: 2.5, late_ns: 3e9, silent_intervals: 10, silent_ns: 30e9 };
  const holes = (nowMs: number) => holesOf(answer, keptOf(stored, silent, nowMs), nowMs);
  expect(holes(20_000)).toEqual([{ begin_ms: 1000, end_ms: 2000, intervals: 0, reason: NOT_YET }]);
  expect(holes(60_000)).toEqual([{ begin_ms: 1000, end_ms: 2000, intervals: 0, reason: AFTER, lastMs: 1000 }]);
  // A minute between two intervals: nothing is missing before ten of them.
  const slow = (nowMs: number) => keptOf({ ...stored, interval_ns: 60e9 }, silent, nowMs)?.sends;
  expect([60_000, 600_000, 610_000].map(slow)).toEqual([true, true, false]);
  // Before the receiver has reported how long a host is silent at most.
  expect(keptOf(stored, null, 60_000)?.sends).toBe(false);
  expect(keptOf(null, silent)).toBeNull();
});
