import { expect, test } from 'vitest';
import { AFTER, keptOf, NOT_YET, p99, queueScale, shownHoles } from './shares';

test('what is after the last data of a host that has stopped is not awaited, and it says when it ended', () => {
  const hole = { begin_ms: 1000, end_ms: 2000, reason: AFTER };
  const stored = { first_ns: '0', last_ns: '1000000000', interval_ns: 1e9 };
  const silent = { balanced_ratio: 0.005, late_intervals: 2.5, late_ns: 3e9, silent_intervals: 10, silent_ns: 30e9 };
  const holes = (nowMs: number) => shownHoles([hole], keptOf(stored, silent, nowMs));
  expect(holes(20_000)).toEqual([{ begin_ms: 1000, end_ms: 2000, reason: NOT_YET }]);
  expect(holes(60_000)).toEqual([{ begin_ms: 1000, end_ms: 2000, reason: AFTER, lastMs: 1000 }]);
  expect(shownHoles([{ ...hole, reason: 'restart' }], null)[0]!.reason).toBe('restart');
  // A minute between two intervals: nothing is missing before ten of them.
  const slow = (nowMs: number) => keptOf({ ...stored, interval_ns: 60e9 }, silent, nowMs)?.sends;
  expect([60_000, 600_000, 610_000].map(slow)).toEqual([true, true, false]);
  // Before the receiver has reported how long a host is silent at most.
  expect(keptOf(stored, null, 60_000)?.sends).toBe(false);
  expect(keptOf(null, silent)).toBeNull();
});

test('one outlier does not flatten the mean of an hour, and is named', () => {
  const mean = Array.from({ length: 700 }, (_, at) => 2 + (at % 3));
  const outlier = mean.map((value, at) => (at === 300 ? 4798 : value + 1));
  const scale = queueScale([mean, mean.map((value) => value + 1), outlier]);
  expect(scale.peak).toBe(4798);
  expect(scale.max).toBeGreaterThanOrEqual(8);
  expect(scale.max).toBeLessThan(40);
  // The live plot has no line between the two.
  expect(queueScale([mean, outlier])).toEqual({ max: 9, peak: 4798 });
});

test('without an outlier all of it is drawn', () => {
  const mean = [0.2, 0.5, null, 1];
  expect(queueScale([mean, [1, 2, null, 3], [2, 6, null, 4]])).toEqual({
    max: undefined,
    peak: null,
  });
  expect(queueScale([[null], [null], [null]]).max).toBeUndefined();
});

test('the p99 leaves out one point of a hundred', () => {
  expect(p99([...Array.from({ length: 99 }, () => 1), 50])).toBe(1);
  expect(p99([3])).toBe(3);
  expect(p99([null])).toBe(0);
});
