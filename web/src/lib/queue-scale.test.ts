import { expect, it } from 'vitest';
import { p99, queueScale } from './queue-scale';

it('one outlier does not flatten the mean of an hour, and is named', () => {
  const mean = Array.from({ length: 700 }, (_, at) => 2 + (at % 3));
  const outlier = mean.map((value, at) => (at === 300 ? 4798 : value + 1));
  const scale = queueScale([mean, mean.map((value) => value + 1), outlier]);
  expect(scale.peak).toBe(4798);
  expect(scale.max).toBeGreaterThanOrEqual(8);
  expect(scale.max).toBeLessThan(40);
  // The live plot has no line between the two.
  expect(queueScale([mean, outlier])).toEqual({ max: 9, peak: 4798 });
});

it('without an outlier all of it is drawn', () => {
  const mean = [0.2, 0.5, null, 1];
  expect(queueScale([mean, [1, 2, null, 3], [2, 6, null, 4]])).toEqual({
    max: undefined,
    peak: null,
  });
  expect(queueScale([[null], [null], [null]]).max).toBeUndefined();
});

it('the p99 leaves out one point of a hundred', () => {
  expect(p99([...Array.from({ length: 99 }, () => 1), 50])).toBe(1);
  expect(p99([3])).toBe(3);
  expect(p99([null])).toBe(0);
});
