import { expect, test } from 'vitest';
import { queueOf } from './shares';

test('a run queue that was not measured is none, and a gap in it is a gap', () => {
  expect(queueOf({ covered_ns: [1], columns: {} })).toBeNull();
  const columns = { run_queue_ns: { sum: [3e9, null, 0], max: [2e9, null, 0] }, run_queue_max: { max: [4, null, 0] } };
  expect(queueOf({ covered_ns: [2e9, 0, 1e9], columns })).toEqual({
    mean: [1.5, null, 0],
    busiest: [2, null, 0],
    longest: [4, null, 0],
  });
});
